"""Fetch on real logs: what followers and consumers see, waiting, sessions, limits, errors."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from tierfetch.broker.core.read_replicas import select_rack_aware
from tierfetch.broker.handlers.fetch import FetchHandler
from tierfetch.broker.handlers.fetch_reads import FetchReads
from tierfetch.broker.replicas.partition import Partition
from tierfetch.log.core import AppendOrigin, LogConfig, index
from tierfetch.log.segment.slices import LogSlice
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import CorruptRecordError, ErrorCode, KafkaError
from tierfetch.protocol.fetch.leader_sessions import FetchSessionCache
from tierfetch.protocol.fetch.messages import (
    READ_COMMITTED,
    AbortedTransaction,
    EpochEndOffset,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    release_records,
)
from tierfetch.protocol.fetch.session import SESSION_ID_MAX
from tierfetch.protocol.records import iter_batches
from tierfetch.protocol.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch
from tierfetch.protocol.wire.leader_hints import LeaderIdAndEpoch
from tierfetch.protocol.wire.primitives import part_size
from tierfetch.rlm.reader import RemoteRead, RemoteRecords
from tierfetch.tests.broker.hosting import NOW_MS, Host, append, batch
from tierfetch.tests.broker.requests import context_of
from tierfetch.tests.broker.waiting import until
from tierfetch.tests.turns import turns

CONTEXT = context_of(ApiKey.FETCH, 12)
BATCH_BYTES = len(batch(b"a" * 100))


class Tier:
    """Answers reads of the tier with what the test says."""

    def __init__(self, *answers: RemoteRecords | KafkaError | None) -> None:
        self.asked: list[tuple[int, int, bool]] = []
        self._answers = list(answers)

    async def read(self, request: RemoteRead) -> RemoteRecords | None:
        self.asked.append((request.offset, request.max_offset, request.with_aborted))
        answer = self._answers.pop(0)
        if isinstance(answer, KafkaError):
            raise answer
        return answer


TIERED = RemoteRecords(memoryview(b"tiered"), 3, (index.AbortedTransaction(9, 1, 2, 2),))


def sessions() -> FetchSessionCache:
    ids = random.Random(1)
    return FetchSessionCache(draw_id=lambda: ids.randint(1, SESSION_ID_MAX), slots=10)


@pytest.fixture
def handler(host: Host) -> FetchHandler:
    return FetchHandler(host.hosted, sessions(), None, max_bytes=1 << 20)


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The topics that are looked at, in this order."""
    looked: list[str] = []
    read = FetchReads._read

    async def counted(self: FetchReads, partition: Partition, *args: Any, **kwargs: Any) -> Any:
        looked.append(partition.partition.topic)
        return await read(self, partition, *args, **kwargs)

    monkeypatch.setattr(FetchReads, "_read", counted)
    return looked


class CatchingUp:
    """Follower 2, which fetches a batch of each topic at a time in one session, and says where it stands in those that
    it was given.
    """

    def __init__(self, handler: FetchHandler, names: Sequence[str]) -> None:
        self.offsets = dict.fromkeys(names, 0)
        self._handler = handler
        self._moved = names
        self._session_id = self._epoch = 0

    async def fetch(self, max_bytes: int) -> Sequence[str]:
        """Return the topics that the response has records of."""
        wanted = tuple(
            FetchTopic((FetchPartition(0, fetch_offset=self.offsets[name], partition_max_bytes=BATCH_BYTES),), name)
            for name in self._moved
        )
        session = {"session_id": self._session_id, "session_epoch": self._epoch}
        response = await self._handler.fetch(CONTEXT, FetchRequest(0, 1, wanted, max_bytes, replica_id=2, **session))
        self._session_id, self._epoch = response.session_id, self._epoch + 1
        self._moved = [topic.topic for topic in response.topics if part_size(topic.partitions[0].records or b"")]
        release_records(response)
        for name in self._moved:
            self.offsets[name] += 1
        return self._moved


def request(
    topic: str = "t", offset: int = 0, *, partition_fields: dict[str, Any] | None = None, **fields: Any
) -> FetchRequest:
    wanted = FetchPartition(0, fetch_offset=offset, **(partition_fields or {}))
    values: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, **fields}
    return FetchRequest(topics=(FetchTopic((wanted,), topic),), **values)


def from_follower(offset: int, replica: int = 2, **fields: Any) -> FetchRequest:
    return request(offset=offset, replica_id=replica, partition_fields={"log_start_offset": 0, **fields})


