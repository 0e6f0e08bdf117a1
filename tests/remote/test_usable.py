"""Which remote segments count for a replica: the index that is kept up to date against one that is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tierfetch.log.core import LeaderEpochCache
from tierfetch.remote.core import (
    Bounds,
    OffsetRuns,
    RemoteLogLedger,
    RemoteLogSegmentMetadata,
    UsableSegments,
    is_within_lineage,
)
from tierfetch.remote.core import ledger as ledger_module
from tierfetch.remote.core import usable as usable_module
from tierfetch.remote.core.ledger import CHANGES_KEPT

from .builders import (
    DELETE_FINISHED,
    DELETE_STARTED,
    FINISHED,
    PARTITION,
    epochs_of,
    ledger_of,
    segment,
    segment_id,
    update,
)

FIRST, SECOND = segment(1, 0, 99), segment(2, 100, 199)
LAST_OFFSET = 30


def starts(usable: UsableSegments) -> list[int]:
    return [metadata.start_offset for metadata in usable]


def advanced(usable: UsableSegments, ledger: RemoteLogLedger, bounds: Bounds) -> UsableSegments:
    while not usable.advance(ledger, bounds, 2):
        pass
    return usable


def test_a_segment_of_another_history_no_longer_counts_once_the_epochs_say_so() -> None:
    usable, ledger, epochs = UsableSegments(), ledger_of(FIRST, SECOND), epochs_of((0, 0))
    assert starts(advanced(usable, ledger, Bounds(epochs, 0, 250))) == [0, 100]
    epochs.assign(2, 150)
    assert starts(advanced(usable, ledger, Bounds(epochs, 0, 250))) == [0]
    assert starts(advanced(usable, ledger, Bounds(epochs_of((0, 0)), 0, 250))) == [0, 100]
    assert starts(advanced(usable, ledger, Bounds(epochs_of((0, 0), (1, 50)), 0, 250))) == []


def test_a_segment_beyond_the_logs_end_counts_once_the_log_has_grown_over_it() -> None:
    usable, ledger = UsableSegments(), ledger_of(FIRST, SECOND)
    for log_end_offset, expected in ((199, [0]), (200, [0, 100]), (199, [0])):
        assert starts(advanced(usable, ledger, Bounds(epochs_of((0, 0)), 0, log_end_offset))) == expected


def test_what_was_found_missing_counts_again_once_it_is_included() -> None:
    usable, ledger, bounds = UsableSegments(), ledger_of(FIRST, SECOND), Bounds(epochs_of((0, 0)), 0, 250)
    usable.exclude(segment_id(1))
    assert starts(advanced(usable, ledger, bounds)) == [100]
    usable.include(segment_id(1))
    assert starts(usable) == [0, 100]
    usable.exclude(segment_id(2))
    assert starts(usable) == [0]


def test_a_follower_that_is_too_late_for_the_changes_looks_at_all_again() -> None:
    usable, ledger, bounds = UsableSegments(), ledger_of(FIRST), Bounds(epochs_of((0, 0)), 0, 10_000)
    advanced(usable, ledger, bounds)
    for number in range(2, CHANGES_KEPT):
        ledger.apply(segment(number, 100 + number, 100 + number))
        ledger.apply(update(number, FINISHED))
    assert ledger.changes_since(2) is None
    assert len(advanced(usable, ledger, bounds)) == CHANGES_KEPT - 1


class Model:
    """The same questions, computed from all segments each time."""

    def __init__(self, ledger: RemoteLogLedger, bounds: Bounds, excluded: set[int]) -> None:
        self.live = [
            metadata
            for metadata in ledger.finished()
            if bounds.log_start_offset <= metadata.end_offset < bounds.log_end_offset
            and is_within_lineage(metadata, bounds.epochs, bounds.log_end_offset)
            and metadata.segment_id.id.int not in excluded
        ]

    def sizes(self) -> list[int]:
        sizes, next_offset = [], 0
        for metadata in self.live:
            start, end = metadata.start_offset, metadata.end_offset + 1
            whole = metadata.segment_size_in_bytes
            sizes.append(whole if start >= next_offset else whole * max(0, end - next_offset) // (end - start))
            next_offset = max(next_offset, end)
        return sizes

    def check(self, usable: UsableSegments) -> None:
        assert list(usable) == self.live
        assert [size for _, size in usable.with_sizes()] == self.sizes()
        assert usable.size_bytes == sum(self.sizes())
        assert usable.end_offset == max((metadata.end_offset + 1 for metadata in self.live), default=None)
        runs = OffsetRuns.of(self.live)
        for offset in range(LAST_OFFSET + 2):
            assert usable.end_of_run(offset) == runs.end_of_run(offset), (offset, self.live)
            reaching = [m for m in self.live if m.end_offset >= offset and m.start_offset < offset + 5]
            assert usable.overlapping(offset, offset + 5) == reaching


happenings = st.lists(
    st.one_of(
        st.tuples(st.just("finish"), st.integers(0, LAST_OFFSET), st.integers(0, LAST_OFFSET), st.integers(0, 3)),
        st.tuples(st.sampled_from(["delete", "exclude", "include", "forget", "again"]), st.integers(0, 40)),
        st.tuples(st.sampled_from(["start", "end", "lower"]), st.integers(0, LAST_OFFSET)),
        st.tuples(st.just("epoch"), st.integers(0, 3), st.integers(0, LAST_OFFSET)),
        st.tuples(st.just("look"), st.integers(1, 3)),
    ),
    max_size=40,
)


class World:
    """One ledger, one replica's log, and the index that follows both, now and then."""

    def __init__(self) -> None:
        self.ledger = RemoteLogLedger(PARTITION)
        self.epochs = epochs_of((0, 0))
        self.log_start, self.log_end, self.count = 0, LAST_OFFSET // 2, 0
        self.excluded: set[int] = set()
        self.usable = UsableSegments()

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.epochs, self.log_start, self.log_end)

    def happen(self, what: str, first: int, *rest: int) -> None:
        if what == "finish":
            self.count += 1
            start, end = sorted((first, rest[0]))
            self.ledger.apply(segment(self.count, start, end, (rest[1], start)))
            self.ledger.apply(update(self.count, FINISHED))
        elif what in {"delete", "exclude", "include", "forget", "again"} and self.count:
            self.happen_to(what, 1 + first % self.count)
        elif what == "start":
            self.log_start = min(max(self.log_start, first), self.log_end)
            self.epochs.truncate_from_start(self.log_start)
        elif what == "end":
            self.log_end = max(first, self.log_start)
            self.epochs.truncate_from_end(max(self.log_end, 1))
        elif what == "lower":
            self.log_start = min(self.log_start, first)
        elif what == "epoch":
            self.epochs.assign(first, rest[0])
        elif what == "look":
            self.usable.advance(self.ledger, self.bounds, first)

    def happen_to(self, what: str, number: int) -> None:
        known = self.ledger.get(segment_id(number))
        if what == "exclude":
            self.usable.exclude(segment_id(number))
            self.excluded.add(number)
        elif what == "include":
            self.usable.include(segment_id(number))
            self.excluded.discard(number)
        elif known is None:
            return
        elif what == "delete" and known.state is FINISHED:
            self.ledger.apply(update(number, DELETE_STARTED))
        elif what == "forget" and known.state is DELETE_STARTED:
            self.ledger.apply(update(number, DELETE_FINISHED))
        elif what == "again" and known.state is FINISHED:
            self.ledger.apply(update(number, FINISHED, event_timestamp_ms=3_000, custom_metadata=b"moved"))


