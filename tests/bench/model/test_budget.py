"""How long a session will take, before anything of it is run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.bench.model.budget import Step, correction, expected, expected_s
from tierfetch.bench.model.draw import drawn
from tierfetch.bench.model.progress import about, budget_rows, left
from tierfetch.bench.model.record import Record
from tierfetch.bench.model.scenario import Kind, Scenario
from tierfetch.tests.bench.model.fake_labs import timing

PLAIN = Scenario(name="plain", total_mb=100, is_tiered=False)


@given(seed=st.integers(0, 2**32), runs=st.integers(1, 9))
def test_every_step_of_what_is_drawn_takes_some_time_and_more_runs_take_more(seed: int, runs: int) -> None:
    for scenario in (*drawn(seed, 3), *drawn(seed, 3, networks=True)):
        found = expected(scenario, "tierfetch", runs)
        assert set(found) == set(Step)
        assert all(seconds > 0 for seconds in found.values())
        assert expected_s(scenario, "tierfetch", runs + 1) > expected_s(scenario, "tierfetch", runs)
        assert expected_s(scenario, "kafka", runs) > expected_s(scenario, "tierfetch", runs)


@pytest.mark.parametrize(
    "longer",
    [
        replace(PLAIN, total_mb=400),
        replace(PLAIN, brokers=6),
        replace(PLAIN, throttle_mb_s=10.0),
        replace(PLAIN, is_tiered=True),
        replace(PLAIN, produce_mb_s=1.0),
        replace(PLAIN, brokers=3, behind_mb=50),
        replace(PLAIN, latency_ms=900, is_tiered=True),
        replace(PLAIN, kind=Kind.ADD, brokers=3, partitions=60, wave_partitions=2),
    ],
)
def test_what_a_scenario_has_more_takes_longer(longer: Scenario) -> None:
    assert expected_s(longer, "tierfetch", 5) > expected_s(PLAIN, "tierfetch", 5)


def test_what_the_session_has_spent_corrects_the_rest(tmp_path: Path) -> None:
    record = Record(tmp_path / "model.json", "x")
    assert correction(record.tests) == 1.0
    entry = record.entry(PLAIN, "kafka", is_test=True)
    entry.runs, entry.spent_s = [timing(1.0)] * 5, {Step.RUNS: 3 * expected_s(PLAIN, "kafka", 5)}
    other = replace(PLAIN, name="other")
    found = left(record.tests, "kafka", dict.fromkeys((PLAIN, other), 5))
    assert found.seconds == {other: pytest.approx(3 * expected_s(other, "kafka", 5))}


def test_the_budget_has_a_row_for_each_scenario_and_one_for_all(tmp_path: Path) -> None:
    record = Record(tmp_path / "model.json", "x")
    record.entry(PLAIN, "tierfetch", is_test=True).runs = [timing(1.0)] * 5
    other = replace(PLAIN, name="other")
    both = [left(record.tests, system, dict.fromkeys((PLAIN, other), 5)) for system in ("tierfetch", "kafka")]
    rows = {row[0]: row[1:] for row in budget_rows(both)}
    assert set(rows) == {"scenario", "plain", "other", "all"}
    assert rows["scenario"] == ("tierfetch", "kafka")
    assert rows["plain"] == ("-", about(expected_s(PLAIN, "kafka", 5)))
    assert rows["all"] == tuple(about(sum(each.seconds.values())) for each in both)


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "1 s"), (45.4, "45 s"), (61, "1 min"), (5400, "90 min")])
def test_a_time_is_said_no_more_exactly_than_it_is_known(seconds: float, text: str) -> None:
    assert about(seconds) == f"about {text}"
