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
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedLoss:
    """The offsets of one partition that may be lost. `until_ms` None: somebody believes in them still."""

    from_offset: int
    end_offset: int
    at_ms: int
    until_ms: int | None = None

    def may_be_told(self, asked_ms: int) -> bool:
        """Whether somebody who was asked then may have told of what is lost."""
        return self.until_ms is None or asked_ms <= self.until_ms

    def has(self, offset: int) -> bool:
        return self.from_offset <= offset < self.end_offset


class AllowedLosses:
    """All of one partition, in the order of their times."""

    def __init__(self, allowed: Iterable[AllowedLoss] = ()) -> None:
        self._losses = tuple(allowed)

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._losses)

    def covers(self, offset: int, sent_ms: int, asked_ms: int) -> bool:
        """A record that was sent then and told of by somebody who was asked then may be gone, or be elsewhere."""
        return any(each.has(offset) and sent_ms <= each.at_ms and each.may_be_told(asked_ms) for each in self._losses)

    def may_hide(self, offset: int, asked_ms: int) -> bool:
        """Who was asked then need not have shown what is at this offset in the end."""
        return any(each.has(offset) and each.may_be_told(asked_ms) for each in self._losses)

    def may_lack_marker_above(self, offset: int, sent_ms: int) -> bool:
        """A marker that was sent then, to lie above this offset, may be gone."""
        return any(offset < each.end_offset and sent_ms <= each.at_ms for each in self._losses)

    def may_be_committed(self, end_offset: int, asked_ms: int) -> bool:
        """Who was asked then may have said that everything below `end_offset` is committed, though it is not."""
        return any(
            each.from_offset < end_offset <= each.end_offset and each.may_be_told(asked_ms) for each in self._losses
        )

    def floor(self, end_offset: int, asked_ms: int, later_ms: int) -> int:
        """Who was told `end_offset` when it asked at `asked_ms` is told of nothing below this at `later_ms`."""
        for each in self._losses:
            if each.from_offset < end_offset <= each.end_offset and each.may_be_told(asked_ms):
                end_offset = each.from_offset if later_ms >= each.at_ms else end_offset
        return end_offset
