"""Indexes of the tier, as far as its log confirms them: what a plan relies on must not leave out a record.

| what the plan takes from an index           | what is looked at first                                        |
|---------------------------------------------|----------------------------------------------------------------|
| anything                                    | its order, and that its last entry lies within the segment     |
| where a piece begins within its segment     | the header there: at or below the piece's first offset         |
| where a piece ends within its segment       | the header there: at or above the piece's end                  |
| where to begin the search for a time        | the batch of that entry, when it is read                       |
| a cut between two splits                    | nothing: a split that begins elsewhere than at a batch fails   |

The rules are those of `remote.index_proof`. Without an index that can be relied on, a piece is read as a whole segment.
"""

from __future__ import annotations

from typing import NamedTuple

from ...log.core import CorruptFileError, OffsetIndex, TimeIndex
from ...protocol import CorruptRecordError
from ...protocol.records import BATCH_HEADER_SIZE, parse_header
from ...remote import (
    IndexType,
    RemoteLogSegmentMetadata,
    RemoteStorageCorruptError,
    WrongIndexError,
    check_offset_entry,
    check_slots,
    scanned_indexes,
)
from ..access.stores import SegmentStore
from ..core.offset_cover import Piece, begin_entry, end_entry


class Indexes(NamedTuple):
    """The offset and the time index of a segment."""

    offset: OffsetIndex
    time: TimeIndex


async def proven_offset_index(store: SegmentStore, piece: Piece) -> OffsetIndex:
    """Return the index of the piece's segment. WrongIndexError, RemoteStorageError."""
    index = await _offset_index(store, piece.segment)
    await check_borders(store, piece, index)
    return index


async def check_borders(store: SegmentStore, piece: Piece, index: OffsetIndex) -> None:
    """WrongIndexError unless the log has every record of the piece between the borders that the index gives it."""
    segment, begin = piece.segment, begin_entry(piece, index)
    if begin.position:
        check_offset_entry(await _header_at(store, segment, begin.position), segment, begin)
    end = end_entry(piece, index)
    if end is not None:
        try:
            header = parse_header(await _header_at(store, segment, end.position))
        except CorruptRecordError as error:
            raise WrongIndexError(segment, IndexType.OFFSET, f"no batch at {end}: {error.message}") from error
        if header.base_offset < piece.end_offset:
            message = f"the batch at {end} begins at offset {header.base_offset}, below {piece.end_offset}"
            raise WrongIndexError(segment, IndexType.OFFSET, message)


async def well_formed_indexes(store: SegmentStore, segment: RemoteLogSegmentMetadata) -> Indexes:
    """Return the indexes of the tier, in order; what they say is still to be proven. WrongIndexError,
    RemoteStorageError.
    """
    data = await store.fetch_index(segment, IndexType.TIMESTAMP)
    try:
        times = TimeIndex.decode(data, segment.start_offset)
        async for slot, end in check_slots(len(times)):
            times.check(first=slot, end=end)
    except CorruptFileError as error:
        raise WrongIndexError(segment, IndexType.TIMESTAMP, str(error)) from error
    if times.last_entry.offset > segment.end_offset:
        raise WrongIndexError(segment, IndexType.TIMESTAMP, f"{times.last_entry} is above the segment's end")
    return Indexes(await _offset_index(store, segment), times)


async def built_indexes(store: SegmentStore, segment: RemoteLogSegmentMetadata) -> Indexes:
    """Return the indexes built from the log, which is read whole; empty ones if it is damaged, so that whoever reads it
    finds where. RemoteStorageError.
    """
    try:
        built = await scanned_indexes(segment, store)
    except RemoteStorageCorruptError:
        return Indexes(OffsetIndex(segment.start_offset), TimeIndex(segment.start_offset))
    return Indexes(built.offset, built.time)


async def _offset_index(store: SegmentStore, segment: RemoteLogSegmentMetadata) -> OffsetIndex:
    data = await store.fetch_index(segment, IndexType.OFFSET)
    try:
        index = OffsetIndex.decode(data, segment.start_offset)
        async for slot, end in check_slots(len(index)):
            index.check(first=slot, end=end)
    except CorruptFileError as error:
        raise WrongIndexError(segment, IndexType.OFFSET, str(error)) from error
    last = index.last_entry
    if last is not None and (last.offset > segment.end_offset or last.position >= segment.segment_size_in_bytes):
        raise WrongIndexError(segment, IndexType.OFFSET, f"{last} is not within the segment")
    return index


async def _header_at(store: SegmentStore, segment: RemoteLogSegmentMetadata, position: int) -> bytes:
    return await store.fetch_log_segment(segment, position, position + BATCH_HEADER_SIZE)
