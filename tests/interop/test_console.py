"""`tierfetch console` of an Apache Kafka cluster: what it answers is shown, and nothing is a problem."""

from __future__ import annotations

import asyncio
from typing import Any

from tierfetch.bench.lab.kafka import KafkaCluster
from tierfetch.cli.cluster_session import Admin
from tierfetch.cli.console.reading import ClusterReading
from tierfetch.cli.local.processes import poll
from tierfetch.cli.options import addresses
from tierfetch.console.core import PartKind, Sign, replica_bars
from tierfetch.tests.interop.brokers import BROKER
from tierfetch.tests.interop.clients import TIMEOUT_S, create_topic, produce_transactions
from tierfetch.tests.interop.histories import TOPIC_CONFIGS

TOPIC = "shown-by-console"


def read(cluster: KafkaCluster) -> tuple[Any, Any, Any]:
    async def session() -> tuple[Any, Any, Any]:
        async with Admin(addresses([cluster.bootstrap_servers]), timeout_s=10) as admin:
            reading = ClusterReading(admin)
            look = await reading.look()
            offsets = await reading.offsets([(TOPIC, 0)])
            return look, offsets[TOPIC, 0], await reading.predict(BROKER, {})

    return asyncio.run(session())


def test_kafkas_tier_and_quorum_are_on_the_page(cluster: KafkaCluster) -> None:
    create_topic(cluster.bootstrap_servers, TOPIC, {"remote.storage.enable": "true", **TOPIC_CONFIGS})
    for compression in ("none", "zstd", "none"):
        produce_transactions(cluster.bootstrap_servers, TOPIC, compression)
    for _ in poll(TIMEOUT_S, "something to be tiered", 0.5):
        look, offsets, prediction = read(cluster)
        if offsets.tiered is not None:
            break
    overview = look.overview
    assert overview.problems == ()
    assert [(each.id, each.is_alive) for each in overview.brokers] == [(BROKER, True)]
    assert overview.quorum.replicas[0].role == "leader"
    assert overview.groups is not None
    assert overview.moves == ()
    (part,) = [each for each in overview.partitions if each.topic == TOPIC]
    (bar,) = replica_bars(part, offsets, look.disks, overview.alive)
    assert bar.sign is Sign.LEADER
    assert (bar.size_bytes or 0) > 0
    assert {each.kind for each in bar.parts} <= {PartKind.REMOTE, PartKind.LOCAL, PartKind.PENDING}
    assert offsets.copy_lag is not None
    assert "cores" in prediction.missing
