"""Elections: votes are requested, granted and counted (KIP-595), pre-votes before them (KIP-996).

A vote is given once an epoch, to a candidate whose log is at least as up to date as the voter's own: its last record
has a higher epoch, or the same and it is at least as long. Whether the candidate is in the voter's own voter set is
*not* asked with dynamic voters: the voter may not have the record yet that made it one (KIP-853).

A pre-vote binds no voter, and voters that still have a leader reject it, so a replica that is cut off raises no epochs:

    state of the asked      pre-vote of this epoch granted, if the log is up to date
    ----------------------  -------------------------------------------------------------------------------
    LEADER                  never
    FOLLOWER                before its first fetch from the leader, or while the leader is suspect
    others                  always

An unproven voter votes for empty logs only (`probation`).

An election that can no longer be won ends at once. A candidate then waits a random time, growing with every election
lost in a row, before it asks again; a prospective that knew a leader follows it again, and still suspects it.
"""

from __future__ import annotations

from ...protocol import ErrorCode
from .messages import VoteRequest, VoteResponse
from .probation import ask_later, end_probation, may_vote_for, on_epoch_reported
from .replica import Replica
from .requests import claim_epoch, is_foreign_voter, is_impossible, is_other_cluster
from .roles import IN_FLIGHT, Candidate, Follower, Leader, Poll, Prospective, Unattached
from .state import LeaderAndEpoch, OffsetAndEpoch
from .transitions import become_candidate, become_follower, become_leader, become_prospective, become_unattached


def is_up_to_date(candidate: OffsetAndEpoch, own: OffsetAndEpoch) -> bool:
    """Whether a log that ends like the candidate's holds all that one ending like ours may have committed."""
    return (candidate.epoch, candidate.offset) >= (own.epoch, own.offset)


def on_vote_request(replica: Replica, token: object, request: VoteRequest) -> None:
    error = _vote_error(replica, request)
    if error is not None:
        _answer(replica, token, error, is_granted=False)
        return
    if request.voter is not None:  # by the listener that the asker's voter set names: this is the voter
        replica.is_refused = False
    if request.epoch > replica.epoch:
        become_unattached(replica, request.epoch)
    is_granted = can_grant_pre_vote(replica, request) if request.pre_vote else can_grant_vote(replica, request)
    if is_granted and not request.pre_vote and replica.voted_key != request.candidate:
        grant_vote(replica, request)
    _answer(replica, token, ErrorCode.none, is_granted=is_granted)


def can_grant_vote(replica: Replica, request: VoteRequest) -> bool:
    """Return whether to vote for the candidate: once an epoch, and only if its log may hold every committed record."""
    # A replica that follows a leader of this epoch has seen its election: another winner would be a second leader.
    if not isinstance(replica.role, Unattached | Prospective) or replica.leader_id is not None:
        return False
    if replica.voted_key is not None:
        return replica.voted_key == request.candidate  # a repeated request: the first response may be lost
    # A committed record is on a majority of the voters, and one of them votes here: refusing shorter logs keeps it.
    return is_up_to_date(request.last, replica.log.last) and may_vote_for(replica, request.last)


def can_grant_pre_vote(replica: Replica, request: VoteRequest) -> bool:
    """Return whether the candidate could win an election here (KIP-996); a grant binds this replica to nothing."""
    role = replica.role
    if isinstance(role, Leader):
        return False
    # A live leader serves this replica, so the candidate is the one that is cut off: it must not raise the epoch.
    if isinstance(role, Follower) and role.has_fetched and not role.is_leader_suspect:
        return False
    return is_up_to_date(request.last, replica.log.last) and may_vote_for(replica, request.last)


def grant_vote(replica: Replica, request: VoteRequest) -> None:
    """Remember the vote; the answer waits until it is on disk."""
    # A vote that a crash could take back might be given twice in one epoch, and two leaders elected.
    deadline_ms = replica.random_election_deadline()
    become_unattached(replica, replica.epoch, voted_key=request.candidate, election_deadline_ms=deadline_ms)
    end_probation(replica)


def on_vote_response(replica: Replica, peer_id: int, request: VoteRequest, response: VoteResponse) -> None:
    """Count the response. An error counts as a rejection: a voter of another cluster is no reason to stop (KIP-595)."""
    on_epoch_reported(replica, peer_id, response)
    if peer_id == replica.leader_id and response.error is ErrorCode.none:
        replica.is_leader_lost = False  # it listens where this replica knows it
    poll = _poll_of(replica, request)
    if poll is None:
        return
    poll.send_at_ms.pop(peer_id, None)
    poll.unreachable.discard(peer_id)
    (poll.granted if response.granted and response.error is ErrorCode.none else poll.rejected).add(peer_id)


def on_vote_failed(replica: Replica, peer_id: int, request: VoteRequest) -> None:
    ask_later(replica, peer_id)
    poll = _poll_of(replica, request)
    if poll is not None and peer_id in poll.send_at_ms:
        poll.send_at_ms[peer_id] = replica.retry_at()
        poll.unreachable.add(peer_id)


