"""Batches that wait for a coordinator's word: one question for many, and none overtakes another."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tierfetch.broker.transactions.core.events import Producer
from tierfetch.broker.transactions.verifier import ONGOING, Question, TransactionVerifier
from tierfetch.log.core import ProducerStateManager
from tierfetch.protocol import ErrorCode, KafkaError, TopicPartition
from tierfetch.protocol.messages.transactions import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from tierfetch.protocol.net import Address
from tierfetch.tests.broker.waiting import until
from tierfetch.tests.log.test_producers import CLIENT, end, marker_batch, transactional

PRODUCER = Producer(7, 0)
QUESTION = Question("tx", PRODUCER, adds=False)
ADDING = Question("tx", PRODUCER, adds=True)


class OtherBroker:
    """The coordinator's broker, in the place of a client that reaches it: it answers when it is let."""

    def __init__(self) -> None:
        self.asked: list[AddPartitionsToTxnRequest] = []
        self.may_answer = asyncio.Event()
        self.codes: list[ErrorCode] = []
        """Of the first answers; then NONE."""

    async def send(
        self, _: Address, request: AddPartitionsToTxnRequest, *, timeout_s: float
    ) -> AddPartitionsToTxnResponse:
        self.asked.append(request)
        await self.may_answer.wait()
        (transaction,) = request.transactions
        code = self.codes.pop(0) if self.codes else ErrorCode.none
        topics = [
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=tuple(
                    AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=code)
                    for number in topic.partitions
                ),
            )
            for topic in transaction.topics
        ]
        return AddPartitionsToTxnResponse(
            results_by_transaction=(
                AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=tuple(topics)),
            )
        )


def verifier(other: OtherBroker) -> TransactionVerifier:
    coordinator: Any = SimpleNamespace(
        find_now=lambda _: SimpleNamespace(id=2),
        settings=SimpleNamespace(is_verified=True, request_timeout_ms=1000),
    )
    client: Any = other
    view: Any = SimpleNamespace(image=None)
    return TransactionVerifier(view, 1, coordinator, client, lambda _, __: Address("other", 9092))


def partition(number: int = 0) -> Any:
    state = SimpleNamespace(producers=ProducerStateManager())
    name = SimpleNamespace(topic_partition=TopicPartition("t", number))
    return SimpleNamespace(partition=name, log=SimpleNamespace(state=state))


async def test_a_batch_of_an_open_transaction_does_not_overtake_one_that_waits() -> None:
    other = OtherBroker()
    verify, hosted, order = verifier(other), partition(), list[str]()

    async def batch(name: str) -> None:
        await verify.verify(hosted, QUESTION, knows_abortable=True)
        order.append(name)

    first = asyncio.create_task(batch("first"))
    await until(lambda: len(other.asked) == 1)
    hosted.log.state.producers.apply(transactional())  # an earlier batch opens the transaction meanwhile
    second = asyncio.create_task(batch("second"))
    await asyncio.sleep(0)
    assert not second.done()
    other.may_answer.set()
    await asyncio.gather(first, second)
    assert order == ["first", "second"]
    assert len(other.asked) == 1
    assert await verify.verify(hosted, QUESTION, knows_abortable=True) is ONGOING
    await verify.close()


@pytest.mark.parametrize("opens", [False, True], ids=["not in the log yet", "the first one opens it in the log"])
async def test_a_batch_that_comes_as_the_answer_does_overtakes_none(opens: bool) -> None:
    """One comes in each turn of the loop, so one comes between each answer and those that wait for it."""
    other = OtherBroker()
    verify, hosted, order = verifier(other), partition(), list[int]()

    async def batch(number: int) -> None:
        await verify.verify(hosted, ADDING, knows_abortable=True)
        order.append(number)
        if opens and number == 0:
            hosted.log.state.producers.apply(transactional())

    async with asyncio.TaskGroup() as group:
        for number in range(40):
            group.create_task(batch(number))
            await asyncio.sleep(0)
            if number == 10:
                other.may_answer.set()
    assert order == sorted(order)


async def test_an_addition_holds_for_the_log_as_it_is_afterwards() -> None:
    """It is truncated, or replaced, where this broker follows another for a moment."""
    other = OtherBroker()
    verify, hosted = verifier(other), partition()
    waiting = asyncio.create_task(verify.verify(hosted, ADDING, knows_abortable=True))
    await until(lambda: len(other.asked) == 1)
    producers = hosted.log.state.producers = ProducerStateManager()
    other.may_answer.set()
    guard = await waiting
    assert producers.admits(PRODUCER.producer_id, PRODUCER.epoch, guard)
    assert len(other.asked) == 2


async def test_what_all_have_given_up_is_asked_again() -> None:
    other = OtherBroker()
    verify, hosted = verifier(other), partition()
    given_up = asyncio.create_task(verify.verify(hosted, QUESTION, knows_abortable=True))
    await until(lambda: len(other.asked) == 1)
    given_up.cancel()
    other.may_answer.set()
    await asyncio.gather(given_up, return_exceptions=True)
    for _ in range(5):  # the turns of the loop that the answer takes
        await asyncio.sleep(0)
    await verify.verify(hosted, QUESTION, knows_abortable=True)
    assert len(other.asked) == 2