async def fetched(handler: FetchHandler, asked: FetchRequest) -> tuple[FetchPartitionResponse, list[int]]:
    """The answer for the only partition, and the base offsets of the batches it brought."""
    response = await handler.fetch(CONTEXT, asked)
    return await taken(response)


async def taken(response: FetchResponse) -> tuple[FetchPartitionResponse, list[int]]:
    answer = response.topics[0].partitions[0]
    records = answer.records
    if isinstance(records, LogSlice):
        with records:
            data: bytes = await records.read()
    else:
        assert isinstance(records, bytes | memoryview), records
        data = bytes(records)
    return answer, [header.base_offset for _, header in iter_batches(data)] if data != b"tiered" else []


async def test_E5_consumers_see_up_to_the_high_watermark(host: Host, handler: FetchHandler) -> None:
    partition = await host.topic("t", 1, 2)
    await append(partition, batch(b"a"), batch(b"b"), batch(b"c"))
    await fetched(handler, from_follower(2))
    answer, offsets = await fetched(handler, request())
    assert (answer.high_watermark, offsets) == (2, [0, 1])
    between, nothing = await fetched(handler, request(offset=2))
    assert (between.error_code, nothing) == (ErrorCode.none, [])
    beyond, _ = await fetched(handler, request(offset=4))
    assert beyond.error_code is ErrorCode.offset_out_of_range


async def test_followers_see_the_whole_log_and_move_the_high_watermark(host: Host, handler: FetchHandler) -> None:
    partition = await host.topic("t", 1, 2)
    await append(partition, batch(b"a"), batch(b"b"))
    answer, offsets = await fetched(handler, from_follower(0))
    assert (answer.high_watermark, offsets) == (0, [0, 1])
    answer, offsets = await fetched(handler, from_follower(2))
    assert (answer.high_watermark, offsets, partition.log.state.high_watermark) == (2, [], 2)


async def test_what_is_sent_is_counted_for_consumers_and_for_followers(host: Host, handler: FetchHandler) -> None:
    partition = await host.topic("t", 1, 2)
    records = batch(b"a", b"b")
    await append(partition, records)
    await fetched(handler, from_follower(0))
    await fetched(handler, from_follower(2))
    await fetched(handler, request())
    await fetched(handler, request(offset=1))
    assert (host.hosted.traffic.replicated_bytes, host.hosted.traffic.consumed_bytes) == (
        len(records),
        2 * len(records),
    )


async def test_follower_joins_the_isr_when_it_has_caught_up(host: Host, handler: FetchHandler) -> None:
    partition = await host.topic("t", 1, 2)
    await host.view.alter_partition(partition.partition, leader_epoch=0, partition_epoch=0, isr=[1])
    partition.note_registration(host.view.image.topics["t"].partitions[0])
    await append(partition, batch(b"a"))
    await fetched(handler, from_follower(0))
    assert partition.leader().isr == {1}
    changed = asyncio.Event()
    host.view.subscribe(lambda old, new: changed.set())
    await fetched(handler, from_follower(1))
    async with asyncio.timeout(5):
        await changed.wait()
    assert host.view.image.topics["t"].partitions[0].isr == (1, 2)


async def test_C7_laggard_leaves_the_isr_and_the_high_watermark_goes_on(host: Host, handler: FetchHandler) -> None:
    partition = await host.topic("t", 1, 2)
    await append(partition, batch(b"a"))
    leadership = partition.leader()
    leadership.replicas.followers[2].last_caught_up_time_ms = -1_000_000
    changed = asyncio.Event()
    host.view.subscribe(lambda old, new: changed.set())
    leadership.check_lag()
    async with asyncio.timeout(5):
        await changed.wait()
    await until(lambda: partition.log.state.high_watermark == 1)
    assert leadership.isr == {1}


async def test_waits_for_news_and_not_longer_than_asked(host: Host, handler: FetchHandler) -> None:
    partition = await host.topic("t", 1)
    began = asyncio.get_running_loop().time()
    _, offsets = await fetched(handler, request(max_wait_ms=20))
    assert offsets == []
    assert asyncio.get_running_loop().time() - began >= 0.019
    waiting = asyncio.create_task(fetched(handler, request(max_wait_ms=60_000)))
    await until(lambda: bool(partition.high_watermark_news))
    await append(partition, batch(b"a"))
    _, offsets = await waiting
    assert offsets == [0]
    assert len(partition.high_watermark_news) == 0


