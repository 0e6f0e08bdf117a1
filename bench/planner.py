"""How fast plans are made, and how far from optimal they are: `python -m bench planner`.

Clusters are made up: three replicas in three racks, long-tailed sizes, two thirds of the topics tiered. "plan" is from
arrays to arrays, waves included; reading and writing the JSON of a plan is measured separately. Gaps are to what any
plan needs (planning/bounds.py). Times are CPU seconds of one thread. There is nothing of Apache Kafka's to compare
with: kafka-reassign-partitions --generate does not know sizes, and spreads everything again.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from tierfetch.model import Broker, ClusterArrays, Inventory, Partition, Topic
from tierfetch.planning import Goal, PlanFile, plan_file_of, plan_replicas, planned_replicas

from .measure import Results
from .systems import TIERFETCH, System

PARTITIONS: Final = 100_000
BROKERS: Final = (20, 1000)
JOINING: Final = {20: 4, 1000: 100}
RACKS: Final = 3
FACTOR: Final = 3


def run(system: System, base: Path, results: Results, size_mb: int, runs: int) -> None:
    """Measure tierfetch alone; sizes are fixed."""
    del base, size_mb
    if system is not TIERFETCH:
        return
    for name, (brokers, empty, goal) in cases().items():
        _measure(results, name, made_up(PARTITIONS, brokers, empty), goal, runs)


def cases() -> dict[str, tuple[int, int, Goal]]:
    """Every case: its brokers, how many of them are empty, and the goal."""
    found: dict[str, tuple[int, int, Goal]] = {}
    for brokers in BROKERS:
        joining = JOINING[brokers]
        found |= {
            f"{brokers} brokers, replace 1": (brokers, 1, Goal.replace({0: brokers - 1})),
            f"{brokers} brokers, remove {joining}": (brokers, 0, Goal.remove(range(joining))),
            f"{brokers} brokers, add {joining}": (brokers, joining, Goal.add(range(brokers - joining, brokers))),
            f"{brokers} brokers, rebalance": (brokers, joining, Goal.rebalance()),
        }
    return found


def _measure(results: Results, case: str, arrays: ClusterArrays, goal: Goal, runs: int) -> None:
    def add(quantity: str, value: float, unit: str) -> None:
        results.add("planner", case, TIERFETCH.name, quantity, value, unit)

    plan = plan_replicas(arrays, goal)
    for _ in range(runs):
        gc.collect()
        add("plan", _cpu_s(lambda: plan_replicas(arrays, goal)) * 1000, "CPU ms")
    add("moves", plan.bound.moves, "replicas")
    add("moves too many, at most", plan.bound.moves_gap * 100, "%")
    add("bytes too many, at most", plan.bound.bytes_gap * 100, "%")
    add("waves", plan.wave_count, "waves")
    file = plan_file_of(arrays, plan)
    text = file.to_text()
    add("write JSON", _cpu_s(lambda: plan_file_of(arrays, plan).to_text()) * 1000, "CPU ms")
    add("read JSON", _cpu_s(lambda: planned_replicas(arrays, PlanFile.parse(text, case))) * 1000, "CPU ms")


def _cpu_s(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def made_up(partitions: int, brokers: int, empty: int, seed: int = 1) -> ClusterArrays:
    """All but the last `empty` brokers hold replicas."""
    random = np.random.default_rng(seed)
    frame = _frame(brokers)
    in_use = np.arange(brokers - empty, dtype=np.int32)
    replicas = np.stack([random.choice(in_use[in_use % RACKS == rack], partitions) for rack in range(RACKS)], axis=1)
    replicas = np.take_along_axis(replicas, np.argsort(random.random(replicas.shape), axis=1), axis=1)
    topics = partitions // 100
    topic = np.sort(random.integers(0, topics, partitions)).astype(np.int32)
    tiered = random.random(topics) < 2 / 3
    size = random.lognormal(22, 1, partitions)
    return replace(
        frame,
        topic_names=tuple(f"topic-{number}" for number in range(topics)),
        tiered=tiered,
        min_isr=np.ones(topics, dtype=np.int32),
        segment_bytes=np.full(topics, 1e9),
        topic=topic,
        index=(np.arange(partitions) - np.searchsorted(topic, topic)).astype(np.int32),
        replicas=replicas,
        in_sync=np.ones(replicas.shape, dtype=np.bool_),
        leader=replicas[:, 0].copy(),
        size_bytes=size,
        local_bytes=np.where(tiered[topic], size * 0.2, size),
        tiered_bytes=np.where(tiered[topic], size * 0.9, 0.0),
        produce=random.lognormal(8, 1, partitions),
        consume=np.zeros(partitions),
        log_start_offset=np.ones(partitions, dtype=np.int64),
    )


def _frame(brokers: int) -> ClusterArrays:
    """The brokers, with a partition that is replaced."""
    rates = {"nic_in_bytes_per_s": 1.25e9, "nic_out_bytes_per_s": 1.25e9, "disk_read_bytes_per_s": 5e8}
    rates |= {"disk_write_bytes_per_s": 5e8, "disk_bytes": 1e15}
    one = Partition.model_validate({"index": 0, "replicas": list(range(FACTOR)), "size_bytes": 1})
    return ClusterArrays.from_inventory(
        Inventory(
            version=1,
            brokers=tuple(
                Broker.model_validate({"id": number, "rack": f"rack-{number % RACKS}", "cores": 16, **rates})
                for number in range(brokers)
            ),
            topics=(Topic(name="one", tiered=True, partitions=(one,)),),
        )
    )
