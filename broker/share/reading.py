"""Which batches a read of the log has brought, without their records: the headers are read, the rest is sent as it is.

A batch has nothing for a consumer if it is a marker, or, for one that reads committed records only, if its transaction
was aborted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from ...log.segment import LogSlice
from ...protocol.fetch import AbortedTransaction
from ...protocol.records import BATCH_HEADER_SIZE, LOG_OVERHEAD, BatchHeader, Buffer, parse_header
from ...protocol.wire import BUFFER_TYPES, Part, part_size
from .core.partition import AcquiredRecords, FetchedBatch

CHUNK_BYTES: Final = 64 * 1024
"""What is read at once to find headers."""
BATCHES_MAX: Final = 4_000
"""The number of batches that are looked at in one partition; the next fetch has the rest."""
BATCHES_AT_ONCE: Final = 500
"""The number of batches after which other work may have its turn."""


class ReadBatch(NamedTuple):
    """A batch, and where its bytes are in what was read."""

    batch: FetchedBatch
    start: int
    end: int


async def read_batches(records: Part, aborted: Iterable[AbortedTransaction] = ()) -> list[ReadBatch]:
    """Return the whole batches. Raise CorruptRecordError, OSError."""
    found: list[ReadBatch] = []
    open_aborted: set[int] = set()
    waiting = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    headers, position = _Headers(records), 0
    while len(found) < BATCHES_MAX and (header := await headers.at(position)) is not None:
        while waiting and waiting[-1].first_offset <= header.last_offset:
            open_aborted.add(waiting.pop().producer_id)
        is_aborted = header.is_transactional and header.producer_id in open_aborted
        if header.is_control:  # commit or abort: the producer's next transaction has an entry of its own
            open_aborted.discard(header.producer_id)
        batch = FetchedBatch(header.base_offset, header.last_offset, not (header.is_control or is_aborted))
        end = position + LOG_OVERHEAD + header.batch_length
        found.append(ReadBatch(batch, position, end))
        position = end
        if not len(found) % BATCHES_AT_ONCE:
            await asyncio.sleep(0)
    return found


def kept(records: Part, batches: Sequence[ReadBatch], acquired: Sequence[AcquiredRecords]) -> Part:
    """Return what has to be sent: from the first batch with an acquired record to the last one."""
    first, last = acquired[0].first, acquired[-1].last
    needed = [each for each in batches if each.batch.last_offset >= first and each.batch.base_offset <= last]
    start, end = needed[0].start, needed[-1].end
    if isinstance(records, LogSlice):
        records.keep(start, end)
        return records
    assert isinstance(records, bytes | bytearray | memoryview), records
    return memoryview(records)[start:end]


class _Headers:
    """The headers of what was read, found in chunks of it."""

    def __init__(self, records: Part) -> None:
        self._slice = records if isinstance(records, LogSlice) else None
        self.size = part_size(records)
        self._chunk: Buffer = records if isinstance(records, BUFFER_TYPES) else b""
        self._chunk_start = 0

    async def at(self, position: int) -> BatchHeader | None:
        """Return the header of the batch that begins there; None if there is no whole batch."""
        if position + BATCH_HEADER_SIZE > self.size:
            return None
        if position + BATCH_HEADER_SIZE > self._chunk_start + len(self._chunk):
            assert self._slice is not None, position
            self._chunk, self._chunk_start = await self._slice.read_at(position, CHUNK_BYTES), position
        header = parse_header(self._chunk, position - self._chunk_start)
        return header if position + LOG_OVERHEAD + header.batch_length <= self.size else None
