"""A hostile leader: a broker follows it for one partition, leads another one, and its clients notice nothing.

The leader has registered itself as a broker, which an open cluster lets anyone do. Each attack is answered to many
requests, the next one drawn by a seed. When all are over it answers as a leader does, and is followed again.
"""

from __future__ import annotations

import struct
import sys
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Final

import pytest

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.fetch.messages import (
    AbortedTransaction,
    EpochEndOffset,
    FetchPartitionResponse,
    FetchResponse,
    FetchTopicResponse,
    SnapshotId,
)
from tierfetch.protocol.messages.cluster import ApiVersion, ApiVersionsResponse
from tierfetch.protocol.messages.offsets import (
    EpochEndOffset as EpochEnd,
)
from tierfetch.protocol.messages.offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from tierfetch.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from tierfetch.protocol.records import Compression, Record, build_batch
from tierfetch.protocol.records.batch_header import HEADER, sealed
from tierfetch.protocol.requests import metadata_of
from tierfetch.protocol.wire.leader_hints import LeaderIdAndEpoch, NodeEndpoint
from tierfetch.tests.abuse.attacks import uvarint
from tierfetch.tests.abuse.peers import Answer, Asked, Impostor, Sent, ask, framed, offers
from tierfetch.tests.bombs import batch_of, empty_records, header_bomb
from tierfetch.tests.process.clients import create_topic

pytestmark = pytest.mark.usefixtures("unharmed")

BROKER: Final = 1
LEADER: Final = 66
TOPIC: Final = "led-by-a-stranger"
ATTACK_S: Final = 3.0
QUIET_S: Final = 60.0
MIB: Final = 1024 * 1024
EXTREMES: Final = (0, 1, -1, -2, 5, 1000, 2**31 - 1, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63))
FAR: Final = 2**40
"""Where an attack may have sent the replica: an honest leader's log is not there, and it is asked where to begin."""
EPOCHS: Final = (0, 1, -1, 5, 2**31 - 1, -(2**31))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    configs = {"replica.fetch.backoff.ms": "20"}
    with LocalCluster(tmp_path_factory.mktemp("abuse"), (BROKER,), configs=configs) as cluster:
        create_topic(cluster.bootstrap_servers, "t", replicas=1)
        yield cluster


@pytest.fixture(scope="module")
def leader(cluster: LocalCluster) -> Iterator[Impostor]:
    """Led by it, and followed by the broker, is the topic."""
    assert cluster.quorum is not None
    (controller,) = cluster.quorum.nodes
    with Impostor(LEADER, cluster.quorum.port(controller), cluster.quorum.cluster_id) as leader:
        behaves(leader)
        assigned = CreatableReplicaAssignment(partition_index=0, broker_ids=(LEADER, BROKER))
        topic = CreatableTopic(
            name=TOPIC, num_partitions=-1, replication_factor=-1, assignments=(assigned,), configs=()
        )
        for _ in poll(QUIET_S, "the stranger to be counted on"):
            if LEADER in {broker.node_id for broker in ask(cluster.port(BROKER), metadata_of(())).brokers}:
                break
        made = ask(cluster.port(BROKER), CreateTopicsRequest(topics=(topic,), timeout_ms=10_000)).topics[0]
        assert made.error_code is ErrorCode.none, made
        until_fetched(leader)
        yield leader


@pytest.fixture(autouse=True)
def behaves_again(leader: Impostor) -> Iterator[None]:
    """Begin before `unharmed`, and so end after it."""
    yield
    assert leader.errors == []
    behaves(leader)
    leader.hang_up()
    until_fetched(leader)


def until_fetched(leader: Impostor, times: int = 2) -> None:
    """Wait until the broker has followed for so many fetches more."""
    target = leader.asked.get(ApiKey.FETCH, 0) + times
    for _ in poll(QUIET_S, "the broker to follow"):
        if leader.asked.get(ApiKey.FETCH, 0) >= target:
            break


# What a leader answers.


