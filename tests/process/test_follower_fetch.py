"""Consumers that read from the replica in their rack (KIP-392), as librdkafka does it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import confluent_kafka
import pytest

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.cli.offsets import list_offset
from tierfetch.fetcher.core.leader_offsets import EARLIEST_LOCAL_TIMESTAMP
from tierfetch.tests.process import connecting
from tierfetch.tests.process.clients import TIMEOUT_S, Librdkafka, create_topic
from tierfetch.tests.process.conftest import local_tier
from tierfetch.tests.process.looks import leader_of, log_bytes, registration

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
RACKS = {1: "a", 2: "b"}
VALUES = [b"%06d " % number + b"x" * 500 for number in range(2000)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Broker 1 in rack a, broker 2 in rack b, and a tier."""
    base = tmp_path_factory.mktemp("racks")
    configs = {"replica.selector.class": SELECTOR, "log.retention.check.interval.ms": "500"}
    cluster = LocalCluster(base, tuple(RACKS), tier=local_tier(base), configs=configs)
    cluster.broker_configs = {broker: {"broker.rack": rack} for broker, rack in RACKS.items()}
    with cluster:
        yield cluster


class Consumer:
    """Reads partition 0 from its beginning, and knows from whom."""

    def __init__(self, cluster: LocalCluster, topic: str, rack: str) -> None:
        self.topic = topic
        self.source = -1
        self._consumer = confluent_kafka.Consumer(
            {
                **connecting.librdkafka(cluster.bootstrap_servers),
                "group.id": "racks",
                "client.rack": rack,
                "enable.auto.commit": False,
                "statistics.interval.ms": 50,
                "stats_cb": self._look,
                "log_level": 0,
            }
        )
        self._consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])

    def _look(self, text: str) -> None:
        found = json.loads(text)["topics"].get(self.topic, {"partitions": {}})["partitions"].get("0")
        self.source = found["broker"] if found is not None else -1

    def read(self, count: int) -> list[bytes]:
        values: list[bytes] = []
        while len(values) < count:
            message = self._consumer.poll(TIMEOUT_S)
            assert message is not None, f"nothing for {TIMEOUT_S} s after {len(values)} of {count}"
            assert message.error() is None, message.error()
            values.append(message.value() or b"")
        return values

    def wait_source(self, broker: int) -> None:
        for _ in poll(TIMEOUT_S, f"{self.topic} to be read from broker {broker}, not {self.source}"):
            assert self._consumer.poll(0.05) is None
            if self.source == broker:
                return

    def close(self) -> None:
        self._consumer.close()


def filled(cluster: LocalCluster, topic: str, **configs: str) -> tuple[int, int]:
    """Leader and follower, both in sync."""
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    create_topic(cluster.bootstrap_servers, topic, configs=settings)
    for begin in range(0, len(VALUES), 400):  # small batches: segments are small too
        Librdkafka().produce(cluster.bootstrap_servers, topic, VALUES[begin : begin + 400], "none")
    leader = leader_of(cluster, topic)
    for _ in poll(TIMEOUT_S, f"{topic} to be in sync"):
        if set(registration(cluster, topic).isr) == set(RACKS):
            break
    return leader, 3 - leader


def test_F11_a_consumer_reads_from_the_follower_in_its_rack_and_keeps_up(cluster: LocalCluster) -> None:
    leader, follower = filled(cluster, "near")
    with contextlib.closing(Consumer(cluster, "near", RACKS[follower])) as near:
        assert near.read(len(VALUES)) == VALUES
        near.wait_source(follower)
        for number in range(5):
            Librdkafka().produce(cluster.bootstrap_servers, "near", VALUES[number : number + 1], "none")
            assert near.read(1) == VALUES[number : number + 1]
        assert near.source == follower
    for rack in (RACKS[leader], "elsewhere"):
        with contextlib.closing(Consumer(cluster, "near", rack)) as far:
            assert far.read(len(VALUES)) == VALUES
            assert far.read(5) == VALUES[:5]
            far.wait_source(leader)


def test_F11_R4_a_follower_serves_what_is_in_the_tier(cluster: LocalCluster) -> None:
    tiered = {"remote_storage_enable": "true", "internal_segment_bytes": "250000", "local_retention_bytes": "1"}
    leader, follower = filled(cluster, "tiered", **tiered)
    for _ in poll(TIMEOUT_S, "both replicas to hold the end of the log alone"):
        starts = [min(log_bytes(cluster, broker, "tiered"), default=0) for broker in RACKS]
        if min(starts) > 1000:
            break
    assert list_offset(cluster.port(leader), "tiered", 0, EARLIEST_LOCAL_TIMESTAMP).offset > 1000
    with contextlib.closing(Consumer(cluster, "tiered", RACKS[follower])) as near:
        assert near.read(len(VALUES)) == VALUES
        near.wait_source(follower)


def test_C4_a_consumer_goes_on_when_its_follower_ends_or_leads(cluster: LocalCluster) -> None:
    leader, follower = filled(cluster, "moving")
    with contextlib.closing(Consumer(cluster, "moving", RACKS[follower])) as near:
        assert near.read(len(VALUES)) == VALUES
        near.wait_source(follower)
        cluster.kill(follower)
        Librdkafka().produce(f"127.0.0.1:{cluster.port(leader)}", "moving", VALUES[:100], "none")
        assert near.read(100) == VALUES[:100]
        cluster.start(follower)
        cluster.wait_serving(follower)
        for _ in poll(TIMEOUT_S, "the follower to be back"):
            if follower in registration(cluster, "moving").isr:
                break
        cluster.stop(leader)
        Librdkafka().produce(f"127.0.0.1:{cluster.port(follower)}", "moving", VALUES[:100], "none")
        assert near.read(100) == VALUES[:100]
        near.wait_source(follower)
        cluster.start(leader)
        cluster.wait_serving(leader)
