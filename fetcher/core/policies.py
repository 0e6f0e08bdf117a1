"""The bootstrap policies: one generator each, from a situation through questions to a decision.

    name                      before the first fetch          after error 1 or 109
    ------------------------  ------------------------------  --------------------------------------------------------
    log-start                 the log start if that is local  as local-log-start
    local-log-start           fetch at the own end            KIP-405: truncate by the leader's range (1), adopt up to
                                                              its local log start (109)
    earliest-pending-upload   fetch at the own end            KIP-1023 as written: adopt up to the next upload
    tier-first                adopt up to the next upload     the same
    bounded-local             adopt, but keep at least so     the same
                              many bytes or ms local

What the offsets that a leader answers mean for `earliest-pending-upload` (EPU) and `tier-first`:

    EPU (-6)                 local start    earliest-pending-upload   tier-first
    -----------------------  -------------  ------------------------  ------------------------------------------------
    unsupported (35)         any            local-log-start           local-log-start
    unknown (-1)             = log start    log start                 behind the last tiered offset (-5) if the leader
                                                                      knows it, else log start after a deadline
    unknown (-1)             > log start    retry                     behind the last tiered offset, else retry
    at or below log start    any            log start                 log start
    above log start          any            adopt                     adopt, unless the replica has it already

Apache Kafka answers -1 when everything up to the log end is tiered; asking for -5 lets a replica of such a leader join.

Every policy is asked again for each attempt, so a leader that was downgraded, or a feature level that was raised,
shows at the next one.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from itertools import zip_longest
from typing import ClassVar, Final

from pydantic import Field

from ...light_dataclass import dataclass
from ...log.core import EpochEnd
from ...plugin_options import PluginConfig
from ...protocol import ErrorCode, KafkaError
from ...remote.core import OffsetAndEpoch, RemoteLogSegmentMetadata
from .bootstrap import (
    AdoptFromTier,
    Answer,
    AskEpochEnd,
    AskOffsets,
    AskRemoteSegments,
    Decision,
    Offsets,
    Plan,
    Question,
    RemoteSegments,
    ResumeFetch,
    RetryLater,
    Situation,
    StartAt,
    Trigger,
    TruncateTo,
)
from .epoch_fetch import NO_EPOCH
from .leader_offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
)

UNKNOWN_UPLOAD_WAIT_MS = 5_000
"""How long `tier-first` waits for a leader that does not know the next upload while its whole log is local."""


_NO_OPTIONS: Final = PluginConfig()


@dataclass(frozen=True, slots=True)
class LocalLogStart:
    """Fetch, and after the leader's refusal begin at its local log start (KIP-405)."""

    Config: ClassVar = PluginConfig
    config: PluginConfig = _NO_OPTIONS
    name: str = "local-log-start"

    def plan(self, situation: Situation) -> Plan:
        if situation.trigger is Trigger.ASSIGNED:
            return ResumeFetch("the leader will say whether it has the offset")
        if situation.trigger is Trigger.OUT_OF_RANGE:
            return (yield from _within_leaders_range(situation))
        return (yield from _from_local_log_start(situation))


@dataclass(frozen=True, slots=True)
class LogStart:
    """Begin at the leader's log start if that is local, else at its local log start."""

    Config: ClassVar = PluginConfig
    config: PluginConfig = _NO_OPTIONS
    name: str = "log-start"

    def plan(self, situation: Situation) -> Plan:
        if situation.trigger is Trigger.OUT_OF_RANGE:
            return (yield from _within_leaders_range(situation))
        return (yield from _from_local_log_start(situation))


@dataclass(frozen=True, slots=True)
class EarliestPendingUpload:
    """Adopt all that is tiered, after the leader has refused the first fetch (KIP-1023 as written)."""

    Config: ClassVar = PluginConfig
    config: PluginConfig = _NO_OPTIONS
    name: str = "earliest-pending-upload"

    def plan(self, situation: Situation) -> Plan:
        if situation.trigger is Trigger.ASSIGNED:
            return ResumeFetch("the leader will say whether it has the offset")
        offsets = yield from _ask_offsets(EARLIEST_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP)
        if not offsets.is_supported(EARLIEST_PENDING_UPLOAD_TIMESTAMP):
            return (yield from LocalLogStart().plan(situation))
        pending = offsets.known(EARLIEST_PENDING_UPLOAD_TIMESTAMP)
        if pending is not None:
            return (yield from _adopt(situation, _require(offsets, EARLIEST_TIMESTAMP), pending))
        offsets = yield from _ask_offsets(EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP)
        if _is_all_local(offsets):
            return _at_log_start(situation, _require(offsets, EARLIEST_TIMESTAMP), "nothing was uploaded yet")
        return RetryLater("the leader does not know the earliest pending upload offset yet")


