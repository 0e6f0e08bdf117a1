"""Verdicts on predictions."""

from __future__ import annotations

import math

import pytest

from tierfetch.bench.model.judge import Verdict, judged, summary


def test_error_is_of_the_median_and_signed() -> None:
    found = judged(1.05, [0.9, 1.0, 1.0, 1.0, 1.1])
    assert found.error == pytest.approx(0.05)
    assert found.spread == pytest.approx(0.2)
    assert found.verdict is Verdict.GOOD


@pytest.mark.parametrize(
    ("predicted", "verdict"),
    [(1.09, Verdict.GOOD), (0.91, Verdict.GOOD), (1.2, Verdict.FAIR), (0.76, Verdict.FAIR), (1.3, Verdict.WRONG)],
)
def test_verdicts(predicted: float, verdict: Verdict) -> None:
    assert judged(predicted, [1.0] * 5).verdict is verdict


def test_runs_that_differ_judge_nothing_even_if_the_median_fits() -> None:
    found = judged(1.0, [0.8, 1.0, 1.0, 1.0, 1.2])
    assert found.verdict is Verdict.NOT_MEASURABLE
    assert not found.counts


def test_too_few_runs_judge_nothing() -> None:
    assert judged(1.0, [1.0] * 4).verdict is Verdict.TOO_FEW_RUNS


@pytest.mark.parametrize(
    ("predicted", "measured", "verdict"),
    [
        (math.inf, [math.inf] * 5, Verdict.GOOD),
        (1.0, [math.inf] * 5, Verdict.WRONG),
        (math.inf, [1.0] * 5, Verdict.WRONG),
        (1.0, [1.0, 1.0, 1.0, 1.0, math.inf], Verdict.WRONG),
    ],
)
def test_never_is_an_answer(predicted: float, measured: list[float], verdict: Verdict) -> None:
    assert judged(predicted, measured).verdict is verdict


def test_summary_leaves_out_what_is_not_measurable_and_counts_it() -> None:
    good, fair = judged(1.04, [1.0] * 5), judged(1.2, [1.0] * 5)
    noise = judged(9.0, [1.0, 2.0, 3.0, 4.0, 5.0])
    found = summary([good, good, fair, noise])
    assert (found.scenarios, found.not_measurable) == (4, 1)
    assert found.median_error == pytest.approx(0.04)
    assert found.worst_error == pytest.approx(0.2)
    assert found.holds


def test_summary_of_nothing_holds_nothing() -> None:
    assert not summary([]).holds
    assert not summary([judged(1.5, [1.0] * 5)]).holds