def fetched(asked: Asked, **fields: object) -> FetchResponse:
    """Answer each partition that is asked for with these fields."""
    topics = tuple(
        FetchTopicResponse(
            tuple(FetchPartitionResponse(each.partition, **fields) for each in topic.partitions),  # type: ignore[arg-type]
            topic.topic,
            topic.topic_id,
        )
        for topic in asked.request.topics
    )
    return FetchResponse(topics)


def behaves(leader: Impostor) -> None:
    """As an honest leader whose log is empty, or ends where its follower's does."""

    def nothing(asked: Asked) -> Sent:
        time.sleep(0.05)
        offset = asked.request.topics[0].partitions[0].fetch_offset
        if offset >= FAR:
            return fetched(asked, error_code=ErrorCode.offset_out_of_range)
        return fetched(asked, high_watermark=offset, last_stable_offset=offset, log_start_offset=0)

    leader.answers = {
        ApiKey.API_VERSIONS: offers(*ApiKey),
        ApiKey.FETCH: nothing,
        ApiKey.LIST_OFFSETS: lambda asked: listed(asked, 0, 0),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: lambda asked: ended(asked, 0, 0),
    }


def listed(asked: Asked, offset: int, epoch: int, *, copies: int = 1) -> ListOffsetsResponse:
    answer = ListOffsetsPartitionResponse(partition_index=0, timestamp=-1, offset=offset, leader_epoch=epoch)
    topic = ListOffsetsTopicResponse(name=asked.request.topics[0].name, partitions=(answer,) * copies)
    return ListOffsetsResponse(topics=(topic,))


def ended(asked: Asked, epoch: int, offset: int, *, copies: int = 1) -> OffsetForLeaderEpochResponse:
    answer = EpochEnd(partition=0, leader_epoch=epoch, end_offset=offset)
    topic = OffsetForLeaderTopicResult(topic=asked.request.topics[0].topic, partitions=(answer,) * copies)
    return OffsetForLeaderEpochResponse(topics=(topic,))


def batch(base_offset: int, epoch: int, *, last_delta: int = 0, count: int = 1) -> bytes:
    """A batch with a right CRC that says of itself what is asked."""
    body = b"\x0e\0\0\0\2k\2v\0"
    fields = (base_offset, 49 + len(body), epoch, 2, 0, 0, last_delta, 0, 0, -1, -1, -1, count)
    return sealed(HEADER.pack(*fields), body)


def at(asked: Asked, data: bytes) -> bytes:
    """The batch, at the offset that is asked for."""
    return struct.pack(">q", asked.request.topics[0].partitions[0].fetch_offset) + data[8:]


BOMBS: Final[tuple[Callable[[], bytes], ...]] = (
    lambda: header_bomb(8 * MIB),
    lambda: header_bomb(60 * MIB),
    lambda: batch_of(empty_records(300_000), 300_000),
    lambda: batch_of(b"", 2**31 - 1),
    lambda: batch_of(b"\0", 1, Compression.GZIP),
)


def answering_bombs(rng: Random) -> Answer:
    made = [make() for make in BOMBS]
    return lambda asked: fetched(asked, high_watermark=2**40, log_start_offset=0, records=at(asked, rng.choice(made)))


def answering_impossible_batches(rng: Random) -> Answer:
    def answer(asked: Asked) -> Sent:
        offset = asked.request.topics[0].partitions[0].fetch_offset
        base = rng.choice((offset, offset, *EXTREMES))
        one = batch(
            base, rng.choice(EPOCHS), last_delta=rng.choice((0, 3, -1, 2**31 - 1)), count=rng.choice((1, 0, -1, 4))
        )
        data = bytearray(one * rng.choice((1, 2, 500)))
        if rng.random() < 0.3:
            data[rng.randrange(len(data))] ^= 0xFF
        if rng.random() < 0.2:
            data[8:12] = struct.pack(">i", rng.choice((-1, 0, 49, 2**31 - 1)))
        if rng.random() < 0.2:
            del data[rng.randrange(len(data)) :]
        return fetched(asked, high_watermark=rng.choice(EXTREMES), log_start_offset=0, records=bytes(data))

    return answer


