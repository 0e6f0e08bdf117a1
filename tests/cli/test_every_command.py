"""What holds for every command, tried on each out of click's own tree: slips are corrected, waits explained."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
import pytest
from click.testing import CliRunner

from tierfetch.cli.main import cli
from tierfetch.protocol.net import KafkaClient
from tierfetch.tests.command_tree import NOBODY, arguments_of, command_of, commands

SHORT_S: Final = 0.2
GROUPS: Final = [[], *(path for path in commands() if isinstance(command_of(path), click.Group))]
RUNNABLE: Final = commands(runnable=True)
ASKS_LATER: Final = (["console"], ["profile", "add"])
"""What takes a cluster and asks it nothing before somebody looks."""
ASKING: Final = [
    path
    for path in RUNNABLE
    if path not in ASKS_LATER and any("--bootstrap" in each.opts for each in command_of(path).params)
]


def slip_of(name: str) -> str:
    """Return the name with two letters exchanged, or one more if it is short."""
    if len(name) < 4:
        return name + name[-1]
    middle = len(name) // 2
    return name[: middle - 1] + name[middle] + name[middle - 1] + name[middle + 1 :]


def group_of(path: list[str]) -> click.Group:
    found = command_of(path) if path else cli
    assert isinstance(found, click.Group)
    return found


@pytest.mark.parametrize("path", GROUPS, ids=lambda path: " ".join(path) or "tierfetch")
def test_a_slip_in_the_name_of_a_command_is_corrected(path: list[str]) -> None:
    group = group_of(path)
    names = group.list_commands(click.Context(group))
    for name in names:
        slip = slip_of(name)
        if slip in names or slip == name:
            continue
        result = CliRunner().invoke(cli, [*path, slip])
        assert result.exit_code == 2, result.output
        assert re.search(rf"[Dd]id you mean .*\b{name}\b", result.output), result.output


@pytest.mark.parametrize("path", RUNNABLE, ids=" ".join)
def test_a_slip_in_an_option_is_corrected(path: list[str]) -> None:
    options = [option for each in command_of(path).params for option in each.opts if option.startswith("--")]
    assert options
    for option in options:
        slip = f"--{slip_of(option[2:])}"
        if slip in options:
            continue
        result = CliRunner().invoke(cli, [*path, slip])
        assert result.exit_code == 2, result.output
        assert re.search(rf"[Dd]id you mean .*{option}", result.output), f"{slip}: {result.output}"


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a listener that accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepted: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    accepted.append(listener.accept()[0])
                except OSError:
                    return

        thread = threading.Thread(target=accept)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        for connection in accepted:
            connection.close()


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every request of our own client wait `SHORT_S` at most."""
    send = KafkaClient.send

    async def impatient(self: KafkaClient, *arguments: Any, timeout_s: float, **named: Any) -> Any:
        return await send(self, *arguments, timeout_s=min(timeout_s, SHORT_S), **named)

    monkeypatch.setattr(KafkaClient, "send", impatient)


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("path", ASKING, ids=" ".join)
def test_a_broker_that_never_answers_is_named_with_how_long_was_waited(
    path: list[str], silent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = [silent if word == NOBODY else word for word in arguments_of(path, 0)]
    result = CliRunner().invoke(cli, [*path, *arguments], input="y\n")
    assert result.exit_code in (1, 2), result.output
    is_asked = "no-such-place" not in result.output and "is not installed; the extra" not in result.output
    if result.exit_code == 1 and is_asked:
        assert silent in result.output
        assert re.search(rf"within {SHORT_S:g} s|after \d+(\.\d+)? s", result.output), result.output
