"""Plans and their execution on brokers and tools of Apache Kafka."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierfetch.bench.lab.kafka import SHORT_LIVED_JVM, KafkaCluster, run_tool
from tierfetch.cli.local.processes import poll
from tierfetch.model.arrays import ClusterArrays
from tierfetch.planning.goals import Goal
from tierfetch.planning.plan_arrays import plan_file_of
from tierfetch.planning.plan_file import PlanFile
from tierfetch.planning.planner import plan_replicas
from tierfetch.tests.interop.clients import TIMEOUT_S
from tierfetch.tests.planning.clusters import cluster as made_up
from tierfetch.tests.process.clients import Librdkafka

pytestmark = pytest.mark.slow

BROKERS = (1, 2, 3)
TOOL = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Three brokers without a tier."""
    base = tmp_path_factory.mktemp("reassign")
    with KafkaCluster(base, BROKERS, tiered=False, heap="384m", jvm=SHORT_LIVED_JVM) as running:
        yield running


def tool(cluster: KafkaCluster, name: str, *arguments: str) -> str:
    return run_tool(name, "--bootstrap-server", cluster.bootstrap_servers, *arguments)


def create(cluster: KafkaCluster, topic: str, *replicas: str) -> None:
    tool(
        cluster,
        "org.apache.kafka.tools.TopicCommand",
        *("--create", "--topic", topic, "--replica-assignment", ",".join(replicas)),
    )


def replicas(cluster: KafkaCluster, topic: str) -> list[str]:
    said = tool(cluster, "org.apache.kafka.tools.TopicCommand", "--describe", "--topic", topic)
    return [line.split("Replicas: ")[1].split()[0] for line in said.splitlines() if "Replicas: " in line]


def throttles(cluster: KafkaCluster) -> str:
    said = "".join(
        tool(cluster, "kafka.admin.ConfigCommand", "--describe", "--entity-type", kind)
        for kind in ("topics", "brokers")
    )
    return "\n".join(line for line in said.splitlines() if "throttled" in line)


def command(cluster: KafkaCluster, *arguments: str) -> list[str]:
    bootstrap = () if arguments[0] == "pause" else ("--bootstrap", cluster.bootstrap_servers)
    return [sys.executable, "-m", "tierfetch.cli.main", "reassign", *arguments, *bootstrap]


def ours(cluster: KafkaCluster, *arguments: str, code: int = 0) -> str:
    words = command(cluster, *arguments)
    done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


