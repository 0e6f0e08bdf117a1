"""Adding, removing and updating voters, one at a time, and putting them into the log (KIP-853, Raft dissertation 4.1).

A change by one voter keeps every majority of the old set and every one of the new in touch, which is why the new set
may be in effect as soon as its record is appended, and why the next change has to wait until the last one is committed.

    before a change                                         else
    ------------------------------------------------------  -------------------------------------------------------
    this replica leads, its own epoch has committed         NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT
    kraft.version is 1 or higher                            UNSUPPORTED_VERSION
    no other change waits or is uncommitted                 REQUEST_TIMED_OUT
    add: its id is not in the set                           DUPLICATE_VOTER
    add: has the leader's log, before its time is up        REQUEST_TIMED_OUT, and no change
    add by itself: had it recently; decided at once          REQUEST_TIMED_OUT, and no change
    remove, update: id and directory are in the set         VOTER_NOT_FOUND
    remove: a voter is left                                 INVALID_REQUEST

A replica that adds itself (auto-join) asks to be answered before the commit; one of Apache Kafka fetches nothing while
it waits. So whether it has caught up has to be seen by what it fetched before.

A leader that removes itself leads on, without counting itself, until that is committed; then it resigns.

With kraft.version 0 voters are configured, and the log knows no directory ids. Each voter reports to its leader what it
is (UpdateRaftVoter); the leader keeps that as long as it leads. An upgrade to 1 writes kraft.version and the voters as
they said they are, in one batch: the set stays the same, its members get their directory ids.

    before an upgrade                                       else
    ------------------------------------------------------  -------------------------------------------------------
    this replica leads that epoch, which has committed      NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT
    the level is not lower, and one that exists             INVALID_UPDATE_VERSION
    every voter has reported what it is, and supports it       INVALID_UPDATE_VERSION
    no other change waits or is uncommitted, this very      REQUEST_TIMED_OUT
    upgrade included
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...protocol import ErrorCode
from .effects import ControlRecord, KRaftVersionRecord, VotersRecord
from .identity import position_key
from .leader_log import append_control
from .messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    UpgradeKRaftVersionRequest,
    VoterChangeResponse,
)
from .replica import Replica
from .requests import is_other_cluster
from .resignation import resign
from .roles import Leader, ReplicaPosition, VoterChange
from .state import NO_DIRECTORY_ID, ReplicaKey
from .voters import KRAFT_VERSION_DYNAMIC, VoterNode, VotersAt, VoterSet

ADD_TIMEOUT_MAX_MS: Final = 600_000
"""How long a new voter may take to catch up, whatever the request says: no other change of the voters begins meanwhile.
"""
LISTENERS_MAX: Final = 32
"""Listeners of one voter: all of them are in each record of the voters."""
NAME_MAX: Final = 255
"""Characters of a listener's name, and of a host's, which DNS has no longer ones of."""

Refusal = tuple[ErrorCode, str]


def on_add_request(replica: Replica, token: object, request: AddVoterRequest) -> None:
    refusal = _change_refusal(replica, request.cluster_id) or _add_refusal(replica, request.voter)
    if refusal is not None:
        _answer(replica, token, *refusal)
        return
    if not request.ack_when_committed and not _was_caught_up(replica, request.voter.key):
        message = f"{request.voter.key} is behind the leader; let it catch up, and try again"
        _answer(replica, token, ErrorCode.request_timed_out, message)
        return
    catch_up_end_offset = replica.log.end_offset if request.ack_when_committed else 0
    voters = replica.voters.with_voter(request.voter)
    deadline_ms = replica.now_ms + min(request.timeout_ms, ADD_TIMEOUT_MAX_MS)
    change = VoterChange(token, request, voters, deadline_ms, catch_up_end_offset)
    _leader(replica).voter_change = change


def _was_caught_up(replica: Replica, key: ReplicaKey) -> bool:
    position = _leader(replica).positions.get(key)
    oldest_ms = max(replica.now_ms - replica.config.fetch_timeout_ms, 0)
    return position is not None and position.last_caught_up_ms >= oldest_ms


def on_remove_request(replica: Replica, token: object, request: RemoveVoterRequest) -> None:
    refusal = _change_refusal(replica, request.cluster_id) or _absence(replica, request.voter)
    if refusal is None and len(replica.voters) == 1:
        refusal = (ErrorCode.invalid_request, f"{request.voter} is the only voter")
    if refusal is not None:
        _answer(replica, token, *refusal)
        return
    voters = replica.voters.without_voter(request.voter.id)
    deadline_ms = replica.now_ms + replica.config.request_timeout_ms
    _leader(replica).voter_change = VoterChange(token, request, voters, deadline_ms)


def on_update_request(replica: Replica, token: object, request: UpdateVoterRequest) -> None:
    refusal = _leader_refusal(replica, request.cluster_id)
    if refusal is None and request.epoch != replica.epoch:
        is_old = request.epoch < replica.epoch
        error = ErrorCode.fenced_leader_epoch if is_old else ErrorCode.unknown_leader_epoch
        refusal = (error, f"epoch {request.epoch} is not this leader's {replica.epoch}")
    refusal = refusal or _unreachable(request.voter)
    if refusal is None and replica.kraft_version < KRAFT_VERSION_DYNAMIC:
        _take_report(replica, token, request.voter)
        return
    refusal = refusal or _change_refusal(replica, request.cluster_id)
    refusal = refusal or _absence(replica, request.voter.key) or _unfit(replica, request.voter, replica.kraft_version)
    if refusal is not None:
        _answer(replica, token, *refusal)
        return
    voters = replica.voters.with_voter(request.voter)
    deadline_ms = replica.now_ms + replica.config.request_timeout_ms
    _leader(replica).voter_change = VoterChange(token, request, voters, deadline_ms)


def _take_report(replica: Replica, token: object, voter: VoterNode) -> None:
    """Take the report of a static voter."""
    if voter.id not in replica.voters.by_id:
        _answer(replica, token, ErrorCode.voter_not_found, f"{voter.key} is not a voter")
        return
    _leader(replica).reported[voter.id] = voter
    _answer(replica, token, ErrorCode.none, "")


def on_upgrade_request(replica: Replica, token: object, request: UpgradeKRaftVersionRequest) -> None:
    refusal = _leader_refusal(replica, None) or _upgrade_refusal(replica, request)
    refusal = refusal or _under_way(replica)
    if refusal is None and request.level > replica.kraft_version:
        refusal = next(_unready(replica, request.level), None)
    if refusal is not None:
        _answer(replica, token, *refusal)
    elif request.validate_only or request.level == replica.kraft_version:
        _answer(replica, token, ErrorCode.none, "")
    else:
        voters = VoterSet.of(_reported(replica, node) or node for node in replica.voters)
        deadline_ms = replica.now_ms + replica.config.request_timeout_ms
        _leader(replica).voter_change = VoterChange(token, request, voters, deadline_ms)


def _upgrade_refusal(replica: Replica, request: UpgradeKRaftVersionRequest) -> Refusal | None:
    if request.epoch != replica.epoch:
        return ErrorCode.not_leader_or_follower, f"epoch {request.epoch} is over, this is {replica.epoch}"
    error, level = ErrorCode.invalid_update_version, request.level
    if level < replica.kraft_version:
        return error, f"kraft.version is at level {replica.kraft_version} and can never be lowered"
    if level > KRAFT_VERSION_DYNAMIC:
        return error, f"kraft.version has no level {level}; the highest is {KRAFT_VERSION_DYNAMIC}"
    return None


def _reported(replica: Replica, node: VoterNode) -> VoterNode | None:
    """What a static voter says of itself."""
    if node.id == replica.key.id:
        return VoterNode(replica.key, replica.config.endpoints)
    return _leader(replica).reported.get(node.id)


def _is_itself(replica: Replica, key: ReplicaKey) -> bool:
    """Whether a static voter fetches as what it says it is."""
    voter_key = replica.voters.by_id[key.id].key
    return key.id == replica.key.id or position_key(replica, _leader(replica), key) == voter_key


def _unready(replica: Replica, level: int) -> Iterator[Refusal]:
    """Voters that are not known well enough to be put into the log, or do not support the level."""
    error = ErrorCode.invalid_update_version
    for node in replica.voters:
        reported = _reported(replica, node)
        if reported is None or reported.key.directory_id == NO_DIRECTORY_ID:
            yield (
                error,
                f"voter {node.id} has not reported its directory id to the leader yet: is it running, and new enough?",
            )
        elif (unfit := _unfit(replica, reported, level)) is not None:
            yield error, unfit[1]
        elif not _is_itself(replica, reported.key):
            yield (
                error,
                f"voter {node.id} does not fetch as {reported.key} yet, which it has reported to the leader",
            )


def poll_voter_change(replica: Replica, role: Leader, change: VoterChange) -> None:
    if change.offset < 0 and _has_caught_up(role, change):
        _append_change(replica, role, change)
    if replica.now_ms >= change.deadline_ms and not change.is_answered:
        change.is_answered = True
        message = "the change is not committed yet, and may yet be"
        if change.offset < 0:
            role.voter_change = None
            message = f"the new voter did not reach offset {change.catch_up_end_offset} in time; nothing was changed"
        _answer(replica, change.token, ErrorCode.request_timed_out, message)


def on_high_watermark(replica: Replica, role: Leader) -> None:
    """The change is committed: say so. A leader that is not in the set that is committed goes."""
    change = role.voter_change
    if change is not None and 0 <= change.offset < replica.high_watermark:
        role.voter_change = None
        if not change.is_answered:
            _answer(replica, change.token, ErrorCode.none, "")
    # A removed leader leads until its removal is committed, and does not count itself: were it to resign before, the
    # change might be lost, and the operator would have to ask again.
    if not replica.is_voter and replica.voter_history.latest.offset < replica.high_watermark:
        resign(replica, role, "this replica was removed from the voters")


def deadlines(change: VoterChange) -> list[int]:
    return [] if change.is_answered else [change.deadline_ms]


def _append_change(replica: Replica, role: Leader, change: VoterChange) -> None:
    """From here on the new set decides."""
    if isinstance(change.request, UpgradeKRaftVersionRequest):
        level = change.request.level
        records: tuple[ControlRecord, ...] = (KRaftVersionRecord(level), VotersRecord(change.voters))
        _name_positions(replica, role, change.voters)
    else:
        level = replica.kraft_version
        records = (VotersRecord(change.voters),)
    change.offset = append_control(replica, role, records)
    replica.add_voters(VotersAt(change.offset, change.voters, level))
    if isinstance(change.request, AddVoterRequest) and not change.request.ack_when_committed:
        change.is_answered = True
        _answer(replica, change.token, ErrorCode.none, "")


def _name_positions(replica: Replica, role: Leader, voters: VoterSet) -> None:
    """Keep what is known of static voters under their full keys, if it concerns the directory that they named."""
    for node in voters:
        static_key = replica.voters.by_id[node.id].key
        position = role.positions.pop(static_key, None)
        if position is None:
            continue
        if position.directory_id not in (NO_DIRECTORY_ID, node.key.directory_id):
            position = ReplicaPosition(last_fetch_ms=position.last_fetch_ms)
        role.positions[node.key] = position


def _has_caught_up(role: Leader, change: VoterChange) -> bool:
    if not isinstance(change.request, AddVoterRequest):
        return True
    position = role.positions.get(change.request.voter.key)
    return position is not None and position.end_offset >= change.catch_up_end_offset


def _leader(replica: Replica) -> Leader:
    assert isinstance(replica.role, Leader), replica.role.state
    return replica.role


def _leader_refusal(replica: Replica, cluster_id: str | None) -> Refusal | None:
    if is_other_cluster(replica, cluster_id):
        return ErrorCode.inconsistent_cluster_id, f"this is cluster {replica.config.cluster_id}"
    if not isinstance(replica.role, Leader):
        known = "no leader is known" if replica.leader_id is None else f"{replica.leader_id} leads"
        return ErrorCode.not_leader_or_follower, f"this replica does not lead; {known} here"
    return None


def _change_refusal(replica: Replica, cluster_id: str | None) -> Refusal | None:
    refusal = _leader_refusal(replica, cluster_id)
    if refusal is not None:
        return refusal
    if replica.kraft_version < KRAFT_VERSION_DYNAMIC:
        return ErrorCode.unsupported_version, f"kraft.version {replica.kraft_version} has a fixed set of voters"
    return _under_way(replica)


def _under_way(replica: Replica) -> Refusal | None:
    """What has to be committed first."""
    # One voter at a time, and from a committed set: only then do the majorities of the old and the new set overlap. A
    # record of this epoch must be committed before, or two leaders could each begin from another set (Raft's erratum).
    role = _leader(replica)
    if replica.high_watermark <= role.epoch_start_offset:
        return ErrorCode.request_timed_out, f"epoch {replica.epoch} has not committed a record yet; try again"
    if role.voter_change is not None or replica.voter_history.latest.offset >= replica.high_watermark:
        return ErrorCode.request_timed_out, "another change of the voters is under way; try again"
    return None


def _add_refusal(replica: Replica, voter: VoterNode) -> Refusal | None:
    if voter.id in replica.voters.by_id:
        return ErrorCode.duplicate_voter, f"voter {voter.id} is there already; remove it first"
    if voter.id < 0:
        return ErrorCode.invalid_request, f"{voter.id} is no node id"
    if voter.key.directory_id == NO_DIRECTORY_ID:
        return ErrorCode.invalid_request, f"the directory id of voter {voter.id} is missing"
    return _unfit(replica, voter, replica.kraft_version)


def _unreachable(voter: VoterNode) -> Refusal | None:
    """Return why what a voter names cannot be its listeners."""
    endpoints = voter.endpoints
    if not endpoints:
        return ErrorCode.invalid_request, f"voter {voter.id} names no listener"
    if len(endpoints) > LISTENERS_MAX:
        found = f"voter {voter.id} names {len(endpoints)} listeners"
        return ErrorCode.invalid_request, f"{found}, expected are {LISTENERS_MAX} at most"
    for each in endpoints:
        if not (0 < len(each.name) <= NAME_MAX and 0 < len(each.host) <= NAME_MAX and 0 < each.port < 1 << 16):
            found = f"voter {voter.id} names a listener {each.name[:20]!r} at {each.host[:50]!r}:{each.port}"
            expected = f"expected are a name and a host of 1 to {NAME_MAX} characters, and a port above 0"
            return ErrorCode.invalid_request, f"{found}: {expected}"
    return None


def _unfit(replica: Replica, voter: VoterNode, level: int) -> Refusal | None:
    unreachable = _unreachable(voter)
    if unreachable is not None:
        return unreachable
    if not voter.min_kraft_version <= level <= voter.max_kraft_version:
        spoken = f"{voter.min_kraft_version} to {voter.max_kraft_version}"
        return ErrorCode.invalid_request, f"voter {voter.id} speaks kraft.version {spoken}, not {level}"
    return None


def _absence(replica: Replica, key: ReplicaKey) -> Refusal | None:
    node = replica.voters.by_id.get(key.id)
    if node is None or node.key != key:
        return ErrorCode.voter_not_found, f"{key} is not a voter"
    return None


def _answer(replica: Replica, token: object, error: ErrorCode, message: str) -> None:
    response = VoterChangeResponse(
        error=error, leader=replica.leader, message=message, leader_endpoint=replica.known_leader_endpoint()
    )
    replica.reply(token, response)
