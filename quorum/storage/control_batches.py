"""Between the core's values and the log's bytes: what a leader appends, and which voters some bytes bring.

A leader's append is one run of batches, control and data, stamped with their offsets, the epoch and one wall-clock
time.
Data batches that follow each other become one record batch of at most `RECORD_BATCH_BYTES_MAX`, for each costs 61 bytes
and a CRC at every replica; a batch of the core's is never split.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final
from uuid import UUID

from ...protocol import CorruptRecordError
from ...protocol.records import (
    Buffer,
    KRaftVersion,
    LeaderChange,
    QuorumRecord,
    Record,
    Voter,
    VoterEndpoint,
    Voters,
    build_batch,
    build_quorum_batch,
    iter_batches,
    iter_records,
    parse_quorum_record,
)
from ..core.effects import (
    AppendRecords,
    ControlBatch,
    ControlRecord,
    DataBatch,
    KRaftVersionRecord,
    LeaderChangeRecord,
    VotersRecord,
)
from ..core.messages import FetchedBatch, FetchedRecords
from ..core.state import NO_DIRECTORY_ID, Endpoint, ReplicaKey
from ..core.voters import KRAFT_VERSION_STATIC, VoterNode, VotersAt, VoterSet
from .snapshot_file import STATIC_SETUP, QuorumSetup

RECORD_BATCH_BYTES_MAX: Final = 1024 * 1024


# A leader's append.


def append_bytes(effect: AppendRecords, now_ms: int) -> bytes:
    """The batches of an append as they go to the log."""
    out = []
    for group in _groups(effect.batches):
        first = group[0]
        if isinstance(first, ControlBatch):
            values = [_record(record) for record in first.records]
            out.append(
                build_quorum_batch(
                    values, base_offset=first.base_offset, timestamp_ms=now_ms, partition_leader_epoch=effect.epoch
                )
            )
        else:
            data = chain.from_iterable(batch.records for batch in group if isinstance(batch, DataBatch))
            records = [Record(first.base_offset + at, now_ms, None, value) for at, value in enumerate(data)]
            out.append(build_batch(records, base_offset=first.base_offset, partition_leader_epoch=effect.epoch))
    return b"".join(out)


def _groups(batches: Sequence[ControlBatch | DataBatch]) -> Iterator[list[ControlBatch | DataBatch]]:
    """What becomes one record batch each."""
    group: list[ControlBatch | DataBatch] = []
    size = 0
    for batch in batches:
        added = 0 if isinstance(batch, ControlBatch) else sum(map(len, batch.records))
        is_alone = isinstance(batch, ControlBatch) or (group and isinstance(group[0], ControlBatch))
        if group and (is_alone or size + added > RECORD_BATCH_BYTES_MAX):
            yield group
            group, size = [], 0
        group.append(batch)
        size += added
    if group:
        yield group


def _record(record: ControlRecord) -> QuorumRecord:
    match record:
        case LeaderChangeRecord(leader_id, voter_ids, granting_ids):
            return LeaderChange(leader_id, voter_ids, granting_ids)
        case KRaftVersionRecord(level):
            return KRaftVersion(level)
        case VotersRecord(voter_set):
            return voters_record(voter_set)


def _known(directory_id: UUID) -> UUID | None:
    return None if directory_id == NO_DIRECTORY_ID else directory_id


# Voter sets.


def voters_record(voters: VoterSet) -> Voters:
    return Voters(
        tuple(
            Voter(
                voter_id=node.id,
                directory_id=_known(node.key.directory_id),
                endpoints=tuple(VoterEndpoint(item.name, item.host, item.port) for item in node.endpoints),
                min_kraft_version=node.min_kraft_version,
                max_kraft_version=node.max_kraft_version,
            )
            for node in voters
        )
    )


def voter_set(record: Voters) -> VoterSet:
    """Raise CorruptRecordError if the batch is not one: replicas could otherwise disagree on it."""
    ids = [voter.voter_id for voter in record.voters]
    if not ids or len(set(ids)) < len(ids) or min(ids) < 0:
        raise CorruptRecordError(f"a Voters record names {ids}: expected one voter or more, each of them once")
    return VoterSet.of(
        VoterNode(
            ReplicaKey(voter.voter_id, voter.directory_id or NO_DIRECTORY_ID),
            tuple(Endpoint(item.name, item.host, item.port) for item in voter.endpoints),
            voter.min_kraft_version,
            voter.max_kraft_version,
        )
        for voter in record.voters
    )


def voters_after(record: QuorumRecord | None, offset: int, before: VotersAt) -> VotersAt:
    """What is in effect after a control record; `before` itself if the record says nothing of it."""
    match record:
        case Voters():
            return VotersAt(offset, voter_set(record), before.kraft_version)
        case KRaftVersion(level):
            return VotersAt(offset, before.voters, level)
        case _:
            return before


def voters_of_snapshot(end_offset: int, setup: QuorumSetup, configured: VotersAt) -> VotersAt:
    """The voters in effect after a snapshot: as it says, or the configured ones where it says nothing of them."""
    if setup.voters is None:
        return VotersAt(end_offset - 1, configured.voters, configured.kraft_version)
    return VotersAt(end_offset - 1, voter_set(setup.voters), setup.kraft_version)


def setup_of_voters(voters: VotersAt) -> QuorumSetup:
    """What a snapshot says of the quorum: nothing while the voters are configured."""
    if voters.kraft_version == KRAFT_VERSION_STATIC:
        return STATIC_SETUP
    return QuorumSetup(voters.kraft_version, voters_record(voters.voters))


# What was fetched, or is in the log.


def fetched_records(data: Buffer, before: VotersAt) -> FetchedRecords:
    """The whole batches in `data`, CRCs checked; a torn last one is left out. CorruptRecordError."""
    batches: list[FetchedBatch] = []
    voters: list[VotersAt] = []
    end = 0
    for position, header in iter_batches(data):
        batches.append(FetchedBatch(header.base_offset, header.last_offset, header.partition_leader_epoch))
        end = position + header.size_bytes
        if not header.is_control:
            continue
        for record in iter_records(data, position, header):
            after = voters_after(parse_quorum_record(record), record.offset, before)
            if after is not before:
                before = after
                voters.append(after)
    return FetchedRecords(memoryview(data)[:end], tuple(batches), tuple(voters))
