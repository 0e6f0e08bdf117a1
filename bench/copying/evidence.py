"""What held up a loop, from its own histograms and from a bare loop beside it. Pure.

A loop's timer is late because the loop itself computed, because it had no CPU, or because another thread of its process
had the interpreter. The first one is the CPU time of the loop's thread within the pause. The second one befalls a bare
loop beside it too; a busier process is scheduled later than a bare loop, so what was late while nothing was copied
counts as the machine's as well. What is left is due to the copy's threads: to the lock that they hold, or the CPU that
they take.

| late ticks of the broker | of them by its own CPU time | late without the copy, or in a bare loop | reading |
|---|---|---|---|
| few | | | nothing to explain |
| many | half or more | | the loop computes too long |
| many | fewer | at least half as many | the machine |
| many | fewer | fewer | the copy's threads; whether it is the lock, a shorter switch interval shows |
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

LATE_S: Final = 0.01
"""A bound of the brokers' histogram. A tick that is later counts as late."""
FEW: Final = 0.02
"""The share of late ticks that needs no explanation."""
HALF: Final = 0.5


def late_share(before: Mapping[str, float], after: Mapping[str, float], late_s: float = LATE_S) -> float:
    """Return the share of observations above `late_s`, a bound of the histogram, between two scrapes of it."""
    counts = {_bound(name): after[name] - before.get(name, 0.0) for name in after if "_bucket{" in name}
    total = counts[math.inf]
    return (total - counts[late_s]) / total if total else 0.0


def _bound(name: str) -> float:
    return float(name.partition("_bucket{")[2].rstrip("}"))


@dataclass(frozen=True, slots=True)
class Lateness:
    """Shares of late ticks: of the broker's loop, of those by its own CPU time, of a bare loop beside it."""

    broker: float
    own: float
    bare: float


def reading(late: Lateness, alone: Lateness) -> str:
    """Return what the table above says; `alone` is the same loop while nothing is copied."""
    if late.broker <= FEW:
        return "few late ticks"
    if late.own >= HALF * late.broker:
        return "the loop computes"
    if max(late.bare, alone.broker - alone.own) >= HALF * late.broker:
        return "the machine"
    return "the copy's threads"
