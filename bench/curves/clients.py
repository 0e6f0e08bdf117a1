"""One point over the number of clients: what they get, what brokers use for them, and how long a failover takes all.

Three brokers, the third one without replicas: of two, a controller fences none before its session times out. All
partitions are led by the first broker and followed by the second.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ..copying.phases import quantiles
from ..measure import cpu_seconds
from ..systems import System
from ..workload import create_topic
from .load import load_process, recovered, sent
from .points import Settings

TOPIC: Final = "curve"
PARTITIONS: Final = 8
LEADER: Final = 1
FOLLOWER: Final = 2
WARM_UP_REQUESTS: Final = 500


def measure(system: System, base: Path, count: int, settings: Settings, figures: dict[str, float]) -> None:
    """Put the figures of a cluster with so many clients into `figures`, each as soon as it is known."""
    with load_process() as pool, system.run(base, 3, False, {}) as cluster:
        create_topic(cluster, [[LEADER, FOLLOWER]] * PARTITIONS, {"min.insync.replicas": "1"}, TOPIC)
        leader = cluster.process(LEADER).pid
        port = cluster.port(LEADER)
        pool.submit(sent, port, TOPIC, PARTITIONS, min(count, 10), WARM_UP_REQUESTS, leader).result()
        pids = [leader, cluster.process(FOLLOWER).pid]
        cpu_s = cpu_seconds(pids)
        load = pool.submit(sent, port, TOPIC, PARTITIONS, count, max(settings.requests, 2 * count), leader).result()
        cpu_s = cpu_seconds(pids) - cpu_s
        found = quantiles(load.latencies_ms)
        figures["produce: requests a second"] = load.requests / load.wall_s
        figures["produce: p50, ms"] = found["p50"]
        figures["produce: p99, ms"] = found["p99"]
        figures["produce: CPU of both brokers, us a request"] = cpu_s / load.requests * 1e6
        figures["memory of the leader, MiB"] = load.pss_mib
        cluster.kill(LEADER)
        figures["failover: all acknowledged again, s"] = pool.submit(
            recovered, cluster.port(FOLLOWER), TOPIC, PARTITIONS, count
        ).result()
