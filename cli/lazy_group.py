"""Groups whose commands are imported when they are run, so that `--help` and a broker's start stay quick."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import click

from ..doors import imported


class LazyGroup(click.Group):
    """`modules` has for each command's name its module below `package`, its function and one line of help."""

    def __init__(self, *args: Any, package: str, modules: Mapping[str, tuple[str, str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._package = package
        self._modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._modules:
            return None
        module, function, _ = self._modules[cmd_name]
        command: click.Command = getattr(imported(f".{module}", self._package), function)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._modules[name][2]) for name in self.list_commands(ctx)])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        check_name(args, sorted(self._modules), ctx)
        return super().resolve_command(ctx, args)


def check_name(args: Sequence[str], names: Sequence[str], ctx: click.Context) -> None:
    """Raise UsageError, with the nearest names and all of them, if the first word is none of a group's commands."""
    if args and args[0] not in names and not args[0].startswith("-"):
        close = difflib.get_close_matches(args[0], names, n=2)
        guess = f": did you mean {' or '.join(close)}?" if close else "."
        raise click.UsageError(f"no command {args[0]!r}{guess} There are {', '.join(names)}", ctx)
