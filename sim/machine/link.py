"""One direction between two hosts: how long bytes take, and whether they arrive at all."""

from __future__ import annotations

from dataclasses import field
from math import log
from random import Random
from typing import Final, Generic, TypeVar

from ...light_dataclass import dataclass

Sender = TypeVar("Sender")

LATENCY_S: Final = 0.000_2
JITTER_S: Final = 0.000_1
BYTES_PER_S: Final = 1.25e9
"""Ten gigabits a second."""


@dataclass(slots=True, eq=False)
class Link(Generic[Sender]):
    """From `source` to `target`. A delay is `latency_s` plus an exponential part of mean `jitter_s`, plus the size at
    `bytes_per_s`. While `is_blocked` nothing arrives: TCP keeps what was sent and tries again.
    """

    source: str
    target: str
    latency_s: float = LATENCY_S
    jitter_s: float = JITTER_S
    bytes_per_s: float = BYTES_PER_S
    is_blocked: bool = False
    blocked_at_s: float = 0.0
    transports: dict[Sender, None] = field(default_factory=dict)
    """The source host's transports on this link."""

    def delay_s(self, rng: Random, size: int) -> float:
        return self.latency_s - self.jitter_s * log(1.0 - rng.random()) + size / self.bytes_per_s

    def slow_down(self, factor: float) -> None:
        """Compared with what a link is at first; 1 is as before."""
        self.latency_s, self.jitter_s = LATENCY_S * factor, JITTER_S * factor
        self.bytes_per_s = BYTES_PER_S / factor
