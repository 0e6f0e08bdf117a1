"""The reads of the tier that one look of a Fetch has under way.

They begin together, at most `TIER_READS_MAX`, and what they return within one turn of the event loop (it was cached)
counts in the order of the partitions. The others are awaited only while the answer has less than `min.bytes` and
nothing else to say (`FetchReads`). `RemoteReads` keeps the one deadline of them all. A read that is left is cancelled;
what it fetches still goes into the caches, where the next request finds it:

    state of a read        done in a turn     answer is worth sending      deadline of the reads
    ---------------------  -----------------  ---------------------------  -----------------------------
    its partition gets     its records        no records, this time        no records, this time
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, Protocol

from ...fetcher.core import LeaderView
from ...light_dataclass import dataclass
from ...protocol import ErrorCode, KafkaError
from ...protocol.fetch import AskedPartition
from ...rlm import RemoteRead, RemoteRecords

TIER_READS_MAX: Final = 256
"""Reads of the tier that one request has under way."""


class RemoteReads(Protocol):
    """Reads of the tier for consumers; `rlm.reader.RemoteLogReader`."""

    async def read(self, request: RemoteRead) -> RemoteRecords | None:
        """None if the offset is local by now; no records if the tier did not answer in time. KafkaError."""


@dataclass(frozen=True, slots=True)
class TierRead:
    """A read of the tier under way for a partition, and what was known of the partition when it began."""

    asked: AskedPartition
    view: LeaderView
    records: asyncio.Task[RemoteRecords | None]


class TierReads:
    """`remote` is None on a broker without a tier. Leave them before the look ends."""

    def __init__(self, remote: RemoteReads | None) -> None:
        self._remote = remote
        self._awaited: list[TierRead] = []
        """The reads that the look waits for, in the order of their partitions."""
        self._tasks: list[asyncio.Task[RemoteRecords | None]] = []
        """All that the look began, and has to see ended."""

    def __bool__(self) -> bool:
        """Whether the look waits for any."""
        return bool(self._awaited)

    @property
    def awaited(self) -> Iterable[AskedPartition]:
        """The partitions that the look waits for."""
        return (read.asked for read in self._awaited)

    @property
    def is_full(self) -> bool:
        return len(self._awaited) >= TIER_READS_MAX

    async def begin(self, asked: AskedPartition, view: LeaderView, request: RemoteRead) -> TierRead:
        """Begin a read, and give it one turn of the event loop."""
        if self._remote is None:
            raise KafkaError(
                ErrorCode.kafka_storage_error,
                f"{request.partition.topic_partition}: offset {request.offset} is in the tier, and this broker "
                "has none (remote.log.storage.system.enable)",
            )
        task = asyncio.create_task(self._remote.read(request))
        self._tasks.append(task)
        await asyncio.sleep(0)  # a read of what is cached ends in its first step
        return TierRead(asked, view, task)

    def wait_for(self, read: TierRead) -> None:
        """Let the look wait for a read that did not end in its first step."""
        self._awaited.append(read)

    async def ended(self) -> list[TierRead]:
        """Wait for the first to end; return those that have ended, which are no longer waited for."""
        await asyncio.wait([read.records for read in self._awaited], return_when=asyncio.FIRST_COMPLETED)
        ended = [read for read in self._awaited if read.records.done()]
        self._awaited = [read for read in self._awaited if not read.records.done()]
        return ended

    async def leave(self) -> None:
        """Cancel the reads that nobody waits for any longer; the fetches that they began still fill the caches."""
        left, self._tasks = [task for task in self._tasks if not task.done()], []
        for task in left:
            task.cancel()
        if left:
            await asyncio.gather(*left, return_exceptions=True)
