"""A KRaft replica as a state machine: events in, effects out, nothing else (KIP-595, KIP-630, KIP-853, KIP-996).

    what happened, and when                                        what must be done, in order
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
    probation         when a voter that began with an empty disk may vote
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
from typing import Final, TypeVar

from ...protocol import ErrorCode
from . import (
    election,
    follower,
    leader,
    leader_fetch,
    leader_log,
    membership,
    probation,
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
    SnapshotChunkRefused,
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
    BeginQuorumEpochResponse,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    PeerRequest,
    PeerResponse,
    RemoveVoterRequest,
    Request,
    UpdateVoterRequest,
    UpgradeKRaftVersionRequest,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from .replica import FIRST_BOOTSTRAP_ID, RaftStatus, Replica
from .roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from .state import Chance, Endpoint, RaftState
from .transitions import learn_leader, start
from .voters import VotersAt

_Role = TypeVar("_Role", bound=Role)
_Event = TypeVar("_Event", bound=Event)
_Request = TypeVar("_Request", bound=Request)
_Asked = TypeVar("_Asked", bound=PeerRequest)
_Answer = TypeVar("_Answer", bound=PeerResponse)

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
        """What follows from `event`. After `Fatal` or `ShutdownCompleted` there are no effects."""
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
        if replica.probation is not None:
            probation.poll_probation(replica, replica.probation)
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
    def voters_at_end(self) -> VotersAt:
        """The voter set in effect, committed or not."""
        return self._replica.voter_history.latest

    @property
    def log_end_offset(self) -> int:
        """The end of the log as decided: effects under way are included."""
        return self._replica.log.end_offset

    @property
    def status(self) -> RaftStatus:
        """What this replica knows at this instant."""
        replica, role = self._replica, self._replica.role
        return RaftStatus(
            state=role.state,
            leader_and_epoch=replica.leader,
            leader_endpoint=replica.known_leader_endpoint(),
            voted_id=None if replica.voted_key is None else replica.voted_key.id,
            granting_voters=_granting_voters(role),
            is_voter=replica.is_voter,
            voters=replica.voter_history.latest,
            high_watermark=replica.high_watermark,
            next_offset=role.next_offset if isinstance(role, Leader) else replica.log.end_offset,
        )

    @property
    def observers(self) -> int:
        """The number of observers that a leader knows; 0 on other replicas."""
        role = self._replica.role
        return len(leader_fetch.observers_of(self._replica, role)) if isinstance(role, Leader) else 0


def _granting_voters(role: Role) -> tuple[int, ...]:
    if isinstance(role, Leader):
        return role.granting_voters
    return tuple(sorted(role.poll.granted)) if isinstance(role, Candidate) else ()


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
    if replica.probation is not None:
        due += probation.deadlines(replica, replica.probation)
    if replica.is_shutting_down:
        due.append(replica.shutdown_deadline_ms)
    return due


def _deadlines_unattached(replica: Replica, role: Unattached) -> list[int]:
    return election.deadlines_unattached(replica, role) + follower.deadlines_unattached(role)


# Tables by class. A row is the only way into a table, and its types say that the function takes what the class is.


def _poll(kind: type[_Role], poll: Callable[[Replica, _Role], None]) -> tuple[type, Callable[..., None]]:
    return kind, poll


def _due(kind: type[_Role], deadlines: Callable[[Replica, _Role], list[int]]) -> tuple[type, Callable[..., list[int]]]:
    return kind, deadlines


def _event(kind: type[_Event], handle: Callable[[Replica, _Event], None]) -> tuple[type, Callable[..., None]]:
    return kind, handle


def _request(
    kind: type[_Request], handle: Callable[[Replica, object, _Request], None]
) -> tuple[type, Callable[..., None]]:
    return kind, handle


def _response(
    kind: type[_Asked], _: type[_Answer], handle: Callable[[Replica, int, _Asked, _Answer], None]
) -> tuple[type, Callable[..., None]]:
    return kind, handle


def _failure(kind: type[_Asked], handle: Callable[[Replica, int, _Asked], None]) -> tuple[type, Callable[..., None]]:
    return kind, handle


_POLLS: Final = dict(
    (
        _poll(Unattached, _poll_unattached),
        _poll(Prospective, election.poll_prospective),
        _poll(Candidate, election.poll_candidate),
        _poll(Leader, leader.poll_leader),
        _poll(Follower, follower.poll_follower),
        _poll(Resigned, resignation.poll_resigned),
    )
)

_DEADLINES: Final = dict(
    (
        _due(Unattached, _deadlines_unattached),
        _due(Prospective, election.deadlines),
        _due(Candidate, election.deadlines),
        _due(Leader, leader.deadlines),
        _due(Follower, follower.deadlines),
        _due(Resigned, resignation.deadlines),
    )
)

_EVENT_HANDLERS: Final = dict(
    (
        _event(Started, lambda replica, _: start(replica)),
        _event(TimerFired, lambda replica, _: None),
        _event(RequestReceived, _on_request),
        _event(ResponseReceived, _on_response),
        _event(RequestFailed, _on_failure),
        _event(ConnectionLost, lambda replica, event: follower.on_connection_lost(replica, event.peer_id)),
        _event(Append, leader_log.on_append),
        _event(Resign, _on_resign),
        _event(Shutdown, lambda replica, _: resignation.on_shutdown(replica)),
        _event(StatePersisted, lambda replica, event: replica.confirm_persisted(event.state)),
        _event(LogCompleted, _on_log_completed),
        _event(LogFailed, _on_log_failed),
        _event(SnapshotChunkWritten, lambda replica, event: snapshot_fetch.on_chunk_written(replica, event.effect)),
        _event(SnapshotChunkRefused, lambda replica, event: snapshot_fetch.on_chunk_refused(replica, event.effect)),
        _event(SnapshotInstalled, snapshot_fetch.on_snapshot_installed),
        _event(
            SnapshotRejected, lambda replica, event: snapshot_fetch.on_snapshot_rejected(replica, event.snapshot_id)
        ),
        _event(SnapshotTaken, lambda replica, event: replica.log.move_start(event.snapshot_id, event.log_start)),
    )
)

_REQUEST_HANDLERS: Final = dict(
    (
        _request(VoteRequest, election.on_vote_request),
        _request(BeginQuorumEpochRequest, follower.on_begin_request),
        _request(EndQuorumEpochRequest, resignation.on_end_request),
        _request(FetchRequest, leader_fetch.on_fetch_request),
        _request(FetchSnapshotRequest, leader_fetch.on_fetch_snapshot_request),
        _request(DescribeQuorumRequest, lambda replica, token, _: leader_fetch.on_describe_request(replica, token)),
        _request(AddVoterRequest, membership.on_add_request),
        _request(RemoveVoterRequest, membership.on_remove_request),
        _request(UpdateVoterRequest, membership.on_update_request),
        _request(UpgradeKRaftVersionRequest, membership.on_upgrade_request),
    )
)


def _on_voter_change_answered(
    replica: Replica,
    _: int,
    request: UpdateVoterRequest | AddVoterRequest | RemoveVoterRequest,
    response: VoterChangeResponse,
) -> None:
    voter_requests.on_answered(replica, request, response)


_RESPONSE_HANDLERS: Final = dict(
    (
        _response(VoteRequest, VoteResponse, election.on_vote_response),
        _response(BeginQuorumEpochRequest, BeginQuorumEpochResponse, leader.on_begin_response),
        _response(
            EndQuorumEpochRequest,
            EndQuorumEpochResponse,
            lambda replica, peer_id, request, _: resignation.on_end_answered(replica, peer_id, request),
        ),
        _response(FetchRequest, FetchResponse, follower.on_fetch_response),
        _response(FetchSnapshotRequest, FetchSnapshotResponse, snapshot_fetch.on_fetch_snapshot_response),
        _response(UpdateVoterRequest, VoterChangeResponse, _on_voter_change_answered),
        _response(AddVoterRequest, VoterChangeResponse, _on_voter_change_answered),
        _response(RemoveVoterRequest, VoterChangeResponse, _on_voter_change_answered),
    )
)

_FAILURE_HANDLERS: Final = dict(
    (
        _failure(VoteRequest, election.on_vote_failed),
        _failure(BeginQuorumEpochRequest, leader.on_begin_failed),
        _failure(EndQuorumEpochRequest, resignation.on_end_failed),
        _failure(FetchRequest, lambda replica, _, request: follower.on_fetch_failed(replica, request)),
        _failure(
            FetchSnapshotRequest, lambda replica, _, request: snapshot_fetch.on_fetch_snapshot_failed(replica, request)
        ),
        _failure(UpdateVoterRequest, lambda replica, _, request: voter_requests.on_failed(replica, request)),
        _failure(AddVoterRequest, lambda replica, _, request: voter_requests.on_failed(replica, request)),
        _failure(RemoveVoterRequest, lambda replica, _, request: voter_requests.on_failed(replica, request)),
    )
)
