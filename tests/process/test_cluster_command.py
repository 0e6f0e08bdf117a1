"""`tierfetch cluster up`, and the commands that an operator gives to what it has started."""

from __future__ import annotations

import json
import random
import shlex
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner, Result

from tierfetch.cli.cluster import FIRST_CONTROLLER
from tierfetch.cli.local.processes import poll
from tierfetch.cli.local.quorum import LocalQuorum
from tierfetch.cli.main import cli
from tierfetch.protocol.topics import REMOTE_LOG_METADATA_TOPIC
from tierfetch.tests.process.clients import Librdkafka

pytestmark = pytest.mark.plaintext

TIERFETCH = (sys.executable, "-m", "tierfetch.cli.main")
TIMEOUT_S = 90.0
READY = "stop with Ctrl-C"
VALUES = [b"%d" % number for number in range(300)]


def free_range(count: int) -> int:
    """The first of so many ports in a row that are free now."""
    for _ in range(100):
        first = random.randrange(20_000, 30_000)
        with ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
    raise AssertionError(f"no {count} free ports in a row")


@contextmanager
def cluster_up(base: Path, first_port: int, brokers: int, *options: str) -> Iterator[str]:
    """`--bootstrap` of a cluster that runs until the block ends, by Ctrl-C."""
    output = base / "up.txt"
    command = [*TIERFETCH, "cluster", "up", "--brokers", str(brokers), "--port", str(first_port), *options]
    with output.open("w") as file:
        process = subprocess.Popen([*command, "--dir", str(base / "data")], stdout=file, stderr=subprocess.STDOUT)
    try:
        for _ in poll(TIMEOUT_S, lambda: f"the cluster to be up: {output.read_text()}"):
            assert process.poll() is None, output.read_text()
            if READY in output.read_text():
                break
        yield ",".join(f"127.0.0.1:{port}" for port in range(first_port, first_port + brokers))
    finally:
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(TIMEOUT_S) == 0, output.read_text()
        finally:
            process.kill()


def run(servers: str, *arguments: str) -> Result:
    """In this process: most of what a short command costs is its imports."""
    return CliRunner().invoke(cli, [*arguments, "--bootstrap", servers], catch_exceptions=False)


def tierfetch(servers: str, *arguments: str) -> str:
    done = run(servers, *arguments)
    assert done.exit_code == 0, (arguments, done.stdout, done.stderr)
    return done.stdout


def as_json(servers: str, *arguments: str) -> Any:
    return json.loads(tierfetch(servers, *arguments, "--json"))


def holders_of(servers: str, topic: str) -> set[int]:
    """The brokers with a replica of any partition, once the topic is there."""
    for _ in poll(TIMEOUT_S, f"{topic} to be made"):
        done = run(servers, "topics", "describe", topic, "--json")
        if done.exit_code == 0:
            return {replica for partition in json.loads(done.stdout) for replica in partition["replicas"]}
    raise AssertionError("poll raises")


def check_next_steps(said: str) -> None:
    """Each command that is proposed works as it stands."""
    steps = [shlex.split(line)[1:] for line in said.splitlines() if line.startswith("  tierfetch ")]
    assert [step[:2] for step in steps] == [
        ["topics", "create"],
        ["brokers", "list"],
        ["quorum", "describe"],
        ["tier", "ls"],
        ["tier", "verify"],
        ["console", "--bootstrap"],
    ]
    found = [["brokers", "list"], ["tier", "ls"], ["quorum", "describe", "--status"]]  # the only cluster, by itself
    for step in [*steps[:-1], *found]:  # the console runs until Ctrl-C: tests/console
        done = CliRunner().invoke(cli, step, catch_exceptions=False)
        assert done.exit_code == 0, (step, done.stdout, done.stderr)


def check_metrics(said: str, first_port: int, nodes: int) -> None:
    """Each node's metrics are where the table says, on the same ports whenever the cluster is up."""
    urls = [word for line in said.splitlines() for word in line.split() if word.startswith("http://")]
    ports = range(first_port + nodes, first_port + 2 * nodes)
    assert urls == [f"http://127.0.0.1:{port}/metrics" for port in ports]
    texts = []
    for url in urls:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            texts.append(answer.read().decode())
    assert sum("\ntierfetch_controller_active 1.0\n" in text for text in texts) == 1
    assert sum("\nkafka_controller_kafkacontroller_activecontrollercount 1.0\n" in text for text in texts) == 1
    assert sum("\ntierfetch_controller_active_brokers 3.0\n" in text for text in texts) == 3
    assert sum("\ntierfetch_thin_replicas 0.0\n" in text for text in texts) == 3


def refused(servers: str, *arguments: str) -> str:
    done = run(servers, *arguments)
    assert done.exit_code == 1, (arguments, done.stdout)
    return done.stderr


def test_one_command_starts_a_cluster_that_is_there_again_the_next_time(tmp_path: Path) -> None:
    port, options = free_range(12), ("--controllers", "3", "--tier", "local")
    with cluster_up(tmp_path, port, 3, *options) as servers:
        assert [row["state"] for row in as_json(servers, "brokers", "list")] == ["alive"] * 3
        assert "leads" in tierfetch(servers, "brokers", "list")
        check_next_steps((tmp_path / "up.txt").read_text())
        check_metrics((tmp_path / "up.txt").read_text(), port, 6)
        create = ("topics", "create", "t", "--partitions", "3", "--replication", "3")
        tierfetch(servers, *create, "--config", "remote.storage.enable=true")
        assert holders_of(servers, REMOTE_LOG_METADATA_TOPIC) == {1, 2, 3}, "made once all brokers are there"
        Librdkafka().produce(servers, "t", VALUES, "none")
        check_operating(servers)
    with cluster_up(tmp_path, port, 3, *options) as servers:
        assert Librdkafka().consume(servers, "t", len(VALUES)) == VALUES
        assert as_json(servers, "configs", "describe", "--topic", "t")[0]["name"] == "remote.storage.enable"
        (third,) = nodes_below(tmp_path / "data" / "broker-3.properties")
        assert (tmp_path / "data" / "broker-3.pid").read_text() == f"{third.pid}\n"
        third.kill()
        for _ in poll(TIMEOUT_S, "a word on the broker that was killed"):
            if "broker 3 has ended (-9)" in (tmp_path / "up.txt").read_text():
                break
        assert not (tmp_path / "data" / "broker-3.pid").exists()
    assert list((tmp_path / "data").glob("*.pid")) == []


