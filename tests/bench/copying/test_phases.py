"""Phases take turns, latencies begin when a record is due, and a reading needs evidence."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.bench.copying.evidence import Lateness, late_share, reading
from tierfetch.bench.copying.phases import (
    Case,
    Phase,
    cases,
    due_count,
    due_s,
    is_long_enough,
    phases_of,
    quantiles,
)
from tierfetch.bench.copying.report import add_pooled, add_round, growth, row, verdict
from tierfetch.bench.copying.session import IN_BROKER, SWITCH_INTERVAL, Measured
from tierfetch.bench.measure import Results


@given(st.integers(0, 1_000))
def test_a_round_has_both_phases_and_the_next_one_the_other_way_round(number: int) -> None:
    assert set(phases_of(number)) == set(Phase)
    assert phases_of(number + 1) == phases_of(number)[::-1]


def test_a_case_is_a_tier_with_each_interval() -> None:
    assert cases(["local", "s3"], []) == [Case("local"), Case("s3")]
    assert [case.name for case in cases(["s3"], [], [False, True])] == ["s3, copies in the broker", "s3"]
    assert [case.name for case in cases(["s3"], [5.0, 0.5])] == [
        "s3, switch interval 5 ms",
        "s3, switch interval 0.5 ms",
    ]


@given(st.floats(0, 100), st.floats(1, 10_000))
def test_every_record_that_is_due_is_counted_and_no_other(passed_s: float, records_per_s: float) -> None:
    count = due_count(passed_s, records_per_s)
    assert due_s(count - 1, records_per_s) <= passed_s + 1e-9
    assert due_s(count, records_per_s) >= passed_s - 1e-9


def test_quantiles_are_values_that_occurred() -> None:
    assert quantiles([float(value) for value in range(1000, 0, -1)]) == {"p50": 501, "p99": 991, "p99.9": 1000}
    assert quantiles([7.0]) == {"p50": 7, "p99": 7, "p99.9": 7}
    with pytest.raises(ValueError, match="no record"):
        quantiles([])


def test_the_highest_quantile_needs_enough_records() -> None:
    assert not is_long_enough([1.0] * 1_999)
    assert is_long_enough([1.0] * 2_001)


def scrape(**counts: int) -> dict[str, float]:
    """Cumulative counts up to 10 ms, 20 ms and more."""
    names = {"a": "0.01", "b": "0.02", "rest": "+Inf"}
    return {f"pause_bucket{{{names[name]}}}": float(count) for name, count in counts.items()} | {"pause_sum": 3.0}


def test_only_late_ticks_between_the_scrapes_count() -> None:
    assert late_share(scrape(a=50, b=60, rest=60), scrape(a=130, b=150, rest=160)) == 0.2
    assert late_share(scrape(a=5, b=5, rest=5), scrape(a=5, b=5, rest=5)) == 0.0


@pytest.mark.parametrize(
    ("late", "alone", "expected"),
    [
        (Lateness(0.02, 0.02, 0.02), Lateness(0, 0, 0), "few late ticks"),
        (Lateness(0.3, 0.15, 0.3), Lateness(0, 0, 0), "the loop computes"),
        (Lateness(0.3, 0.1, 0.15), Lateness(0, 0, 0), "the machine"),
        (Lateness(0.3, 0.1, 0.1), Lateness(0.2, 0.05, 0), "the machine"),
        (Lateness(0.3, 0.1, 0.1), Lateness(0.2, 0.15, 0), "the copy's threads"),
    ],
)
def test_a_reading_follows_from_what_was_late(late: Lateness, alone: Lateness, expected: str) -> None:
    assert reading(late, alone) == expected


def measured(*latencies_ms: float, copied_mb_per_s: float = 0.0) -> Measured:
    late = Lateness(0.3, 0.1, 0.05) if copied_mb_per_s else Lateness(0.0, 0.0, 0.0)
    return Measured(list(latencies_ms), 0.25, 0.5, late, copied_mb_per_s)


def test_a_row_compares_within_rounds() -> None:
    results, case = Results(), Case("s3")
    for alone, copying in ((10.0, 30.0), (20.0, 20.0), (10.0, 20.0)):
        add_round(
            results,
            case,
            {Phase.ALONE: measured(alone), Phase.COPYING: measured(copying, copied_mb_per_s=80.0)},
        )
    add_pooled(results, case, Phase.COPYING, [1.0] * 5_000 + [9.0] * 10)
    add_pooled(results, case, Phase.ALONE, [1.0])
    assert growth(results, case) == [3.0, 1.0, 2.0]
    assert row(results, case, Phase.COPYING) == [
        *("20.0", "20.0", "20.0", "9.0", "2.00 (1.00 to 3.00), goal 2: reached", "80", "25, 50", "30.0: 10.0, 5.0"),
        "the copy's threads",
    ]
    assert row(results, case, Phase.ALONE)[3:6] == ["", "", ""]


def test_the_goal_is_about_the_median_round() -> None:
    assert verdict([1.0, 2.1, 2.1]).endswith("missed")
    assert verdict([1.0, 1.9, 9.0]).endswith("reached")


def test_a_broker_has_the_switch_interval_that_it_is_given() -> None:
    environment = {**os.environ, "PYTHONPATH": str(IN_BROKER), SWITCH_INTERVAL: "0.5"}
    command = [sys.executable, "-c", "import sys; print(sys.getswitchinterval())"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert float(done.stdout) == pytest.approx(0.0005)
