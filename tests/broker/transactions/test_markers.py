"""How markers reach the leaders of their partitions, beside one that does not answer, and many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tierfetch.broker.handlers.txn_markers import COMMIT_TIMEOUT_S, TransactionMarkerHandler
from tierfetch.broker.replicas.partition import Partition
from tierfetch.broker.transactions.core.states import TransactionState, TransactionValue
from tierfetch.broker.transactions.markers import LANES_MAX, MARKERS_MAX, MarkerSender
from tierfetch.protocol import ErrorCode, KafkaError, TopicPartition
from tierfetch.protocol.messages.producers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

pytestmark = pytest.mark.virtual_time
NODE = 1
HANG_S = 30.0


class Leader:
    """It leads all partitions; a request with one of `sick` is answered after `HANG_S`, and refuses that one."""

    def __init__(self, sick: Collection[int]) -> None:
        self.sick = sick
        self.requests: list[list[int]] = []
        self.under_way = self.most = 0

    async def write(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        numbers = [
            number for marker in request.markers for topic in marker.topics for number in topic.partition_indexes
        ]
        self.requests.append(numbers)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(HANG_S if not set(numbers).isdisjoint(self.sick) else 0.01)
        finally:
            self.under_way -= 1
        return self.answer(request)

    def answer(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        return WriteTxnMarkersResponse(
            markers=tuple(
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=tuple(
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=tuple(
                                WritableTxnMarkerPartitionResult(partition_index=number, error_code=self.code(number))
                                for number in topic.partition_indexes
                            ),
                        )
                        for topic in marker.topics
                    ),
                )
                for marker in request.markers
            )
        )

    def code(self, number: int) -> ErrorCode:
        return ErrorCode.request_timed_out if number in self.sick else ErrorCode.none


class Client:
    """One connection to the leader, which answers in the order of the requests."""

    def __init__(self, leader: Leader) -> None:
        self._leader = leader
        self._turn = asyncio.Lock()

    async def send(self, _: object, request: WriteTxnMarkersRequest, *, timeout_s: float) -> WriteTxnMarkersResponse:
        async with asyncio.timeout(2 * timeout_s), self._turn:
            return await self._leader.write(request)

    async def close(self) -> None: ...


def sender(leader: Leader, here: int = NODE) -> MarkerSender:
    """Return that of the leader itself, or of another broker."""
    image = SimpleNamespace(partition=lambda _: SimpleNamespace(leader=NODE), brokers={NODE: object()})
    view, make_client = cast(Any, SimpleNamespace(image=image)), cast(Any, lambda: Client(leader))
    address_of = cast(Any, lambda *_: None)
    return MarkerSender(view, here, make_client, address_of, leader.write, Random(1), timeout_s=HANG_S)


def ended(producer_id: int, *numbers: int) -> TransactionValue:
    return TransactionValue(
        producer_id=producer_id,
        producer_epoch=0,
        timeout_ms=1000,
        state=TransactionState.PREPARE_COMMIT,
        last_update_ms=0,
        partitions=frozenset(TopicPartition("t", number) for number in numbers),
    )


@pytest.mark.parametrize("here", [NODE, 2], ids=["the leader", "another broker"])
async def test_D4_a_partition_that_does_not_answer_holds_up_no_other_transaction(here: int) -> None:
    markers = sender(leader := Leader(sick={0}), here)
    stuck = asyncio.create_task(markers.send(ended(1, 0, 1), 0))
    await asyncio.sleep(1)
    await answered_at_once(markers, turns=100)
    leader.sick = ()
    await stuck
    await markers.close()


@pytest.mark.parametrize("here", [NODE, 2], ids=["the leader", "another broker"])
async def test_D4_a_write_that_never_ends_is_given_up_and_tried_again(
    here: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, begun = Leader(sick=()), 0
    write = leader.write

    async def hangs_at_first(request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        nonlocal begun
        begun += 1
        if begun <= 2 * LANES_MAX:
            await asyncio.get_running_loop().create_future()
        return await write(request)

    monkeypatch.setattr(leader, "write", hangs_at_first)
    markers = sender(leader, here)
    async with asyncio.timeout(100 * HANG_S):
        await asyncio.gather(*(markers.send(ended(number, 0), 0) for number in range(1, 20)))
    await markers.close()


async def test_D4_markers_whose_write_fails_by_an_internal_error_are_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    leader, begun = Leader(sick=()), 0
    write = leader.write

    async def fails_at_first(request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        nonlocal begun
        begun += 1
        if begun == 1:
            raise ExceptionGroup("internal", [AssertionError()])
        return await write(request)

    monkeypatch.setattr(leader, "write", fails_at_first)
    markers = sender(leader)
    async with asyncio.timeout(100 * HANG_S):
        await asyncio.gather(*(markers.send(ended(number, 0), 0) for number in range(1, 20)))
    await markers.close()
    assert len([record for record in caplog.records if record.exc_info]) == 1


async def test_D4_markers_that_are_tried_again_hold_up_no_new_ones_however_many_they_are() -> None:
    markers = sender(leader := Leader(sick={0}))
    stuck = []
    for number in range(2 * LANES_MAX):
        stuck.append(asyncio.create_task(markers.send(ended(10 + number, 0), 0)))
        await asyncio.sleep(0.1)
    await asyncio.sleep(2 * HANG_S + 1)  # now each has failed once
    await answered_at_once(markers, turns=100)
    leader.sick = ()
    await asyncio.gather(*stuck)
    await markers.close()


async def answered_at_once(markers: MarkerSender, turns: int) -> None:
    loop = asyncio.get_running_loop()
    for turn in range(turns):
        asked_s = loop.time()
        await markers.send(ended(2, 1, 2), turn)
        assert loop.time() - asked_s < 0.1, turn
        await asyncio.sleep(1)


async def test_the_markers_of_a_transaction_share_a_request_and_few_are_under_way() -> None:
    leader = Leader(sick={0})
    markers = sender(leader)
    await markers.send(ended(1, *range(1, 500)), 0)
    assert [len(numbers) for numbers in leader.requests] == [499]
    waiting = [asyncio.create_task(markers.send(ended(number, 0), 0)) for number in range(2, 20)]
    for _ in range(50):
        await asyncio.sleep(0)
    assert leader.most <= LANES_MAX
    leader.sick = ()
    await asyncio.gather(*waiting)
    assert leader.most <= 2 * LANES_MAX, "and as many that are tried again"
    await markers.close()


class Turns:
    """Counts how often another task of the loop could run meanwhile."""

    def __init__(self) -> None:
        self.count = 0

    async def __aenter__(self) -> Turns:
        self._task = asyncio.create_task(self._turn())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()

    async def _turn(self) -> None:
        while True:
            self.count += 1
            await asyncio.sleep(0)


class Slow:
    """Partition 0 does not append, or does not commit, before `may` is set; the others do at once."""

    def __init__(self, slow: str) -> None:
        self.may: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ended: list[int] = []
        self._slow = slow
        groups: Any = SimpleNamespace(transaction_ended=lambda _, producer_id, **__: self.ended.append(producer_id))
        self.handler = TransactionMarkerHandler(cast(Any, self), groups, lambda: 0)

    def find(self, topic: str, number: int) -> Any:
        async def append(*_: object, **__: object) -> object:
            if not number and self._slow == "append":
                await asyncio.shield(self.may)
            return SimpleNamespace(last_offset=0, leader_epoch=0)

        return SimpleNamespace(
            append=append,
            committed=lambda *_: None if number or self._slow == "append" else asyncio.shield(self.may),
            partition=SimpleNamespace(topic_partition=TopicPartition(topic, number)),
        )


@pytest.mark.parametrize("slow", ["append", "commit"])
async def test_D4_a_marker_that_waits_is_answered_before_its_request_is_given_up(slow: str) -> None:
    loop, place = asyncio.get_running_loop(), Slow(slow)
    leader = Leader(sick=())
    leader.write = place.handler.write  # type: ignore[method-assign]
    markers = sender(leader)
    sent_s, stuck = loop.time(), asyncio.create_task(markers.send(ended(1, 0), 0))
    await asyncio.gather(*(markers.send(ended(number, 1), 0) for number in range(2, 10)))
    assert loop.time() < sent_s + HANG_S / 2
    place.may.set_result(None)
    await stuck
    await markers.close()


@pytest.mark.parametrize("slow", ["append", "commit"])
async def test_a_marker_decides_also_once_its_request_is_given_up(slow: str) -> None:
    place = Slow(slow)
    topic = WritableTxnMarkerTopic(name="t", partition_indexes=(0,))
    marker = WritableTxnMarker(
        producer_id=7, producer_epoch=0, transaction_result=True, topics=(topic,), coordinator_epoch=0
    )
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await place.handler.write(WriteTxnMarkersRequest(markers=(marker,)))
    assert place.ended == []
    place.may.set_result(None)
    await asyncio.sleep(1)
    assert place.ended == [7]


async def test_D4_no_marker_is_begun_when_its_sender_has_given_up() -> None:
    begun: list[int] = []

    async def append(*_: object, **__: object) -> None:
        begun.append(0)
        await asyncio.sleep(COMMIT_TIMEOUT_S)
        raise KafkaError(ErrorCode.not_enough_replicas, "not now")

    hosted: Any = SimpleNamespace(find=lambda *_: SimpleNamespace(append=append))
    handler = TransactionMarkerHandler(hosted, cast(Any, None), lambda: 0)
    topic = WritableTxnMarkerTopic(name="t", partition_indexes=tuple(range(MARKERS_MAX + 1)))
    marker = WritableTxnMarker(
        producer_id=7, producer_epoch=0, transaction_result=True, topics=(topic,), coordinator_epoch=0
    )
    response = await handler.write(WriteTxnMarkersRequest(markers=(marker,)))
    assert len(begun) == MARKERS_MAX
    assert response.markers[0].topics[0].partitions[-1].error_code is ErrorCode.request_timed_out


async def test_D10_many_markers_in_a_request_are_written_within_the_loops_share() -> None:
    count, asked = 4_000, []

    def find(topic: str, number: int) -> Partition:
        asked.append((topic, number))
        raise KafkaError(ErrorCode.not_leader_or_follower, "not here")

    handler = TransactionMarkerHandler(cast(Any, SimpleNamespace(find=find)), cast(Any, None), lambda: 0)
    topics = tuple(WritableTxnMarkerTopic(name=f"t{at}", partition_indexes=(1, 0)) for at in range(count // 2))
    marker = WritableTxnMarker(
        producer_id=7, producer_epoch=0, transaction_result=True, topics=topics, coordinator_epoch=0
    )
    async with Turns() as turns:
        response = await handler.write(WriteTxnMarkersRequest(markers=(marker,)))
    assert len(asked) == count
    assert turns.count >= count // 100, "a hundred at a time, at most"
    (answer,) = response.markers
    assert [topic.name for topic in answer.topics] == sorted(topic.name for topic in topics)
    assert {(each.partition_index, each.error_code) for topic in answer.topics for each in topic.partitions} == {
        (0, ErrorCode.not_leader_or_follower),
        (1, ErrorCode.not_leader_or_follower),
    }


async def test_D10_the_markers_of_a_large_transaction_are_sent_within_the_loops_share() -> None:
    count, leader = 10_000, Leader(sick=())

    async def write(request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        return leader.answer(request)

    leader.write = write  # type: ignore[method-assign]
    markers = sender(leader)
    async with Turns() as turns:
        await markers.send(ended(1, *range(count)), 0)
    assert turns.count >= count // 500, "a thousand at a time, at most"
    await markers.close()
