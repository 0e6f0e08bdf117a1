"""How sure the time is at which each replica joins: by what that replica waits for, not by what the whole does.

The whole may wait for a throttle, which is as slow as it says, while half of the replicas are in sync after seconds
that machines decide, or the other way round. A replica that waits for a slot waits for the waves before its own: it is
as sure as their last replicas. So the last replica of all has the range of the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from ...light_dataclass import dataclass
from ..arrays import Floats
from ..calibration import Spread
from ..core import Cause
from ..results import ModelResult

MACHINE: Final = (
    Cause.START,
    Cause.REPLAY,
    Cause.SETUP,
    Cause.TIER,
    Cause.FETCHES,
    Cause.LEADER_CPU,
    Cause.FOLLOWER_CPU,
    Cause.ISR,
)
DISKS: Final = (Cause.LEADER_DISK, Cause.FOLLOWER_DISK)
LINKS: Final = (Cause.LEADER_LINK, Cause.FOLLOWER_LINK, Cause.RACK_LINK, Cause.UPLINK)
RUNS: Final = "the spread of runs"
MODEL: Final = "the error of the model"
FIRST: Final = "a first run"
LOAD: Final = "load on the machines"
THROTTLE: Final = "the throttle's accuracy"


@dataclass(frozen=True, slots=True)
class Factors:
    """States by how much the seconds of these causes may be shorter (a divisor) and longer (a factor), and why."""

    name: str
    causes: tuple[Cause, ...]
    quicker: float
    slower: float


def factors_of(spread: Spread) -> Iterator[Factors]:
    """Yield what the spread of machines and of the model does."""
    yield Factors(RUNS, (*MACHINE, *DISKS, Cause.BEGIN), spread.runs, spread.runs)
    yield Factors(MODEL, (*MACHINE, *DISKS, *LINKS, Cause.BEGIN), spread.model, spread.model)
    yield Factors(FIRST, MACHINE, 1.0, spread.first)
    yield Factors(LOAD, MACHINE, 1.0, spread.load)
    yield Factors(THROTTLE, (Cause.THROTTLE,), spread.throttle, spread.throttle)


@dataclass(frozen=True, eq=False, slots=True)
class Joining:
    """Between these times each replica joins in four of five cases, [M]; infinite: never."""

    low_s: Floats
    high_s: Floats


def joining_of(result: ModelResult, spread: Spread, ends_s: Sequence[tuple[Floats, Floats]] = ()) -> Joining:
    """`ends_s`: the times of joining, [M], with each input that is not known exactly at its lowest and highest."""
    joined_s = result.joined_s
    causes = _with_waves_before(result)
    total = causes.sum(axis=1)
    shorter, longer = np.zeros(len(joined_s)), np.zeros(len(joined_s))
    for each in factors_of(spread):
        part = np.divide(causes[:, list(each.causes)].sum(axis=1), total, out=np.zeros(len(total)), where=total > 0)
        shorter += np.log(1 - part * (1 - 1 / each.quicker)) ** 2
        longer += np.log(1 + part * (each.slower - 1)) ** 2
    joins = np.isfinite(joined_s) & (joined_s > 0)
    for pair in ends_s:
        times = np.stack([joined_s, *pair])[:, joins] / joined_s[joins]
        shorter[joins] += np.log(times.min(axis=0)) ** 2
        longer[joins] += np.log(times.max(axis=0)) ** 2
    return Joining(joined_s * np.exp(-np.sqrt(shorter)), joined_s * np.exp(np.sqrt(longer)))


def _with_waves_before(result: ModelResult) -> Floats:
    """Return the seconds by cause, [M, causes], with those of the waves before in place of the waiting for them."""
    causes = result.cause_s.copy()
    causes[:, Cause.WAITING] = 0.0
    before = np.zeros(causes.shape[1])
    for wave in np.unique(result.moves.wave):
        members = np.flatnonzero(result.moves.wave == wave)
        last = causes[members[np.argmax(result.joined_s[members])]].copy()
        causes[members] += before
        before += last
    return causes
