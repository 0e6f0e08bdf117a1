"""What the fault model permits to be lost, and what may therefore have been seen that is not there in the end. Pure.

    loss at `at_ms`                     until_ms: the last replica that believed in it follows its leader
        |  stale replicas may still show it    |
        v                                      v
    ----+--------------------------------------+---------------> time
     [from_offset, end_offset) are lost in every in-sync copy; others may be written there from now on

| what was seen                                   | is excused if                                                      |
|-------------------------------------------------|--------------------------------------------------------------------|
| a record                                        | it was sent before the loss, lies in the range, and was told by    |
|                                                 | somebody who was asked before `until_ms`                           |
| nothing, where a record is in the end           | the offset is in the range, and who answered was asked before then |
| records of a transaction that was aborted       | its marker was sent before the loss, and may have lain in the      |
|                                                 | range: the producer's next one ended it, too                       |
| an earlier offset than one that was told before | that one was in the range or its end, and no lower one is          |

No loss reaches above the end of its range: what is committed afterwards is judged as if nothing had happened.

The exact rule, computed when a fault happens (`PartitionLosses`):

A process crash keeps the page cache: it permits no loss. A machine crash loses what was not fsynced, and a wiped disk
loses all. A record acknowledged by all in-sync replicas may be gone only where *every* member of the ISR has lost it:

    copy of an ISR member                                           it holds, at least, everything below
    --------------------------------------------------------------  -------------------------------------------
    no machine crash since it was last level with the committed     (all of it)
    machine crash, or pages that an fsync could not write were      the larger of what its files held after the crash
      lost while it runs; flush.messages = n                        and what was committed there - (n - 1)
    wiped                                                           nothing: it leaves the ISR, and never leads so

If no member of the ISR has all of it, the loss begins at the lowest of these ends: which member leads next is not
told by what it has. If all of them were wiped nobody leads until an operator takes another replica, and the loss begins
where the log of that one ends, or differs. A member counts as level again once it runs and holds everything committed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import field
from typing import Final

from ....light_dataclass import dataclass

FLUSH_NEVER: Final = 2**63 - 1
"""`flush.messages` of a topic that leaves flushing to the operating system."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedLoss:
    """The offsets of one partition that may be lost. `until_ms` None: some replica still believes in them."""

    from_offset: int
    end_offset: int
    at_ms: int
    until_ms: int | None = None

    def may_be_told(self, asked_ms: int) -> bool:
        """Whether an answer to a request of that moment may show what is lost."""
        return self.until_ms is None or asked_ms <= self.until_ms

    def has(self, offset: int) -> bool:
        return self.from_offset <= offset < self.end_offset


class AllowedLosses:
    """All allowed losses of one partition, in the order of their times."""

    def __init__(self, allowed: Iterable[AllowedLoss] = ()) -> None:
        self._losses = tuple(allowed)

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._losses)

    def covers(self, offset: int, sent_ms: int, asked_ms: int) -> bool:
        """Whether a record, sent at `sent_ms` and given to a reader that asked at `asked_ms`, may be gone or moved."""
        return any(each.has(offset) and sent_ms <= each.at_ms and each.may_be_told(asked_ms) for each in self._losses)

    def may_hide(self, offset: int, asked_ms: int) -> bool:
        """Whether an answer to a request of that moment may lack what is at this offset in the end."""
        return any(each.has(offset) and each.may_be_told(asked_ms) for each in self._losses)

    def may_lack_marker_above(self, offset: int, sent_ms: int) -> bool:
        """Whether a marker that was sent then, to lie above this offset, may be gone."""
        return any(offset < each.end_offset and sent_ms <= each.at_ms for each in self._losses)

    def may_be_committed(self, end_offset: int, asked_ms: int) -> bool:
        """Whether an answer to a request of that moment may have called everything below `end_offset` committed."""
        return any(
            each.from_offset < end_offset <= each.end_offset and each.may_be_told(asked_ms) for each in self._losses
        )

    def floor(self, end_offset: int, asked_ms: int, later_ms: int) -> int:
        """The lowest end offset that may follow, at `later_ms`, on `end_offset` as the answer at `asked_ms`."""
        while below := [
            each.from_offset
            for each in self._losses
            if each.from_offset < end_offset <= each.end_offset
            and each.may_be_told(asked_ms)
            and later_ms >= each.at_ms
        ]:
            end_offset = min(below)
        return end_offset


@dataclass(slots=True)
class PartitionLosses:
    """What copies of one partition have lost. Offsets are exclusive ends."""

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

    @property
    def shorter(self) -> Collection[int]:
        """The nodes that have lost something, and have not been level since."""
        return self._ends.keys()

    def allowed_from(self, isr: Collection[int], committed_end: int) -> int | None:
        """The first committed offset that may be lost now; None if there is none."""
        ends = [self._ends.get(node_id, committed_end) for node_id in isr if node_id not in self._wiped]
        if not ends or any(end >= committed_end for end in ends):
            return None
        return min(ends)

    def _lower(self, node_id: int, end: int) -> None:
        self._ends[node_id] = min(end, self._ends.get(node_id, end))
