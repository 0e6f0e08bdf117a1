"""The streaming source: micro-batches of the same table, each offset exactly once across restarts.

    offset of the stream    {"topic": {"partition": next offset to read}}

Spark writes each batch's end before it runs the batch and asks for the same range after a restart; the plan of a range
depends on nothing but the range, so the rows are the same. A batch ends at what is readable when it is planned (with
`brokers` the live end, else the tier's), or earlier by `maxOffsetsPerTrigger`, which is shared out by what each
partition has left. With the trigger availableNow that end is taken once, at the start.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from .options import TierOptions
from .planning import SplitPartition, planning
from .splits import read_split
from .stream_offsets import Extents, Positions, advance, from_json, to_json
from .table_plan import TablePlanner, TableSplit
from .tier_plan import Bounds, TierError

StreamOffset = dict[str, dict[str, int]]


class TierStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in a Python process of the driver; `read` in the executors."""

    def __init__(self, options: TierOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._until: Extents | None = None

    def initialOffset(self) -> StreamOffset:
        async def first(planner: TablePlanner) -> Positions:
            return {extent.name: (await planner.bounds(extent)).first_offset for extent in await planner.extents()}

        return to_json(planning(self._options, first))

    def prepareForTriggerAvailableNow(self) -> None:
        self._until = planning(self._options, _extents)

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._options.maxoffsetspertrigger
        return super().getDefaultReadLimit() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: StreamOffset, limit: ReadLimit) -> StreamOffset:
        extents = planning(self._options, _extents) if self._until is None else self._until
        count = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return to_json(advance(from_json(start), extents, count))

    def reportLatestOffset(self) -> StreamOffset:
        extents = planning(self._options, _extents)
        return to_json({name: bounds.end_offset for name, bounds in extents.items()})

    def partitions(self, start: StreamOffset, end: StreamOffset) -> list[InputPartition]:
        async def splits(planner: TablePlanner) -> list[TableSplit]:
            return await _splits(planner, from_json(start), from_json(end))

        return [SplitPartition(split) for split in planning(self._options, splits)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SplitPartition), partition
        assert partition.split is not None, "a micro-batch has no empty splits"
        return read_split(self._options, partition.split, self._schema)


async def _extents(planner: TablePlanner) -> Extents:
    return {extent.name: Bounds(extent.start_offset, extent.end_offset) for extent in await planner.extents()}


async def _splits(planner: TablePlanner, start: Positions, end: Positions) -> list[TableSplit]:
    extents = {extent.name: extent for extent in await planner.extents()}
    splits: list[TableSplit] = []
    for name, upto in end.items():
        extent = extents.get(name)
        if extent is None:
            raise TierError(f"{name} was there when the stream planned offset {upto}, and is gone")
        first = start.get(name, extent.start_offset)
        if not extent.start_offset <= first <= upto <= extent.end_offset and first < upto:
            raise TierError(
                f"{name}: offsets [{first}, {upto}) are to be read and [{extent.start_offset}, {extent.end_offset}) "
                "are there: what the stream has not read yet was deleted, or the topic was made anew"
            )
        if first < upto:
            splits += await planner.splits(extent, Bounds(first, upto))
    return splits
