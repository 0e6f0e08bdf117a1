"""Voters, snapshots and disks come and go, all at once: invariants throughout, progress at the end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tierfetch.quorum.core.messages import AddVoterRequest, RemoveVoterRequest, UpgradeKRaftVersionRequest
from tierfetch.quorum.core.voters import VoterNode

from .cluster import CLUSTER_ID, Cluster, Faults, Node, endpoints_of
from .test_core_cluster import converge, crash, crash_all, cut, isolate_leader, mend, start_all, take_snapshot


def come_and_go(seed: int, rounds: int = 40) -> None:
    """Voters change, snapshots take the place of what others need, and observers come back with empty disks; some join
    by themselves. A cluster of static voters is upgraded on the way."""
    faults = Faults(drop=0.05 if seed % 5 < 2 else 0.0, slow_disk=0.03, disk_ms=40 if seed % 7 > 4 else 3)
    joins, kraft_version = seed % 2 == 0, 1 if seed % 3 else 0
    cluster = Cluster(
        [1, 2, 3],
        seed=seed,
        observers=(4, 5),
        faults=faults,
        kraft_version=kraft_version,
        config=lambda config: replace(config, auto_join=joins and kraft_version == 1),
    )
    chance = cluster.random
    for number in range(rounds):
        cluster.run_until(for_ms=chance.randint(1, 900))
        fault = chance.choice([crash, crash_all, start_all, start_all, cut, mend, mend, isolate_leader, take_snapshot])
        fault(cluster, chance.choice(sorted(cluster.nodes)))
        leader = cluster.leader()
        if leader is not None:
            cluster.append(leader, f"{number}".encode())
            request = some_change(cluster, leader, chance.choice(list(cluster.nodes.values())))
            if not joins or chance.random() < 0.5:
                cluster.request(leader.id, request)
        if chance.random() < 0.2:
            replace_disk(cluster, chance.choice(list(cluster.nodes.values())), incarnation=number)
    converge(cluster)
    assert not [node.fatal for node in cluster.nodes.values() if node.fatal]
    cluster.check_logs_match()
    cluster.check_acknowledged()


def some_change(
    cluster: Cluster, leader: Node, node: Node
) -> AddVoterRequest | RemoveVoterRequest | UpgradeKRaftVersionRequest:
    now = leader.core.voters_at_end
    if now.kraft_version == 0:
        return UpgradeKRaftVersionRequest(epoch=leader.core.epoch, level=1)
    voter = now.voters.by_id.get(node.id)
    if voter is not None:
        return RemoveVoterRequest(cluster_id=CLUSTER_ID, voter=voter.key)
    return AddVoterRequest(cluster_id=CLUSTER_ID, voter=VoterNode(node.key, endpoints_of(node.id)), timeout_ms=2_000)


def replace_disk(cluster: Cluster, node: Node, incarnation: int) -> None:
    """Of one that no voter set names, committed or not: the others' majority may need any other."""
    nodes = cluster.nodes.values()
    named = [entry.voters for other in nodes for entry in other.disk.recovered().voters]
    named += [other.core.voters_at_end.voters for other in nodes if other.core is not None]
    if not any(voters.contains(node.key) for voters in named):
        cluster.crash(node.id)
        cluster.wipe(node.id, incarnation)
        cluster.start(node.id)


@pytest.mark.parametrize("seed", [*range(9), 152])
def test_Q15_invariants_hold_while_voters_snapshots_and_disks_come_and_go(seed: int) -> None:
    come_and_go(seed)


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_Q15_invariants_hold_while_voters_snapshots_and_disks_come_and_go_for_many_seeds() -> None:
    for seed in range(200, 260):
        come_and_go(seed)