async def test_followers_wait_for_the_log_and_consumers_for_the_high_watermark(
    host: Host, handler: FetchHandler
) -> None:
    partition = await host.topic("t", 1, 2)
    consumer = asyncio.create_task(fetched(handler, request(max_wait_ms=60_000)))
    follower = asyncio.create_task(
        fetched(handler, request(replica_id=2, max_wait_ms=60_000, partition_fields={"log_start_offset": 0}))
    )
    await until(lambda: bool(partition.high_watermark_news and partition.log_end_news))
    await append(partition, batch(b"a"))
    assert (await follower)[1] == [0]
    assert not consumer.done()
    await fetched(handler, from_follower(1))
    assert (await consumer)[1] == [0]


async def test_a_follower_is_told_at_once_of_a_log_start_above_its_own(host: Host, handler: FetchHandler) -> None:
    """Without it the follower may not join the ISR."""
    partition = await host.topic("t", 1, 2)
    await append(partition, batch(b"a", b"b"))
    await fetched(handler, from_follower(2))
    await partition.log.increment_log_start_offset(1)
    at_end = {"replica_id": 2, "max_wait_ms": 60_000, "offset": 2}
    async with asyncio.timeout(10):
        answer, _ = await fetched(
            handler, request(**at_end, partition_fields={"log_start_offset": 0, "high_watermark": 2})
        )
    assert answer.log_start_offset == 1
    waiting = asyncio.create_task(
        fetched(handler, request(**at_end, partition_fields={"log_start_offset": 1, "high_watermark": 2}))
    )
    await until(lambda: bool(partition.log_end_news))
    assert not waiting.done()
    waiting.cancel()


async def test_a_consumer_waits_whatever_it_writes_where_followers_tell_their_log_start(
    host: Host, handler: FetchHandler
) -> None:
    """Some write 0, as kafka-go: answered at once they would ask again without a pause."""
    partition = await host.topic("t", 1)
    await append(partition, batch(b"a", b"b"))
    await partition.log.increment_log_start_offset(1)
    at_end = request(offset=2, max_wait_ms=60_000, session_epoch=0, partition_fields={"log_start_offset": 0})
    waiting = asyncio.create_task(handler.fetch(CONTEXT, at_end))
    await until(lambda: waiting.done() or bool(partition.high_watermark_news))
    assert not waiting.done()
    await append(partition, batch(b"c"))
    opened = await waiting
    release_records(opened)
    going_on = request(
        offset=3, session_id=opened.session_id, session_epoch=1, partition_fields={"log_start_offset": 0}
    )
    assert (await handler.fetch(CONTEXT, going_on)).topics == ()


async def test_waits_for_min_bytes(host: Host, handler: FetchHandler) -> None:
    partition = await host.topic("t", 1)
    size = len(batch(b"a"))
    waiting = asyncio.create_task(fetched(handler, request(max_wait_ms=60_000, min_bytes=2 * size)))
    await append(partition, batch(b"a"))
    await turns()
    assert not waiting.done()
    await append(partition, batch(b"b"))
    assert (await waiting)[1] == [0, 1]


def marker_of(producer_id: int) -> memoryview:
    kind = EndTransactionMarker(ControlType.COMMIT, coordinator_epoch=0)
    return memoryview(
        bytearray(
            build_end_transaction_batch(
                kind, base_offset=0, timestamp_ms=NOW_MS, producer_id=producer_id, producer_epoch=0
            )
        )
    )


