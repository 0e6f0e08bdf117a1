"""What several commands take and print in the same way."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from pydantic import TypeAdapter, ValidationError
from rich.console import Console

from ..model import Bytes, Capacity, complaint
from ..protocol.net import Address

Command = TypeVar("Command", bound=Callable[..., object])

PIPE_WIDTH: Final = 200
"""Columns of a table that does not go to a terminal."""


def json_option(command: Command) -> Command:
    return click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")(command)


class FiniteRange(click.FloatRange):
    """A number between limits; `nan` and `inf` are none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found: float = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return found


def window_option(text: str) -> Callable[[Command], Command]:
    """Between two looks at a cluster."""
    span = FiniteRange(min=0, max=3600)
    return click.option("--window", "window_s", type=span, default=10.0, show_default=True, help=text)


def wave_option(text: str, default: int | None = 50) -> Callable[[Command], Command]:
    """How much moves at a time."""
    shows = default is not None
    per_broker = click.IntRange(min=1)
    return click.option("--partitions-per-broker", type=per_broker, default=default, show_default=shows, help=text)


class OutputFile(click.Path):
    """What a command makes at its end: that there is no place for it is said at the beginning."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, dir_okay=False, writable=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if path.exists():  # as /dev/stdout: its directory need not be writable
            return path
        directory = path.absolute().parent
        if not directory.is_dir():
            self.fail(f"{path}: cannot be written: there is no directory {directory}", param, ctx)
        if not os.access(directory, os.W_OK):
            self.fail(f"{path}: cannot be written: {directory} may not be written to", param, ctx)
        return path


def write_text(path: Path, text: str) -> None:
    """What a command makes; ClickException says why it cannot be written."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{path}: cannot be written: {error.strerror}") from None


def throttle_rate(value: str | float) -> float:
    """Bytes for each second of "50 MiB/s", "10 Gbit/s", or a plain number: the type of a `--throttle`."""
    return _quantity(_RATE, value)


def byte_size(value: str | float) -> float:
    """Bytes of "10 GiB", or a plain number: the type of an option that is a size."""
    return _quantity(_SIZE, value)


_RATE: Final = TypeAdapter[float](Capacity)
_SIZE: Final = TypeAdapter[float](Bytes)


def _quantity(adapter: TypeAdapter[float], value: str | float) -> float:
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        raise click.BadParameter(complaint(error.errors()[0])) from None


def addresses(bootstrap: Iterable[str], option: str = "--bootstrap") -> list[Address]:
    """Parse `HOST:PORT[,HOST:PORT...]`, given once or more. UsageError names the option and the text."""
    try:
        return [Address.parse(text) for given in bootstrap for text in given.split(",")]
    except ValueError as error:
        raise click.UsageError(f"{option} {error}") from None


def yes_option(question: str) -> Callable[[Command], Command]:
    """Ask on standard error before the command does what cannot be undone, unless --yes is given."""

    def confirmed(context: click.Context, _: click.Parameter, is_given: bool) -> None:
        if not is_given and not context.resilient_parsing:
            click.confirm(question, abort=True, err=True)

    return click.option(
        "--yes", is_flag=True, expose_value=False, callback=confirmed, help="Do it without asking for confirmation."
    )


def report(as_json: bool, document: object, text: str) -> None:
    """Print what a command has done: one JSON document, or a sentence."""
    click.echo(json.dumps(document, indent=1) if as_json else text)


def pairs(options: Iterable[str], option: str, example: str) -> dict[str, str]:
    """Parse `option`s that are KEY=VALUE, each key once. UsageError names the key, and shows the example."""
    found: dict[str, str] = {}
    for given in options:
        key, value = pair(given, option, example)
        if key in found:
            raise click.UsageError(f"{option} {key}: given twice; one of them would have no effect")
        found[key] = value
    return found


def pair(given: str, option: str, example: str) -> tuple[str, str]:
    """Parse an `option` that is KEY=VALUE. UsageError names the key, for the value may be a secret."""
    key, separator, value = given.partition("=")
    if not key or not separator:
        raise click.UsageError(f"{option} {key or '=...'!r}: expected KEY=VALUE, such as {example}")
    return key, value


def table_console() -> Console:
    """Wide enough for whole tables where it is no terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=PIPE_WIDTH)
