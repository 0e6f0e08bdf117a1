"""What pydantic found wrong with a document that a person wrote, in the words of the document. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pydantic_core import ErrorDetails

from .units import FILL_IN

SHOWN_MAX: Final = 60
"""Characters of a value; a message is one line."""


def complaint(error: ErrorDetails) -> str:
    """Return what is wrong, without its place: what was expected, and what is there."""
    if is_unfilled(error):
        return f"is not filled in: put what it is in place of {FILL_IN}"
    kind = error["type"]
    if kind in ("value_error", "assertion_error"):
        return error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if kind in _WITHOUT_VALUE:
        return _WITHOUT_VALUE[kind](error.get("ctx", {}))
    expected = _expected(kind, error.get("ctx", {}))
    return f"{expected}; it is {_shown(error['input'])}" if expected else f"cannot be {_shown(error['input'])}"


def located(error: ErrorDetails) -> str:
    """Return it with its place: `systems.kafka.start_s: is missing`."""
    where = ".".join(map(str, error["loc"]))
    return f"{where}: {complaint(error)}" if where else complaint(error)


def is_unfilled(error: ErrorDetails) -> bool:
    """Whether a capture's placeholder still stands there."""
    found = error["input"]
    return isinstance(found, str) and found.strip().upper() == FILL_IN


def _expected(kind: str, ctx: Mapping[str, object]) -> str:
    if kind in _LIMITS:
        text, key = _LIMITS[kind]
        return f"expected {text.format(_plain(ctx.get(key)))}"
    if kind in ("literal_error", "enum"):
        return f"expected {ctx.get('expected')}"
    family = kind.split("_", 1)[0]
    return f"expected {_KINDS[family]}" if family in _KINDS else ""


_WITHOUT_VALUE: Final[Mapping[str, Callable[[Mapping[str, object]], str]]] = {
    "missing": lambda _: "is missing",
    "extra_forbidden": lambda _: "is not a known key",
    "json_invalid": lambda ctx: f"is not JSON: {ctx.get('error')}",
    "too_short": lambda ctx: f"expected at least {ctx.get('min_length')}, there are {ctx.get('actual_length')}",
    "too_long": lambda ctx: f"expected at most {ctx.get('max_length')}, there are {ctx.get('actual_length')}",
    "finite_number": lambda _: "expected a finite number",
}
_LIMITS: Final[Mapping[str, tuple[str, str]]] = {
    "greater_than": ("more than {}", "gt"),
    "greater_than_equal": ("at least {}", "ge"),
    "less_than": ("less than {}", "lt"),
    "less_than_equal": ("at most {}", "le"),
    "string_too_short": ("at least {} characters", "min_length"),
    "string_too_long": ("at most {} characters", "max_length"),
    "string_pattern_mismatch": ("a text like {}", "pattern"),
}
_KINDS: Final[Mapping[str, str]] = {
    "bool": "true or false",
    "dict": "keys and values",
    "float": "a number",
    "int": "a whole number",
    "list": "a list",
    "mapping": "keys and values",
    "model": "keys and values",
    "string": "a text",
    "tuple": "a list",
}
"""The texts by the first word of pydantic's error type."""


def _plain(limit: object) -> object:
    """2 in place of 2.0."""
    return int(limit) if isinstance(limit, float) and limit.is_integer() else limit


def _shown(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."
