"""Which losses the fault model permits: the exact rule, computed when a fault happens. Pure.

A process crash keeps the page cache: it permits no loss. A machine crash loses what was not fsynced, and a wiped disk
loses all. A record acknowledged by all in-sync replicas may be gone only where *every* member of the ISR has lost it:

    copy of an ISR member                                           it holds, at least, everything below
    --------------------------------------------------------------  -------------------------------------------
    no machine crash since it was last level with the committed     (all of it)
    machine crash, flush.messages = n                               the larger of what its files held after the crash
                                                                    and what was committed there - (n - 1)
    wiped                                                           nothing: it leaves the ISR, and never leads so

If no member of the ISR has all of it, the loss begins at the lowest of these ends: which member leads next is not
told by what it has. If all of them were wiped nobody leads until an operator takes another replica, and the loss begins
where the log of that one ends, or differs. A member counts as level again once it runs and holds everything committed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field


@dataclass(slots=True)
class PartitionLosses:
    """Of one partition. Offsets are exclusive ends."""

    flush_messages: int
    _ends: dict[int, int] = field(default_factory=dict)
    """What nodes that lost something still hold."""
    _wiped: set[int] = field(default_factory=set)

    def machine_crashed(self, node_id: int, *, surviving_end: int, committed_end: int) -> None:
        """`surviving_end` is what a reader of its files finds now; of what was committed, this log had everything below
        `committed_end` the instant before. An append is flushed after it became visible: what was not committed yet was
        promised to nobody.
        """
        promised_end = committed_end - (self.flush_messages - 1)
        self._lower(node_id, max(surviving_end, promised_end))

    def wiped(self, node_id: int) -> None:
        self._lower(node_id, 0)
        self._wiped.add(node_id)

    def is_running(self, node_id: int, log_end_offset: int, committed_end: int) -> None:
        """The node runs and its log ends there."""
        if node_id in self._ends and log_end_offset >= committed_end:
            del self._ends[node_id]
            self._wiped.discard(node_id)

    def has_lost(self, node_id: int) -> bool:
        """And has not been level since."""
        return node_id in self._ends

    def allowed_from(self, isr: Collection[int], committed_end: int) -> int | None:
        """The first committed offset that may be lost now; None if there is none."""
        ends = [self._ends.get(node_id, committed_end) for node_id in isr if node_id not in self._wiped]
        if not ends or any(end >= committed_end for end in ends):
            return None
        return min(ends)

    def _lower(self, node_id: int, end: int) -> None:
        self._ends[node_id] = min(end, self._ends.get(node_id, end))