async def test_E5_a_consumer_of_committed_transactions_is_not_woken_by_an_open_one(
    host: Host, handler: FetchHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = await host.topic("t", 1)
    looks, look = [], FetchReads.look

    async def counted(reads: FetchReads, *args: Any) -> None:
        looks.append(partition.log.state.high_watermark)
        await look(reads, *args)

    monkeypatch.setattr(FetchReads, "look", counted)
    committed = request(max_wait_ms=60_000, isolation_level=READ_COMMITTED)
    waiting = asyncio.create_task(fetched(handler, committed))
    await until(lambda: bool(partition.stable_news))
    for sequence in range(3):
        await append(partition, batch(b"a", producer_id=7, sequence=sequence, transactional=True))
        await turns()
    assert (looks, waiting.done()) == ([0], False)
    await partition.append(marker_of(7), AppendOrigin.COORDINATOR, acks_all=False)
    assert (await waiting)[1] == [0, 1, 2, 3]
    assert looks == [0, 4]
    assert (len(partition.stable_news), len(partition.high_watermark_news)) == (0, 0)


async def test_E5_records_outside_of_transactions_wake_a_consumer_of_committed_ones(
    host: Host, handler: FetchHandler
) -> None:
    partition = await host.topic("t", 1, 2)
    committed = request(max_wait_ms=60_000, isolation_level=READ_COMMITTED)
    waiting = asyncio.create_task(fetched(handler, committed))
    await until(lambda: bool(partition.stable_news))
    await append(partition, batch(b"a"))
    await turns()
    assert not waiting.done(), "it is not committed yet"
    await fetched(handler, from_follower(1))
    assert (await waiting)[1] == [0]


async def test_a_cancelled_wait_leaves_nothing_behind(host: Host, handler: FetchHandler) -> None:
    partition = await host.topic("t", 1)
    await append(partition, batch(b"a"))
    waiting = asyncio.create_task(fetched(handler, request(max_wait_ms=60_000, min_bytes=1000)))
    await until(lambda: bool(partition.high_watermark_news))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert len(partition.high_watermark_news) == 0
    assert all(segment.pins == 0 for segment in partition.log.state.segments)


async def test_leadership_that_ends_wakes_everybody(host: Host, handler: FetchHandler) -> None:
    partition = await host.topic("t", 1, 2)
    of_old_client = context_of(ApiKey.FETCH, 10)
    waiting = asyncio.create_task(handler.fetch(of_old_client, request(max_wait_ms=60_000)))
    fenced = asyncio.create_task(
        fetched(handler, request(max_wait_ms=60_000, partition_fields={"current_leader_epoch": 0}))
    )
    of_transactions = request(max_wait_ms=60_000, isolation_level=READ_COMMITTED)
    committed = asyncio.create_task(handler.fetch(of_old_client, of_transactions))
    await until(lambda: len(partition.high_watermark_news) == 2 and bool(partition.stable_news))
    await host.view.elect_leader(partition.partition, 2)
    await partition.step_down(host.view.image.topics["t"].partitions[0])
    answer, _ = await taken(await waiting)
    assert answer.error_code is ErrorCode.not_leader_or_follower
    assert answer.current_leader == LeaderIdAndEpoch(2, 1)
    answer, _ = await fenced
    assert (answer.error_code, answer.current_leader) == (ErrorCode.fenced_leader_epoch, LeaderIdAndEpoch(2, 1))
    answer, _ = await taken(await committed)
    assert answer.current_leader == LeaderIdAndEpoch(2, 1)


async def test_limits_of_bytes(host: Host, handler: FetchHandler) -> None:
    partition = await host.topic("t", 1)
    await append(partition, *(batch(b"a" * 100) for _ in range(10)))
    size = len(batch(b"a" * 100))
    assert (await fetched(handler, request(max_bytes=3 * size + 1)))[1] == [0, 1, 2]
    by_partition = request(partition_fields={"partition_max_bytes": 2 * size})
    assert (await fetched(handler, by_partition))[1] == [0, 1]
    assert (await fetched(handler, request(max_bytes=1)))[1] == [0]


async def test_first_partition_may_exceed_the_limit_and_others_wait_their_turn(
    host: Host, handler: FetchHandler
) -> None:
    for name in ("t", "u"):
        await append(await host.topic(name, 1), batch(b"a" * 100))
    asked = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=10,
        topics=tuple(FetchTopic((FetchPartition(0),), name) for name in ("t", "u")),
    )
    response = await handler.fetch(CONTEXT, asked)
    sizes = [topic.partitions[0].records.size for topic in response.topics[:1]]
    assert (len(response.topics), sizes) == (2, [len(batch(b"a" * 100))])
    assert response.topics[1].partitions[0].records == b""
    await taken(response)


