"""Verdicts on predictions."""

from __future__ import annotations

import math

import pytest

from tierfetch.bench.model.judge import Aim, Judgement, Verdict, judged, summary
from tierfetch.bench.model.report import sentence


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


GOOD_ONE = judged(1.04, [1.0] * 5)
FAIR_ONE = judged(1.2, [1.0] * 5)
WRONG_ONE = judged(1.5, [1.0] * 5)
NOISE = judged(1.0, [0.5, 1.0, 1.0, 1.0, 1.5])
HASTY = judged(1.0, [1.0])


def test_summary_of_what_was_judged() -> None:
    found = summary([GOOD_ONE, GOOD_ONE, FAIR_ONE])
    assert (found.scenarios, found.not_judged) == (3, 0)
    assert found.median_error == pytest.approx(0.04)
    assert found.worst_error == pytest.approx(0.2)
    assert found.aim is Aim.HOLDS


def test_summary_of_a_session_in_which_most_was_not_measurable_shows_nothing() -> None:
    found = summary([GOOD_ONE, GOOD_ONE, NOISE, NOISE, NOISE, NOISE])
    assert (found.scenarios, found.not_measurable) == (6, 4)
    assert found.median_error == math.inf
    assert found.aim is Aim.NOT_SHOWN


@pytest.mark.parametrize(("noisy", "aim"), [(1, Aim.HOLDS), (2, Aim.NOT_SHOWN)])
def test_one_scenario_in_ten_may_go_without_a_verdict(noisy: int, aim: Aim) -> None:
    assert summary([GOOD_ONE] * (10 - noisy) + [NOISE] * noisy).aim is aim


def test_what_was_not_judged_counts_against_the_median() -> None:
    """Nine errors of 4 % to 13 % have a median of 8 %; a tenth that is unknown makes it 10.5 %."""
    errors = [0.04, 0.04, 0.04, 0.04, 0.08, 0.13, 0.13, 0.13, 0.13]
    judgements = [judged(1 + error, [1.0] * 5) for error in errors]
    assert summary(judgements).aim is Aim.HOLDS
    with_noise = summary([*judgements, NOISE])
    assert with_noise.median_error == pytest.approx(0.105)
    assert with_noise.aim is Aim.DOES_NOT_HOLD


@pytest.mark.parametrize(("judgements", "failed"), [([GOOD_ONE] * 4 + [HASTY], 0), ([GOOD_ONE] * 4, 1)])
def test_failed_scenarios_and_too_few_runs_are_not_judged_either(judgements: list[Judgement], failed: int) -> None:
    found = summary(judgements, failed)
    assert (found.scenarios, found.not_judged) == (5, 1)
    assert found.aim is Aim.NOT_SHOWN


def test_a_wrong_prediction_refutes_the_aim_whatever_else_was_not_judged() -> None:
    assert summary([WRONG_ONE]).aim is Aim.DOES_NOT_HOLD
    assert summary([WRONG_ONE, NOISE, NOISE]).aim is Aim.DOES_NOT_HOLD


@pytest.mark.parametrize("judgements", [[], [NOISE, NOISE]])
def test_summary_of_nothing_shows_nothing(judgements: list[Judgement]) -> None:
    assert summary(judgements).aim is Aim.NOT_SHOWN


def test_the_sentence_says_what_is_not_shown_and_why() -> None:
    found = sentence("tierfetch", summary([GOOD_ONE, GOOD_ONE, NOISE, NOISE, NOISE, NOISE]))
    assert found == (
        "tierfetch: median error unlimited, worst 4%, of 6 scenarios, 4 not measurable; the aim (median 10%, worst 25%)"
        " is not shown: at most 10% of the scenarios may go without a verdict"
    )
    assert sentence("kafka", summary([GOOD_ONE])) == (
        "Apache Kafka 4.3.0: median error 4%, worst 4%, of 1 scenarios, all of them judged; the aim (median 10%, worst"
        " 25%) holds"
    )
    assert sentence("kafka", summary([NOISE], failed=1)) == (
        "Apache Kafka 4.3.0: none of 2 scenarios was judged (1 not measurable, 1 failed); the aim (median 10%, worst"
        " 25%) is not shown"
    )
