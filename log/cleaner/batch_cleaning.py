"""Cleans one batch: reads its records in slices of the event loop's share, and writes those that are kept."""

from __future__ import annotations

import asyncio
from typing import Final

from ...protocol.net import Slices, reading_batch
from ...protocol.records import BatchHeader, SkimmedRecord, compacted_batch, encode_skimmed
from ..disk.port import Buffer
from .core.batches import BatchCleaner, Rewrite, Transactions, note_keys
from .core.offset_map import OffsetMap

COMPRESSED_AT_ONCE_BYTES: Final = 256 * 1024
FREE_RECORDS: Final = 100


async def note_batch(
    offset_map: OffsetMap, transactions: Transactions, header: BatchHeader, data: Buffer, at: int, bytes_max: int
) -> bool:
    """Add the keys of the batch at `at` to the map, from the map's end on; return False once it is full."""
    if header.is_control:
        transactions.pass_marker(header, await first_record(data, at, header, bytes_max))
    elif not transactions.pass_data(header):
        async with reading_batch(data, at, header, bytes_max) as slices:
            async for some in slices:
                if not note_keys(offset_map, some):
                    return False
    offset_map.advance_to(header.next_offset)
    return True


async def first_record(data: Buffer, at: int, header: BatchHeader, bytes_max: int) -> SkimmedRecord | None:
    """Return the first record of a batch, None if it has none."""
    async with reading_batch(data, at, header, bytes_max) as slices:
        async for some in slices:
            return some[0]
    return None


async def clean_batch(
    cleaner: BatchCleaner, header: BatchHeader, data: Buffer, at: int, bytes_max: int
) -> Buffer | None:
    """Return the rest of the batch at `at`: a view of its own bytes if nothing changes, None if nothing is left."""
    original = memoryview(data)[at : at + header.size_bytes]
    batch = cleaner.begin(header)
    async with reading_batch(data, at, header, bytes_max) as slices:
        async for some in slices:
            batch.take(some)
        left = batch.end(original)
        return await _rewritten(header, left) if isinstance(left, Rewrite) else left


async def _rewritten(header: BatchHeader, left: Rewrite) -> bytes:
    horizon_ms = left.delete_horizon_ms
    base_timestamp = left.records[0].timestamp if horizon_ms is None else horizon_ms
    payload, max_timestamp = bytearray(), left.records[0].timestamp
    async for some in Slices(left.records, free=FREE_RECORDS):
        payload += encode_skimmed(some, header.base_offset, base_timestamp)
        max_timestamp = max(max_timestamp, *[record.timestamp for record in some])

    def build() -> bytes:
        return compacted_batch(
            header,
            bytes(payload),
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            record_count=len(left.records),
            delete_horizon_ms=horizon_ms,
        )

    return build() if len(payload) <= COMPRESSED_AT_ONCE_BYTES else await asyncio.to_thread(build)
