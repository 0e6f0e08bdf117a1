"""Every command of `tierfetch`, out of click's own tree, and a program that asks each of them for its help."""

from __future__ import annotations

from collections.abc import Sequence

import click

from tierfetch.cli.main import cli
from tierfetch.extras import EXTRAS


def commands() -> list[list[str]]:
    """The words of each command and group below the root, groups before their commands."""
    return list(_below(cli, click.Context(cli), []))


def _below(command: click.Command, context: click.Context, path: list[str]) -> list[list[str]]:
    found = [path] if path else []
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None, [*path, name]
            found += _below(child, click.Context(child, parent=context, info_name=name), [*path, name])
    return found


def asking_for_help(paths: Sequence[Sequence[str]]) -> str:
    """A program that runs `--help` of each, and fails with those that end otherwise than with 0 and a usage."""
    return f"""
import sys
from click.testing import CliRunner
from tierfetch.cli.main import cli
paths = {[list(path) for path in paths]!r}
for path in paths:
    result = CliRunner().invoke(cli, [*path, "--help"])
    if result.exit_code or not result.output.startswith("Usage: "):
        print(path, result.exit_code, repr(result.exception), result.output, file=sys.stderr)
        sys.exit(1)
print(len(paths), "commands")
"""


def without_extras(paths: Sequence[Sequence[str]]) -> str:
    """The same, where no module of an extra can be imported."""
    modules = sorted({module for modules in EXTRAS.values() for module in modules})
    return f"""
import sys
class Absent:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {modules!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent)
{asking_for_help(paths)}"""
