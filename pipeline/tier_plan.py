"""From options to splits, by asking the store: listing, indexes, leader-epoch checkpoints. No broker is asked.

    list partitions -> survey each -> history of its youngest segment -> pieces -> cut at the offset index

Failure points: a store that does not answer (RemoteStorageError), a gap between segments (`failOnDataLoss`). A topic
that was deleted and made anew has two ids; the brokers say which one lives, else it is the one last written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from ..log.checkpoints import decode_leader_epochs
from ..log.epochs import EpochEntry
from ..log.index import AbortedTransaction, OffsetIndex, TimeIndex, TransactionIndex
from ..log.producer_snapshot import decode_snapshot
from ..protocol.topics import TopicIdPartition, TopicPartition
from ..remote.ledger import RemoteLogLedger
from ..remote.lineage import Gap
from ..remote.segment import RemoteLogSegmentMetadata
from ..remote.storage import IndexType, ListsPartitions, RemoteStorageManager
from ..remote.survey import Survey, survey
from .batch_table import OFFSET_END, Selection
from .decode import decode
from .options import TierOptions
from .plan import Piece, Split, cut, history, pieces_of, youngest

PARTITIONS_AT_ONCE_MAX: Final = 8


class TierError(Exception):
    """The tier cannot give what was asked for; the message says what and why."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Wanted offsets [first_offset, end_offset) of a partition."""

    first_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class TieredPartition:
    """What the tier holds of a partition. `end_offset` is exclusive; both 0 where nothing is there.

    `stable_offset`: the first offset of the oldest transaction that is open where the tier ends, or that end. Whether
    what lies from there on is committed the tier alone cannot tell.
    """

    partition: TopicIdPartition
    ledger: RemoteLogLedger
    history: tuple[EpochEntry, ...]
    stable_offset: int

    @property
    def name(self) -> TopicPartition:
        return self.partition.topic_partition

    @property
    def start_offset(self) -> int:
        finished = self.ledger.finished()
        return max(finished[0].start_offset, self.history[0].start_offset) if finished else 0

    @property
    def end_offset(self) -> int:
        latest = youngest(self.ledger)
        return latest.end_offset + 1 if latest else 0

    def readable_end(self, options: TierOptions) -> int:
        return self.stable_offset if options.isolation == "read_committed" else self.end_offset

    def pieces(self, bounds: Bounds) -> tuple[list[Piece], list[Gap]]:
        return pieces_of(self.ledger, self.history, bounds.first_offset, bounds.end_offset)


@dataclass(frozen=True, slots=True)
class PlannedSplit:
    """A split with the partition that it belongs to."""

    partition: TopicPartition
    split: Split


async def find_partitions(
    storage: RemoteStorageManager, options: TierOptions, topic_ids: Mapping[str, UUID] | None = None
) -> list[TieredPartition]:
    """The wanted partitions, by name; of several incarnations the one of `topic_ids`, or the one last written."""
    if not isinstance(storage, ListsPartitions):
        raise TierError(
            f"{type(storage).__name__} cannot list its partitions; use another plugin for {options.location}"
        )
    wanted = [
        partition
        async for partition in storage.list_partitions()
        if options.wants(partition.topic)
        and (topic_ids is None or topic_ids.get(partition.topic, partition.topic_id) == partition.topic_id)
    ]
    slots = asyncio.Semaphore(PARTITIONS_AT_ONCE_MAX)

    async def look_at(partition: TopicIdPartition) -> TieredPartition:
        async with slots:
            return await _with_history(storage, await survey(storage, partition))

    found = await asyncio.gather(*(look_at(partition) for partition in sorted(wanted)))
    return _latest_incarnations(found)


async def plan_partition(
    storage: RemoteStorageManager, partition: TieredPartition, bounds: Bounds, options: TierOptions
) -> list[PlannedSplit]:
    pieces, gaps = partition.pieces(bounds)
    if gaps and options.failondataloss:
        raise TierError(
            f"{partition.name}: offsets {', '.join(map(str, gaps))} are in no segment of the tier; set failOnDataLoss "
            "to false to read on behind them"
        )
    aborted = await _aborted(storage, partition, pieces) if options.isolation == "read_committed" else []
    planned = []
    for piece in pieces:
        index = await storage.fetch_index(piece.segment, IndexType.OFFSET)
        entries = list(OffsetIndex.decode(index, piece.segment.start_offset))
        planned += [PlannedSplit(partition.name, split) for split in cut(piece, entries, options.splitbytes, aborted)]
    return planned


