"""Ctrl-C ends every `tierfetch` command quietly with exit code 130, at whatever moment: real processes, real signals.

Moments are exact where the process interrupts itself: a hook is called when it begins to import a module, when it asks
a question, when it ends. Others are seen from outside: the process exists, or its request has come.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path
from typing import Final

import psutil
import pytest

import tierfetch
from tierfetch.cli.local.processes import poll

TIMEOUT_S: Final = 60.0
PROGRAM: Final = "import sys; from tierfetch.cli.entry import main; sys.exit(main())"
"""What the script that pip writes does."""
AT_IMPORT: Final = """
import os, signal, sys
moment = sys.argv.pop(1)
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == moment:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
"""
AT_END: Final = """
import atexit, os, signal
atexit.register(os.kill, os.getpid(), signal.SIGINT)
"""


def start(
    arguments: list[str], hook: str = "", *, is_ignored: bool = False, is_leader: bool = False
) -> subprocess.Popen[str]:
    """Start it in the foreground; a test that runs in the background would have it ignore the signal."""
    return subprocess.Popen(
        [sys.executable, "-c", hook + PROGRAM, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=is_leader,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_IGN if is_ignored else signal.SIG_DFL),
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Return its exit code, and what it said on standard error."""
    try:
        _, said = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
    return process.returncode, said


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("signal", "--help"),
        ("tierfetch.cli.main", "--help"),
        ("click", "--help"),
        ("tierfetch.cli.lazy_group", "--help"),
        ("tierfetch.cli.admin", "topics list"),
        ("tierfetch.cli.admin.topics", "topics list"),
        ("tierfetch.protocol", "topics list"),
        ("asyncio", "topics list"),
        ("tierfetch.broker.config", "broker --config nosuch"),
        ("tierfetch.cli.local", "cluster up"),
        ("tierfetch.cli.admin.reassign_plan", "reassign plan --help"),
        ("tierfetch.cli.model", "model replace --help"),
    ],
)
def test_while_it_imports(module: str, command: str) -> None:
    process = start([module, *command.split()], AT_IMPORT + f"sys.modules.pop({module!r}, None)\n")
    assert ended(process) == (130, ""), f"interrupted at the import of {module}"


def test_in_the_background_of_a_script_it_is_ignored() -> None:
    process = start(["click", "random-uuid"], AT_IMPORT, is_ignored=True)
    assert ended(process) == (0, "")


def test_as_soon_as_it_exists() -> None:
    """Python itself may be interrupted before our first line: what it shows then names no line of ours."""
    process = start(["topics", "list"])
    process.send_signal(signal.SIGINT)
    code, said = ended(process)
    ours = str(Path(tierfetch.__file__).parent / "cli")
    assert ours not in said
    assert code in (130, -signal.SIGINT) or "KeyboardInterrupt" in said


@pytest.mark.parametrize("command", ["--help", "random-uuid", "topics list --bootstrap 127.0.0.1:1"])
def test_while_it_ends(command: str) -> None:
    code, said = ended(start(command.split(), AT_END))
    assert code == 130
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "command",
    [
        "topics list",
        "brokers wait 1",
        "groups list",
        "reassign list",
        "quorum describe --status",
        "tier ls",
        "model capture --out x.yaml",
        "consume t",
        "transactions list",
    ],
)
def test_while_it_waits_for_a_broker(command: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(TIMEOUT_S)
        option = "--bootstrap-controller" if command.startswith("quorum") else "--bootstrap"
        words = [str(tmp_path / word) if word == "x.yaml" else word for word in command.split()]
        process = start([*words, option, f"127.0.0.1:{listener.getsockname()[1]}"])
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(TIMEOUT_S)
            assert connection.recv(1), "its first request"
            process.send_signal(signal.SIGINT)
            assert ended(process) == (130, "")


def test_while_its_processes_work() -> None:
    """A terminal sends the signal to all of them."""
    process = start(["simulate", "--seeds", "100000", "--jobs", "2", "--scenario", "quorum"], is_leader=True)
    for _ in poll(TIMEOUT_S, "its workers to begin"):
        workers = [each for each in children(process) if "--multiprocessing-fork" in each.cmdline()]
        if len(workers) == 2 and all(each.cpu_times().user > 0.1 for each in workers):
            break
    os.killpg(process.pid, signal.SIGINT)
    code, said = ended(process)
    assert code == 130
    assert "Traceback" not in said
    assert "Process Spawn" not in said
    psutil.wait_procs(workers, TIMEOUT_S)
    assert not any(each.is_running() for each in workers)


def children(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children()


def test_at_a_question() -> None:
    process = start(["topics", "delete", "t", "--bootstrap", "127.0.0.1:1"])
    assert process.stderr is not None
    asked = ""
    while not asked.endswith("]: "):
        asked += process.stderr.read(1)
    process.send_signal(signal.SIGINT)
    code, said = ended(process)
    assert code == 130
    assert "Traceback" not in said
    assert "Aborted" not in said


def test_a_no_at_a_question_is_no_interrupt() -> None:
    process = start(["topics", "delete", "t", "--bootstrap", "127.0.0.1:1"])
    _, said = process.communicate("n\n", timeout=TIMEOUT_S)
    assert process.returncode == 1
    assert said.endswith("Aborted!\n")


def test_the_script_begins_there() -> None:
    project = tomllib.loads((Path(tierfetch.__file__).parent / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"tierfetch": "tierfetch.cli.entry:main"}
