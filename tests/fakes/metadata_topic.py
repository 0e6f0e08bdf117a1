"""A `MetadataTopic` in memory, with faults: every broker of a test has its own `FakeMetadataTopic` over one
`MetadataLog`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from uuid import UUID

from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.remote import RemoteLogMetadataError
from tierfetch.remote.metadata_topic import NO_EPOCH, MetadataBatch, MetadataTopicSettings

POLL_S = 0.02


@dataclass
class MetadataLog:
    """The committed records of each metadata partition, from its log start offset on; written under `leader_epoch`."""

    partition_count: int = 5
    values: dict[int, list[bytes]] = field(default_factory=dict)
    epochs: dict[int, list[int]] = field(default_factory=dict)
    leader_epoch: int = 0
    topic_id: UUID = field(default_factory=lambda: UUID(int=0xAB))
    start_offsets: dict[int, int] = field(default_factory=dict)
    grown: asyncio.Event = field(default_factory=asyncio.Event)

    def append(self, partition: int, value: bytes) -> int:
        values = self.values.setdefault(partition, [])
        values.append(value)
        self.epochs.setdefault(partition, []).append(self.leader_epoch)
        self.wake()
        return self.start(partition) + len(values) - 1

    def start(self, partition: int) -> int:
        return self.start_offsets.get(partition, 0)

    def end(self, partition: int) -> int:
        return self.start(partition) + len(self.values.get(partition, []))

    def truncate(self, partition: int, end_offset: int) -> None:
        """An unclean election: committed records are lost."""
        for records in (self.values[partition], self.epochs[partition]):
            del records[end_offset - self.start(partition) :]
        self.leader_epoch += 1
        self.wake()

    def trim(self, partition: int, start_offset: int) -> None:
        """Retention: what lies below goes."""
        for records in (self.values[partition], self.epochs[partition]):
            del records[: start_offset - self.start(partition)]
        self.start_offsets[partition] = start_offset

    def epoch_of(self, partition: int, offset: int) -> int | None:
        index = offset - self.start(partition)
        return self.epochs[partition][index] if index >= 0 else None

    def wake(self) -> None:
        self.grown.set()
        self.grown = asyncio.Event()


class FakeMetadataTopic:
    """`fail(name, number)` makes the call of that name and number (from 1) fail, `lose_answer` makes an append fail
    after it was done, `hang` blocks it. `batch_records_max` cuts what one read returns.
    """

    def __init__(self, log: MetadataLog, *, batch_records_max: int = 3) -> None:
        self.log = log
        self.calls: Counter[str] = Counter()
        self.settings: MetadataTopicSettings | None = None
        self.held_reads: asyncio.Event | None = None
        self.leader_epoch = 0
        self._elected = asyncio.Event()
        self._batch_records_max = batch_records_max
        self._failing: dict[tuple[str, int], BaseException] = {}
        self._answers_lost: set[int] = set()
        self._hanging: set[tuple[str, int]] = set()

    def fail(self, name: str, *numbers: int, error: BaseException | None = None) -> None:
        for number in numbers:
            self._failing[name, number] = error or RemoteLogMetadataError(f"{name} {number} fails, as the test asked")

    def lose_answer(self, *numbers: int) -> None:
        self._answers_lost.update(numbers)

    def hang(self, name: str, *numbers: int) -> None:
        self._hanging.update((name, number) for number in numbers)

    def hold_reads(self) -> None:
        self.held_reads = asyncio.Event()

    def release_reads(self) -> None:
        assert self.held_reads is not None
        self.held_reads.set()
        self.held_reads = None

    def elect(self) -> None:
        """Another leader of every partition."""
        self.leader_epoch += 1
        self._elected.set()
        self._elected.clear()

    def leader(self, _partition: int) -> int:
        return self.leader_epoch

    async def another_leader(self, partition: int, than: Hashable) -> None:
        while self.leader(partition) == than:
            await self._elected.wait()

    def topic_id(self) -> UUID | None:
        return self.log.topic_id

    async def ensure(self, settings: MetadataTopicSettings) -> int:
        await self._begin("ensure")
        self.settings = settings
        return self.log.partition_count

    async def bounds(self, partition: int) -> tuple[int, int]:
        await self._begin("bounds")
        return self.log.start(partition), self.log.end(partition)

    async def append(self, partition: int, value: bytes) -> int:
        number = await self._begin("append")
        offset = self.log.append(partition, value)
        if number in self._answers_lost:
            raise RemoteLogMetadataError(f"the answer to append {number} is lost, as the test asked")
        return offset

    async def read(self, partition: int, offset: int, last_epoch: int = NO_EPOCH) -> MetadataBatch:
        """Batches begin at multiples of `batch_records_max`, so a read may return records below `offset`."""
        await self._begin("read")
        log = self.log
        while True:
            if self.held_reads is not None:
                await self.held_reads.wait()
            if not log.start(partition) <= offset <= log.end(partition):
                raise KafkaError(ErrorCode.offset_out_of_range, f"{offset} of metadata partition {partition}")
            if offset > log.start(partition) and last_epoch not in (NO_EPOCH, log.epoch_of(partition, offset - 1)):
                raise KafkaError(ErrorCode.offset_out_of_range, f"another record is before {offset} of {partition}")
            if offset < log.end(partition):
                break
            try:
                async with asyncio.timeout(POLL_S):
                    await log.grown.wait()
            except TimeoutError:
                return MetadataBatch([], offset)
        first = max(log.start(partition), offset - offset % self._batch_records_max)
        values = log.values[partition][first - log.start(partition) :][: self._batch_records_max]
        records = [(first + index, value) for index, value in enumerate(values)]
        return MetadataBatch(records, first + len(records), log.epoch_of(partition, records[-1][0]))

    async def _begin(self, name: str) -> int:
        self.calls[name] += 1
        number = self.calls[name]
        await asyncio.sleep(0)
        if (name, number) in self._hanging:
            await asyncio.Event().wait()
        if (name, number) in self._failing:
            raise self._failing[name, number]
        return number
