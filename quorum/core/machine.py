"""A KRaft replica as a state machine: events in, effects out, nothing else (KIP-595, KIP-630, KIP-853, KIP-996).

    what happened, and when                                        what is to be done, in order
    RequestReceived, ResponseReceived, ...   -> RaftCore.step ->   PersistState, Send, Reply, AppendRecords, Flush,
    LogCompleted, TimerFired, Append, ...                          Truncate, HighWatermarkAdvanced, SetTimer, ...

`step` lets the module of the event's concern change the state, then asks the role what is due now ("poll"), until the
role stays the same. States and their legal transitions are the table in `state`; `transitions` checks each one.

    module            decides
    ----------------  -----------------------------------------------------------------------------------------
    election          votes, pre-votes, candidacies
    follower          Fetch, truncation, the follower's high watermark, finding a leader
    snapshot_fetch    a snapshot downloaded in place of the log's beginning
    leader_log        offsets of appends, what is written when
    leader            the leader's high watermark, BeginQuorumEpoch, check-quorum
    requests          how far a request may raise the epoch
    identity          whether who fetches as a static voter is that voter
    leader_fetch      what Fetch, FetchSnapshot and DescribeQuorum are answered
    membership        changes of the voter set, and of kraft.version
    voter_requests    what a follower asks for about itself: UpdateRaftVoter, auto-join
    proof             when a voter that began with an empty disk may vote
    resignation       EndQuorumEpoch, shutdown

Invariants, on which the simulator and the model checker insist:

1. An epoch has at most one leader. A replica votes once an epoch, and its epoch never falls, crashes included.
2. A leader's log holds every committed record; it never truncates it.
3. Logs that hold a record of the same offset and epoch are equal up to there.
4. What any replica reported as committed is committed for good; each replica's high watermark only rises.
5. Voter sets change by one voter at a time, and the next change waits for the last to be committed.

What must be on disk before what:

    before                                            what                                   enforced by
    ------------------------------------------------  -------------------------------------  -------------------
    a vote request or an answer to one leaves         epoch and vote (`PersistState`)        Replica.emit
    a leader's first record, BeginQuorumEpoch         that it leads the epoch                Replica.emit
    the first Fetch to a leader                       epoch and leader                       Replica.emit
    a Fetch that acknowledges records                 the records (`Flush`)                  follower.poll_follower
    the leader's own records count                    the records (`Flush`)                  LogView.flushed_end_offset
    the log moves to a snapshot                       the whole snapshot, verified           InstallSnapshot

Failure points: a crash between any two effects leaves what was done before; `RecoveredState` is read from that, and the
epoch is at least that of the last record. An I/O error is a crash, because memory is ahead of the disk. Requests and
answers may be lost, repeated, delayed and reordered: an answer counts only while the very request it belongs to is
awaited.

It does not know: bytes, files, sockets, wall-clock time, what records mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...protocol.errors import ErrorCode
from . import (
    election,
    follower,
    leader,
    leader_fetch,
    leader_log,
    membership,
    proof,
    resignation,
    snapshot_fetch,
    voter_requests,
)
from .config import RaftConfig
from .effects import Effect, Fatal, SetTimer
from .events import (
    Append,
    ConnectionLost,
    Event,
    LogCompleted,
    LogFailed,
    RecoveredState,
    RequestFailed,
    RequestReceived,
    Resign,
    ResponseReceived,
    Shutdown,
    SnapshotChunkWritten,
    SnapshotInstalled,
    SnapshotRejected,
    SnapshotTaken,
    Started,
    StatePersisted,
    TimerFired,
)
from .messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    UpgradeKRaftVersionRequest,
    VoteRequest,
)
from .replica import FIRST_BOOTSTRAP_ID, Replica
from .roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from .state import Chance, Endpoint, LeaderAndEpoch, RaftState
from .transitions import learn_leader, start
from .voters import VotersAt

ROLE_CHANGES_MAX = 8
"""In one step; a lone voter takes three from unattached to leader."""


class RaftCore:
    """One replica of the quorum. Not for more than one thread, and never re-entered."""

    __slots__ = ("_is_stopped", "_replica", "_timer_ms")

    def __init__(self, config: RaftConfig, recovered: RecoveredState, chance: Chance) -> None:
        self._replica = Replica(config, recovered, chance)
        self._timer_ms: int | None = None
        self._is_stopped = False

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """What follows from `event`. After `Fatal` or `ShutdownCompleted`: nothing any more."""
        if self._is_stopped:
            return []
        replica = self._replica
        assert replica.is_started is not isinstance(event, Started), (
            f"{event} in a replica that did not start, or twice"
        )
        assert now_ms >= replica.now_ms, f"time ran backwards, from {replica.now_ms} to {now_ms} ms"
        replica.now_ms = now_ms
        if isinstance(event, TimerFired) and self._timer_ms is not None and now_ms < self._timer_ms:
            self._timer_ms = None  # it was early, and is set again
        _EVENT_HANDLERS[type(event)](replica, event)
        if replica.fatal_reason is None:
            self._poll()
        if replica.fatal_reason is not None:
            self._is_stopped = True
            return [*replica.take_effects(), Fatal(replica.fatal_reason)]
        return self._with_timer(replica.take_effects())

    def _poll(self) -> None:
        replica = self._replica
        if replica.doubt is not None:
            proof.poll_doubt(replica, replica.doubt)
        if replica.is_shutting_down and resignation.poll_shutdown(replica):
            self._is_stopped = True
            return
        for _ in range(ROLE_CHANGES_MAX):
            role = replica.role
            _POLLS[type(role)](replica, role)
            if replica.role is role:
                break
        else:
            raise AssertionError(f"replica {replica.key} does not settle in epoch {replica.epoch}: {replica.role}")

    def _with_timer(self, effects: list[Effect]) -> list[Effect]:
        deadline_ms = None if self._is_stopped else min(_deadlines(self._replica), default=None)
        now_ms = self._replica.now_ms
        assert deadline_ms is None or deadline_ms > now_ms, (
            f"due at {deadline_ms}, left undone at {now_ms}: {self._replica.role}"
        )
        if deadline_ms != self._timer_ms:
            self._timer_ms = deadline_ms
            effects.append(SetTimer(deadline_ms))
        return effects

    # --- what it knows, for metrics and listeners

    @property
    def state(self) -> RaftState:
        return self._replica.role.state

    @property
    def epoch(self) -> int:
        return self._replica.epoch

    @property
    def leader_and_epoch(self) -> LeaderAndEpoch:
        return self._replica.leader

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """Where the leader listens, this replica included; None if not known."""
        return self._replica.known_leader_endpoint()

    @property
    def voted_id(self) -> int | None:
        """Who got this replica's vote in this epoch."""
        voted_key = self._replica.voted_key
        return None if voted_key is None else voted_key.id

    @property
    def voters_at_end(self) -> VotersAt:
        """The voter set in effect, committed or not."""
        return self._replica.voter_history.latest

    @property
    def granting_voters(self) -> tuple[int, ...]:
        """Whose votes a candidate counts, or a leader won by; none in other states."""
        role = self._replica.role
        if isinstance(role, Leader):
            return role.granting_voters
        return tuple(sorted(role.poll.granted)) if isinstance(role, Candidate) else ()

    @property
    def is_voter(self) -> bool:
        return self._replica.is_voter

    @property
    def observers(self) -> int:
        """How many a leader knows."""
        role = self._replica.role
        return len(leader_fetch.observers_of(self._replica, role)) if isinstance(role, Leader) else 0

    @property
    def high_watermark(self) -> int:
        return self._replica.high_watermark

    @property
    def log_end_offset(self) -> int:
        """As decided: effects under way included."""
        return self._replica.log.end_offset

    @property
    def next_offset(self) -> int:
        """That of the next record appended here, behind all that waits to be written."""
        role = self._replica.role
        return role.next_offset if isinstance(role, Leader) else self._replica.log.end_offset


