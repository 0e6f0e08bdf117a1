"""What is not in the tier yet, asked of the brokers: topics, offsets, and the batches up to the end.

Only Metadata, ListOffsets and Fetch, as any consumer; Kafka and tierfetch brokers alike. A leader that moved, or a
broker that is down, is looked for again until `RETRY_FOR_S` have passed.

Fetch returns the producer and the first offset of each aborted transaction; its marker, which is among the
batches or after them, says where it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Final, TypeVar
from uuid import UUID

from ...light_dataclass import dataclass
from ...log.core import AbortedTransaction
from ...protocol import OUTSIDE, ErrorCode, KafkaError, RetriableError, TopicPartition, metadata_of, offsets_of
from ...protocol.fetch import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchTopic,
)
from ...protocol.fetch import AbortedTransaction as FetchedTransaction
from ...protocol.messages.cluster import MetadataRequest, MetadataResponse
from ...protocol.net import Address, KafkaClient
from ...protocol.records import CONTROL_BYTES_MAX, ControlType, control_type, iter_batches, skim_records
from ...security import read_client_file
from ..core.batch_table import OFFSET_END

T = TypeVar("T")

FETCH_BYTES: Final = 8 * 1024 * 1024
FETCH_WAIT_MS: Final = 500
REQUEST_TIMEOUT_S: Final = 30.0
RETRY_FOR_S: Final = 60.0
RETRY_PAUSE_S: Final = 0.5


class BrokersUnavailableError(RetriableError):
    """No broker could be asked; says which, and what each said."""


@dataclass(frozen=True, slots=True)
class LiveTopic:
    """A topic as the brokers have it; `leaders` by partition, None where there is none now."""

    name: str
    topic_id: UUID | None
    leaders: dict[int, Address | None]


@dataclass(frozen=True, slots=True)
class Fetched:
    """Whole batches, the first perhaps from below the asked offset; `next_offset` is where to continue."""

    data: memoryview
    next_offset: int
    aborted: tuple[AbortedTransaction, ...]


class Brokers:
    """One caller at a time. `bootstrap`: HOST:PORT, separated by commas."""

    def __init__(self, bootstrap: str, *, committed_only: bool, command_config: str | None = None) -> None:
        """SecurityConfigError if the client properties file `command_config` cannot be used."""
        identity = None if command_config is None else read_client_file(Path(command_config), "commandConfig")
        self._addresses = dict.fromkeys(Address.parse(text) for text in bootstrap.split(","))
        self._isolation = READ_COMMITTED if committed_only else READ_UNCOMMITTED
        self._client = KafkaClient(client_id="tierfetch-spark", random=Random(), identity=identity)
        self._topics: dict[str, LiveTopic] = {}

    async def close(self) -> None:
        await self._client.close()

    async def topics(self, names: Sequence[str] | None) -> list[LiveTopic]:
        """The named ones that exist, or all that are not internal; by name. BrokersUnavailableError."""
        response = await self._ask_any(metadata_of(names))
        addresses = {broker.node_id: Address(broker.host, broker.port) for broker in response.brokers}
        self._addresses.update(dict.fromkeys(addresses.values()))
        found = [
            LiveTopic(
                topic.name or "",
                topic.topic_id,
                {part.partition_index: addresses.get(part.leader_id) for part in topic.partitions},
            )
            for topic in response.topics
            if topic.error_code is ErrorCode.none and not (names is None and topic.is_internal)
        ]
        self._topics.update((topic.name, topic) for topic in found)
        return sorted(found, key=lambda topic: topic.name)

    async def offsets(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        """ListOffsets, one for each leader: a time in ms or one of the special ones; -1 where no record is that late.
        BrokersUnavailableError.
        """
        wanted = list(partitions)
        found: dict[TopicPartition, int] = {}
        while left := [partition for partition in wanted if partition not in found]:

            async def ask(leader: Address, left: Sequence[TopicPartition] = left) -> dict[TopicPartition, int]:
                led = [partition for partition in left if self._known_leader(partition) == leader]
                return await self._list_offsets(leader, led, timestamp)

            found |= await self._of_leader(left[0], ask)
        return found

    async def _list_offsets(
        self, leader: Address, partitions: Sequence[TopicPartition], timestamp: int
    ) -> dict[TopicPartition, int]:
        """Return offsets of the partitions that the leader answers for; KafkaError if the first is not among them."""
        request = offsets_of(
            [(name.topic, name.partition) for name in partitions],
            timestamp,
            timeout_ms=int(REQUEST_TIMEOUT_S * 1000),
            isolation_level=self._isolation,
        )
        response = await self._client.send(leader, request, timeout_s=REQUEST_TIMEOUT_S)
        answers = {
            TopicPartition(topic.name, answer.partition_index): answer
            for topic in response.topics
            for answer in topic.partitions
        }
        first = answers[partitions[0]]
        if first.error_code is not ErrorCode.none:
            raise KafkaError(first.error_code, f"offset {timestamp} of {partitions[0]}")
        return {name: answer.offset for name, answer in answers.items() if answer.error_code is ErrorCode.none}

    async def batches(
        self, partition: TopicPartition, topic_id: UUID | None, first_offset: int, end_offset: int
    ) -> AsyncIterator[Fetched]:
        """Everything of [first_offset, end_offset), which was readable once in the topic of this id. None: of brokers
        too old to give it. BrokersUnavailableError where nothing has come for `RETRY_FOR_S`: an unclean election may
        have lost what was there.
        """
        loop = asyncio.get_running_loop()
        at, heard_s = first_offset, loop.time()

        async def ask(leader: Address) -> Fetched:
            self._check_same(partition, topic_id)
            return await self._fetch(leader, partition, at)

        while at < end_offset:
            fetched = await self._of_leader(partition, ask)
            if fetched.next_offset > at:
                yield fetched
                at, heard_s = fetched.next_offset, loop.time()
            elif loop.time() - heard_s >= RETRY_FOR_S:
                raise BrokersUnavailableError(
                    f"{partition}: no records from offset {at} on for {RETRY_FOR_S:.0f} s, and it went up to "
                    f"{end_offset} when the job was planned: its end was lost, or is no longer committed"
                )

    def _check_same(self, partition: TopicPartition, topic_id: UUID | None) -> None:
        topic = self._topics.get(partition.topic)
        found = None if topic is None else topic.topic_id
        if None not in (topic_id, found) and topic_id != found:
            raise KafkaError(
                ErrorCode.inconsistent_topic_id,
                f"the topic was deleted and recreated since the job was planned (its id was {topic_id} and is {found})",
            )

    async def _fetch(self, leader: Address, partition: TopicPartition, offset: int) -> Fetched:
        wanted = FetchPartition(partition.partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
        request = FetchRequest(
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=self._isolation,
            topics=(FetchTopic((wanted,), partition.topic, self._topics[partition.topic].topic_id),),
        )
        response = await self._client.send(leader, request, timeout_s=REQUEST_TIMEOUT_S)
        answer = response.topics[0].partitions[0] if response.topics else FetchPartitionResponse(0, response.error_code)
        if answer.error_code is not ErrorCode.none:
            raise KafkaError(answer.error_code, f"{partition} at offset {offset}")
        assert isinstance(answer.records, bytes | memoryview | None), type(answer.records)
        return _fetched(memoryview(answer.records or b""), offset, answer.aborted_transactions or ())

    async def _ask_any(self, request: MetadataRequest) -> MetadataResponse:
        failures = []
        for address in list(self._addresses):
            try:
                return await self._client.send(address, request, timeout_s=REQUEST_TIMEOUT_S)
            except OUTSIDE as error:
                failures.append(f"{address}: {error}")
        raise BrokersUnavailableError(f"no broker responds: {'; '.join(failures)}")

    async def _of_leader(self, partition: TopicPartition, ask: Callable[[Address], Coroutine[object, None, T]]) -> T:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + RETRY_FOR_S
        while True:
            try:
                return await ask(await self._leader(partition))
            except OUTSIDE as error:
                self._topics.pop(partition.topic, None)
                if loop.time() >= deadline_s or not is_retriable(error):
                    raise BrokersUnavailableError(f"{partition} cannot be read: {error}") from error
                await asyncio.sleep(RETRY_PAUSE_S)

    async def _leader(self, partition: TopicPartition) -> Address:
        if partition.topic not in self._topics:
            await self.topics([partition.topic])
        leader = self._known_leader(partition)
        if leader is None:
            raise KafkaError(ErrorCode.leader_not_available, f"{partition} has no leader now")
        return leader

    def _known_leader(self, partition: TopicPartition) -> Address | None:
        topic = self._topics.get(partition.topic)
        return None if topic is None else topic.leaders.get(partition.partition)


def is_retriable(error: Exception) -> bool:
    """Whether asking again, perhaps another broker, may help."""
    return not isinstance(error, KafkaError) or error.code in _RETRIABLE


_RETRIABLE: Final = frozenset(
    {
        ErrorCode.leader_not_available,
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.offset_not_available,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.kafka_storage_error,
        ErrorCode.request_timed_out,
    }
)


def _fetched(data: memoryview, offset: int, aborted: Sequence[FetchedTransaction]) -> Fetched:
    """Cut after the last whole batch."""
    end, next_offset, markers = 0, offset, []
    for position, header in iter_batches(data):
        end, next_offset = position + header.size_bytes, header.next_offset
        if header.is_control:
            (record,) = skim_records(data, position, header, decompressed_bytes_max=CONTROL_BYTES_MAX)
            if control_type(record) is ControlType.ABORT:
                markers.append((header.producer_id, header.base_offset))
    return Fetched(data[:end], next_offset, tuple(_whole(transaction, markers) for transaction in aborted))


def _whole(transaction: FetchedTransaction, markers: Sequence[tuple[int, int]]) -> AbortedTransaction:
    producer_id, first = transaction
    last = min((at for of_id, at in markers if of_id == producer_id and at >= first), default=OFFSET_END)
    return AbortedTransaction(producer_id, first, last, last)
