"""What retention lets go of, as a table and against a naive model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.log.core import LogConfig
from tierfetch.log.core.retention import Expired, below_log_start, expired

NOW_MS = 1_000_000


@dataclass(frozen=True)
class Segment:
    next_offset: int
    size_bytes: int
    largest_timestamp_ms: int
    under_way_bytes: int = 0

    @property
    def written_bytes(self) -> int:
        return self.size_bytes - self.under_way_bytes


SEGMENTS = (Segment(10, 100, 1000), Segment(20, 100, 2000), Segment(30, 100, 3000), Segment(40, 50, 4000))
"""The last one is active."""


def decide(config: LogConfig, *, high_watermark: int = 40, log_start: int = 0, now_ms: int = NOW_MS) -> Expired:
    return expired(SEGMENTS, config, now_ms=now_ms, high_watermark=high_watermark, log_start_offset=log_start)


FOREVER: dict[str, Any] = {"retention_ms": -1, "retention_bytes": -1}


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, Expired(0)),
        ({"retention_bytes": 350}, Expired(0)),
        ({"retention_bytes": 250}, Expired(1)),
        ({"retention_bytes": 249}, Expired(1)),
        ({"retention_bytes": 50}, Expired(3)),
        ({"retention_bytes": 0}, Expired(4, roll_first=True)),
        ({"retention_ms": NOW_MS - 1000}, Expired(0)),
        ({"retention_ms": NOW_MS - 1001}, Expired(1)),
        ({"retention_ms": NOW_MS - 3001}, Expired(3)),
        ({"retention_ms": 0}, Expired(4, roll_first=True)),
        ({"retention_ms": 0, "remote_storage_enable": True}, Expired(0)),
        ({"retention_ms": 0, "cleanup_policy": frozenset({"compact"})}, Expired(0)),
        ({"retention_ms": 0, "cleanup_policy": frozenset({"compact", "delete"})}, Expired(4, roll_first=True)),
    ],
)
def test_limits(limits: dict[str, Any], expected: Expired) -> None:
    assert decide(LogConfig(**{**FOREVER, **limits})) == expected


@pytest.mark.parametrize(("high_watermark", "count"), [(0, 0), (9, 0), (10, 1), (29, 2), (30, 3), (39, 3)])
def test_nothing_that_is_not_committed_goes(high_watermark: int, count: int) -> None:
    assert decide(LogConfig(retention_ms=0), high_watermark=high_watermark) == Expired(count)


@pytest.mark.parametrize(("log_start", "count"), [(0, 0), (9, 0), (10, 1), (25, 2), (30, 3), (40, 3)])
@pytest.mark.parametrize("tiered", [False, True])
def test_what_lies_below_the_log_start_goes_but_never_the_active_segment(
    log_start: int, count: int, tiered: bool
) -> None:
    config = LogConfig(retention_ms=-1, retention_bytes=-1, remote_storage_enable=tiered)
    assert decide(config, log_start=log_start, high_watermark=0) == Expired(count)
    assert below_log_start(SEGMENTS, log_start) == Expired(count)


def test_a_batch_that_is_still_being_written_makes_no_room_for_itself() -> None:
    segments = (Segment(10, 100, 1000), Segment(20, 100, 2000), Segment(30, 50, 3000, under_way_bytes=50))
    config = LogConfig(retention_ms=-1, retention_bytes=150)
    assert expired(segments, config, now_ms=NOW_MS, high_watermark=20, log_start_offset=0) == Expired(0)


def test_an_empty_active_segment_stays() -> None:
    segments = (*SEGMENTS[:3], Segment(30, 0, 0))
    config = LogConfig(retention_ms=0)
    found = expired(segments, config, now_ms=NOW_MS, high_watermark=30, log_start_offset=0)
    assert found == Expired(3)


@given(
    sizes=st.lists(st.integers(0, 100), min_size=1, max_size=8),
    retention_bytes=st.integers(-1, 500),
    ages=st.lists(st.integers(0, 100), min_size=8, max_size=8),
    retention_ms=st.integers(-1, 100),
    high_watermark=st.integers(0, 9),
)
def test_the_oldest_that_breach_a_limit_go(
    sizes: list[int], retention_bytes: int, ages: list[int], retention_ms: int, high_watermark: int
) -> None:
    segments = [Segment(i + 1, size, NOW_MS - ages[i]) for i, size in enumerate(sizes)]
    config = LogConfig(retention_ms=retention_ms, retention_bytes=retention_bytes)
    found = expired(segments, config, now_ms=NOW_MS, high_watermark=high_watermark, log_start_offset=0)

    def may_go(index: int) -> bool:
        by_size = retention_bytes >= 0 and sum(sizes[index + 1 :]) >= retention_bytes
        by_time = retention_ms >= 0 and all(age > retention_ms for age in ages[: index + 1])
        return segments[index].next_offset <= high_watermark and (by_size or by_time)

    expected = 0
    while expected < len(segments) and may_go(expected):
        expected += 1
    if expected == len(segments) and sizes[-1] == 0:
        expected -= 1
    assert found.count == expected
    assert found.roll_first == (expected == len(segments))
