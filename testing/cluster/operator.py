"""What the test asks of the cluster as a client: topics made and removed, records written and read back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Final, NamedTuple
from uuid import UUID

from ...protocol import ErrorCode, KafkaError
from ...protocol.fetch import READ_COMMITTED, FetchPartition, FetchRequest, FetchTopic
from ...protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from ...protocol.net import Address, KafkaClient
from ...protocol.records import Record, build_batch, iter_batches, iter_records
from ...protocol.wire import ACKS_ALL, ProducePartition, ProduceRequest, ProduceTopic

REQUEST_TIMEOUT_S: Final = 20.0
FETCH_WAIT_MS: Final = 100


class ConsumedRecord(NamedTuple):
    """A record as a consumer gets it."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class PartitionAt(NamedTuple):
    """A partition, and the leader that serves it."""

    topic: str
    topic_id: UUID
    partition: int
    leader: Address


class Operator:
    """A client with connections of its own."""

    def __init__(self, client: KafkaClient) -> None:
        self._client = client

    async def create_topic(
        self, controller: Address, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> None:
        """Create a topic. KafkaError says why not."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            assignments=(),
            configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in configs.items()),
        )
        response = await self._client.send(
            controller, CreateTopicsRequest(topics=(topic,)), timeout_s=REQUEST_TIMEOUT_S
        )
        result = response.topics[0]
        check(result.error_code, f"topic {name}: {result.error_message or result.error_code.name}")

    async def delete_topic(self, controller: Address, name: str) -> None:
        """Delete a topic. KafkaError says why not."""
        request = DeleteTopicsRequest(
            topics=(DeleteTopicState(name=name, topic_id=None),), topic_names=(name,), timeout_ms=10_000
        )
        response = await self._client.send(controller, request, timeout_s=REQUEST_TIMEOUT_S)
        check(response.responses[0].error_code, f"topic {name}")

    async def produce(self, at: PartitionAt, values: Sequence[bytes]) -> int:
        """Return the offset of the first record, once all in-sync replicas have all of them."""
        now_ms = int(time.time() * 1000)
        batch = build_batch([Record(index, now_ms, None, value) for index, value in enumerate(values)], base_offset=0)
        topic = ProduceTopic((ProducePartition(at.partition, batch),), at.topic, at.topic_id)
        request = ProduceRequest(ACKS_ALL, 10_000, (topic,))
        response = await self._client.send(at.leader, request, timeout_s=REQUEST_TIMEOUT_S)
        assert response is not None, "only acks=0 has no response"
        result = response.topics[0].partitions[0]
        check(result.error_code, f"{at.topic}-{at.partition}: {result.error_message or result.error_code.name}")
        return result.base_offset

    async def records(
        self, at: PartitionAt, start: int, end: int, address_of: Callable[[int], Address]
    ) -> list[ConsumedRecord]:
        """Return the committed records from `start` up to `end`, exclusive, tier included. They are read from where the
        leader sends consumers (`replica.selector.class`); `address_of` returns where a broker is.
        """
        found: list[ConsumedRecord] = []
        offset, source = start, at.leader
        deadline_s = asyncio.get_running_loop().time() + REQUEST_TIMEOUT_S
        while offset < end:
            if asyncio.get_running_loop().time() > deadline_s:
                raise TimeoutError(f"{at.topic}-{at.partition}: nothing came from offset {offset} on")
            topic = FetchTopic((FetchPartition(at.partition, fetch_offset=offset),), at.topic, at.topic_id)
            request = FetchRequest(FETCH_WAIT_MS, 1, (topic,), isolation_level=READ_COMMITTED)
            response = await self._client.send(source, request, timeout_s=REQUEST_TIMEOUT_S)
            result = response.topics[0].partitions[0]
            check(result.error_code, f"{at.topic}-{at.partition} at offset {offset}")
            if result.preferred_read_replica >= 0:
                source = address_of(result.preferred_read_replica)
                continue
            aborted = {each.producer_id: each.first_offset for each in result.aborted_transactions or ()}
            data = memoryview(result.records or b"")  # type: ignore[arg-type]  # a buffer, in a decoded response
            for position, header in iter_batches(data):
                offset = max(offset, header.last_offset + 1)
                if header.is_control or aborted.get(header.producer_id, header.base_offset + 1) <= header.base_offset:
                    continue
                found += [
                    ConsumedRecord(at.partition, *record)
                    for record in iter_records(data, position, header)
                    if start <= record.offset < end
                ]
        return found


def check(code: ErrorCode, message: str) -> None:
    """Raise KafkaError unless the code is none."""
    if code is not ErrorCode.none:
        raise KafkaError(code, message)


@asynccontextmanager
async def open_operator() -> AsyncIterator[Operator]:
    """Yield an operator, and close its connections."""
    client = KafkaClient(client_id="tierfetch-testing", random=Random())
    try:
        yield Operator(client)
    finally:
        await client.close()