@pytest.mark.parametrize("options", [("--controllers", "3"), ("--combined",)])
def test_a_directory_of_other_controllers_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    quorum = LocalQuorum(tmp_path, 1, first_id=FIRST_CONTROLLER)
    quorum.prepare(FIRST_CONTROLLER)
    quorum.metadata_directory(FIRST_CONTROLLER).mkdir()
    command = ["cluster", "up", "--brokers", "1", "--port", str(free_range(8)), "--dir", str(tmp_path)]
    refused = CliRunner().invoke(cli, [*command, *options], catch_exceptions=False)
    assert (refused.exit_code, "whose controllers are controller-101" in refused.stderr) == (1, True), refused.stderr
    quorum.data_directory(FIRST_CONTROLLER).joinpath("meta.properties").write_text("rubbish")
    refused = CliRunner().invoke(cli, [*command, "--controllers", "1"], catch_exceptions=False)
    assert (refused.exit_code, "expected version=1" in refused.stderr) == (1, True), refused.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_however_it_ends_while_it_starts_it_leaves_no_process_behind(tmp_path: Path, number: signal.Signals) -> None:
    port = str(free_range(4))
    command = [*TIERFETCH, "cluster", "up", "--controllers", "1", "--brokers", "1", "--port", port]
    with subprocess.Popen([*command, "--dir", str(tmp_path / "data")], stderr=subprocess.DEVNULL) as process:
        for _ in poll(TIMEOUT_S, "the controller to begin"):
            if nodes_below(tmp_path / "data"):
                break
        process.send_signal(number)
        assert process.wait(TIMEOUT_S) != 0
    for _ in poll(TIMEOUT_S, "its nodes to end"):
        if nodes_below(tmp_path / "data") == []:
            break


def nodes_below(path: Path) -> list[psutil.Process]:
    """The processes whose configuration this is, or lies below it."""
    options = [(process, process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
    return [
        process
        for process, words in options
        if "--config" in words and str(path) in words[-1] and words[-1].endswith(".properties")
    ]


def check_operating(servers: str) -> None:
    """Tables, JSON, and refusals with a reason, of each group of commands."""
    levels = {row["feature"]: row["level"] for row in as_json(servers, "features", "describe")}
    assert levels["metadata.version"] == 30
    assert "finalized level" in tierfetch(servers, "features", "describe")
    assert "exist" in refused(servers, "topics", "create", "t")
    tierfetch(servers, "topics", "create", "grown", "--partitions", "2", "--replication", "2")
    tierfetch(servers, "topics", "grow", "grown", "--to", "4")
    assert "tierfetch.version" in refused(servers, "topics", "shrink", "grown", "--to", "3", "--yes")
    tierfetch(servers, "features", "set", "tierfetch.version", "1")
    tierfetch(servers, "topics", "shrink", "grown", "--to", "3", "--yes")
    # The controller has answered; the broker that is asked next may learn of it a moment later, as in Kafka.
    for _ in poll(TIMEOUT_S, "the broker to have three partitions"):
        if [row["partition"] for row in as_json(servers, "topics", "describe", "grown")] == [0, 1, 2]:
            break
    assert "partition" in tierfetch(servers, "topics", "describe", "grown")
    tierfetch(servers, "topics", "grow", "grown", "--to", "4")
    Librdkafka().produce(servers, "grown", VALUES, "none")
    assert {row["topic"] for row in as_json(servers, "topics", "list")} >= {"t", "grown"}
    assert as_json(servers, "reassign", "list") == []
    assert as_json(servers, "brokers", "wait", "1", "--warm")["in_sync"] > 0
    tierfetch(servers, "configs", "alter", "--topic", "grown", "--set", "retention.ms=3600000")
    assert "retention.ms" in tierfetch(servers, "configs", "describe", "--topic", "grown")
    assert "broker 3 is alive" in refused(servers, "brokers", "unregister", "3", "--yes")
    assert "more replicas than" in refused(servers, "brokers", "unregister", "3", "--yes", "--force")
    assert "topic nowhere does not exist" in refused(servers, "topics", "describe", "nowhere")
    port = servers.rpartition(":")[2]
    taken = subprocess.run(
        [*TIERFETCH, "cluster", "up", "--port", port], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert (taken.returncode, f"port {port} is taken" in taken.stderr) == (1, True), taken.stderr


@pytest.mark.parametrize("brokers", [1, 3])
def test_one_command_starts_processes_that_are_both(tmp_path: Path, brokers: int) -> None:
    with cluster_up(tmp_path, free_range(3 * brokers), brokers, "--combined") as servers:
        tierfetch(servers, "topics", "create", "t", "--replication", str(brokers))
        Librdkafka().produce(servers, "t", VALUES, "none")
        assert Librdkafka().consume(servers, "t", len(VALUES)) == VALUES
