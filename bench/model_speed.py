"""How fast the model is: one replacement simulated, from a cluster's arrays to the whole result, on one core.

| case | what |
|---|---|
| a broker of 999 | 100,000 partitions, three replicas: some 300 replicas are built from some 300 leaders |
| a broker of 20 | as many partitions: 15,000 replicas are built from 19 leaders |
| 99 new brokers for 900 | as many partitions: 33,000 replicas move at once from all leaders to the new ones |

Apache Kafka has nothing of the kind: of it nothing is measured.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from tierfetch.model import (
    Calibrations,
    ClusterArrays,
    Ints,
    Moves,
    Policy,
    moves_between,
    replacement_moves,
    simulate,
    with_new_brokers,
)
from tierfetch.model.synthetic import Shape, synthetic_cluster

from .measure import Results
from .systems import System

PARTITIONS: Final = 100_000
POLICIES: Final = (Policy.TIER_FIRST, Policy.LOCAL_LOG_START)


def run(system: System, base: Path, results: Results, total_mb: int, runs: int) -> None:
    del base, total_mb
    if system.name != "tierfetch":
        return
    calibrations = Calibrations.default()
    for name, arrays, moves in _cases():
        for policy in POLICIES:
            case = f"{name}, {len(moves):,} replicas, {policy.value}"
            for _ in range(runs):
                began, cpu = time.perf_counter(), time.process_time()
                result = simulate(arrays, moves, policy, calibrations.of(policy))
                results.add("model-speed", case, system.name, "wall", time.perf_counter() - began, "s")
                results.add("model-speed", case, system.name, "CPU", time.process_time() - cpu, "s")
                assert result.joins.all(), f"{case}: {result.obstacle}"


def _cases() -> Iterator[tuple[str, ClusterArrays, Moves]]:
    large = _cluster(999, 3, 20e9)
    yield "a broker of 999", large, replacement_moves(large, 5)
    small = _cluster(20, 1, 1e9)
    yield "a broker of 20", small, replacement_moves(small, 5)
    old = _cluster(900, 3, 20e9)
    grown = with_new_brokers(old, 99)
    yield "99 new brokers for 900", grown, moves_between(grown, _handed_over(grown, old.broker_count))


def _cluster(brokers: int, racks: int, produce_bytes_per_s: float) -> ClusterArrays:
    return synthetic_cluster(
        Shape(
            brokers=brokers,
            racks=racks,
            partitions=PARTITIONS,
            produce_bytes_per_s=produce_bytes_per_s,
            retention_h=72,
            local_retention_h=4,
        )
    )


def _handed_over(arrays: ClusterArrays, old: int) -> Ints:
    """The new brokers take the last slot of a third of the partitions, in turn."""
    replicas = arrays.replicas.copy()
    chosen = np.arange(0, arrays.partition_count, 3)
    replicas[chosen, 2] = old + np.arange(len(chosen)) % (arrays.broker_count - old)
    return replicas