def answering_impossible_positions(rng: Random) -> Answer:
    """Errors of every kind, epochs that diverge, snapshots, offsets: each in any combination. FENCED_LEADER_EPOCH alone
    is left out: a follower then waits for a newer leader, as Kafka's does.
    """
    errors = tuple(code for code in ErrorCode if code is not ErrorCode.fenced_leader_epoch)

    def answer(asked: Asked) -> Sent:
        diverging = (
            EpochEndOffset(rng.choice((0, 1, 7, -5, 2**31 - 1)), rng.choice(EXTREMES)) if rng.random() < 0.4 else None
        )
        return fetched(
            asked,
            error_code=rng.choice(errors) if rng.random() < 0.5 else ErrorCode.none,
            high_watermark=rng.choice(EXTREMES),
            last_stable_offset=rng.choice(EXTREMES),
            log_start_offset=rng.choice(EXTREMES),
            aborted_transactions=(AbortedTransaction(rng.choice(EXTREMES), rng.choice(EXTREMES)),) * rng.randrange(3),
            preferred_read_replica=rng.choice((-1, 0, 1, LEADER)),
            diverging_epoch=diverging,
            current_leader=LeaderIdAndEpoch(rng.choice((-1, 1, 5)), rng.choice(EPOCHS)) if rng.random() < 0.2 else None,
            snapshot_id=SnapshotId(rng.choice(EXTREMES), rng.choice(EPOCHS)) if rng.random() < 0.2 else None,
        )

    return answer


def answering_much(rng: Random) -> Answer:
    """Partitions, topics, transactions and nodes by the hundred thousand. Each frame is written once."""
    one = FetchPartitionResponse(0, high_watermark=5)
    many: dict[str, Callable[[Asked], FetchResponse]] = {
        "partitions": lambda asked: in_topics(
            asked, tuple(FetchPartitionResponse(number) for number in range(200_000))
        ),
        "one partition": lambda asked: in_topics(asked, (one,) * 300_000),
        "topics": lambda asked: in_topics(asked, (one,), times=200_000),
        "transactions": lambda asked: fetched(asked, aborted_transactions=(AbortedTransaction(1, 1),) * 500_000),
        "nodes": lambda asked: FetchResponse(
            fetched(asked).topics, node_endpoints=tuple(NodeEndpoint(number, "h", 1) for number in range(9_000))
        ),
    }
    written: dict[str, bytes] = {}

    def answer(asked: Asked) -> Sent:
        kind = rng.choice(tuple(many))
        if kind not in written:
            written[kind] = framed(asked, many[kind](asked))
        frame = written[kind]
        return frame[:4] + struct.pack(">i", asked.header.correlation_id) + frame[8:]

    return answer


def in_topics(asked: Asked, partitions: tuple[FetchPartitionResponse, ...], times: int = 1) -> FetchResponse:
    topic = asked.request.topics[0]
    return FetchResponse((FetchTopicResponse(partitions, topic.topic, topic.topic_id),) * times)


def endless(size: int) -> Iterator[bytes]:
    """A frame of this size, as far as its sender says, and bytes without end."""
    yield struct.pack(">i", size)
    while True:
        yield bytes(MIB)


def answering_no_frames(rng: Random) -> Answer:
    """Frames that never end, are too large, cut, or not of this conversation."""

    def answer(asked: Asked) -> Sent:
        right = framed(asked, fetched(asked))
        kind = rng.randrange(7)
        if kind == 0:
            return endless(rng.choice((250 * MIB, 100 * MIB, 2**31 - 1, -1, 0)))
        if kind == 1:
            return right[: rng.randrange(len(right))] + bytes(rng.randrange(200_000))
        if kind == 2:
            return right[:4] + struct.pack(">i", 12345) + right[8:]
        if kind == 3:
            return right * 1000
        if kind == 4:
            return None
        if kind == 5:
            data = bytearray(right)
            data[rng.randrange(8, len(data))] ^= 1 << rng.randrange(8)
            return bytes(data)
        return right[:4] + right[4:8] + b"\0" + rng.randbytes(len(right) - 9)

    return answer


FETCHES: Final[dict[str, Callable[[Random], Answer]]] = {
    "bombs": answering_bombs,
    "impossible batches": answering_impossible_batches,
    "impossible positions": answering_impossible_positions,
    "much": answering_much,
    "no frames": answering_no_frames,
}


