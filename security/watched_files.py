"""Whether files have changed: their times and sizes, looked at when a connection is made, at most once a second."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final

CHECK_INTERVAL_S: Final = 1.0


class WatchedFiles:
    """`now_s` is a monotonic clock."""

    def __init__(self, paths: Sequence[str], now_s: Callable[[], float]) -> None:
        self._paths = paths
        self._now_s = now_s
        self._seen = self._look()
        self._checked_s = now_s()

    def have_changed(self) -> bool:
        """Whether a file differs from what it was when this last returned True, or at the start."""
        now_s = self._now_s()
        if now_s < self._checked_s + CHECK_INTERVAL_S:
            return False
        self._checked_s = now_s
        seen = self._look()
        has_changed, self._seen = seen != self._seen, seen
        return has_changed

    def _look(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(map(_stamp, self._paths))


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
