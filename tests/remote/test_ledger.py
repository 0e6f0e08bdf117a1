"""The segment ledger: states, idempotence, look-up by (epoch, offset)."""

from __future__ import annotations

import re
from dataclasses import replace
from uuid import UUID

import pytest

from tierfetch.log.core import EpochEntry
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.remote.core import (
    IllegalTransitionError,
    RemoteLogLedger,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
)
from tierfetch.remote.core.ledger import SEGMENT_TRANSITIONS

from .builders import (
    DELETE_FINISHED,
    DELETE_STARTED,
    FINISHED,
    PARTITION,
    STARTED,
    ledger_of,
    segment,
    segment_id,
    update,
)

PATHS: dict[RemoteLogSegmentState | None, list[RemoteLogSegmentState]] = {
    None: [],
    STARTED: [],
    FINISHED: [FINISHED],
    DELETE_STARTED: [FINISHED, DELETE_STARTED],
}


def ledger_in(state: RemoteLogSegmentState | None) -> RemoteLogLedger:
    ledger = RemoteLogLedger(PARTITION)
    if state is not None:
        ledger.apply(segment(1, 0, 9))
    for step in PATHS[state]:
        ledger.apply(update(1, step))
    return ledger


@pytest.mark.parametrize("current", PATHS)
@pytest.mark.parametrize("target", [FINISHED, DELETE_STARTED, DELETE_FINISHED])
def test_R3_updates_follow_the_table(current: RemoteLogSegmentState | None, target: RemoteLogSegmentState) -> None:
    ledger = ledger_in(current)
    version = ledger.version
    legal = target in SEGMENT_TRANSITIONS[current]
    repeated = target is current or (current is None and target is DELETE_FINISHED)
    if legal:
        assert ledger.apply(update(1, target))
        known = ledger.get(segment_id(1))
        assert (known.state if known else DELETE_FINISHED) is target
    elif repeated:
        assert not ledger.apply(update(1, target))
    else:
        with pytest.raises(IllegalTransitionError):
            ledger.apply(update(1, target))
    assert ledger.version == version + legal


def test_R3_error_names_segment_states_and_what_is_legal() -> None:
    ledger = ledger_in(STARTED)
    expected = f"{segment_id(1)}: DELETE_SEGMENT_FINISHED cannot follow COPY_SEGMENT_STARTED; legal: "
    with pytest.raises(
        IllegalTransitionError, match=re.escape(expected) + "COPY_SEGMENT_FINISHED, DELETE_SEGMENT_STAR"
    ):
        ledger.apply(update(1, DELETE_FINISHED))
    with pytest.raises(IllegalTransitionError, match=r"cannot follow an unknown segment.*legal: COPY_SEGMENT_STARTED"):
        ledger.apply(update(2, FINISHED))


def test_R3_a_copy_may_be_given_up_before_it_finishes() -> None:
    ledger = ledger_in(STARTED)
    ledger.apply(update(1, DELETE_STARTED))
    ledger.apply(update(1, DELETE_FINISHED))
    assert len(ledger) == 0


@pytest.mark.parametrize("current", [STARTED, FINISHED, DELETE_STARTED])
def test_R3_a_second_start_with_the_same_id_is_refused(current: RemoteLogSegmentState) -> None:
    ledger = ledger_in(current)
    with pytest.raises(IllegalTransitionError, match=f"COPY_SEGMENT_STARTED cannot follow {current.name}"):
        ledger.apply(segment(1, 0, 10))


def test_R3_a_segment_does_not_begin_finished() -> None:
    ledger = RemoteLogLedger(PARTITION)
    with pytest.raises(IllegalTransitionError, match="COPY_SEGMENT_FINISHED cannot follow an unknown segment"):
        ledger.apply(replace(segment(1, 0, 9), state=FINISHED))
    ledger.apply(segment(1, 0, 9))
    with pytest.raises(IllegalTransitionError, match="by a record that starts a copy"):
        ledger.apply(replace(segment(1, 0, 9), state=FINISHED))
    with pytest.raises(IllegalTransitionError, match="COPY_SEGMENT_STARTED cannot follow COPY_SEGMENT_STARTED"):
        ledger.apply(update(1, STARTED))


def test_duplicate_of_a_retried_write_changes_nothing() -> None:
    ledger = RemoteLogLedger(PARTITION)
    for event in (segment(1, 0, 9), update(1, FINISHED), update(1, DELETE_STARTED), update(1, DELETE_FINISHED)):
        assert ledger.apply(event)
        version = ledger.version
        assert not ledger.apply(event)
        assert ledger.version == version


