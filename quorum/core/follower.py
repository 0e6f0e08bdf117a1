"""Keeping up with a leader, and finding one: Fetch and its answers, BeginQuorumEpoch received.

One request is under way at a time, and the next Fetch leaves only when the log is idle: what it acknowledges is on
disk. While the log is busy the leader is not to blame for silence, so the fetch timeout begins again when the log is
done: a slow disk starts no election.

    answer of the leader        what the follower does
    --------------------------  -------------------------------------------------------------------------------
    records                     append, flush, fetch on; high watermark = the leader's, up to what is flushed
    DivergingEpoch              truncate by epochs, flush comes with the next append; fetch on
    SnapshotId                  download it (`snapshot_fetch`), fetch on after it
    another leader or epoch     follow that one
    INCONSISTENT_CLUSTER_ID     stop for good: this log belongs elsewhere
    DUPLICATE_VOTER             again after a quarter of a fetch timeout, and stand for no election: two nodes that
                                stand as one voter could both win one. Until another voter asks for its vote, or a
                                leader for this very directory (`identity`), by the listener that the voter set names
    other errors, none at all   again after `retry.backoff`, until the fetch timeout has passed

A truncation below the high watermark would undo what is committed: the leader, or this log, is not of this quorum.

A replica without a leader asks voters at random; a leader answers as such, any other voter names the leader it knows.
What it asks about the voter set is in `voter_requests`, what one that began with nothing must prove first in
`probation`.
"""

from __future__ import annotations

from dataclasses import replace

from ...fetcher.core import DivergingEpoch, truncation_for
from ...log.core import EpochEnd
from ...protocol import ErrorCode
from .effects import AppendFetched
from .messages import BeginQuorumEpochRequest, BeginQuorumEpochResponse, FetchedRecords, FetchRequest, FetchResponse
from .probation import end_probation_if_caught_up
from .replica import Replica
from .requests import is_other_cluster, leadership_error
from .roles import NO_PEER, Follower, Unattached
from .snapshot_fetch import begin_download, note_leader_contact, poll_download
from .state import LeaderAndEpoch
from .transitions import become_follower, become_prospective
from .voter_requests import poll_voter_request

LEADER_WANTED_BYTES = 1
"""The size of a Fetch that is sent only to learn who leads."""
SUSPICION_JITTER = 5
"""A follower whose leader's sockets closed waits up to this many retry back-offs, so that not all stand at once."""


def poll_unattached(replica: Replica, role: Unattached) -> None:
    """Look for a leader."""
    if role.fetch is not None or replica.now_ms < role.fetch_at_ms:
        return
    peer_id = replica.random_peer()
    if peer_id is None:
        role.fetch_at_ms = replica.retry_at()
        return
    role.fetch = replace(_fetch_request(replica, max_wait_ms=0), max_bytes=LEADER_WANTED_BYTES)
    replica.send(peer_id, role.fetch)


def poll_follower(replica: Replica, role: Follower) -> None:
    if is_fetch_timeout_over(replica, role):
        role.is_leader_suspect = replica.is_leader_lost = True
        if replica.may_stand:
            become_prospective(replica)
            return
    poll_voter_request(replica, role)
    if role.request is not None or replica.log.is_busy or replica.now_ms < role.fetch_at_ms:
        return
    target_id = _fetch_target(replica, role)
    if target_id is None:
        role.fetch_at_ms = replica.retry_at()
        return
    role.target_id = target_id
    if role.download is not None:
        poll_download(replica, role, role.download)
        return
    role.request = _fetch_request(replica, max_wait_ms=replica.config.fetch_max_wait_ms)
    replica.send(target_id, role.request)


def is_fetch_timeout_over(replica: Replica, role: Follower) -> bool:
    return not replica.log.is_busy and not _is_writing(role) and replica.now_ms >= role.fetch_deadline_ms


def deadlines_unattached(role: Unattached) -> list[int]:
    """When to look for a leader."""
    return [role.fetch_at_ms] if role.fetch is None else []


