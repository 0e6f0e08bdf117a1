"""What a thin replica takes back from the tier, and in which order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tierfetch.remote.core import RemoteLogSegmentMetadata
from tierfetch.rlm.core.view import TierMode, TierPolicy
from tierfetch.rlm.core.warming import ThinView, to_warm
from tierfetch.tests.remote.builders import epochs_of, ledger_of, segment

UNLIMITED = TierPolicy(TierMode.COPYING, -1, -1, -1, -1)
THIN = ThinView(
    epochs=epochs_of((0, 0), (2, 80)),
    log_start_offset=0,
    local_log_start_offset=150,
    log_end_offset=200,
    local_bytes=10,
    policy=UNLIMITED,
)
SEGMENTS = (segment(1, 0, 59, (0, 0)), segment(2, 60, 99, (0, 60), (2, 80)), segment(3, 100, 149, (2, 100)))
SIZE = SEGMENTS[0].segment_size_in_bytes


def taken(*segments: RemoteLogSegmentMetadata, view: ThinView = THIN, now_ms: int = 0) -> list[tuple[int, int | None]]:
    """(segment, the one before it) by number."""
    return [
        (each.segment.segment_id.id.int, None if each.before is None else each.before.segment_id.id.int)
        for each in to_warm(ledger_of(*segments), view, now_ms).segments
    ]


def test_F11_newest_first_down_to_the_log_start() -> None:
    assert taken(*SEGMENTS) == [(3, 2), (2, 1), (1, None)]


def test_nothing_where_nothing_is_missing() -> None:
    assert taken(*SEGMENTS, view=replace(THIN, log_start_offset=150)) == []
    assert taken(view=THIN) == []


def test_the_log_start_may_lie_within_the_last_one() -> None:
    assert taken(*SEGMENTS, view=replace(THIN, log_start_offset=70)) == [(3, 2), (2, 1)]
    without_first = replace(THIN, log_start_offset=70, epochs=epochs_of((0, 70), (2, 80)))
    assert taken(*SEGMENTS[1:], view=without_first) == [(3, 2), (2, None)]


def test_a_segment_whose_producers_are_not_to_be_had_stays_where_it_is() -> None:
    assert taken(*SEGMENTS[1:]) == [(3, 2)]
    assert taken(SEGMENTS[0], SEGMENTS[2]) == []
    assert not to_warm(ledger_of(*SEGMENTS[1:]), THIN, 0).is_all
    assert to_warm(ledger_of(*SEGMENTS), THIN, 0).is_all


def pieces(*segments: RemoteLogSegmentMetadata) -> list[tuple[int, int, int, int | None]]:
    """(segment, from where on, its bytes, the one that ends there)."""
    return [
        (
            each.segment.segment_id.id.int,
            each.start_offset,
            each.size_bytes,
            None if each.before is None else each.before.segment_id.id.int,
        )
        for each in to_warm(ledger_of(*segments), THIN, 0).segments
    ]


def test_a_segment_that_overlaps_the_one_before_it_is_taken_from_there_on() -> None:
    """Another leader cut its segments elsewhere."""
    later = segment(6, 40, 149, (0, 40), (2, 80))
    assert pieces(SEGMENTS[0], later) == [(6, 60, 900, 1), (1, 0, 600, None)]
    within = segment(7, 50, 119, (0, 50), (2, 80))
    assert pieces(SEGMENTS[0], within, later) == [(6, 60, 900, 1), (1, 0, 600, None)], "from the lowest end on"
    assert pieces(within, later) == [(6, 120, 300, 7)], "what lies below begins nowhere that is known"


def test_only_what_lies_whole_on_the_lineage() -> None:
    lost = segment(4, 100, 149, (1, 100))
    assert taken(SEGMENTS[0], SEGMENTS[1], lost) == []
    assert taken(*SEGMENTS, lost)[0] == (3, 2)


def test_only_the_first_may_reach_beyond_the_local_start() -> None:
    across = segment(5, 100, 169, (2, 100))
    assert taken(SEGMENTS[0], SEGMENTS[1], across) == [(5, 2), (2, 1), (1, None)]
    assert taken(*SEGMENTS, across) == [(3, 2), (2, 1), (1, None)], "the one that fits is preferred"


@pytest.mark.parametrize(("room", "count"), [(0, 0), (1, 1), (2, 2), (3, 3)])
def test_as_much_as_local_retention_by_size_keeps(room: int, count: int) -> None:
    policy = TierPolicy(TierMode.COPYING, -1, -1, -1, THIN.local_bytes + room * SIZE)
    assert len(taken(*SEGMENTS, view=replace(THIN, policy=policy))) == count


def test_as_long_as_local_retention_by_time_keeps() -> None:
    times = (1_000, 2_000, 3_000)
    segments = [replace(each, max_timestamp_ms=time) for each, time in zip(SEGMENTS, times, strict=True)]
    policy = TierPolicy(TierMode.COPYING, -1, -1, 500, -1)
    assert taken(*segments, view=replace(THIN, policy=policy), now_ms=2_500) == [(3, 2), (2, 1)]
