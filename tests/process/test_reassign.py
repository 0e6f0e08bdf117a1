"""Plans carried out on four real brokers: throttled, paused, killed, resumed, cancelled, rolled back."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tierfetch.cli.cluster_session import Admin
from tierfetch.cli.command_config import make_client
from tierfetch.cli.console.reading import ClusterReading
from tierfetch.cli.local.cluster import SESSION, LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.cli.main import cli
from tierfetch.cli.options import addresses
from tierfetch.console.core import Plan
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.net.client import Address
from tierfetch.protocol.requests import configs_of, metadata_of
from tierfetch.protocol.wire.config_resources import ConfigSource, ResourceType
from tierfetch.tests.process.clients import Librdkafka, create_topic
from tierfetch.tests.process.conftest import local_tier
from tierfetch.tests.process.looks import log_bytes
from tierfetch.tests.process.producing import SteadyProducer

TIMEOUT_S = 60.0
BURST_S = 1.0
SET_SOURCES = (ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource.DYNAMIC_BROKER_CONFIG)
BROKERS = (1, 2, 3, 4)
SIZE_BYTES = 8_000_000
SMALL_FETCHES = {"replica.fetch.max.bytes": "500000", "replica.fetch.response.max.bytes": "500000"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Small fetches, so that a throttle's first one is small too; thin replicas are warm soon."""
    base = tmp_path_factory.mktemp("reassign")
    configs = SMALL_FETCHES | {"follower.fetch.last.tiered.offset.enable": "true"}
    warm = SESSION | {"thin.replica.warm.ms": "3000"}
    with LocalCluster(base, BROKERS, tier=local_tier(base), configs=configs, controller_configs=warm) as cluster:
        yield cluster


