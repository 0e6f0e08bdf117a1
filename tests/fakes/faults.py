"""Faults by number: let the n-th call of a run fail, for n = 1, 2, ... until a run ends without one."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

FAILURES_MAX = 10_000


@dataclass(slots=True)
class FailNth:
    """The n-th effect (from 1) raises OSError(`error_number`), or crashes.

    `persistent`: so does every later one. `reads`: calls that change nothing are counted and fail as well. `only`:
    count these operations alone. `fired` tells whether the run got that far.
    """

    n: int
    crash: bool = False
    persistent: bool = False
    reads: bool = False
    error_number: int = errno.EIO
    only: frozenset[str] | None = None
    calls: int = 0

    @property
    def fired(self) -> bool:
        return self.calls >= self.n

    def hits(self, operation: str, *, is_read: bool) -> bool:
        if (is_read and not self.reads) or (self.only is not None and operation not in self.only):
            return False
        self.calls += 1
        return self.calls == self.n or (self.persistent and self.calls > self.n)


def failures(
    *, crash: bool = False, persistent: bool = False, reads: bool = False, error_number: int = errno.EIO
) -> Iterator[FailNth]:
    """FailNth(1), FailNth(2), ... until a run ended without reaching its fault."""
    for n in count(1):
        assert n <= FAILURES_MAX, f"the run still had effects after {n} failures"
        fault = FailNth(n, crash=crash, persistent=persistent, reads=reads, error_number=error_number)
        yield fault
        if not fault.fired:
            return
