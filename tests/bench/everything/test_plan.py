"""Every benchmark is in the plan, or named as left out; and the plan fits into its time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.bench.__main__ import BENCHMARKS, SUITES
from tierfetch.bench.everything.plan import (
    BUDGET_S,
    NOT_PLANNED,
    PLAN,
    Entry,
    minutes,
    progress_line,
    time_limit_s,
    total_s,
)

ENTRY = Entry("x", "--runs 1", 100)


def test_every_benchmark_is_run_once() -> None:
    assert sorted(entry.name for entry in PLAN) == sorted({*BENCHMARKS, *SUITES} - NOT_PLANNED)


def test_suites_are_known_as_such() -> None:
    assert {entry.name for entry in PLAN if entry.is_suite} == set(SUITES) - NOT_PLANNED


def test_all_of_it_fits_into_half_an_hour() -> None:
    assert total_s(PLAN) <= BUDGET_S


def test_the_peer_is_left_out_where_there_is_nothing_to_compare_with() -> None:
    assert ENTRY.arguments("kafka") == ["x", "--runs", "1", "--against", "kafka"]
    assert Entry("x", "", 1, has_peer=False).arguments("kafka") == ["x", "--against", "nothing"]
    assert Entry("x", "y", 1, has_peer=False, is_suite=True).arguments("kafka") == ["x", "y"]


@pytest.mark.parametrize(
    ("elapsed_s", "expected"), [(0, 420.0), (1300, 420.0), (1500, 300.0), (1700, 100.0), (1700.5, None), (2000, None)]
)
def test_nothing_begins_that_would_not_end_in_time(elapsed_s: float, expected: float | None) -> None:
    assert time_limit_s(ENTRY, elapsed_s, 1800) == expected


@given(st.floats(0, 4000), st.sampled_from(PLAN))
def test_no_entry_lasts_beyond_the_budget(elapsed_s: float, entry: Entry) -> None:
    limit_s = time_limit_s(entry, elapsed_s, BUDGET_S)
    assert limit_s is None or elapsed_s + limit_s <= BUDGET_S + 1e-6


def test_the_line_of_an_entry_says_what_is_to_come() -> None:
    line = progress_line([ENTRY, Entry("y", "", 65), Entry("z", "", 60)], 1, 245.5)
    assert line == "[2/3] 4:05 min passed, about 2:05 to come: y"
    assert minutes(3599) == "59:59"
