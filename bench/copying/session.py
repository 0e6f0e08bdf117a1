"""A cluster over one tier, measured round by round.

A round's backlog is written while copying is off for its topic (`remote.log.copy.disable`, KIP-950), so that a copy
begins when the round says so, and is of the same size each time. It is over when all but what active segments may hold
has arrived.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import psutil

from tierfetch.cli.local import LocalCluster, poll

from ..latency import COPY_OFF, for_s, set_topic_config, tier_bytes
from ..measure import cpu_seconds
from ..partitions.bare_loop import TICK_S, BareLoop
from ..soak.probe import OWN_PAUSES, PAUSES, scraped
from ..systems import run_tierfetch
from ..workload import STEP_TIMEOUT_S, create_topic, log_bytes, produce
from .evidence import LATE_S, Lateness, late_share
from .paced import latencies_ms
from .phases import Case, Phase, phases_of
from .tiers import Tier, running_tier

LEADER: Final = 1
FOLLOWER: Final = 2
PARTITIONS: Final = 4
RECORD_BYTES: Final = 1_000
SEGMENT_BYTES: Final = 16 << 20
TOPIC: Final = "steady"
STILL_S: Final = 2.0
"""Nothing more arrives in the tier for so long before anything else is measured."""
WARM_UP_S: Final = 3.0
IN_BROKER: Final = Path(__file__).resolve().parent / "in_broker"
WORKER: Final = "remote.log.manager.copy.worker.enable"
SWITCH_INTERVAL: Final = "TIERFETCH_BENCH_SWITCH_INTERVAL_MS"


@dataclass(frozen=True, slots=True)
class Load:
    """What is produced, and what is copied meanwhile."""

    size_mb: int
    records_per_s: float
    alone_s: float


@dataclass(frozen=True, slots=True)
class Measured:
    """One phase: the latency of each record, CPU as a share of a core, late ticks, and what was copied."""

    latencies_ms: list[float]
    leader_cpu: float
    store_cpu: float
    late: Lateness
    copied_mb_per_s: float


@contextmanager
def session(case: Case, base: Path, load: Load) -> Iterator[Session]:
    """Run the tier and the cluster of a case, warmed up."""
    configs = {"remote.log.manager.task.interval.ms": "1000", WORKER: str(case.has_worker).lower()}
    with (
        _environment(case.switch_interval_ms),
        running_tier(case.tier, base) as tier,
        run_tierfetch(base, 2, tier.settings, configs) as cluster,
    ):
        create_topic(cluster, [[LEADER, FOLLOWER]] * PARTITIONS, {}, TOPIC)
        found = Session(cluster, tier, load)
        found.warm_up()
        yield found


@contextmanager
def _environment(switch_interval_ms: float | None) -> Iterator[None]:
    """Let the processes that begin meanwhile have this switch interval."""
    if switch_interval_ms is None:
        yield
        return
    before = os.environ.copy()
    paths = [str(IN_BROKER), *filter(None, [before.get("PYTHONPATH")])]
    os.environ.update({"PYTHONPATH": os.pathsep.join(paths), SWITCH_INTERVAL: f"{switch_interval_ms:g}"})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@dataclass(frozen=True, slots=True)
class Backlog:
    """Closed segments that wait for their copy: their topic, and the bytes that the copy brings at least."""

    topic: str
    size_bytes: int


class Session:
    """A running cluster, and what is asked of it."""

    def __init__(self, cluster: LocalCluster, tier: Tier, load: Load) -> None:
        self._cluster = cluster
        self._tier = tier
        self._load = load

    def warm_up(self) -> None:
        """Produce for a while, and copy a little: connections, imports and caches are no part of a round."""
        self._latencies(for_s(WARM_UP_S))
        self._copying(self._backlog("warm-up", 2 * PARTITIONS * SEGMENT_BYTES))
        self._wait_still()

    def measure(self, round_number: int) -> Mapping[Phase, Measured]:
        """Measure both phases of a round."""
        backlog = self._backlog(f"backlog-{round_number}", self._load.size_mb * 1_000_000)
        found = {}
        for phase in phases_of(round_number):
            os.sync()
            found[phase] = self._alone() if phase is Phase.ALONE else self._copying(backlog)
            self._wait_still()
        return found

    def _backlog(self, topic: str, size_bytes: int) -> Backlog:
        configs = {"remote.storage.enable": "true", COPY_OFF: "true", "segment.bytes": str(SEGMENT_BYTES)}
        create_topic(self._cluster, [[LEADER]] * PARTITIONS, configs, topic)
        produce(self._cluster, PARTITIONS, size_bytes, RECORD_BYTES, topic=topic)
        written = log_bytes(self._cluster.data_directory(LEADER), topic)
        return Backlog(topic, written - PARTITIONS * SEGMENT_BYTES)

    def _alone(self) -> Measured:
        return self._measured(lambda: self._latencies(for_s(self._load.alone_s)))

    def _copying(self, backlog: Backlog) -> Measured:
        """Measure from the moment on at which the first object has arrived: an index, which goes before its log."""
        before, objects = tier_bytes(self._tier.directory), _objects(self._tier.directory)
        set_topic_config(self._cluster, backlog.topic, COPY_OFF, "false")
        for _ in poll(STEP_TIMEOUT_S, "the copy to begin", 0.01):
            if _objects(self._tier.directory) > objects:
                break
        began, full = time.perf_counter(), before + backlog.size_bytes
        found = self._measured(lambda: self._latencies(lambda: tier_bytes(self._tier.directory) >= full))
        took_s = time.perf_counter() - began
        return replace(found, copied_mb_per_s=(tier_bytes(self._tier.directory) - before) / 1e6 / took_s)

    def _measured(self, work: Callable[[], list[float]]) -> Measured:
        leader, store = self._leader_pids(), list(self._tier.pids)
        pauses, own = self._scraped(PAUSES), self._scraped(OWN_PAUSES)
        began, leader_s, store_s = time.perf_counter(), cpu_seconds(leader), cpu_seconds(store)
        with BareLoop(LATE_S) as beside:
            latencies = work()
            bare = beside.stop()
        took_s = time.perf_counter() - began
        late = Lateness(
            late_share(pauses, self._scraped(PAUSES)),
            late_share(own, self._scraped(OWN_PAUSES)),
            min(1.0, bare.over * TICK_S / took_s),
        )
        leader_cpu, store_cpu = (cpu_seconds(leader) - leader_s) / took_s, (cpu_seconds(store) - store_s) / took_s
        return Measured(latencies, leader_cpu, store_cpu, late, 0.0)

    def _leader_pids(self) -> list[int]:
        """The leader, and its worker."""
        leader = psutil.Process(self._cluster.process(LEADER).pid)
        return [leader.pid, *(child.pid for child in leader.children(recursive=True))]

    def _latencies(self, is_over: Callable[[], bool]) -> list[float]:
        return latencies_ms(
            self._cluster,
            TOPIC,
            PARTITIONS,
            records_per_s=self._load.records_per_s,
            record_bytes=RECORD_BYTES,
            is_over=is_over,
        )

    def _scraped(self, family: str) -> dict[str, float]:
        return scraped(self._cluster.metrics_url(LEADER), family)

    def _wait_still(self) -> None:
        """Until nothing has arrived for a while: what active segments did not hold of the backlog is copied too."""
        seen, since = tier_bytes(self._tier.directory), time.monotonic()
        for _ in poll(STEP_TIMEOUT_S, "the copy to end", 0.1):
            if (now := tier_bytes(self._tier.directory)) != seen:
                seen, since = now, time.monotonic()
            if time.monotonic() - since >= STILL_S:
                return


def _objects(tier: Path) -> int:
    return sum(path.is_file() for path in tier.rglob("*"))
