"""Static voters that are taken for others, because a name leads elsewhere."""

from __future__ import annotations

from tierfetch.quorum.core.events import Resign
from tierfetch.quorum.core.state import RaftState

from .cluster import Cluster, Node
from .test_core_membership import ready


def lead(cluster: Cluster, node: Node) -> None:
    """Hand leadership over until this one has it."""
    while (leader := cluster.leader()) is not node:
        if leader is not None:
            cluster.step(leader, Resign(leader.core.epoch))
        assert cluster.run_until(lambda: cluster.leader() is not None)


def with_a_refused_voter() -> tuple[Cluster, Node, Node, Node]:
    """The leader, which finds another node (9) by one voter's name, and refuses that voter; the voter, which alone has
    the leader's last records; and the third, which is cut off from both."""
    cluster = Cluster([1, 2, 3], seed=1, observers=(9,), kraft_version=0)
    ready(cluster)
    leader, refused, behind = (cluster.nodes[node_id] for node_id in (1, 2, 3))
    lead(cluster, refused)
    cluster.run_until(for_ms=1_000)
    for one in (leader, refused):
        cluster.cut(one.id, behind.id)
    cluster.append(refused, b"kept")
    assert cluster.run_until(lambda: not cluster.unanswered)
    lead(cluster, leader)
    cluster.names = {(leader.id, refused.id): 9}
    cluster.run_until(for_ms=2_000)
    return cluster, leader, refused, behind


def test_Q11_a_refused_voter_whose_leader_is_gone_for_good_is_asked_by_the_others() -> None:
    """It has what is committed, and nobody else that is left has."""
    cluster, leader, refused, behind = with_a_refused_voter()
    assert refused.core.state is RaftState.FOLLOWER
    assert leader.high_watermark < leader.core.log_end_offset, "one voter of three"
    cluster.crash(leader.id)
    cluster.run_until(for_ms=20_000)
    assert refused.core.state is RaftState.FOLLOWER, "nobody has come by its listener"
    cluster.heal()
    assert cluster.run_until(lambda: cluster.leader() is refused, for_ms=10_000)
    cluster.append(refused, b"more")
    assert cluster.run_until(lambda: not cluster.unanswered, for_ms=10_000)
    assert behind.disk.end_offset == refused.disk.end_offset
    assert cluster.values() == [b"kept", b"more"]
