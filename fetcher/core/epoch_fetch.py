"""One epoch-validated Fetch: what the leader decides, and where the follower truncates (KIP-101, KIP-279, KIP-595).

Leader, in this order (`validate_fetch`); the first row that applies is the answer:

    state of the request                                        decision
    ----------------------------------------------------------  --------------------------------------------------
    leader epoch given and too low / from the future            FENCED_LEADER_EPOCH / UNKNOWN_LEADER_EPOCH
    replica not assigned (or the leader itself), epoch given    UNKNOWN_LEADER_EPOCH: the assignment is not known yet
    replica not assigned, no leader epoch                       NOT_LEADER_OR_FOLLOWER
    broker epoch given and older than the registered one        NOT_LEADER_OR_FOLLOWER: an earlier incarnation
    offset below the log start                                  OFFSET_OUT_OF_RANGE, whatever the epochs say
    last fetched epoch unknown here                             OFFSET_OUT_OF_RANGE (quorum: DivergingEpoch at the end)
    last fetched epoch ends below the offset, or is not ours    DivergingEpoch
    offset above the log end                                    OFFSET_OUT_OF_RANGE
    at or above what this reader may see                        ServeEmpty
    offset below the local log start                            follower: OFFSET_MOVED_TO_TIERED_STORAGE
                                                                consumer: ReadRemote
    else                                                        Serve

Follower: a DivergingEpoch or OffsetForLeaderEpoch answer names the leader's largest epoch at or below the asked one and
where it ends. `truncation_for` compares that with the follower's own epochs: an epoch that the follower does not have
makes it fall back to its own largest epoch below (KIP-279) and ask again. Each round drops at least one of the
follower's epochs, so the rounds are bounded by their number; the end is the longest common prefix. The high watermark
plays no part.

Partitions and the KRaft quorum share this module; their two differences are `FetchRules`. Looking up the partition
(topic id, partition index) comes before, moving bytes comes after, and both are elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum

from ...light_dataclass import dataclass
from ...log.core import EpochEnd, LeaderEpochCache
from ...protocol import ErrorCode, value

NO_EPOCH = -1
CONSUMER_REPLICA_ID = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRules:
    """Where a partition and the quorum differ.

    `leader_epoch_required`: a request without a leader epoch is INVALID_REQUEST.
    `unknown_epoch_diverges_to_end`: a last fetched epoch above all of the leader's diverges to (latest epoch, log end
    offset); otherwise it is OFFSET_OUT_OF_RANGE, because Java followers spin on DivergingEpoch(-1, -1).
    """

    leader_epoch_required: bool
    unknown_epoch_diverges_to_end: bool


PARTITION_RULES = FetchRules(leader_epoch_required=False, unknown_epoch_diverges_to_end=False)
QUORUM_RULES = FetchRules(leader_epoch_required=True, unknown_epoch_diverges_to_end=True)


class FetchIsolation(Enum):
    """Up to where a reader may see."""

    LOG_END = "log_end"
    """Followers."""
    HIGH_WATERMARK = "high_watermark"
    """read_uncommitted."""
    TXN_COMMITTED = "txn_committed"
    """read_committed: the last stable offset."""


@value
class LeaderView:
    """A leader's replica at one instant. All offsets are exclusive ends or first offsets, in records.

    `followers` maps each assigned follower to its registered broker epoch (-1: not known); the leader is not in it.
    `epoch_start_offset` is the log end offset at which this leader's epoch began.
    """

    leader_epoch: int
    epochs: LeaderEpochCache
    log_start_offset: int
    local_log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int
    epoch_start_offset: int
    followers: Mapping[int, int] = field(default_factory=dict)

    def end_visible_to(self, isolation: FetchIsolation) -> int:
        """The first offset that a reader of this isolation must not see."""
        if isolation is FetchIsolation.LOG_END:
            return self.log_end_offset
        if isolation is FetchIsolation.HIGH_WATERMARK:
            return self.high_watermark
        return min(self.last_stable_offset, self.high_watermark)


@value
class FetchPosition:
    """What a fetcher says about itself; -1 stands for an absent epoch, broker epoch or replica id (a consumer)."""

    fetch_offset: int
    current_leader_epoch: int = NO_EPOCH
    last_fetched_epoch: int = NO_EPOCH
    replica_id: int = CONSUMER_REPLICA_ID
    broker_epoch: int = -1
    isolation: FetchIsolation = FetchIsolation.LOG_END

    @property
    def is_from_follower(self) -> bool:
        return self.replica_id >= 0


@value
class Serve:
    """Read local data from the fetch offset up to `max_offset` (exclusive)."""

    max_offset: int


@value
class ServeEmpty:
    """A valid position with nothing to see yet; local files must not be looked up (it may lie below them)."""


@value
class ReadRemote:
    """A consumer's position that lives only in the tier; read up to `max_offset` (exclusive)."""

    max_offset: int


@value
class DivergingEpoch:
    """The leader's largest epoch at or below the last fetched one, and its end (exclusive)."""

    epoch: int
    end_offset: int

    def __post_init__(self) -> None:
        assert self.epoch >= 0, f"DivergingEpoch({self.epoch}, {self.end_offset}) makes Java followers spin"
        assert self.end_offset >= 0, f"DivergingEpoch({self.epoch}, {self.end_offset}) makes Java followers spin"


@value
class Refuse:
    """Answer with this error code; `reason` is for people."""

    error: ErrorCode
    reason: str


FetchDecision = Serve | ServeEmpty | ReadRemote | DivergingEpoch | Refuse