class Slow:
    """A plan in two waves that is being carried out, so slowly that it is in the first one for a while."""

    def __init__(self, cluster: KafkaCluster, topic: str, directory: Path, throttle: str = "50 kB/s") -> None:
        self.cluster, self.topic = cluster, topic
        create(cluster, topic, "1:2", "1:2")
        Librdkafka().produce(cluster.bootstrap_servers, topic, [b"x" * 10_000] * 600, "none")
        self.plan = directory / f"{topic}.json"
        rows = [{"topic": topic, "partition": number, "replicas": [3, 2]} for number in (0, 1)]
        self.plan.write_text(
            json.dumps({"version": 1, "partitions": rows, "tierfetch": {"waves": [[0], [1]], "size_bytes": [1, 1]}})
        )
        words = command(cluster, "execute", str(self.plan), "--throttle", throttle)
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in poll(TIMEOUT_S, f"{topic} to move", 0.5):
            if "moving: 1" in self.status():
                return

    def status(self) -> str:
        done = subprocess.run(
            command(self.cluster, "status", str(self.plan)),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return done.stdout

    def end(self) -> str:
        output, _ = self.process.communicate(timeout=TIMEOUT_S)
        return output


def test_S2_kafkas_tool_takes_our_plan(cluster: KafkaCluster, tmp_path: Path) -> None:
    create(cluster, "t", "1:2", "2:1")
    arrays: ClusterArrays = made_up([(1, 2), (2, 1)], brokers=3)
    plan = tmp_path / "plan.json"
    plan.write_text(plan_file_of(arrays, plan_replicas(arrays, Goal.replace({0: 2}))).to_text())
    assert "Successfully started" in tool(cluster, TOOL, "--reassignment-json-file", str(plan), "--execute")
    for _ in poll(TIMEOUT_S, "the tool to see it completed", 1.0):
        if tool(cluster, TOOL, "--reassignment-json-file", str(plan), "--verify").count("is completed") == 2:
            break
    assert replicas(cluster, "t") == ["3,2", "2,3"]


def test_S2_we_take_a_plan_of_kafkas_tool(cluster: KafkaCluster, tmp_path: Path) -> None:
    create(cluster, "generated", "1:2", "2:1")
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": "generated"}]}))
    said = tool(cluster, TOOL, "--topics-to-move-json-file", str(topics), "--broker-list", "2,3", "--generate")
    proposed = said.split("Proposed partition reassignment configuration")[1].strip()
    plan = tmp_path / "plan.json"
    plan.write_text(proposed)
    assert {each.log_dirs for each in PlanFile.read(plan).partitions} == {("any", "any")}
    assert "done" in ours(cluster, "execute", str(plan))
    assert all(set(each.split(",")) == {"2", "3"} for each in replicas(cluster, "generated"))


def test_C6_our_execution_throttles_and_rolls_back_on_kafka(cluster: KafkaCluster, tmp_path: Path) -> None:
    create(cluster, "moved", "1:2", "1:2")
    Librdkafka().produce(cluster.bootstrap_servers, "moved", [b"x" * 10_000] * 600, "none")
    plan = tmp_path / "plan.json"
    ours(cluster, "plan", "--window", "0", "--replace", "1", "--with", "3", "--throttle", "1 MB/s", "--out", str(plan))
    said = ours(cluster, "execute", str(plan), "--json")
    outcome = json.loads(said[said.index("{") : said.index("}") + 1])
    assert outcome["outcome"] == "done"
    assert outcome["seconds"] > 2
    assert replicas(cluster, "moved") == ["3,2", "3,2"]
    assert throttles(cluster) == ""
    assert "rolled back" in ours(cluster, "rollback", str(plan))
    assert replicas(cluster, "moved") == ["1,2", "1,2"]
    assert throttles(cluster) == ""


def test_C6_a_killed_execution_is_resumed_on_kafka(cluster: KafkaCluster, tmp_path: Path) -> None:
    slow = Slow(cluster, "killed", tmp_path)
    slow.process.send_signal(signal.SIGKILL)
    slow.end()
    assert "=50000" in throttles(cluster)
    assert "no process carries it out" in slow.status()
    assert "done: 2 partitions" in ours(cluster, "resume", str(slow.plan), "--throttle", "100 MB/s")
    assert replicas(cluster, "killed") == ["3,2", "3,2"]
    assert throttles(cluster) == ""


def test_C6_pause_and_cancel_on_kafka(cluster: KafkaCluster, tmp_path: Path) -> None:
    slow = Slow(cluster, "paused", tmp_path, throttle="100 kB/s")
    ours(cluster, "pause", str(slow.plan))
    assert "paused" in slow.end()
    assert replicas(cluster, "paused") == ["3,2", "1,2"]
    assert "done" in ours(cluster, "resume", str(slow.plan), "--throttle", "100 MB/s")
    assert replicas(cluster, "paused") == ["3,2", "3,2"]
    slow = Slow(cluster, "cancelled", tmp_path)
    assert "asked of the process" in ours(cluster, "cancel", str(slow.plan))
    assert "cancelled" in slow.end()
    assert replicas(cluster, "cancelled") == ["1,2", "1,2"]
    assert throttles(cluster) == ""


def test_C6_a_second_plan_on_the_same_brokers_is_refused_on_kafka(cluster: KafkaCluster, tmp_path: Path) -> None:
    create(cluster, "second", "2:1")
    second = tmp_path / "second.json"
    rows = [{"topic": "second", "partition": 0, "replicas": [3, 2]}]
    second.write_text(json.dumps({"version": 1, "partitions": rows}))
    slow = Slow(cluster, "first", tmp_path)
    said = ours(cluster, "execute", str(second), "--throttle", "9 MB/s", code=1)
    assert "nothing was begun:\nfirst-0: another plan moves them on brokers [1, 2, 3]" in said
    assert "brokers [1, 2, 3] have a replication throttle already" in said
    assert replicas(cluster, "second") == ["2,1"]
    assert "=50000" in throttles(cluster)
    ours(cluster, "cancel", str(slow.plan))
    slow.end()
    assert "done" in ours(cluster, "execute", str(second), "--throttle", "9 MB/s")
    assert replicas(cluster, "second") == ["3,2"]


def test_C6_a_broker_that_dies_keeps_its_throttle_until_it_is_removed(cluster: KafkaCluster, tmp_path: Path) -> None:
    slow = Slow(cluster, "orphaned", tmp_path, throttle="500 kB/s")
    cluster.kill(2)
    try:
        said = slow.end()
        assert slow.process.returncode == 0, said
        assert "broker 2 was not alive: the replication throttle stays set there" in said
        assert "`tierfetch reassign resume orphaned.json` removes it" in slow.status()
    finally:
        cluster.start(2)
        cluster.wait_serving(2)
    assert "500000" in throttles(cluster)
    ours(cluster, "resume", str(slow.plan))
    assert throttles(cluster) == ""
    assert "not alive" not in slow.status()
