"""From wanted offsets to splits, by asking the stores for indexes. No broker is asked.

    pieces (which segment gives which offsets) -> aborted transactions -> cut at the offset index

Indexes are asked for where they are of use: of segments that are wanted in part, and of large ones while cutting them
makes more tasks than there are. What spares reading: a segment whose largest timestamp is below the wanted ones is
left out.

Failure points: a store that does not answer (RemoteStorageError), a gap between segments (`failOnDataLoss`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from ...light_dataclass import dataclass
from ...log.core import AbortedTransaction, TimestampOffset, TransactionIndex
from ...protocol import CorruptRecordError, OperatorError, TopicPartition
from ...remote import (
    IndexType,
    RemoteLogSegmentMetadata,
    WrongIndexError,
    check_slots,
    gather_limited,
    has_time_entry,
)
from ...remote.core import Gap, youngest
from ..access.options import TierOptions
from ..access.stores import SegmentStore, StoreRef
from ..core.batch_table import OFFSET_END, TIMESTAMP_MIN, FaultListener, Selection
from ..core.decode import decode
from ..core.offset_cover import Piece, Split, cut, is_whole, selections, whole
from .catalog import TierCatalog, TieredPartition
from .proven_indexes import Indexes, built_indexes, check_borders, proven_offset_index, well_formed_indexes

INDEXES_AT_ONCE_MAX: Final = 16
CUT_PIECES_MAX: Final = 512
"""The pieces of one partition up to which they are cut. Above, there are tasks enough, and too many indexes to read."""
SEARCH_BYTES: Final = 1024 * 1024
DAMAGE_SHOWN_MAX: Final = 3


class TierError(OperatorError):
    """The tier cannot give what was asked for; the message says what and why."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Wanted offsets [first_offset, end_offset) of a partition."""

    first_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class PlannedSplit:
    """A split with the partition that it belongs to, and the store that has it."""

    partition: TopicPartition
    store: StoreRef
    split: Split


@dataclass(frozen=True, slots=True)
class _Uncut:
    """A piece that its offset index will cut."""

    piece: Piece
    selection: Selection


