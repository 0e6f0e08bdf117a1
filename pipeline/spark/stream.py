"""The streaming source: micro-batches of the same table, each offset exactly once across restarts.

Spark writes each batch's end before it runs the batch and asks for the same range after a restart; the plan of a range
depends on nothing but the range, so the rows are the same. A batch ends at what is readable when it is planned (with
`brokers` the live end, else the tier's), or earlier by `maxOffsetsPerTrigger`, which is shared out by what each
partition has left. With the trigger availableNow that end is taken once, at the start. `stream_offsets` has what is
noted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from ...protocol import TopicPartition, uuid_to_text
from ..access.options import OptionError, TierOptions
from ..core.batch_table import OFFSET_END
from ..planning.catalog import TierCatalog
from ..planning.driver import Query, catalog_of, planning
from ..planning.packing import pack
from ..planning.stream_offsets import (
    Extents,
    Positions,
    StreamOffset,
    TopicIds,
    advance,
    from_json,
    to_json,
    topic_ids_of,
)
from ..planning.table import LostSplit, PartitionExtent, TablePlanner, TableSplit
from ..planning.tier_splits import Bounds, TierError
from .columns import check_schema
from .partition import SplitPartition

T = TypeVar("T")


class TierStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in a Python process of the driver; `read` in the executors, which need the options and columns alone."""

    def __init__(self, options: TierOptions, schema: StructType, probe: str | None = None) -> None:
        check_schema(schema, options)
        if options.has_end:
            raise OptionError("a stream has no end: remove endingOffsets, endingTimestamp, endingOffsetsByTimestamp")
        self._options = options
        self._schema = schema
        self._probe = probe
        self._catalog: TierCatalog | None = None
        self._seen: dict[TopicPartition, PartitionExtent] = {}
        self._until: Extents | None = None

    def __reduce__(self) -> tuple[type[TierStreamReader], tuple[TierOptions, StructType]]:
        return type(self), (self._options, self._schema)

    def initialOffset(self) -> StreamOffset:
        async def first(planner: TablePlanner) -> tuple[Positions, TopicIds]:
            extents = await planner.extents()
            return {extent.name: (await planner.bounds(extent)).first_offset for extent in extents}, _ids(extents)

        return to_json(*self._ask(first))

    def prepareForTriggerAvailableNow(self) -> None:
        self._until = self._look({})

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._options.max_offsets_per_trigger
        return super().getDefaultReadLimit() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: StreamOffset, limit: ReadLimit) -> StreamOffset:
        positions, ids = from_json(start), topic_ids_of(start)
        extents = self._look(positions) if self._until is None else self._until
        self._check_same(positions, ids)
        count = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return to_json(advance(positions, extents, count), _ids(self._seen.values()) | ids)

    def reportLatestOffset(self) -> StreamOffset:
        """As of the last look."""
        extents = _bounds(self._seen) if self._seen else self._look({})
        return to_json({name: bounds.end_offset for name, bounds in extents.items()}, _ids(self._seen.values()))

    def partitions(self, start: StreamOffset, end: StreamOffset) -> list[InputPartition]:
        first, upto = from_json(start), from_json(end)
        if not _holds(self._seen, first, upto):
            self._look(first)
        self._check_same(upto, topic_ids_of(end))

        async def splits(planner: TablePlanner) -> list[TableSplit]:
            return await _splits(planner, self._seen, first, upto, self._options.fail_on_data_loss)

        return [SplitPartition(task) for task in pack(self._ask(splits), self._options.split_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SplitPartition), partition
        return partition.read(self._options, self._schema)

    def _check_same(self, positions: Positions, topic_ids: TopicIds) -> None:
        """TierError where a partition is of another topic than the stream has read, or lacks what it has read."""
        there = _ids(self._seen.values())
        for name in positions.keys() & self._seen.keys():
            noted, found = topic_ids.get(name.topic), there.get(name.topic)
            if None not in (noted, found) and noted != found:
                raise TierError(
                    f"{name}: the topic was deleted and recreated since the stream began (its id was {noted} and is "
                    f"{found}): read the new one with a checkpoint of its own"
                )
            extent = self._seen[name]
            end = extent.log_end_offset
            if extent.start_offset < end < positions[name] and self._options.fail_on_data_loss:
                raise TierError(
                    f"{name} ends at offset {end}, and the stream has read up to {positions[name]}: its end is lost, "
                    "or another history survived; set failOnDataLoss to false to wait until it has grown"
                )

    def _look(self, positions: Positions) -> Extents:
        """What is there now; what ends below `positions` is not looked for."""

        async def extents(planner: TablePlanner) -> list[PartitionExtent]:
            return await planner.extents(positions)

        self._seen = {extent.name: extent for extent in self._ask(extents)}
        return _bounds(self._seen)

    def _ask(self, query: Query[T]) -> T:
        if self._catalog is None:
            if self._probe is not None:
                from .driver_probe import ask_driver  # what no executor needs to import

                ask_driver(self._probe, self._options)
            self._catalog = catalog_of(self._options)
        return planning(self._options, query, self._catalog)


def _bounds(seen: Mapping[TopicPartition, PartitionExtent]) -> Extents:
    return {name: Bounds(extent.start_offset, extent.end_offset) for name, extent in seen.items()}


def _holds(seen: Mapping[TopicPartition, PartitionExtent], first: Positions, upto: Positions) -> bool:
    """Whether all of it was there at the last look."""
    return all(
        name in seen and seen[name].start_offset <= first.get(name, OFFSET_END) and end <= seen[name].end_offset
        for name, end in upto.items()
    )


def _ids(extents: Iterable[PartitionExtent]) -> TopicIds:
    return {extent.name.topic: uuid_to_text(extent.topic_id) for extent in extents if extent.topic_id is not None}


async def _splits(
    planner: TablePlanner,
    extents: Mapping[TopicPartition, PartitionExtent],
    start: Positions,
    end: Positions,
    fail_on_data_loss: bool,
) -> list[TableSplit]:
    splits: list[TableSplit] = []
    for name, upto in end.items():
        extent = extents.get(name)
        first = start.get(name, upto if extent is None else extent.start_offset)
        lost = _lost(name, extent, first, upto)
        if lost is not None and fail_on_data_loss:
            raise TierError(f"{lost}; set failOnDataLoss to false to continue without it")
        if lost is not None and first < upto:
            splits.append(LostSplit(name, first, lost))
        if extent is not None:
            bounds = Bounds(max(first, extent.start_offset), min(upto, extent.end_offset))
            splits += await planner.splits(extent, bounds) if bounds.first_offset < bounds.end_offset else []
    return splits


def _lost(name: TopicPartition, extent: PartitionExtent | None, first: int, upto: int) -> str | None:
    """Return what of offsets [first, upto), which were there once, no longer is."""
    if extent is None:
        return (
            f"{name}, read up to offset {first}, does not exist: it was deleted, or the stream is asked for other"
            " topics now"
        )
    if first >= upto or extent.start_offset <= first <= upto <= extent.end_offset:
        return None
    return (
        f"{name}: offsets [{first}, {upto}) must be read and [{extent.start_offset}, {extent.end_offset}) are there: "
        "what the stream has not read yet was deleted"
    )