@pytest.mark.parametrize("odd_bytes", [0, 10])
async def test_a_full_response_of_a_session_looks_no_further_than_what_was_said_since(
    host: Host, handler: FetchHandler, looked: list[str], odd_bytes: int
) -> None:
    """Six partitions to be filled, two at a time: `odd_bytes` are left of each response, too few for a batch."""
    names = [f"t{number}" for number in range(6)]
    partitions = [await host.topic(name, 1, 2) for name in names]
    for partition in partitions:
        await append(partition, *(batch(b"a" * 100) for _ in range(3)))
    follower = CatchingUp(handler, names)
    orders: list[tuple[Sequence[str], Sequence[str]]] = []
    for _ in range(10):
        looked.clear()
        orders.append((await follower.fetch(2 * BATCH_BYTES + odd_bytes), [*looked]))
    beyond = [] if odd_bytes == 0 else ["t4"]
    assert orders[0] == (["t0", "t1"], names), "a new session answers all of them"
    assert orders[1] == (["t2", "t3"], ["t2", "t3", *beyond, "t0", "t1"]), "what the request mentions is noted"
    assert [served for served, _ in orders] == [*[["t0", "t1"], ["t2", "t3"], ["t4", "t5"]] * 3, []]
    assert set(follower.offsets.values()) == {3}
    assert orders[9][1] == names[4:], "those that stand at the end rest"
    assert [partition.log.state.high_watermark for partition in partitions] == [3] * 6


