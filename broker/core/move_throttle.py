"""How fast replicas are copied between log directories: `replica.alter.log.dirs.io.max.bytes.per.second`, all together.

What was copied is a debt that is paid off at the present rate; nothing is copied while there is a debt. So a turn may
exceed what is left, and the mean is the rate. Unused time is not saved up. Pure: the caller says what time it is, in s.
"""

from __future__ import annotations

from collections.abc import Callable

from ...light_dataclass import dataclass


@dataclass(slots=True)
class MoveThrottle:
    """`bytes_per_second` returns the rate that is configured now."""

    bytes_per_second: Callable[[], int]
    _debt_bytes: float = 0.0
    _paid_at_s: float = 0.0

    def copied(self, size: int) -> None:
        self._debt_bytes += size

    def may_copy(self, now_s: float) -> bool:
        paid_bytes = (now_s - self._paid_at_s) * self.bytes_per_second()
        self._debt_bytes, self._paid_at_s = max(0.0, self._debt_bytes - paid_bytes), now_s
        return self._debt_bytes == 0
