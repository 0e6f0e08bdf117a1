"""Real controller processes: elections after kill -9, and that nothing committed is ever lost."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierfetch.cli.local.processes import free_ports, poll
from tierfetch.cli.local.quorum import ControllerFailedError, LocalQuorum
from tierfetch.cli.local.security import LocalSecurity
from tierfetch.protocol.records import iter_batches, iter_records

TIERFETCH = (sys.executable, "-m", "tierfetch.cli.main")
APPENDER = "tierfetch.tests.process.appending_controller"
KILLS = 4
WAIT_S = 60.0


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalQuorum]:
    """Each test leaves all of it running."""
    with LocalQuorum(tmp_path_factory.mktemp("quorum")) as running:
        yield running


def numbers_in_log(directory: Path) -> list[int]:
    """The records of a metadata log, control batches aside."""
    data = (directory / f"{0:020d}.log").read_bytes()
    return [
        int(record.value or b"")
        for position, header in iter_batches(data)
        if not header.is_control
        for record in iter_records(data, position, header)
    ]


def bytes_upto(directory: Path, number: int) -> bytes | None:
    """A metadata log up to the batch that holds the record, None where there is none. What lies behind may yet go."""
    data = (directory / f"{0:020d}.log").read_bytes()
    for position, header in iter_batches(data):
        if any(
            int(record.value or b"") == number
            for record in iter_records(data, position, header)
            if not header.is_control
        ):
            return data[: position + header.size_bytes]
    return None


def acked_numbers(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_Q6_kill_9_of_the_leader_loses_nothing_committed(tmp_path: Path) -> None:
    acked = tmp_path / "acked"

    def command(node: int, config: Path) -> list[str]:
        return [sys.executable, "-m", APPENDER, str(config), str(acked)]

    with LocalQuorum(tmp_path / "quorum", command=command) as quorum:
        for _ in range(KILLS):
            wanted = len(acked_numbers(acked)) + 50
            for _ in poll(WAIT_S, lambda: f"more appends\n{quorum.log_tail(1)}"):
                if len(acked_numbers(acked)) >= wanted:
                    break
            leader = quorum.leader()
            quorum.kill(leader)
            quorum.start(leader)
            quorum.wait_serving(leader)
        wanted = len(acked_numbers(acked)) + 50
        for _ in poll(WAIT_S, "appends after the last kill"):
            if len(acked_numbers(acked)) >= wanted:
                break
        leader = quorum.leader()
        promised = acked_numbers(acked)
        found = numbers_in_log(quorum.metadata_directory(leader))
        assert set(promised) <= set(found)
        assert quorum.status()["LeaderEpoch"] > KILLS
    logs = [bytes_upto(quorum.metadata_directory(node), max(promised)) for node in quorum.nodes]
    holders = [log for log in logs if log is not None]
    assert len(holders) >= 2
    assert len(set(holders)) == 1, "the logs of the voters part below what is committed"


def test_Q8_a_leader_that_is_told_to_stop_hands_over(quorum: LocalQuorum) -> None:
    leader = quorum.leader()
    began = time.monotonic()
    quorum.stop(leader)
    assert quorum.leader() != leader
    assert time.monotonic() - began < WAIT_S
    assert f"controller {leader} stops" in quorum.log_tail(leader)
    quorum.start(leader)
    quorum.wait_serving(leader)


def test_Q8_a_frozen_leader_is_replaced_and_follows_when_it_wakes(quorum: LocalQuorum) -> None:
    leader = quorum.leader()
    epoch = quorum.status()["LeaderEpoch"]
    quorum.process(leader).send_signal(signal.SIGSTOP)
    others = ",".join(f"127.0.0.1:{quorum.port(node)}" for node in quorum.nodes if node != leader)
    status = {"LeaderId": leader}
    for _ in poll(WAIT_S, "another leader", interval_s=0.2):
        if status["LeaderId"] != leader:
            break
        arguments = ("quorum", "describe", "--status", "--json", "--bootstrap-controller", others)
        text = subprocess.run(
            [*TIERFETCH, *arguments],
            env=None if quorum.security is None else quorum.security.environment(arguments),
            capture_output=True,
            text=True,
            check=False,
            timeout=WAIT_S,
        ).stdout
        status = json.loads(text) if text else status
    assert status["LeaderEpoch"] > epoch
    quorum.process(leader).send_signal(signal.SIGCONT)
    for _ in poll(WAIT_S, "the old leader to follow", interval_s=0.1):
        said = quorum.log_file(leader).read_text()
        if "leader -> " in said and f"-> follower, epoch {status['LeaderEpoch']}" in said:
            return


@pytest.mark.parametrize("is_secured", [False, True])
def test_Q15_voters_are_added_and_removed_from_the_command_line(tmp_path: Path, is_secured: bool) -> None:
    """Also where controllers prove themselves to each other by certificates (KIP-853)."""
    security = LocalSecurity(tmp_path / "secrets") if is_secured else None
    with LocalQuorum(tmp_path, dynamic=True, security=security) as quorum:
        servers = ["--bootstrap-controller", quorum.bootstrap_controllers]
        for node in (2, 3):
            quorum.tool("quorum", "add", "--config", str(quorum.config_file(node)), *servers)
        voters = {item["id"]: item["directoryId"] for item in quorum.status()["CurrentVoters"]}
        assert set(voters) == {1, 2, 3}
        quorum.tool("quorum", "remove", "--controller-id", "2", "--controller-directory-id", voters[2], *servers)
        status = quorum.status()
        assert [item["id"] for item in status["CurrentVoters"]] == [1, 3]
        assert quorum.process(2).poll() is None
        with pytest.raises(ControllerFailedError, match="VOTER_NOT_FOUND"):
            quorum.tool("quorum", "remove", "--controller-id", "2", "--controller-directory-id", voters[2], *servers)
        rows = json.loads(quorum.tool("quorum", "describe", "--replication", "--json", *servers))
        assert [(row["NodeId"], row["Status"]) for row in rows][-1] == (2, "Observer")


def test_Q12_metrics_are_served(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with LocalQuorum(tmp_path, 1, configs={"metrics.port": str(port)}) as quorum:
        assert quorum.leader() == 1
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            text = answer.read().decode()
    assert 'tierfetch_raft_current_state{state="leader"} 1.0' in text


def test_Q11_what_a_controller_says_when_it_cannot_start(tmp_path: Path) -> None:
    quorum = LocalQuorum(tmp_path, 1)
    tmp_path.mkdir(exist_ok=True)
    quorum.start(1)
    with pytest.raises(ControllerFailedError, match="format the directory first"):
        quorum.wait_serving(1)
    assert quorum.process(1).wait(WAIT_S) == 1
