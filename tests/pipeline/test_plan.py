"""Each offset once, from the segment of the history that survived"""

from __future__ import annotations

import random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.log.core import AbortedTransaction, EpochEntry, OffsetIndex
from tierfetch.pipeline.core.batch_table import Selection
from tierfetch.pipeline.core.offset_cover import Piece, cut, first_readable, history, is_whole, pieces_of, selections
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.remote.core import (
    Gap,
    RemoteLogLedger,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    youngest,
)

PARTITION = TopicIdPartition(UUID(int=7), "t", 0)


def segment(number: int, first: int, last: int, *epochs: tuple[int, int], size: int = 1000) -> RemoteLogSegmentMetadata:
    entries = tuple(EpochEntry(epoch, start) for epoch, start in epochs) or (EpochEntry(0, first),)
    return RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(PARTITION, UUID(int=number)),
        start_offset=first,
        end_offset=last,
        max_timestamp_ms=0,
        broker_id=1,
        event_timestamp_ms=0,
        segment_size_in_bytes=size,
        segment_leader_epochs=entries,
    )


def ledger_of(*segments: RemoteLogSegmentMetadata) -> RemoteLogLedger:
    ledger = RemoteLogLedger(PARTITION)
    finished = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
    for metadata in segments:
        ledger.apply(metadata)
        ledger.apply(RemoteLogSegmentMetadataUpdate(metadata.segment_id, finished, 0, 1))
    return ledger


def taken(pieces: list[Piece]) -> list[tuple[int, int, int]]:
    return [(piece.segment.segment_id.id.int, piece.first_offset, piece.end_offset) for piece in pieces]


ONE_EPOCH = (EpochEntry(0, 0),)


def test_overlapping_copies_give_each_offset_once() -> None:
    ledger = ledger_of(segment(1, 0, 99), segment(2, 50, 149, (0, 50)), segment(3, 100, 119, (0, 100)))
    pieces, gaps = pieces_of(ledger, ONE_EPOCH, 0, 150)
    assert taken(pieces) == [(1, 0, 100), (2, 100, 150)]
    assert gaps == []


def test_a_segment_of_several_epochs_is_one_piece_and_its_bytes_are_read_once() -> None:
    ledger = ledger_of(segment(1, 0, 99, (0, 0), (1, 40), (2, 70)))
    pieces, gaps = pieces_of(ledger, (EpochEntry(0, 0), EpochEntry(1, 40), EpochEntry(2, 70)), 0, 100)
    assert taken(pieces) == [(1, 0, 100)]
    assert gaps == []


def test_a_lost_history_is_not_read() -> None:
    """Epoch 1 began at 100 on a leader that lost an unclean election; epoch 2 began at 80."""
    straddling = segment(2, 60, 119, (0, 60), (1, 100))
    ledger = ledger_of(segment(1, 0, 59), straddling, segment(3, 60, 149, (0, 60), (2, 80)))
    lineage = (EpochEntry(0, 0), EpochEntry(2, 80))
    pieces, gaps = pieces_of(ledger, lineage, 0, 150)
    assert taken(pieces) == [(1, 0, 60), (2, 60, 80), (3, 80, 150)], (
        "what both leaders have of epoch 0 may come of either"
    )
    assert gaps == []


def test_the_part_before_the_divergence_of_a_straddling_segment_is_read_where_nothing_else_has_it() -> None:
    straddling = segment(2, 60, 119, (0, 60), (1, 100))
    ledger = ledger_of(segment(1, 0, 59), straddling, segment(3, 80, 149, (2, 80)))
    lineage = (EpochEntry(0, 0), EpochEntry(2, 80))
    assert taken(pieces_of(ledger, lineage, 0, 150)[0]) == [(1, 0, 60), (2, 60, 80), (3, 80, 150)]


def test_gaps_within_are_told_and_read_over() -> None:
    ledger = ledger_of(segment(1, 0, 9), segment(2, 20, 29, (0, 20)), segment(3, 40, 49, (1, 40)))
    pieces, gaps = pieces_of(ledger, (EpochEntry(0, 0), EpochEntry(1, 35)), 0, 100)
    assert taken(pieces) == [(1, 0, 10), (2, 20, 30), (3, 40, 50)]
    assert gaps == [Gap(10, 20), Gap(30, 40), Gap(50, 100)]


@pytest.mark.parametrize(("first", "end"), [(0, 20), (5, 20), (12, 18), (12, 25), (10, 20)])
def test_a_range_that_ends_or_lies_in_a_gap_lacks_it_too(first: int, end: int) -> None:
    ledger = ledger_of(segment(1, 0, 9), segment(2, 20, 29))
    _, gaps = pieces_of(ledger, ONE_EPOCH, first, end)
    assert gaps == [Gap(max(first, 10), min(end, 20))]


