"""One direction between two hosts: how long bytes take, and whether they arrive at all."""

from __future__ import annotations

from dataclasses import field
from math import log
from random import Random
from typing import Final, Generic, TypeVar

from ...light_dataclass import dataclass
from .pipe import Pipe

Sender = TypeVar("Sender")

LATENCY_S: Final = 0.000_2
JITTER_S: Final = 0.000_1
BYTES_PER_S: Final = 1.25e9
"""Ten gigabits a second."""


@dataclass(slots=True, eq=False)
class Link(Generic[Sender]):
    """From `source` to `target`. A delay is `latency_s` plus an exponential part of mean `jitter_s`, plus the size at
    `bytes_per_s`. While `is_blocked` nothing arrives: TCP keeps what was sent and tries again.

    Links of different hosts do not share anything, unless hosts were given interfaces: then bytes leave by `out_of` and
    arrive by `into`, each with all else that its host sends or gets.
    """

    source: str
    target: str
    latency_s: float = LATENCY_S
    jitter_s: float = JITTER_S
    bytes_per_s: float = BYTES_PER_S
    is_blocked: bool = False
    blocked_at_s: float = 0.0
    out_of: Pipe | None = None
    into: Pipe | None = None
    transports: dict[Sender, None] = field(default_factory=dict)
    """The source host's transports on this link."""

    def delay_s(self, rng: Random, size: int) -> float:
        return self.latency_s - self.jitter_s * log(1.0 - rng.random()) + size / self.bytes_per_s

    @property
    def is_shared(self) -> bool:
        return self.out_of is not None or self.into is not None

    def arrival_s(self, now_s: float, rng: Random, size: int) -> float:
        """When bytes that leave now are there."""
        left_s = now_s if self.out_of is None else self.out_of.passed_s(now_s, now_s, size)
        there_s = left_s + self.delay_s(rng, size)
        return there_s if self.into is None else self.into.passed_s(now_s, there_s, size)

    def slow_down(self, factor: float) -> None:
        """Compared with what a link is at first; 1 is as before."""
        self.latency_s, self.jitter_s = LATENCY_S * factor, JITTER_S * factor
        self.bytes_per_s = BYTES_PER_S / factor