async def test_a_full_response_is_none_that_has_no_records(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compaction left no record between the position in `hole` and its end; its consumer waits there for ever. Here
    nothing rests: consumers may have to be sent to another replica.
    """
    hole, partition = await host.topic("hole", 1), await host.topic("t", 1)
    await append(hole, batch(b"a"))

    async def nothing(offset: int, **_: Any) -> LogSlice:
        return LogSlice.empty(offset)

    monkeypatch.setattr(hole.log, "read", nothing)
    handler = FetchHandler(host.hosted, sessions(), None, max_bytes=1 << 20, select=select_rack_aware)
    asked = tuple(FetchTopic((FetchPartition(0, partition_max_bytes=100),), name) for name in ("hole", "t"))
    first = await handler.fetch(CONTEXT, FetchRequest(0, 1, asked, 10, session_epoch=0))
    await append(partition, batch(b"a"))
    response = await handler.fetch(CONTEXT, FetchRequest(0, 1, (), 10, session_id=first.session_id, session_epoch=1))
    assert [topic.topic for topic in response.topics] == ["t"]
    await taken(response)


async def test_full_responses_of_a_session_look_at_all_of_it_now_and_then(
    host: Host, handler: FetchHandler, looked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower at the end, whose high watermark waits for another one, does not rest, and is told nothing new."""
    names = [f"t{number}" for number in range(15)]
    for name in names:
        await append(await host.topic(name, 1, 2, 3), batch(b"a" * 100))
    loop = asyncio.get_running_loop()
    now = [loop.time()]
    monkeypatch.setattr(loop, "time", lambda: now[0])
    follower, noted = CatchingUp(handler, names), []
    for number in range(14):
        looked.clear()
        await follower.fetch(BATCH_BYTES)
        if "t0" in looked:
            noted.append(number)
        now[0] += 1
    assert noted == [0, 1, 5, 10], "as a new one, with its position, and each 5 s"


async def test_session_tells_only_news(host: Host, handler: FetchHandler) -> None:
    partition = await host.topic("t", 1)
    first = await handler.fetch(CONTEXT, request(session_epoch=0))
    assert first.session_id > 0
    idle = FetchRequest(max_wait_ms=0, min_bytes=1, topics=(), session_id=first.session_id, session_epoch=1)
    assert (await handler.fetch(CONTEXT, idle)).topics == ()
    await append(partition, batch(b"a"))
    news = await handler.fetch(
        CONTEXT, FetchRequest(max_wait_ms=0, min_bytes=1, topics=(), session_id=first.session_id, session_epoch=2)
    )
    assert (await taken(news))[1] == [0]
    unknown = await handler.fetch(CONTEXT, request(session_id=first.session_id + 1, session_epoch=1))
    assert (unknown.error_code, unknown.topics) == (ErrorCode.fetch_session_id_not_found, ())


async def test_read_committed_stops_at_the_last_stable_offset_and_names_aborted_transactions(
    host: Host, handler: FetchHandler
) -> None:
    partition = await host.topic("t", 1)
    await append(partition, batch(b"a"), batch(b"x", producer_id=5, sequence=0, transactional=True), batch(b"b"))
    answer, offsets = await fetched(handler, request(isolation_level=READ_COMMITTED))
    assert (answer.last_stable_offset, answer.high_watermark, offsets) == (1, 3, [0])
    assert answer.aborted_transactions == ()
    marker = build_end_transaction_batch(
        EndTransactionMarker(ControlType.ABORT, 0), base_offset=0, timestamp_ms=NOW_MS, producer_id=5, producer_epoch=0
    )
    await partition.append(memoryview(bytearray(marker)), AppendOrigin.COORDINATOR, acks_all=True)
    answer, offsets = await fetched(handler, request(isolation_level=READ_COMMITTED))
    assert (answer.last_stable_offset, offsets) == (4, [0, 1, 2, 3])
    assert answer.aborted_transactions == (AbortedTransaction(5, 1),)
    answer, _ = await fetched(handler, request())
    assert answer.aborted_transactions is None


async def tiered(host: Host) -> Partition:
    """Log start 1, local log start 3, log end 4."""
    partition = await host.topic("t", 1, config=LogConfig(segment_bytes=100, remote_storage_enable=True))
    await append(partition, *(batch(b"a" * 30) for _ in range(4)))
    await partition.log.increment_log_start_offset(1)
    await partition.log.delete_local_segments(3)
    assert (partition.log.state.log_start_offset, partition.log.state.offsets.local_log_start_offset) == (1, 3)
    return partition


async def test_F4_below_the_log_start_out_of_range_and_below_the_local_start_moved(
    host: Host, handler: FetchHandler
) -> None:
    partition = await tiered(host)
    partition.leader().replicas.assign([1, 2], 0)
    view = partition.leader()
    view._followers = {2: -1}
    below, _ = await fetched(handler, from_follower(0))
    assert (below.error_code, below.log_start_offset, below.high_watermark) == (ErrorCode.offset_out_of_range, 1, 4)
    moved, _ = await fetched(handler, from_follower(2))
    assert moved.error_code is ErrorCode.offset_moved_to_tiered_storage
    assert (moved.log_start_offset, moved.high_watermark) == (1, 4)


def with_tier(host: Host, tier: Tier | None) -> FetchHandler:
    return FetchHandler(host.hosted, sessions(), tier, max_bytes=1 << 20)


async def test_R4_consumers_get_tiered_offsets_through_the_leader(host: Host) -> None:
    await tiered(host)
    tier = Tier(TIERED, TIERED)
    handler = with_tier(host, tier)
    answer, _ = await fetched(handler, request(offset=1, max_wait_ms=60_000))
    assert (answer.error_code, answer.records, answer.aborted_transactions) == (ErrorCode.none, b"tiered", None)
    answer, _ = await fetched(handler, request(offset=2, isolation_level=READ_COMMITTED))
    assert answer.aborted_transactions == (AbortedTransaction(9, 1),)
    assert tier.asked == [(1, 3, False), (2, 3, True)]
    local, offsets = await fetched(handler, request(offset=3))
    assert (local.error_code, offsets) == (ErrorCode.none, [3])


async def test_R4_slow_tier_is_answered_without_records_and_without_waiting(host: Host) -> None:
    await tiered(host)
    handler = with_tier(host, Tier(RemoteRecords(memoryview(b""), 1)))
    answer, offsets = await fetched(handler, request(offset=1, max_wait_ms=60_000))
    assert (answer.error_code, offsets) == (ErrorCode.none, [])


async def test_R4_trouble_of_the_tier_is_an_error_of_the_partition(host: Host) -> None:
    await tiered(host)
    for tier in (Tier(KafkaError(ErrorCode.kafka_storage_error, "the tier is down")), None):
        answer, _ = await fetched(with_tier(host, tier), request(offset=1))
        assert answer.error_code is ErrorCode.kafka_storage_error


async def test_offset_that_is_in_neither_place_for_ever_is_refused_in_the_end(host: Host) -> None:
    await tiered(host)
    tier = Tier(None, None, None)
    answer, _ = await fetched(with_tier(host, tier), request(offset=1))
    assert (answer.error_code, len(tier.asked)) == (ErrorCode.not_leader_or_follower, 3)


Refusal = tuple[FetchRequest, ErrorCode]
REFUSALS: Sequence[Refusal] = [
    (request("absent"), ErrorCode.unknown_topic_or_partition),
    (request("followed", replica_id=2), ErrorCode.not_leader_or_follower),
    (request("followed"), ErrorCode.none),
    (from_follower(0, replica=1, current_leader_epoch=1), ErrorCode.unknown_leader_epoch),
    (from_follower(0, replica=3, current_leader_epoch=1), ErrorCode.unknown_leader_epoch),
    (from_follower(0, replica=3), ErrorCode.not_leader_or_follower),
    (from_follower(0, current_leader_epoch=0), ErrorCode.fenced_leader_epoch),
    (from_follower(0, current_leader_epoch=2), ErrorCode.unknown_leader_epoch),
    (from_follower(9), ErrorCode.offset_out_of_range),
    (from_follower(0, last_fetched_epoch=7), ErrorCode.offset_out_of_range),
    (from_follower(0), ErrorCode.none),
    (from_follower(0, current_leader_epoch=1), ErrorCode.none),
]


@pytest.mark.parametrize(("asked", "code"), REFUSALS)
async def test_refusals_as_apache_kafka_gives_them(
    host: Host, handler: FetchHandler, asked: FetchRequest, code: ErrorCode
) -> None:
    partition = await host.topic("t", 1, 2)
    await host.topic("followed", 2, 1)
    await host.view.elect_leader(partition.partition, 1)
    await partition.lead(host.view.image.topics["t"].partitions[0])
    await append(partition, batch(b"a"))
    assert (await fetched(handler, asked))[0].error_code is code


async def test_E3_divergence_is_told_before_the_range(host: Host, handler: FetchHandler) -> None:
    partition = await host.topic("t", 1, 2)
    await append(partition, batch(b"a"))
    await host.view.elect_leader(partition.partition, 1)
    await partition.lead(host.view.image.topics["t"].partitions[0])
    await append(partition, batch(b"b"))
    answer, _ = await fetched(handler, from_follower(5, last_fetched_epoch=0))
    assert (answer.error_code, answer.diverging_epoch) == (ErrorCode.none, EpochEndOffset(0, 1))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(5, "Input/output error"), ErrorCode.kafka_storage_error),
        (CorruptRecordError("0.log: 9 bytes are no complete batch", 70), ErrorCode.corrupt_message),
    ],
)
async def test_read_that_fails_on_disk_is_an_error_of_the_partition_and_of_the_broker(
    host: Host,
    handler: FetchHandler,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    code: ErrorCode,
) -> None:
    partition = await host.topic(f"t{code.value}", 1)

    async def broken(*_: Any, **__: Any) -> LogSlice:
        raise error

    await append(partition, batch(b"a"))
    monkeypatch.setattr(partition.log, "read", broken)
    answer, _ = await fetched(handler, request(partition.partition.topic))
    assert answer.error_code is code
    assert f"cannot read offset 0: {error}; check the log directory's disk" in caplog.text


