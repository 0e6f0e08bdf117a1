"""A prediction while its moves run: does it still hold, and when is the end now?

A prediction says at which share of the work it should be after so many seconds (`Sight`s as it was made); the cluster
says at which share it is.

    pace         time that the prediction gave for what is done / time that it took. The prediction's range says how far
                 from 1 it may be. Where its course rests (between two waves, while replicas are set up) any instant of
                 the rest is as predicted
    correction   what is left, at the pace so far: early it is the prediction that counts, later what was seen, as much
                 of it as is done
    range        that of the prediction for what is left, and the disagreement of both, which is not explained yet
    broken       the pace is outside the prediction's range and enough is done to say so, or something happened that the
                 prediction left out: a broker died, a rate was changed. It no longer holds, and why is said; the range
                 then is as wide as what was seen differs from what was said
    recent pace  that of the last quarter of the time, `RECENT_S_MIN` at least, from the trail of what was seen. Rates
                 that change late show in it long before they do in the pace of the whole: far outside the range it
                 breaks the prediction, and is what counts for what is left
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from ...light_dataclass import dataclass
from .ranges import Effect, Range, combined

SHARE_TO_JUDGE: Final = 0.1
"""The share of the work after which a pace outside the range means something."""
SECONDS_TO_JUDGE: Final = 5.0
WIDENING: Final = 2.0
"""The factor by which a range is widened for something that the prediction left out."""
PACES: Final = (1e-3, 1e3)
"""The limits of a pace that is taken for one."""
RECENT_SHARE: Final = 0.25
RECENT_S_MIN: Final = 60.0
RECENT_FACTOR: Final = 2.0
"""The factor by which a recent pace must be outside the range: few moves say little."""
STUCK_AFTER: Final = 3.0
"""Nothing is done after so many times the upper end for the first part: the prediction does not hold."""


@dataclass(frozen=True, slots=True)
class Sight:
    """`share` of the work is done `at_s` seconds after the start."""

    at_s: float
    share: float


@dataclass(frozen=True, slots=True)
class Correction:
    """`end` in seconds since the start; `broken` says why the prediction no longer holds, "" if it does."""

    end: Range
    pace: float
    broken: str = ""


def corrected(
    predicted: Range, course: Sequence[Sight], now: Sight, events: Sequence[str] = (), trail: Sequence[Sight] = ()
) -> Correction:
    """Return the end as it is expected now. `course` are the predicted sights, in order; `events` what happened that
    the prediction left out, a line for each; `trail` what was seen until now, in order.
    """
    share = min(1.0, max(0.0, now.share))
    if share >= 1.0:
        return Correction(Range(now.at_s, now.at_s, now.at_s), 1.0)
    if not math.isfinite(predicted.median) or predicted.median <= 0:
        return Correction(Range(now.at_s, math.inf, math.inf), 1.0, "; ".join(events))
    due_s = _due_s(predicted.median, course, share)
    if share > 0:
        due_s = max(due_s, min(now.at_s, _rests_until_s(predicted.median, course, share)))
    pace = min(PACES[1], max(PACES[0], due_s / now.at_s)) if now.at_s > 0 and due_s > 0 else 1.0
    recent = _recent_pace(predicted, course, Sight(now.at_s, share), trail)
    if recent is None:
        broken = [*events, *_out_of_range(predicted, pace, share, now, course)]
    else:
        pace = recent.pace
        times, how = (1 / pace, "slow") if pace < 1 else (pace, "fast")
        said = f"for {recent.since_s:.0f} s it has been {times:.1f} times as {how} as predicted: a rate changed"
        broken = [*events, said]
    left_s = predicted.median - due_s
    # What was seen counts as much as it is: the logarithms of both paces are weighed, so that 1/2 and 2 cancel.
    slowdown = math.exp(-math.log(pace) * (1.0 if broken else share))
    end = max(now.at_s, now.at_s + left_s * slowdown)
    effects = [
        *(Effect(each.name, each.shorter, each.longer) for each in predicted.effects),
        Effect("pace so far", min(1.0, 1 / slowdown), max(1.0, 1 / slowdown)),
        *(Effect(each, 1 / WIDENING, WIDENING) for each in broken),
    ]
    left = combined(max(end - now.at_s, 0.0), effects)
    if left.median <= 0:
        return Correction(Range(end, end, end, left.effects), pace, "; ".join(broken))
    low, high = now.at_s + left.low, now.at_s + left.high
    return Correction(Range(low, end, max(end, high), left.effects), pace, "; ".join(broken))


@dataclass(frozen=True, slots=True)
class _Recent:
    pace: float
    since_s: float


def _recent_pace(predicted: Range, course: Sequence[Sight], now: Sight, trail: Sequence[Sight]) -> _Recent | None:
    """Return the pace of late if it is far outside the range; None if it is not, or nothing can be said."""
    until_s = now.at_s - max(RECENT_S_MIN, RECENT_SHARE * now.at_s)
    then = next((each for each in reversed(trail) if each.at_s <= until_s), None)
    if then is None or then.share <= 0 or then.at_s <= 0:
        return None
    since_s, end_s = now.at_s - then.at_s, predicted.median
    slow = (_rests_until_s(end_s, course, now.share) - _due_s(end_s, course, then.share)) / since_s
    fast = (_due_s(end_s, course, now.share) - _rests_until_s(end_s, course, then.share)) / since_s
    slowest = end_s / predicted.high / RECENT_FACTOR
    fastest = RECENT_FACTOR * end_s / predicted.low if predicted.low > 0 else math.inf
    if slow < slowest:
        return _Recent(max(PACES[0], slow), since_s)
    return _Recent(min(PACES[1], fast), since_s) if fast > fastest else None


def _rests_until_s(end_s: float, course: Sequence[Sight], share: float) -> float:
    """Return until when no more than that should have been done."""
    points = [Sight(0.0, 0.0), *course, Sight(end_s, 1.0)]
    return max([_due_s(end_s, course, share), *(each.at_s for each in points if each.share <= share)])


def _due_s(end_s: float, course: Sequence[Sight], share: float) -> float:
    """Return when so much should have been done."""
    points = [Sight(0.0, 0.0), *course, Sight(end_s, 1.0)]
    for before, after in pairwise(points):
        if after.share >= share:
            gained = after.share - before.share
            part = (share - before.share) / gained if gained > 0 else 1.0
            return before.at_s + max(0.0, part) * (after.at_s - before.at_s)
    return end_s


def _out_of_range(predicted: Range, pace: float, share: float, now: Sight, course: Sequence[Sight]) -> list[str]:
    if now.at_s < SECONDS_TO_JUDGE:
        return []
    if share <= 0:
        first_s = next((each.at_s for each in course if each.share > 0), predicted.median)
        late_s = STUCK_AFTER * first_s * predicted.high / predicted.median
        return ["nothing has moved, though the first part was due long ago"] if now.at_s > late_s else []
    if share < SHARE_TO_JUDGE:
        return []
    slowest, fastest = predicted.median / predicted.high, predicted.median / predicted.low
    if pace < slowest:
        return [f"it is {1 / pace:.1f} times as slow as predicted, and {1 / slowest:.1f} was the most"]
    if pace > fastest:
        return [f"it is {pace:.1f} times as fast as predicted, and {fastest:.1f} was the most"]
    return []
