"""Checks that every record of a batch for a compacted topic has a key, in slices of the event loop's share."""

from __future__ import annotations

from ...protocol.net.batch_reading import reading_batch
from ...protocol.records import BatchHeader, decompressed_bytes_max
from ..core.config import LogConfig
from ..core.validation import check_key
from ..disk.port import Buffer


async def check_keys(data: Buffer, header: BatchHeader, config: LogConfig) -> None:
    """Raise INVALID_RECORD for a record without a key, CorruptRecordError for records that cannot be read."""
    async with reading_batch(data, 0, header, decompressed_bytes_max(config.max_message_bytes)) as slices:
        async for some in slices:
            for record in some:
                check_key(record)
