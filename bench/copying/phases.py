"""What is measured in which order. Pure.

    round    0               1               2          ...
    phases   alone, copying  copying, alone  alone, copying

Both phases of a round come from one cluster, right after each other, and are compared with each other alone: a machine
that is slow for a minute is slow for both. In every second round copying comes first, so that neither phase always has
the younger cluster, the emptier disk or the warmer caches.

A record's latency begins when it was due by the rate, not when it was handed over: a producer that was held up for a
second has held up the records of that second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

GOAL: Final = 2.0
"""The p99 while copying, at most, as a multiple of that without."""
QUANTILES: Final[Mapping[str, float]] = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}


class Phase(Enum):
    """What the leader does besides serving producers."""

    ALONE = "alone"
    COPYING = "while copying"


def phases_of(round_number: int) -> tuple[Phase, Phase]:
    """Return the phases of a round in their order."""
    found = (Phase.ALONE, Phase.COPYING)
    return found if round_number % 2 == 0 else (found[1], found[0])


@dataclass(frozen=True, slots=True)
class Case:
    """A tier, the switch interval of the brokers' interpreters in ms (None leaves it as it is), and whether a worker
    process copies.
    """

    tier: str
    switch_interval_ms: float | None = None
    has_worker: bool = True

    @property
    def name(self) -> str:
        name = self.tier if self.has_worker else f"{self.tier}, copies in the broker"
        return name if self.switch_interval_ms is None else f"{name}, switch interval {self.switch_interval_ms:g} ms"


def cases(tiers: Sequence[str], switch_intervals_ms: Sequence[float], workers: Sequence[bool] = (True,)) -> list[Case]:
    """Return each tier with each interval, or with that of the interpreter where none is given, with the worker or
    without it.
    """
    intervals = switch_intervals_ms or (None,)
    return [Case(tier, interval, has_worker) for tier in tiers for interval in intervals for has_worker in workers]


def due_s(number: int, records_per_s: float) -> float:
    """Return when a record is due, from the beginning on."""
    return number / records_per_s


def due_count(passed_s: float, records_per_s: float) -> int:
    """Return how many records are due by then: the first one at once."""
    return int(passed_s * records_per_s) + 1


def quantiles(latencies_ms: Sequence[float]) -> dict[str, float]:
    """Return the quantiles by name, each a value that occurred. ValueError of none."""
    if not latencies_ms:
        raise ValueError("no record was acknowledged in this phase")
    ordered = sorted(latencies_ms)
    return {name: ordered[min(len(ordered) - 1, int(share * len(ordered)))] for name, share in QUANTILES.items()}


def is_long_enough(latencies_ms: Sequence[float]) -> bool:
    """Return whether the highest quantile is not just the slowest record."""
    return len(latencies_ms) * (1 - max(QUANTILES.values())) >= 2