class Moved:
    """One topic of two partitions, partition 0 with `SIZE_BYTES`, and the plan that moves both to other brokers: those
    of `among` that they are not on. Two of four have a replica of each, of fewer only one.
    """

    def __init__(
        self, cluster: LocalCluster, topic: str, directory: Path, *, among: Sequence[int] = BROKERS, **configs: str
    ) -> None:
        self.cluster, self.topic = cluster, topic
        placed = None if among is BROKERS else [[broker] for broker in among]
        create_topic(cluster.bootstrap_servers, topic, partitions=2, replicas=2, placed=placed, configs=configs)
        Librdkafka().produce(cluster.bootstrap_servers, topic, [b"x" * 10_000] * (SIZE_BYTES // 10_000), "none")
        self.before = self.replicas()
        self.target = [[broker for broker in among if broker not in each] for each in self.before]
        self.plan = directory / "plan.json"
        rows = [{"topic": topic, "partition": number, "replicas": each} for number, each in enumerate(self.target)]
        details = {"waves": [[0], [1]], "size_bytes": [2 * SIZE_BYTES, 0]}
        self.plan.write_text(json.dumps({"version": 1, "partitions": rows, "tierfetch": details}))

    def replicas(self) -> list[list[int]]:
        (topic,) = self._ask(1, ApiKey.METADATA, metadata_of([self.topic])).topics
        return [list(part.replica_nodes) for part in sorted(topic.partitions, key=lambda part: part.partition_index)]

    def command(self, name: str, *options: str) -> list[str]:
        bootstrap = () if name == "pause" else ("--bootstrap", self.cluster.bootstrap_servers)
        return ["reassign", name, str(self.plan), *options, *bootstrap]

    def run(self, *arguments: str, code: int = 0) -> str:
        """In this process; those that are to be killed, or to run beside others, are started in their own."""
        done = CliRunner().invoke(cli, self.command(*arguments))
        assert done.exit_code == code, done.output
        return done.stdout + done.stderr

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tierfetch.cli.main", *self.command(*arguments)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def wait_moving(self) -> None:
        for _ in poll(TIMEOUT_S, "the first wave to move"):
            if self.is_moving:
                return

    @property
    def is_moving(self) -> bool:
        """Whether the first wave is under way: its partition has old and new replicas."""
        return len(self.replicas()[0]) > len(self.before[0])

    def throttles(self) -> dict[str, str]:
        """Whatever is set for the topic or a broker."""
        brokers = [self._configs(ResourceType.BROKER, str(broker), broker) for broker in BROKERS]
        found = {key: value for configs in (self.configs(), *brokers) for key, value in configs.items()}
        return {key: value for key, value in found.items() if "throttled" in key}

    def configs(self) -> dict[str, str]:
        """Of the topic, by itself."""
        return self._configs(ResourceType.TOPIC, self.topic, 1)

    def _configs(self, resource_type: ResourceType, name: str, broker: int) -> dict[str, str]:
        (result,) = self._ask(broker, ApiKey.DESCRIBE_CONFIGS, configs_of(resource_type, [(name, None)])).results
        return {each.name: each.value for each in result.configs if each.config_source in SET_SOURCES}

    def _ask(self, broker: int, api: ApiKey, body: Any) -> Any:
        async def ask() -> Any:
            client = make_client("test")
            address = Address("127.0.0.1", self.cluster.port(broker))
            try:
                return await client.send(address, body, timeout_s=TIMEOUT_S)
            finally:
                await client.close()

        return asyncio.run(ask())


def plans_on_the_console(cluster: LocalCluster) -> tuple[Plan, ...]:
    """Return what the console shows of plans that nobody has named to it."""

    async def look() -> tuple[Plan, ...]:
        async with Admin(addresses([cluster.bootstrap_servers]), timeout_s=TIMEOUT_S) as admin:
            found = (await ClusterReading(admin).look()).overview
            assert not [problem for problem in found.problems if "plan" in problem.what]
            return found.plans

    return asyncio.run(look())


def test_C6_a_throttled_plan_takes_its_time_and_leaves_no_throttle(cluster: LocalCluster, tmp_path: Path) -> None:
    moved = Moved(cluster, "throttled", tmp_path)
    said = moved.run("execute", "--throttle", "2 MB/s", "--json")
    assert "wave 1 of 2" in said
    outcome = json.loads(said[said.index("{") : said.index("}") + 1])
    assert outcome["outcome"] == "done"
    assert outcome["seconds"] > (SIZE_BYTES - 500_000) / 2e6 - BURST_S
    assert moved.replicas() == moved.target
    assert moved.throttles() == {}


def test_C6_a_killed_execution_is_resumed_and_rolled_back(cluster: LocalCluster, tmp_path: Path) -> None:
    moved = Moved(cluster, "killed", tmp_path)
    process = moved.start("execute", "--throttle", "1 MB/s")
    moved.wait_moving()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert moved.throttles()["leader.replication.throttled.rate"] == "1000000"
    assert "was begun already" in moved.run("execute", code=1)
    said = moved.run("status")
    assert "moving, and no process carries it out: `tierfetch reassign resume" in said
    assert re.search(r"^left: .* to be in sync on brokers .*$", said, re.MULTILINE)
    assert "moving: 1 partition\n" in said
    (seen,) = plans_on_the_console(cluster)
    assert (seen.name, seen.doing) == ("plan.json", said.splitlines()[0])
    assert [(wave.partitions, dict(wave.standings)) for wave in seen.waves] == [(1, {"moving": 1}), (1, {"before": 1})]
    assert "done: 2 partitions" in moved.run("resume", "--throttle", "100 MB/s")
    assert moved.replicas() == moved.target
    assert moved.throttles() == {}
    assert "rolled back: 2 partitions" in moved.run("rollback")
    assert moved.replicas() == moved.before
    assert moved.throttles() == {}
    assert plans_on_the_console(cluster) == ()


def test_C6_cancel_ends_a_running_execution_where_it_began(cluster: LocalCluster, tmp_path: Path) -> None:
    moved = Moved(cluster, "cancelled", tmp_path)
    process = moved.start("execute", "--throttle", "500 kB/s", "--json")
    moved.wait_moving()
    assert "asked of the process" in moved.run("cancel")
    output, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, output
    assert '"outcome": "cancelled"' in output
    assert moved.replicas() == moved.before
    assert moved.throttles() == {}


def test_C5_an_execution_outlives_its_controller(cluster: LocalCluster, tmp_path: Path) -> None:
    moved = Moved(cluster, "headless", tmp_path)
    process = moved.start("execute", "--throttle", "2 MB/s")
    moved.wait_moving()
    assert cluster.quorum is not None
    (controller,) = cluster.quorum.nodes
    cluster.quorum.kill(controller)
    time.sleep(1)
    assert process.poll() is None
    cluster.quorum.start(controller)
    output, _ = process.communicate(timeout=TIMEOUT_S)
    assert "done: 2 partitions" in output
    assert moved.replicas() == moved.target
    assert moved.throttles() == {}


def test_pause_lets_a_wave_end_and_begins_no_other(cluster: LocalCluster, tmp_path: Path) -> None:
    moved = Moved(cluster, "paused", tmp_path)
    process = moved.start("execute", "--throttle", "3 MB/s")
    moved.wait_moving()
    assert "pausing" in moved.run("pause")
    output, _ = process.communicate(timeout=TIMEOUT_S)
    assert "paused" in output
    assert moved.replicas() == [moved.target[0], moved.before[1]]
    assert moved.throttles() == {}
    assert "nothing to pause" in moved.run("pause", code=1)
    assert "done" in moved.run("resume")
    assert moved.replicas() == moved.target


def test_F11_leaders_roll_and_tier_first_and_a_thin_replica_leads_once_it_is_warm(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    configs = {"remote.storage.enable": "true", "segment.bytes": "1048576"}
    moved = Moved(cluster, "tiered", tmp_path, **configs)
    kept, new = moved.before[0][0], moved.target[0][0]
    rows = [{"topic": "tiered", "partition": 0, "replicas": [kept, new]}]
    details = {
        "leaders": [{"topic": "tiered", "partition": 0, "replicas": [new, kept]}],
        "roll": {"topics": ["tiered"], "segment_ms": 500, "wait_max_s": 20},
    }
    moved.plan.write_text(json.dumps({"version": 1, "partitions": rows, "tierfetch": details}))
    with SteadyProducer(cluster.bootstrap_servers, "tiered") as producer:
        producer.wait_acknowledged(20)
        said = moved.run("execute", "--warm-timeout", "40", "--json")
    outcome = json.loads(said[said.index("{") : said.index("}") + 1])
    assert (outcome["outcome"], outcome["notes"]) == ("done", [])
    events = [json.loads(line)["event"] for line in Path(f"{moved.plan}.journal").read_text().splitlines()[1:]]
    assert events[:2] == ["started", "rolled"]
    assert moved.replicas()[0] == [new, kept]
    (topic,) = moved._ask(1, ApiKey.METADATA, metadata_of(["tiered"])).topics
    assert topic.partitions[0].leader_id == new
    assert min(log_bytes(cluster, new, "tiered")) >= SIZE_BYTES // 10_000, "it began behind what was tiered"
    assert moved.configs() == configs


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
        "unfit-0: broker 9 will hold a replica, and is not alive; alive are [1, 2, 3, 4]",
        "unfit-7: the topic has no partition 7",
        "nowhere-0: there is no topic nowhere",
        "unfit-1: 1 replicas are planned where 2 are",
    ):
        assert problem in said
    assert moved.replicas() == moved.before


def test_C6_a_second_plan_on_the_same_brokers_is_refused(cluster: LocalCluster, tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    first, second = Moved(cluster, "first", tmp_path), Moved(cluster, "second", tmp_path / "second")
    process = first.start("execute", "--throttle", "1 MB/s")
    first.wait_moving()
    said = second.run("execute", "--throttle", "9 MB/s", code=1)
    assert "nothing was begun:\nfirst-0: another plan moves them on brokers [1, 2, 3, 4]" in said
    assert "have a replication throttle already" in said
    assert second.replicas() == second.before
    assert first.throttles()["leader.replication.throttled.rate"] == "1000000"
    first.run("cancel")
    process.communicate(timeout=TIMEOUT_S)
    assert "done" in second.run("execute", "--throttle", "90 MB/s")
    assert second.replicas() == second.target
    assert second.throttles() == {}


def test_C6_two_plans_on_brokers_of_their_own_run_at_once(cluster: LocalCluster, tmp_path: Path) -> None:
    (tmp_path / "right").mkdir()
    left = Moved(cluster, "left", tmp_path, among=(1, 2))
    right = Moved(cluster, "right", tmp_path / "right", among=(3, 4))
    process = left.start("execute", "--throttle", "400 kB/s")
    left.wait_moving()
    assert "done: 2 partitions" in right.run("execute", "--throttle", "90 MB/s")
    assert right.replicas() == right.target
    assert left.is_moving
    assert left.throttles()["leader.replication.throttled.rate"] == "400000", "the other plan has taken it away"
    assert left.configs().keys() >= {"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}
    process.kill()
    process.communicate(timeout=TIMEOUT_S)
    assert "done: 2 partitions" in left.run("resume", "--throttle", "90 MB/s")
    assert left.replicas() == left.target
    assert left.throttles() == right.throttles() == {}


def test_C6_a_broker_that_is_dead_at_the_end_has_no_throttle_when_it_is_back(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    moved = Moved(cluster, "orphaned", tmp_path)
    follower = moved.before[0][1]
    rows = [{"topic": "orphaned", "partition": 0, "replicas": moved.target[0]}]
    moved.plan.write_text(json.dumps({"version": 1, "partitions": rows}))
    process = moved.start("execute", "--throttle", "2 MB/s")
    moved.wait_moving()
    cluster.kill(follower)
    try:
        output, _ = process.communicate(timeout=TIMEOUT_S)
        assert "done: 1 partition," in output
    finally:
        cluster.start(follower)
        cluster.wait_serving(follower)
    assert moved.replicas()[0] == moved.target[0]
    assert moved.throttles() == {}


def test_C6_a_topic_that_is_deleted_while_it_moves_ends_the_plan_by_name(cluster: LocalCluster, tmp_path: Path) -> None:
    moved = Moved(cluster, "deleted", tmp_path)
    process = moved.start("execute", "--throttle", "1 MB/s")
    moved.wait_moving()
    topics = [sys.executable, "-m", "tierfetch.cli.main", "topics", "delete", "deleted", "--yes"]
    servers = ("--bootstrap", cluster.bootstrap_servers)
    subprocess.run([*topics, *servers], capture_output=True, timeout=TIMEOUT_S, check=True)
    output, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1
    for partition in (0, 1):
        line = f"deleted-{partition}: it was deleted; continue without it (--skip-changed), or make a new plan"
        assert line in output
    assert "stopped, and nothing is under way" in output
    create_topic(cluster.bootstrap_servers, "deleted", partitions=2, replicas=2)
    assert moved.throttles() == {}