async def _with_history(storage: RemoteStorageManager, found: Survey) -> TieredPartition:
    ledger = found.ledger
    latest = youngest(ledger)
    if latest is None:
        return TieredPartition(ledger.partition, ledger, (), 0)
    checkpoint = decode_leader_epochs(await storage.fetch_index(latest, IndexType.LEADER_EPOCH))
    producers = decode_snapshot(await storage.fetch_index(latest, IndexType.PRODUCER_SNAPSHOT))
    open_since = [first for entry in producers if (first := entry.current_txn_first_offset) is not None]
    stable = min([latest.end_offset + 1, *open_since])
    return TieredPartition(ledger.partition, ledger, history(ledger, checkpoint), stable)


def _latest_incarnations(found: Iterable[TieredPartition]) -> list[TieredPartition]:
    latest: dict[TopicPartition, TieredPartition] = {}
    for partition in found:
        other = latest.get(partition.name)
        if other is None or _newest(partition) > _newest(other):
            latest[partition.name] = partition
    return [latest[name] for name in sorted(latest)]


def _newest(partition: TieredPartition) -> int:
    return max((segment.max_timestamp_ms for segment in partition.ledger.finished()), default=-1)


async def _aborted(
    storage: RemoteStorageManager, partition: TieredPartition, pieces: list[Piece]
) -> list[AbortedTransaction]:
    """Of the pieces' segments and all behind them: an entry lies with the marker, which may come segments later."""
    if not pieces:
        return []
    first = pieces[0].segment.start_offset
    rest, _ = partition.pieces(Bounds(first, OFFSET_END))
    aborted: set[AbortedTransaction] = set()
    for piece in rest:
        if not piece.segment.txn_index_empty:
            index = TransactionIndex.decode(await storage.fetch_index(piece.segment, IndexType.TRANSACTION))
            aborted.update(index)
    return sorted(aborted, key=lambda transaction: (transaction.last_offset, transaction.producer_id))


async def offset_for_timestamp(storage: RemoteStorageManager, partition: TieredPartition, timestamp_ms: int) -> int:
    """The first offset with this timestamp or a later one; the end of the tier if there is none (KIP-79)."""
    pieces, _ = partition.pieces(Bounds(partition.start_offset, partition.end_offset))
    for piece in pieces:
        if piece.segment.max_timestamp_ms >= timestamp_ms:
            found = await _search(storage, piece, timestamp_ms)
            if found is not None:
                return found
    return partition.end_offset


async def _search(storage: RemoteStorageManager, piece: Piece, timestamp_ms: int) -> int | None:
    segment = piece.segment
    times = TimeIndex.decode(await storage.fetch_index(segment, IndexType.TIMESTAMP), segment.start_offset)
    index = OffsetIndex.decode(await storage.fetch_index(segment, IndexType.OFFSET), segment.start_offset)
    first = max(piece.first_offset, times.lookup(timestamp_ms).offset)
    for split in cut(Piece(segment, first, piece.end_offset), list(index), _SEARCH_BYTES):
        found = await _first_at_or_after(storage, segment, split, timestamp_ms)
        if found is not None:
            return found
    return None


_SEARCH_BYTES: Final = 1024 * 1024


async def _first_at_or_after(
    storage: RemoteStorageManager, segment: RemoteLogSegmentMetadata, split: Split, timestamp_ms: int
) -> int | None:
    data = memoryview(await storage.fetch_log_segment(segment, split.start, split.end))
    selection = Selection(split.selection.first_offset, split.selection.end_offset)
    for columns in decode(data, ("offset", "timestamp"), selection):
        late = columns["timestamp"].cast("int64").to_numpy() >= timestamp_ms * 1000
        if late.any():
            return int(columns["offset"].to_numpy()[late.argmax()])
    return None
