"""What a cluster's own moves say of its calibration: by how much its machines are slower than predicted, and how far
off predictions still are.

Only the seconds that machines decide can be learned (`Outlook.machine_s`); those of a throttle or a full link are what
they are. So of each past move, with other = median - machine,

    factor = (measured - other) / machine            from moves of which machines decided `MACHINE_SHARE_MIN` at least
    scale  = the median of the factors, drawn towards 1 while they are few:  factor ** (n / (n + PRIOR))
    model  = what nine of ten of the measured times, beside predictions with that scale, do not exceed; from
             `MOVES_FOR_MODEL` moves on

A calibration that was learned predicts with `Past.scale` times the machine's seconds of its base: they are divided by
it first, so that a lesson is always one about the base, and the same history twice is the same lesson.

Moves whose prediction was broken meanwhile (a broker died, the throttle was changed) say nothing and are left out.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Final

from ...light_dataclass import dataclass
from .outlook import Past

MACHINE_SHARE_MIN: Final = 0.2
PRIOR: Final = 2.0
"""As many moves as this calibration counts for."""
FACTORS: Final = (0.1, 10.0)
MOVES_FOR_MODEL: Final = 5
MODEL_MAX: Final = 10.0
SECONDS_MIN: Final = 1e-3


@dataclass(frozen=True, slots=True)
class Lesson:
    """`scale` of the seconds that machines decide; `model` None: too few moves; `moves` that it was learned from."""

    scale: float
    model: float | None
    moves: int


def learned(history: Sequence[Past]) -> Lesson:
    """Return what moves of one system say of the base that they have in common; nothing of them: a scale of 1."""
    found = [each for each in map(_of_base, history) if not each.broken and each.median_s > 0 and each.measured_s > 0]
    telling = [each for each in found if each.machine_s >= MACHINE_SHARE_MIN * each.median_s]
    factors = [_factor(each) for each in telling]
    scale = (
        math.exp(statistics.median(map(math.log, factors)) * len(factors) / (len(factors) + PRIOR)) if factors else 1.0
    )
    model = None
    if len(found) >= MOVES_FOR_MODEL:
        errors = [abs(math.log(each.measured_s) - math.log(_scaled(each, scale))) for each in found]
        nine_of_ten = statistics.quantiles(errors, n=5, method="inclusive")[-1]
        model = min(MODEL_MAX, math.exp(min(math.log(MODEL_MAX), nine_of_ten)))
    return Lesson(scale, model, len(found))


def _of_base(past: Past) -> Past:
    """What the base itself would have predicted."""
    machine_s = past.machine_s / past.scale
    median_s = past.median_s - past.machine_s + machine_s
    return past.model_copy(update={"machine_s": machine_s, "median_s": median_s, "scale": 1.0})


def _factor(past: Past) -> float:
    other_s = past.median_s - past.machine_s
    return min(FACTORS[1], max(FACTORS[0], (past.measured_s - other_s) / past.machine_s))


def _scaled(past: Past, scale: float) -> float:
    """What would have been predicted with that scale."""
    return max(SECONDS_MIN, past.median_s + past.machine_s * (scale - 1))
