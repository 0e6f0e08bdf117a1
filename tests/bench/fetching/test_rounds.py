"""Rounds are fair, and what is compared was measured in one round."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.bench.fetching.report import BENCHMARK, CPU, FIRST, THROUGHPUT, rounds_text, row
from tierfetch.bench.fetching.rounds import Case, best_of_each_round, cases, in_turn, ratios
from tierfetch.bench.measure import Results


def test_every_case_has_a_name_of_its_own() -> None:
    found = list(cases(["local", "tiered"], ["warm", "cold"], [1, 8]))
    assert len({case.name for case in found}) == 8
    assert (found[0].name, found[-1].name) == ("local, warm, 1 connection", "tiered, cold, 8 connections")


@given(st.integers(1, 6), st.integers(0, 100))
def test_each_contestant_is_the_first_one_equally_often(count: int, start: int) -> None:
    orders = [in_turn(range(count), number) for number in range(start, start + count)]
    assert {order[0] for order in orders} == set(range(count))
    assert all(sorted(order) == list(range(count)) for order in orders)


def test_the_ceiling_of_a_round_is_the_better_loop_of_that_round() -> None:
    assert best_of_each_round({"a": [1.0, 5.0], "b": [2.0, 3.0]}) == [2.0, 5.0]


def test_ratios_are_within_rounds() -> None:
    assert ratios([1.0, 8.0], [2.0, 4.0]) == [0.5, 2.0]
    with pytest.raises(ValueError, match="longer"):
        ratios([1.0], [1.0, 2.0])


def test_every_round_is_shown_and_groups_are_named() -> None:
    assert rounds_text([560.0, 110.0, 540.0, 120.0]) == "560, 110, 540, 120 (in 2 groups)"
    assert rounds_text([500.0, 510.0]) == "500, 510"


def test_a_row_has_shares_of_its_rounds() -> None:
    results, case = Results(), Case("local", "warm", 1)
    throughputs = {"tierfetch": [300.0, 900.0], "kafka": [200.0, 300.0], "sendfile": [600.0, 900.0]}
    for name, values in {**throughputs, "pread and send": [500.0, 1000.0]}.items():
        for value in values:
            results.add(BENCHMARK, case.name, name, THROUGHPUT, value, "MB/s")
            results.add(BENCHMARK, case.name, name, CPU, 1.0, "s/GB")
            results.add(BENCHMARK, case.name, name, FIRST, 2.0, "ms")
    assert row(results, case, "tierfetch") == [
        *("300, 900", "600", "0.70 (0.50 to 0.90)", "2.25 (1.50 to 3.00)"),
        *("1.00", "1.00 (1.00 to 1.00)", "2.0"),
    ]
    assert row(results, case, "kafka")[3] == ""
