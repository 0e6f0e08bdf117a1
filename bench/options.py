"""What the commands of several benchmarks take in the same way, and how a signal ends them."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., object])


def against_option(command: Command) -> Command:
    return click.option("--against", type=click.Choice(["kafka", "nothing"]), default="kafka", show_default=True)(
        command
    )


def rounds_option(default: int) -> Callable[[Command], Command]:
    return click.option("--rounds", type=click.IntRange(min=1), default=default, show_default=True)


def size_option(default: int, text: str, least: int = 1) -> Callable[[Command], Command]:
    """`size_mb`, in millions of bytes."""
    return click.option("--size-mb", type=click.IntRange(min=least), default=default, show_default=True, help=text)


def figures_option(name: str, text: str | None = None) -> Callable[[Command], Command]:
    """`path`: where the figures of the benchmark of this name are written."""
    file = click.Path(path_type=Path)
    return click.option("--json", "path", type=file, default=f"bench-results/{name}.json", show_default=True, help=text)


def exit_on(*numbers: signal.Signals) -> None:
    """Have these signals end the process as an exception does: what was started is stopped on the way out."""
    for each in numbers:
        signal.signal(each, lambda number, _: sys.exit(128 + number))
