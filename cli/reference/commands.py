"""docs/commands.md: what `--help` says of every command, in the order of the command line."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from ..main import cli
from .tables import table

HEAD = """# Commands

Every command with its options, as its `--help` has them. Written by `python -m tierfetch.cli.reference`.

Every command takes `--help`, or `-h`.
"""
BLOCK = "\b\n"
"""click's mark for a paragraph whose lines are kept: here an example."""


def commands_page() -> str:
    """Return the text of `docs/commands.md`."""
    context = click.Context(cli, info_name="tierfetch")
    return HEAD + "".join(_section(command, below) for command, below in _below(cli, context))


def _below(command: click.Command, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    """Return each command below the root, groups before their commands."""
    if context.parent is not None:
        yield command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None, name
            yield from _below(child, click.Context(child, parent=context, info_name=name))


def _section(command: click.Command, context: click.Context) -> str:
    depth = "##" if context.parent is not None and context.parent.parent is None else "###"
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    parts = [f"\n{depth} {context.command_path}\n", _description(command), f"```text\n{usage}\n```\n"]
    rows = [_option(parameter, context) for parameter in command.params if isinstance(parameter, click.Option)]
    if rows and not isinstance(command, click.Group):
        parts.append(table(("option", "what it is"), rows))
    return "\n".join(parts)


def _option(option: click.Option, context: click.Context) -> tuple[str, str]:
    names, said = option.get_help_record(context) or ("", "")
    return f"`{names}`", said


def _description(command: click.Command) -> str:
    paragraphs = inspect.cleandoc(command.help or "").replace("\f", "").split("\n\n")
    return "".join(_paragraph(paragraph) + "\n" for paragraph in paragraphs)[:-1]


def _paragraph(text: str) -> str:
    if text.startswith(BLOCK):
        lines = inspect.cleandoc(text.removeprefix(BLOCK))
        return f"```text\n{lines}\n```\n"
    return text.replace("<", "&lt;") + "\n"
