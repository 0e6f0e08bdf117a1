"""Every judge is given every event, in their order; what must not be fails the run, at once or after the event."""

from __future__ import annotations

import pytest

from tierfetch.sim.judges.core.events import FaultsChanged, Observed, ProcessEnded
from tierfetch.sim.judges.core.judge import Judges
from tierfetch.sim.judges.core.partition import InvariantViolationError

EVENT, BAD = FaultsChanged(), ProcessEnded("b")


class Noting:
    """Notes the events with its name, and refuses `BAD`."""

    def __init__(self, name: str, notes: list[tuple[str, Observed]]) -> None:
        self.name = name
        self.notes = notes

    def on(self, event: Observed) -> None:
        self.notes.append((self.name, event))
        if event == BAD:
            raise InvariantViolationError("no end", self.name)


def test_all_are_given_every_event_in_their_order() -> None:
    notes: list[tuple[str, Observed]] = []
    judges = Judges()
    judges.on(EVENT)
    judges.add(Noting("one", notes), Noting("two", notes))
    judges.add(Noting("three", notes))
    judges.on(EVENT)
    judges.check()
    assert notes == [("one", EVENT), ("two", EVENT), ("three", EVENT)]


def test_a_violation_is_raised_where_the_event_is_published() -> None:
    judges = Judges()
    judges.add(Noting("one", []))
    with pytest.raises(InvariantViolationError, match="no end: one"):
        judges.on(BAD)
    judges.check()


def test_a_violation_inside_of_a_node_is_kept_and_the_first_one_counts() -> None:
    judges = Judges()
    judges.add(Noting("one", []), Noting("two", []))
    judges.on_inside(BAD)
    judges.report(InvariantViolationError("later", "another"))
    for _ in range(2):
        with pytest.raises(InvariantViolationError, match="no end: one"):
            judges.check()
