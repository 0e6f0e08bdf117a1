"""Leading an epoch: the high watermark moves, and voters learn of the epoch (`leader_log`: what is appended).

    rule                                                                                      source
    ----------------------------------------------------------------------------------------  ----------------------
    the epoch's first record is LeaderChange; appends are taken after it                      KIP-595
    a leader that the voters in the log have otherwise than it is writes them with it         KIP-853
    a voter's fetch offset is what it has on disk; the leader's own counts up to its flush    KIP-595, Raft 5.3
    observers, and replicas whose directory is another, never move the high watermark         KIP-853, `identity`
    an append is answered when the high watermark has passed its last record                  KIP-595
    no majority in touch for 1.5 fetch timeouts: resign                                       KIP-595, check-quorum

Followers read what is written, flushed here or not: their flush may well be the one that makes the majority.
"""

from __future__ import annotations

from ...protocol import ErrorCode
from .effects import AppendCompleted
from .high_watermark import advanced_high_watermark, majority_reached
from .identity import addressee, on_confirmed
from .leader_fetch import answer_parked
from .leader_log import begin_epoch, drain_pending
from .membership import deadlines as voter_change_deadlines
from .membership import on_high_watermark, poll_voter_change
from .messages import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from .replica import Replica
from .resignation import resign
from .roles import IN_FLIGHT, Leader
from .state import ReplicaKey


def poll_leader(replica: Replica, role: Leader) -> None:
    if not role.has_begun:
        begin_epoch(replica, role)
    if _is_out_of_touch(replica, role):
        resign(replica, role, "no majority of the voters fetched for 1.5 fetch timeouts")
        return
    update_high_watermark(replica, role)
    if replica.role is not role:
        return
    if role.voter_change is not None:
        poll_voter_change(replica, role, role.voter_change)
    if role.pending:
        drain_pending(replica, role)
    _announce(replica, role)
    answer_parked(replica, role)


def deadlines(replica: Replica, role: Leader) -> list[int]:
    """When a leader next has something to do."""
    due = [] if role.check_quorum_deadline_ms is None else [role.check_quorum_deadline_ms]
    for node in replica.other_voters:
        if (begin_at_ms := role.begin_at_ms[node.key.id]) != IN_FLIGHT:
            due.append(begin_at_ms)
    if role.parked.fetches and role.parked.look_at_ms is not None:
        due.append(role.parked.look_at_ms)
    if role.voter_change is not None:
        due += voter_change_deadlines(role.voter_change)
    if role.pending and not replica.log.is_busy:
        due.append(role.pending_since_ms + replica.config.append_linger_ms)
    return due


# --- commitment


def update_high_watermark(replica: Replica, role: Leader) -> None:
    """Move the high watermark to what a majority of the voters has on disk, and complete the appends below it."""
    if replica.high_watermark == replica.log.end_offset:
        return
    own_id = replica.key.id if replica.is_voter else None
    ends = [
        replica.log.flushed_end_offset if node.id == own_id else position_end(role, node.key) for node in replica.voters
    ]
    # The leader counts only what it has flushed itself: its own unflushed records may be lost in a crash, too.
    offset = advanced_high_watermark(replica.high_watermark, ends, replica.voters.majority, role.epoch_start_offset)
    if not replica.advance_high_watermark(offset):
        return
    while role.uncommitted and role.uncommitted[0][0] < offset:
        last_offset, size, token = role.uncommitted.popleft()
        role.uncommitted_bytes -= size
        replica.emit(AppendCompleted(token, last_offset))
    on_high_watermark(replica, role)


def position_end(role: Leader, key: ReplicaKey) -> int:
    position = role.positions.get(key)
    return -1 if position is None else position.end_offset


def _is_out_of_touch(replica: Replica, role: Leader) -> bool:
    """Return whether no majority of the voters has fetched within the fetch timeout (check-quorum).

    Every fetch moves the deadline, so it is computed again only when the known one has passed.
    """
    deadline_ms = role.check_quorum_deadline_ms
    if role.checked_voters is replica.voters and (deadline_ms is None or replica.now_ms < deadline_ms):
        return False
    role.checked_voters = replica.voters
    role.check_quorum_deadline_ms = deadline_ms = check_quorum_deadline(replica, role)
    return deadline_ms is not None and replica.now_ms >= deadline_ms


def check_quorum_deadline(replica: Replica, role: Leader) -> int | None:
    """When leadership ends unless more voters get in touch; None where the leader is the majority."""
    needed = replica.voters.majority - replica.is_voter
    if needed <= 0:
        return None
    contacts = []
    for node in replica.other_voters:
        position = role.positions.get(node.key)
        contacts.append(role.since_ms if position is None else max(role.since_ms, position.last_fetch_ms))
    return majority_reached(contacts, needed) + replica.config.fetch_timeout_ms * 3 // 2


# --- BeginQuorumEpoch


def _announce(replica: Replica, role: Leader) -> None:
    """Send BeginQuorumEpoch to each voter until it responds, and again once it has not fetched for a while."""
    for node in replica.other_voters:
        voter_id = node.key.id
        at_ms = role.begin_at_ms.setdefault(voter_id, replica.now_ms)
        if at_ms == IN_FLIGHT or replica.now_ms < at_ms:
            continue
        role.begin_at_ms[voter_id] = IN_FLIGHT
        request = BeginQuorumEpochRequest(
            cluster_id=replica.config.cluster_id,
            leader_id=replica.key.id,
            epoch=replica.epoch,
            endpoints=replica.config.endpoints,
            voter=addressee(role, node),
        )
        replica.send(voter_id, request)


def on_begin_response(
    replica: Replica, peer_id: int, request: BeginQuorumEpochRequest, response: BeginQuorumEpochResponse
) -> None:
    role = replica.role
    if not isinstance(role, Leader) or request.epoch != replica.epoch or peer_id not in role.begin_at_ms:
        return
    on_confirmed(replica, role, request, response.error)
    if response.error is ErrorCode.none:
        role.begin_failures.pop(peer_id, None)
        role.begin_at_ms[peer_id] = replica.now_ms + replica.config.fetch_timeout_ms // 2
    else:
        _announce_later(replica, role, peer_id)


def on_begin_failed(replica: Replica, peer_id: int, request: BeginQuorumEpochRequest) -> None:
    role = replica.role
    if isinstance(role, Leader) and request.epoch == replica.epoch and role.begin_at_ms.get(peer_id) == IN_FLIGHT:
        _announce_later(replica, role, peer_id)


def _announce_later(replica: Replica, role: Leader, peer_id: int) -> None:
    failures = role.begin_failures.get(peer_id, 0)
    role.begin_failures[peer_id] = min(failures + 1, 16)
    backoff_ms = min(replica.config.retry_backoff_ms << failures, replica.config.fetch_timeout_ms // 2)
    role.begin_at_ms[peer_id] = replica.now_ms + backoff_ms
