"""A node in the place of the active controller, which answers a broker with whatever it likes.

The controller is stopped, and the hostile node listens where it did. What it says is never committed: a controller that
a quorum believes may do what it wants. The broker serves its clients all the while, keeps small, and follows the
controller again when that is back.
"""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Final

import pytest
from confluent_kafka import KafkaException

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.fetch.messages import (
    EpochEndOffset,
    FetchPartitionResponse,
    FetchResponse,
    FetchTopicResponse,
    SnapshotId,
)
from tierfetch.protocol.messages.brokers import BrokerHeartbeatResponse
from tierfetch.protocol.messages.quorum import (
    FetchSnapshotResponse,
    FetchSnapshotResponseLeaderIdAndEpoch,
    FetchSnapshotResponsePartitionSnapshot,
    FetchSnapshotResponseSnapshotId,
    FetchSnapshotResponseTopicSnapshot,
)
from tierfetch.protocol.wire.leader_hints import LeaderIdAndEpoch as LeaderHint
from tierfetch.protocol.wire.leader_hints import NodeEndpoint
from tierfetch.tests.abuse.peers import Answer, Asked, HostileNode, Sent, framed
from tierfetch.tests.abuse.test_leader import ATTACK_S, BOMBS, EPOCHS, EXTREMES, MIB, at, batch, endless
from tierfetch.tests.process.clients import create_topic

pytestmark = pytest.mark.usefixtures("unharmed")

