"""From one state to another: each way in is one function, and all of them check the literal table.

A transition changes memory, asks for the new state to be persisted, and says what listeners are notified of. What the
new role then *does* (asks for votes, fetches, appends its first record) is decided by the role's module right after, in
the same step.

Invariants asserted here: the epoch never falls; within an epoch the leader is set once; a vote is given once; only a
candidate becomes leader; only voters are anything but unattached or follower.

The first state follows from what was on disk (`start`):

    quorum-state                                  starts as
    --------------------------------------------  ----------------------------------------------------------------
    an epoch below that of the last record        UNATTACHED in the record's epoch: who led it is not known
    itself as leader                              RESIGNED: its old epoch must not see two leaders, nor two votes
    another replica as leader                     FOLLOWER of it
    a vote, or nothing                            UNATTACHED, the vote kept

A replica that is the only voter waits for no other.
"""

from __future__ import annotations

from ...protocol import ErrorCode
from .effects import AppendError, AppendFailed, BecameLeader, LeaderChanged, ResignedLeadership
from .messages import EndQuorumEpochRequest, FetchResponse, VoterChangeResponse
from .replica import Replica
from .roles import Candidate, Follower, Leader, Poll, Prospective, Resigned, Role, Unattached
from .state import EPOCH_MAX, LEGAL_TRANSITIONS, Endpoint, LeaderAndEpoch, RaftState, ReplicaKey


def start(replica: Replica) -> None:
    """Enter the first state, from what was on disk."""
    replica.is_started = True
    now_ms = replica.now_ms
    last_epoch = replica.log.last.epoch
    if last_epoch > replica.epoch:
        replica.epoch, replica.leader_id, replica.voted_key = last_epoch, None, None
        replica.persist()
    is_alone = replica.is_voter and not replica.other_voters
    election_deadline_ms = now_ms if is_alone else replica.random_election_deadline()
    if replica.leader_id is None:
        replica.role = Unattached(election_deadline_ms, now_ms)
    elif replica.leader_id == replica.key.id:
        replica.role = Resigned(election_deadline_ms, None, {})
    else:
        replica.role = Follower(replica.fetch_deadline(), now_ms, now_ms)
    replica.announced_leader = replica.leader
    replica.emit(LeaderChanged(replica.leader))


def become_unattached(
    replica: Replica, epoch: int, *, voted_key: ReplicaKey | None = None, election_deadline_ms: int | None = None
) -> None:
    """Enter a higher epoch, vote in this one, or give up a pre-vote. Without a deadline the current one stays."""
    assert epoch >= replica.epoch, (epoch, replica.epoch)
    if epoch == replica.epoch:
        assert replica.leader_id is None, f"{replica.leader_id} leads epoch {epoch}"
        assert replica.voted_key in (None, voted_key), (epoch, replica.voted_key, voted_key)
    if election_deadline_ms is None:
        election_deadline_ms = _running_election_deadline(replica)
    role, old = Unattached(election_deadline_ms, replica.now_ms), replica.role
    if isinstance(old, Unattached):
        role.fetch_at_ms, role.fetch = old.fetch_at_ms, old.fetch
    _enter(replica, role, epoch, None, voted_key)


def become_prospective(replica: Replica) -> None:
    """Request pre-votes in the same epoch: voters that still have a leader reject them (KIP-996)."""
    assert replica.may_stand, f"{replica.key} does not vote"
    assert not replica.log.is_installing, f"{replica.key} is about to exchange its log"
    role = Prospective(replica.random_election_deadline(), _new_poll(replica))
    _enter(replica, role, replica.epoch, replica.leader_id, replica.voted_key)


def become_candidate(replica: Replica) -> None:
    """A new epoch, and the first vote in it for itself."""
    assert replica.may_stand, f"{replica.key} does not vote"
    assert replica.epoch < EPOCH_MAX, f"there is no epoch after {replica.epoch}"
    # A replica raises the epoch by itself only here, after a majority granted pre-votes: a voter that is cut off stays
    # in its epoch, and deposes no leader when it is back.
    role = Candidate(replica.random_election_deadline(), _new_poll(replica))
    _enter(replica, role, replica.epoch + 1, None, replica.key)


def become_leader(replica: Replica) -> None:
    role = replica.role
    assert isinstance(role, Candidate), f"{role.state} cannot lead"
    granted = [node.id for node in replica.voters if node.id in role.poll.granted]
    assert len(granted) >= replica.voters.majority, (granted, replica.voters)
    # No record of this epoch may exist yet: offset and epoch must name one record for ever.
    assert replica.log.last.epoch < replica.epoch, (replica.log.last, replica.epoch)
    replica.election_attempts = 0
    begin_at_ms = {node.id: replica.now_ms for node in replica.other_voters}
    end_offset = replica.log.end_offset
    leader = Leader(replica.now_ms, tuple(granted), end_offset, end_offset, begin_at_ms=begin_at_ms)
    _enter(replica, leader, replica.epoch, replica.key.id, replica.voted_key)
    replica.emit(BecameLeader(replica.epoch, leader.epoch_start_offset))


