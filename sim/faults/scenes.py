"""Scenes of a cluster: a few faults that belong together, in an order that chance would seldom bring about.

| scene                   | what happens                                                                               |
|-------------------------|--------------------------------------------------------------------------------------------|
| two die                 | two brokers are killed within a second                                                     |
| disconnect              | a live broker loses all its connections, and is hard to reach for a while                  |
| ghost                   | a broker is killed and comes back; then its old process sends again                        |
| joiner dies             | brokers are killed and come back; the one that a leader takes into the ISR then dies again |
| replaced behind a back  | a broker is down while a topic is deleted and created again under its name                 |
| open reassignment       | a replica is moved to a broker that is down, and controllers restart meanwhile             |
| thin comes back         | a broker loses its disk, and leaders are moved as soon as it is in sync again              |

A share of the seeds has some of them beside the faults of its schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from ...light_dataclass import dataclass
from .schedule import Fault, FaultKind

SHARE: Final = 0.6
"""The share of seeds that have any."""
SCENES_MAX: Final = 3
EARLIEST_MS: Final = 2_500
"""Topics are made by then, and have records."""
LONGEST_MS: Final = 7_000

Scene = Callable[["Stage", Random, int], Sequence[Fault]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The hosts of a scene. `controllers` are those that may be killed one after the other."""

    brokers: tuple[str, ...]
    controllers: tuple[str, ...]
    wiped: tuple[str, ...]
    session_timeout_ms: int
    safety_ms: int


def scenes(rng: Random, stage: Stage) -> list[Fault]:
    """The faults of all scenes of a seed."""
    if rng.random() >= SHARE:
        return []
    chosen = rng.sample(SCENES, rng.randint(1, SCENES_MAX))
    latest_ms = stage.safety_ms - LONGEST_MS
    return [fault for scene in chosen for fault in scene(stage, rng, rng.randint(EARLIEST_MS, latest_ms))]


def two_die(stage: Stage, rng: Random, at_ms: int) -> list[Fault]:
    first, second = rng.sample(stage.brokers, 2)
    gap_ms = rng.randint(30, min(900, stage.session_timeout_ms // 2))
    return [
        Fault(at_ms, FaultKind.PROCESS_CRASH, (first,), 4_000),
        Fault(at_ms + gap_ms, FaultKind.PROCESS_CRASH, (second,), 3_000),
    ]


def disconnect(stage: Stage, rng: Random, at_ms: int) -> list[Fault]:
    broker = rng.choice(stage.brokers)
    latencies_ms = rng.sample((0, 0, 300), 2)
    return [
        Fault(at_ms + number * 3_000, FaultKind.DISCONNECT, (broker,), rng.randint(1_000, 2_500), latency_ms)
        for number, latency_ms in enumerate(latencies_ms)
    ]


def ghost(stage: Stage, rng: Random, at_ms: int) -> list[Fault]:
    broker = rng.choice(stage.brokers)
    return [
        Fault(at_ms, FaultKind.PROCESS_CRASH, (broker,), 300),
        *(Fault(at_ms + late_ms, FaultKind.GHOST, (broker,)) for late_ms in (2_500, 4_000, 6_000)),
    ]


def joiner_dies(stage: Stage, rng: Random, at_ms: int) -> list[Fault]:
    return [
        Fault(at_ms, FaultKind.PROCESS_CRASH, (rng.choice(stage.brokers),), 300),
        Fault(at_ms, FaultKind.CRASH_JOINER, (), LONGEST_MS, stage.session_timeout_ms + 400),
    ]


def replaced_behind_a_back(stage: Stage, rng: Random, at_ms: int) -> list[Fault]:
    broker = rng.choice(stage.brokers)
    return [
        Fault(at_ms, FaultKind.PROCESS_CRASH, (broker,), rng.randint(2_500, 5_000)),
        Fault(at_ms + rng.randint(300, 2_000), FaultKind.REPLACE_TOPIC),
    ]


def open_reassignment(stage: Stage, rng: Random, at_ms: int) -> list[Fault]:
    broker = rng.choice(stage.brokers)
    controllers = rng.sample(stage.controllers, len(stage.controllers))
    return [
        Fault(at_ms, FaultKind.PROCESS_CRASH, (broker,), LONGEST_MS),
        Fault(at_ms + 400, FaultKind.MOVE_REPLICA, (broker,)),
        *(
            Fault(at_ms + 2_000 + number * 1_500, FaultKind.PROCESS_CRASH, (name,), 200)
            for number, name in enumerate(controllers)
        ),
    ]


def thin_comes_back(stage: Stage, rng: Random, at_ms: int) -> list[Fault]:
    lost: list[Fault] = []
    if stage.wiped:
        lost.append(Fault(at_ms, FaultKind.WIPE, (rng.choice(stage.wiped),), 300))
    return [*lost, *(Fault(at_ms + late_ms, FaultKind.MOVE_LEADER) for late_ms in (2_500, 3_500, 4_500, 5_500))]


SCENES: Final[Sequence[Scene]] = (
    two_die,
    disconnect,
    ghost,
    joiner_dies,
    replaced_behind_a_back,
    open_reassignment,
    thin_comes_back,
)
