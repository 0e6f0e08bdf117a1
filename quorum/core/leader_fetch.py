"""What a leader answers to Fetch, FetchSnapshot and DescribeQuorum, and what it learns from them.

Fetch, in this order; the first row that applies is the answer:

    state of the request                                          answer
    ------------------------------------------------------------  ---------------------------------------------------
    another cluster id                                            INCONSISTENT_CLUSTER_ID
    negative offset or last fetched epoch, or from this replica   INVALID_REQUEST
    no leader epoch / too low / from the future                   INVALID_REQUEST / FENCED_ / UNKNOWN_LEADER_EPOCH
    this replica does not lead                                    NOT_LEADER_OR_FOLLOWER, with the leader it knows
    static voters: known to be another one of that id             DUPLICATE_VOTER (`identity`)
    below the log start, or epochs that only a snapshot covers    SnapshotId
    logs differ (`epoch_fetch`, QUORUM_RULES)                     DivergingEpoch; SnapshotId if below the log start
    records to read, or a high watermark that is news             them (a voter: the latter a moment later)
    else                                                          parked for `max_wait_ms`, then empty; a little
                                                                  sooner together with another one

Only a valid position counts, as what the replica has on disk; it and FetchSnapshot are signs of life.
"""

from __future__ import annotations

from operator import attrgetter

from ...fetcher.core import QUORUM_RULES, DivergingEpoch, FetchPosition, LeaderView, Refuse, validate_fetch
from ...protocol import ErrorCode
from .identity import check_identity, is_duplicate, position_key
from .log_view import LogView
from .messages import (
    DescribeQuorumResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    ReadRange,
    ReplicaProgress,
    SnapshotRange,
)
from .replica import Replica
from .requests import is_other_cluster, leader_only_error
from .roles import Leader, ParkedFetch, ParkedFetches, ReplicaPosition
from .state import ReplicaKey

OBSERVER_SESSION_TIMEOUT_MS = 300_000
"""An observer that has not fetched for so long is forgotten."""
NEWS_LINGER_MS = 1
"""A voter that has all records learns of a higher high watermark after this delay: the next append, which often comes
at once, takes it along, and finds the voter's fetch waiting. Observers (brokers) act upon it, so they learn of it at
once.
"""
RIPE_SHARE = 64
"""Followers whose waits end at nearly the same time are answered in one step: up to so small a share of it early."""
OBSERVERS_MAX = 10_000
"""More than these are served, but neither remembered nor parked."""


