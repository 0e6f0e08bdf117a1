"""Something that bytes pass one after the other at a rate: one direction of a host's network interface, or its disk."""

from __future__ import annotations

from ...light_dataclass import dataclass


@dataclass(slots=True)
class Pipe:
    """Who asks first passes first: what many have under way passes in turn, so that all get an even share."""

    bytes_per_s: float
    free_at_s: float = 0.0

    def passed_s(self, at_s: float, size: int) -> float:
        """Return when these bytes are through, which are there at `at_s`."""
        self.free_at_s = max(self.free_at_s, at_s) + size / self.bytes_per_s
        return self.free_at_s
