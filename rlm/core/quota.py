"""A token bucket: a number of bytes per second as a pure value of time."""

from __future__ import annotations


class TokenBucket:
    """Bytes that may be moved, refilled at `bytes_per_second` up to one second's worth.

    A segment is larger than a bucket, so anybody may take any number of bytes, and waits for the debt that was there
    before. `now_s` is a monotonic clock's; it never goes back.
    """

    def __init__(self, bytes_per_second: int, now_s: float) -> None:
        assert bytes_per_second > 0, bytes_per_second
        self._bytes_per_second = bytes_per_second
        self._available = float(bytes_per_second)
        self._at_s = now_s

    def change(self, bytes_per_second: int, now_s: float) -> None:
        """Refill at another rate from now on."""
        assert bytes_per_second > 0, bytes_per_second
        self._refill(now_s)
        self._bytes_per_second = bytes_per_second

    def take(self, count: int, now_s: float) -> float:
        """How long to wait before these `count` bytes may be moved, in seconds."""
        assert count >= 0, count
        self._refill(now_s)
        delay_s = max(0.0, -self._available / self._bytes_per_second)
        self._available -= count
        return delay_s

    def has(self, count: int, now_s: float) -> bool:
        """Whether these `count` bytes could be taken without leaving a debt."""
        self._refill(now_s)
        return self._available >= count

    def _refill(self, now_s: float) -> None:
        assert now_s >= self._at_s, (now_s, self._at_s)
        gained = (now_s - self._at_s) * self._bytes_per_second
        self._available = min(float(self._bytes_per_second), self._available + gained)
        self._at_s = now_s