def on_fetch_request(replica: Replica, token: object, request: FetchRequest) -> None:
    """Answered now, or parked: `answer_parked` comes right after, when the high watermark has seen the position."""
    error = _fetch_error(replica, request)
    if error is not None:
        replica.reply(token, _refusal(replica, error))
        return
    role = replica.role
    assert isinstance(role, Leader), role.state
    answer = _instead_of_records(replica, role, request)
    if answer is not None:
        replica.reply(token, answer)
        return
    key = position_key(replica, role, request.replica)
    is_voter = _is_voter(replica, key)
    is_remembered = _note_position(replica, role, request, key, is_voter=is_voter)
    parked, superseded = role.parked, role.parked.fetches.pop(request.replica, None)
    if superseded is not None:
        _answer(replica, superseded)
    known = request.high_watermark if request.high_watermark >= 0 else replica.high_watermark
    wait_ms = max(request.max_wait_ms, 0)
    deadline_ms = replica.now_ms + wait_ms
    fetch = ParkedFetch(token, request, deadline_ms - wait_ms // RIPE_SHARE, deadline_ms, known, not is_voter)
    if is_remembered:
        parked.fetches[request.replica] = parked.arrived = fetch
    else:
        _answer(replica, fetch)


def answer_parked(replica: Replica, role: Leader) -> None:
    """Answer the parked fetches that have something to read or to learn by now, or have waited long enough. Observers
    may be many: while nothing moves, only a fetch that has just arrived is looked at."""
    parked = role.parked
    ends = (replica.log.written_end_offset, replica.high_watermark)
    if ends != parked.ends or (parked.look_at_ms is not None and replica.now_ms >= parked.look_at_ms):
        parked.ends, parked.look_at_ms, parked.arrived = ends, None, None
        for fetch in sorted(parked.fetches.values(), key=attrgetter("is_observer")):  # a commit waits for voters
            _look_at(replica, parked, fetch)
    elif parked.arrived is not None:
        arrived, parked.arrived = parked.arrived, None
        _look_at(replica, parked, arrived)


def _look_at(replica: Replica, parked: ParkedFetches, fetch: ParkedFetch) -> None:
    now_ms = replica.now_ms
    has_news = fetch.known_high_watermark < replica.high_watermark
    is_due = fetch.request.fetch_offset < replica.log.written_end_offset or now_ms >= fetch.ripe_ms
    if is_due or (has_news and fetch.is_observer):
        _answer(replica, parked.fetches.pop(fetch.request.replica))
        return
    if has_news:
        fetch.ripe_ms = fetch.deadline_ms = min(fetch.deadline_ms, now_ms + NEWS_LINGER_MS)
        fetch.known_high_watermark = replica.high_watermark
    if parked.look_at_ms is None or fetch.deadline_ms < parked.look_at_ms:
        parked.look_at_ms = fetch.deadline_ms


def on_fetch_snapshot_request(replica: Replica, token: object, request: FetchSnapshotRequest) -> None:
    if is_other_cluster(replica, request.cluster_id):
        error: ErrorCode | None = ErrorCode.inconsistent_cluster_id
    elif request.position < 0:
        error = ErrorCode.position_out_of_range
    else:
        error = leader_only_error(replica, request.epoch)
    if error is not None:
        response = FetchSnapshotResponse(
            error=error, leader=replica.leader, leader_endpoint=replica.known_leader_endpoint()
        )
        replica.reply(token, response)
        return
    role = replica.role
    assert isinstance(role, Leader), role.state
    _note_contact(replica, role, request.replica)
    max_bytes = min(max(request.max_bytes, 1), replica.config.fetch_max_bytes)
    chunk = SnapshotRange(request.snapshot_id, request.position, max_bytes)
    response = FetchSnapshotResponse(
        error=ErrorCode.none, leader=replica.leader, snapshot_id=request.snapshot_id, chunk=chunk
    )
    replica.reply(token, response)


def on_describe_request(replica: Replica, token: object) -> None:
    role = replica.role
    if not isinstance(role, Leader):
        response = DescribeQuorumResponse(error=ErrorCode.not_leader_or_follower, leader=replica.leader)
        replica.reply(token, response)
        return
    voter_keys = [node.key for node in replica.voters]
    observers = observers_of(replica, role)
    response = DescribeQuorumResponse(
        error=ErrorCode.none,
        leader=replica.leader,
        high_watermark=replica.high_watermark,
        voters=tuple(_progress(replica, role, key) for key in voter_keys),
        observers=tuple(_progress(replica, role, key) for key in observers),
        nodes=replica.voters.nodes,
    )
    replica.reply(token, response)


def observers_of(replica: Replica, role: Leader) -> list[ReplicaKey]:
    """Return the observers with a live session, this replica included where its removal is not committed yet."""
    voter_keys = {node.key for node in replica.voters}
    oldest_ms = replica.now_ms - OBSERVER_SESSION_TIMEOUT_MS
    found = sorted(
        key for key, position in role.positions.items() if key not in voter_keys and position.last_fetch_ms >= oldest_ms
    )
    return found if replica.is_voter else [*found, replica.key]


def _fetch_error(replica: Replica, request: FetchRequest) -> ErrorCode | None:
    if is_other_cluster(replica, request.cluster_id):
        return ErrorCode.inconsistent_cluster_id
    if request.fetch_offset < 0 or request.last_fetched_epoch < 0 or request.replica.id == replica.key.id:
        return ErrorCode.invalid_request
    error = leader_only_error(replica, request.epoch)
    if error is None and isinstance(replica.role, Leader) and is_duplicate(replica, replica.role, request.replica):
        error = ErrorCode.duplicate_voter
    return error


def _refusal(replica: Replica, error: ErrorCode) -> FetchResponse:
    return FetchResponse(error=error, leader=replica.leader, leader_endpoint=replica.known_leader_endpoint())


def _instead_of_records(replica: Replica, role: Leader, request: FetchRequest) -> FetchResponse | None:
    """A snapshot, a divergence or an error; None where the position is valid."""
    log = replica.log
    if request.fetch_offset == log.end_offset and request.last_fetched_epoch == log.last_epoch:
        return None  # it has all
    if _is_below_snapshot(log, request):
        return _found(replica, snapshot=True)
    view = LeaderView(
        leader_epoch=replica.epoch,
        epochs=log.epochs,
        log_start_offset=log.log_start.offset,
        local_log_start_offset=log.log_start.offset,
        last_stable_offset=replica.high_watermark,
        high_watermark=replica.high_watermark,
        log_end_offset=log.end_offset,
        epoch_start_offset=role.epoch_start_offset,
    )
    position = FetchPosition(
        fetch_offset=request.fetch_offset,
        current_leader_epoch=request.epoch,
        last_fetched_epoch=request.last_fetched_epoch,
    )
    decision = validate_fetch(view, position, QUORUM_RULES)
    if isinstance(decision, Refuse):
        return _refusal(replica, decision.error)
    if isinstance(decision, DivergingEpoch):
        return _found(replica, diverging=decision, snapshot=decision.end_offset < log.log_start.offset)
    return None


def _is_below_snapshot(log: LogView, request: FetchRequest) -> bool:
    """Return whether the leader's log does not reach back far enough to compare the follower's history with."""
    if log.latest_snapshot is None:
        return False
    start = log.log_start
    if request.fetch_offset == start.offset:
        return request.last_fetched_epoch != start.epoch
    return request.fetch_offset < start.offset or request.last_fetched_epoch < start.epoch


def _found(replica: Replica, *, snapshot: bool, diverging: DivergingEpoch | None = None) -> FetchResponse:
    return FetchResponse(
        error=ErrorCode.none,
        leader=replica.leader,
        high_watermark=replica.high_watermark,
        log_start_offset=replica.log.log_start.offset,
        snapshot_id=replica.log.latest_snapshot if snapshot else None,
        diverging=None if snapshot else diverging,
    )


def _note_position(replica: Replica, role: Leader, request: FetchRequest, key: ReplicaKey, *, is_voter: bool) -> bool:
    """What the fetcher has on disk, and when it last had all; False for one without an id, or one too many."""
    if key.id < 0:
        return False
    if not is_voter:
        check_identity(replica, role, key)
    position = role.positions.get(key)
    if position is None:
        if not is_voter and not _has_room(replica, role):
            return False
        position = role.positions[key] = ReplicaPosition()
    if request.fetch_offset >= replica.log.written_end_offset:
        position.last_caught_up_ms = replica.now_ms
    elif 0 <= position.last_fetch_leader_end_offset <= request.fetch_offset:
        position.last_caught_up_ms = max(position.last_caught_up_ms, position.last_fetch_ms)
    position.end_offset = request.fetch_offset
    position.directory_id = request.replica.directory_id
    position.last_fetch_ms = replica.now_ms
    position.last_fetch_leader_end_offset = replica.log.written_end_offset
    if is_voter:
        role.begin_at_ms[key.id] = replica.now_ms + replica.config.fetch_timeout_ms // 2
        role.begin_failures.pop(key.id, None)
    return True


def _is_voter(replica: Replica, key: ReplicaKey) -> bool:
    voter = replica.voters.by_id.get(key.id)
    return voter is not None and (key is voter.key or key == voter.key)


def _note_contact(replica: Replica, role: Leader, fetcher: ReplicaKey) -> None:
    """Keep the session of a replica that fetches a snapshot: it has no position in the log meanwhile."""
    if is_duplicate(replica, role, fetcher):
        return
    key = position_key(replica, role, fetcher)
    if _is_voter(replica, key):
        role.positions.setdefault(key, ReplicaPosition(directory_id=fetcher.directory_id))
    else:
        check_identity(replica, role, key)
    if key in role.positions:
        role.positions[key].last_fetch_ms = replica.now_ms


def _has_room(replica: Replica, role: Leader) -> bool:
    if len(role.positions) < OBSERVERS_MAX:
        return True
    oldest_ms = replica.now_ms - OBSERVER_SESSION_TIMEOUT_MS
    voter_keys = {node.key for node in replica.voters}
    for key in [key for key, position in role.positions.items() if position.last_fetch_ms < oldest_ms]:
        if key not in voter_keys:
            del role.positions[key]
    return len(role.positions) < OBSERVERS_MAX


def _answer(replica: Replica, fetch: ParkedFetch) -> None:
    request, end_offset = fetch.request, replica.log.written_end_offset
    records = None
    if request.fetch_offset < end_offset:
        max_bytes = min(max(request.max_bytes, 1), replica.config.fetch_max_bytes)
        records = ReadRange(request.fetch_offset, end_offset, max_bytes)
    response = FetchResponse(
        error=ErrorCode.none,
        leader=replica.leader,
        high_watermark=replica.high_watermark,
        log_start_offset=replica.log.log_start.offset,
        records=records,
    )
    replica.reply(fetch.token, response)


def _progress(replica: Replica, role: Leader, key: ReplicaKey) -> ReplicaProgress:
    if key == replica.key or (key.id == replica.key.id and replica.is_voter):
        return ReplicaProgress(key, replica.log.written_end_offset, replica.now_ms, replica.now_ms)
    position = role.positions.get(key, ReplicaPosition())
    return ReplicaProgress(key, position.end_offset, position.last_fetch_ms, position.last_caught_up_ms)