class TierPlanner:
    """Over what the catalog found last."""

    def __init__(self, catalog: TierCatalog, options: TierOptions, min_timestamp_ms: int = TIMESTAMP_MIN) -> None:
        self._catalog = catalog
        self._options = options
        self._min_timestamp_ms = min_timestamp_ms

    def readable_end(self, partition: TieredPartition) -> int:
        committed_only = self._options.isolation == "read_committed"
        return partition.stable_offset if committed_only else partition.end_offset

    def check_end(self, partition: TieredPartition) -> None:
        """TierError where the tier seems to end because what follows is damaged: what begins after the last segment's
        begin may reach farther.
        """
        latest = youngest(partition.ledger) if partition.damage else None
        begin = -1 if latest is None else latest.start_offset
        behind = [one for one in partition.damage if one.start_offset is None or one.start_offset > begin]
        if behind and self._options.fail_on_data_loss:
            raise TierError(
                f"{partition.name} cannot be read from offset {partition.end_offset} on: {behind[0]}; set "
                "failOnDataLoss to false to end there"
            )

    def check_start(self, partition: TieredPartition) -> None:
        """TierError where the tier seems to begin because what comes before is damaged."""
        start = partition.start_offset
        before = [one for one in partition.damage if one.start_offset is not None and one.start_offset < start]
        if before and self._options.fail_on_data_loss:
            raise TierError(
                f"{partition.name} cannot be read below offset {start}: {before[0]}; set "
                "failOnDataLoss to false to begin there"
            )

    def lost(self, partition: TieredPartition, gaps: Sequence[Gap]) -> str:
        """That they are lacking, and what damage may be the cause."""
        note = "".join(f" ({finding})" for finding in partition.damage[:DAMAGE_SHOWN_MAX])
        return f"{partition.name}: offsets {', '.join(map(str, gaps))} are in no segment of the tier{note}"

    async def splits(self, partition: TieredPartition, bounds: Bounds) -> tuple[list[PlannedSplit], list[Gap]]:
        """Every offset of `bounds` once, but for those that no segment holds: TierError for them, unless loss is not
        to be an error.
        """
        options = self._options
        pieces, gaps = partition.pieces(bounds.first_offset, bounds.end_offset)
        if gaps and options.fail_on_data_loss:
            raise TierError(f"{self.lost(partition, gaps)}; set failOnDataLoss to false to continue after them")
        pieces = [piece for piece in pieces if self._may_be_wanted(piece)]
        aborted = await self._aborted(partition, pieces) if options.isolation == "read_committed" else None
        chosen = zip(pieces, selections(pieces, aborted, self._min_timestamp_ms), strict=True)
        is_to_be_cut = len(pieces) <= CUT_PIECES_MAX
        found = [self._uncut(piece, selection, is_to_be_cut) for piece, selection in chosen]
        cuts = [partial(self._cut, partition, split, is_to_be_cut) for split in found if isinstance(split, _Uncut)]
        parts = iter(await gather_limited(cuts, INDEXES_AT_ONCE_MAX))
        name, origins = partition.name, partition.origins
        planned = [
            PlannedSplit(name, origins[split.segment.segment_id.id], split)
            for one in found
            for split in (next(parts) if isinstance(one, _Uncut) else one)
        ]
        return planned, gaps

    async def offset_for_timestamp(self, partition: TieredPartition, timestamp_ms: int) -> int:
        """The first offset with this timestamp or a later one; the end of the tier if there is none (KIP-79)."""
        pieces, _ = partition.pieces(partition.start_offset, partition.end_offset)
        for piece in pieces:
            if piece.segment.max_timestamp_ms >= timestamp_ms:
                found = await self._search(partition, piece, timestamp_ms)
                if found is not None:
                    return found
        return partition.end_offset

    def _may_be_wanted(self, piece: Piece) -> bool:
        """A segment without any timestamp says nothing."""
        return not 0 <= piece.segment.max_timestamp_ms < self._min_timestamp_ms

    def _store_of(self, partition: TieredPartition, piece: Piece) -> SegmentStore:
        return self._catalog.store(partition.origins[piece.segment.segment_id.id])

    def _uncut(self, piece: Piece, selection: Selection, is_to_be_cut: bool) -> list[Split] | _Uncut:
        """Its splits, where no index is needed for them."""
        size = piece.segment.segment_size_in_bytes
        if size <= self._options.split_bytes or (is_whole(piece) and not is_to_be_cut):
            return [whole(piece, selection)] if size else []
        return _Uncut(piece, selection)

    async def _cut(self, partition: TieredPartition, uncut: _Uncut, is_to_be_cut: bool) -> list[Split]:
        piece = uncut.piece
        try:
            index = await proven_offset_index(self._store_of(partition, piece), piece)
        except WrongIndexError:
            return [whole(piece, uncut.selection)]
        split_bytes = self._options.split_bytes if is_to_be_cut else piece.segment.segment_size_in_bytes
        return list(cut(piece, index, split_bytes, uncut.selection))

    async def _aborted(self, partition: TieredPartition, pieces: Sequence[Piece]) -> list[AbortedTransaction]:
        """Return the aborted transactions of all segments from the first piece to the last, and of those after it until
        no transaction can reach back: an entry is stored with the marker, which may come segments later.
        """
        if not pieces:
            return []
        end_offset = pieces[-1].end_offset
        within, _ = partition.pieces(pieces[0].first_offset, end_offset)
        looks = [partial(self._ended, partition, piece) for piece in within if not piece.segment.txn_index_empty]
        aborted = {transaction for found in await gather_limited(looks, INDEXES_AT_ONCE_MAX) for transaction in found}
        behind, _ = partition.pieces(end_offset, OFFSET_END)
        for piece in behind:
            ended = await self._ended(partition, piece)
            aborted.update(transaction for transaction in ended if transaction.first_offset < end_offset)
            if any(transaction.last_stable_offset >= end_offset for transaction in ended):
                break
        return list(aborted)

    async def _ended(self, partition: TieredPartition, piece: Piece) -> list[AbortedTransaction]:
        """Return the transactions aborted within the piece. Other entries of its segment may belong to a history that
        was lost, in which the same transaction ended otherwise.
        """
        if piece.segment.txn_index_empty:
            return []
        data = await self._store_of(partition, piece).fetch_index(piece.segment, IndexType.TRANSACTION)
        name = f"transaction index of segment {piece.segment.segment_id}"
        index = TransactionIndex.unchecked(data, name=name)
        found: list[AbortedTransaction] = []
        async for slot, end in check_slots(len(index)):
            index.check(name=name, first=slot, end=end)
            found += (one for one in index.slots(slot, end) if piece.first_offset <= one.last_offset < piece.end_offset)
        return found

    async def _search(self, partition: TieredPartition, piece: Piece, timestamp_ms: int) -> int | None:
        store = self._store_of(partition, piece)
        try:
            indexes = await well_formed_indexes(store, piece.segment)
            return await self._search_by(indexes, partition, piece, timestamp_ms)
        except WrongIndexError:
            return await self._search_by(await built_indexes(store, piece.segment), partition, piece, timestamp_ms)

    async def _search_by(
        self, indexes: Indexes, partition: TieredPartition, piece: Piece, timestamp_ms: int
    ) -> int | None:
        """WrongIndexError if the log contradicts what the indexes lead to."""
        store, segment, near = self._store_of(partition, piece), piece.segment, indexes.time.lookup(timestamp_ms)
        # What lies outside the piece cannot be proven by what is read, and so is not used.
        is_proven = not piece.first_offset <= near.offset < piece.end_offset or near.timestamp < 0
        first = piece.first_offset if is_proven else near.offset  # or another of its batch
        selection = Selection(piece.first_offset, piece.end_offset)
        is_permissive, found = self._options.mode == "permissive", None
        searched = Piece(segment, first, piece.end_offset)
        await check_borders(store, searched, indexes.offset)
        for split in cut(searched, indexes.offset, SEARCH_BYTES, selection):
            data = await store.fetch_log_segment(segment, split.start, split.end)
            try:
                is_proven = is_proven or _is_proven(data, segment, near, is_permissive=is_permissive)
                if found is None:
                    found = _first_at_or_after(data, split, timestamp_ms, _pass_over if is_permissive else None)
            except CorruptRecordError as error:
                raise TierError(
                    f"{partition.name}, segment {segment.segment_id}, where the offset of {timestamp_ms} ms is looked "
                    f"for: {error.at(split.start + error.position)}"
                ) from None
            if found is not None and is_proven:
                return found
        if not is_proven:
            raise WrongIndexError(segment, IndexType.TIMESTAMP, f"no batch holds the offset of {near}")
        return found


def _pass_over(_: CorruptRecordError) -> None:
    """The reader of the batch reports the fault."""


def _is_proven(data: bytes, segment: RemoteLogSegmentMetadata, near: TimestampOffset, *, is_permissive: bool) -> bool:
    """Return whether `data` has the batch of the entry. A damaged batch proves nothing, and is passed over too."""
    try:
        return has_time_entry(data, segment, near)
    except CorruptRecordError:
        if is_permissive:
            return True
        raise


def _first_at_or_after(data: bytes, split: Split, timestamp_ms: int, on_fault: FaultListener | None) -> int | None:
    for columns in decode(memoryview(data), ("offset", "timestamp"), split.selection, on_fault):
        late = columns["timestamp"].cast("int64").to_numpy() >= timestamp_ms * 1000
        if late.any():
            return int(columns["offset"].to_numpy()[late.argmax()])
    return None
