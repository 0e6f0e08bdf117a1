"""How long to wait after a failure: longer each time, up to a limit, and never two nodes alike."""

from __future__ import annotations

from random import Random


class Backoff:
    """`initial_ms` after the first failure, twice as long after each further one, at most `max_ms`; each time up to
    `jitter` (a share of it) more or less, drawn from `random`.
    """

    def __init__(self, initial_ms: int, max_ms: int, jitter: float, random: Random) -> None:
        assert 0 < initial_ms <= max_ms, (initial_ms, max_ms)
        assert 0 <= jitter < 1, jitter
        self._initial_ms = initial_ms
        self._max_ms = max_ms
        self._jitter = jitter
        self._random = random
        self._next_ms = initial_ms

    def reset(self) -> None:
        """After a success."""
        self._next_ms = self._initial_ms

    def next_delay_ms(self) -> float:
        """After a failure."""
        delay_ms = self._next_ms
        self._next_ms = min(self._max_ms, delay_ms * 2)
        return min(self._max_ms, delay_ms * self._random.uniform(1 - self._jitter, 1 + self._jitter))
