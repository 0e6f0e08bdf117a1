"""All that can happen to a quorum, at once: messages late and twice, leaders that hand over, replicas that stop in
order, voters that change, and a voter's disk that is emptied. Invariants throughout, progress at the end.
"""

from __future__ import annotations

import pytest

from tierfetch.quorum.core.events import Resign
from tierfetch.quorum.core.messages import RemoveVoterRequest

from .cluster import Cluster, Faults, Node
from .test_core_cluster import converge, crash, crash_all, cut, isolate_leader, mend, start_all, take_snapshot
from .test_core_comings_and_goings import replace_disk, some_change


def hand_over(cluster: Cluster, _: int) -> None:
    if (leader := cluster.leader()) is not None:
        cluster.step(leader, Resign(leader.core.epoch))


def restart_in_order(cluster: Cluster, node_id: int) -> None:
    cluster.shut_down(node_id)
    cluster.run_until(lambda: cluster.nodes[node_id].core is None, for_ms=3_000)
    if cluster.nodes[node_id].core is None:
        cluster.start(node_id)


def empty_a_voters_disk(cluster: Cluster, node: Node) -> None:
    """One at a time, and only where all others have something for good: so much is promised."""
    others = [other.disk for other in cluster.nodes.values() if other is not node]
    first = cluster.committed[:1]
    if first and all(disk.history(disk.flushed_end_offset)[:1] == first and not disk.is_unproven for disk in others):
        cluster.crash(node.id)
        cluster.wipe(node.id, _incarnation(node))
        cluster.start(node.id)


def _incarnation(node: Node) -> int:
    """That of the directory it has."""
    directory_id = node.key.directory_id
    return (directory_id.int - node.id) // 1000


VOTERS_MIN = 3
"""Of two none can be elected while one of them has nothing."""
FAULTS = [
    *(crash, crash_all, start_all, start_all, cut, mend, mend),
    *(isolate_leader, take_snapshot, hand_over, restart_in_order),
]


def everything(seed: int, rounds: int = 40) -> None:
    chance_of_messages = (0.0, 0.05, 0.2)[seed % 3]
    faults = Faults(
        drop=0.05 if seed % 2 else 0.0,
        slow_disk=0.05,
        slow_disk_ms=3_000 if seed % 7 == 0 else 300,
        disk_ms=40 if seed % 5 == 0 else 3,
        late=chance_of_messages,
        repeat=chance_of_messages,
    )
    voters = range(1, 6) if seed % 4 == 0 else range(1, 4)
    observers = (6, 7)
    cluster = Cluster(voters, seed=seed, observers=observers, faults=faults, kraft_version=1 if seed % 3 else 0)
    chance = cluster.random
    for number in range(rounds):
        cluster.run_until(for_ms=chance.randint(1, 900))
        node = chance.choice(list(cluster.nodes.values()))
        chance.choice(FAULTS)(cluster, node.id)
        if (leader := cluster.leader()) is not None:
            cluster.append(leader, f"{number}".encode())
            change = some_change(cluster, leader, chance.choice(list(cluster.nodes.values())))
            if not isinstance(change, RemoveVoterRequest) or len(leader.core.voters_at_end.voters) > VOTERS_MIN:
                cluster.request(leader.id, change)
        if chance.random() < 0.1:
            replace_disk(cluster, chance.choice(list(cluster.nodes.values())), incarnation=number + 1)
        if chance.random() < 0.1:
            empty_a_voters_disk(cluster, chance.choice(list(cluster.nodes.values())))
    cluster.heal()
    cluster.run_until(for_ms=20_000)  # what waits for the disks is done by then
    converge(cluster)
    assert not [node.fatal for node in cluster.nodes.values() if node.fatal]
    cluster.check_logs_match()
    cluster.check_acknowledged()


@pytest.mark.parametrize("seed", range(10))
def test_Q13_invariants_hold_whatever_happens(seed: int) -> None:
    everything(seed)


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_Q13_invariants_hold_whatever_happens_for_many_seeds() -> None:
    for seed in range(100, 200):
        everything(seed)
