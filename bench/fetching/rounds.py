"""Who is measured when, and what is compared with what. Pure.

In a round every contestant reads every case once, right after the others; the next round begins with another one. What
is compared was measured in the same round: a machine that is slow for a minute is slow for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

T = TypeVar("T")

LOCAL: Final = "local"
TIERED: Final = "tiered"
WARM: Final = "warm"
COLD: Final = "cold"


@dataclass(frozen=True, slots=True)
class Case:
    """Where the records are, whether their pages are in memory, and by how many connections they are read."""

    place: str
    cache: str
    connections: int

    @property
    def name(self) -> str:
        return f"{self.place}, {self.cache}, {self.connections} connection{'s' * (self.connections > 1)}"


def cases(places: Sequence[str], caches: Sequence[str], connections: Sequence[int]) -> Iterator[Case]:
    for place in places:
        for cache in caches:
            for count in connections:
                yield Case(place, cache, count)


def in_turn(contestants: Sequence[T], round_number: int) -> list[T]:
    """Return them in the order of this round: each is the first one equally often."""
    first = round_number % len(contestants)
    return [*contestants[first:], *contestants[:first]]


def best_of_each_round(values: Mapping[str, Sequence[float]]) -> list[float]:
    """Return the best value of each round, whichever contestant had it."""
    return [max(each) for each in zip(*values.values(), strict=True)]


def ratios(values: Sequence[float], others: Sequence[float]) -> list[float]:
    """Return the ratio of each round."""
    return [value / other for value, other in zip(values, others, strict=True)]
