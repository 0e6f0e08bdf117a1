"""Reads, rebuilds and writes the `.index` and `.timeindex` files of one segment."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ..core.errors import CorruptFileError
from ..core.file_names import OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, offset_file
from ..core.file_sizes import index_bytes_max
from ..core.index import TimeIndex, TimestampOffset
from ..core.segment_indexes import SegmentIndexes
from ..disk.port import Disk, DiskFile
from .batch_scan import HeaderScan

TIME_ENTRY_BYTES: Final = 12


async def read_indexes(disk: Disk, directory: Path, indexes: SegmentIndexes, log_bytes: int) -> SegmentIndexes:
    """Fill new `indexes` from both files. FileNotFoundError, CorruptFileError if they cannot belong to the log."""
    base_offset = indexes.offset.base_offset
    return indexes.load(
        await read_index(disk, directory, base_offset, OFFSET_INDEX_SUFFIX, log_bytes),
        await read_index(disk, directory, base_offset, TIME_INDEX_SUFFIX, log_bytes),
        log_bytes=log_bytes,
        name=str(offset_file(directory, base_offset, "")),
    )


async def read_index(disk: Disk, directory: Path, base_offset: int, suffix: str, log_bytes: int) -> bytes:
    """Return the file of one index of a segment of `log_bytes`. FileNotFoundError, CorruptFileError."""
    path = offset_file(directory, base_offset, suffix)
    return await disk.read_file(path, size_max=index_bytes_max(suffix, log_bytes))


async def rebuild_indexes(
    disk: Disk, directory: Path, indexes: SegmentIndexes, file: DiskFile, log_bytes: int, *, is_closed: bool
) -> SegmentIndexes:
    """Fill new `indexes` from the batches of the log, and write both files. CorruptRecordError if one cannot be."""
    async for position, header in HeaderScan(file, 0, log_bytes, whole_until=log_bytes if is_closed else 0):
        indexes.account((header,), position)
    if is_closed:
        indexes.close()
    await write_indexes(disk, directory, indexes)
    return indexes


async def write_indexes(
    disk: Disk, directory: Path, indexes: SegmentIndexes, *, sync: bool = True, sync_names: bool = True
) -> None:
    """Replace both files, durably; without `sync_names` once the directory is synced, without `sync` once all is."""
    for suffix, index in ((OFFSET_INDEX_SUFFIX, indexes.offset), (TIME_INDEX_SUFFIX, indexes.time)):
        path = offset_file(directory, indexes.offset.base_offset, suffix)
        await disk.write_file(path, index.encode(), sync=sync, sync_name=sync_names)


async def read_largest_timestamp(disk: Disk, directory: Path, base_offset: int) -> TimestampOffset | None:
    """The last entry of the time index of a closed segment; None if the file does not have it."""
    try:
        file = await disk.open(offset_file(directory, base_offset, TIME_INDEX_SUFFIX))
    except FileNotFoundError:
        return None
    try:
        size = await file.size()
        tail = await file.read(max(0, size - TIME_ENTRY_BYTES), TIME_ENTRY_BYTES)
    finally:
        await file.close()
    if size % TIME_ENTRY_BYTES or not any(tail):
        return None
    try:
        return TimeIndex.decode(tail, base_offset).last_entry
    except CorruptFileError:
        return None