def validate_fetch(view: LeaderView, position: FetchPosition, rules: FetchRules = PARTITION_RULES) -> FetchDecision:
    """The leader's answer to a Fetch of one partition; the table of the module docstring."""
    refusal = check_leader_epoch(view.leader_epoch, position.current_leader_epoch, rules)
    if refusal is None and position.is_from_follower:
        refusal = _check_follower(view, position)
    if refusal is not None:
        return refusal
    if position.last_fetched_epoch != NO_EPOCH and position.fetch_offset >= view.log_start_offset:
        divergence = check_divergence(
            view.epochs, view.log_end_offset, position.fetch_offset, position.last_fetched_epoch, rules
        )
        if divergence is not None:
            return divergence
    return _decide_by_range(view, position)


def check_leader_epoch(leader_epoch: int, requested_epoch: int, rules: FetchRules = PARTITION_RULES) -> Refuse | None:
    """Fence requests of another leader epoch (KIP-320)."""
    if requested_epoch == NO_EPOCH:
        if rules.leader_epoch_required:
            return Refuse(ErrorCode.invalid_request, "the leader epoch is missing")
        return None
    if requested_epoch < leader_epoch:
        return Refuse(
            ErrorCode.fenced_leader_epoch, f"leader epoch {requested_epoch} is older than this leader's {leader_epoch}"
        )
    if requested_epoch > leader_epoch:
        return Refuse(
            ErrorCode.unknown_leader_epoch, f"leader epoch {requested_epoch} is newer than this leader's {leader_epoch}"
        )
    return None


def check_divergence(
    epochs: LeaderEpochCache, log_end_offset: int, fetch_offset: int, last_fetched_epoch: int, rules: FetchRules
) -> DivergingEpoch | Refuse | None:
    """None where the leader's log holds (last_fetched_epoch, fetch_offset - 1), as far as epochs can tell."""
    if last_fetched_epoch == epochs.latest_epoch and fetch_offset <= log_end_offset:
        return None
    if last_fetched_epoch < 0:
        return Refuse(ErrorCode.offset_out_of_range, f"last fetched epoch {last_fetched_epoch}, expected at least 0")
    end = epochs.end_offset_for(last_fetched_epoch, log_end_offset)
    if end.end_offset < 0:
        if rules.unknown_epoch_diverges_to_end:
            return DivergingEpoch(epochs.latest_epoch, log_end_offset)
        return Refuse(
            ErrorCode.offset_out_of_range,
            f"last fetched epoch {last_fetched_epoch} is unknown here, the latest is {epochs.latest_epoch}",
        )
    if end.epoch < last_fetched_epoch or end.end_offset < fetch_offset:
        return DivergingEpoch(end.epoch, end.end_offset)
    return None


def end_offset_for_leader_epoch(view: LeaderView, current_leader_epoch: int, requested_epoch: int) -> EpochEnd | Refuse:
    """The leader's answer to OffsetForLeaderEpoch (KIP-320)."""
    refusal = check_leader_epoch(view.leader_epoch, current_leader_epoch)
    if refusal is not None:
        return refusal
    if requested_epoch == NO_EPOCH:
        return EpochEnd(NO_EPOCH, -1)
    return view.epochs.end_offset_for(requested_epoch, view.log_end_offset)


def _check_follower(view: LeaderView, position: FetchPosition) -> Refuse | None:
    registered_epoch = view.followers.get(position.replica_id)
    if registered_epoch is None:
        reason = f"replica {position.replica_id} is not a replica of this partition in the leader's metadata"
        if position.current_leader_epoch == NO_EPOCH:
            return Refuse(ErrorCode.not_leader_or_follower, reason)
        return Refuse(ErrorCode.unknown_leader_epoch, reason)
    if 0 <= position.broker_epoch < registered_epoch:
        return Refuse(
            ErrorCode.not_leader_or_follower,
            f"broker epoch {position.broker_epoch} of replica {position.replica_id} is stale, now {registered_epoch}",
        )
    return None


def _decide_by_range(view: LeaderView, position: FetchPosition) -> FetchDecision:
    offset = position.fetch_offset
    if not view.log_start_offset <= offset <= view.log_end_offset:
        return Refuse(
            ErrorCode.offset_out_of_range,
            f"offset {offset} is outside [{view.log_start_offset}, {view.log_end_offset}]",
        )
    if offset < view.local_log_start_offset and position.is_from_follower:
        return Refuse(
            ErrorCode.offset_moved_to_tiered_storage,
            f"offset {offset} is in the tier only, the local log starts at {view.local_log_start_offset}",
        )
    max_offset = view.end_visible_to(position.isolation)
    if offset >= max_offset:
        return ServeEmpty()
    if offset < view.local_log_start_offset:
        return ReadRemote(min(max_offset, view.local_log_start_offset))
    return Serve(max_offset)


@dataclass(frozen=True, slots=True)
class Truncation:
    """Cut the follower's log at `offset`; unless `is_complete`, validate once more before anything is appended."""

    offset: int
    is_complete: bool


def truncation_for(answer: EpochEnd, epochs: LeaderEpochCache, log_end_offset: int) -> Truncation | None:
    """Where a follower with these epochs cuts after the leader's `answer`; None where the leader does not know."""
    if answer.epoch < 0 or answer.end_offset < 0:
        return None
    own = epochs.end_offset_for(answer.epoch, log_end_offset)
    if own.end_offset < 0:
        # No epochs here at or above the answer's: nothing is known beyond the leader's end.
        return Truncation(min(answer.end_offset, log_end_offset), is_complete=True)
    if own.epoch != answer.epoch:
        return Truncation(min(own.end_offset, log_end_offset), is_complete=False)
    return Truncation(min(own.end_offset, answer.end_offset, log_end_offset), is_complete=True)