class TierFirstConfig(PluginConfig):
    """The options of `tier-first`, `bootstrap.tier.first.*`."""

    unknown_upload_wait_ms: int = Field(
        UNKNOWN_UPLOAD_WAIT_MS,
        ge=0,
        description="Wait for a leader that does not know the next upload while its whole log is local.",
    )


_TIER_FIRST_DEFAULTS: Final = TierFirstConfig()


@dataclass(frozen=True, slots=True)
class TierFirst:
    """Adopt all that is tiered, before the first fetch."""

    Config: ClassVar = TierFirstConfig
    config: TierFirstConfig = _TIER_FIRST_DEFAULTS
    name: str = "tier-first"

    def plan(self, situation: Situation) -> Plan:
        offsets = yield from _ask_offsets(LATEST_TIMESTAMP, EARLIEST_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP)
        log_start = _require(offsets, EARLIEST_TIMESTAMP)
        if _require(offsets, LATEST_TIMESTAMP).offset == log_start.offset:
            return _at_log_start(situation, log_start, "the leader's log is empty")
        if not offsets.is_supported(EARLIEST_PENDING_UPLOAD_TIMESTAMP):
            return (yield from LocalLogStart().plan(situation))
        pending = offsets.known(EARLIEST_PENDING_UPLOAD_TIMESTAMP)
        if pending is None:
            return (yield from self._without_pending_upload(situation))
        return (yield from _adopt(situation, log_start, pending))

    def _without_pending_upload(self, situation: Situation) -> Plan:
        offsets = yield from _ask_offsets(EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP, LATEST_TIERED_TIMESTAMP)
        log_start = _require(offsets, EARLIEST_TIMESTAMP)
        tiered = offsets.known(LATEST_TIERED_TIMESTAMP)
        if tiered is not None:
            return _adopt_behind(situation, log_start, tiered.offset + 1, tiered.leader_epoch)
        if not _is_all_local(offsets):
            return RetryLater("the leader does not know the earliest pending upload offset yet")
        if situation.elapsed_ms < self.config.unknown_upload_wait_ms:
            return RetryLater("the leader may not have read the remote log metadata yet")
        return _at_log_start(
            situation, log_start, f"the leader knew of no upload for {situation.elapsed_ms} ms, and all is local"
        )


class BoundedLocalConfig(TierFirstConfig):
    """The options of `bounded-local`, `bootstrap.bounded.local.*`."""

    bytes: int = Field(
        -1, ge=-1, description="So much of what is tiered is fetched from the leader all the same; -1: nothing."
    )
    ms: int = Field(-1, ge=-1, description="Tiered records of this age or younger are fetched too; -1: none.")


_BOUNDED_LOCAL_DEFAULTS: Final = BoundedLocalConfig()


@dataclass(frozen=True, slots=True)
class BoundedLocal:
    """Adopt what is tiered as `tier-first` does, but keep at least so many bytes or ms for the local log.

    The start is the boundary of a remote segment at or before that, never below the leader's local log start.
    """

    Config: ClassVar = BoundedLocalConfig
    config: BoundedLocalConfig = _BOUNDED_LOCAL_DEFAULTS
    name: str = "bounded-local"

    def plan(self, situation: Situation) -> Plan:
        decision = yield from TierFirst(self.config).plan(situation)
        if not isinstance(decision, AdoptFromTier):
            return decision
        segments = yield AskRemoteSegments(decision.log_start_offset, decision.start_offset)
        assert isinstance(segments, RemoteSegments), segments
        since_ms = situation.now_ms - self.config.ms if self.config.ms > 0 else None
        bytes_min = max(0, self.config.bytes)
        boundary = boundary_keeping(segments.segments, decision.start_offset, bytes_min, since_ms)
        if boundary is None:
            return decision
        offsets = yield from _ask_offsets(EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP)
        log_start = _require(offsets, EARLIEST_TIMESTAMP)
        local_start = _require(offsets, EARLIEST_LOCAL_TIMESTAMP)
        if local_start.offset >= decision.start_offset:
            return decision
        if boundary.offset <= local_start.offset:
            return (yield from _adopt(situation, log_start, local_start))
        return _adopt_behind(situation, log_start, boundary.offset, boundary.epoch_below)


@dataclass(frozen=True, slots=True)
class Boundary:
    """The start of a remote segment, and the leader epoch of the record just below it (-1: there is none)."""

    offset: int
    epoch_below: int


