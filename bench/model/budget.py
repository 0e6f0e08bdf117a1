"""How long a session will take, before anything of it is run. Pure.

Of each step what the scenario says of it, at the pace of two cores: seconds to start a broker, megabytes a second to
fill, to tier and to copy, seconds until a dead broker is fenced, what a wave waits for. What a session has already
spent, beside what was expected of that, corrects the rest (`correction`): another machine is slower in all of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tierfetch.model import System

from .record import Entry
from .scenario import Scenario


class Step(StrEnum):
    """What a session's time goes to."""

    START = "start"
    DATA = "data"
    PREDICTION = "prediction"
    FIRST = "first run"
    RUNS = "runs"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paces:
    """Seconds, and megabytes for each second. `node_s`: of each node of a cluster until it serves; `start_s`: of the
    replaced broker until it fetches; `wave_s`: of a wave besides its bytes; `end_s`: until all processes have ended.
    """

    cluster_s: float
    node_s: float
    start_s: float
    wave_s: float
    fill_mb_s: float
    copy_mb_s: float
    end_s: float


PACES: Final[Mapping[System, Paces]] = {
    "tierfetch": Paces(cluster_s=3, node_s=1.5, start_s=1.2, wave_s=1, fill_mb_s=60, copy_mb_s=100, end_s=1),
    "kafka": Paces(cluster_s=8, node_s=5, start_s=4, wave_s=2, fill_mb_s=60, copy_mb_s=40, end_s=1),
}
FENCED_S: Final = 3.0
"""From a broker's death until it is in no ISR."""
TOPIC_S: Final = 2.0
"""To make topics, to set configs, to write disks out."""
REST_S: Final = 6.0
"""Until tier and disks count as at rest, besides the bytes."""
TIER_MB_S: Final = 40.0
LOOK_S: Final = 1.0
"""One look of a capture."""
WINDOW_S: Final = 4.0
"""A capture under load takes so much longer."""
PAUSE_S: Final = 1.5
"""What a run waits for before and after."""
COMMAND_S: Final = 3.0
"""What `reassign execute` takes to start, and to clean up."""


def expected(scenario: Scenario, system: System, runs: int, *, is_predicted: bool = False) -> dict[Step, float]:
    """Return seconds by step, for so many runs on a new cluster."""
    pace = PACES[system]
    data_s, run_s = _data_s(scenario, pace), _run_s(scenario, pace)
    fillings = 1 + runs if scenario.grows else 1
    return {
        Step.START: pace.cluster_s + pace.node_s * scenario.brokers,
        Step.DATA: fillings * data_s,
        Step.PREDICTION: 0.0 if is_predicted else LOOK_S + (WINDOW_S if scenario.produce_mb_s else 0.0),
        Step.FIRST: run_s,
        Step.RUNS: runs * run_s,
        Step.END: pace.end_s,
    }


def expected_s(scenario: Scenario, system: System, runs: int, *, is_predicted: bool = False) -> float:
    return sum(expected(scenario, system, runs, is_predicted=is_predicted).values())


def correction(entries: Iterable[Entry]) -> float:
    """Return how many times as long as expected the session's runs have taken so far; 1 before the first one.

    A scenario that was cut off and begun again has spent more than its runs say; so all are taken together.
    """
    done = [each for each in entries if each.runs and each.spent_s]
    wanted_s = sum(expected_s(each.scenario, each.system, len(each.runs)) for each in done)
    return sum(sum(each.spent_s.values()) for each in done) / wanted_s if done else 1.0


def _data_s(scenario: Scenario, pace: Paces) -> float:
    total_mb = scenario.total_mb + scenario.behind_mb
    tiered_s = REST_S + total_mb / TIER_MB_S if scenario.is_tiered else 0.0
    behind_s = FENCED_S + (REST_S if scenario.is_tiered else 0.0) if scenario.behind_mb else 0.0
    return TOPIC_S + total_mb / pace.fill_mb_s + tiered_s + behind_s


def _run_s(scenario: Scenario, pace: Paces) -> float:
    copy_mb_s = min(pace.copy_mb_s, scenario.throttle_mb_s or math.inf, scenario.links_mb_s or math.inf)
    if scenario.kind.is_rebalance:
        moved = 2 * scenario.partitions / scenario.brokers
        waves = math.ceil(moved / scenario.wave_partitions)
        moved_mb = moved * scenario.total_mb / scenario.partitions
        return PAUSE_S + COMMAND_S + waves * pace.wave_s + moved_mb / copy_mb_s
    if scenario.kind.death is not None:
        return PAUSE_S + FENCED_S + pace.start_s + pace.wave_s
    local_mb = scenario.total_mb * (1.0 if scenario.local_share is None else scenario.local_share)
    return PAUSE_S + FENCED_S + pace.start_s + local_mb / copy_mb_s + scenario.latency_ms / 1000