LEADER: Final = 100
WAIT_S: Final = 60.0
OTHERS: Final = (0, 5, 2**31 - 2)
"""Leaders that there are not."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("abuse"), (1,)) as cluster:
        create_topic(cluster.bootstrap_servers, "t", replicas=1)
        yield cluster


@pytest.fixture(autouse=True)
def counted_on_again(cluster: LocalCluster, request: pytest.FixtureRequest) -> Iterator[None]:
    """Begin before `unharmed`, and so end after it."""
    yield
    name = f"after-{request.node.name.partition('[')[2].rstrip(']').replace(' ', '-')}"
    for _ in poll(WAIT_S, "the broker to be counted on again"):
        with contextlib.suppress(KafkaException):
            create_topic(cluster.bootstrap_servers, name, replicas=1)
            break


def told(asked: Asked, node: HostileNode, leader: tuple[int, int] | None = None, **fields: object) -> FetchResponse:
    """Answer about the metadata log; as its leader, in the epoch that is asked for, if no other is named."""
    topic = asked.request.topics[0]
    known = (LEADER, topic.partitions[0].current_leader_epoch)
    hint = LeaderHint(*(leader or known))
    fields = {"high_watermark": 0, "log_start_offset": 0} | fields
    partition = FetchPartitionResponse(0, current_leader=hint, **fields)  # type: ignore[arg-type]
    return FetchResponse(
        (FetchTopicResponse((partition,), topic.topic, topic.topic_id),),
        node_endpoints=(NodeEndpoint(hint.leader_id, "127.0.0.1", node.port),),
    )


def records(rng: Random, node: HostileNode) -> Answer:
    bombs = [make() for make in BOMBS]

    def answer(asked: Asked) -> Sent:
        wanted = asked.request.topics[0].partitions[0]
        if rng.random() < 0.5:
            data = bytearray(at(asked, rng.choice(bombs)))
            data[12:16] = struct.pack(">i", wanted.current_leader_epoch)
        else:
            base = rng.choice((wanted.fetch_offset + 1, *EXTREMES[1:]))
            data = bytearray(batch(base, rng.choice(EPOCHS), last_delta=rng.choice((0, -1, 2**31 - 1))))
            data[rng.randrange(len(data))] ^= rng.choice((0, 0xFF))
        return told(asked, node, records=bytes(data))

    return answer


def positions(rng: Random, node: HostileNode) -> Answer:
    """Leaders, epochs, errors and snapshots. A divergence below what is committed stops a broker, as it must; and what
    the node at a configured address says of a later epoch is believed (`quorum.core.requests`).
    """

    def answer(asked: Asked) -> Sent:
        time.sleep(0.01)
        end = asked.request.topics[0].partitions[0].fetch_offset
        known = asked.request.topics[0].partitions[0].current_leader_epoch
        leader = (rng.choice((LEADER, *OTHERS)), rng.choice((-1, 0, known))) if rng.random() < 0.4 else None
        error = rng.choice(tuple(set(ErrorCode) - {ErrorCode.inconsistent_cluster_id}))
        diverging = EpochEndOffset(rng.choice((known, 2**31 - 1)), rng.choice((end, end + 1, 2**63 - 1)))
        return told(
            asked,
            node,
            leader,
            error_code=error if rng.random() < 0.3 else ErrorCode.none,
            diverging_epoch=diverging if rng.random() < 0.2 else None,
            snapshot_id=SnapshotId(rng.choice((-1, 2**63 - 1, end + 5)), rng.choice((-5, 0, 7))),
            log_start_offset=rng.choice(EXTREMES),
        )

    return answer


def no_frames(rng: Random, node: HostileNode) -> Answer:
    def answer(asked: Asked) -> Sent:
        right = framed(asked, told(asked, node))
        kind = rng.randrange(4)
        if kind == 0:
            return endless(rng.choice((250 * MIB, 60 * MIB, -1)))
        if kind == 1:
            return right[: rng.randrange(len(right))] + bytes(100_000)
        if kind == 2:
            topic = asked.request.topics[0]
            one = FetchTopicResponse((FetchPartitionResponse(0),) * 20_000, topic.topic, topic.topic_id)
            return FetchResponse((one,) * rng.choice((1, 2)))
        return right[:8] + rng.randbytes(len(right) - 8)

    return answer


def snapshot_chunk(rng: Random) -> Answer:
    """A snapshot of a size that no disk has, chunk after chunk; or chunks that do not fit."""

    def answer(asked: Asked) -> Sent:
        partition = asked.request.topics[0].partitions[0]
        is_fitting = rng.random() < 0.9
        chunk = FetchSnapshotResponsePartitionSnapshot(
            index=0,
            snapshot_id=FetchSnapshotResponseSnapshotId(
                end_offset=partition.snapshot_id.end_offset, epoch=partition.snapshot_id.epoch
            ),
            current_leader=FetchSnapshotResponseLeaderIdAndEpoch(
                leader_id=LEADER, leader_epoch=partition.current_leader_epoch
            ),
            size=2**62 if is_fitting else rng.choice((-1, 0, 5)),
            position=partition.position if is_fitting else rng.choice(EXTREMES),
            unaligned_records=bytes(MIB),
        )
        topic = FetchSnapshotResponseTopicSnapshot(name=asked.request.topics[0].name, partitions=(chunk,))
        return FetchSnapshotResponse(topics=(topic,))

    return answer


ATTACKS: Final[dict[str, Callable[[Random, HostileNode], Answer]]] = {
    "records": records,
    "positions": positions,
    "no frames": no_frames,
}


@pytest.mark.parametrize("name", ATTACKS)
def test_what_it_answers_to_a_broker(cluster: LocalCluster, name: str) -> None:
    quorum = cluster.quorum
    assert quorum is not None
    (controller,) = quorum.nodes
    assert controller == LEADER
    quorum.stop(controller)
    rng = Random(1)
    try:
        with HostileNode(quorum.port(controller)) as node:
            node.answers[ApiKey.FETCH] = ATTACKS[name](rng, node)
            node.answers[ApiKey.FETCH_SNAPSHOT] = snapshot_chunk(rng)
            node.answers[ApiKey.BROKER_HEARTBEAT] = lambda _: BrokerHeartbeatResponse(
                error_code=rng.choice(tuple(ErrorCode)), is_fenced=rng.random() < 0.5, should_shut_down=False
            )
            for waited_s in poll(WAIT_S, "the broker to ask"):
                if node.asked.get(ApiKey.FETCH, 0) > 3 and waited_s > ATTACK_S:
                    break
            assert node.errors == []
    finally:
        quorum.start(controller)
