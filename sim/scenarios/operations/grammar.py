"""A grammar of actions: rows with a weight and a precondition, drawn as a run goes along, and replayed from its report.

    moment --> the rows whose precondition holds now --(by weight)--> a row --> it acts, with chance of its own
    action of a report --> the row of its name --(if its precondition holds)--> the same

Actions come one after the other, as one operator does things, but for those that are done `beside`. One whose moment
passes while another one takes its time comes next. An action whose precondition no longer holds is left out: so a
schedule stays meaningful when the shrinker takes away what came before. What was done is in `performed`, with names: a
run of those is the same run, event for event.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, Generic, TypeVar

from ....light_dataclass import dataclass
from ...faults.actions import Action
from ...faults.schedule import Schedule, UnfitScheduleError
from ...machine.chance import derived

CrewT = TypeVar("CrewT")
Act = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Generic[CrewT]):
    """One kind of action: `act` does it, with those who can. `is_beside`: it takes long, others are done meanwhile."""

    name: str
    act: Callable[[CrewT, Random], Coroutine[Any, Any, None]]
    weight: int = 1
    is_possible: Callable[[CrewT], bool] = lambda _: True
    is_beside: bool = False


def draw(rows: Sequence[Row[CrewT]], crew: CrewT, rng: Random) -> Row[CrewT] | None:
    """Return one of the rows that are possible now, by weight; None if none is."""
    possible = [row for row in rows if row.is_possible(crew)]
    return rng.choices(possible, [row.weight for row in possible])[0] if possible else None


def check_actions(schedule: Schedule, names: Sequence[str] = ()) -> None:
    """Raise UnfitScheduleError if the scenario has no row for an action: it would be left out silently."""
    unfit = [str(action) for action in schedule.actions if action.name not in ("", *names)]
    if unfit or (schedule.actions and not names):
        raise UnfitScheduleError(f"the actions are {sorted(names)}, which know nothing of {unfit or 'any action'}")


class Operations(Generic[CrewT]):
    """Does the actions of one run. `spawn` does what is done beside the others."""

    def __init__(
        self,
        rows: Sequence[Row[CrewT]],
        crew: CrewT,
        spawn: Callable[[Act], None],
        record: Callable[[str, str], None],
    ) -> None:
        self._rows = {row.name: row for row in rows}
        assert len(self._rows) == len(rows), "two rows of one name"
        self._crew = crew
        self._spawn = spawn
        self._record = record
        self.performed: list[Action] = []
        """What was begun so far, and what was left out, with the names of rows."""
        self.counts: Counter[str] = Counter()
        """How often each row was begun."""

    def check(self, schedule: Schedule) -> None:
        """Raise UnfitScheduleError for actions that no row knows."""
        check_actions(schedule, tuple(self._rows))

    async def run(self, actions: Sequence[Action]) -> None:
        """Each at its moment, or as soon as the one before it is done."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        for action in actions:
            await asyncio.sleep(max(0.0, began_s + action.at_ms / 1000 - loop.time()))
            await self._perform(action)

    async def _perform(self, action: Action) -> None:
        row = self._row_of(action)
        self.performed.append(action if row is None else replace(action, name=row.name))
        if row is None or not row.is_possible(self._crew):
            self._record("operations", f"{action.name or 'any action'} is not possible")
            return
        self._record("operations", row.name)
        self.counts[row.name] += 1
        act = partial(row.act, self._crew, derived(action.number, "act"))
        if row.is_beside:
            self._spawn(act)
        else:
            await act()

    def _row_of(self, action: Action) -> Row[CrewT] | None:
        if action.name:
            return self._rows[action.name]
        return draw(tuple(self._rows.values()), self._crew, derived(action.number, "row"))
