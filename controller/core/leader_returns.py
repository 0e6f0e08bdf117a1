"""Preferred leaderships that come back before the balancing timer is due, of replicas that have become able to lead.

A broker that was down, was unregistered or had lost a log finds its partitions led by others when it is back in their
ISRs. The timer (`leader.imbalance.check.interval.seconds`, 5 minutes) would give them back; this does it sooner.

| event                                                                   | what follows                              |
|-------------------------------------------------------------------------|-------------------------------------------|
| the preferred replica joins an ISR that another leads, or is no longer  | the partition waits                       |
| reported to be thin                                                     |                                           |
| one session timeout after the first began to wait                       | preferred leaders of all that wait are    |
|                                                                         | elected, so many in a round               |
| it cannot lead then                                                     | it is left to the timer, or another event |
| the timer has gone through all partitions                               | each may come back early again            |

Bound: a partition comes back early once between two rounds of the timer. A broker that flaps, or a log that fails and
is opened again, costs one more election than without this.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..image.registrations import PartitionKey


class LeaderReturns:
    """The state of an active controller; none of it is in the log."""

    __slots__ = ("_due_ms", "_returned", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[PartitionKey, None] = {}
        self._returned: set[PartitionKey] = set()
        self._due_ms: int | None = None

    def note(self, key: PartitionKey) -> None:
        """The partition's preferred replica may lead now, and another one does."""
        if key not in self._returned:
            self._waiting[key] = None

    def deadline_ms(self) -> int | None:
        """The time at which to call `take`, 0 for at once; None while no partition waits."""
        return (self._due_ms or 0) if self._waiting else None

    def take(self, now_ms: int, delay_ms: int, count_max: int) -> list[PartitionKey]:
        """Partitions to elect the preferred leaders of now, at most so many. The first call begins the delay."""
        if not self._waiting:
            return []
        if self._due_ms is None:
            self._due_ms = now_ms + delay_ms
        if now_ms < self._due_ms:
            return []
        taken = list(self._waiting)[:count_max]
        for key in taken:
            del self._waiting[key]
        if not self._waiting:
            self._due_ms = None
        return taken

    def returned(self, keys: Iterable[PartitionKey]) -> None:
        """Their preferred leaders were elected early."""
        self._returned.update(keys)

    def balanced(self) -> None:
        """The timer has visited all partitions that a replica other than the preferred one leads."""
        self._returned.clear()
