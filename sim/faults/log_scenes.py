"""Scenes of a cluster about its logs: faults in the order in which mistakes of replication and tiering show.

| scene                | what happens                                                                                |
|----------------------|---------------------------------------------------------------------------------------------|
| short reigns         | a broker is killed; who leads next is cut off at once, though not from its clients, and has |
|                      | to take back what it took meanwhile                                                         |
| interrupted deletion | a topic is deleted while the store is down, and all brokers are killed before it is back    |
| newcomer             | leaders move now and then, so that several epochs are in the tier; then a broker loses its  |
|                      | disk                                                                                        |
| slow flush           | a broker's disk is slow, and its machine crashes; then the whole room does                  |
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from .scenes import LONGEST_MS, Scene, Stage
from .schedule import Fault, FaultKind

SHARE: Final = 0.5
"""The share of seeds that have one."""
EARLIEST_MS: Final = 3_000
"""There are records in the tier by then."""


def log_scene(rng: Random, stage: Stage) -> list[Fault]:
    """The faults of the scene of a seed, if it has one."""
    if rng.random() >= SHARE:
        return []
    scene = rng.choice(LOG_SCENES)
    return list(scene(stage, rng, rng.randint(EARLIEST_MS, stage.safety_ms - LONGEST_MS)))


def short_reigns(stage: Stage, rng: Random, at_ms: int) -> list[Fault]:
    return [
        Fault(at_ms, FaultKind.DEPOSE_LEADERS, (), 6_000),
        Fault(at_ms + 50, FaultKind.PROCESS_CRASH, (rng.choice(stage.brokers),), rng.randint(500, 3_000)),
        Fault(at_ms + rng.randint(2_000, 4_000), FaultKind.MOVE_LEADER),
    ]


def interrupted_deletion(stage: Stage, rng: Random, at_ms: int) -> list[Fault]:
    brokers = rng.sample(stage.brokers, len(stage.brokers))
    return [
        Fault(at_ms, FaultKind.STORE_OUTAGE, (), 5_000),
        Fault(at_ms + 200, FaultKind.REPLACE_TOPIC),
        *(
            Fault(at_ms + 2_000 + number * rng.randint(300, 800), FaultKind.PROCESS_CRASH, (name,), 200)
            for number, name in enumerate(brokers)
        ),
    ]


def newcomer(stage: Stage, rng: Random, at_ms: int) -> list[Fault]:
    moves = [Fault(at_ms + late_ms, FaultKind.MOVE_LEADER) for late_ms in (0, 1_500, 3_000)]
    lost = [Fault(at_ms + 5_000, FaultKind.WIPE, (rng.choice(stage.wiped),), 300)] if stage.wiped else []
    return [*moves, *lost]


def slow_flush(stage: Stage, rng: Random, at_ms: int) -> list[Fault]:
    broker = rng.choice(stage.brokers)
    return [
        Fault(at_ms, FaultKind.SLOW_DISK, (broker,), 5_500, rng.choice((30, 100))),
        Fault(at_ms + rng.randint(500, 2_500), FaultKind.MACHINE_CRASH, (broker,), 300),
        Fault(at_ms + rng.randint(4_000, 5_000), FaultKind.POWER_FAILURE, stage.brokers, 500),
    ]


LOG_SCENES: Final[Sequence[Scene]] = (short_reigns, interrupted_deletion, newcomer, slow_flush)
