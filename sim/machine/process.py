"""Whose callback it is: the simulated process that code runs in, carried by a context variable.

A task inherits the context of its creator, and a callback that of its registrar, so everything a node starts
belongs to the node's process without the node knowing. Code of the simulation itself, the scenario and its checkers
belong to no process.

| state   | its callbacks                                                                            |
|---------|------------------------------------------------------------------------------------------|
| running | run                                                                                      |
| paused  | wait, in their order, until `resume` (SIGSTOP: time continues, the process does not)     |
| dead    | never run again, `finally` blocks included (SIGKILL: nothing is cleaned up)              |
"""

from __future__ import annotations

from collections import deque
from contextvars import ContextVar
from typing import Any


class Process:
    """One run of a node on a host. `is_running` is what the loop looks at, for each callback."""

    __slots__ = ("held", "host", "is_dead", "is_running", "number")

    def __init__(self, host: str, number: int) -> None:
        self.host = host
        self.number = number
        """Which run of the host's it is, from 1."""
        self.is_running = True
        self.is_dead = False
        self.held: deque[Any] = deque()
        """Callbacks that became due while paused."""

    def __repr__(self) -> str:
        state = "dead" if self.is_dead else "running" if self.is_running else "paused"
        return f"<Process {self.host}/{self.number} {state}>"

    def hold(self, handle: object) -> None:
        """A callback is due that must not run now, or not at all."""
        if not self.is_dead:
            self.held.append(handle)

    def pause(self) -> None:
        assert not self.is_dead, self
        self.is_running = False

    def kill(self) -> None:
        self.is_running = False
        self.is_dead = True
        self.held.clear()


current_process: ContextVar[Process | None] = ContextVar("current_process", default=None)