@pytest.mark.parametrize("replica", [-1, 2])
async def test_looking_again_evaluates_what_has_moved_only(
    host: Host, handler: FetchHandler, looked: list[str], replica: int
) -> None:
    names = [f"t{number}" for number in range(6)]
    partitions = [await host.topic(name, 1, 2) for name in names]
    topics = tuple(FetchTopic((FetchPartition(0, fetch_offset=0, log_start_offset=0),), name) for name in names)
    asked = FetchRequest(max_wait_ms=10_000, min_bytes=1, topics=topics, replica_id=replica)
    fetching = asyncio.create_task(handler.fetch(CONTEXT, asked))
    moved = partitions[3]
    await until(lambda: len(moved.high_watermark_news) + len(moved.log_end_news))
    await asyncio.sleep(0)
    assert looked == names
    await append(moved, batch(b"a"))
    moved.log.update_high_watermark(1)
    moved.high_watermark_news.wake()
    response = await fetching
    with_records = [topic.topic for topic in response.topics if getattr(topic.partitions[0].records, "size", 0) > 0]
    release_records(response)
    assert with_records == ["t3"]
    assert set(looked[len(names) :]) == {"t3"}


async def test_news_of_a_partition_while_another_one_is_read_is_not_missed(
    host: Host, handler: FetchHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor if by then the other one has nothing any more."""
    first, second = await host.topic("a", 1), await host.topic("b", 1)
    await append(second, batch(b"x"))

    async def overtaken(*_: Any, **__: Any) -> LogSlice:
        monkeypatch.undo()
        second.log.state.high_watermark = 0
        await append(first, batch(b"y"))
        raise KafkaError(ErrorCode.offset_out_of_range, "retention was faster")

    for each in (first, second):
        monkeypatch.setattr(each.log, "read", overtaken)
    topics = tuple(FetchTopic((FetchPartition(0, fetch_offset=0),), name) for name in ("a", "b"))
    async with asyncio.timeout(5):
        response = await handler.fetch(CONTEXT, FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=topics))
    assert [getattr(topic.partitions[0].records, "size", 0) > 0 for topic in response.topics] == [True, False]
    release_records(response)


async def test_end_of_a_leadership_is_told_to_a_fetch_that_sleeps(host: Host, handler: FetchHandler) -> None:
    """What was found empty before does not hold any more, though no offset has moved."""
    partition = await host.topic("t", 1, 2)
    fetching = asyncio.create_task(handler.fetch(CONTEXT, request(max_wait_ms=10_000)))
    await until(lambda: len(partition.high_watermark_news))
    await asyncio.sleep(0)
    await partition.step_down(None)
    response = await fetching
    assert response.topics[0].partitions[0].error_code is ErrorCode.not_leader_or_follower


@pytest.mark.parametrize(
    ("offset", "error"),
    [
        (0, ErrorCode.offset_out_of_range),
        (1, ErrorCode.offset_moved_to_tiered_storage),
        (2, ErrorCode.offset_moved_to_tiered_storage),
        (3, ErrorCode.none),
        (4, ErrorCode.none),
        (5, ErrorCode.offset_out_of_range),
    ],
)
async def test_F4_borders_for_followers_and_consumers(host: Host, offset: int, error: ErrorCode) -> None:
    """Log [1, 4), local from 3 on. A consumer is given what a follower is sent to the tier for."""
    partition = await tiered(host)
    partition.leader().replicas.assign([1, 2], 0)
    partition.leader()._followers = {2: -1}
    tier = Tier(TIERED)
    handler = with_tier(host, tier)
    answer, _ = await fetched(handler, from_follower(offset))
    assert (answer.error_code, tier.asked) == (error, [])
    read, _ = await fetched(handler, request(offset=offset))
    is_moved = error is ErrorCode.offset_moved_to_tiered_storage
    assert read.error_code is (ErrorCode.none if is_moved else error)
    assert bool(tier.asked) == is_moved


async def test_bootstrap_rule_12_retention_between_the_decision_and_the_read_leads_to_the_tier(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decided for the local log, whose segment is gone when it is read: never the next segment in its place."""
    partition = await host.topic("t", 1)
    for name in (b"a", b"b", b"c"):
        await append(partition, batch(name))
        await partition.log.roll()
    partition.log.update_config(LogConfig(remote_storage_enable=True))
    read = partition.log.read

    async def overtaken(offset: int, **limits: Any) -> LogSlice:
        await partition.log.delete_local_segments(2)
        return await read(offset, **limits)

    monkeypatch.setattr(partition.log, "read", overtaken)
    tier = Tier(RemoteRecords(memoryview(b"tiered"), 2))
    answer, _ = await fetched(with_tier(host, tier), request(offset=1))
    assert tier.asked == [(1, 2, False)]
    assert (answer.error_code, answer.records) == (ErrorCode.none, b"tiered")


@pytest.mark.parametrize("seed", range(8))
async def test_bootstrap_rule_12_a_consumer_misses_nothing_whenever_local_retention_moves(
    host: Host, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Before any read, of either tier, the oldest local segment may go."""
    rng = random.Random(seed)
    partition = await host.topic("t", 1)
    stored: dict[int, bytes] = {}
    for number in range(12):
        data = batch(b"%d" % number)
        await append(partition, data)
        stored[number] = bytes(data)
        await partition.log.roll()
    log = partition.log
    log.update_config(LogConfig(remote_storage_enable=True))

    async def retain() -> None:
        if rng.random() < 0.5:
            await log.delete_local_segments(min(log.state.offsets.local_log_start_offset + 1, 11))

    class MovingTier:
        async def read(self, asked: RemoteRead) -> RemoteRecords | None:
            await retain()
            if asked.offset >= log.state.offsets.local_log_start_offset:
                return None
            return RemoteRecords(memoryview(stored[asked.offset]), asked.offset + 1)

    read = log.read

    async def moving(offset: int, **limits: Any) -> LogSlice:
        await retain()
        return await read(offset, **limits)

    monkeypatch.setattr(log, "read", moving)
    handler = FetchHandler(host.hosted, sessions(), MovingTier(), max_bytes=1 << 20)
    consumed: list[int] = []
    while len(consumed) < 12:
        answer, offsets = await fetched(handler, request(offset=len(consumed), max_bytes=1))
        assert answer.error_code in (ErrorCode.none, ErrorCode.not_leader_or_follower)
        consumed += offsets
    assert consumed == list(range(12))
    assert log.state.offsets.local_log_start_offset > 0
