"""Scenes of a quorum: faults in the order in which a mistake in elections, or in what is committed, shows.

| scene       | what happens                                                                                      |
|-------------|---------------------------------------------------------------------------------------------------|
| late votes  | leaders are lost, and votes are on their way for so long that their candidates may stand again    |
| relief      | leaders are cut off one after the other, each with a tail of its own, and come back with it       |
| slow voter  | a voter's disk is slow while leaders change; then all machines crash                              |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from .schedule import Fault, FaultKind

SHARE: Final = 0.6
"""The share of seeds that have one."""
EARLIEST_MS: Final = 1_500
LONGEST_MS: Final = 9_000

Scene = Callable[[Sequence[str], Random, int], Sequence[Fault]]


def quorum_scene(rng: Random, voters: Sequence[str], safety_ms: int) -> list[Fault]:
    """The faults of the scene of a seed, if it has one."""
    if rng.random() >= SHARE:
        return []
    scene = rng.choice(QUORUM_SCENES)
    return list(scene(voters, rng, rng.randint(EARLIEST_MS, safety_ms - LONGEST_MS)))


def late_votes(voters: Sequence[str], rng: Random, at_ms: int) -> list[Fault]:
    return [
        Fault(at_ms, FaultKind.LATE_VOTES, (), 8_000),
        *(
            Fault(at_ms + 100 + number * 2_500, FaultKind.ISOLATE_LEADER, (), rng.randint(500, 2_000))
            for number in range(3)
        ),
    ]


def relief(voters: Sequence[str], rng: Random, at_ms: int) -> list[Fault]:
    return [Fault(at_ms, FaultKind.RELIEVE_LEADERS, (), rng.randint(5_000, 9_000))]


def slow_voter(voters: Sequence[str], rng: Random, at_ms: int) -> list[Fault]:
    return [
        Fault(at_ms, FaultKind.SLOW_DISK, (rng.choice(voters),), 6_000, rng.choice((10, 30, 100))),
        Fault(at_ms + rng.randint(500, 2_000), FaultKind.MOVE_LEADER),
        Fault(at_ms + rng.randint(2_500, 6_000), FaultKind.POWER_FAILURE, tuple(voters), 500),
    ]


QUORUM_SCENES: Final[Sequence[Scene]] = (late_votes, relief, slow_voter)
