"""Shortens a schedule that makes a run fail, as long as it still does (delta debugging, Zeller and Hildebrandt).

First the whole schedule again: if that does not fail, no shorter one would prove anything. Then, in turn, until nothing
helps or the budget of runs is used up: drop groups of actions, from all down to single ones; groups of faults, from
halves; halve durations; replace a fault by a milder one of its family. A smaller schedule fails at other moments than
the larger one did; what is kept is any failure, because each is one too many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from ...light_dataclass import dataclass
from .schedule import Fault, FaultKind, Schedule

T = TypeVar("T")

MILDER = {
    FaultKind.POWER_FAILURE: FaultKind.MACHINE_CRASH,
    FaultKind.MACHINE_CRASH: FaultKind.PROCESS_CRASH,
    FaultKind.WIPE: FaultKind.PROCESS_CRASH,
}
DURATION_MIN_MS = 50


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest schedule that was found, and how many runs that took."""

    schedule: Schedule
    runs: int


def shrink_schedule(schedule: Schedule, fails: Callable[[Schedule], bool], *, runs_max: int = 60) -> Shrunk | None:
    """`fails` runs a schedule and says whether the run failed. None if `schedule` itself does not fail."""
    budget = _Budget(fails, runs_max)
    if not budget.fails(schedule):
        return None
    smallest = schedule
    while not budget.is_used_up:
        before = smallest
        for step in (_without_actions, _without_faults, _with_shorter_faults, _with_milder_faults, _ending_sooner):
            smallest = step(smallest, budget)
        if smallest == before:
            break
    return Shrunk(smallest, budget.runs)


class _Budget:
    """Counts runs, and remembers verdicts."""

    def __init__(self, fails: Callable[[Schedule], bool], runs_max: int) -> None:
        self._fails = fails
        self._runs_max = runs_max
        self._known: dict[Schedule, bool] = {}
        self.runs = 0

    @property
    def is_used_up(self) -> bool:
        return self.runs >= self._runs_max

    def fails(self, schedule: Schedule) -> bool:
        """False once the budget is used up."""
        if schedule not in self._known:
            if self.is_used_up:
                return False
            self.runs += 1
            self._known[schedule] = self._fails(schedule)
        return self._known[schedule]


def _without_actions(schedule: Schedule, budget: _Budget) -> Schedule:
    kept = _fewer(schedule.actions, len(schedule.actions), lambda actions: budget.fails(schedule.with_actions(actions)))
    return schedule.with_actions(kept)


def _without_faults(schedule: Schedule, budget: _Budget) -> Schedule:
    half = max(1, len(schedule.faults) // 2)
    kept = _fewer(schedule.faults, half, lambda faults: budget.fails(replace(schedule, faults=faults)))
    return replace(schedule, faults=kept)


def _fewer(whole: tuple[T, ...], size: int, fails: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """Drop groups of this size, then of half of it, down to single ones, as long as what is left fails."""
    while whole:
        start = 0
        while start < len(whole):
            fewer = whole[:start] + whole[start + size :]
            if fails(fewer):
                whole = fewer
            else:
                start += size
        if size == 1:
            break
        size = max(1, size // 2)
    return whole


def _with_shorter_faults(schedule: Schedule, budget: _Budget) -> Schedule:
    for index in range(len(schedule.faults)):
        while (fault := schedule.faults[index]).duration_ms > DURATION_MIN_MS:
            shorter = _replaced(schedule, index, replace(fault, duration_ms=fault.duration_ms // 2))
            if not budget.fails(shorter):
                break
            schedule = shorter
    return schedule


def _with_milder_faults(schedule: Schedule, budget: _Budget) -> Schedule:
    for index, fault in enumerate(schedule.faults):
        for milder in _milder(fault):
            candidate = _replaced(schedule, index, milder)
            if budget.fails(candidate):
                schedule = candidate
                break
    return schedule


def _milder(fault: Fault) -> Iterator[Fault]:
    if fault.kind in MILDER:
        kind = MILDER[fault.kind]
        targets = fault.targets if fault.kind is not FaultKind.POWER_FAILURE else fault.targets[:1]
        yield replace(fault, kind=kind, targets=targets)


def _ending_sooner(schedule: Schedule, budget: _Budget) -> Schedule:
    ends_ms = [fault.end_ms for fault in schedule.faults] + [action.at_ms for action in schedule.actions]
    end_ms = max(ends_ms, default=0) + 1_000
    if end_ms < schedule.safety_ms:
        sooner = replace(schedule, safety_ms=end_ms)
        if budget.fails(sooner):
            return sooner
    return schedule


def _replaced(schedule: Schedule, index: int, fault: Fault) -> Schedule:
    return replace(schedule, faults=(*schedule.faults[:index], fault, *schedule.faults[index + 1 :]))
