"""Actions of an operator: when the cluster is changed, by which row of a grammar, and by which choices of that row.

    moments of a seed --(the row that is drawn there, of those that are possible)--> actions of its run

A moment is an action without a name. The run gives it one (`scenarios.operations.grammar`): so what a seed does depends
on how its cluster stands, and yet its report has a plain list that can be stored, shortened and replayed. An action has
its own `number`, from which its row draws all it chooses: to leave one out changes no other.
"""

from __future__ import annotations

from random import Random
from typing import Final

from ...light_dataclass import dataclass

NUMBER_BITS: Final = 32


@dataclass(frozen=True, slots=True)
class Action:
    """`name` is that of a row, empty for a moment: the row is drawn then. `number` seeds what the row chooses."""

    at_ms: int
    number: int
    name: str = ""

    def __str__(self) -> str:
        return f"{self.at_ms:>7} ms  {self.name or 'any action'} ({self.number})"


def moments(rng: Random, mean_gap_ms: float, safety_ms: int) -> tuple[Action, ...]:
    """Return moments up to the end of the safety phase, so far apart on average."""
    drawn: list[Action] = []
    at_ms = rng.expovariate(1 / mean_gap_ms)
    while at_ms < safety_ms:
        drawn.append(Action(int(at_ms), rng.getrandbits(NUMBER_BITS)))
        at_ms += rng.expovariate(1 / mean_gap_ms)
    return tuple(drawn)
