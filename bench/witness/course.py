"""When replicas were ordered, asked for, set up, filled and in sync, and the same of the model, wave by wave. Pure.

    step      predicted (causes)      simulated, of the wave's last replica, from and to
    --------  ----------------------  -------------------------------------------------------------------------------
    order     -                       the last replica of the wave before is in sync, the wave's order leaves
    begin     BEGIN, DOWN, START,     the order (of a replacement: the start of the process), the first question that
              REPLAY                  a broker of the wave asks a leader
    set up    SETUP, TIER             that, the replica's log knows where it begins
    copy      FETCHES, all that       that, it has all records
              flows share
    join      ISR                     that, an unchanged broker knows that it is in the ISR

So the steps of a wave add up to its time, and the waves to that of the case.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from itertools import pairwise
from typing import Final

from rich.table import Table

from tierfetch.model import Cause, ModelResult

COLUMNS: Final = ("order", "begin", "set up", "copy", "join", "together")


@dataclass(frozen=True, slots=True)
class Course:
    """One replica; seconds since the case began."""

    wave: int
    ordered_s: float
    asked_s: float
    settled_s: float
    filled_s: float
    joined_s: float


@dataclass(frozen=True, slots=True)
class Steps:
    """Seconds of a wave; see the module."""

    order_s: float
    begin_s: float
    setup_s: float
    copy_s: float
    join_s: float

    @property
    def seconds(self) -> float:
        return self.order_s + self.begin_s + self.setup_s + self.copy_s + self.join_s


@dataclass(frozen=True, slots=True)
class WaveCompared:
    """One wave, and how many replicas come in it."""

    replicas: int
    predicted: Steps
    simulated: Steps


def simulated_steps(courses: Sequence[Course]) -> list[Steps]:
    """Return the steps of each wave in which a replica comes."""
    found, began_s = [], 0.0
    for wave in sorted({each.wave for each in courses}):
        members = [each for each in courses if each.wave == wave]
        last = max(members, key=lambda each: each.joined_s)
        asked_s = min(each.asked_s for each in members)
        places = [began_s, last.ordered_s, asked_s, last.settled_s, last.filled_s, last.joined_s]
        for place in range(1, len(places)):  # what was seen too late was not later than what came of it
            places[place] = min(max(places[place], places[place - 1]), last.joined_s)
        found.append(Steps(*(until_s - from_s for from_s, until_s in pairwise(places))))
        began_s = last.joined_s
    return found


def predicted_steps(result: ModelResult) -> list[Steps]:
    """Return the same of a prediction."""
    waves, joined_s, causes = result.moves.wave, result.joined_s, result.cause_s
    found = []
    for wave in sorted(set(waves.tolist())):
        last = max((waves == wave).nonzero()[0].tolist(), key=lambda number: joined_s[number])
        of = {cause: float(causes[last, cause]) for cause in Cause if cause is not Cause.WAITING}
        begin_s = sum(of.pop(each) for each in (Cause.BEGIN, Cause.DOWN, Cause.START, Cause.REPLAY))
        setup_s = sum(of.pop(each) for each in (Cause.SETUP, Cause.TIER))
        isr_s = of.pop(Cause.ISR)
        found.append(Steps(0.0, begin_s, setup_s, sum(of.values()), isr_s))
    return found


def compare_waves(result: ModelResult, courses: Sequence[Course]) -> tuple[WaveCompared, ...]:
    """Return both beside each other."""
    predicted, simulated = predicted_steps(result), simulated_steps(courses)
    numbers = sorted({each.wave for each in courses})
    replicas = [sum(each.wave == number for each in courses) for number in numbers]
    return tuple(WaveCompared(*each) for each in zip(replicas, predicted, simulated, strict=True))


def waves_table(name: str, waves: Sequence[WaveCompared]) -> Table:
    """Return each wave's steps, predicted / simulated in seconds, and their sums."""
    made = Table("wave", "replicas", *COLUMNS, title=f"{name}: predicted / simulated, s")
    for number, each in enumerate(waves, 1):
        made.add_row(str(number), str(each.replicas), *_cells(each.predicted, each.simulated))
    sums = (_sum([each.predicted for each in waves]), _sum([each.simulated for each in waves]))
    made.add_row("all", str(sum(each.replicas for each in waves)), *_cells(*sums))
    return made


def _cells(predicted: Steps, simulated: Steps) -> Iterator[str]:
    pairs = zip((*astuple(predicted), predicted.seconds), (*astuple(simulated), simulated.seconds), strict=True)
    return (f"{ours:.2f} / {theirs:.2f}" for ours, theirs in pairs)


def _sum(steps: Sequence[Steps]) -> Steps:
    return Steps(*(sum(column) for column in zip(*map(astuple, steps), strict=True)))
