"""What was aborted in a segment, also where its metadata do not say whether it has a transaction index.

Kafka's metadata say so since 4.0 (KIP-1058). Before, a segment in which nothing was aborted has no index either, and
whether the tier lost one or never had one follows from the batches: an index has an entry for each transaction whose
ABORT marker lies in the segment, so a segment without such a marker has none. The other way round it is no proof, a
marker may end a transaction that wrote nothing here; but then nobody can say what was aborted.
"""

from __future__ import annotations

from typing import Final

from ..log.core.errors import CorruptFileError
from ..log.core.producer_snapshot import decode_snapshot
from ..protocol.errors import CorruptRecordError
from ..protocol.records import CONTROL_BYTES_MAX, iter_batches, skim_records
from ..protocol.records.batch_header import BatchHeader
from ..protocol.records.control import ControlType, control_type
from .batches import check_place
from .core.segment import RemoteLogSegmentMetadata
from .storage import IndexType, ReadsSegments, RemoteResourceNotFoundError, RemoteStorageCorruptError

SCAN_BYTES: Final = 1 << 20


async def fetch_transaction_index(segment: RemoteLogSegmentMetadata, storage: ReadsSegments) -> bytes:
    """As it lies in the tier; empty if nothing was aborted. RemoteResourceNotFoundError if it was lost."""
    if segment.txn_index_empty:
        return b""
    try:
        return await storage.fetch_index(segment, IndexType.TRANSACTION)
    except RemoteResourceNotFoundError as error:
        if await _has_abort_marker(segment, storage):
            raise RemoteResourceNotFoundError(
                f"the transaction index of segment {segment.segment_id} was lost, its log has aborted transactions: "
                f"{error}"
            ) from error
    return b""


async def first_open_offset(segment: RemoteLogSegmentMetadata, storage: ReadsSegments) -> int | None:
    """Where the first of the transactions begins that are open at the segment's end; None if none is: by its producer
    snapshot, which keeps them however old they are. RemoteStorageError.
    """
    data = await storage.fetch_index(segment, IndexType.PRODUCER_SNAPSHOT)
    try:
        producers = decode_snapshot(data, name=f"producer snapshot of segment {segment.segment_id}")
    except CorruptFileError as error:
        raise RemoteStorageCorruptError(str(error)) from error
    return min(
        (each.current_txn_first_offset for each in producers if each.current_txn_first_offset is not None), default=None
    )


async def _has_abort_marker(segment: RemoteLogSegmentMetadata, storage: ReadsSegments) -> bool:
    """Reads the log up to the first one, with its CRCs. RemoteStorageError, also where it is damaged."""
    position, next_offset, size_bytes = 0, segment.start_offset, SCAN_BYTES
    while position < segment.segment_size_in_bytes:
        end = min(position + size_bytes, segment.segment_size_in_bytes)
        data = await storage.fetch_log_segment(segment, position, end)
        read = 0
        try:
            for at, header in iter_batches(data):
                check_place(at, header, segment, next_offset)
                if _aborts(data, at, header):
                    return True
                read, next_offset = at + header.size_bytes, header.next_offset
        except CorruptRecordError as error:
            raise RemoteStorageCorruptError(f"{segment.segment_id}: {error.message}") from error
        if read == 0 and (end == segment.segment_size_in_bytes or len(data) < end - position):
            raise RemoteStorageCorruptError(
                f"{segment.segment_id}: the log ends in the middle of a batch at byte {position}"
            )
        size_bytes = SCAN_BYTES if read else 2 * size_bytes
        position += read
    return False


def _aborts(data: bytes, position: int, header: BatchHeader) -> bool:
    if not (header.is_control and header.is_transactional):
        return False
    records = skim_records(data, position, header, decompressed_bytes_max=CONTROL_BYTES_MAX)
    return any(control_type(record) is ControlType.ABORT for record in records)
