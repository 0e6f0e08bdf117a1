"""What a replica knows when it starts: `quorum-state`, the log and its snapshots, put together for the core.

| found | done |
|---|---|
| no `quorum-state` | epoch 0, or the log's last epoch, and no vote; marked |
| its epoch is below the log's last one | the log's epoch, without a vote: the file is older than the log; marked |
| voters in the latest snapshot, or after it in the log | these, by the offsets of their records |
| no voters there | the configured ones |
| the mark | it has to prove its log and its votes (`probation`), if it can vote at all |

`quorum-state` is written before anything else. So a replica without it, or with one from a backup, may have forgotten
what it acknowledged, or a vote; or it is new, which nothing here can show.
"""

from __future__ import annotations

import logging

from ...protocol.fetch import SnapshotId
from ...protocol.records import iter_batches, iter_records, parse_quorum_record
from ..core.events import RecoveredState
from ..core.state import ElectionState, OffsetAndEpoch, ReplicaKey
from ..core.voters import VotersAt, VoterSet
from .control_batches import voters_after, voters_of_snapshot
from .metadata_log import MetadataLog
from .vote_keeper import VoteKeeper

NEW = (
    "this controller begins with an empty log, as a new one does; was it a voter before, it counts for nothing until "
    "all others have answered it and it has followed a leader"
)
FORGETFUL = (
    "quorum-state is missing, or older than the log: this controller may have forgotten what it voted, and counts for "
    "nothing until all others have answered it and it has followed a leader"
)

_logger = logging.getLogger(__name__)


async def recover(
    log: MetadataLog, votes: VoteKeeper, configured: VotersAt, key: ReplicaKey, *, can_vote: bool
) -> RecoveredState:
    """`can_vote`: it is a controller. CorruptFileError for a `quorum-state` or a snapshot that cannot be used."""
    latest = log.snapshots.latest
    is_voter = can_vote and configured.voters.contains(key)
    found = await votes.election_file.read(configured.voters if is_voter else VoterSet())
    if can_vote and (found is None or found.epoch < log.last_epoch):
        await votes.unproven_mark.put()
    is_unproven = can_vote and await votes.unproven_mark.is_there()
    if is_unproven:
        is_empty = log.log_end_offset == 0
        _logger.log(logging.INFO if is_empty else logging.WARNING, NEW if is_empty else FORGETFUL)
    return RecoveredState(
        is_unproven=is_unproven,
        voters=await _voters(log, configured),
        election=_election(log, found),
        epochs=tuple(log.epochs.entries),
        log_start=_id(log.start_id),
        log_end_offset=log.log_end_offset,
        latest_snapshot=None if latest is None else _id(latest),
        high_watermark=0 if latest is None else latest.end_offset,
    )


def _election(log: MetadataLog, election: ElectionState | None) -> ElectionState:
    if election is None:
        return ElectionState(log.last_epoch)
    if election.epoch < log.last_epoch:
        _logger.warning("quorum-state is of epoch %d, the log ends in epoch %d", election.epoch, log.last_epoch)
        return ElectionState(log.last_epoch)
    return election


async def _voters(log: MetadataLog, configured: VotersAt) -> tuple[VotersAt, ...]:
    """In the order of their offsets."""
    latest = log.snapshots.latest
    found = [configured]
    if latest is not None:
        setup = (await log.snapshots.read(latest)).setup
        found = [voters_of_snapshot(latest.end_offset, setup, configured)]
    start = max(log.log_start_offset, 0 if latest is None else latest.end_offset)
    while start < log.log_end_offset:
        data = await log.read_bytes(start, max_offset=log.log_end_offset)
        assert data, f"the log ends at {start}, where {log.log_end_offset} was said"
        for position, header in iter_batches(data, check_crc=False):
            start = header.next_offset
            if not header.is_control:
                continue
            for record in iter_records(data, position, header):
                after = voters_after(parse_quorum_record(record), record.offset, found[-1])
                if after is not found[-1]:
                    found.append(after)
    return tuple(found)


def _id(snapshot_id: SnapshotId) -> OffsetAndEpoch:
    return OffsetAndEpoch(snapshot_id.end_offset, snapshot_id.epoch)
