"""Something that bytes pass one after the other at a rate: one direction of a host's network interface, or its disk.

Bytes pass as soon as they are there and the pipe is free. What is asked for first passes first, but what is there only
later holds up nothing that can pass before it: while the packets of a slow sender are on their way, those of others
pass. The pipe is idle only while nothing that is there waits.

State: the times for which it is taken, from now on, in order and apart. What is over is forgotten, so there is at most
one for each piece that is under way, however long a world lives. Of more than `TIMES_MAX` the last two become one: what
would have passed between them waits a little longer. Nothing passes earlier than it would without that limit.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import field
from typing import Final

from ...light_dataclass import dataclass

TIMES_MAX: Final = 4_096


@dataclass(slots=True, eq=False)
class Pipe:
    """What many have under way passes in turn, so that all get an even share."""

    bytes_per_s: float
    _begins_s: list[float] = field(default_factory=list)
    _ends_s: list[float] = field(default_factory=list)

    def passed_s(self, now_s: float, at_s: float, size: int) -> float:
        """Return when these bytes are through, which are there at `at_s`; asked now, which never goes back."""
        begins_s, ends_s = self._begins_s, self._ends_s
        over = bisect_right(ends_s, now_s)
        if over:
            del begins_s[:over], ends_s[:over]
        left_s = size / self.bytes_per_s
        first = last = bisect_left(ends_s, at_s)
        begin_s = free_s = at_s
        if last < len(begins_s) and begins_s[last] <= at_s:
            begin_s, free_s = begins_s[last], ends_s[last]
            last += 1
        while last < len(begins_s) and begins_s[last] - free_s < left_s:
            left_s -= begins_s[last] - free_s
            free_s = ends_s[last]
            last += 1
        passed_s = free_s + left_s
        begins_s[first:last] = [begin_s]
        ends_s[first:last] = [passed_s]
        if len(ends_s) > TIMES_MAX:
            del begins_s[-1], ends_s[-2]
        return passed_s
