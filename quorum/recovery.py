"""What a replica knows when it starts: `quorum-state`, the log and its snapshots, put together for the core.

| found | done |
|---|---|
| no `quorum-state` | epoch 0, or the log's last epoch, and no vote |
| its epoch is below the log's last one | the log's epoch, without a vote: the file is older than the log |
| voters in the latest snapshot, or behind it in the log | these, by the offsets of their records |
| no voters there | the configured ones |
"""

from __future__ import annotations

import logging

from ..protocol.batch_header import iter_batches
from ..protocol.fetch_wire import SnapshotId
from ..protocol.quorum_records import parse_quorum_record
from ..protocol.records import iter_records
from .control_batches import voters_after, voters_of_snapshot
from .election_file import ElectionFile
from .events import RecoveredState
from .metadata_log import MetadataLog
from .state import ElectionState, OffsetAndEpoch
from .voters import VotersAt

_logger = logging.getLogger(__name__)


async def recover(log: MetadataLog, election_file: ElectionFile, configured: VotersAt) -> RecoveredState:
    """CorruptFileError for a `quorum-state` or a snapshot that cannot be used."""
    latest = log.snapshots.latest
    return RecoveredState(
        voters=await _voters(log, configured),
        election=await _election(log, election_file),
        epochs=tuple(log.epochs.entries),
        log_start=_id(log.start_id),
        log_end_offset=log.log_end_offset,
        latest_snapshot=None if latest is None else _id(latest),
        high_watermark=0 if latest is None else latest.end_offset,
    )


async def _election(log: MetadataLog, election_file: ElectionFile) -> ElectionState:
    election = await election_file.read()
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
