"""What was aborted in a segment, also where its metadata do not say whether it has a transaction index.

Kafka's metadata say so since 4.0 (KIP-1058). Before, a segment in which nothing was aborted has no index either, and
whether the tier lost one or never had one follows from the batches: an index has an entry for each transaction whose
ABORT marker lies in the segment, so a segment without such a marker has none. The other way round it is no proof, a
marker may end a transaction that wrote nothing here; but then nobody can say what was aborted.
"""

from __future__ import annotations

from contextlib import aclosing

from ..log.core import CorruptFileError, decode_snapshot
from ..protocol import CorruptRecordError
from ..protocol.records import CONTROL_BYTES_MAX, ControlType, control_type, skim_records
from .core.segment import RemoteLogSegmentMetadata
from .segment_scan import ScannedBatch, scan
from .storage import IndexType, ReadsSegments, RemoteResourceNotFoundError, RemoteStorageCorruptError


async def fetch_transaction_index(segment: RemoteLogSegmentMetadata, storage: ReadsSegments) -> bytes:
    """As it lies in the tier; empty if nothing was aborted. RemoteResourceNotFoundError if it was lost."""
    if segment.txn_index_empty:
        return b""
    try:
        return await storage.fetch_index(segment, IndexType.TRANSACTION)
    except RemoteResourceNotFoundError as error:
        if await has_abort_marker(segment, storage):
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


async def has_abort_marker(segment: RemoteLogSegmentMetadata, storage: ReadsSegments) -> bool:
    """Read the log up to the first one. RemoteStorageError, also where it is damaged."""
    async with aclosing(scan(segment, storage)) as batches:
        async for batch in batches:
            try:
                if _aborts(batch):
                    return True
            except CorruptRecordError as error:
                raise RemoteStorageCorruptError(f"{segment.segment_id}: {error.message}") from error
    return False


def _aborts(batch: ScannedBatch) -> bool:
    if not (batch.header.is_control and batch.header.is_transactional):
        return False
    records = skim_records(batch.data, batch.at, batch.header, decompressed_bytes_max=CONTROL_BYTES_MAX)
    return any(control_type(record) is ControlType.ABORT for record in records)
