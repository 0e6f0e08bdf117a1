"""`docs/tutorial.md` is run as it stands there, but for its ports: what it shows as `text` is what the command says."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tierfetch.cli.local.processes import poll
from tierfetch.tests.process.children import ended, kill_session, started
from tierfetch.tests.process.test_cluster_command import free_range

pytestmark = [pytest.mark.plaintext, pytest.mark.timeout(300)]
PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NODES = 6
TIMEOUT_S = 60.0
SERVING = {"tierfetch cluster up": "stop with Ctrl-C", "tierfetch broker ": "is ready"}
"""The commands that stay in the foreground, with what they say when they serve."""


def steps() -> list[tuple[str, str]]:
    """Return the commands of the page in their order, each with what the page shows below them."""
    found: list[tuple[str, str]] = []
    for kind, text in BLOCK.findall(PAGE.read_text()):
        if kind == "sh":
            found.append((text, ""))
        else:
            found[-1] = (found[-1][0], text)
    return found


def serving(command: str) -> str | None:
    return next((said for begin, said in SERVING.items() if command.startswith(begin)), None)


@contextmanager
def reader(folder: Path) -> Iterator[Reader]:
    one = Reader(folder)
    with ExitStack() as killed:
        try:
            yield one
        finally:
            for process in one.serving:
                killed.callback(kill_session, process)
            for process in reversed(one.serving):
                process.send_signal(signal.SIGINT)
                process.wait(TIMEOUT_S)


class Reader:
    """Someone who types what the page says; `tierfetch` on the path is this checkout's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.serving: list[subprocess.Popen[bytes]] = []
        script = folder / "bin" / "tierfetch"
        script.parent.mkdir()
        script.write_text(f'#!/bin/sh\nexec {sys.executable} -m tierfetch.cli.main "$@"\n')
        script.chmod(0o700)
        path = f"{script.parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "XDG_CONFIG_HOME": str(folder / "config")}

    def types(self, commands: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, (commands, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def serves(self, command: str, until: str) -> None:
        output = self.folder / f"terminal-{len(self.serving)}"
        with output.open("wb") as file:
            process = started(command.split(), file, cwd=self.folder, env=self.environment)
        self.serving.append(process)
        for _ in poll(TIMEOUT_S, lambda: f"{command}: {output.read_text()[-2000:]}", 0.1):
            assert process.poll() is None, output.read_text()
            if until in output.read_text():
                break

    def stops(self) -> None:
        """Press Ctrl-C where the last one runs."""
        with ended(self.serving.pop(), by=signal.SIGINT):
            pass

    def looks_until_broker_2_has_left(self) -> None:
        for _ in poll(TIMEOUT_S, "broker 2 to leave every ISR", 0.1):
            partitions = json.loads(self.types("tierfetch topics describe orders --json 2>/dev/null"))
            if not any(2 in partition["isr"] for partition in partitions):
                break


def test_the_tutorial_works_as_it_is_written(tmp_path: Path) -> None:
    first_port = free_range(2 * NODES)
    with reader(tmp_path) as someone:
        for commands, shown in steps():
            if until := serving(commands):
                port = f" --port {first_port}" if "cluster up" in commands else ""
                someone.serves(commands.strip() + port, until)
                continue
            if commands == "rm -r data\n":
                while someone.serving:
                    someone.stops()
            if "topics describe" in commands:
                someone.looks_until_broker_2_has_left()
            said = someone.types(commands)
            pattern = re.escape(shown.strip()).replace(r"\*", ".*")
            assert re.search(pattern, said), (commands, shown, said)
        assert not (tmp_path / "data").exists()


def test_the_page_has_what_is_tested() -> None:
    commands = [command for command, _ in steps()]
    assert sum(serving(command) is not None for command in commands) == len(SERVING)
    assert len([shown for _, shown in steps() if shown]) >= 4
    assert any(command.startswith("kill -9") for command in commands)
