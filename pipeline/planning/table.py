"""The whole of a topic as one table: what the tier holds, then what only the brokers have.

    tier      [start ............. tier end)
    brokers             [local start .................. end)
    table     [start ............. tier end)[tail ..... end)        no gap, no overlap

The border is the end of what the tier has for sure: with read_committed that is where its oldest open transaction
began (`TieredPartition.stable_offset`). The brokers say which incarnation of a topic is the living one, and where it
ends at the moment of planning. Without brokers the table ends with the tier.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final
from uuid import UUID

from ...light_dataclass import dataclass
from ...protocol import TopicPartition
from ..access.options import EARLIEST, LATEST, Offsets, TierOptions
from ..core.pruning import EVERYTHING, Pruning
from .catalog import TierCatalog, TieredPartition
from .tier_splits import Bounds, PlannedSplit, TierError, TierPlanner

if TYPE_CHECKING:
    from ..access.brokers import Brokers, LiveTopic

NAMES_SHOWN_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class TailSplit:
    """Offsets [first_offset, end_offset) that one task asks the brokers for."""

    partition: TopicPartition
    topic_id: UUID | None
    first_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class LostSplit:
    """Offsets from `first_offset` on that are nowhere: one task reports it, with `message`."""

    partition: TopicPartition
    first_offset: int
    message: str


@dataclass(frozen=True, slots=True)
class PartitionExtent:
    """Where a partition's table begins, where the tier's part of it ends, where it ends. `tiered` None: no part.
    `topic_id` None: the brokers are too old to give it.
    """

    name: TopicPartition
    topic_id: UUID | None
    tiered: TieredPartition | None
    start_offset: int
    tier_end_offset: int
    end_offset: int

    @property
    def log_end_offset(self) -> int:
        """Where what is there ends, committed or not."""
        return self.end_offset if self.tiered is None else max(self.end_offset, self.tiered.end_offset)


TableSplit = PlannedSplit | TailSplit | LostSplit


class TablePlanner:
    """`extents`, then `splits`. TierError, RemoteStorageError, BrokersUnavailableError."""

    def __init__(
        self, options: TierOptions, catalog: TierCatalog, brokers: Brokers | None, pruning: Pruning = EVERYTHING
    ) -> None:
        self._options = options
        self._catalog = catalog
        self._tier = TierPlanner(catalog, options, pruning.min_timestamp_ms)
        self._brokers = brokers
        self._pruning = pruning

    async def extents(self, positions: Mapping[TopicPartition, int] | None = None) -> list[PartitionExtent]:
        """As it is now, by name of the partition. Segments that end below `positions` need not be in the answer."""
        if self._brokers is None:
            extents = [self._of_tier(tiered) for tiered in await self._tiered(None, positions)]
        else:
            extents = await self._live_extents(self._brokers, positions)
        if positions is None or self._options.fail_on_data_loss:  # else a stream continues without what was deleted
            self._check_topics({extent.name.topic for extent in extents})
        if positions is None:
            await self._check_asked({extent.name for extent in extents})
        partitions = self._pruning.partitions
        return [extent for extent in extents if partitions is None or extent.name.partition in partitions]

    async def splits(self, extent: PartitionExtent, bounds: Bounds) -> list[TableSplit]:
        """Every offset of `bounds` once."""
        splits: list[TableSplit] = []
        tier_end = min(bounds.end_offset, extent.tier_end_offset)
        if extent.tiered is not None and bounds.first_offset < tier_end:
            splits += await self._of_segments(extent.tiered, Bounds(bounds.first_offset, tier_end))
        first = max(bounds.first_offset, extent.tier_end_offset)
        if first < bounds.end_offset:
            splits.append(TailSplit(extent.name, extent.topic_id, first, bounds.end_offset))
        return splits

    async def _of_segments(self, tiered: TieredPartition, bounds: Bounds) -> list[TableSplit]:
        found, gaps = await self._tier.splits(tiered, bounds)
        return [*found, *(LostSplit(tiered.name, gap.start_offset, self._tier.lost(tiered, [gap])) for gap in gaps)]

    async def bounds(self, extent: PartitionExtent, first_offset: int | None = None) -> Bounds:
        """What the options and the filters ask for, within what there is; from `first_offset` on for who has read
        before, wherever that began.
        """
        options = self._options
        first = await self._first_asked(extent) if first_offset is None else first_offset
        ending_ms = options.ending_time(extent.name)
        if ending_ms is None:
            end = _asked(extent, options.ending_offsets, "endingOffsets", LATEST)
        else:
            end = await self._offset_for(extent, ending_ms)
        first = max(first, extent.start_offset, self._pruning.first_offset)
        is_begin = first_offset is None and first == extent.start_offset < end
        if is_begin and extent.tiered is not None and self._brokers is None:  # which know where the log begins
            self._tier.check_start(extent.tiered)
        return Bounds(first, min(end, extent.end_offset, self._pruning.end_offset))

    async def _first_asked(self, extent: PartitionExtent) -> int:
        options = self._options
        starting_ms = options.starting_time(extent.name)
        if starting_ms is None:
            return _asked(extent, options.starting_offsets, "startingOffsets", EARLIEST)
        first = await self._offset_for(extent, starting_ms)
        if first >= extent.end_offset and options.starting_offsets_by_timestamp_strategy == "error":
            raise TierError(
                f"{extent.name} has nothing of {starting_ms} ms or later, where reading should begin; set "
                "startingOffsetsByTimestampStrategy to latest to begin at its end"
            )
        return first

    def _check_topics(self, there: Collection[str]) -> None:
        """TierError for one that is named, and wanted by the filters, and is not there."""
        absent = sorted(set(filter(self._wants, self._options.topics)).difference(there))
        if absent:
            where = "in the tier" if self._brokers is None else "in the tier or on the brokers"
            raise TierError(f"nothing of topic {', '.join(absent)} is {where} at {self._place}")

    async def _check_asked(self, there: Collection[TopicPartition]) -> None:
        """TierError for a place with nothing in it, which would be an empty table by a pattern, and for an offset of a
        partition that is none: a misspelt topic would be read from its begin on.
        """
        if not there and self._brokers is None and not await self._catalog.has_any():
            raise TierError(f"nothing of any topic is in the tier at {self._place}")
        if self._pruning.topics is not None:
            return
        options = self._options
        for option, asked in (
            ("startingOffsets", options.starting_offsets),
            ("endingOffsets", options.ending_offsets),
            ("startingOffsetsByTimestamp", options.starting_offsets_by_timestamp),
            ("endingOffsetsByTimestamp", options.ending_offsets_by_timestamp),
        ):
            named = {} if isinstance(asked, str) else asked
            names = [TopicPartition(topic, partition) for topic, some in named.items() for partition in some]
            if absent := [name for name in names if name not in there]:
                raise TierError(f"{option} names {absent[0]}, which is not in the table: {_some(there)}")

    @property
    def _place(self) -> str:
        layout = self._options.layout
        said = "" if layout == "auto" else f" in the layout {layout}, which the option says"
        return f"{self._options.location}{said}"

    def _wants(self, topic: str) -> bool:
        return self._options.wants(topic) and (self._pruning.topics is None or topic in self._pruning.topics)

    async def _tiered(
        self, topic_ids: Mapping[str, UUID] | None, positions: Mapping[TopicPartition, int] | None
    ) -> list[TieredPartition]:
        return await self._catalog.refresh(self._wants, topic_ids, positions)

    def _of_tier(self, tiered: TieredPartition) -> PartitionExtent:
        self._tier.check_end(tiered)
        end = self._tier.readable_end(tiered)
        return PartitionExtent(tiered.name, tiered.partition.topic_id, tiered, tiered.start_offset, end, end)

    async def _live_extents(
        self, brokers: Brokers, positions: Mapping[TopicPartition, int] | None
    ) -> list[PartitionExtent]:
        topics = await brokers.topics(self._options.topics or None)
        wanted: dict[str, LiveTopic] = {topic.name: topic for topic in topics if self._wants(topic.name)}
        ids = {name: topic.topic_id for name, topic in wanted.items() if topic.topic_id is not None}
        found = await self._tiered(ids, positions)
        tiered = {partition.name: partition for partition in found if partition.partition.topic in wanted}
        names = sorted(TopicPartition(name, number) for name, topic in wanted.items() for number in topic.leaders)
        starts, ends = await brokers.offsets(names, EARLIEST), await brokers.offsets(names, LATEST)
        return [
            self._live_extent(name, ids.get(name.topic), tiered.get(name), starts[name], ends[name]) for name in names
        ]

    def _live_extent(
        self, name: TopicPartition, topic_id: UUID | None, tiered: TieredPartition | None, start: int, end: int
    ) -> PartitionExtent:
        if tiered is None or tiered.end_offset == 0:
            return PartitionExtent(name, topic_id, None, start, start, end)
        if start < tiered.start_offset and self._options.fail_on_data_loss:
            raise TierError(
                f"{name}: the brokers have it from offset {start} on, and the tier from {tiered.start_offset}: is "
                f"{self._options.location} the whole of it? Set failOnDataLoss to false to begin there"
            )
        start = max(start, tiered.start_offset)
        return PartitionExtent(name, topic_id, tiered, start, max(start, self._tier.readable_end(tiered)), end)

    async def _offset_for(self, extent: PartitionExtent, timestamp_ms: int) -> int:
        if extent.tiered is not None:
            found = await self._tier.offset_for_timestamp(extent.tiered, timestamp_ms)
            if found < extent.tiered.end_offset or self._brokers is None:
                return found
        assert self._brokers is not None, extent
        offset = (await self._brokers.offsets([extent.name], timestamp_ms))[extent.name]
        return offset if offset >= 0 else extent.end_offset


def _some(names: Collection[TopicPartition]) -> str:
    ordered = sorted(names)
    shown = ", ".join(map(str, ordered[:NAMES_SHOWN_MAX])) or "nothing"
    return f"{shown} and {len(ordered) - NAMES_SHOWN_MAX} more" if len(ordered) > NAMES_SHOWN_MAX else shown


def _asked(extent: PartitionExtent, asked: Offsets, option: str, default: int) -> int:
    if isinstance(asked, str):
        offset = EARLIEST if asked == "earliest" else LATEST
    else:
        offset = asked.get(extent.name.topic, {}).get(extent.name.partition, default)
    if offset in (EARLIEST, LATEST):
        return extent.start_offset if offset == EARLIEST else extent.end_offset
    if not extent.start_offset <= offset <= extent.end_offset:
        raise TierError(
            f"{option} of {extent.name}: offset {offset} is not there; the table holds "
            f"[{extent.start_offset}, {extent.end_offset})"
        )
    return offset