def test_repeated_state_with_other_values_is_taken() -> None:
    ledger = ledger_in(DELETE_STARTED)
    version = ledger.version
    assert ledger.apply(update(1, DELETE_STARTED, broker_id=2, event_timestamp_ms=3_000))
    known = ledger.get(segment_id(1))
    assert known is not None
    assert (known.broker_id, known.event_timestamp_ms, ledger.version) == (2, 3_000, version + 1)


def test_repeated_finish_replaces_what_look_ups_return() -> None:
    ledger = ledger_in(FINISHED)
    ledger.apply(update(1, FINISHED, custom_metadata=b"where"))
    found = ledger.find(0, 5)
    assert found is not None
    assert found.custom_metadata == b"where"
    assert ledger.finished() == [found] == list(ledger.finished_before(100))
    assert ledger.finished_size_bytes == found.segment_size_in_bytes


def test_custom_metadata_survives_later_updates() -> None:
    ledger = ledger_in(STARTED)
    ledger.apply(update(1, FINISHED, custom_metadata=b"where"))
    ledger.apply(update(1, DELETE_STARTED))
    assert ledger.segments(DELETE_STARTED)[0].custom_metadata == b"where"


def test_check_changes_nothing() -> None:
    ledger = RemoteLogLedger(PARTITION)
    assert ledger.check(segment(1, 0, 9))
    assert (len(ledger), ledger.version) == (0, 0)


@pytest.mark.parametrize("state", [STARTED, DELETE_STARTED])
def test_only_finished_segments_are_found(state: RemoteLogSegmentState) -> None:
    ledger = ledger_in(state)
    assert ledger.find(0, 5) is None
    assert ledger.finished() == []
    assert ledger.finished_size_bytes == 0
    assert [metadata.segment_id for metadata in ledger.segments()] == [segment_id(1)]
    assert [metadata.state for metadata in ledger.segments(state)] == [state]
    assert ledger.segments(FINISHED) == []


def test_find_uses_the_range_of_each_epoch() -> None:
    ledger = ledger_of(segment(1, 0, 99, (0, 0), (2, 60)), segment(2, 100, 149, (2, 100), (3, 120)))

    def number(epoch: int, offset: int) -> int | None:
        found = ledger.find(epoch, offset)
        return found.segment_id.id.int if found else None

    assert [number(0, 0), number(0, 59), number(0, 60)] == [1, 1, None]
    assert [number(2, 59), number(2, 60), number(2, 99), number(2, 100), number(2, 120)] == [None, 1, 1, 2, None]
    assert [number(3, 119), number(3, 120), number(3, 149), number(3, 150)] == [None, 2, 2, None]
    assert number(1, 50) is None


def test_epoch_without_offsets_in_the_segment_is_not_found() -> None:
    ledger = ledger_of(segment(1, 10, 19, (0, 10), (1, 15), (2, 15)))
    assert ledger.find(1, 15) is None
    assert ledger.find(2, 15) is not None


def test_larger_upload_shadows_smaller_one_until_it_is_deleted() -> None:
    for order in ((segment(1, 10, 90), segment(2, 5, 100)), (segment(2, 5, 100), segment(1, 10, 90))):
        ledger = ledger_of(*order)
        assert [ledger.find(0, offset) for offset in (5, 10, 95)] == [ledger.get(segment_id(2))] * 3
        ledger.apply(update(2, DELETE_STARTED))
        assert [ledger.find(0, 50), ledger.find(0, 5), ledger.find(0, 95)] == [ledger.get(segment_id(1)), None, None]


def test_retry_under_a_new_id_is_preferred_and_the_old_one_steps_in_again() -> None:
    ledger = ledger_of(segment(1, 0, 9), segment(2, 0, 9))
    assert ledger.find(0, 0) == ledger.get(segment_id(2))
    ledger.apply(update(2, DELETE_STARTED))
    assert ledger.find(0, 0) == ledger.get(segment_id(1))
    ledger.apply(update(1, DELETE_STARTED))
    assert ledger.find(0, 0) is None


def test_finished_is_sorted_and_counts_bytes() -> None:
    ledger = ledger_of(segment(3, 20, 29), segment(1, 0, 9), segment(2, 10, 19), segment(4, 0, 4))
    assert [metadata.segment_id.id.int for metadata in ledger.finished()] == [4, 1, 2, 3]
    assert [metadata.segment_id.id.int for metadata in ledger.finished_before(29)] == [2, 1, 4]
    assert ledger.finished_size_bytes == 350
    ledger.apply(update(1, DELETE_STARTED))
    assert ledger.finished_size_bytes == 250