def poll_unattached(replica: Replica, role: Unattached) -> None:
    if is_election_due(replica, role.election_deadline_ms):
        become_prospective(replica)


def poll_prospective(replica: Replica, role: Prospective) -> None:
    if is_won(replica, role.poll):
        become_candidate(replica)
        end_probation(replica)
    elif is_lost(replica, role.poll) or replica.now_ms >= role.election_deadline_ms:
        _give_up(replica, replica.random_backoff_deadline())
    else:
        _ask(replica, role.poll, pre_vote=True)


def poll_candidate(replica: Replica, role: Candidate) -> None:
    if is_won(replica, role.poll):
        become_leader(replica)
    elif role.backoff_deadline_ms is not None:
        if replica.now_ms >= role.backoff_deadline_ms:
            become_prospective(replica)
    elif is_lost(replica, role.poll) or replica.now_ms >= role.election_deadline_ms:
        role.backoff_deadline_ms = replica.random_backoff_deadline()
    else:
        _ask(replica, role.poll, pre_vote=False)


def is_election_due(replica: Replica, deadline_ms: int) -> bool:
    return replica.may_stand and not replica.log.is_installing and replica.now_ms >= deadline_ms


def is_won(replica: Replica, poll: Poll) -> bool:
    return sum(node.id in poll.granted for node in replica.voters) >= replica.voters.majority


def is_lost(replica: Replica, poll: Poll) -> bool:
    """Return whether a majority can no longer be reached.

    Unreachable voters count as undecided until a voter rejects; from then on it is better to back off for a random time
    than to wait for them.
    """
    if not poll.rejected:
        return False  # silence may be a slow link: giving up early would only cost another round
    lost = sum(node.id in poll.rejected or node.id in poll.unreachable for node in replica.voters)
    return len(replica.voters) - lost < replica.voters.majority


def deadlines_unattached(replica: Replica, role: Unattached) -> list[int]:
    """When to stand for election."""
    return [role.election_deadline_ms] if replica.may_stand and not replica.log.is_installing else []


def deadlines(_: Replica, role: Prospective | Candidate) -> list[int]:
    """When there is something to do next."""
    if isinstance(role, Candidate) and role.backoff_deadline_ms is not None:
        return [role.backoff_deadline_ms]
    return [role.election_deadline_ms, *(at_ms for at_ms in role.poll.send_at_ms.values() if at_ms != IN_FLIGHT)]


def _vote_error(replica: Replica, request: VoteRequest) -> ErrorCode | None:
    if is_other_cluster(replica, request.cluster_id):
        return ErrorCode.inconsistent_cluster_id
    if not replica.is_this_replica(request.voter):
        return ErrorCode.invalid_voter_key
    if is_impossible(replica, request.candidate.id, request.epoch):
        return ErrorCode.invalid_request
    if request.last.epoch < 0 or request.last.offset < 0:
        return ErrorCode.invalid_request
    if request.last.epoch > request.epoch or (request.last.epoch == request.epoch and not request.pre_vote):
        return ErrorCode.invalid_request
    if is_foreign_voter(replica, request.candidate.id):
        return ErrorCode.inconsistent_voter_set
    if request.epoch < replica.epoch:
        return ErrorCode.fenced_leader_epoch
    return None if claim_epoch(replica, request.epoch) else ErrorCode.unknown_leader_epoch


def _answer(replica: Replica, token: object, error: ErrorCode, *, is_granted: bool) -> None:
    response = VoteResponse(
        error=error, leader=replica.leader, granted=is_granted, leader_endpoint=replica.known_leader_endpoint()
    )
    replica.reply(token, response)


def _poll_of(replica: Replica, request: VoteRequest) -> Poll | None:
    """The poll that `request` belongs to, if it still runs."""
    role = replica.role
    is_same_kind = isinstance(role, Prospective) if request.pre_vote else isinstance(role, Candidate)
    if not is_same_kind or request.epoch != replica.epoch:
        return None
    assert isinstance(role, Prospective | Candidate)
    return role.poll


def _ask(replica: Replica, poll: Poll, *, pre_vote: bool) -> None:
    for node in replica.other_voters:
        send_at_ms = poll.send_at_ms.get(node.id, IN_FLIGHT)
        if send_at_ms == IN_FLIGHT or replica.now_ms < send_at_ms:
            continue
        poll.send_at_ms[node.id] = IN_FLIGHT
        request = VoteRequest(
            cluster_id=replica.config.cluster_id,
            candidate=replica.key,
            epoch=replica.epoch,
            last=replica.log.last,
            pre_vote=pre_vote,
            voter=node.key,
        )
        replica.send(node.id, request)


def _give_up(replica: Replica, deadline_ms: int) -> None:
    """No majority would vote for this replica: follow the leader again, if there was one, until the deadline."""
    if replica.leader_id is None:
        become_unattached(replica, replica.epoch, voted_key=replica.voted_key, election_deadline_ms=deadline_ms)
    else:
        leader = LeaderAndEpoch(replica.leader_id, replica.epoch)
        become_follower(replica, leader, replica.leader_endpoint, fetch_deadline_ms=deadline_ms)