def deadlines(replica: Replica, role: Follower) -> list[int]:
    """When there is something to do next."""
    if replica.log.is_busy or _is_writing(role):
        return []
    due = [] if role.is_leader_suspect and not replica.may_stand else [role.fetch_deadline_ms]
    if role.request is None:
        due.append(role.fetch_at_ms)
    return due


def on_log_idle(replica: Replica) -> None:
    """Everything decided is on disk: acknowledge it, and give the leader its time again."""
    role = replica.role
    if isinstance(role, Follower):
        if not role.is_leader_suspect:
            role.fetch_deadline_ms = max(role.fetch_deadline_ms, replica.fetch_deadline())
        advance_high_watermark(replica, role)


def advance_high_watermark(replica: Replica, role: Follower) -> None:
    replica.advance_high_watermark(min(role.leader_high_watermark, replica.log.flushed_end_offset))


# --- answers


def on_fetch_response(replica: Replica, peer_id: int, request: FetchRequest, response: FetchResponse) -> None:
    role = replica.role
    if response.error is ErrorCode.inconsistent_cluster_id and _is_awaited(role, request):
        replica.fatal_reason = f"node {peer_id} belongs to another cluster than {replica.config.cluster_id}"
    if isinstance(role, Unattached):
        if role.fetch == request:
            role.fetch = None
            role.fetch_at_ms = replica.retry_at()
        return
    if not isinstance(role, Follower) or role.request != request:
        return
    role.request = None
    named = response.leader
    if response.error is not ErrorCode.none or named.epoch != replica.epoch or named.leader_id != replica.leader_id:
        _take_refusal(replica, role, response.error)
        return
    replica.is_leader_lost = False
    note_leader_contact(replica, role)
    if response.diverging is not None:
        _truncate(replica, response.diverging)
        return
    if response.snapshot_id is not None:
        begin_download(replica, role, response.snapshot_id)
        return
    # Only now is this log known to be a prefix of the leader's, and the high watermark to be valid for it.
    role.leader_high_watermark = max(role.leader_high_watermark, response.high_watermark)
    if isinstance(response.records, FetchedRecords) and response.records.batches:
        _append(replica, role, response.records)
        return
    advance_high_watermark(replica, role)
    if replica.probation is not None:
        _continue_on_probation(replica, role)


def _continue_on_probation(replica: Replica, role: Follower) -> None:
    end_probation_if_caught_up(replica, role)
    if replica.probation is not None:  # the leader does not park a fetch under no replica key
        role.fetch_at_ms = replica.now_ms + max(replica.config.fetch_max_wait_ms, replica.config.retry_backoff_ms)


def _take_refusal(replica: Replica, role: Follower, error: ErrorCode) -> None:
    role.fetch_at_ms = replica.retry_at()
    if error is ErrorCode.duplicate_voter:
        replica.is_refused = True
        role.fetch_at_ms += replica.config.fetch_timeout_ms // 4


def on_fetch_failed(replica: Replica, request: FetchRequest) -> None:
    role = replica.role
    if isinstance(role, Unattached) and role.fetch == request:
        role.fetch = None
        role.fetch_at_ms = replica.retry_at()
    elif isinstance(role, Follower) and role.request == request:
        role.request = None
        role.fetch_at_ms = replica.retry_at()


def on_connection_lost(replica: Replica, peer_id: int) -> None:
    """The leader's process is most likely dead: do not wait for the fetch timeout. Pre-votes make an error harmless."""
    role = replica.role
    if not isinstance(role, Follower) or peer_id != replica.leader_id or role.is_leader_suspect:
        return
    role.is_leader_suspect = True
    jitter_ms = replica.chance.randrange(0, SUSPICION_JITTER * replica.config.retry_backoff_ms + 1)
    role.fetch_deadline_ms = min(role.fetch_deadline_ms, replica.now_ms + jitter_ms)


def on_begin_request(replica: Replica, token: object, request: BeginQuorumEpochRequest) -> None:
    """A leader shows itself. One of another cluster is refused alone: any process can say that it is one. A replica
    that belongs elsewhere learns so from the listeners that it asks, and stops then.
    """
    error = _begin_error(replica, request)
    if error is ErrorCode.none and (request.epoch > replica.epoch or not isinstance(replica.role, Follower)):
        # Not at the listener that the request names: what answers there would be believed, as no request is. Where
        # the leader listens is in the voter set, or comes from those who are.
        become_follower(replica, LeaderAndEpoch(request.leader_id, request.epoch))
    if error is ErrorCode.none and replica.is_refused and request.voter == replica.key:
        _end_refusal(replica)
    response = BeginQuorumEpochResponse(
        error=error, leader=replica.leader, leader_endpoint=replica.known_leader_endpoint()
    )
    replica.reply(token, response)