def boundary_keeping(
    segments: Iterable[RemoteLogSegmentMetadata], end_offset: int, bytes_min: int, since_ms: int | None
) -> Boundary | None:
    """The highest boundary below `end_offset` with `bytes_min` bytes and all records since `since_ms` above it.

    None if `end_offset` itself does. Only what is tiered counts, what is pending comes on top. A gap ends the search.
    """
    chain = list(_chain_below(segments, end_offset))
    boundary: Boundary | None = None
    kept_bytes = 0
    for segment, below in zip_longest(chain, chain[1:]):
        if kept_bytes >= bytes_min and (since_ms is None or segment.max_timestamp_ms < since_ms):
            break
        kept_bytes += segment.segment_size_in_bytes
        boundary = Boundary(segment.start_offset, _epoch_at(below, segment.start_offset - 1) if below else NO_EPOCH)
    return boundary


def _chain_below(segments: Iterable[RemoteLogSegmentMetadata], end_offset: int) -> Iterator[RemoteLogSegmentMetadata]:
    """From the end down, each holding the offset just below the one before; of overlapping ones the latest leader's."""
    cursor = end_offset
    by_rank = sorted(segments, key=lambda each: (each.segment_leader_epochs[-1].epoch, each.start_offset), reverse=True)
    for segment in by_rank:
        if segment.start_offset < cursor <= segment.end_offset + 1:
            yield segment
            cursor = segment.start_offset


def _epoch_at(segment: RemoteLogSegmentMetadata, offset: int) -> int:
    """The leader epoch of an offset that the segment holds."""
    return next(epoch for epoch, first, last in segment.epoch_ranges() if first <= offset <= last)


# --- parts of a conversation ----------------------------------------------------------------------------------------


def _ask_offsets(*timestamps: int) -> Generator[Question, Answer, Offsets]:
    answer = yield AskOffsets(timestamps)
    assert isinstance(answer, Offsets), answer
    return answer


def _require(offsets: Offsets, timestamp: int) -> OffsetAndEpoch:
    answer = offsets.known(timestamp)
    if answer is None:
        raise KafkaError(
            ErrorCode.unsupported_version, f"the leader gives no offset for ListOffsets timestamp {timestamp}"
        )
    return answer


def _is_all_local(offsets: Offsets) -> bool:
    return _require(offsets, EARLIEST_LOCAL_TIMESTAMP).offset == _require(offsets, EARLIEST_TIMESTAMP).offset


def _within_leaders_range(situation: Situation) -> Plan:
    """After OFFSET_OUT_OF_RANGE: truncate to a shorter leader, start at a later log start, else keep everything."""
    leader_end = _require((yield from _ask_offsets(LATEST_TIMESTAMP)), LATEST_TIMESTAMP)
    if situation.log_end_offset > leader_end.offset:
        return TruncateTo(leader_end.offset, "the leader's log is shorter: an unclean election")
    log_start = _require((yield from _ask_offsets(EARLIEST_TIMESTAMP)), EARLIEST_TIMESTAMP)
    if situation.log_end_offset < log_start.offset:
        return StartAt(log_start.offset, "the leader's log starts later")
    return ResumeFetch("the own end lies within the leader's log")


def _from_local_log_start(situation: Situation) -> Plan:
    offsets = yield from _ask_offsets(EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP)
    log_start = _require(offsets, EARLIEST_TIMESTAMP)
    return (yield from _adopt(situation, log_start, _require(offsets, EARLIEST_LOCAL_TIMESTAMP)))


def _adopt(situation: Situation, log_start: OffsetAndEpoch, start: OffsetAndEpoch) -> Plan:
    """Adopt up to `start`, whose epoch the leader has stated; the record below it may be of an earlier one."""
    if start.offset <= log_start.offset or _has(situation, start.offset) or start.leader_epoch <= 0:
        return _adopt_behind(situation, log_start, start.offset, start.leader_epoch)
    earlier = yield AskEpochEnd(start.leader_epoch - 1)
    assert isinstance(earlier, EpochEnd), earlier
    last_epoch = earlier.epoch if earlier.end_offset >= start.offset else start.leader_epoch
    return _adopt_behind(situation, log_start, start.offset, last_epoch)


def _adopt_behind(situation: Situation, log_start: OffsetAndEpoch, start_offset: int, last_epoch: int) -> Decision:
    if start_offset <= log_start.offset:
        return _at_log_start(situation, log_start, f"nothing that is live is tiered: next upload {start_offset}")
    if _has(situation, start_offset):
        return ResumeFetch(f"the replica has everything below {start_offset} already")
    return AdoptFromTier(log_start.offset, start_offset, last_epoch)


def _at_log_start(situation: Situation, log_start: OffsetAndEpoch, reason: str) -> Decision:
    if _has(situation, log_start.offset):
        return ResumeFetch(reason)
    return StartAt(log_start.offset, reason)


def _has(situation: Situation, offset: int) -> bool:
    """A replica that was refused, or must cut below its local start, cannot continue from what it has."""
    return situation.trigger is Trigger.ASSIGNED and situation.log_end_offset >= offset
