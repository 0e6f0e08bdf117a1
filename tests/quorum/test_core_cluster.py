"""Clusters of cores under random schedules: safety while faults last, progress once they are gone."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tierfetch.quorum.core.config import RaftConfig
from tierfetch.quorum.core.effects import SetTimer
from tierfetch.quorum.core.events import RecoveredState, Started, TimerFired
from tierfetch.quorum.core.machine import RaftCore

from .cluster import Cluster, Faults, endpoints_of, key_of, voters_of


def disturb(cluster: Cluster, rounds: int, *, snapshots: bool) -> None:
    """Faults and appends, chosen by the cluster's seed."""
    chance = cluster.random
    for number in range(rounds):
        cluster.run_until(for_ms=chance.randint(1, 700))
        fault = chance.choices(list(FAULTS), weights=list(FAULTS.values()))[0]
        if snapshots or fault is not take_snapshot:
            fault(cluster, chance.choice(sorted(cluster.nodes)))
        leader = cluster.leader()
        if leader is not None:
            cluster.append(leader, *(f"{number}.{index}".encode() for index in range(chance.randint(1, 3))))


def crash(cluster: Cluster, node_id: int) -> None:
    cluster.crash(node_id, is_machine=cluster.random.random() < 0.5)


def crash_all(cluster: Cluster, _: int) -> None:
    for node_id in sorted(cluster.nodes):
        cluster.crash(node_id)


def start_all(cluster: Cluster, _: int) -> None:
    for node_id, node in sorted(cluster.nodes.items()):
        if node.core is None:
            cluster.start(node_id)


def cut(cluster: Cluster, node_id: int) -> None:
    other_id = cluster.random.choice(sorted(cluster.nodes))
    cluster.cut(node_id, other_id, both_ways=cluster.random.random() < 0.5)


def mend(cluster: Cluster, _: int) -> None:
    cluster.cuts.clear()


def take_snapshot(cluster: Cluster, node_id: int) -> None:
    cluster.snapshot(node_id, trim=cluster.random.random() < 0.7)


def nothing(_: Cluster, __: int) -> None:
    pass


def isolate_leader(cluster: Cluster, _: int) -> None:
    """It goes on for a while, and takes records that nobody will have."""
    leader = cluster.leader()
    if leader is None:
        return
    for other_id in cluster.nodes:
        if other_id != leader.id:
            cluster.cut(leader.id, other_id)
    cluster.append(leader, b"lonely")


FAULTS: dict[Callable[[Cluster, int], None], int] = {
    crash: 15,
    start_all: 20,
    cut: 10,
    mend: 10,
    isolate_leader: 10,
    crash_all: 5,
    take_snapshot: 5,
    nothing: 25,
}
"""How often each happens, in percent."""


def converge(cluster: Cluster) -> None:
    """Without faults: a leader, everything committed everywhere."""
    cluster.heal()
    start_all(cluster, 0)
    assert cluster.run_until(lambda: cluster.leader() is not None)
    cluster.run_until(for_ms=5_000)
    leader = cluster.leader()
    assert leader is not None
    cluster.append(leader, b"last")
    end = leader.core.log_end_offset
    assert cluster.run_until(lambda: all(node.high_watermark >= end for node in cluster.nodes.values())), [
        (node.id, node.fatal, node.core and node.core.state, node.high_watermark, node.disk.end_offset)
        for node in cluster.nodes.values()
    ]
    assert cluster.values()[-1] == b"last"


def simulate(seed: int, *, rounds: int = 25) -> Cluster:
    voters = 3 if seed % 3 else 5
    faults = Faults(drop=0.05 if seed % 2 else 0.0, slow_disk=0.02, disk_ms=(3, 40)[seed % 5 // 4])
    cluster = Cluster(range(1, voters + 1), seed=seed, observers=(9,), faults=faults)
    disturb(cluster, rounds, snapshots=seed % 4 < 2)
    converge(cluster)
    assert not [node.fatal for node in cluster.nodes.values() if node.fatal]
    cluster.check_logs_match()
    cluster.check_acknowledged()
    return cluster


def test_a_timer_that_fires_early_is_set_again() -> None:
    config = RaftConfig(key=key_of(1), endpoints=endpoints_of(1))
    core = RaftCore(config, RecoveredState(voters=(voters_of((1, 2, 3)),)), random.Random(1))
    [timer] = [effect for effect in core.step(Started(), 0) if isinstance(effect, SetTimer)]
    assert core.step(TimerFired(), 10) == [timer]


@pytest.mark.parametrize("seed", range(12))
def test_Q13_invariants_hold_under_random_faults(seed: int) -> None:
    cluster = simulate(seed)
    assert cluster.acknowledged


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_Q13_invariants_hold_for_many_seeds() -> None:
    for seed in range(100, 220):
        simulate(seed)