def _end_refusal(replica: Replica) -> None:
    """A leader came by the voter's listener, to ask for this very directory: it is the voter."""
    replica.is_refused = False
    if isinstance(replica.role, Follower):
        note_leader_contact(replica, replica.role)


def _begin_error(replica: Replica, request: BeginQuorumEpochRequest) -> ErrorCode:
    if is_other_cluster(replica, request.cluster_id):
        return ErrorCode.inconsistent_cluster_id
    if not replica.is_this_replica(request.voter):
        return ErrorCode.invalid_voter_key
    return leadership_error(replica, request.leader_id, request.epoch) or ErrorCode.none


def _is_writing(role: Follower) -> bool:
    return role.download is not None and role.download.writing is not None


def _is_awaited(role: object, request: FetchRequest) -> bool:
    if isinstance(role, Unattached):
        return role.fetch == request
    return isinstance(role, Follower) and role.request == request


def _fetch_target(replica: Replica, role: Follower) -> int | None:
    """Return the leader; another peer where it is not known where that listens, or it does not answer an observer. A
    voter asks both by turns once the leader was lost: it may have moved while this voter was down, and lead by
    this one's vote.
    """
    is_turn_of_others = role.target_id in (NO_PEER, replica.leader_id)
    is_lost = replica.is_leader_lost and is_turn_of_others if replica.may_stand else role.is_leader_suspect
    if (is_lost or replica.known_leader_endpoint() is None) and role.download is None:
        return replica.random_peer()
    return replica.leader_id


def _fetch_request(replica: Replica, max_wait_ms: int) -> FetchRequest:
    log = replica.log
    return FetchRequest(
        cluster_id=replica.config.cluster_id,
        replica=replica.fetching_key,
        epoch=replica.epoch,
        fetch_offset=log.end_offset,
        last_fetched_epoch=log.last_epoch,
        max_wait_ms=max_wait_ms,
        max_bytes=replica.config.fetch_max_bytes,
        high_watermark=replica.high_watermark,
    )


def _truncate(replica: Replica, diverging: DivergingEpoch) -> None:
    """Cut the log where it diverges from the leader's. Fail rather than undo what is committed."""
    log = replica.log
    truncation = truncation_for(EpochEnd(diverging.epoch, diverging.end_offset), log.epochs, log.end_offset)
    assert truncation is not None, diverging
    # A leader's log holds every committed record, so a divergence below the high watermark is no ordinary one: cutting
    # here would lose acknowledged records, and the next leader might be elected from logs that lack them.
    if truncation.offset < replica.high_watermark:
        replica.fatal_reason = (
            f"leader {replica.leader_id} of epoch {replica.epoch} diverges at {diverging}, below the high watermark "
            f"{replica.high_watermark}: one of the two logs is not of this quorum"
        )
        return
    replica.truncate(truncation.offset)


def _append(replica: Replica, role: Follower, records: FetchedRecords) -> None:
    end_offset = _valid_end_offset(replica, records)
    if end_offset is None:
        role.fetch_at_ms = replica.retry_at()
        return
    replica.append(AppendFetched(replica.log.end_offset, end_offset, records))
    for entry in records.voters:
        replica.add_voters(entry)


def _valid_end_offset(replica: Replica, records: FetchedRecords) -> int | None:
    """Where the batches end, if they continue this log without a gap, in epochs that rise, up to the leader's."""
    offset, epoch = replica.log.end_offset, replica.log.last_epoch
    for batch in records.batches:
        is_next = batch.base_offset == offset and batch.last_offset >= offset
        if not is_next or not epoch <= batch.epoch <= replica.epoch:
            return None
        offset, epoch = batch.last_offset + 1, batch.epoch
    return offset
