"""How far apart runs are, read off the calibration scenarios. Pure.

    figure    from
    --------  -----------------------------------------------------------------------------------------
    runs      all runs beside the mean of their scenario, on a logarithmic scale, pooled
    first     the run of each scenario that is not measured, beside the median of the others
    load      how much longer runs take for each process more a core, where loads differed enough to say

Each factor is what is not exceeded in nine of ten cases. What a session cannot say stays as it was.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tierfetch.model import Spread

NINE_OF_TEN: Final = 1.2816
"""Standard deviations of a normal distribution above its mean."""
LOADS_APART: Final = 0.5
"""Processes for each core by which loads must differ."""
FACTOR_MAX: Final = 10.0


@dataclass(frozen=True, slots=True)
class Series:
    """The runs of one scenario in seconds, the load of the machine at each, and the run before them."""

    seconds: tuple[float, ...]
    loads: tuple[float, ...] = ()
    first_s: float | None = None


def spread_of(found: Sequence[Series], usual: Spread, cores: float, origin: str) -> Spread:
    """Return what these runs say."""
    series = [each for each in found if len(each.seconds) > 1 and all(map(math.isfinite, each.seconds))]
    if not series:
        return usual
    changes: dict[str, float | str] = {"runs": _factor(_deviation(series)), "origin": origin}
    firsts = [
        math.log(each.first_s / statistics.median(each.seconds))
        for each in series
        if each.first_s is not None and math.isfinite(each.first_s)
    ]
    if len(firsts) > 1:
        changes["first"] = _limited(math.exp(statistics.quantiles(firsts, n=10, method="inclusive")[-1]))
    slope = _slope(series, cores)
    if slope is not None:
        changes["load"] = _limited(math.exp(slope))
    return usual.model_copy(update=changes)


def _deviation(series: Sequence[Series]) -> float:
    """The standard deviation of the logarithms, pooled."""
    squares, free = 0.0, 0
    for each in series:
        logs = [math.log(seconds) for seconds in each.seconds]
        mean = statistics.fmean(logs)
        squares += sum((one - mean) ** 2 for one in logs)
        free += len(logs) - 1
    return math.sqrt(squares / free)


def _slope(series: Sequence[Series], cores: float) -> float | None:
    """Return by how much the logarithm grows for each process more a core; None where loads did not differ."""
    xs, ys = [], []
    for each in series:
        if len(each.loads) != len(each.seconds):
            continue
        logs = [math.log(seconds) for seconds in each.seconds]
        mean, mean_load = statistics.fmean(logs), statistics.fmean(each.loads) / cores
        xs += [load / cores - mean_load for load in each.loads]
        ys += [one - mean for one in logs]
    if not xs or max(xs) - min(xs) < LOADS_APART:
        return None
    return max(0.0, sum(x * y for x, y in zip(xs, ys, strict=True)) / sum(x * x for x in xs))


def _factor(deviation: float) -> float:
    return _limited(math.exp(NINE_OF_TEN * deviation))


def _limited(factor: float) -> float:
    return min(FACTOR_MAX, max(1.0, factor))
