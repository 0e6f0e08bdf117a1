"""The edges of the record bytes in a Fetch answer: where they begin, and where the last whole batch ends.

A leader sends slices of its log file. It begins at a batch, which may begin below the fetch offset (a log start in the
middle of a batch), and ends by size, which may be in the middle of one. Looks at nothing but lengths and base offsets.
"""

from __future__ import annotations

import struct

from ...protocol.records import BATCH_HEADER_SIZE, LOG_OVERHEAD

_OFFSET_AND_LENGTH = struct.Struct(">qi")


def base_offset_of(records: memoryview) -> int:
    """Return the base offset of the first batch, which must be whole."""
    base_offset: int = _OFFSET_AND_LENGTH.unpack_from(records)[0]
    return base_offset


def whole_batches(records: memoryview) -> memoryview:
    """`records` without a torn batch at the end. An impossible length ends the walk: the log will say what is wrong."""
    end, size = 0, len(records)
    while end + BATCH_HEADER_SIZE <= size:
        _, batch_length = _OFFSET_AND_LENGTH.unpack_from(records, end)
        if LOG_OVERHEAD + batch_length < BATCH_HEADER_SIZE:
            return records
        if end + LOG_OVERHEAD + batch_length > size:
            break
        end += LOG_OVERHEAD + batch_length
    return records[:end]