def test_partition_deletion_goes_step_by_step() -> None:
    ledger = RemoteLogLedger(PARTITION)

    def event(state: RemotePartitionDeleteState) -> RemotePartitionDeleteMetadata:
        return RemotePartitionDeleteMetadata(PARTITION, state, 5, 1)

    with pytest.raises(IllegalTransitionError, match=r"legal: DELETE_PARTITION_MARKED$"):
        ledger.apply(event(RemotePartitionDeleteState.DELETE_PARTITION_STARTED))
    for state in RemotePartitionDeleteState:
        assert ledger.apply(event(state))
        assert not ledger.apply(event(state))
        assert ledger.delete_state is state
    with pytest.raises(IllegalTransitionError, match="nothing: this state is final"):
        ledger.apply(event(RemotePartitionDeleteState.DELETE_PARTITION_MARKED))
    assert ledger.version == 3


def test_events_of_another_partition_are_our_bug() -> None:
    other = TopicIdPartition(UUID(int=0x71), "topic", 0)
    with pytest.raises(AssertionError, match="in the ledger of"):
        RemoteLogLedger(PARTITION).apply(segment(1, 0, 9, partition=other))


@pytest.mark.slow
def test_thirty_thousand_segments() -> None:
    """Not a benchmark: quadratic work would take a minute here."""
    count = 30_000
    ledger = RemoteLogLedger(PARTITION)
    for number in range(count):
        ledger.apply(segment(number, number * 10, number * 10 + 9))
        ledger.apply(update(number, FINISHED))
    for number in range(0, count, 10):
        assert ledger.find(0, number * 10 + 7) == ledger.get(segment_id(number))
    for number in range(count - 1):
        ledger.apply(update(number, DELETE_STARTED))
        ledger.apply(update(number, DELETE_FINISHED))
    assert [metadata.segment_id.id.int for metadata in ledger.finished()] == [count - 1]


class TestDeletedTo:
    """`deleted_to` tells of deletions alone, and along a lineage."""

    EPOCHS = (EpochEntry(0, 0), EpochEntry(2, 20))

    def ledger(self) -> RemoteLogLedger:
        ledger = RemoteLogLedger(PARTITION)
        for number, start in enumerate((0, 10), start=1):
            ledger.apply(segment(number, start, start + 9))
            ledger.apply(update(number, FINISHED))
        ledger.apply(segment(3, 20, 29, (2, 20)))
        ledger.apply(update(3, FINISHED))
        return ledger

    def test_R3_what_is_readable_or_absent_is_not_deleted(self) -> None:
        ledger = self.ledger()
        assert [ledger.deleted_to(self.EPOCHS, offset) for offset in (0, 15, 30, 99)] == [0, 15, 30, 99]

    def test_R3_deletion_counts_from_its_beginning_and_for_ever(self) -> None:
        ledger = self.ledger()
        ledger.apply(update(1, DELETE_STARTED))
        assert ledger.deleted_to(self.EPOCHS, 0) == 10
        ledger.apply(update(1, DELETE_FINISHED))
        assert [ledger.deleted_to(self.EPOCHS, offset) for offset in (0, 9, 10)] == [10, 10, 10]

    def test_R3_it_goes_on_over_epochs_and_stops_at_another_history(self) -> None:
        ledger = self.ledger()
        for number in (1, 2, 3):
            ledger.apply(update(number, DELETE_STARTED))
        assert ledger.deleted_to(self.EPOCHS, 5) == 30
        assert ledger.deleted_to((EpochEntry(0, 0), EpochEntry(1, 15)), 5) == 15
        assert ledger.deleted_to((EpochEntry(0, 0), EpochEntry(3, 20)), 5) == 20
        assert ledger.deleted_to((EpochEntry(3, 20),), 5) == 5
        assert ledger.deleted_to((), 5) == 5

    def test_R3_attempt_that_never_finished_was_never_there(self) -> None:
        ledger = RemoteLogLedger(PARTITION)
        ledger.apply(segment(1, 0, 9))
        ledger.apply(update(1, DELETE_STARTED))
        ledger.apply(update(1, DELETE_FINISHED))
        assert ledger.deleted_to(self.EPOCHS, 0) == 0
