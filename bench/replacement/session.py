"""A loaded cluster whose follower is wiped and started, and what both brokers said of it.

| what is looked at | how | what it costs those who are measured |
|---|---|---|
| replicas that joined their ISR | new bytes of the leader's log, counted, every `LOOK_S` | nothing |
| the end: all ISRs are full | Metadata, once the log has enough changes; else every `CONFIRM_S` | one answer |
| CPU time | the clocks of the processes, every `SAMPLE_S` | some us of a core each |
| instants | both logs, and the follower's metrics, when all is over | nothing that counts |

The follower is killed, not stopped, and the cluster has taken it out of all ISRs before it is wiped.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..copying.tiers import LOCAL, S3, running_tier
from ..latency import tier_bytes
from ..measure import cpu_seconds
from ..model.lab import FOLLOWER, LEADER, Lab, wait_complete
from ..model.traces import Logs
from ..replace import CONFIGS, QUIET_LOOKS
from ..systems import KAFKA, OPTION, TIERFETCH, System, run_tierfetch
from ..workload import TOPIC, admin, create_topic, isr_of, log_bytes, produce, wait_at_rest, wait_isr
from .states import STEP_S, Life, cores, counts, life_of

KAFKA_CONFIGS: Final = {"log.initial.task.delay.ms": "500"}
"""Else nothing is trimmed in a broker's first 30 s."""
SEGMENTS: Final = 5
"""A partition has so many at least, so that any fifth may be local."""
RECORD_BYTES: Final = 1_000
TURN_BYTES: Final = 500_000
"""What `produce` gives a partition at once, so the least that it has."""
LOOK_S: Final = 0.05
CONFIRM_S: Final = 2.0
SAMPLE_S: Final = STEP_S
QUIET_INTERVAL_S: Final = 1.0
TIERS: Final = (S3, LOCAL)


