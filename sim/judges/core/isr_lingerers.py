"""Whether a member that lags is taken out of the ISR in time: a promise of settings, faults or not.

A follower that ends at `end` was level with its leader until the leader's log first ended above `end`. With that moment
`replica.lag.time.max.ms` begins; when it is over, the leader has to ask for an ISR without the member at its next look.

| the clock of a member                      | begins (again)                                                       |
|--------------------------------------------|----------------------------------------------------------------------|
| `replica.lag.time.max.ms`                  | when the leader's log ends above all that the member ever had; when  |
|                                            | the leader begins to lead; when the member joins                     |
| the leader's next look                     | when that is over; when the leader runs again after a pause; when    |
|                                            | another change of the ISR that it had asked for is settled           |

| invariant              | violated when                                                                           |
|------------------------|-----------------------------------------------------------------------------------------|
| laggards are asked out | both clocks have run out, the leader leads and runs, nothing that it asked for is open,  |
|                        | and the member is in the ISR                                                             |

What the member had is taken from its log, not from its fetches, and never goes back: a replica that lost something, or
whose fetches do not arrive, is judged later than it might be, never sooner. Whether the controller can be reached is
no matter: to ask is enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Final

from ....broker.cluster import ClusterImage, PartitionRegistration
from ....light_dataclass import dataclass
from ....protocol import TopicIdPartition
from .events import (
    IsrChangeSettled,
    JoinersRequested,
    LeaderProgressed,
    LeaversRequested,
    MetadataChanged,
    MomentPassed,
    Observed,
    ReplicaChanged,
    ReplicaLeft,
)
from .partition import InvariantViolationError, ReplicaStatus

SLACK_S: Final = 1.0
"""More than a pause that falls between two moments, and what the leader needs to look."""
LOOK_S_MAX: Final = 5.0
"""A leader looks this often at least."""
ENDS_MAX: Final = 4_096
"""Appends of a leader that are remembered; a member that lags more does so since the oldest of them, or before."""


@dataclass(slots=True)
class _Led:
    """A partition under one leader epoch. `ends`: where the leader's log ended, and since when, oldest first."""

    leader: ReplicaStatus
    began_s: float
    free_s: float
    """Since when the leader runs, with no change of the ISR open."""
    is_open: bool = False
    ends: list[tuple[float, int]] = field(default_factory=list)
    joined_s: dict[int, float] = field(default_factory=dict)

    def behind_since_s(self, end_offset: int) -> float | None:
        """When the leader's log first ended above this; None if it does not."""
        if self.leader.log_end_offset <= end_offset:
            return None
        since_s = self.ends[-1][0]
        for at_s, end in reversed(self.ends):
            if end <= end_offset:
                break
            since_s = at_s
        return since_s


class IsrLingerersJudge:
    """Judges all leaders by the cluster's newest image. `is_running` says whether the process of a replica
    still runs.
    """

    def __init__(
        self,
        image: Callable[[], ClusterImage],
        now_s: Callable[[], float],
        is_running: Callable[[ReplicaStatus], bool],
        *,
        lag_time_max_ms: int,
    ) -> None:
        self._image = image
        self._now_s = now_s
        self._is_running = is_running
        self._lag_s = lag_time_max_ms / 1000
        self._look_s = min(self._lag_s / 2, LOOK_S_MAX)
        self._led: dict[TopicIdPartition, _Led] = {}
        self._best: dict[tuple[TopicIdPartition, int], int] = {}
        """The highest end that a replica's log ever had, by node."""

    def on(self, event: Observed) -> None:
        match event:
            case LeaderProgressed(name, leader):
                self._progressed(name, leader)
            case ReplicaChanged(name, now):
                self._best[name, now.node_id] = max(now.log_end_offset, self._best.get((name, now.node_id), 0))
                if now.leads_epoch is None:
                    self._ends(name, now.node_id)
            case ReplicaLeft(node_id, name):
                self._ends(name, node_id)
            case JoinersRequested(name, leader) | LeaversRequested(name, leader):
                self._opened(name, leader, is_open=True)
            case IsrChangeSettled(name, leader):
                self._opened(name, leader, is_open=False)
            case MetadataChanged(_, _, before, after):
                self._changed(before, after)
            case MomentPassed():
                for name, led in self._led.items():
                    self._look(name, led)

    def _progressed(self, name: TopicIdPartition, leader: ReplicaStatus) -> None:
        led, now_s = self._led.get(name), self._now_s()
        is_same = led is not None and (led.leader.incarnation, led.leader.leads_epoch, led.leader.node_id) == (
            leader.incarnation,
            leader.leads_epoch,
            leader.node_id,
        )
        if led is None or not is_same:
            if led is not None and (led.leader.leads_epoch or 0) > (leader.leads_epoch or 0):
                return  # one of a past epoch, which has not learned that it leads no longer
            led = self._led[name] = _Led(leader, now_s, now_s)
        if not led.ends or leader.log_end_offset > led.ends[-1][1]:
            led.ends.append((now_s, leader.log_end_offset))
            del led.ends[:-ENDS_MAX]
        led.leader = leader

    def _ends(self, name: TopicIdPartition, node_id: int) -> None:
        """A node no longer leads a partition, if it did."""
        led = self._led.get(name)
        if led is not None and led.leader.node_id == node_id:
            del self._led[name]

    def _opened(self, name: TopicIdPartition, leader: ReplicaStatus, *, is_open: bool) -> None:
        led = self._led.get(name)
        if led is not None and led.leader.node_id == leader.node_id:
            led.is_open, led.free_s = is_open, self._now_s()

    def _changed(self, before: ClusterImage, after: ClusterImage) -> None:
        """Note who joins an ISR."""
        for name, led in self._led.items():
            then, now = before.partition(name.topic_partition), after.partition(name.topic_partition)
            if then is not now and now is not None:
                for member in set(now.isr) - set(() if then is None else then.isr):
                    led.joined_s[member] = self._now_s()

    def _look(self, name: TopicIdPartition, led: _Led) -> None:
        """InvariantViolationError."""
        now_s, image = self._now_s(), self._image()
        if led.is_open or not self._is_running(led.leader):
            led.free_s = now_s
            return
        now = image.partition(name.topic_partition)
        if now is None or image.topic_names.get(name.topic_id) != name.topic:
            return
        if (now.leader, now.leader_epoch) != (led.leader.node_id, led.leader.leads_epoch):
            led.free_s = now_s
            return
        for member in now.isr:
            if member != now.leader:
                self._check(name, led, now, member)

    def _check(self, name: TopicIdPartition, led: _Led, now: PartitionRegistration, member: int) -> None:
        """InvariantViolationError."""
        best = self._best.get((name, member), 0)
        since_s = led.behind_since_s(best)
        if since_s is None:
            return
        over_s = max(since_s, led.began_s, led.joined_s.get(member, 0.0)) + self._lag_s
        if self._now_s() > max(over_s, led.free_s) + self._look_s + SLACK_S:
            raise InvariantViolationError(
                "laggards are asked out",
                f"{name.topic_partition}: {member} is in the ISR {now.isr} of {now.leader}, which leads epoch "
                f"{now.leader_epoch} since {led.began_s:.3f} s, and its log never ended above {best}, where the "
                f"leader's passed at {since_s:.3f} s and is at {led.leader.log_end_offset} now; it had to be asked out "
                f"soon after {over_s:.3f} s (replica.lag.time.max.ms is {self._lag_s * 1000:.0f})",
            )
