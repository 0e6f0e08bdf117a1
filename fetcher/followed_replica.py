"""One replica as a fetcher sees it: its state, its back-off, and what it has cost so far.

BOOTSTRAPPING --decided--> FETCHING <--> TRUNCATING
      ^   |                  |   |
      |   +--retry--> BACKOFF <--+       (BACKOFF remembers the state to go back to)
      +---refused------------+
any --fetch fenced, or an internal error--> FAILED   (until the replica is removed and added again)
"""

from __future__ import annotations

import asyncio
from dataclasses import field
from enum import Enum
from random import Random

from ..light_dataclass import dataclass
from .core.bootstrap import Trigger
from .core.partition_fetch import PartitionToFetch
from .ports import FollowerPartition

DOUBLINGS_MAX = 30


class ReplicaState(Enum):
    BOOTSTRAPPING = "bootstrapping"
    TRUNCATING = "truncating"
    FETCHING = "fetching"
    BACKOFF = "backoff"
    FAILED = "failed"


@dataclass(slots=True)
class ReplicaProgress:
    """A replica's progress, for metrics. Times are seconds of the wall clock, None until it happened. `first_fetch_at`
    is the time of the first request to the leader, including requests of the bootstrap.
    """

    added_at: float
    bootstrap_ended_at: float | None = None
    first_fetch_at: float | None = None
    bytes_from_leader: int = 0
    bytes_from_tier: int = 0
    tier_s: float = 0.0
    """How long it waited for what the tier had to give: the state that it adopted."""
    held_back_s: float = 0.0
    """How long the throttle held it back, from the look that found that until the one that let it go."""
    append_s: float = 0.0
    """How long it waited until this broker's disk had taken its records."""


@dataclass(slots=True, eq=False)
class FollowedReplica:
    """`effects` is held while the local log is being changed. `leader_epoch`: the one it was added for."""

    partition: FollowerPartition
    leader_epoch: int
    progress: ReplicaProgress
    state: ReplicaState = ReplicaState.BOOTSTRAPPING
    trigger: Trigger = Trigger.ASSIGNED
    reason: str = ""
    failures: int = 0
    tier_failures: int = 0
    bootstrap_began_at: float = 0.0
    is_removed: bool = False
    is_caught_up: bool = False
    """Whether the replica had every committed record at its last answer."""
    is_tier_outage_reported: bool = False
    """Whether the operator was warned that this bootstrap waits for the tier."""
    held_since: float | None = None
    """Since when the throttle holds it back, by the loop's clock; None if it does not."""
    asked: PartitionToFetch | None = None
    """The last fetch request of this replica; the same object while nothing in it changes."""
    task: asyncio.Task[None] | None = None
    effects: asyncio.Lock = field(default_factory=asyncio.Lock)
    _resume: ReplicaState = ReplicaState.FETCHING
    _timer: asyncio.TimerHandle | None = None

    @property
    def is_current(self) -> bool:
        """Whether answers under its leader epoch may still change the local log."""
        return not self.is_removed and self.partition.leader_epoch == self.leader_epoch

    def begin(self, trigger: Trigger, now: float) -> None:
        self.state = ReplicaState.BOOTSTRAPPING
        self.trigger = trigger
        self.reason = trigger.value
        self.bootstrap_began_at = now

    def end_bootstrap(self, now: float) -> None:
        """Fetch from now on. `now` is the wall clock's time in seconds."""
        self.progress.bootstrap_ended_at = now
        self.state = ReplicaState.FETCHING
        self.is_tier_outage_reported = False

    def back_off(self, reason: str, resume: ReplicaState, timer: asyncio.TimerHandle) -> None:
        self._stop_timer()
        self.state = ReplicaState.BACKOFF
        self.reason = reason
        self.failures += 1
        self._resume = resume
        self._timer = timer

    def begin_to_ask(self) -> None:
        """Let its next fetch count as its first: it was cut, and its leader may have nothing beyond."""
        self.asked = None

    def note_throttle(self, now: float, *, is_held: bool) -> None:
        """The throttle was asked, at this time of the loop's clock."""
        if is_held:
            self.held_since = now if self.held_since is None else self.held_since
        elif self.held_since is not None:
            self.progress.held_back_s += now - self.held_since
            self.held_since = None

    def end_back_off(self) -> None:
        assert self.state is ReplicaState.BACKOFF, self.state
        self._stop_timer()
        self.state = self._resume

    def fail(self, reason: str) -> None:
        self.state = ReplicaState.FAILED
        self.reason = reason

    def remove(self) -> None:
        self._stop_timer()
        self.is_removed = True

    def forget_task(self) -> None:
        self.task = None

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def back_off_delay_s(failures: int, first_s: float, max_s: float, random: Random) -> float:
    """Doubles with each failure up to `max_s`; up to half of it is left out by chance, so that followers spread."""
    doublings = min(failures, DOUBLINGS_MAX)
    return min(max_s, first_s * float(2**doublings)) * random.uniform(0.5, 1.0)
