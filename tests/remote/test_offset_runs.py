"""Runs of offsets against plain sets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.remote.core import OffsetRuns

ranges = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), max_size=12)


@given(ranges, st.integers(0, 60), st.integers(0, 60))
def test_runs_hold_what_was_added(added: list[tuple[int, int]], offset: int, count: int) -> None:
    runs, plain = OffsetRuns(), set()
    for start, size in added:
        runs.add(start, start + size)
        plain.update(range(start, start + size))
    end = offset
    while end in plain:
        end += 1
    assert runs.end_of_run(offset) == end
    assert runs.holds(offset, offset + count) == plain.issuperset(range(offset, offset + count))
    joined = zip(runs._ends, runs._starts[1:], strict=False)
    assert all(end < start for end, start in joined), "runs that touch are one"


@pytest.mark.parametrize(
    ("offset", "end"), [(0, 0), (9, 9), (10, 40), (25, 40), (39, 40), (40, 40), (50, 50), (60, 70), (70, 70), (99, 99)]
)
def test_a_run_ends_at_the_first_gap(offset: int, end: int) -> None:
    runs = OffsetRuns()
    for start, stop in ((60, 70), (10, 30), (15, 20), (30, 40)):
        runs.add(start, stop)
    assert runs.end_of_run(offset) == end
