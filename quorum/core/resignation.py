"""Leaving in good order: EndQuorumEpoch sent and received, and the end of a replica's service.

A leader that resigns names its successors, the longest log first. A voter that receives this stands for election after

    its position in the list     0    n >= 1                                            not in it
    it waits                     0    min(backoff.max, retry.backoff * 2^(n-1))         backoff.max

and sooner grants pre-votes to others. With static voters a voter that is missing from the list is also notified
(INCONSISTENT_VOTER_SET). A resigned leader stays in its epoch, where it can neither lead nor follow, until another
epoch shows itself, or it begins one when its election timeout passes.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...protocol import ErrorCode
from .config import RaftConfig
from .effects import ShutdownCompleted
from .messages import EndQuorumEpochRequest, EndQuorumEpochResponse
from .replica import Replica
from .requests import is_other_cluster, leadership_error
from .roles import IN_FLIGHT, Follower, Leader, Resigned
from .state import LeaderAndEpoch, ReplicaKey
from .transitions import become_follower, become_resigned, become_unattached
from .voters import KRAFT_VERSION_STATIC

NOT_A_SUCCESSOR = -1


def resign(replica: Replica, role: Leader, reason: str) -> None:
    """Resign leadership, and announce the best successors to the voters."""
    request = EndQuorumEpochRequest(
        cluster_id=replica.config.cluster_id,
        leader_id=replica.key.id,
        epoch=replica.epoch,
        preferred_successors=preferred_successors(replica, role),
        endpoints=replica.config.endpoints,
    )
    become_resigned(replica, reason, request, replica.random_election_deadline())


def preferred_successors(replica: Replica, role: Leader) -> tuple[ReplicaKey, ...]:
    """The other voters, the one with most of the log first."""
    keys = [node.key for node in replica.other_voters]
    ends = {key: position.end_offset for key, position in role.positions.items()}
    return tuple(sorted(keys, key=lambda key: (-ends.get(key, -1), key.id)))


def successor_backoff_ms(config: RaftConfig, position: int) -> int:
    """How long the successor at `position` waits; `NOT_A_SUCCESSOR`: the most."""
    if position == NOT_A_SUCCESSOR:
        return config.election_backoff_max_ms
    if position == 0:
        return 0
    return min(config.election_backoff_max_ms, config.retry_backoff_ms << min(position - 1, 16))


def position_among(successors: Sequence[ReplicaKey], replica: Replica) -> int:
    for index, key in enumerate(successors):
        if replica.is_this_replica(key):
            return index
    return NOT_A_SUCCESSOR


# --- the leader that goes


def poll_resigned(replica: Replica, role: Resigned) -> None:
    if replica.now_ms >= role.election_deadline_ms and not replica.is_shutting_down:
        become_unattached(replica, replica.epoch + 1, election_deadline_ms=replica.now_ms)
        return
    if role.request is None:
        return
    for peer_id, at_ms in role.end_at_ms.items():
        if at_ms != IN_FLIGHT and replica.now_ms >= at_ms:
            role.end_at_ms[peer_id] = IN_FLIGHT
            replica.send(peer_id, role.request)


def deadlines(replica: Replica, role: Resigned) -> list[int]:
    due = [at_ms for at_ms in role.end_at_ms.values() if at_ms != IN_FLIGHT]
    return due if replica.is_shutting_down else [*due, role.election_deadline_ms]


def on_end_answered(replica: Replica, peer_id: int, request: EndQuorumEpochRequest) -> None:
    """Whatever the answer: this one knows."""
    role = replica.role
    if isinstance(role, Resigned) and role.request == request:
        role.end_at_ms.pop(peer_id, None)


def on_end_failed(replica: Replica, peer_id: int, request: EndQuorumEpochRequest) -> None:
    role = replica.role
    if isinstance(role, Resigned) and role.request == request and peer_id in role.end_at_ms:
        role.end_at_ms[peer_id] = replica.retry_at()


def on_shutdown(replica: Replica) -> None:
    replica.is_shutting_down = True
    replica.shutdown_deadline_ms = replica.now_ms + replica.config.request_timeout_ms
    if isinstance(replica.role, Leader):
        resign(replica, replica.role, "this replica shuts down")


def poll_shutdown(replica: Replica) -> bool:
    """Return whether the shutdown is complete: every voter has responded, or the deadline has passed."""
    role = replica.role
    is_announced = not replica.is_awaiting_disk and (not isinstance(role, Resigned) or not role.end_at_ms)
    if is_announced or replica.now_ms >= replica.shutdown_deadline_ms:
        replica.emit_past_gate(ShutdownCompleted())
        return True
    return False


# --- a voter that receives it


def on_end_request(replica: Replica, token: object, request: EndQuorumEpochRequest) -> None:
    error = _end_error(replica, request)
    if error is None:
        error = _expect_election(replica, request)
    response = EndQuorumEpochResponse(
        error=error, leader=replica.leader, leader_endpoint=replica.known_leader_endpoint()
    )
    replica.reply(token, response)


def _end_error(replica: Replica, request: EndQuorumEpochRequest) -> ErrorCode | None:
    if is_other_cluster(replica, request.cluster_id):
        return ErrorCode.inconsistent_cluster_id
    return leadership_error(replica, request.leader_id, request.epoch)


def _expect_election(replica: Replica, request: EndQuorumEpochRequest) -> ErrorCode:
    """Stand for election after this voter's back-off."""
    if not isinstance(replica.role, Follower) or request.epoch > replica.epoch:
        become_follower(replica, LeaderAndEpoch(request.leader_id, request.epoch))  # where: as `follower` has it
    role = replica.role
    assert isinstance(role, Follower), role.state
    position = position_among(request.preferred_successors, replica)
    role.is_leader_suspect = role.is_leader_resigned = True
    role.fetch_deadline_ms = replica.now_ms + successor_backoff_ms(replica.config, position)
    is_static = replica.kraft_version == KRAFT_VERSION_STATIC
    if position == NOT_A_SUCCESSOR and is_static and replica.is_voter:
        return ErrorCode.inconsistent_voter_set
    return ErrorCode.none
