"""Which bytes of which segments give each wanted offset once. Pure.

    ledger + lineage + wanted offsets -> pieces (segment, offsets) -> splits (bytes at batch borders, offsets)

The tier may hold an offset several times: two leaders uploaded it, an unclean election left a lost history. The
lineage decides: `pieces_of` goes along the leader epochs of the surviving history and takes, at each offset, the
segment that holds it *as written in that epoch* and reaches farthest. What no segment holds is a gap, and is reported.

An offset index has an entry for some batches: (last offset of the batch, where the batch begins). So the batch that
holds offset x begins at or after the last entry with an offset at or below x, and the last byte of interest for an end
offset y is before the second entry at or above y - 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ...light_dataclass import dataclass
from ...log.core import AbortedTransaction, EpochEntry, LeaderEpochCache, OffsetIndex, OffsetPosition
from ...remote.core import Gap, RemoteLogLedger, RemoteLogSegmentMetadata
from .batch_table import TIMESTAMP_MIN, Selection


@dataclass(frozen=True, slots=True)
class Piece:
    """Take offsets [first_offset, end_offset) from this segment."""

    segment: RemoteLogSegmentMetadata
    first_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Split:
    """Read at once: bytes [start, end) of a segment's `.log`, at batch borders, and the records wanted of them."""

    segment: RemoteLogSegmentMetadata
    start: int
    end: int
    selection: Selection


def pieces_of(
    ledger: RemoteLogLedger, lineage: Sequence[EpochEntry], first_offset: int, end_offset: int
) -> tuple[list[Piece], list[Gap]]:
    """In the order of offsets. What of [first_offset, end_offset) no segment holds is a gap; what is below the
    lineage's begin, where no history is known, is none.
    """
    pieces: list[Piece] = []
    gaps: list[Gap] = []
    for epoch, start, end in _epoch_ranges(lineage, first_offset, end_offset):
        at = start
        while at < end:
            segment = ledger.find(epoch, at)
            if segment is None:
                found = _next_in_epoch(ledger, epoch, at, end)
                _add_gap(gaps, at, found)
                at = found
                continue
            upto = min(end, _last_of(segment, epoch) + 1)
            _add(pieces, segment, at, upto)
            at = upto
    return pieces, gaps


def first_readable(ledger: RemoteLogLedger, lineage: Sequence[EpochEntry], end_offset: int) -> int:
    """The first offset of the history that a segment holds; `end_offset`, which is the history's, if none does."""
    ranges = {epoch: (start, end) for epoch, start, end in _epoch_ranges(lineage, 0, end_offset)}
    found = end_offset
    for segment in ledger.finished():
        if segment.start_offset >= found:
            break
        for epoch, first, last in segment.epoch_ranges():
            start, end = ranges.get(epoch, (0, 0))
            if max(first, start) < min(last + 1, end):
                found = min(found, max(first, start))
    return found


def whole(piece: Piece, selection: Selection) -> Split:
    """All bytes of the segment as one split: where nothing is gained by cutting, no index is needed."""
    return Split(piece.segment, 0, piece.segment.segment_size_in_bytes, selection)


def cut(piece: Piece, index: OffsetIndex, split_bytes: int, selection: Selection) -> Iterator[Split]:
    """The piece in splits of at least `split_bytes` (its last one apart), cut where the index knows a batch. What is
    wanted from a segment's begin on, or up to its end, does not depend on what the index says.
    """
    segment, start, behind = piece.segment, begin_entry(piece, index).position, end_entry(piece, index)
    end = segment.segment_size_in_bytes if behind is None else behind.position
    while start < end:
        border = index.first_at_or_after(start + split_bytes)
        stop = end if border is None else min(end, border.position)
        yield Split(segment, start, stop, selection)
        start = stop


def begin_entry(piece: Piece, index: OffsetIndex) -> OffsetPosition:
    """The entry that says where the piece begins; position 0 is the segment's begin."""
    if piece.first_offset <= piece.segment.start_offset:
        return OffsetPosition(piece.segment.start_offset, 0)
    return index.lookup(piece.first_offset)


def end_entry(piece: Piece, index: OffsetIndex) -> OffsetPosition | None:
    """The entry that says where the piece ends; None for the segment's end."""
    return None if piece.end_offset > piece.segment.end_offset else _second_at_or_after(index, piece.end_offset - 1)


def _second_at_or_after(index: OffsetIndex, offset: int) -> OffsetPosition | None:
    """The first such entry may be of the batch with that offset itself."""
    first = index.first_at_or_after(index.lookup(offset - 1).position + 1)
    return None if first is None else index.first_at_or_after(first.position + 1)


def selections(
    pieces: Sequence[Piece], aborted: Iterable[AbortedTransaction] | None, min_timestamp_ms: int = TIMESTAMP_MIN
) -> list[Selection]:
    """One for each piece, in the order of offsets, with the aborted transactions that have offsets of the piece between
    their first one and their marker. `aborted` None: they are wanted.
    """
    ahead = sorted(
        aborted or (), key=lambda transaction: (transaction.first_offset, transaction.last_offset), reverse=True
    )
    near: list[AbortedTransaction] = []
    found = []
    for piece in pieces:
        while ahead and ahead[-1].first_offset < piece.end_offset:
            near.append(ahead.pop())
        near = [transaction for transaction in near if transaction.last_offset >= piece.first_offset]
        is_indexed = aborted is None or not piece.segment.txn_index_empty
        found.append(Selection(piece.first_offset, piece.end_offset, tuple(near), min_timestamp_ms, is_indexed))
    return found


def is_whole(piece: Piece) -> bool:
    """Whether every offset of the segment is wanted."""
    return piece.first_offset <= piece.segment.start_offset and piece.end_offset > piece.segment.end_offset


def _epoch_ranges(lineage: Sequence[EpochEntry], first: int, end: int) -> Iterator[tuple[int, int, int]]:
    for entry, upto in zip(lineage, [*(entry.start_offset for entry in lineage[1:]), end], strict=True):
        start, stop = max(first, entry.start_offset), min(end, upto)
        if start < stop:
            yield entry.epoch, start, stop


def _next_in_epoch(ledger: RemoteLogLedger, epoch: int, at: int, end: int) -> int:
    firsts = (
        first
        for segment in ledger.finished()
        for of_epoch, first, _ in segment.epoch_ranges()
        if of_epoch == epoch and first > at
    )
    return min([end, *firsts])


def _last_of(segment: RemoteLogSegmentMetadata, epoch: int) -> int:
    return next(last for of_epoch, _, last in segment.epoch_ranges() if of_epoch == epoch)


def _add(pieces: list[Piece], segment: RemoteLogSegmentMetadata, first: int, end: int) -> None:
    if pieces and pieces[-1].segment.segment_id.id == segment.segment_id.id and pieces[-1].end_offset == first:
        first = pieces.pop().first_offset
    pieces.append(Piece(segment, first, end))


def _add_gap(gaps: list[Gap], start: int, end: int) -> None:
    if gaps and gaps[-1].end_offset == start:
        start = gaps.pop().start_offset
    gaps.append(Gap(start, end))


def history(latest: RemoteLogSegmentMetadata, checkpoint: Sequence[EpochEntry]) -> tuple[EpochEntry, ...]:
    """The history that survived: the checkpoint of the youngest segment up to its end, or what that segment itself
    says.
    """
    return LeaderEpochCache(checkpoint or latest.segment_leader_epochs).range(0, latest.end_offset + 1)
