"""A leader's answers to ListOffsets with a special timestamp (KIP-207, KIP-405, KIP-1005, KIP-1023).

    timestamp  since  answer                                                        epoch
    ---------  -----  ------------------------------------------------------------  ------------------
    -1         v1     follower: log end; read_uncommitted: high watermark;          the leader's
                      read_committed: last stable offset
    -2         v1     log start                                                     of that offset
    -4         v8     local log start                                               of that offset
    -5         v9     last tiered offset (`remote.core.lineage.latest_tiered`)           of that offset
    -6         v11    next to upload (`remote.core.lineage.earliest_pending_upload`)     of that offset

Below the stated version: UNSUPPORTED_VERSION. What the leader does not know (yet) is (-1, -1). While the high watermark
lies below the start of the leader's epoch a client gets OFFSET_NOT_AVAILABLE for -1 (LEADER_NOT_AVAILABLE before v5),
because the true one may be higher (KIP-207).

A search by time, and -3 (the record with the largest timestamp), need data and are elsewhere.
"""

from __future__ import annotations

from ...protocol import ErrorCode
from ...remote.core import OffsetAndEpoch, RemoteLogLedger, earliest_pending_upload, latest_tiered
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


UNKNOWN_OFFSET = OffsetAndEpoch(-1, -1)


def special_offset(
    view: LeaderView, ledger: RemoteLogLedger | None, timestamp: int, isolation: FetchIsolation, version: int
) -> OffsetAndEpoch | Refuse:
    """The answer to a ListOffsets request of `version` for one of the timestamps of the module's table.

    `ledger` is None until the leader's first pass has read the remote log metadata.
    """
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
        return latest_tiered(ledger, view.epochs, view.log_end_offset) or UNKNOWN_OFFSET
    pending = earliest_pending_upload(
        ledger,
        view.epochs,
        log_start_offset=view.log_start_offset,
        local_log_start_offset=view.local_log_start_offset,
        log_end_offset=view.log_end_offset,
    )
    return pending or UNKNOWN_OFFSET


def _latest(view: LeaderView, isolation: FetchIsolation, version: int) -> OffsetAndEpoch | Refuse:
    if isolation is not FetchIsolation.LOG_END and view.high_watermark < view.epoch_start_offset:
        return Refuse(
            ErrorCode.offset_not_available if version >= 5 else ErrorCode.leader_not_available,
            f"the high watermark {view.high_watermark} is below the start {view.epoch_start_offset} of this epoch",
        )
    return OffsetAndEpoch(view.end_visible_to(isolation), view.leader_epoch)


def _with_epoch(view: LeaderView, offset: int) -> OffsetAndEpoch:
    epoch = view.epochs.epoch_for_offset(offset)
    return OffsetAndEpoch(offset, NO_EPOCH if epoch is None else epoch)
