"""Reading one split, in an executor: bytes from the tier or from the brokers, to Arrow batches."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ..protocol.errors import CorruptRecordError
from .batch_table import Selection
from .brokers import Brokers, Fetched
from .columns import batches, constants
from .options import TierOptions
from .table_plan import TableSplit, TailSplit
from .tier_plan import PlannedSplit

_log = logging.getLogger(__name__)


def read_split(options: TierOptions, split: TableSplit, columns: StructType) -> Iterator[pa.RecordBatch]:
    """CorruptRecordError names segment and position; RemoteStorageError, BrokersUnavailableError what was said."""
    schema = to_arrow_schema(columns, timezone="UTC")
    if isinstance(split, TailSplit):
        return _read_tail(options, split, schema)
    return _read_segment(options, split, schema)


def _read_segment(options: TierOptions, planned: PlannedSplit, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    split = planned.split
    where = f"{planned.partition}, segment {split.segment.segment_id}"
    data = memoryview(asyncio.run(_fetch(options, planned)))
    if len(data) != split.end - split.start:
        raise CorruptRecordError(
            f"{where}: {len(data)} bytes where {split.end - split.start} are expected: the object is shorter than its "
            "metadata says",
            split.start + len(data),
        )

    def skip(error: CorruptRecordError) -> None:
        _log.warning("%s: passed over: %s", where, error.at(split.start + error.position))

    same = constants(planned.partition, split.segment.segment_id.id)
    try:
        yield from batches(data, split.selection, same, schema, skip if options.mode == "permissive" else None)
    except CorruptRecordError as error:
        raise CorruptRecordError(f"{where}: {error.reason}", split.start + error.position) from None


def _read_tail(options: TierOptions, split: TailSplit, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """One fetch at a time: what came is handed on before the next is asked for."""
    same = constants(split.partition, None)
    with asyncio.Runner() as runner:
        brokers = Brokers(options.brokers or "", committed_only=options.isolation == "read_committed")
        fetches = brokers.batches(split.partition, split.first_offset, split.end_offset)
        try:
            while (fetched := runner.run(_next(fetches))) is not None:
                selection = Selection(split.first_offset, split.end_offset, fetched.aborted)
                yield from batches(fetched.data, selection, same, schema)
        finally:
            runner.run(brokers.close())


async def _next(fetches: object) -> Fetched | None:
    return await anext(fetches, None)  # type: ignore[call-overload, no-any-return]


async def _fetch(options: TierOptions, planned: PlannedSplit) -> bytes:
    storage = options.open_storage()
    try:
        split = planned.split
        return await storage.fetch_log_segment(split.segment, split.start, split.end)
    finally:
        await storage.close()
