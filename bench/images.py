"""What an image costs a broker of a large cluster: to take up the records of a change, and to see what it changes.

No process is started and nothing is sent: of all that a broker does about an image, these parts grow with what it does
not change. Times are CPU milliseconds of one thread. A change, and a snapshot, are taken up in steps, between which the
event loop does other things; the longest step is what it may have to wait for. The longest pause for garbage collection
is that of a second's look (`broker/pauses.py`) while the snapshot is loaded and after it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tierfetch.broker.core import MetadataView
from tierfetch.broker.core.image_changes import changed_partitions
from tierfetch.broker.pauses import GarbageCollection
from tierfetch.controller import ControllerConfig
from tierfetch.controller.core.broker_heartbeat import fence
from tierfetch.controller.core.machine import ControllerCore
from tierfetch.controller.records import MetadataRecord, PartitionChangeRecord, decode_record, encode_record
from tierfetch.protocol.wire import Steps

from .controller import REPLICATION_FACTOR, cluster_records
from .measure import Results
from .systems import TIERFETCH, System

SIZES: Final = (1_000, 10_000, 100_000)
BROKER: Final = 1
FENCED: Final = 2
OVER: Final = object()


def run(system: System, base: Path, results: Results, total_mb: int, runs: int) -> None:
    """One partition gets another leader; another broker is fenced."""
    del base, total_mb
    if system is not TIERFETCH:
        return
    for size in SIZES:
        records = [encode_record(record) for record in cluster_records(size, REPLICATION_FACTOR)]
        for _ in range(runs):
            for case, changes in (("one partition", _one_partition), ("a broker fenced", _fencing)):
                looked_at, taken_ms, step_ms, seen_ms = _measure(records, changes(records))
                name = f"{case}, {size:,} partitions, {looked_at:,} looked at"
                results.add("images", name, system.name, "records to image", taken_ms, "CPU ms")
                results.add("images", name, system.name, "longest step of it", step_ms, "CPU ms")
                results.add("images", name, system.name, "image to changes", seen_ms, "CPU ms")
            loaded_ms, step_ms, garbage_ms = _load(records)
            name = f"a snapshot of {size:,} partitions"
            results.add("images", name, system.name, "records to image", loaded_ms, "CPU ms")
            results.add("images", name, system.name, "longest step of it", step_ms, "CPU ms")
            results.add("images", name, system.name, "longest garbage collection", garbage_ms, "CPU ms")


def _measure(records: list[bytes], changes: list[bytes]) -> tuple[int, float, float, float]:
    view = MetadataView("bench", "PLAINTEXT")
    view.apply(records)
    before = view.cluster
    steps = _timed(view.apply_steps(changes))
    began = time.process_time()
    found = changed_partitions(before, view.cluster, BROKER)
    seen_ms = (time.process_time() - began) * 1000
    return len(found), sum(steps), max(steps), seen_ms


def _load(records: list[bytes]) -> tuple[float, float, float]:
    """Load a snapshot, and look after the garbage each second, as a broker does."""
    view, garbage = MetadataView("bench", "PLAINTEXT"), GarbageCollection()
    garbage.begin()
    looks: list[float] = []

    def look() -> None:
        began = time.process_time()
        garbage.look()
        looks.append((time.process_time() - began) * 1000)

    try:
        steps = _timed(view.load_steps([records]), each_second=look)
        look()
        look()
        return sum(steps), max(steps), max(looks)
    finally:
        garbage.end()


def _timed(steps: Steps[object], each_second: Callable[[], None] = lambda: None) -> list[float]:
    """Run the steps to their end; CPU milliseconds of each."""
    taken_ms: list[float] = []
    second = time.process_time()
    while True:
        began = time.process_time()
        is_over = next(steps, OVER) is OVER
        taken_ms.append((time.process_time() - began) * 1000)
        if is_over:
            return taken_ms
        if time.process_time() > second + 1:
            each_second()
            second = time.process_time()


def _one_partition(records: list[bytes]) -> list[bytes]:
    core = _core(records)
    topic = next(iter(core.state.image.topics.values()))
    change = PartitionChangeRecord(partition_id=0, topic_id=topic.topic_id, leader=topic.partitions[0].replicas[-1])
    return _encoded([change])


def _fencing(records: list[bytes]) -> list[bytes]:
    core = _core(records)
    core.become_active(0)
    return _encoded(list(fence(core.state, FENCED)))


def _core(records: list[bytes]) -> ControllerCore:
    core = ControllerCore(ControllerConfig(cluster_id="bench", node_id=100), random.Random(1))
    for offset, value in enumerate(records):
        core.replay(decode_record(value).record, offset)
    return core


def _encoded(records: list[MetadataRecord]) -> list[bytes]:
    return [encode_record(record) for record in records]
