"""Transactions whose coordinator is a broker of Apache Kafka and one of ours in turn: each goes on with what the other
has written to `__transaction_state`, and each verifies with the other what a producer appends (KIP-890).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterator
from uuid import UUID

import pytest

from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.base import Request, ResponseT
from tierfetch.protocol.messages.cluster import MetadataRequest, MetadataRequestTopic
from tierfetch.protocol.messages.groups import FindCoordinatorRequest
from tierfetch.protocol.messages.producers import InitProducerIdRequest
from tierfetch.protocol.messages.transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponseTransactionState,
    EndTxnRequest,
)
from tierfetch.protocol.net.client import Address, KafkaClient
from tierfetch.protocol.records import Record, build_batch
from tierfetch.protocol.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
from tierfetch.tests.interop.clients import TIMEOUT_S, consume, settled
from tierfetch.tests.interop.test_mixed_cluster import JAVA, OURS, Mixed, mixed_cluster

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.plaintext]

STATE = "__transaction_state"
COORDINATOR, LEADER = OURS
NONE = ErrorCode.none
BUMPS = 5
"""The version of EndTxn with `transaction.version` 2."""
RETRIED = {
    ErrorCode.concurrent_transactions,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
    ErrorCode.not_enough_replicas,
    ErrorCode.not_leader_or_follower,
    ErrorCode.leader_not_available,
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.unknown_topic_id,
}
TIMEOUT_MS = 600_000


@pytest.fixture
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    yield from mixed_cluster(tmp_path_factory.mktemp("mixed"), transaction_state_log_num_partitions="1")


@pytest.fixture
def expiring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    """Its Java broker forgets transactional ids after ten seconds."""
    yield from mixed_cluster(
        tmp_path_factory.mktemp("mixed"),
        transaction_state_log_num_partitions="1",
        transactional_id_expiration_ms="10000",
        transaction_remove_expired_transaction_cleanup_interval_ms="500",
    )


@pytest.fixture
async def client() -> AsyncIterator[KafkaClient]:
    client = KafkaClient(client_id="producer", random=random.Random(1))
    yield client
    await client.close()


class Producer:
    """A producer of `transaction.version` 2, that adds partitions by Produce."""

    def __init__(self, mixed: Mixed, client: KafkaClient, transactional_id: str) -> None:
        self.mixed = mixed
        self.client = client
        self.transactional_id = transactional_id
        self.producer_id = self.epoch = -1
        self.sequences: dict[str, int] = {}

    async def send(self, address: Address, request: Request[ResponseT], version: int | None = None) -> ResponseT:
        return await self.client.send(address, request, max_version=version, timeout_s=10)

    def broker(self, number: int) -> Address:
        nodes = self.mixed.java if number == JAVA else self.mixed.ours
        return Address("127.0.0.1", nodes.port(number))

    @property
    def any_broker(self) -> Address:
        """One that runs."""
        is_running = self.mixed.java.is_running(JAVA)
        return self.broker(JAVA if is_running else next(each for each in OURS if self.mixed.ours.is_running(each)))

    async def coordinator(self) -> Address:
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=(self.transactional_id,))
        (found,) = (await self.send(self.any_broker, request)).coordinators
        if found.error_code is not NONE:
            raise ConnectionError(found.error_code.name)
        return Address(found.host, found.port)

    async def init(self) -> None:
        async def ask() -> ErrorCode:
            request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=TIMEOUT_MS)
            answer = await self.send(await self.coordinator(), request)
            self.producer_id, self.epoch, self.sequences = answer.producer_id, answer.producer_epoch, {}
            return answer.error_code

        assert await settled(ask, RETRIED) is NONE

    async def produce(self, topic: str, value: bytes) -> ErrorCode:
        topic_id, leader = UUID(int=0), self.any_broker
        sequence = self.sequences.get(topic, 0)

        async def ask() -> ErrorCode:
            nonlocal topic_id, leader
            request = MetadataRequest(topics=(MetadataRequestTopic(topic_id=None, name=topic),))
            (found,) = (await self.send(self.any_broker, request)).topics
            if found.error_code is not NONE or found.partitions[0].error_code is not NONE:
                return found.error_code or found.partitions[0].error_code
            assert found.topic_id is not None
            topic_id, leader = found.topic_id, self.broker(found.partitions[0].leader_id)
            batch = build_batch(
                [Record(0, int(time.time() * 1000), b"k", value)],
                base_offset=0,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                base_sequence=sequence,
                is_transactional=True,
            )
            partition = ProducePartition(0, bytearray(batch))
            produce = ProduceRequest(
                -1, 10_000, (ProduceTopic((partition,), topic=topic, topic_id=topic_id),), self.transactional_id
            )
            answer = await self.send(leader, produce)
            assert answer is not None
            return answer.topics[0].partitions[0].error_code

        code = await settled(ask, RETRIED)
        if code is NONE:
            self.sequences[topic] = sequence + 1
        return code

    async def end(self, *, commit: bool = True) -> ErrorCode:
        async def ask() -> ErrorCode:
            request = EndTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                committed=commit,
            )
            answer = await self.send(await self.coordinator(), request, BUMPS)
            if answer.error_code is NONE:
                self.producer_id, self.epoch, self.sequences = answer.producer_id, answer.producer_epoch, {}
            return answer.error_code

        return await settled(ask, RETRIED)

    async def _describe(self) -> DescribeTransactionsResponseTransactionState:
        request = DescribeTransactionsRequest(transactional_ids=(self.transactional_id,))
        (state,) = (await self.send(await self.coordinator(), request)).transaction_states
        return state

    async def described(self, state: str) -> DescribeTransactionsResponseTransactionState:
        """Return what the coordinator has, once it is in the state."""
        found: list[DescribeTransactionsResponseTransactionState] = []

        async def ask() -> ErrorCode:
            found[:] = [await self._describe()]
            is_in_another = found[0].error_code is NONE and found[0].transaction_state != state
            return ErrorCode.coordinator_not_available if is_in_another else found[0].error_code

        assert await settled(ask, RETRIED) is NONE
        return found[0]

    async def until_forgotten(self) -> None:
        async def ask() -> ErrorCode:
            code = (await self._describe()).error_code
            return ErrorCode.coordinator_not_available if code is NONE else code

        assert await settled(ask, RETRIED) is ErrorCode.transactional_id_not_found


def hand_over(mixed: Mixed, to: int) -> None:
    """Kill the coordinator; the other one leads then."""
    if to == JAVA:
        mixed.ours.kill(COORDINATOR)
    else:
        mixed.ours.start(COORDINATOR)
        mixed.wait_in_sync(STATE, COORDINATOR, JAVA)
        mixed.java.kill(JAVA)
    mixed.wait(STATE, f"to be led by broker {to}", lambda part: part.leader == to)


def committed(mixed: Mixed, topic: str) -> list[bytes]:
    return [record.value or b"" for record in consume(mixed.servers, topic, isolation="read_committed")]


async def until_committed(mixed: Mixed, topic: str, expected: list[bytes]) -> None:
    """An end is answered before its markers are there."""
    async with asyncio.timeout(TIMEOUT_S):
        while (found := committed(mixed, topic)) != expected:
            assert found == expected[: len(found)]
            await asyncio.sleep(0.2)


async def test_T1_each_coordinator_goes_on_with_the_transactions_of_the_other(
    mixed: Mixed, client: KafkaClient
) -> None:
    mixed.create(STATE, [COORDINATOR, JAVA], cleanup_policy="compact")
    mixed.wait_in_sync(STATE, COORDINATOR, JAVA)
    mixed.create("ours", [LEADER])
    mixed.create("theirs", [JAVA])
    producer, zombie = Producer(mixed, client, "tx"), Producer(mixed, client, "zombie")

    # Ours coordinates: a leader of theirs adds partitions with us, and writes our markers.
    await producer.init()
    for topic in ("ours", "theirs"):
        assert await producer.produce(topic, b"1") is NONE
    assert await producer.end() is NONE
    assert await producer.produce("theirs", b"aborted") is NONE
    assert await producer.end(commit=False) is NONE
    assert await producer.produce("ours", b"2") is NONE
    await zombie.init()
    assert await zombie.produce("ours", b"zombie") is NONE
    before, of_zombie = await producer.described("Ongoing"), await zombie.described("Ongoing")
    assert [each.topic for each in before.topics] == ["ours"]

    # Theirs has all that ours wrote, and ends what was begun under ours.
    hand_over(mixed, JAVA)
    assert await producer.described("Ongoing") == before
    assert await zombie.described("Ongoing") == of_zombie
    for topic in ("ours", "theirs"):
        assert await producer.produce(topic, b"3") is NONE
    assert await producer.end() is NONE
    assert producer.epoch == before.producer_epoch + 1
    successor = Producer(mixed, client, "zombie")
    await successor.init()
    assert successor.producer_id == zombie.producer_id
    assert successor.epoch > zombie.epoch
    assert await zombie.produce("ours", b"zombie") is ErrorCode.invalid_producer_epoch
    assert await zombie.end() is ErrorCode.producer_fenced
    await until_committed(mixed, "theirs", [b"1", b"3"])
    await until_committed(mixed, "ours", [b"1", b"2", b"3"])
    assert await producer.produce("ours", b"4") is NONE
    before, of_zombie = await producer.described("Ongoing"), await successor.described("Empty")

    # And ours has all that theirs wrote.
    hand_over(mixed, COORDINATOR)
    assert await producer.described("Ongoing") == before
    assert await successor.described("Empty") == of_zombie
    assert await zombie.end() is ErrorCode.producer_fenced
    assert await producer.produce("ours", b"5") is NONE
    assert await producer.end() is NONE
    assert producer.epoch == before.producer_epoch + 1
    assert await successor.produce("ours", b"6") is NONE
    assert await successor.end() is NONE
    await until_committed(mixed, "ours", [b"1", b"2", b"3", b"4", b"5", b"6"])


async def test_T1_the_java_coordinator_ends_what_ours_has_decided(mixed: Mixed, client: KafkaClient) -> None:
    """It completes the transaction at once: Apache Kafka 4.3.0 takes a partition without a leader for a deleted one."""
    mixed.create(STATE, [COORDINATOR, JAVA], cleanup_policy="compact")
    mixed.wait_in_sync(STATE, COORDINATOR, JAVA)
    mixed.create("data", [LEADER])
    producer = Producer(mixed, client, "tx")
    await producer.init()
    assert await producer.produce("data", b"v") is NONE
    mixed.ours.kill(LEADER)
    assert await producer.end() is NONE
    prepared = await producer.described("PrepareCommit")
    hand_over(mixed, JAVA)
    complete = await producer.described("CompleteCommit")
    assert (complete.producer_id, complete.producer_epoch) == (prepared.producer_id, prepared.producer_epoch)
    mixed.ours.start(LEADER)
    mixed.wait("data", "to be led", lambda part: part.leader == LEADER)
    await producer.init()
    assert producer.producer_id == complete.producer_id
    assert producer.epoch == complete.producer_epoch + 1


async def test_T1_what_the_java_coordinator_let_expire_is_unknown_to_ours(expiring: Mixed, client: KafkaClient) -> None:
    expiring.create(STATE, [JAVA, COORDINATOR], cleanup_policy="compact")
    expiring.wait_in_sync(STATE, COORDINATOR, JAVA)
    expiring.create("data", [LEADER])
    used, unused = Producer(expiring, client, "used"), Producer(expiring, client, "unused")
    await unused.init()
    await unused.until_forgotten()
    await used.init()
    assert await used.produce("data", b"v") is NONE
    expiring.java.kill(JAVA)
    expiring.wait(STATE, "to be led by ours", lambda part: part.leader == COORDINATOR)
    await unused.until_forgotten()
    ongoing = await used.described("Ongoing")
    assert (ongoing.producer_id, ongoing.producer_epoch) == (used.producer_id, used.epoch)
    assert await used.end() is NONE
    await until_committed(expiring, "data", [b"v"])