@pytest.mark.parametrize("name", FETCHES)
def test_what_a_leader_answers_to_fetches(leader: Impostor, name: str) -> None:
    leader.answers[ApiKey.FETCH] = FETCHES[name](Random(1))
    attacked(leader, name)


def attacked(leader: Impostor, name: str) -> None:
    before = dict(leader.asked)
    leader.hang_up()
    began = time.monotonic()
    while time.monotonic() < began + ATTACK_S:
        time.sleep(0.1)
    asked = {api.name: count - before.get(api, 0) for api, count in leader.asked.items() if count > before.get(api, 0)}
    sys.stdout.write(f"\n{name}: {asked}\n")
    assert asked


def test_what_a_leader_answers_to_questions(leader: Impostor) -> None:
    """Where its log begins and its epochs end, after each fetch that it says is out of range."""
    rng = Random(1)

    def where(asked: Asked) -> Sent:
        if rng.random() < 0.3:
            return listed(asked, rng.choice(EXTREMES), rng.choice(EPOCHS), copies=rng.choice((0, 2, 20_000)))
        if rng.random() < 0.1:
            return ListOffsetsResponse(topics=())
        return listed(asked, rng.choice(EXTREMES), rng.choice(EPOCHS))

    def end(asked: Asked) -> Sent:
        if rng.random() < 0.1:
            return OffsetForLeaderEpochResponse(topics=())
        return ended(asked, rng.choice(EPOCHS), rng.choice(EXTREMES), copies=rng.choice((0, 1, 1, 1, 2)))

    out = (ErrorCode.offset_out_of_range, ErrorCode.offset_moved_to_tiered_storage)
    leader.answers[ApiKey.FETCH] = lambda asked: fetched(asked, error_code=rng.choice(out), log_start_offset=0)
    leader.answers[ApiKey.LIST_OFFSETS] = where
    leader.answers[ApiKey.OFFSET_FOR_LEADER_EPOCH] = end
    attacked(leader, "questions")


def test_what_a_leader_says_that_it_offers(leader: Impostor) -> None:
    rng = Random(1)

    def offer(asked: Asked) -> Sent:
        kind = rng.randrange(5)
        if kind == 0:
            api = ApiVersion(api_key=1, min_version=rng.choice((-5, 0, 300)), max_version=rng.choice((-1, 3, 32767)))
            return ApiVersionsResponse(api_keys=(api,) * rng.choice((1, 200_000)))
        if kind == 1:
            return ApiVersionsResponse(error_code=rng.choice((ErrorCode.unsupported_version, *ErrorCode)), api_keys=())
        if kind == 2:
            return ApiVersionsResponse(api_keys=())
        if kind == 3:
            right = framed(asked, ApiVersionsResponse(api_keys=()))
            return right[:8] + uvarint(2**40) + rng.randbytes(20)
        return endless(250 * MIB)

    leader.answers[ApiKey.API_VERSIONS] = offer
    attacked(leader, "offers")


def test_the_broker_follows_again(leader: Impostor) -> None:
    """What the leader sends in the end, after all this, the broker has, and asks for what follows."""
    asked_for: list[int] = []

    def one_record(asked: Asked) -> Sent:
        wanted = asked.request.topics[0].partitions[0]
        time.sleep(0.05)
        if wanted.fetch_offset >= FAR:
            return fetched(asked, error_code=ErrorCode.offset_out_of_range)
        asked_for.append(wanted.fetch_offset)
        record = build_batch([Record(wanted.fetch_offset, 0, b"k", b"v")], base_offset=wanted.fetch_offset)
        data = (
            record[:12] + struct.pack(">i", max(wanted.current_leader_epoch, wanted.last_fetched_epoch)) + record[16:]
        )
        return fetched(asked, high_watermark=wanted.fetch_offset, log_start_offset=0, records=bytes(data))

    leader.answers[ApiKey.FETCH] = one_record
    for _ in poll(QUIET_S, "the broker to append"):
        if len(set(asked_for)) > 3:
            break
