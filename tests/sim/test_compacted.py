"""Replicas of a compacted partition: they differ in what is superseded, and in nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

import pytest

from tierfetch.log.core.epochs import EpochEntry
from tierfetch.protocol.records import Record, build_batch
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.sim.judges.core.clients.compacted import KeyHistory, check_compacted, check_values, records_of
from tierfetch.sim.judges.core.partition import InvariantViolationError
from tierfetch.sim.judges.core.replicas import ReplicaState, batches_of
from tierfetch.sim.scenarios.operations.side_loads import check_found

KEYS = Mapping[int, tuple[bytes, bytes | None]]
WHOLE: KEYS = {0: (b"a", b"1"), 1: (b"b", b"1"), 2: (b"a", b"2"), 3: (b"b", None), 4: (b"c", b"1")}
CLEANED: KEYS = {offset: WHOLE[offset] for offset in (2, 3, 4)}


def replica(node_id: int, records: KEYS, *, epochs: Sequence[EpochEntry] = (EpochEntry(1, 0),)) -> ReplicaState:
    data = b"".join(
        build_batch([Record(offset, 0, key, value)], base_offset=offset, partition_leader_epoch=1)
        for offset, (key, value) in records.items()
    )
    return ReplicaState(
        node_id=node_id,
        partition="table-0",
        log_start_offset=0,
        local_log_start_offset=0,
        high_watermark=5,
        log_end_offset=5,
        epochs=tuple(epochs),
        batches=batches_of(data),
        producers={},
    )


def found(other: ReplicaState) -> list[str]:
    return [each.kind for each in check_compacted([replica(1, WHOLE), other], 1, (1, 2))]


def test_what_is_superseded_or_deleted_may_be_gone() -> None:
    assert found(replica(2, CLEANED)) == []
    assert found(replica(2, {2: WHOLE[2], 4: WHOLE[4]})) == []


@pytest.mark.parametrize(
    ("records", "kinds"),
    [
        ({2: WHOLE[2], 3: WHOLE[3]}, ["compacted away"]),
        ({0: WHOLE[0], 3: WHOLE[3], 4: WHOLE[4]}, ["compacted away"]),
        ({1: WHOLE[1], 2: WHOLE[2], 4: WHOLE[4]}, ["compacted away"]),
        ({**CLEANED, 2: (b"a", b"9")}, ["divergence", "compacted away"]),
    ],
    ids=["a key is gone", "the older value is left", "a deletion is gone, not what it deletes", "another value"],
)
def test_the_last_record_of_a_key_is_the_same_everywhere(records: KEYS, kinds: list[str]) -> None:
    assert found(replica(2, records)) == kinds


def test_epochs_and_order_are_those_of_the_batches() -> None:
    assert found(replica(2, CLEANED, epochs=(EpochEntry(1, 0), EpochEntry(2, 4)))) == ["epoch mismatch"]
    assert "disorder" in found(replica(2, {4: WHOLE[4], 2: WHOLE[2], 3: WHOLE[3]}))


def test_an_isr_that_is_not_whole_has_not_converged() -> None:
    assert [each.kind for each in check_compacted([replica(1, WHOLE)], 1, (1, 2))] == ["not converged"]
    assert [each.kind for each in check_compacted([replica(1, WHOLE)], 2, (1,))] == ["not converged"]


@pytest.mark.parametrize(
    ("sent", "acknowledged", "kinds"),
    [
        ([b"1", b"2"], 2, []),
        ([b"2"], 0, []),
        ([b"1", b"2", b"3"], 1, []),
        ([b"1", b"2", b"3"], 3, ["lost value"]),
        ([b"2", None], 2, ["lost value"]),
        ([b"1"], 1, ["foreign value"]),
    ],
    ids=["the last", "sent", "one after it", "an older one", "a deleted one", "never sent"],
)
def test_the_last_value_acknowledged_or_a_later_one_is_there(
    sent: list[bytes | None], acknowledged: int, kinds: list[str]
) -> None:
    records = records_of(replica(1, CLEANED).batches)
    assert [each.kind for each in check_values("table-0", {b"a": KeyHistory(sent, acknowledged)}, records)] == kinds


def test_a_key_that_was_deleted_or_never_acknowledged_may_be_missing() -> None:
    histories = {b"x": KeyHistory([b"1", None], 2), b"y": KeyHistory([b"1"], 0), b"z": KeyHistory([b"1"], 1)}
    (lost,) = check_values("table-0", histories, {})
    assert str(lost).startswith("lost value: table-0: key b'z' is deleted, acknowledged last was b'1'")


PLACE = TopicIdPartition(UUID(int=1), "side", 0)
TIMES = {0: 10, 1: 30, 2: 20}


@pytest.mark.parametrize(("wanted", "offset"), [(5, 0), (11, 1), (25, 1), (31, -1), (31, 7), (20, 1)])
def test_the_first_offset_at_a_time(wanted: int, offset: int) -> None:
    check_found(PLACE, wanted, offset, TIMES, 0)


@pytest.mark.parametrize(("wanted", "offset"), [(5, 1), (11, 2), (11, -1), (11, 0)])
def test_another_offset_is_not_the_first_at_that_time(wanted: int, offset: int) -> None:
    with pytest.raises(InvariantViolationError, match="first at that time"):
        check_found(PLACE, wanted, offset, TIMES, 0)


def test_of_what_was_deleted_nothing_is_said() -> None:
    check_found(PLACE, 5, 2, TIMES, 2)
