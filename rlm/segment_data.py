"""The pieces of one closed local segment, as the storage port wants them uploaded.

| object                 | from                                                                        |
|------------------------|-----------------------------------------------------------------------------|
| log, offset, timestamp | the segment as it is                                                        |
| transaction            | the segment's aborted transactions; left out where there is none            |
| producer snapshot      | the state at the *end* of the segment (locally named after the next one)    |
| leader epoch           | the log's epoch history up to the end of the segment                        |
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from ..log.partition_log import PartitionLog
from ..log.segment.segment import LogSegment
from ..remote.storage import IndexType, LogSegmentData

LOG_KIND: Final = "log"
REQUIRED: Final = {kind.value for kind in IndexType if kind is not IndexType.TRANSACTION} | {LOG_KIND}


@asynccontextmanager
async def open_segment_data(log: PartitionLog, segment: LogSegment) -> AsyncIterator[LogSegmentData]:
    """What one upload of the closed `segment` needs, held until the end; OSError if a part of it is missing."""
    with await log.segment_files(segment) as held:
        missing = REQUIRED - held.files.keys()
        if missing:
            raise FileNotFoundError(
                f"{log.state.topic_partition}: segment {segment.base_offset} cannot be copied without its "
                + ", ".join(sorted(missing))
            )
        indexes = {kind: held.files[kind.value] for kind in IndexType if kind.value in held.files}
        yield LogSegmentData(held.files[LOG_KIND], indexes)
