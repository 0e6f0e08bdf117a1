"""Voters added and removed while clusters of cores live, and die."""

from __future__ import annotations

import pytest

from tierfetch.protocol.errors import ErrorCode
from tierfetch.quorum.messages import AddVoterRequest, RemoveVoterRequest
from tierfetch.quorum.state import RaftState

from .cluster import CLUSTER_ID, Cluster, voter_of
from .test_core_cluster import converge, crash, cut, isolate_leader, mend, start_all


def change(cluster: Cluster, request: AddVoterRequest | RemoveVoterRequest) -> ErrorCode:
    """Asked of the leader, the answer awaited."""
    leader = cluster.leader()
    assert leader is not None
    token = cluster.request(leader.id, request)
    assert cluster.run_until(lambda: token in cluster.answers), request
    return cluster.answers[token].error


def add(node_id: int, incarnation: int = 0) -> AddVoterRequest:
    return AddVoterRequest(cluster_id=CLUSTER_ID, voter=voter_of(node_id, incarnation), timeout_ms=5_000)


def remove(node_id: int, incarnation: int = 0) -> RemoveVoterRequest:
    return RemoveVoterRequest(cluster_id=CLUSTER_ID, voter=voter_of(node_id, incarnation).key)


def ready(cluster: Cluster) -> None:
    """A leader that has committed a record of its own."""
    leading = lambda: (leader := cluster.leader()) and leader.high_watermark > leader.disk.start.offset  # noqa: E731
    assert cluster.run_until(lambda: bool(leading()))
    cluster.run_until(for_ms=1_000)


def test_Q15_a_lone_voter_grows_to_three_and_survives_its_first() -> None:
    cluster = Cluster([1], observers=(2, 3), seed=1)
    ready(cluster)
    assert change(cluster, add(2)) is ErrorCode.none
    assert change(cluster, add(3)) is ErrorCode.none
    cluster.append(cluster.nodes[1], b"kept")
    cluster.run_until(for_ms=1_000)
    cluster.crash(1)
    assert cluster.run_until(lambda: cluster.leader() is not None, for_ms=10_000)
    assert cluster.values() == [b"kept"]


def test_Q15_a_removed_leader_hands_over() -> None:
    cluster = Cluster([1, 2, 3], seed=2)
    ready(cluster)
    first = cluster.leader()
    assert change(cluster, remove(first.id)) is ErrorCode.none
    assert cluster.run_until(lambda: cluster.leader() not in (None, first), for_ms=10_000)
    cluster.run_until(for_ms=5_000)
    assert first.core.state is RaftState.FOLLOWER
    assert not first.core.is_voter
    assert first.high_watermark == cluster.leader().high_watermark


def test_Q15_a_removed_voter_that_comes_back_raises_no_epoch() -> None:
    cluster = Cluster([1, 2, 3], seed=3)
    ready(cluster)
    gone = next(node for node in cluster.nodes.values() if node is not cluster.leader())
    cluster.crash(gone.id)
    assert change(cluster, remove(gone.id)) is ErrorCode.none
    epoch = cluster.leader().core.epoch
    cluster.start(gone.id)
    cluster.run_until(for_ms=20_000)
    assert cluster.leader().core.epoch == epoch
    assert not gone.core.is_voter


def test_Q15_a_wiped_voter_is_another_replica() -> None:
    """It has to be removed and added with its new directory; until then its fetches count for nothing."""
    cluster = Cluster([1, 2, 3], seed=4)
    ready(cluster)
    wiped = next(node for node in cluster.nodes.values() if node is not cluster.leader())
    cluster.crash(wiped.id)
    cluster.wipe(wiped.id, 1)
    cluster.start(wiped.id)
    cluster.run_until(for_ms=3_000)
    assert not wiped.core.is_voter
    assert change(cluster, remove(wiped.id)) is ErrorCode.none
    assert change(cluster, add(wiped.id, 1)) is ErrorCode.none
    cluster.run_until(for_ms=1_000)
    assert wiped.core.is_voter


def shuffle(seed: int, rounds: int) -> None:
    cluster = Cluster([1, 2, 3], seed=seed, observers=(4, 5))
    chance = cluster.random
    for number in range(rounds):
        cluster.run_until(for_ms=chance.randint(1, 900))
        fault = chance.choice([crash, start_all, start_all, cut, mend, mend, isolate_leader])
        fault(cluster, chance.choice(sorted(cluster.nodes)))
        leader = cluster.leader()
        if leader is None:
            continue
        cluster.append(leader, f"{number}".encode())
        node_id = chance.choice(sorted(cluster.nodes))
        is_voter = node_id in leader.core.voters_at_end.voters.by_id
        cluster.request(leader.id, remove(node_id) if is_voter else add(node_id))
    converge(cluster)
    assert not [node.fatal for node in cluster.nodes.values() if node.fatal]
    cluster.check_logs_match()
    cluster.check_acknowledged()


@pytest.mark.parametrize("seed", range(10))
def test_Q15_invariants_hold_while_voters_change(seed: int) -> None:
    shuffle(seed, 20)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_Q15_invariants_hold_while_voters_change_for_many_seeds() -> None:
    for seed in range(100, 200):
        shuffle(seed, 30)