async def test_what_was_refused_for_a_moment_still_comes_first() -> None:
    other = OtherBroker()
    other.codes = [ErrorCode.coordinator_load_in_progress]
    other.may_answer.set()
    verify, hosted = verifier(other), partition()
    with pytest.raises(KafkaError) as refused:
        await verify.verify(hosted, ADDING, knows_abortable=True, sequence=0)
    assert refused.value.code is ErrorCode.not_enough_replicas
    producers = hosted.log.state.producers
    guard = await verify.verify(hosted, ADDING, knows_abortable=True, sequence=8)
    with pytest.raises(KafkaError, match="batch with sequence 0 came before it"):
        producers.check(transactional(sequence=8), CLIENT, guard=guard)
    guard = await verify.verify(hosted, ADDING, knows_abortable=True, sequence=0)
    assert producers.check(transactional(), CLIENT, guard=guard) is None


async def test_partitions_that_wait_share_the_next_question() -> None:
    other = OtherBroker()
    verify = verifier(other)
    tasks = [asyncio.create_task(verify.verify(partition(0), QUESTION, knows_abortable=True))]
    await until(lambda: len(other.asked) == 1)
    rest = [verify.verify(partition(number), QUESTION, knows_abortable=True) for number in range(1, 9)]
    tasks += [asyncio.create_task(each) for each in rest]
    await asyncio.sleep(0)
    other.may_answer.set()
    await asyncio.gather(*tasks)
    asked = [request.transactions[0].topics[0].partitions for request in other.asked]
    assert asked == [(0,), tuple(range(1, 9))]


async def test_one_that_gives_up_does_not_take_the_others_with_it() -> None:
    other = OtherBroker()
    verify, hosted = verifier(other), partition()
    tasks = [asyncio.create_task(verify.verify(hosted, QUESTION, knows_abortable=True)) for _ in range(2)]
    await until(lambda: len(other.asked) == 1)
    tasks[0].cancel()
    other.may_answer.set()
    assert await tasks[1] is hosted.log.state.producers.guard(PRODUCER.producer_id, 0, -1)


async def test_an_addition_holds_although_the_marker_of_the_transaction_before_comes_meanwhile() -> None:
    """KIP-890: a producer begins its next transaction before the markers of the last one are written."""
    other = OtherBroker()
    verify, hosted, order = verifier(other), partition(), list[str]()
    producers, next_one = hosted.log.state.producers, Question("tx", Producer(7, 1), adds=True)
    producers.apply(transactional())

    async def batch(name: str) -> object:
        guard = await verify.verify(hosted, next_one, knows_abortable=True)
        order.append(name)
        return guard

    first = asyncio.create_task(batch("first"))
    await until(lambda: len(other.asked) == 1)
    producers.apply(marker_batch(1, epoch=1), marker=end())
    second = asyncio.create_task(batch("second"))
    await asyncio.sleep(0)
    other.may_answer.set()
    guards = await asyncio.gather(first, second)
    assert all(producers.admits(7, 1, guard) for guard in guards)
    assert (order, len(other.asked)) == (["first", "second"], 2)


async def test_a_verified_batch_stays_out_once_its_transaction_has_ended() -> None:
    other = OtherBroker()
    verify, hosted = verifier(other), partition()
    task = asyncio.create_task(verify.verify(hosted, QUESTION, knows_abortable=True))
    await until(lambda: len(other.asked) == 1)
    hosted.log.state.producers.apply(marker_batch(), marker=end())
    other.may_answer.set()
    assert not hosted.log.state.producers.admits(7, PRODUCER.epoch, await task)
    assert len(other.asked) == 1


@pytest.mark.virtual_time
async def test_an_addition_waits_for_the_markers_of_the_transaction_before() -> None:
    other = OtherBroker()
    other.may_answer.set()
    other.codes = [ErrorCode.concurrent_transactions] * 3
    assert await verifier(other).verify(partition(), ADDING, knows_abortable=True) is not None
    assert len(other.asked) == 4


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("answer", "question", "knows_abortable", "code"),
    [
        (ErrorCode.coordinator_load_in_progress, QUESTION, True, ErrorCode.not_enough_replicas),
        (ErrorCode.not_coordinator, ADDING, True, ErrorCode.not_enough_replicas),
        (ErrorCode.unknown_topic_or_partition, ADDING, True, ErrorCode.not_enough_replicas),
        (ErrorCode.operation_not_attempted, ADDING, True, ErrorCode.not_enough_replicas),
        (ErrorCode.concurrent_transactions, QUESTION, True, ErrorCode.not_enough_replicas),
        (ErrorCode.concurrent_transactions, ADDING, True, ErrorCode.concurrent_transactions),
        (ErrorCode.producer_fenced, QUESTION, True, ErrorCode.invalid_producer_epoch),
        (ErrorCode.transaction_abortable, QUESTION, True, ErrorCode.transaction_abortable),
        (ErrorCode.transaction_abortable, QUESTION, False, ErrorCode.invalid_txn_state),
        (ErrorCode.invalid_producer_id_mapping, QUESTION, True, ErrorCode.invalid_producer_id_mapping),
    ],
)
async def test_what_a_producer_is_answered(
    answer: ErrorCode, question: Question, knows_abortable: bool, code: ErrorCode
) -> None:
    other = OtherBroker()
    other.may_answer.set()
    other.codes = [answer] * 10
    with pytest.raises(KafkaError) as caught:
        await verifier(other).verify(partition(), question, knows_abortable=knows_abortable)
    assert caught.value.code is code
