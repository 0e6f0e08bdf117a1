"""A leader's append as bytes, and what fetched bytes say of the voters."""

from __future__ import annotations

from uuid import UUID

import pytest

from tierfetch.protocol.errors import CorruptRecordError
from tierfetch.protocol.records import iter_batches, iter_records
from tierfetch.protocol.records.quorum_records import (
    LeaderChange,
    Voter,
    Voters,
    build_quorum_batch,
    parse_quorum_record,
)
from tierfetch.quorum.core.effects import (
    AppendRecords,
    ControlBatch,
    DataBatch,
    KRaftVersionRecord,
    LeaderChangeRecord,
    VotersRecord,
)
from tierfetch.quorum.core.messages import FetchedBatch
from tierfetch.quorum.core.state import Endpoint, ReplicaKey
from tierfetch.quorum.core.voters import VoterNode, VotersAt, VoterSet
from tierfetch.quorum.storage.control_batches import (
    RECORD_BATCH_BYTES_MAX,
    append_bytes,
    fetched_records,
    voters_record,
)

NODE = VoterNode(ReplicaKey(1, UUID(int=11)), (Endpoint("CONTROLLER", "h", 1),))
OTHER = VoterNode(ReplicaKey(2, UUID(int=22)), (Endpoint("CONTROLLER", "h", 2),))
STATIC = VotersAt(-1, VoterSet.of([NODE]), 0)
BEGINNING = ControlBatch(
    7,
    (
        LeaderChangeRecord(1, (1, 2), (1,)),
        KRaftVersionRecord(1),
        VotersRecord(VoterSet.of([NODE, OTHER])),
    ),
)


def append(*batches: ControlBatch | DataBatch) -> AppendRecords:
    end = batches[-1].base_offset + len(batches[-1].records)
    return AppendRecords(batches[0].base_offset, end, 5, batches)


def test_Q6_a_leaders_first_append() -> None:
    data = append_bytes(append(BEGINNING, DataBatch(10, (b"a", b"b"))), 99)
    (control_at, control), (_, plain) = iter_batches(data)
    assert (control.is_control, control.base_offset, control.record_count) == (True, 7, 3)
    assert (plain.is_control, plain.base_offset, plain.record_count) == (False, 10, 2)
    assert {control.partition_leader_epoch, plain.partition_leader_epoch} == {5}
    assert plain.max_timestamp == 99
    first = next(iter_records(data, control_at, control))
    assert parse_quorum_record(first) == LeaderChange(1, (1, 2), (1,))


def test_neighbours_share_a_record_batch_up_to_its_limit() -> None:
    half = b"x" * (RECORD_BATCH_BYTES_MAX // 2)
    data = append_bytes(append(*(DataBatch(offset, (half,)) for offset in range(5))), 1)
    assert [header.record_count for _, header in iter_batches(data)] == [2, 2, 1]
    large = append_bytes(append(DataBatch(0, (half, half, half))), 1)
    assert [header.record_count for _, header in iter_batches(large)] == [3]


def test_Q15_voters_among_fetched_records() -> None:
    data = append_bytes(append(BEGINNING, DataBatch(10, (b"a",))), 1)
    found = fetched_records(data, STATIC)
    assert found.batches == (FetchedBatch(7, 9, 5), FetchedBatch(10, 10, 5))
    assert found.voters == (
        VotersAt(8, STATIC.voters, 1),
        VotersAt(9, VoterSet.of([NODE, OTHER]), 1),
    )
    assert bytes(found.payload) == data


def test_a_torn_last_batch_is_left_out() -> None:
    whole = append_bytes(append(DataBatch(0, (b"a",))), 1)
    torn = whole + append_bytes(append(DataBatch(1, (b"b",))), 1)[:-1]
    assert bytes(fetched_records(torn, STATIC).payload) == whole


def test_a_damaged_batch_is_refused() -> None:
    data = bytearray(append_bytes(append(DataBatch(0, (b"a",))), 1))
    data[-1] ^= 1
    with pytest.raises(CorruptRecordError):
        fetched_records(bytes(data), STATIC)


@pytest.mark.parametrize("voters", [(), (voters_record(VoterSet.of([NODE])).voters * 2)], ids=["nobody", "one twice"])
def test_Q15_a_record_without_a_set_of_voters_is_refused(voters: tuple[Voter, ...]) -> None:
    data = build_quorum_batch([Voters(voters)], base_offset=0, timestamp_ms=1, partition_leader_epoch=5)
    with pytest.raises(CorruptRecordError, match="expected one voter or more, each of them once"):
        fetched_records(data, STATIC)