def become_follower(
    replica: Replica, leader: LeaderAndEpoch, endpoint: Endpoint | None = None, *, fetch_deadline_ms: int | None = None
) -> None:
    """Follow a leader that was just announced, or again one that was suspect."""
    leader_id, epoch = leader.leader_id, leader.epoch
    assert leader_id is not None, leader
    assert leader_id != replica.key.id, f"{leader} is this replica"
    assert epoch >= replica.epoch, (leader, replica.epoch)
    is_same_epoch = epoch == replica.epoch
    assert not is_same_epoch or replica.leader_id in (None, leader_id), (leader, replica.leader)
    deadline_ms = replica.fetch_deadline() if fetch_deadline_ms is None else fetch_deadline_ms
    is_suspect = fetch_deadline_ms is not None
    role = Follower(deadline_ms, replica.now_ms, replica.now_ms, is_leader_suspect=is_suspect)
    if not is_suspect:
        replica.election_attempts = 0
    if leader_id != replica.leader_id or endpoint is not None:
        replica.leader_endpoint = endpoint
    _enter(replica, role, epoch, leader_id, replica.voted_key if is_same_epoch else None)


def become_resigned(
    replica: Replica, reason: str, request: EndQuorumEpochRequest | None, election_deadline_ms: int
) -> None:
    """Resign leadership, but stay in the epoch until a higher one appears."""
    assert isinstance(replica.role, Leader), replica.role.state
    end_at_ms = {node.id: replica.now_ms for node in replica.other_voters} if request is not None else {}
    role = Resigned(election_deadline_ms, request, end_at_ms)
    _enter(replica, role, replica.epoch, replica.leader_id, replica.voted_key, reason)


def learn_leader(replica: Replica, leader: LeaderAndEpoch, endpoint: Endpoint | None) -> None:
    """Take over the leader that another replica names if it is new; ignore it if it contradicts what is known."""
    if leader.epoch >= EPOCH_MAX:
        return
    if leader.epoch > replica.epoch:
        if leader.leader_id is None or leader.leader_id == replica.key.id:
            become_unattached(replica, leader.epoch)
        else:
            become_follower(replica, leader, endpoint)
    elif leader.epoch == replica.epoch and leader.leader_id not in (None, replica.key.id):
        if replica.leader_id is None:
            become_follower(replica, leader, endpoint)
        elif replica.leader_id == leader.leader_id and endpoint is not None:
            replica.leader_endpoint = endpoint


def _new_poll(replica: Replica) -> Poll:
    """Beginning with the own vote; a replica that was removed has none, also if another directory of its id votes."""
    send_at_ms = {node.id: replica.now_ms for node in replica.other_voters}
    return Poll(granted={replica.key.id} if replica.is_voter else set(), send_at_ms=send_at_ms)


def _running_election_deadline(replica: Replica) -> int:
    role = replica.role
    if isinstance(role, Unattached | Prospective | Candidate):
        return role.election_deadline_ms
    return replica.random_election_deadline()


def _enter(
    replica: Replica,
    role: Role,
    epoch: int,
    leader_id: int | None,
    voted_key: ReplicaKey | None,
    reason: str = "another epoch",
) -> None:
    old = replica.role
    assert role.state in LEGAL_TRANSITIONS[old.state], f"{old.state} to {role.state} in epoch {epoch}"
    assert old.state not in (RaftState.LEADER, RaftState.RESIGNED) or _is_legal_exit(replica, role, epoch), (
        f"{old.state} to {role.state} within epoch {epoch}"
    )
    old_epoch = replica.epoch
    replica.role = role
    replica.epoch = epoch
    replica.leader_id = leader_id
    replica.voted_key = voted_key
    replica.persist()
    if isinstance(old, Leader):
        _abandon_leadership(replica, old, old_epoch, reason)
    if replica.leader != replica.announced_leader:
        replica.is_leader_lost = False
        replica.announced_leader = replica.leader
        replica.emit(LeaderChanged(replica.leader))


def _is_legal_exit(replica: Replica, role: Role, epoch: int) -> bool:
    return epoch > replica.epoch or role.state is RaftState.RESIGNED


def _abandon_leadership(replica: Replica, old: Leader, old_epoch: int, reason: str) -> None:
    """Answer the requests that wait for this leader; appends without an offset fail."""
    replica.emit(ResignedLeadership(old_epoch, reason))
    for _, _, token in old.uncommitted:
        replica.emit(AppendFailed(token, AppendError.LEADERSHIP_LOST))
    error = ErrorCode.not_leader_or_follower
    for parked in old.parked.fetches.values():
        replica.reply(parked.token, FetchResponse(error=error, leader=replica.leader))
    change = old.voter_change
    if change is not None and not change.is_answered:
        message = "leadership was lost before the change was committed; it may yet be"
        response = VoterChangeResponse(error=error, leader=replica.leader, message=message)
        replica.reply(change.token, response)
