"""A leader's answers to ListOffsets with a special timestamp (KIP-207, KIP-405, KIP-1005, KIP-1023).

    timestamp  since  answer                                                        epoch
    ---------  -----  ------------------------------------------------------------  ----------------------------
    -1         v1     follower: log end; read_uncommitted: high watermark;          the leader's
                      read_committed: last stable offset
    -2         v1     log start                                                     of that offset
    -4         v8     local log start                                               of that offset
    -5         v9     last tiered offset, -1 where none or not known yet            of that offset
    -6         v11    next offset to upload; -1 until the remote metadata is read   of that offset

Below the stated version: UNSUPPORTED_VERSION. While the high watermark lies below the start of the leader's epoch a
client gets OFFSET_NOT_AVAILABLE for -1 (LEADER_NOT_AVAILABLE before v5), because the true one may be higher (KIP-207).

The answer to -6 is the end of the last finished remote segment that lies whole on the leader's own epoch lineage, at
least the log start. Where that is the log end its epoch is the leader's latest. Apache Kafka says -1 when nothing is
pending; then no follower could start there.

A search by time, and -3 (the record with the largest timestamp), need data and are elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..protocol.errors import ErrorCode
from .epoch_fetch import NO_EPOCH, FetchIsolation, LeaderView, Refuse

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
EARLIEST_LOCAL_TIMESTAMP = -4
LATEST_TIERED_TIMESTAMP = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6

MINIMUM_VERSIONS = {
    LATEST_TIMESTAMP: 1,
    EARLIEST_TIMESTAMP: 1,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}


@dataclass(frozen=True, slots=True)
class OffsetAndEpoch:
    """An offset and the leader epoch of the record there; (-1, -1) where the leader does not know."""

    offset: int
    epoch: int


UNKNOWN_OFFSET = OffsetAndEpoch(-1, -1)


@dataclass(frozen=True, slots=True)
class TieredEnd:
    """What a leader knows of the tier.

    `end_offset` (exclusive) of the last finished segment that lies whole on the leader's lineage, None if there is
    none. A leader that has not read the remote metadata yet has no `TieredEnd` at all.
    """

    end_offset: int | None


def special_offset(
    view: LeaderView, tiered: TieredEnd | None, timestamp: int, isolation: FetchIsolation, version: int
) -> OffsetAndEpoch | Refuse:
    """The answer to a ListOffsets request of `version` for one of the timestamps of the module's table."""
    minimum = MINIMUM_VERSIONS[timestamp]
    if version < minimum:
        return Refuse(
            ErrorCode.unsupported_version,
            f"timestamp {timestamp} needs ListOffsets v{minimum}, the request has v{version}",
        )
    if timestamp == LATEST_TIMESTAMP:
        return _latest(view, isolation, version)
    if timestamp == EARLIEST_TIMESTAMP:
        return _with_epoch(view, view.log_start_offset)
    if timestamp == EARLIEST_LOCAL_TIMESTAMP:
        return _with_epoch(view, view.local_log_start_offset)
    if timestamp == LATEST_TIERED_TIMESTAMP:
        return _latest_tiered(view, tiered)
    return _earliest_pending_upload(view, tiered)


def _latest(view: LeaderView, isolation: FetchIsolation, version: int) -> OffsetAndEpoch | Refuse:
    if isolation is not FetchIsolation.LOG_END and view.high_watermark < view.epoch_start_offset:
        return Refuse(
            ErrorCode.offset_not_available if version >= 5 else ErrorCode.leader_not_available,
            f"the high watermark {view.high_watermark} is below the start {view.epoch_start_offset} of this epoch",
        )
    return OffsetAndEpoch(view.end_visible_to(isolation), view.leader_epoch)


def _latest_tiered(view: LeaderView, tiered: TieredEnd | None) -> OffsetAndEpoch:
    if tiered is None or tiered.end_offset is None:
        return UNKNOWN_OFFSET
    return _with_epoch(view, tiered.end_offset - 1)


def _earliest_pending_upload(view: LeaderView, tiered: TieredEnd | None) -> OffsetAndEpoch:
    if tiered is None:
        return UNKNOWN_OFFSET
    end_offset = view.log_start_offset if tiered.end_offset is None else tiered.end_offset
    assert end_offset <= view.log_end_offset, f"the tier ends at {end_offset}, beyond the log end {view.log_end_offset}"
    return _with_epoch(view, max(end_offset, view.log_start_offset))


def _with_epoch(view: LeaderView, offset: int) -> OffsetAndEpoch:
    epoch = view.epochs.epoch_for_offset(offset)
    return OffsetAndEpoch(offset, NO_EPOCH if epoch is None else epoch)
