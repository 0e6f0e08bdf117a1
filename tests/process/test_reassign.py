"""Plans carried out on four real brokers: throttled, paused, killed, resumed, cancelled, rolled back."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tierfetch.cli.local_cluster import LocalCluster
from tierfetch.cli.processes import poll
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.client import Address, KafkaClient
from tierfetch.protocol.questions import metadata_of
from tierfetch.tests.process.clients import Librdkafka, create_topic

TIMEOUT_S = 60.0
BROKERS = (1, 2, 3, 4)
SIZE_BYTES = 8_000_000
MEBIBYTE = {"replica.fetch.max.bytes": "500000", "replica.fetch.response.max.bytes": "500000"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Small fetches, so that a throttle's first one is small too."""
    with LocalCluster(tmp_path_factory.mktemp("reassign"), BROKERS, configs=MEBIBYTE) as cluster:
        yield cluster


class Moved:
    """One topic of two partitions, partition 0 with `SIZE_BYTES`, and the plan that moves both to other brokers."""

    def __init__(self, cluster: LocalCluster, topic: str, directory: Path) -> None:
        self.cluster, self.topic = cluster, topic
        create_topic(cluster.bootstrap_servers, topic, partitions=2, replicas=2)
        Librdkafka().produce(cluster.bootstrap_servers, topic, [b"x" * 10_000] * (SIZE_BYTES // 10_000), "none")
        self.before = self.replicas()
        self.target = [[broker for broker in BROKERS if broker not in each] for each in self.before]
        self.plan = directory / "plan.json"
        rows = [{"topic": topic, "partition": number, "replicas": each} for number, each in enumerate(self.target)]
        details = {"waves": [[0], [1]], "size_bytes": [2 * SIZE_BYTES, 0]}
        self.plan.write_text(json.dumps({"version": 1, "partitions": rows, "tierfetch": details}))

    def replicas(self) -> list[list[int]]:
        return [list(part.replica_nodes) for part in self._metadata().partitions]

    def _metadata(self) -> Any:
        async def ask() -> Any:
            client = KafkaClient(client_id="test", random=random.Random())
            address = Address("127.0.0.1", self.cluster.port(1))
            try:
                return await client.request(address, ApiKey.METADATA, metadata_of([self.topic]), timeout_s=TIMEOUT_S)
            finally:
                await client.close()

        found = asyncio.run(ask()).topics[0]
        return _Sorted(found)

    def command(self, *arguments: str) -> list[str]:
        servers = ("--bootstrap", self.cluster.bootstrap_servers)
        bootstrap = () if arguments[0] == "pause" else servers
        return [
            sys.executable,
            "-m",
            "tierfetch.cli.main",
            "reassign",
            arguments[0],
            str(self.plan),
            *arguments[1:],
            *bootstrap,
        ]

    def run(self, *arguments: str, code: int = 0) -> str:
        done = subprocess.run(self.command(*arguments), capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(self.command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def wait_moving(self) -> None:
        for _ in poll(TIMEOUT_S, "the first wave to move"):
            if len(self.replicas()[0]) == 4:
                return

    def throttles(self) -> str:
        """Whatever is set for the topic or a broker."""
        said = ""
        for name in (("--topic", self.topic), *(("--broker", str(broker)) for broker in BROKERS)):
            servers = ("--bootstrap", self.cluster.bootstrap_servers)
            command = [sys.executable, "-m", "tierfetch.cli.main", "configs", "describe", *name, *servers]
            said += subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True).stdout
        return "\n".join(line for line in said.splitlines() if "throttled" in line)


class _Sorted:
    """A topic of Metadata with its partitions in order."""

    def __init__(self, topic: Any) -> None:
        self.partitions: Sequence[Any] = sorted(topic.partitions, key=lambda part: part.partition_index)


def test_C6_a_throttled_plan_takes_its_time_and_leaves_no_throttle(cluster: LocalCluster, tmp_path: Path) -> None:
    moved = Moved(cluster, "throttled", tmp_path)
    began_s = time.monotonic()
    said = moved.run("execute", "--throttle", "3 MB/s")
    elapsed_s = time.monotonic() - began_s
    assert "wave 1 of 2" in said
    assert "done: 2 partitions" in said
    assert moved.replicas() == moved.target
    assert elapsed_s > (SIZE_BYTES - 500_000) / 3e6 - 1, "each of two followers takes 3 MB/s"
    assert moved.throttles() == ""


def test_C6_a_killed_execution_is_resumed_and_rolled_back(cluster: LocalCluster, tmp_path: Path) -> None:
    moved = Moved(cluster, "killed", tmp_path)
    process = moved.start("execute", "--throttle", "1 MB/s")
    moved.wait_moving()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert "throttled" in moved.throttles()
    assert "was begun already" in moved.run("execute", code=1)
    assert "done: 2 partitions" in moved.run("resume", "--throttle", "100 MB/s")
    assert moved.replicas() == moved.target
    assert moved.throttles() == ""
    assert "rolled back: 2 partitions" in moved.run("rollback")
    assert moved.replicas() == moved.before
    assert moved.throttles() == ""


def test_C6_cancel_ends_a_running_execution_where_it_began(cluster: LocalCluster, tmp_path: Path) -> None:
    moved = Moved(cluster, "cancelled", tmp_path)
    process = moved.start("execute", "--throttle", "500 kB/s", "--json")
    moved.wait_moving()
    assert "asked of the process" in moved.run("cancel")
    output, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, output
    assert '"outcome": "cancelled"' in output
    assert moved.replicas() == moved.before
    assert moved.throttles() == ""


def test_pause_lets_a_wave_end_and_begins_no_other(cluster: LocalCluster, tmp_path: Path) -> None:
    moved = Moved(cluster, "paused", tmp_path)
    process = moved.start("execute", "--throttle", "3 MB/s")
    moved.wait_moving()
    assert "pausing" in moved.run("pause")
    output, _ = process.communicate(timeout=TIMEOUT_S)
    assert "paused" in output
    assert moved.replicas() == [moved.target[0], moved.before[1]]
    assert moved.throttles() == ""
    assert "nothing to pause" in moved.run("pause", code=1)
    assert "done" in moved.run("resume")
    assert moved.replicas() == moved.target


def test_a_plan_that_does_not_fit_the_cluster_is_named_and_not_begun(cluster: LocalCluster, tmp_path: Path) -> None:
    moved = Moved(cluster, "unfit", tmp_path)
    rows = [
        {"topic": "unfit", "partition": 0, "replicas": [9, 1]},
        {"topic": "unfit", "partition": 7, "replicas": [1, 2]},
        {"topic": "nowhere", "partition": 0, "replicas": [1, 2]},
        {"topic": "unfit", "partition": 1, "replicas": [1]},
    ]
    moved.plan.write_text(json.dumps({"version": 1, "partitions": rows}))
    said = moved.run("execute", code=1)
    for problem in (
        "unfit-0: broker 9 is to hold a replica, and is not alive; there are [1, 2, 3, 4]",
        "unfit-7: the topic has no partition 7",
        "nowhere-0: there is no topic nowhere",
        "unfit-1: 1 replicas are planned where 2 are",
    ):
        assert problem in said
    assert moved.replicas() == moved.before
