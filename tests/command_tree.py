"""Every command of `tierfetch`, out of click's own tree: asked for its help, and run once so that it ends at once.

    python tests/command_tree.py help     ends with 1 if a `--help` does
    python tests/command_tree.py runs     the same for runs that must end in a sentence, and never in a traceback

A run gets what its parameters ask for by type, with files and clusters that are not there. The smoke test of the wheel
runs this file in environments that do not have the tests.
"""

from __future__ import annotations

import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import click
from click.testing import CliRunner

from tierfetch.cli.main import cli
from tierfetch.extras import EXTRAS

NOWHERE: Final = "no-such-place"
NOBODY: Final = "127.0.0.1:1"
QUICK: Final[Mapping[tuple[str, ...], Sequence[str]]] = {
    ("brokers", "wait"): ["--timeout", "0"],
    ("console",): ["--host", "192.0.2.1"],
    ("demo",): ["--size", "1"],
    ("model", "calibrate"): ["--size-mb", "1"],
    ("simulate",): ["--seed", "1", "--scenario", "quorum"],
    ("spark", "demo"): ["--keep", __file__],
    ("spark", "sweep"): ["--before", "tier-first"],
}
"""What keeps a command short that would do its work without anything from outside."""


def commands(*, runnable: bool = False) -> list[list[str]]:
    """The words of each command and group below the root, groups before their commands; without groups if runnable."""
    found = _below(cli, click.Context(cli), [])
    return [path for path, command in found if not (runnable and isinstance(command, click.Group))]


def _below(command: click.Command, context: click.Context, path: list[str]) -> list[tuple[list[str], click.Command]]:
    found = [(path, command)] if path else []
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None, [*path, name]
            found += _below(child, click.Context(child, parent=context, info_name=name), [*path, name])
    return found


def command_of(path: Sequence[str]) -> click.Command:
    """Return the command of these words."""
    return {tuple(each): found for each, found in _below(cli, click.Context(cli), [])}[tuple(path)]


def arguments_of(path: Sequence[str], taken_port: int) -> list[str]:
    """With which the command ends at once."""
    command = command_of(path)
    if tuple(path) == ("cluster", "up"):
        return ["--port", str(taken_port)]
    arguments = [*QUICK.get(tuple(path), ())]
    for parameter in command.params:
        value = "1" if isinstance(parameter.type, click.types.IntParamType) else NOWHERE
        if isinstance(parameter, click.Option):
            is_cluster = "bootstrap" in (parameter.name or "")
            if is_cluster or (parameter.required and parameter.opts[0] not in arguments):
                arguments += [parameter.opts[0], NOBODY if is_cluster else value]
        elif parameter.required:
            arguments.append(value)
    return arguments


@contextmanager
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def help_of(path: Sequence[str]) -> str | None:
    """What is wrong with the command's help; None for nothing."""
    result = CliRunner().invoke(cli, [*path, "--help"])
    is_fine = result.exit_code == 0 and result.output.startswith("Usage: ")
    return None if is_fine else f"{' '.join(path)} --help: {result.exit_code} {result.exception!r} {result.output}"


def run_of(path: Sequence[str]) -> str | None:
    """What is wrong with a run of the command; None for nothing. A sentence, wrong usage or success are right."""
    with taken_port() as port, tempfile.TemporaryDirectory() as home:
        arguments = arguments_of(path, port)
        result = CliRunner().invoke(cli, [*path, *arguments], env={"XDG_CONFIG_HOME": home})
    is_fine = isinstance(result.exception, SystemExit | None) and result.exit_code in (0, 1, 2)
    words = " ".join([*path, *arguments])
    return None if is_fine else f"{words}: {result.exit_code} {result.exception!r} {result.output}"


def main(mode: str) -> int:
    paths = commands(runnable=mode == "runs")
    wrong = [text for path in paths if (text := (run_of if mode == "runs" else help_of)(path)) is not None]
    click.echo("\n".join(wrong) if wrong else f"{len(paths)} commands")
    return 1 if wrong else 0


class Absent:
    """In front of `sys.meta_path` it has no module of any extra be there."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if any(name.partition(".")[0] in modules for modules in EXTRAS.values()):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


if __name__ == "__main__":
    if "--without-extras" in sys.argv:
        sys.meta_path.insert(0, Absent)  # type: ignore[arg-type]
    sys.exit(main(sys.argv[1]))
