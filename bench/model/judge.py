"""Predicted against measured. Pure.

error      (predicted - median measured) / median measured
spread     (slowest - quickest run) / median measured

verdict          when
---------------  -----------------------------------------------------------
not measurable   the spread is above `SPREAD_MAX`: the runs differ too much among themselves to judge anything by
good             the error is at most `GOOD`, either way
fair             at most `FAIR`
wrong            above, or the broker joined where it should not have, or did not where it should

A prediction says in which interval 80 % of all runs are. Over all scenarios of a session, each with the same weight:

coverage         the share of runs in it; a good interval has `COVERAGE`: fewer: too narrow, more: too wide
width            high / low, the median of the scenarios

What was not judged (not measurable, too few runs, failed) counts against the model: its error is taken as unlimited in
the median. The aim, over all scenarios of a session:

does not hold    a judged scenario is worse than `FAIR`, or the median is worse than `GOOD`
                 of drawn scenarios: more than a tenth is worse than `FAIR`, or the coverage is outside `COVERAGE`
not shown        else (of drawn scenarios: before all that), where nothing was judged, or more than `NOT_JUDGED_MAX` of
                 the scenarios were not
holds            else
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

GOOD: Final = 0.10
FAIR: Final = 0.25
SPREAD_MAX: Final = 0.25
RUNS_MIN: Final = 5
NOT_JUDGED_MAX: Final = 0.10
"""Share of the scenarios."""
UNFAIR_MAX: Final = 0.10
"""Share of drawn scenarios whose error may be above `FAIR`."""
COVERAGE: Final = (0.75, 0.90)


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


@dataclass(frozen=True, slots=True)
class Sureness:
    """What came of the intervals: of runs inside, [0, 1], and how wide they were."""

    coverage: float
    width: float


def sureness(intervals: Sequence[tuple[float, float]], measured: Sequence[Sequence[float]]) -> Sureness | None:
    """Return it for the scenarios whose runs and interval have an end; None without any."""
    found = [
        (sum(low <= each <= high for each in runs) / len(runs), high / low)
        for (low, high), runs in zip(intervals, measured, strict=True)
        if runs and low > 0 and math.isfinite(high)
    ]
    if not found:
        return None
    return Sureness(statistics.fmean(share for share, _ in found), statistics.median(width for _, width in found))


def drawn_aim(judgements: Sequence[Judgement], failed: int, sure: Sureness | None) -> Aim:
    """Return the verdict on drawn scenarios: too few that can be judged show nothing, whatever they say."""
    found = summary(judgements, failed)
    if found.median_error is None or found.not_judged > NOT_JUDGED_MAX * found.scenarios or sure is None:
        return Aim.NOT_SHOWN
    unfair = sum(each.verdict is Verdict.WRONG for each in judgements) + found.not_judged
    is_covered = COVERAGE[0] <= sure.coverage <= COVERAGE[1]
    if found.median_error <= GOOD and unfair <= UNFAIR_MAX * found.scenarios and is_covered:
        return Aim.HOLDS
    return Aim.DOES_NOT_HOLD


def _verdict(error: float, spread: float, is_enough: bool) -> Verdict:
    if not is_enough:
        return Verdict.TOO_FEW_RUNS
    if spread > SPREAD_MAX:
        return Verdict.NOT_MEASURABLE
    if abs(error) <= GOOD:
        return Verdict.GOOD
    return Verdict.FAIR if abs(error) <= FAIR else Verdict.WRONG


class Aim(StrEnum):
    """Whether the model is as good as it is meant to be."""

    HOLDS = "holds"
    DOES_NOT_HOLD = "does not hold"
    NOT_SHOWN = "not shown"


@dataclass(frozen=True, slots=True)
class Summary:
    """Over all scenarios of a session. `median_error` is infinite where half of them were not judged, `worst_error` is
    of those that were; None without any.
    """

    scenarios: int
    not_measurable: int
    too_few_runs: int
    failed: int
    median_error: float | None
    worst_error: float | None

    @property
    def not_judged(self) -> int:
        return self.not_measurable + self.too_few_runs + self.failed

    @property
    def aim(self) -> Aim:
        if self.median_error is None or self.worst_error is None:
            return Aim.NOT_SHOWN
        if self.worst_error > FAIR:
            return Aim.DOES_NOT_HOLD
        if self.not_judged > NOT_JUDGED_MAX * self.scenarios:
            return Aim.NOT_SHOWN
        return Aim.HOLDS if self.median_error <= GOOD else Aim.DOES_NOT_HOLD


def summary(judgements: Sequence[Judgement], failed: int = 0) -> Summary:
    """`failed`: scenarios that came to no judgement at all, because they could not be predicted or run."""
    errors = [abs(each.error) for each in judgements if each.counts]
    verdicts = Counter(each.verdict for each in judgements)
    scenarios = len(judgements) + failed
    unlimited = [math.inf] * (scenarios - len(errors))
    return Summary(
        scenarios=scenarios,
        not_measurable=verdicts[Verdict.NOT_MEASURABLE],
        too_few_runs=verdicts[Verdict.TOO_FEW_RUNS],
        failed=failed,
        median_error=statistics.median([*errors, *unlimited]) if errors else None,
        worst_error=max(errors) if errors else None,
    )
