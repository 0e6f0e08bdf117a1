"""Which connections a listener accepts: their number, their number by address, and their rate.

The rate is that of Kafka's `max.connection.creation.rate`: connections a second, saved up for one second at most. As in
Kafka, a connection that its address's limit refuses counts in it; one that `max.connections` refuses does not, as Kafka
accepts none while that limit is reached.
"""

from __future__ import annotations

from collections import Counter

from .server_limits import UNLIMITED, ServerLimits


class Admission:
    """Counts the connections of one listener."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._by_address: Counter[str] = Counter()
        self._saved = float(limits.connection_rate_max)
        self._saved_at_s: float | None = None

    @property
    def total(self) -> int:
        return self._by_address.total()

    def accept(self, address: str, now_s: float) -> str | None:
        """Count a new connection, and return None; or return why it is refused."""
        limits = self._limits
        if self.total >= limits.connections_max:
            return f"{self.total} are connected (max.connections)"
        if not self._take_from_rate(now_s):
            return f"more than {limits.connection_rate_max} came within a second (max.connection.creation.rate)"
        if self._by_address[address] >= limits.connections_per_ip_max:
            return f"{self._by_address[address]} of its address are connected (max.connections.per.ip)"
        self._by_address[address] += 1
        return None

    def ended(self, address: str) -> None:
        """Account for the end of a connection that was accepted."""
        self._by_address[address] -= 1
        if self._by_address[address] <= 0:
            del self._by_address[address]

    def _take_from_rate(self, now_s: float) -> bool:
        rate = self._limits.connection_rate_max
        if rate == UNLIMITED:
            return True
        passed_s = 0.0 if self._saved_at_s is None else now_s - self._saved_at_s
        self._saved, self._saved_at_s = min(self._saved + passed_s * rate, float(rate)), now_s
        if self._saved < 1:
            return False
        self._saved -= 1
        return True
