"""Epochs that requests claim: a stranger is not believed; a voter far ahead is, once it answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tierfetch.quorum.core.messages import BeginQuorumEpochRequest, EndQuorumEpochRequest, Request, VoteRequest
from tierfetch.quorum.core.state import ElectionState, OffsetAndEpoch, ReplicaKey

from .cluster import Cluster
from .test_core_cluster import converge

LAST_BUT_ONE = 2**31 - 2
FAR = 50_000
OBSERVER = 4
HIGHEST = OffsetAndEpoch(10**9, 10**6)


def forged(epoch: int) -> list[Request]:
    stranger = ReplicaKey(OBSERVER)
    return [
        VoteRequest(cluster_id=None, candidate=stranger, epoch=epoch, last=HIGHEST, pre_vote=True, voter=None),
        VoteRequest(cluster_id=None, candidate=stranger, epoch=epoch, last=HIGHEST, pre_vote=False, voter=None),
        BeginQuorumEpochRequest(cluster_id=None, leader_id=OBSERVER, epoch=epoch),
        EndQuorumEpochRequest(cluster_id=None, leader_id=OBSERVER, epoch=epoch, preferred_successors=()),
    ]


@pytest.mark.parametrize("number", range(4))
def test_forged_requests_leave_epochs_to_elect_leaders_in(number: int) -> None:
    cluster = Cluster((1, 2, 3), seed=number, observers=(OBSERVER,))
    for _ in range(5):
        cluster.run_until(lambda: cluster.leader() is not None)
        for voter in (cluster.nodes[node_id] for node_id in (1, 2, 3)):
            assert voter.core is not None
            cluster.request(voter.id, forged(LAST_BUT_ONE)[number])
            cluster.request(voter.id, forged(voter.core.epoch + 700)[number])
    converge(cluster)
    leader = cluster.leader()
    assert leader is not None
    assert leader.core is not None
    assert leader.core.epoch < 20_000


@pytest.mark.parametrize("kraft_version", [0, 1])
@pytest.mark.parametrize("ahead", [(1,), (3,), (1, 2), (1, 2, 3)], ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_voters_far_ahead_are_caught_up_with(seed: int, ahead: tuple[int, ...], kraft_version: int) -> None:
    cluster = Cluster((1, 2, 3), seed=seed, kraft_version=kraft_version, observers=(OBSERVER,))
    cluster.run_until(lambda: cluster.leader() is not None)
    for number, node_id in enumerate(ahead):  # the last is the furthest ahead
        cluster.crash(node_id)
        node = cluster.nodes[node_id]
        node.disk = replace(node.disk, election=ElectionState(FAR * (number + 1), None, None))
        cluster.start(node_id)
    converge(cluster)
    leader = cluster.leader()
    assert leader is not None
    assert leader.core is not None
    assert leader.core.epoch >= FAR * len(ahead)
