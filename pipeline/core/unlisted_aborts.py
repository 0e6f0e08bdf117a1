"""What was aborted although no transaction index says so: the segment's index was lost.

A segment in which nothing was aborted has no index either, so that a listing cannot distinguish the two. Its batches
can: an ABORT marker ends what its producer wrote since its marker before. Where these batches and the marker are read
together, that is proof. A marker alone is none: a transaction may end in a partition that it wrote nothing to.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from ...log.core import AbortedTransaction
from ...protocol import CorruptRecordError
from ...protocol.records import (
    CONTROL_BIT,
    CONTROL_BYTES_MAX,
    TRANSACTIONAL_BIT,
    ControlType,
    control_type,
    parse_header,
    skim_records,
)
from .batch_table import BatchTable, Selection


def unlisted_aborts(table: BatchTable, selection: Selection) -> Iterator[tuple[AbortedTransaction, int]]:
    """Yield aborted transactions with a wanted offset, and where each begins. `last_stable_offset` is unused."""
    is_marker = table.has(CONTROL_BIT)
    if not is_marker.any():
        return
    bases, lasts, producers = table.column("base_offset"), table.last_offsets, table.column("producer_id")
    open_since: dict[int, int] = {}
    for index in np.flatnonzero(table.has(TRANSACTIONAL_BIT)).tolist():
        producer_id = int(producers[index])
        if not is_marker[index]:
            open_since.setdefault(producer_id, index)
            continue
        first = open_since.pop(producer_id, None)
        if first is None or not selection.first_offset < bases[index] < selection.end_offset:
            continue
        if _aborts(BatchTable(table.data, table.positions[index : index + 1], table.headers[index : index + 1])):
            found = AbortedTransaction(producer_id, int(bases[first]), int(lasts[index]), int(lasts[index]) + 1)
            yield found, int(table.positions[first])


def _aborts(marker: BatchTable) -> bool:
    """A damaged marker proves nothing."""
    with suppress(CorruptRecordError):
        marker.check()
        position = int(marker.positions[0])
        header = parse_header(marker.data, position)
        records = skim_records(marker.data, position, header, decompressed_bytes_max=CONTROL_BYTES_MAX)
        return any(control_type(record) is ControlType.ABORT for record in records)
    return False