Handler = Callable[[Replica, Any], None]


def _poll_unattached(replica: Replica, role: Unattached) -> None:
    election.poll_unattached(replica, role)
    if replica.role is role:
        follower.poll_unattached(replica, role)


def _on_request(replica: Replica, event: RequestReceived) -> None:
    _REQUEST_HANDLERS[type(event.request)](replica, event.token, event.request)


def _on_response(replica: Replica, event: ResponseReceived) -> None:
    response = event.response
    _RESPONSE_HANDLERS[type(event.request)](replica, event.peer_id, event.request, response)
    if replica.fatal_reason is None:
        learn_leader(replica, response.leader, response.leader_endpoint or _server_that_leads(replica, event))


def _server_that_leads(replica: Replica, event: ResponseReceived) -> Endpoint | None:
    """A leader that serves a fetch does not say where it listens: where it was asked."""
    is_served = isinstance(event.response, FetchResponse) and event.response.error is ErrorCode.none
    return replica.endpoint_of(event.peer_id) if is_served and event.peer_id <= FIRST_BOOTSTRAP_ID else None


def _on_failure(replica: Replica, event: RequestFailed) -> None:
    _FAILURE_HANDLERS[type(event.request)](replica, event.peer_id, event.request)


def _on_log_completed(replica: Replica, event: LogCompleted) -> None:
    replica.log.complete(event.effect)
    if not replica.log.is_busy:
        follower.on_log_idle(replica)


