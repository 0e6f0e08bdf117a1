"""Replacement of a wiped follower: seconds to the ISR and bytes taken from the leader.

| case | what is local on the leader |
|---|---|
| 80 % local | the newest 80 %, so that a fetch at 0 is refused |
| all local | everything from offset 0: Kafka's option never comes into play |
| idle, fully tiered | nothing but an empty active segment |

First fetch to ISR is taken from outside, the same for both systems: from the first look at a partition directory on the
follower's disk to the ISR. That is early by a few milliseconds for both.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path

from .latency import tier_bytes
from .measure import Results
from .systems import OPTION, Cluster, System
from .workload import admin, create_topic, isr_of, log_bytes, produce, wait_at_rest, wait_isr

PARTITIONS = 4
SEGMENT_BYTES = 4 << 20
JOIN_TIMEOUT_S = 60.0
QUIET_LOOKS = 12
QUIET_INTERVAL_S = 0.5
IDLE_RETENTION_MS = 1000
CONFIGS = {"replica.lag.time.max.ms": "3000", "log.retention.check.interval.ms": "1000"}


@dataclass(frozen=True, slots=True)
class Case:
    """`local_share` of the data stays local. None: local retention goes by time, which closes the active segment."""

    name: str
    local_share: float | None


CASES = (
    Case("80 % local", 0.8),
    Case("all local from offset 0", 2.0),
    Case("idle, fully tiered", None),
)


def run(system: System, base: Path, results: Results, total_mb: int, runs: int) -> None:
    for case in CASES:
        with system.run(base / re.sub(r"[^a-z0-9]+", "-", case.name), 2, True, CONFIGS) as cluster:
            prepare(cluster, case, total_mb)
            for _ in range(runs):
                for option in (False, True):
                    label = f"{case.name}, {total_mb} MB, option {'on' if option else 'off'}"
                    system.set_broker_config(cluster, 2, OPTION if option else {})
                    replace(system, cluster, results, label)


def prepare(cluster: Cluster, case: Case, total_mb: int) -> None:
    total_bytes = total_mb * 1_000_000
    configs = {
        "remote.storage.enable": "true",
        "segment.bytes": str(SEGMENT_BYTES),
        "retention.ms": "-1",
    }
    if case.local_share is None:
        configs["local.retention.ms"] = str(IDLE_RETENTION_MS)
    else:
        configs["local.retention.bytes"] = str(int(total_bytes / PARTITIONS * case.local_share))
    create_topic(cluster, [[1, 2]] * PARTITIONS, configs)
    produce(cluster, PARTITIONS, total_bytes, 1000)
    leader = cluster.data_directory(1)
    wait_at_rest(lambda: (log_bytes(leader), tier_bytes(leader.parent / "tier")), QUIET_LOOKS, QUIET_INTERVAL_S)


def replace(system: System, cluster: Cluster, results: Results, label: str) -> None:
    cluster.kill(2)
    wait_isr(cluster, {partition: {1} for partition in range(PARTITIONS)})
    cluster.wipe(2)
    began = cluster.start(2)
    first_seen, in_isr = watch(cluster)
    if in_isr is None:
        results.add("replace", label, system.name, "joins within 60 s (1 = yes)", 0.0, "")
        return
    results.add("replace", label, system.name, "joins within 60 s (1 = yes)", 1.0, "")
    results.add("replace", label, system.name, "start to ISR", in_isr - began, "s")
    results.add("replace", label, system.name, "first fetch to ISR", in_isr - first_seen, "s")
    copied = log_bytes(cluster.data_directory(2)) / 1e6
    results.add("replace", label, system.name, "copied from the leader", copied, "MB")


def watch(cluster: Cluster) -> tuple[float, float | None]:
    """(first look at a partition directory on broker 2, first look at 2 in every ISR or None)."""
    client = admin(cluster)
    directory = cluster.data_directory(2)
    first_seen: float | None = None
    for _ in range(int(JOIN_TIMEOUT_S / 0.01)):
        now = time.monotonic()
        if first_seen is None and any(directory.glob("bench-*")):
            first_seen = now
        if all(2 in isr for isr in isr_of(client, "bench").values()):
            return first_seen or now, now
        time.sleep(0.01)
    return first_seen or time.monotonic(), None
