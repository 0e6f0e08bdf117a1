"""Which chunks consumers that read on are about to read, and which they have passed. Pure; `now_s` is monotonic.

Chunks that were used least lately are not those that are needed least: what is fetched ahead has not been used at all,
and what a consumer has passed was used just now.

| state    | begins                                  | ends                                | memory                   |
|----------|-----------------------------------------|-------------------------------------|--------------------------|
| expected | it is ahead of a consumer, or has one   | passed; `EXPECTED_S` without such a | counts: less is fetched  |
|          | within it: each of its reads repeats it | read                                | ahead                    |
| passed   | its consumer has read it to its end, or | read again, by another; evicted     | goes first, oldest first |
|          | does not come                           |                                     |                          |
| neither  | read by one that does not read on       | -                                   | goes by its last use     |
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

EXPECTED_S: Final = 10.0

K = TypeVar("K", bound=Hashable)


class ExpectedChunks(Generic[K]):
    """See the module's docstring."""

    def __init__(self) -> None:
        self._expected: dict[K, tuple[int, float]] = {}
        """The size of each, and until when."""
        self._passed: dict[K, None] = {}
        """In the order in which they were passed."""

    def expect(self, key: K, size: int, now_s: float) -> None:
        self._passed.pop(key, None)
        self._expected[key] = size, now_s + EXPECTED_S

    def read(self, key: K) -> None:
        """Take up that the chunk is read, by whichever consumer."""
        self._passed.pop(key, None)

    def passed(self, key: K) -> None:
        self._expected.pop(key, None)
        self._passed.pop(key, None)
        self._passed[key] = None

    def size_bytes(self, now_s: float, is_here: Callable[[K], bool]) -> int:
        """Return the size of all that is expected, and under way or kept."""
        for key, (_, until_s) in list(self._expected.items()):
            if not is_here(key):
                del self._expected[key]
            elif until_s <= now_s:
                self.passed(key)
        return sum(size for size, _ in self._expected.values())

    def pop_passed(self) -> K | None:
        """Forget the chunk that was passed first, which may no longer be kept; None if there is none."""
        key = next(iter(self._passed), None)
        if key is not None:
            del self._passed[key]
        return key
