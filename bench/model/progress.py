"""How far a session is, what is left of it, and where its time went. Pure.

A session is a row of runs, each in the file once it is done: whenever it is stopped, what is left are the runs that are
not there. A scenario that was begun gets a cluster again, with data and a run that is not measured; its prediction and
its runs stay. How long the rest takes is read off what is done: seconds of all steps for each run of the system.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tierfetch.model import System

from .record import Entry
from .scenario import Scenario


class Step(StrEnum):
    """What a session's time goes to."""

    START = "start"
    DATA = "data"
    PREDICTION = "prediction"
    FIRST = "first run"
    RUNS = "runs"
    END = "end"


SECONDS_PER_MINUTE: Final = 60


@dataclass(frozen=True, slots=True)
class Left:
    """What one system still has to run. `seconds` None before its first run."""

    system: System
    scenarios: int
    runs: int
    seconds: float | None

    @property
    def text(self) -> str:
        time = "" if self.seconds is None else f", about {max(1, round(self.seconds / SECONDS_PER_MINUTE))} min"
        return f"{self.system}: {self.scenarios} scenarios with {self.runs} runs{time}"


def left(entries: Collection[Entry], system: System, scenarios: Sequence[Scenario], runs: int) -> Left:
    """Return what is left of a system's scenarios, `runs` of each. What failed counts as left: it is tried again."""
    own = [entry for entry in entries if entry.system == system]
    done = {entry.scenario.name: len(entry.runs) for entry in own}
    missing = [runs - done.get(each.name, 0) for each in scenarios if done.get(each.name, 0) < runs]
    seconds = sum(sum(entry.spent_s.values()) for entry in own if entry.runs)
    measured = sum(done.values())
    return Left(system, len(missing), sum(missing), seconds / measured * sum(missing) if measured else None)


def time_rows(entries: Collection[Entry]) -> Iterator[tuple[str, ...]]:
    """The headings, then minutes of each system by step, and how much of the runs was measured."""
    yield ("system", *(step.value for step in Step), "together", "of that measured")
    for system in dict.fromkeys(entry.system for entry in entries):
        own = [entry for entry in entries if entry.system == system]
        by_step = [sum(entry.spent_s.get(step, 0.0) for entry in own) for step in Step]
        measured = sum(run.start_to_isr_s for entry in own for run in entry.runs if run is not None)
        yield system, *(f"{each / SECONDS_PER_MINUTE:.1f} min" for each in (*by_step, sum(by_step), measured))
