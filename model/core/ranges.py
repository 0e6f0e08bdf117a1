"""How sure a time is: a median and the interval in which it is in four of five cases.

    input     something that is not known exactly: a rate that the inventory gives as a range, the spread of runs
    effect    by what factor the time changes when that input has its lowest, and its highest, likely value
              (those that it is below, or above, in one of ten cases)
    range     the effects of all inputs together. They are independent, and each multiplies the time, so that their
              logarithms add up as variances do, for shorter and longer times apart:

                  high = median * exp(sqrt(sum of ln(longer)^2))        low = median / exp(sqrt(sum of ln(shorter)^2))

Nothing is drawn at random, so that the same inputs always give the same range. A range never gets narrower when an
effect grows or another input is added. `widest` is the input without which it would be narrowed most.

What it does not know: inputs that depend on each other, and a second bottleneck that shows only when two inputs change
together; each effect is taken with all other inputs at their middle.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from ...light_dataclass import dataclass

COVERAGE: Final = 0.8
"""The share of cases in which a time is inside its range."""
EFFECT_MIN: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Effect:
    """What an input may do to a time, as factors: `shorter` at most 1, `longer` at least 1; infinite: it may
    never end.
    """

    name: str
    shorter: float = 1.0
    longer: float = 1.0

    @classmethod
    def between(cls, name: str, median_s: float, *times_s: float) -> Effect:
        """Return the effect of an input with which the time was `times_s` in place of `median_s`."""
        if not math.isfinite(median_s) or median_s <= 0:
            return cls(name)
        shortest, longest = min(times_s, default=median_s), max(times_s, default=median_s)
        return cls(name, min(1.0, shortest / median_s), max(1.0, longest / median_s))

    @property
    def is_any(self) -> bool:
        return self.shorter < 1 - EFFECT_MIN or self.longer > 1 + EFFECT_MIN

    @property
    def width(self) -> float:
        """How far apart both are, on a logarithmic scale."""
        return _log(self.longer) - _log(self.shorter)


@dataclass(frozen=True, slots=True)
class Range:
    """`low` <= `median` <= `high`, all infinite for what never ends; `high` alone where that may be. `effects` widest
    first.
    """

    low: float
    median: float
    high: float
    effects: tuple[Effect, ...] = ()

    @property
    def widest(self) -> str:
        """The input that widens it most; "" if it is exact."""
        return self.effects[0].name if self.effects else ""

    @property
    def width(self) -> float:
        """high / low."""
        return self.high / self.low if self.low > 0 else 1.0

    def scaled_to(self, median: float) -> Range:
        """Return the range of another time of the same prediction, as sure as this one."""
        if not math.isfinite(self.median) or self.median <= 0:
            return Range(median, median, median)
        return Range(median * self.low / self.median, median, median * self.high / self.median, self.effects)

    def holds(self, seconds: float) -> bool:
        return self.low <= seconds <= self.high


EXACT: Final = Range(0.0, 0.0, 0.0)


def combined(median: float, effects: Iterable[Effect]) -> Range:
    """Return the range of a time whose inputs have these effects."""
    if not math.isfinite(median) or median <= 0:
        return Range(median, median, median)
    found = sorted((each for each in effects if each.is_any), key=lambda each: (-each.width, each.name))
    shorter = math.hypot(*(_log(each.shorter) for each in found)) if found else 0.0
    longer = math.hypot(*(_log(each.longer) for each in found)) if found else 0.0
    return Range(median * math.exp(-shorter), median, median * math.exp(longer), tuple(found))


def _log(factor: float) -> float:
    return math.log(factor) if factor > 0 else -math.inf
