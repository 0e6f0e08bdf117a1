"""A hostile replica: a broker by its own word, which follows a leader and reports to the controller as it likes.

It has a registration and a place among the replicas of a topic, so that what it says is looked at. The leader's clients
and those of the controller notice nothing.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, Final
from uuid import UUID

import pytest

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.fetch.messages import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from tierfetch.protocol.messages.base import Request
from tierfetch.protocol.messages.brokers import (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerHeartbeatRequest,
    BrokerState,
    ThinReplica,
)
from tierfetch.protocol.messages.topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from tierfetch.protocol.requests import metadata_of
from tierfetch.tests.abuse.peers import Impostor, ask
from tierfetch.tests.abuse.test_leader import ATTACK_S, EPOCHS, EXTREMES, QUIET_S
from tierfetch.tests.abuse.watched import ONLY_PINGS, Watched, watched_node
from tierfetch.tests.process.clients import create_topic

pytestmark = pytest.mark.usefixtures("unharmed")

REPLICA: Final = 66
TOPIC: Final = "followed-by-a-stranger"
AT_ONCE: Final = 20
"""Requests of one round; what they are answered is not looked at."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("abuse"), (1,)) as cluster:
        create_topic(cluster.bootstrap_servers, "t", replicas=1)
        yield cluster


@pytest.fixture(scope="module")
def watched(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sequence[Watched]]:
    """Watch the leader, and the controller, which is only pinged."""
    assert cluster.quorum is not None
    (node,) = cluster.quorum.nodes
    base = tmp_path_factory.mktemp("honest")
    with (
        watched_node(cluster, 1, "t", base) as broker,
        watched_node(cluster.quorum, node, ONLY_PINGS, base) as controller,
    ):
        yield broker, controller


@pytest.fixture(scope="module")
def replica(cluster: LocalCluster) -> Iterator[tuple[Impostor, UUID]]:
    """With the id of the topic that it has a place in."""
    assert cluster.quorum is not None
    (controller,) = cluster.quorum.nodes
    with Impostor(REPLICA, cluster.quorum.port(controller), cluster.quorum.cluster_id) as replica:
        for _ in poll(QUIET_S, "the stranger to be counted on"):
            if REPLICA in {broker.node_id for broker in ask(cluster.port(1), metadata_of(())).brokers}:
                break
        assigned = CreatableReplicaAssignment(partition_index=0, broker_ids=(1, REPLICA))
        topic = CreatableTopic(
            name=TOPIC, num_partitions=-1, replication_factor=-1, assignments=(assigned,), configs=()
        )
        made = ask(cluster.port(1), CreateTopicsRequest(topics=(topic,), timeout_ms=10_000)).topics[0]
        assert made.error_code is ErrorCode.none, made
        assert made.topic_id is not None
        yield replica, made.topic_id


def fetching(rng: Random, replica: Impostor, topic_id: UUID) -> FetchRequest:
    """Of offsets and epochs of all extremes, within sessions that there are and that there are not."""

    def partition() -> FetchPartition:
        return FetchPartition(
            rng.choice((0, 0, 0, 1, -1, 2**31 - 1)),
            current_leader_epoch=rng.choice((0, 0, *EPOCHS)),
            fetch_offset=rng.choice(EXTREMES),
            last_fetched_epoch=rng.choice((-1, 0, *EPOCHS)),
            log_start_offset=rng.choice(EXTREMES),
            partition_max_bytes=rng.choice((0, 1, -1, 2**31 - 1)),
            replica_directory_id=UUID(int=rng.randrange(1, 2**64)) if rng.random() < 0.3 else None,
            high_watermark=rng.choice(EXTREMES),
            local_log_start_offset=rng.choice(EXTREMES),
        )

    partitions = tuple(partition() for _ in range(rng.choice((1, 1, 3, 2_000))))
    forgotten = (ForgottenTopic(tuple(range(rng.choice((1, 1_000)))), TOPIC, topic_id),) if rng.random() < 0.2 else ()
    return FetchRequest(
        max_wait_ms=rng.choice((0, 0, 1, -5)),
        min_bytes=rng.choice((0, 1, -1, 2**31 - 1)),
        topics=(FetchTopic(partitions, TOPIC, topic_id),),
        max_bytes=rng.choice((0, -1, 2**31 - 1)),
        replica_id=replica.broker_id,
        replica_epoch=rng.choice((replica.epoch, replica.epoch, *EXTREMES)),
        session_id=rng.choice((0, 0, 5, -1, 2**31 - 1)),
        session_epoch=rng.choice((-1, 0, 0, 1, 2**31 - 1)),
        forgotten_topics=forgotten,
    )


def reporting(rng: Random, replica: Impostor, topic_id: UUID) -> Request[Any]:
    epoch = rng.choice((replica.epoch, replica.epoch, *EXTREMES))
    kind = rng.randrange(3)
    if kind == 0:
        thin = ThinReplica(
            topic_id=rng.choice((topic_id, None)),
            partition_index=rng.choice((0, -1, 2**31 - 1)),
            local_start_offset=rng.choice(EXTREMES),
            local_bytes=rng.choice(EXTREMES),
            age_ms=rng.choice(EXTREMES),
        )
        return BrokerHeartbeatRequest(
            broker_id=replica.broker_id,
            broker_epoch=epoch,
            current_metadata_offset=rng.choice(EXTREMES),
            want_fence=rng.random() < 0.1,
            want_shut_down=False,
            offline_log_dirs=tuple(UUID(int=rng.randrange(1, 2**64)) for _ in range(rng.choice((0, 1, 400)))),
            thin_replicas=(thin,) * rng.choice((0, 1, 400)),
        )
    if kind == 1:
        isr = tuple(
            BrokerState(broker_id=rng.choice((1, REPLICA, 5, -1)), broker_epoch=rng.choice((-1, epoch)))
            for _ in range(rng.choice((0, 1, 2, 1_000)))
        )
        partition = AlterPartitionRequestPartitionData(
            partition_index=rng.choice((0, 0, -1, 2**31 - 1)),
            leader_epoch=rng.choice(EPOCHS),
            leader_recovery_state=rng.choice((0, 1, -1, 9)),
            partition_epoch=rng.choice(EPOCHS),
            new_isr_with_epochs=isr,
        )
        topic = AlterPartitionRequestTopicData(topic_id=topic_id, partitions=(partition,) * rng.choice((1, 2_000)))
        return AlterPartitionRequest(broker_id=replica.broker_id, broker_epoch=epoch, topics=(topic,))
    return AllocateProducerIdsRequest(broker_id=replica.broker_id, broker_epoch=epoch)


def attacked(port: int, make: Callable[[], Request[Any]]) -> None:
    """Send requests for a time, each on a connection of its own."""
    sent = answered = 0
    ends = time.monotonic() + ATTACK_S
    while time.monotonic() < ends or not answered:
        for _ in range(AT_ONCE):
            sent += 1
            with contextlib.suppress(OSError):
                ask(port, make())
                answered += 1
    sys.stdout.write(f"\n{sent} requests, {answered} answered\n")


def test_what_a_replica_asks_its_leader(cluster: LocalCluster, replica: tuple[Impostor, UUID]) -> None:
    rng = Random(1)
    attacked(cluster.port(1), lambda: fetching(rng, *replica))


def test_what_a_broker_reports_to_the_controller(cluster: LocalCluster, replica: tuple[Impostor, UUID]) -> None:
    rng = Random(1)
    assert cluster.quorum is not None
    (controller,) = cluster.quorum.nodes
    attacked(cluster.quorum.port(controller), lambda: reporting(rng, *replica))
