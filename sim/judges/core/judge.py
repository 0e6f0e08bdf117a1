"""A judge, and all judges of a run as one.

    observers, taps, clients, store, injector --event--> `Judges.on` --> each judge's `on`, in order

A judge raises `InvariantViolationError`, and the run fails at this event. Where the event happens inside of a call of a
node, the node would take that for an error of its own: there `on_inside` keeps it until `check`, after the event.
"""

from __future__ import annotations

from typing import Protocol

from .events import Observed


class Judge(Protocol):
    """Looks at events, most judges at a few kinds of them only."""

    def on(self, event: Observed) -> None:
        """InvariantViolationError if the event must not be."""


class Judges:
    """The judges of a run. It is made first, as every observer reports to it; `add` completes it."""

    def __init__(self) -> None:
        self._judges: tuple[Judge, ...] = ()
        self._violation: Exception | None = None

    def add(self, *judges: Judge) -> None:
        """These judge after the ones that are there."""
        self._judges += judges

    def on(self, event: Observed) -> None:
        """InvariantViolationError."""
        for judge in self._judges:
            judge.on(event)

    def on_inside(self, event: Observed) -> None:
        """Judge an event that happens inside of a node's own call: a violation is kept until `check`."""
        try:
            self.on(event)
        except (AssertionError, LookupError) as violation:
            self.report(violation)

    def report(self, violation: Exception) -> None:
        """Have this raised after the event; the first one counts."""
        self._violation = self._violation or violation

    def check(self) -> None:
        """Raise what was kept. Called after every event."""
        if self._violation is not None:
            raise self._violation