def _on_log_failed(replica: Replica, event: LogFailed) -> None:
    replica.fatal_reason = f"the log failed: {event.reason}"


def _on_resign(replica: Replica, event: Resign) -> None:
    if isinstance(replica.role, Leader) and event.epoch == replica.epoch:
        resignation.resign(replica, replica.role, event.reason or "asked to")


def _deadlines(replica: Replica) -> list[int]:
    due = _DEADLINES[type(replica.role)](replica, replica.role)
    if replica.doubt is not None:
        due += proof.deadlines(replica, replica.doubt)
    if replica.is_shutting_down:
        due.append(replica.shutdown_deadline_ms)
    return due


def _deadlines_unattached(replica: Replica, role: Unattached) -> list[int]:
    return election.deadlines_unattached(replica, role) + follower.deadlines_unattached(role)


_POLLS: dict[type[Role], Callable[[Replica, Any], None]] = {
    Unattached: _poll_unattached,
    Prospective: election.poll_prospective,
    Candidate: election.poll_candidate,
    Leader: leader.poll_leader,
    Follower: follower.poll_follower,
    Resigned: resignation.poll_resigned,
}

_DEADLINES: dict[type[Role], Callable[[Replica, Any], list[int]]] = {
    Unattached: _deadlines_unattached,
    Prospective: election.deadlines,
    Candidate: election.deadlines,
    Leader: leader.deadlines,
    Follower: follower.deadlines,
    Resigned: resignation.deadlines,
}

_EVENT_HANDLERS: dict[type[Event], Handler] = {
    Started: lambda replica, _: start(replica),
    TimerFired: lambda replica, _: None,
    RequestReceived: _on_request,
    ResponseReceived: _on_response,
    RequestFailed: _on_failure,
    ConnectionLost: lambda replica, event: follower.on_connection_lost(replica, event.peer_id),
    Append: leader_log.on_append,
    Resign: _on_resign,
    Shutdown: lambda replica, _: resignation.on_shutdown(replica),
    StatePersisted: lambda replica, event: replica.confirm_persisted(event.state),
    LogCompleted: _on_log_completed,
    LogFailed: _on_log_failed,
    SnapshotChunkWritten: lambda replica, event: snapshot_fetch.on_chunk_written(replica, event.effect),
    SnapshotInstalled: snapshot_fetch.on_snapshot_installed,
    SnapshotRejected: lambda replica, event: snapshot_fetch.on_snapshot_rejected(replica, event.snapshot_id),
    SnapshotTaken: lambda replica, event: replica.log.move_start(event.snapshot_id, event.log_start),
}

_REQUEST_HANDLERS: dict[type, Callable[[Replica, object, Any], None]] = {
    VoteRequest: election.on_vote_request,
    BeginQuorumEpochRequest: follower.on_begin_request,
    EndQuorumEpochRequest: resignation.on_end_request,
    FetchRequest: leader_fetch.on_fetch_request,
    FetchSnapshotRequest: leader_fetch.on_fetch_snapshot_request,
    DescribeQuorumRequest: lambda replica, token, _: leader_fetch.on_describe_request(replica, token),
    AddVoterRequest: membership.on_add_request,
    RemoveVoterRequest: membership.on_remove_request,
    UpdateVoterRequest: membership.on_update_request,
    UpgradeKRaftVersionRequest: membership.on_upgrade_request,
}

_RESPONSE_HANDLERS: dict[type, Callable[[Replica, int, Any, Any], None]] = {
    VoteRequest: election.on_vote_response,
    BeginQuorumEpochRequest: leader.on_begin_response,
    EndQuorumEpochRequest: lambda replica, peer_id, request, _: resignation.on_end_answered(replica, peer_id, request),
    FetchRequest: follower.on_fetch_response,
    FetchSnapshotRequest: snapshot_fetch.on_fetch_snapshot_response,
    **dict.fromkeys(
        (UpdateVoterRequest, AddVoterRequest, RemoveVoterRequest),
        lambda replica, _, request, response: voter_requests.on_answered(replica, request, response),
    ),
}

_FAILURE_HANDLERS: dict[type, Callable[[Replica, int, Any], None]] = {
    VoteRequest: election.on_vote_failed,
    BeginQuorumEpochRequest: leader.on_begin_failed,
    EndQuorumEpochRequest: resignation.on_end_failed,
    FetchRequest: lambda replica, _, request: follower.on_fetch_failed(replica, request),
    FetchSnapshotRequest: lambda replica, _, request: snapshot_fetch.on_fetch_snapshot_failed(replica, request),
    **dict.fromkeys(
        (UpdateVoterRequest, AddVoterRequest, RemoveVoterRequest),
        lambda replica, _, request: voter_requests.on_failed(replica, request),
    ),
}
