"""Transactions in whole brokers, over the wire: what a log takes, and what becomes of a transaction when brokers go."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tierfetch.broker.environment import wall_clock_ms
from tierfetch.broker.transactions import active_shard
from tierfetch.broker.transactions.core.states import TransactionState
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.base import Request, ResponseT
from tierfetch.protocol.messages.groups import FindCoordinatorRequest
from tierfetch.protocol.messages.producers import InitProducerIdRequest
from tierfetch.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    ListTransactionsRequest,
    TopicRequest,
)
from tierfetch.protocol.net.client import KafkaClient
from tierfetch.protocol.records import Record, build_batch
from tierfetch.protocol.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
from tierfetch.tests.broker.nodes import Nodes
from tierfetch.tests.broker.waiting import until

NONE = ErrorCode.none
RETRIED = {
    ErrorCode.concurrent_transactions,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
    ErrorCode.not_enough_replicas,
}
CONFIGS = {
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[Nodes]:
    nodes = Nodes(tmp_path, CONFIGS)
    yield nodes
    await nodes.close()


@pytest.fixture
async def client() -> AsyncIterator[KafkaClient]:
    client = KafkaClient(client_id="producer", random=random.Random(1))
    yield client
    await client.close()


class Producer:
    """A producer of transactional id "tx" that speaks one transaction version; brokers are asked by number."""

    def __init__(self, nodes: Nodes, client: KafkaClient, *, version: int = 2) -> None:
        self.nodes = nodes
        self.client = client
        self.bumps = version >= 2
        self.coordinator = -1
        self.producer_id = self.epoch = -1
        self.sequences: dict[str, int] = {}

    async def send(self, number: int, request: Request[ResponseT], version: int | None = None) -> ResponseT:
        return await self.client.send(self.nodes[number].address, request, max_version=version, timeout_s=10)

    async def init(self) -> None:
        async with asyncio.timeout(10):
            found = FindCoordinatorRequest(key_type=1, coordinator_keys=("tx",))
            any_broker = next(iter(self.nodes._running))
            while (  # noqa: ASYNC110 - as a client polls
                answer := (await self.send(any_broker, found)).coordinators[0]
            ).error_code in RETRIED:
                await asyncio.sleep(0.01)
            self.coordinator = answer.node_id
            request = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000)
            while (  # noqa: ASYNC110 - as a client polls
                producer := await self.send(self.coordinator, request)
            ).error_code in RETRIED:
                await asyncio.sleep(0.01)
        assert producer.error_code is NONE
        self.producer_id, self.epoch, self.sequences = producer.producer_id, producer.producer_epoch, {}

    async def add(self, *topics: str) -> ErrorCode:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="tx",
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=tuple(AddPartitionsToTxnTopic(name=name, partitions=(0,)) for name in topics),
        )
        answer = await self.send(self.coordinator, request, 3)
        return answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code

    def request(self, topic: str, value: bytes = b"v", *, epoch: int | None = None) -> ProduceRequest:
        sequence = self.sequences.get(topic, 0)
        self.sequences[topic] = sequence + 1
        batch = build_batch(
            [Record(0, wall_clock_ms(), b"k", value)],
            base_offset=0,
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        topic_id = self.nodes[self.leader(topic)].view.image.topics[topic].topic_id
        partition = ProducePartition(0, bytearray(batch))
        return ProduceRequest(-1, 10_000, (ProduceTopic((partition,), topic=topic, topic_id=topic_id),), "tx")

    def leader(self, topic: str) -> int:
        return self.nodes.registration(topic).leader

    async def produce(self, topic: str, version: int | None = None, *, epoch: int | None = None) -> ErrorCode:
        newest = 13 if self.bumps else 11
        request = self.request(topic, epoch=epoch)
        answer = await self.send(self.leader(topic), request, newest if version is None else version)
        assert answer is not None
        code = answer.topics[0].partitions[0].error_code
        if code is not NONE:
            self.sequences[topic] -= 1
        return code

    async def end(self, *, commit: bool = True) -> ErrorCode:
        request = EndTxnRequest(
            transactional_id="tx", producer_id=self.producer_id, producer_epoch=self.epoch, committed=commit
        )
        answer = await self.send(self.coordinator, request, 5 if self.bumps else 4)
        if answer.error_code is NONE and self.bumps:
            self.producer_id, self.epoch, self.sequences = answer.producer_id, answer.producer_epoch, {}
        return answer.error_code

    async def until_in(self, *states: TransactionState) -> None:
        def is_in() -> bool:
            broker = self.nodes._running.get(self.coordinator)
            if broker is None or not all(active.is_loaded for active in broker.transactions.coordinator.shards):
                return False
            for active in broker.transactions.coordinator.shards:
                transaction = active.shard.transactions.get("tx")
                if transaction is not None and transaction.value is not None:
                    return transaction.value.state in states and not transaction.is_under_way
            return False

        await until(is_in)


def stable_and_end(nodes: Nodes, number: int, topic: str) -> tuple[int, int]:
    offsets = nodes.partition(number, topic).log.state.offsets
    return offsets.last_stable_offset, offsets.log_end_offset


async def test_transaction_version_2_adds_by_produce_and_bumps_at_each_end(nodes: Nodes, client: KafkaClient) -> None:
    await nodes.start(1)
    await nodes.topic("t", 1)
    producer = Producer(nodes, client)
    await producer.init()
    for commit in (True, False, True):
        epoch = producer.epoch
        assert await producer.produce("t") is NONE
        assert await producer.produce("t") is NONE
        assert await producer.end(commit=commit) is NONE
        assert producer.epoch == epoch + 1
        await producer.until_in(TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
        assert await producer.produce("t", epoch=epoch) is ErrorCode.invalid_producer_epoch, "a late batch"
    assert stable_and_end(nodes, 1, "t") == (9, 9)
    assert len(await nodes.partition(1, "t").log.aborted_transactions(0, 9)) == 1


@pytest.mark.parametrize(
    ("version", "code"), [(11, ErrorCode.transaction_abortable), (10, ErrorCode.invalid_txn_state)]
)
async def test_a_batch_outside_its_transaction_is_not_appended(
    nodes: Nodes, client: KafkaClient, version: int, code: ErrorCode
) -> None:
    await nodes.start(1)
    await nodes.topic("t", 1)
    await nodes.topic("other", 1)
    producer = Producer(nodes, client, version=0)
    await producer.init()
    assert await producer.produce("t", version) is code
    assert await producer.add("other") is NONE
    assert await producer.produce("t", version) is code
    assert await producer.produce("other", version) is NONE
    producer.producer_id += 1
    assert await producer.produce("t", version) is ErrorCode.invalid_producer_id_mapping
    assert stable_and_end(nodes, 1, "t") == (0, 0)


async def test_a_batch_without_any_coordinator_in_the_cluster_is_not_appended(
    nodes: Nodes, client: KafkaClient
) -> None:
    await nodes.start(1)
    await nodes.topic("t", 1)
    producer = Producer(nodes, client)
    producer.producer_id, producer.epoch = 5, 0
    for version in (11, 13):
        assert await producer.produce("t", version) is ErrorCode.invalid_producer_id_mapping


@pytest.mark.parametrize("version", [0, 2])
async def test_partitions_of_several_brokers_end_together(nodes: Nodes, client: KafkaClient, version: int) -> None:
    await nodes.start(1, 2)
    await nodes.topic("here", 1)
    await nodes.topic("there", 2)
    producer = Producer(nodes, client, version=version)
    await producer.init()
    if version == 0:
        assert await producer.add("here", "there") is NONE
    assert await producer.produce("here") is NONE
    assert await producer.produce("there") is NONE
    assert stable_and_end(nodes, 1, "here") == (0, 1)
    assert await producer.end() is NONE
    await producer.until_in(TransactionState.COMPLETE_COMMIT)
    assert stable_and_end(nodes, 1, "here") == stable_and_end(nodes, 2, "there") == (2, 2)


async def test_batches_that_wait_for_one_verification_keep_their_order(nodes: Nodes, client: KafkaClient) -> None:
    await nodes.start(1, 2)
    await nodes.topic("here", 1)
    await nodes.topic("there", 2)
    producer = Producer(nodes, client)
    await producer.init()
    for topic in ("here", "there"):
        connection = await client.connection(nodes[producer.leader(topic)].address)
        requests = [producer.request(topic) for _ in range(5)]
        sent = [connection.send(request, max_version=13, timeout_s=10) for request in requests]
        answers = await asyncio.gather(*sent)
        codes = [answer.topics[0].partitions[0].error_code for answer in answers if answer is not None]
        assert codes == [NONE] * 5


async def test_a_transaction_waits_for_the_leader_that_has_gone(nodes: Nodes, client: KafkaClient) -> None:
    await nodes.start(1)
    producer = Producer(nodes, client)
    await producer.init()
    assert producer.coordinator == 1
    await nodes.start(2)
    await nodes.topic("there", 2)
    assert await producer.produce("there") is NONE
    await nodes.stop(2)
    assert await producer.end() is NONE
    await producer.until_in(TransactionState.PREPARE_COMMIT)
    await nodes.start(2)
    await producer.until_in(TransactionState.COMPLETE_COMMIT)
    await until(lambda: stable_and_end(nodes, 2, "there") == (2, 2))


async def test_a_coordinator_that_comes_back_goes_on(nodes: Nodes, client: KafkaClient) -> None:
    await nodes.start(1)
    producer = Producer(nodes, client)
    await producer.init()
    await nodes.start(2)
    await nodes.topic("there", 2)
    assert await producer.produce("there") is NONE
    await nodes.stop(1)
    await nodes.start(1)
    await producer.until_in(TransactionState.ONGOING)
    await nodes.stop(2)
    assert await producer.end() is NONE
    await nodes.stop(1)
    await nodes.start(1)
    await producer.until_in(TransactionState.PREPARE_COMMIT)
    await nodes.start(2)
    await producer.until_in(TransactionState.COMPLETE_COMMIT)
    await until(lambda: stable_and_end(nodes, 2, "there") == (2, 2))


async def test_operators_see_what_is_open(nodes: Nodes, client: KafkaClient) -> None:
    await nodes.start(1)
    await nodes.topic("t", 1)
    producer = Producer(nodes, client)
    await producer.init()
    assert await producer.produce("t") is NONE
    (listed,) = (await producer.send(1, ListTransactionsRequest())).transaction_states
    assert (listed.transactional_id, listed.transaction_state) == ("tx", "Ongoing")
    for nothing in (
        ListTransactionsRequest(state_filters=("Empty",)),
        ListTransactionsRequest(producer_id_filters=(producer.producer_id + 1,)),
        ListTransactionsRequest(duration_filter=60_000),
        ListTransactionsRequest(transactional_id_pattern="t"),
    ):
        assert (await producer.send(1, nothing)).transaction_states == ()
    (known, unknown) = (
        await producer.send(1, DescribeTransactionsRequest(transactional_ids=("tx", "none")))
    ).transaction_states
    assert [(topic.topic, topic.partitions) for topic in known.topics] == [("t", (0,))]
    assert unknown.error_code is ErrorCode.transactional_id_not_found
    request = DescribeProducersRequest(topics=(TopicRequest(name="t", partition_indexes=(0,)),))
    (state,) = (await producer.send(1, request)).topics[0].partitions[0].active_producers
    assert (state.producer_id, state.current_txn_start_offset) == (producer.producer_id, 0)


async def test_A2_a_pattern_of_transactional_ids_is_matched_with_whole_ids_and_costs_a_bounded_time(
    nodes: Nodes, client: KafkaClient
) -> None:
    """KIP-1152."""
    await nodes.start(1)
    producer = Producer(nodes, client)
    await producer.init()
    long = "t" * 10_000
    assert (
        await producer.send(1, InitProducerIdRequest(transactional_id=long, transaction_timeout_ms=60_000))
    ).error_code is NONE

    async def listed(pattern: str | None) -> ErrorCode | list[str]:
        answer = await producer.send(1, ListTransactionsRequest(transactional_id_pattern=pattern))
        return answer.error_code or sorted(each.transactional_id for each in answer.transaction_states)

    assert await listed(None) == await listed("") == await listed("t.*") == [long, "tx"]
    assert await listed("t[xyz]") == ["tx"]
    assert await listed("x") == []
    for refused in ("(", "(?:(?:a{50}){50}){50}", "(?:t?){400}t{400}"):
        assert await listed(refused) is ErrorCode.invalid_regular_expression, refused
    # RE2 reads bytes: a character may have four.
    assert await listed("(?:t?){200}") == []
    wide = InitProducerIdRequest(transactional_id="\N{GRINNING FACE}" * 8_000, transaction_timeout_ms=60_000)
    assert (await producer.send(1, wide)).error_code is NONE
    assert await listed("(?:t?){200}") is ErrorCode.invalid_regular_expression


async def test_a_request_waits_for_the_end_of_the_transaction_before(
    nodes: Nodes, client: KafkaClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(active_shard, "PARK_S", 60)
    await nodes.start(1, 2)
    await nodes.topic("there", 2)
    producer = Producer(nodes, client, version=0)
    await producer.init()
    for _ in range(10):
        assert await producer.add("there") is NONE, "no client has to come again while markers are written"
        assert await producer.produce("there") is NONE
        assert await producer.end() is NONE
    (active,) = nodes[producer.coordinator].transactions.coordinator.shards
    await until(lambda: not active._ends)


async def test_a_commit_that_comes_too_soon_is_answered_at_once(
    nodes: Nodes, client: KafkaClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java's producer may send it before the first batch of its transaction: what it repeats waits for the batches."""
    monkeypatch.setattr(active_shard, "PARK_S", 60)
    await nodes.start(1)
    producer = Producer(nodes, client)
    await producer.init()
    await nodes.start(2)
    await nodes.topic("there", 2)
    assert await producer.produce("there") is NONE
    await nodes.stop(2)
    assert await producer.end() is NONE
    await producer.until_in(TransactionState.PREPARE_COMMIT)
    assert await producer.end() is ErrorCode.concurrent_transactions
    await nodes.start(2)
    await producer.until_in(TransactionState.COMPLETE_COMMIT)
    assert await producer.produce("there") is NONE
    assert await producer.end() is NONE
