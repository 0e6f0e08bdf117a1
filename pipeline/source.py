"""`spark.read.format("tierfetch")`: the Spark side. Everything that is decided is decided in `plan` and `tier_plan`.

    driver: options -> splits            executor: split -> one ranged GET -> decode -> Arrow batches

The executors need this package and the rights to read the tier; nothing else passes between them and the driver but the
options and the splits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ..protocol.errors import CorruptRecordError
from .columns import batches, schema
from .options import TierOptions, parse
from .tier_plan import PlannedSplit, find_partitions, plan_splits

_log = logging.getLogger(__name__)


class SplitPartition(InputPartition):
    """One task of Spark."""

    def __init__(self, planned: PlannedSplit | None) -> None:
        super().__init__(None)
        self.planned = planned

    def __repr__(self) -> str:
        return f"SplitPartition({self.planned})"


class TierDataSource(DataSource):
    """Register it with `spark.dataSource.register(TierDataSource)`; options are those of `TierOptions`."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self.tier_options = parse(options)

    @classmethod
    def name(cls) -> str:
        return "tierfetch"

    def schema(self) -> StructType:
        return schema(metadata=self.tier_options.metadata)

    def reader(self, schema: StructType) -> TierReader:
        return TierReader(self.tier_options, schema)


class TierReader(DataSourceReader):
    """Batch reads."""

    def __init__(self, options: TierOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        planned = asyncio.run(_plan(self._options))
        # Spark calls read(None) where there are none.
        return [SplitPartition(split) for split in planned] or [SplitPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SplitPartition), partition
        if partition.planned is None:
            return iter(())
        return read_split(self._options, partition.planned, self._schema)


def read_split(options: TierOptions, planned: PlannedSplit, columns: StructType) -> Iterator[pa.RecordBatch]:
    """In an executor. CorruptRecordError names segment and position; RemoteStorageError what the store said."""
    split = planned.split
    data = memoryview(asyncio.run(_fetch(options, planned)))
    where = f"{planned.partition} segment {split.segment.segment_id}"
    if len(data) != split.end - split.start:
        raise CorruptRecordError(
            f"{where}: {len(data)} bytes from byte {split.start}, {split.end - split.start} are expected; the object "
            "is shorter than its metadata says",
            split.start + len(data),
        )

    def skip(error: CorruptRecordError) -> None:
        _log.warning("%s: passed over: %s", where, error.at(split.start + error.position))

    arrow_schema = to_arrow_schema(columns, timezone="UTC")
    return batches(data, planned, arrow_schema, skip if options.mode == "permissive" else None)


async def _plan(options: TierOptions) -> list[PlannedSplit]:
    storage = options.open_storage()
    try:
        return await plan_splits(storage, await find_partitions(storage, options), options)
    finally:
        await storage.close()


async def _fetch(options: TierOptions, planned: PlannedSplit) -> bytes:
    storage = options.open_storage()
    try:
        split = planned.split
        return await storage.fetch_log_segment(split.segment, split.start, split.end)
    finally:
        await storage.close()


def columns_of(options: dict[str, Any]) -> StructType:
    """The table's columns, without a session."""
    return schema(metadata=parse(options).metadata)