def test_what_can_be_read_begins_with_the_history_that_survived() -> None:
    """Of the lost one more is left in the tier than of the other."""
    ledger = ledger_of(segment(1, 0, 59, (0, 0), (1, 40)), segment(2, 60, 99, (1, 60)), segment(3, 80, 149, (2, 80)))
    assert first_readable(ledger, (EpochEntry(0, 0), EpochEntry(2, 80)), 150) == 0
    assert first_readable(ledger, (EpochEntry(0, 0), EpochEntry(2, 40)), 150) == 0
    assert first_readable(ledger, (EpochEntry(2, 40),), 150) == 80
    assert first_readable(ledger, (EpochEntry(1, 50), EpochEntry(2, 70)), 150) == 50
    assert first_readable(ledger, (EpochEntry(3, 0),), 150) == 150


def test_only_the_wanted_offsets() -> None:
    ledger = ledger_of(segment(1, 0, 9), segment(2, 10, 19))
    assert taken(pieces_of(ledger, ONE_EPOCH, 5, 12)[0]) == [(1, 5, 10), (2, 10, 12)]
    assert pieces_of(ledger, ONE_EPOCH, 30, 40) == ([], [Gap(30, 40)])


def test_history_is_the_youngest_segments() -> None:
    old, young = segment(1, 0, 199), segment(2, 60, 99, (3, 60))
    ledger = ledger_of(old, young)
    assert youngest(ledger).segment_id == young.segment_id
    assert history(young, [EpochEntry(0, 0), EpochEntry(3, 60), EpochEntry(4, 100)]) == (
        EpochEntry(0, 0),
        EpochEntry(3, 60),
    )
    assert history(young, []) == (EpochEntry(3, 60),)
    assert youngest(ledger_of()) is None


@given(st.integers(0, 2**32))
def test_splits_hold_every_wanted_offset_once(seed: int) -> None:
    """Against batches laid out at random, an index with an entry for some of them, and any split size."""
    rng = random.Random(seed)
    batches, index, offset, position = [], OffsetIndex(0), 0, 0
    for _ in range(rng.randrange(1, 30)):
        last, size = offset + rng.randrange(0, 5), rng.randrange(61, 400)
        batches.append((position, offset, last))
        if position and rng.random() < 0.4:
            index.append(last, position)
        offset, position = last + 1, position + size
    metadata = segment(1, 0, offset - 1, size=position)
    first = rng.randrange(offset)
    piece = Piece(metadata, first, rng.randrange(first + 1, offset + 1))
    splits = list(cut(piece, index, rng.randrange(1, 1500), Selection()))
    starts = {at for at, _, _ in batches} | {position}
    assert {split.start for split in splits} | {split.end for split in splits} <= starts
    seen = [
        o
        for split in splits
        for at, low, high in batches
        if split.start <= at < split.end
        for o in range(low, high + 1)
    ]
    assert [o for o in seen if piece.first_offset <= o < piece.end_offset] == list(
        range(piece.first_offset, piece.end_offset)
    )


def index_of(*entries: tuple[int, int]) -> OffsetIndex:
    index = OffsetIndex(0)
    for offset, position in entries:
        index.append(offset, position)
    return index


def test_splits_leave_out_bytes_that_are_not_wanted() -> None:
    index = index_of(*((at * 10 + 9, at * 100) for at in range(1, 10)))
    splits = list(cut(Piece(segment(1, 0, 99), 35, 52), index, 100, Selection()))
    assert [(split.start, split.end) for split in splits] == [(200, 300), (300, 400), (400, 500), (500, 600)]


@pytest.mark.parametrize("entries", [[(0, 500)], [(99, 400), (100, 600)]])
def test_a_whole_segment_is_read_whatever_its_index_says(entries: list[tuple[int, int]]) -> None:
    splits = list(cut(Piece(segment(1, 0, 99), 0, 100), index_of(*entries), 10_000, Selection()))
    assert [(split.start, split.end) for split in splits] == [(0, 1000)]


@pytest.mark.parametrize(("first", "end", "count"), [(0, 10, 0), (0, 11, 1), (20, 30, 1), (21, 30, 0)])
def test_aborted_transactions_go_with_the_splits_that_they_touch(first: int, end: int, count: int) -> None:
    aborted = [AbortedTransaction(1, 10, 20, 21)]
    (selection,) = selections([Piece(segment(1, 0, 99), first, end)], aborted)
    assert len(selection.aborted) == count


@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 60)), max_size=20),
    st.lists(st.integers(1, 40), min_size=1, max_size=8),
)
def test_each_piece_has_the_aborted_transactions_that_reach_into_it(
    spans: list[tuple[int, int]], sizes: list[int]
) -> None:
    aborted = [AbortedTransaction(number, first, first + size, 0) for number, (first, size) in enumerate(spans)]
    pieces, at = [], 0
    for size in sizes:
        pieces.append(Piece(segment(1, 0, 999), at, at + size))
        at += size
    for piece, selection in zip(pieces, selections(pieces, aborted), strict=True):
        assert set(selection.aborted) == {
            one for one in aborted if one.first_offset < piece.end_offset and one.last_offset >= piece.first_offset
        }


@pytest.mark.parametrize(("first", "end", "expected"), [(0, 100, True), (0, 99, False), (1, 100, False)])
def test_a_piece_is_whole_or_not(first: int, end: int, expected: bool) -> None:
    assert is_whole(Piece(segment(1, 0, 99), first, end)) is expected
