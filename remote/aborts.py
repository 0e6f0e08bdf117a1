"""What was aborted in a segment, also where its metadata do not say whether it has a transaction index.

Kafka's metadata say so since 4.0 (KIP-1058). Before, a segment in which nothing was aborted has no index either, and
whether the tier lost one or never had one follows from the batches: an index has an entry for each transaction whose
ABORT marker lies in the segment, so a segment without such a marker has none. The other way round it is no proof, a
marker may end a transaction that wrote nothing here; but then nobody can say what was aborted.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from ..log.core import CorruptFileError, ProducerStateEntry, decoded_slices
from ..protocol import CorruptRecordError
from ..protocol.net import SLICE_ELEMENTS, pace
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
    first: int | None = None
    name = f"producer snapshot of segment {segment.segment_id}"
    try:
        async with aclosing(fetched_producers(segment, storage, name=name)) as slices:
            async for producers in slices:
                begins = [each.current_txn_first_offset for each in producers]
                first = min((one for one in (first, *begins) if one is not None), default=None)
    except CorruptFileError as error:
        raise RemoteStorageCorruptError(str(error)) from error
    return first


async def fetched_producers(
    segment: RemoteLogSegmentMetadata, storage: ReadsSegments, *, name: str
) -> AsyncGenerator[list[ProducerStateEntry], None]:
    """Yield the entries of the segment's producer snapshot, as many at a time as the event loop's share allows.
    CorruptFileError with `name` in front, RemoteStorageError.
    """
    data = await storage.fetch_index(segment, IndexType.PRODUCER_SNAPSHOT)
    had = 0
    for entries in decoded_slices(data, name=name):
        if had:
            await pace().spend(SLICE_ELEMENTS, had)
        had += SLICE_ELEMENTS
        yield entries


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
