"""Requests that no replica would send, at every moment: refused or harmless, and the quorum goes on."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from uuid import UUID

import pytest

from tierfetch.quorum.core.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    RemoveVoterRequest,
    Request,
    UpdateVoterRequest,
    VoteRequest,
)
from tierfetch.quorum.core.state import NO_DIRECTORY_ID, Endpoint, OffsetAndEpoch, ReplicaKey
from tierfetch.quorum.core.voters import VoterNode

from .cluster import Cluster, Node, endpoints_of, key_of
from .test_core_cluster import converge, crash, cut, mend, nothing

VOTERS = (1, 2, 3)
STRANGER = UUID(int=77)
ROUNDS = 150


class Hostile:
    """Makes requests around what a node knows: its epoch, its log end, the ids of its quorum."""

    def __init__(self, random: Random, node: Node) -> None:
        assert node.core is not None
        self.random = random
        self._epoch = node.core.epoch
        self._end = node.core.log_end_offset

    def epoch(self) -> int:
        """Seldom a new one: it would end whatever goes on."""
        now = self._epoch
        later = now + 1 if self.random.random() < 0.05 else now
        return self.random.choice([now - 1, now, now, now, later, 0, -1, 2**31 - 2, 2**31 - 1])

    def other_epoch(self) -> int:
        """Who lies about the leader of this epoch, where none is known yet, is believed: nothing can tell."""
        return self.random.choice([self._epoch - 1, 0, -1, 2**31 - 2, 2**31 - 1])

    def offset(self) -> int:
        return self.random.choice([-1, 0, 1, self._end - 1, self._end, self._end + 1, 2**63 - 1])

    def position(self) -> OffsetAndEpoch:
        return OffsetAndEpoch(self.offset(), self.epoch())

    def node_id(self) -> int:
        return self.random.choice([-1, *VOTERS, 4])

    def key(self) -> ReplicaKey:
        node_id = self.node_id()
        known = key_of(node_id).directory_id if node_id >= 0 else NO_DIRECTORY_ID
        return ReplicaKey(node_id, self.random.choice([known, NO_DIRECTORY_ID, STRANGER]))

    def stranger(self) -> ReplicaKey:
        """Whose log is nobody's: what it says to have must count for nothing."""
        return self.random.choice([ReplicaKey(-1), ReplicaKey(99), ReplicaKey(self.node_id(), STRANGER)])

    def endpoints(self) -> tuple[Endpoint, ...]:
        return self.random.choice([(), endpoints_of(1), endpoints_of(4)])

    def size(self) -> int:
        return self.random.choice([-1, 0, 1, 500, 2**31 - 1])

    def voter(self) -> VoterNode:
        versions = self.random.choice([0, 1, 9]), self.random.choice([0, 1, 9])
        return VoterNode(self.key(), self.endpoints(), *versions)

    def acknowledgement(self) -> FetchRequest:
        """Right in all but who it is."""
        replica = ReplicaKey(self.random.choice(VOTERS), STRANGER)
        now, end = self._epoch, self._end
        return FetchRequest(cluster_id=None, replica=replica, epoch=now, fetch_offset=end, last_fetched_epoch=now)

    def request(self) -> Request:
        return self.random.choice(_MAKERS)(self)


_MAKERS: tuple[Callable[[Hostile], Request], ...] = (
    lambda of: VoteRequest(
        cluster_id=None,
        candidate=of.key(),
        epoch=of.epoch(),
        last=of.position(),
        pre_vote=of.random.random() < 0.7,
        voter=of.random.choice([None, of.key()]),
    ),
    lambda of: BeginQuorumEpochRequest(
        cluster_id=None, leader_id=of.node_id(), epoch=of.other_epoch(), endpoints=of.endpoints(), voter=of.key()
    ),
    lambda of: EndQuorumEpochRequest(
        cluster_id=None, leader_id=of.node_id(), epoch=of.other_epoch(), preferred_successors=(of.key(), of.key())
    ),
    lambda of: FetchRequest(
        cluster_id=None,
        replica=of.stranger(),
        epoch=of.epoch(),
        fetch_offset=of.offset(),
        last_fetched_epoch=of.epoch(),
        max_wait_ms=of.size(),
        max_bytes=of.size(),
        high_watermark=of.offset(),
    ),
    lambda of: FetchSnapshotRequest(
        cluster_id=None,
        replica=of.key(),
        epoch=of.epoch(),
        snapshot_id=of.position(),
        position=of.offset(),
        max_bytes=of.size(),
    ),
    *(Hostile.acknowledgement,) * 4,
    lambda _: DescribeQuorumRequest(),
    lambda of: AddVoterRequest(
        cluster_id=None, voter=of.voter(), timeout_ms=of.size(), ack_when_committed=of.random.random() < 0.5
    ),
    lambda of: RemoveVoterRequest(cluster_id=None, voter=of.stranger()),
    lambda of: UpdateVoterRequest(cluster_id=None, epoch=of.epoch(), voter=VoterNode(of.stranger(), of.endpoints())),
)


class _Misled(dict[tuple[int, int], int]):
    """Nodes that are not there are asked for by the name of the first."""

    def get(self, key: tuple[int, int], default: int) -> int:  # type: ignore[override]
        return default if default in (*VOTERS, 4) else VOTERS[0]


@pytest.mark.parametrize("kraft_version", [0, 1])
@pytest.mark.parametrize("seed", range(15))
def test_Q13_invariants_hold_under_requests_that_no_replica_sends(seed: int, kraft_version: int) -> None:
    cluster = Cluster(VOTERS, seed=seed, observers=(4,), kraft_version=kraft_version)
    cluster.names = _Misled()
    chance = cluster.random
    for _ in range(ROUNDS):
        cluster.run_until(for_ms=chance.randint(0, 60))
        if (leader := cluster.leader()) is not None:
            cluster.append(leader, b"x")
        chance.choice([nothing, nothing, cut, mend])(cluster, chance.choice(VOTERS))
        node = cluster.nodes[chance.choice(VOTERS)]
        if node.core is None:
            cluster.start(node.id)
        elif chance.random() < 0.1:
            crash(cluster, node.id)
        else:
            cluster.request(node.id, Hostile(chance, node).request())
    cluster.check_logs_match()
    if not any(node.fatal for node in cluster.nodes.values()):
        converge(cluster)
