"""A plan that is carried out fast, on brokers whose thin replicas never warm: who leads by the metadata log."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tierfetch.broker.cluster.view import ClusterImage, PartitionRegistration
from tierfetch.broker.core.metadata_view import MetadataView
from tierfetch.cli.local.cluster import CONTROLLER_ID, LocalCluster
from tierfetch.cli.main import cli
from tierfetch.protocol.records import iter_batches, iter_records
from tierfetch.tests.process.clients import Librdkafka, create_topics
from tierfetch.tests.process.conftest import local_tier
from tierfetch.tests.process.looks import image, log_bytes

BROKERS = (1, 2, 3)
HOUR_MS = "3600000"
TOPICS = ("a", "b", "c", "d")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    cold = {"thin.replica.warm.ms": HOUR_MS}
    configs = {"follower.fetch.last.tiered.offset.enable": "true"}
    with LocalCluster(
        tmp_path, BROKERS, tier=local_tier(tmp_path), configs=configs | cold, controller_configs=cold
    ) as cluster:
        yield cluster


def leaders(cluster: LocalCluster) -> dict[str, list[int]]:
    """All that partition 0 of each topic ever had, in order."""
    assert cluster.quorum is not None
    view = MetadataView("", "PLAINTEXT")
    found: dict[str, list[int]] = {}
    for path in sorted(cluster.quorum.metadata_directory(CONTROLLER_ID).glob("*.log")):
        data = path.read_bytes()
        for position, header in iter_batches(data):
            for record in () if header.is_control else iter_records(data, position, header):
                view.apply([record.value or b""])
                for name, now in partitions(view.cluster).items():
                    history = found.setdefault(name, [now.leader])
                    if history[-1] != now.leader:
                        history.append(now.leader)
    return found


def run(cluster: LocalCluster, *arguments: str, code: int = 0) -> str:
    """What a command says."""
    done = CliRunner().invoke(cli, [*arguments, "--bootstrap", cluster.bootstrap_servers])
    assert done.exit_code == code, done.output
    return done.stdout if code == 0 else done.output


def partitions(image: ClusterImage) -> dict[str, PartitionRegistration]:
    """Partition 0 of each topic that is there by now."""
    topics = [image.topics[name] for name in TOPICS if name in image.topics]
    return {topic.name: topic.partitions[0] for topic in topics if topic.partitions}


def test_F11_a_fast_plan_gives_no_thin_replica_the_lead_while_a_full_one_is_in_sync(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """Each leader's broker goes, and a broker without a replica comes, as the preferred leader."""
    configs = {"remote.storage.enable": "true", "segment.bytes": "1048576"}
    create_topics(cluster.bootstrap_servers, TOPICS, configs=configs)
    before = partitions(image(cluster))
    for name in TOPICS:
        Librdkafka().produce(cluster.bootstrap_servers, name, [b"x" * 10_000] * 200, "none")
    new = {name: min(set(BROKERS) - set(now.replicas)) for name, now in before.items()}
    kept = {name: now.replicas[1] for name, now in before.items()}
    rows = [{"topic": name, "partition": 0, "replicas": [new[name], kept[name]]} for name in TOPICS]
    details = {"roll": {"topics": TOPICS, "segment_ms": 500, "wait_max_s": 8}}
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": rows, "tierfetch": details}))
    run(cluster, "reassign", "execute", str(plan), "--warm-timeout", "2")
    after = partitions(image(cluster))
    for name in TOPICS:
        assert set(after[name].isr) == {new[name], kept[name]}
        assert min(log_bytes(cluster, new[name], name)) > 0, "it has copied everything, and is not thin"
    assert leaders(cluster) == {name: [now.leader, kept[name]] for name, now in before.items()}
    listed = {row["broker"]: row["thin"] for row in json.loads(run(cluster, "brokers", "list", "--json"))}
    assert listed == {broker: list(new.values()).count(broker) for broker in BROKERS}
    described = json.loads(run(cluster, "topics", "describe", *TOPICS, "--json"))
    assert {row["topic"]: row["thin"] for row in described} == {name: [new[name]] for name in TOPICS}
    said = run(cluster, "brokers", "wait", str(new["a"]), "--warm", "--timeout", "0", code=1)
    assert f"{listed[new['a']]} of " in said
    assert re.search(r"replicas are thin \(.*\ba-0\b.*\), warm in 0:59:", said), said
