"""Does an index of the tier fit its log? What each use of an entry shows, for an index can be well-formed and wrong.

| entry                        | what must hold, else the index is wrong                             |
|------------------------------|---------------------------------------------------------------------|
| offset o at position p       | a batch of the segment begins at p, at offset o or below            |
| timestamp t at offset o      | the batch that holds o has t as its largest timestamp               |

An entry that points too far back costs a longer read; one that points too far on would skip records, which a consumer
could not see. So nothing is answered before the entries that led to it were seen in the log. Another segment's index,
or one with shifted positions, fails at its first use. Pure.
"""

from __future__ import annotations

from ..log.core import OffsetPosition, TimestampOffset
from ..protocol import CorruptRecordError
from ..protocol.records import Buffer, iter_batches, parse_header
from .batches import check_place
from .core.segment import RemoteLogSegmentMetadata
from .storage import IndexType, RemoteStorageCorruptError


class WrongIndexError(RemoteStorageCorruptError):
    """The log does not have what an entry of its index says. Either may be damaged."""

    def __init__(self, segment: RemoteLogSegmentMetadata, index_type: IndexType, message: str) -> None:
        super().__init__(f"{index_type.value} of segment {segment.segment_id}: {message}")
        self.segment = segment
        self.index_type = index_type


def check_offset_entry(data: Buffer, segment: RemoteLogSegmentMetadata, entry: OffsetPosition) -> None:
    """WrongIndexError unless `data`, which the log has from the entry's position on, begins with a batch as above."""
    if entry.position == 0:
        return
    try:
        header = parse_header(data)
        check_place(0, header, segment, segment.start_offset)
    except CorruptRecordError as error:
        message = f"no batch begins at byte {entry.position}, where {entry} leads: {error.message}"
        raise WrongIndexError(segment, IndexType.OFFSET, message) from error
    if header.base_offset > entry.offset:
        message = f"the batch at byte {entry.position} begins at offset {header.base_offset}, above {entry}"
        raise WrongIndexError(segment, IndexType.OFFSET, message)


def has_time_entry(data: Buffer, segment: RemoteLogSegmentMetadata, entry: TimestampOffset) -> bool:
    """Return whether a whole batch in `data` holds the entry's offset: False if it must be looked for further on.
    WrongIndexError if that batch has another timestamp, or there is none. CorruptRecordError.
    """
    for _, header in iter_batches(data):
        if header.last_offset < entry.offset:
            continue
        if header.base_offset > entry.offset or header.max_timestamp != entry.timestamp:
            message = (
                f"offset {entry.offset} has no batch with the timestamp {entry.timestamp}, but"
                f" [{header.base_offset}, {header.last_offset}] with {header.max_timestamp}"
            )
            raise WrongIndexError(segment, IndexType.TIMESTAMP, message)
        return True
    return False