@dataclass(frozen=True, slots=True)
class Load:
    """What is replaced. `local_share` of it is on the leader's disk, the rest in the tier alone."""

    partitions: int
    size_mb: int
    local_share: float
    timeout_s: float

    @property
    def partition_bytes(self) -> int:
        return self.size_mb * 1_000_000 // self.partitions

    @property
    def segment_bytes(self) -> int:
        return self.partition_bytes // SEGMENTS

    def topic_configs(self) -> dict[str, str]:
        """Segments may be smaller than a user's, which begin at 1 MiB: there are five of them in any size."""
        return {
            "remote.storage.enable": "true",
            "internal.segment.bytes": str(self.segment_bytes),
            "local.retention.bytes": str(int(self.partition_bytes * self.local_share)),
            "retention.ms": "-1",
            "min.insync.replicas": "1",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """One replacement: in unix seconds, CPU time as (moment, seconds until then) by process. `is_whole`: all replicas
    were in the ISR in time.
    """

    began_s: float
    ended_s: float
    is_whole: bool
    lives: list[Life]
    cpu: Mapping[str, list[tuple[float, float]]]
    copied_bytes: int

    def timeline(self) -> dict[str, dict[str, list[float]]]:
        """Return what is known of each step: replicas by state, and cores in use by process."""
        of_states = counts(self.lives, self.began_s, self.ended_s)
        return {
            "replicas": {state.value: [float(count) for count in found] for state, found in of_states.items()},
            "cores": {name: cores(found, self.began_s, self.ended_s) for name, found in self.cpu.items()},
        }

    def cpu_s(self, name: str) -> float:
        return self.cpu[name][-1][1] - self.cpu[name][0][1]


class Session:
    """A running cluster with its data."""

    def __init__(self, lab: Lab, system: System, load: Load, store: tuple[int, ...] = ()) -> None:
        """`store`: the processes that keep the objects of the tier, if any do."""
        self._lab = lab
        self._system = system
        self._load = load
        self._store = store

    def load(self) -> float:
        """Fill the topic, and wait until tier and disks are at rest; return the share that is local then."""
        load, cluster = self._load, self._lab.cluster
        leader, objects = cluster.data_directory(LEADER), self._lab.objects
        create_topic(cluster, [[LEADER, FOLLOWER]] * load.partitions, load.topic_configs())
        batch = {"batch.size": str(max(1, load.segment_bytes // 4))}
        produce(cluster, load.partitions, load.size_mb * 1_000_000, RECORD_BYTES, client=batch)
        wait_at_rest(lambda: (log_bytes(leader), tier_bytes(objects)), QUIET_LOOKS, QUIET_INTERVAL_S, load.timeout_s)
        return log_bytes(leader) / (load.size_mb * 1_000_000)

    def replace(self, *, option: bool) -> Replaced:
        """Wipe the follower, start it, and wait until it is in all ISRs, or for as long as the load says."""
        cluster, partitions = self._lab.cluster, range(self._load.partitions)
        cluster.kill(FOLLOWER)
        wait_isr(cluster, {number: {LEADER} for number in partitions})
        cluster.wipe(FOLLOWER)
        self._system.set_broker_config(cluster, FOLLOWER, OPTION if option else {})
        os.sync()
        logs = Logs(self._lab)
        began = cluster.start(FOLLOWER)
        began_s = time.time() - (time.monotonic() - began)
        pids = {"leader": (cluster.process(LEADER).pid,), "follower": (cluster.process(FOLLOWER).pid,)}
        with sampled({**pids, "store": self._store} if self._store else pids) as cpu:
            is_whole = self._is_joined(logs, began)
            looked_s = time.time()
        return self._read(logs, began_s, looked_s, cpu, is_whole=is_whole)

    def _is_joined(self, logs: Logs, began: float) -> bool:
        client, changes, confirmed = admin(self._lab.cluster, LEADER), 0, began
        while (now := time.monotonic()) < began + self._load.timeout_s:
            changes += logs.changes_of_isrs(LEADER)
            if changes >= self._load.partitions or now - confirmed >= CONFIRM_S:
                if all(FOLLOWER in isr for isr in isr_of(client, TOPIC).values()):
                    return True
                confirmed, changes = now, 0
            time.sleep(LOOK_S)
        return False

    def _read(
        self,
        logs: Logs,
        began_s: float,
        looked_s: float,
        cpu: Mapping[str, list[tuple[float, float]]],
        *,
        is_whole: bool,
    ) -> Replaced:
        """The end is when the leader had the last replica in the ISR; the last look where its log does not say so."""
        of_leader, said = logs.said(LEADER, TOPIC), logs.said(FOLLOWER, TOPIC)
        joined = {number: at_s for (number, who), at_s in of_leader.joined_s.items() if who == FOLLOWER}
        ended_s = max(joined.values()) if is_whole and len(joined) == self._load.partitions else looked_s
        return Replaced(
            began_s=began_s,
            ended_s=ended_s,
            is_whole=is_whole,
            lives=[
                life_of(said, number, joined.get(number), began_s, ended_s) for number in range(self._load.partitions)
            ],
            cpu={name: [sample for sample in found if sample[0] <= ended_s] for name, found in cpu.items()},
            copied_bytes=log_bytes(self._lab.cluster.data_directory(FOLLOWER)),
        )


@contextmanager
def session(system: System, base: Path, tier_name: str, load: Load) -> Iterator[Session]:
    """Run a system over its tier. Apache Kafka has no S3 plugin of its own: its tier is the directory of the
    `LocalTieredStorage` of its tests, whichever is asked for.
    """
    if system is KAFKA:
        with system.run(base, 2, True, CONFIGS | KAFKA_CONFIGS) as cluster:
            lab = Lab("kafka", cluster, base, 2, base / "tier")
            wait_complete(lab)
            yield Session(lab, system, load)
        return
    assert system is TIERFETCH, system.name
    with running_tier(tier_name, base) as tier, run_tierfetch(base, 2, tier.settings, CONFIGS) as cluster:
        lab = Lab("tierfetch", cluster, base, 2, tier.directory)
        wait_complete(lab)
        yield Session(lab, system, load, tier.pids)


@contextmanager
def sampled(pids: Mapping[str, tuple[int, ...]]) -> Iterator[Mapping[str, list[tuple[float, float]]]]:
    """Read the CPU clocks of these processes until the block ends."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in pids}
    ended = threading.Event()

    def sample() -> None:
        while True:
            for name, of_name in pids.items():
                found[name].append((time.time(), cpu_seconds(list(of_name))))
            if ended.wait(SAMPLE_S):
                return

    thread = threading.Thread(target=sample, name="cpu-samples", daemon=True)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()
