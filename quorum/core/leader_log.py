"""A leader's appends: offsets given, batches gathered, written together.

The first record of an epoch is LeaderChange, in one batch with the voters if the log has them not, or the leader not as
it is. An append has its offsets at once and waits in `pending`; whatever comes while the log is busy goes together into
the next write, so one write and its flush are under way at a time. Control records do not wait: they take all that is
pending along.
"""

from __future__ import annotations

from .effects import (
    AppendAccepted,
    AppendError,
    AppendFailed,
    AppendRecords,
    ControlBatch,
    ControlRecord,
    DataBatch,
    KRaftVersionRecord,
    LeaderChangeRecord,
    VotersRecord,
)
from .events import Append
from .replica import Replica
from .roles import Leader
from .voters import KRAFT_VERSION_DYNAMIC, VoterNode, VotersAt, VoterSet


def begin_epoch(replica: Replica, role: Leader) -> None:
    """The records that make this epoch real. With them go voters into the log that only a formatted snapshot names, and
    this one as it is now: as long as it leads, no other replica says where it listens.
    """
    role.has_begun = True
    voter_ids = tuple(node.id for node in replica.voters)
    records: list[ControlRecord] = [LeaderChangeRecord(replica.key.id, voter_ids, role.granting_voters)]
    latest, voters = replica.voter_history.latest, _with_itself(replica)
    is_dynamic = latest.kraft_version >= KRAFT_VERSION_DYNAMIC
    is_written = is_dynamic and (latest.offset < 0 or voters != latest.voters)
    if is_written:
        records += [KRaftVersionRecord(latest.kraft_version), VotersRecord(voters)]
    offset = append_control(replica, role, tuple(records))
    if is_written:
        replica.add_voters(VotersAt(offset, voters, latest.kraft_version))


def _with_itself(replica: Replica) -> VoterSet:
    """The voters, this one with the listeners that it has. Who votes stays the same, so that it is in order before
    anything of this epoch is committed, and also where the voters before are not.
    """
    endpoints = replica.config.endpoints
    own = VoterNode(replica.key, endpoints)
    return replica.voters.with_voter(own) if replica.is_voter and endpoints else replica.voters


def append_control(replica: Replica, role: Leader, records: tuple[ControlRecord, ...]) -> int:
    """Append the records at once, after whatever is pending. Return the last one's offset."""
    role.pending.append(ControlBatch(role.next_offset, records))
    role.next_offset += len(records)
    _write_pending(replica, role, len(role.pending))
    return role.next_offset - 1


def on_append(replica: Replica, event: Append) -> None:
    role = replica.role
    assert event.records, "an append without records"
    if not isinstance(role, Leader):
        replica.emit(AppendFailed(event.token, AppendError.NOT_LEADER))
        return
    if event.epoch != replica.epoch:
        replica.emit(AppendFailed(event.token, AppendError.WRONG_EPOCH))
        return
    if event.base_offset not in (None, role.next_offset):
        replica.emit(AppendFailed(event.token, AppendError.WRONG_OFFSET))
        return
    size = sum(map(len, event.records))
    if role.uncommitted and role.uncommitted_bytes + size > replica.config.append_pending_bytes_max:
        replica.emit(AppendFailed(event.token, AppendError.BUFFER_FULL))
        return
    if not role.pending:
        role.pending_since_ms = replica.now_ms
    base_offset = role.next_offset
    role.next_offset += len(event.records)
    role.pending.append(DataBatch(base_offset, event.records))
    role.pending_bytes += size
    role.uncommitted.append((role.next_offset - 1, size, event.token))
    role.uncommitted_bytes += size
    replica.emit(AppendAccepted(event.token, base_offset, role.next_offset - 1))


def drain_pending(replica: Replica, role: Leader) -> None:
    """Write what is pending, once the last write is on disk and the linger over."""
    if replica.log.is_busy:
        return
    is_lingering = replica.now_ms < role.pending_since_ms + replica.config.append_linger_ms
    limit = replica.config.append_batch_bytes_max
    if is_lingering and role.pending_bytes < limit:
        return
    size = count = 0
    for batch in role.pending:
        size += sum(map(len, batch.records)) if isinstance(batch, DataBatch) else 0
        count += 1
        if size >= limit:
            break
    _write_pending(replica, role, count)


def _write_pending(replica: Replica, role: Leader, count: int) -> None:
    batches = tuple(role.pending[:count])
    del role.pending[:count]
    role.pending_bytes = sum(sum(map(len, batch.records)) for batch in role.pending if isinstance(batch, DataBatch))
    end_offset = role.pending[0].base_offset if role.pending else role.next_offset
    replica.append(AppendRecords(replica.log.end_offset, end_offset, replica.epoch, batches))
