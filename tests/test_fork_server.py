"""A forked node is what an executed one is: its environment, directory, output, session, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from tierfetch.cli.local.processes import poll
from tierfetch.tests.fork_server import PROGRAM, ForkedChild, ForkServer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fork server is for Linux")

TIMEOUT_S = 30.0
WAITING = """
process.roles=broker
node.id=1
listeners=PLAINTEXT://127.0.0.1:0
controller.quorum.bootstrap.servers=127.0.0.1:1
log.dirs=data
"""
"""Of a broker that waits for its controllers."""
OWNER = """
import sys
from pathlib import Path
from tierfetch.tests.fork_server import PROGRAM, ForkServer
base = Path(sys.argv[1])
print(ForkServer().spawn([*PROGRAM, "broker", "--config", str(base / "node.properties")], base / "log").pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with closing(ForkServer()) as server:
        yield server


def run(server: ForkServer, output: Path, *arguments: str) -> ForkedChild:
    child = server.spawn([*PROGRAM, *arguments], output)
    assert isinstance(child, ForkedChild)
    return child


def waiting_broker(server: ForkServer, base: Path) -> ForkedChild:
    (base / "node.properties").write_text(WAITING)
    child = run(server, base / "log", "broker", "--config", str(base / "node.properties"))
    for _ in poll(TIMEOUT_S, "the broker to wait"):
        if "waiting for" in (base / "log").read_text():
            return child
    raise AssertionError


@pytest.mark.parametrize(
    ("arguments", "code", "said"), [(["--version"], 0, "tierfetch, version"), (["nope"], 2, "nope")]
)
def test_its_output_is_appended_to_and_its_exit_code_known(
    server: ForkServer, tmp_path: Path, arguments: list[str], code: int, said: str
) -> None:
    output = tmp_path / "log"
    output.write_text("before\n")
    child = run(server, output, *arguments)
    assert child.wait(TIMEOUT_S) == child.poll() == child.returncode == code
    assert output.read_text().startswith("before\n")
    assert said in output.read_text()


def test_it_has_the_environment_and_the_directory_of_the_moment(
    server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIERFETCH_PROFILE", "of-the-moment")
    child = run(server, tmp_path / "log", "topics", "list")
    assert child.wait(TIMEOUT_S) == 1
    assert "of-the-moment" in (tmp_path / "log").read_text()
    monkeypatch.delenv("TIERFETCH_PROFILE")
    broker = waiting_broker(server, tmp_path)
    assert Path(os.readlink(f"/proc/{broker.pid}/cwd")) == tmp_path
    assert os.getsid(broker.pid) == broker.pid
    broker.kill()
    assert broker.wait(TIMEOUT_S) == -signal.SIGKILL


def test_it_is_asked_to_stop_by_a_signal(server: ForkServer, tmp_path: Path) -> None:
    broker = waiting_broker(server, tmp_path)
    assert broker.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        broker.wait(0.01)
    broker.send_signal(signal.SIGTERM)
    assert broker.wait(TIMEOUT_S) == 0
    broker.send_signal(signal.SIGTERM)


def test_other_programs_are_executed(server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child = server.spawn([sys.executable, "-c", "print(7)"], tmp_path / "log")
    assert child.wait(TIMEOUT_S) == 0
    assert (tmp_path / "log").read_text() == "7\n"
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    other = server.spawn([*PROGRAM, "--version"], tmp_path / "other")
    assert not isinstance(other, ForkedChild)
    assert other.wait(TIMEOUT_S) == 0


@pytest.mark.parametrize("killed", ["tests", "fork server"])
def test_no_frozen_node_is_left_when_what_started_it_is_killed(tmp_path: Path, killed: str) -> None:
    (tmp_path / "node.properties").write_text(WAITING)
    command = [sys.executable, "-c", OWNER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        node = psutil.Process(int(owner.stdout.readline()))
        node.suspend()
        psutil.Process(owner.pid if killed == "tests" else node.ppid()).kill()
        for _ in poll(TIMEOUT_S, "the node to end"):
            if not node.is_running() or node.status() == psutil.STATUS_ZOMBIE:
                break
        owner.kill()