@given(happenings, st.booleans())
@settings(max_examples=300, deadline=None)
def test_the_index_says_what_a_look_at_all_segments_says(history: list[tuple[Any, ...]], looks_each_time: bool) -> None:
    world = World()
    for happening in history:
        world.happen(*happening)
        if looks_each_time:
            advanced(world.usable, world.ledger, world.bounds)
            Model(world.ledger, world.bounds, world.excluded).check(world.usable)
    advanced(world.usable, world.ledger, world.bounds)
    Model(world.ledger, world.bounds, world.excluded).check(world.usable)


def counted(monkeypatch: pytest.MonkeyPatch, counts: list[int], module: Any, name: str) -> None:
    original: Callable[..., Any] = getattr(module, name)

    def count(*args: Any) -> Any:
        counts[0] += 1
        return original(*args)

    monkeypatch.setattr(module, name, count)


@pytest.mark.parametrize("segments", [1_000, 16_000])
def test_D8_an_event_looks_at_a_few_segments_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch, segments: int
) -> None:
    """Of a copy, and of a deletion: by segments unpacked, judged, or compared by a key."""
    ledger, epochs = RemoteLogLedger(PARTITION), LeaderEpochCache(epochs_of((0, 0)).entries)
    many = [segment(number, 10 * number, 10 * number + 9) for number in range(segments)]
    for metadata in many:
        finish(ledger, metadata)
    usable = UsableSegments.of(ledger, Bounds(epochs, 0, 10 * segments))
    counts = [0]
    for name in ("unpack", "offsets_of", "_end_order", "end_key"):
        counted(monkeypatch, counts, ledger_module, name)
    for name in ("unpack", "offsets_of", "is_within_lineage"):
        counted(monkeypatch, counts, usable_module, name)
    finish(ledger, segment(segments, 10 * segments, 10 * segments + 9))
    usable.advance(ledger, Bounds(epochs, 0, 10 * segments + 10), 512)
    ledger.apply(update(0, DELETE_STARTED))
    ledger.apply(update(0, DELETE_FINISHED))
    usable.advance(ledger, Bounds(epochs, 10, 10 * segments + 10), 512)
    assert (usable.end_of_run(10), len(usable)) == (10 * segments + 10, segments)
    assert ledger.newest_epoch == 0
    assert counts[0] <= 70


def finish(ledger: RemoteLogLedger, metadata: RemoteLogSegmentMetadata) -> None:
    ledger.apply(metadata)
    ledger.apply(update(metadata.segment_id.id.int, FINISHED))
