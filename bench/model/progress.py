"""How far a session is, what is left of it, and where its time went. Pure.

A session is a row of runs, each in the file once it is done: whenever it is stopped, what is left are the runs that are
not there. A scenario that was begun gets a cluster again, with data and a run that is not measured; its prediction and
its runs stay. How long the rest takes is what is expected of it (`budget`), corrected by what the system has spent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tierfetch.model import System

from .budget import Step, correction, expected_s
from .record import Entry
from .scenario import Scenario

SECONDS_PER_MINUTE: Final = 60


@dataclass(frozen=True, slots=True)
class Left:
    """What one system still has to run: seconds of each scenario, and runs of all."""

    system: System
    runs: int
    seconds: Mapping[Scenario, float]

    @property
    def text(self) -> str:
        if not self.runs:
            return f"{self.system}: nothing"
        return (
            f"{self.system}: {len(self.seconds)} scenarios with {self.runs} runs, {about(sum(self.seconds.values()))}"
        )


def left(entries: Collection[Entry], system: System, wanted: Mapping[Scenario, int]) -> Left:
    """Return what is left of a system's scenarios, each with so many runs. What failed is left: it is tried again."""
    own = [entry for entry in entries if entry.system == system]
    done = {entry.scenario.name: len(entry.runs) for entry in own}
    missing = {each: runs - done.get(each.name, 0) for each, runs in wanted.items() if runs > done.get(each.name, 0)}
    factor = correction(own)
    seconds = {
        each: factor * expected_s(each, system, runs, is_predicted=done.get(each.name, 0) > 0)
        for each, runs in missing.items()
    }
    return Left(system, sum(missing.values()), seconds)


def about(seconds: float) -> str:
    """Return a time in words, as exactly as it is known."""
    if seconds < SECONDS_PER_MINUTE:
        return f"about {max(1, round(seconds))} s"
    return f"about {round(seconds / SECONDS_PER_MINUTE)} min"


def budget_rows(of_systems: Sequence[Left]) -> Iterator[tuple[str, ...]]:
    """The headings, what each scenario will take on each system ("-": nothing is left of it), and all of them."""
    yield ("scenario", *(each.system for each in of_systems))
    for scenario in dict.fromkeys(scenario for each in of_systems for scenario in each.seconds):
        seconds = [each.seconds.get(scenario) for each in of_systems]
        yield scenario.text, *("-" if each is None else about(each) for each in seconds)
    yield "all", *(about(sum(each.seconds.values())) for each in of_systems)


def time_rows(entries: Collection[Entry]) -> Iterator[tuple[str, ...]]:
    """The headings, then minutes of each system by step, and how much of the runs was measured."""
    yield ("system", *(step.value for step in Step), "together", "of that measured")
    for system in dict.fromkeys(entry.system for entry in entries):
        own = [entry for entry in entries if entry.system == system]
        by_step = [sum(entry.spent_s.get(step, 0.0) for entry in own) for step in Step]
        measured = sum(run.start_to_isr_s for entry in own for run in entry.runs if run is not None)
        yield system, *(f"{each / SECONDS_PER_MINUTE:.1f} min" for each in (*by_step, sum(by_step), measured))
