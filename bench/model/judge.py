"""Predicted against measured. Pure.

error      (predicted - median measured) / median measured
spread     (slowest - quickest run) / median measured

verdict          when
---------------  -----------------------------------------------------------
not measurable   the spread is above `SPREAD_MAX`: the runs differ too much among themselves to judge anything by
good             the error is at most `GOOD`, either way
fair             at most `FAIR`
wrong            above, or the broker joined where it should not have, or did not where it should
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

GOOD: Final = 0.10
FAIR: Final = 0.25
SPREAD_MAX: Final = 0.25
RUNS_MIN: Final = 5


class Verdict(StrEnum):
    GOOD = "good"
    FAIR = "fair"
    WRONG = "wrong"
    NOT_MEASURABLE = "not measurable"
    TOO_FEW_RUNS = "too few runs"


@dataclass(frozen=True, slots=True)
class Judgement:
    """One scenario of one system. Seconds; `measured_s` infinite where the broker never joined."""

    predicted_s: float
    measured_s: float
    quickest_s: float
    slowest_s: float
    error: float
    spread: float
    verdict: Verdict

    @property
    def counts(self) -> bool:
        return self.verdict in (Verdict.GOOD, Verdict.FAIR, Verdict.WRONG)


def judged(predicted_s: float, measured_s: Sequence[float], runs_min: int = RUNS_MIN) -> Judgement:
    """Judge the prediction by at least one run."""
    assert measured_s, "nothing was measured"
    median = statistics.median(measured_s)
    quickest, slowest = min(measured_s), max(measured_s)
    if not (math.isfinite(predicted_s) and math.isfinite(slowest)):
        agree = math.isinf(predicted_s) and math.isinf(quickest)
        verdict = Verdict.GOOD if agree else Verdict.WRONG
        return Judgement(predicted_s, median, quickest, slowest, 0.0 if agree else math.inf, 0.0, verdict)
    error, spread = (predicted_s - median) / median, (slowest - quickest) / median
    return Judgement(
        predicted_s, median, quickest, slowest, error, spread, _verdict(error, spread, len(measured_s) >= runs_min)
    )


def _verdict(error: float, spread: float, is_enough: bool) -> Verdict:
    if not is_enough:
        return Verdict.TOO_FEW_RUNS
    if spread > SPREAD_MAX:
        return Verdict.NOT_MEASURABLE
    if abs(error) <= GOOD:
        return Verdict.GOOD
    return Verdict.FAIR if abs(error) <= FAIR else Verdict.WRONG


@dataclass(frozen=True, slots=True)
class Summary:
    """Over the scenarios that count; errors None without any."""

    scenarios: int
    not_measurable: int
    median_error: float | None
    worst_error: float | None

    @property
    def holds(self) -> bool:
        """Whether it is as good as it is meant to be."""
        return (
            self.median_error is not None
            and self.worst_error is not None
            and self.median_error <= GOOD
            and self.worst_error <= FAIR
        )


def summary(judgements: Sequence[Judgement]) -> Summary:
    errors = [abs(each.error) for each in judgements if each.counts]
    return Summary(
        scenarios=len(judgements),
        not_measurable=sum(each.verdict is Verdict.NOT_MEASURABLE for each in judgements),
        median_error=statistics.median(errors) if errors else None,
        worst_error=max(errors) if errors else None,
    )
