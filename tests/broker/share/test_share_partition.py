"""Who is given which records, case by case; `test_share_partition_properties` has any order of events."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tierfetch.broker.share.core.acknowledgements import Acknowledged, AcknowledgeType
from tierfetch.broker.share.core.partition import (
    RUNS_MAX,
    AcquiredRecords,
    AcquireLimits,
    FetchedBatch,
    SharePartition,
    ShareSettings,
    StoredBatch,
    Write,
)
from tierfetch.broker.share.core.runs import RecordState
from tierfetch.broker.share_state.active_shard import BATCHES_MAX
from tierfetch.protocol.errors import ErrorCode, KafkaError

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = RecordState
GAP, ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
SETTINGS = ShareSettings(delivery_count_max=3, locks_max=100, lock_ms=1_000)
ALL = AcquireLimits(1_000, 1_000)


def batches(*sizes: int, start: int = 0) -> list[FetchedBatch]:
    """Batches of the log, one after the other, from offset `start` on."""
    found = []
    for size in sizes:
        found.append(FetchedBatch(start, start + size - 1))
        start += size
    return found


def new(start_offset: int = 0, settings: ShareSettings = SETTINGS) -> SharePartition:
    return SharePartition(start_offset, settings)


def acquire(
    partition: SharePartition,
    log: Iterable[FetchedBatch],
    limits: AcquireLimits = ALL,
    *,
    member: str = "m",
    now_ms: int = 0,
) -> tuple[AcquiredRecords, ...]:
    """As a fetch does: from the next offset on."""
    offset = partition.next_fetch_offset()
    return partition.acquire(member, offset, [each for each in log if each.last_offset >= offset], limits, now_ms)


def acknowledge(
    partition: SharePartition, first: int, last: int, kind: AcknowledgeType = ACCEPT, *, member: str = "m"
) -> Write:
    write = partition.acknowledge(member, [Acknowledged(first, last, kind)], 0)
    assert write is not None
    return write


def states(partition: SharePartition) -> list[tuple[int, int, RecordState, int]]:
    return [(run.first, run.last, run.lot.state, run.lot.delivery_count) for run in partition.runs]


def test_a_member_is_given_records_once() -> None:
    partition = new()
    assert acquire(partition, batches(3, 2)) == (AcquiredRecords(0, 4, 1),)
    assert acquire(partition, batches(3, 2), member="other") == ()
    assert (partition.next_fetch_offset(), partition.in_flight) == (5, 5)


def test_whole_batches_are_given_even_if_they_exceed_the_number() -> None:
    assert acquire(new(), batches(3, 3, 3), AcquireLimits(4)) == (AcquiredRecords(0, 2, 1), AcquiredRecords(3, 5, 1))


def test_in_strict_mode_batches_are_cut() -> None:
    partition = new()
    assert acquire(partition, batches(3, 3, 3), AcquireLimits(4, 9, is_strict=True)) == (AcquiredRecords(0, 3, 1),)
    assert acquire(partition, batches(3, 3, 3), AcquireLimits(4, 9, is_strict=True)) == (AcquiredRecords(4, 7, 1),)


def test_what_is_acquired_comes_in_batches_of_the_size_that_is_asked_for() -> None:
    assert acquire(new(), batches(2, 2, 2, 2), AcquireLimits(100, 4)) == (
        AcquiredRecords(0, 3, 1),
        AcquiredRecords(4, 7, 1),
    )


def test_a_group_that_begins_within_a_batch_is_given_the_rest_of_it() -> None:
    partition = new(2)
    assert partition.acquire("m", 2, batches(5), ALL, 0) == (AcquiredRecords(2, 4, 1),)


def test_no_more_is_locked_than_allowed() -> None:
    partition = new(settings=ShareSettings(locks_max=4))
    assert acquire(partition, batches(*[1] * 10)) == (AcquiredRecords(0, 3, 1),)
    assert not partition.can_acquire()
    partition.settle(acknowledge(partition, 1, 2), is_written=True)
    assert acquire(partition, batches(*[1] * 10)) == (AcquiredRecords(4, 5, 1),)


def test_what_is_released_comes_before_what_is_new() -> None:
    partition = new()
    acquire(partition, batches(2, 2, 2), AcquireLimits(6, 1))
    partition.settle(acknowledge(partition, 2, 3, RELEASE), is_written=True)
    assert partition.next_fetch_offset() == 2
    assert acquire(partition, batches(2, 2, 2, 2), member="other") == (
        AcquiredRecords(2, 3, 2),
        AcquiredRecords(6, 7, 1),
    )


def test_nothing_is_settled_before_it_is_written() -> None:
    partition = new()
    acquire(partition, batches(4))
    write = acknowledge(partition, 0, 1)
    assert write.batches == (StoredBatch(0, 1, ACKNOWLEDGED, 1),)
    assert (partition.start_offset, partition.completed) == (0, 2)
    with pytest.raises(KafkaError) as raised:
        acknowledge(partition, 1, 2)
    assert raised.value.code is ErrorCode.invalid_record_state
    partition.settle(write, is_written=True)
    assert partition.start_offset == 2


def test_a_write_that_fails_leaves_the_lock_as_it_was() -> None:
    partition = new()
    acquire(partition, batches(4))
    before = states(partition)
    partition.settle(acknowledge(partition, 0, 1, REJECT), is_written=False)
    assert states(partition) == before
    partition.settle(acknowledge(partition, 0, 3), is_written=True)
    assert (partition.start_offset, partition.end_offset) == (4, 4)


def test_a_lock_that_ends_while_its_write_fails_ends_then() -> None:
    partition = new()
    acquire(partition, batches(2))
    write = acknowledge(partition, 0, 1)
    assert partition.expire(2_000) is None
    assert partition.next_deadline_ms() is None
    partition.settle(write, is_written=False)
    assert partition.next_deadline_ms() == 1_000
    assert partition.expire(2_000) is not None
    assert states(partition) == [(0, 1, AVAILABLE, 1)]


def test_records_are_archived_once_they_were_delivered_as_often_as_allowed() -> None:
    partition = new()
    for count in (1, 2, 3):
        assert acquire(partition, batches(1, 1), AcquireLimits(1)) == (AcquiredRecords(0, 0, count),)
        partition.settle(acknowledge(partition, 0, 0, RELEASE), is_written=True)
    assert partition.start_offset == 1


@pytest.mark.parametrize("kind", [REJECT, GAP])
def test_rejected_records_and_gaps_are_archived(kind: AcknowledgeType) -> None:
    partition = new()
    acquire(partition, batches(3))
    write = acknowledge(partition, 1, 1, kind)
    assert write.batches == (StoredBatch(1, 1, ARCHIVED, 1),)
    partition.settle(write, is_written=True)
    assert states(partition)[1] == (1, 1, ARCHIVED, 1)


def test_a_lock_ends_after_its_time_and_what_it_held_is_written() -> None:
    partition = new()
    acquire(partition, batches(2), now_ms=5)
    assert partition.next_deadline_ms() == 1_005
    assert partition.expire(1_004) is None
    assert partition.expire(1_005) == Write(None, (), (StoredBatch(0, 1, AVAILABLE, 1),))
    assert acquire(partition, batches(2), member="other") == (AcquiredRecords(0, 1, 2),)


def test_a_renewed_lock_lasts_for_its_time_from_then_on() -> None:
    partition = new()
    acquire(partition, batches(2))
    assert partition.acknowledge("m", [Acknowledged(0, 1, RENEW)], 900) is None
    assert partition.expire(1_500) is None
    assert partition.next_deadline_ms() == 1_900


def test_who_closes_in_order_gives_deliveries_back_and_who_is_lost_does_not() -> None:
    for was_given, count in ((False, 0), (True, 1)):
        partition = new()
        acquire(partition, batches(2))
        write = partition.release("m", was_given=was_given)
        assert write is not None
        partition.settle(write, is_written=True)
        assert states(partition) == [(0, 1, AVAILABLE, count)]
        assert partition.release("m", was_given=was_given) is None


def test_what_is_given_back_at_once_was_never_acquired() -> None:
    partition = new()
    partition.give_back(acquire(partition, batches(2)))
    assert acquire(partition, batches(2), member="other") == (AcquiredRecords(0, 1, 1),)


def test_only_the_holder_says_what_becomes_of_records_and_all_or_nothing() -> None:
    partition = new()
    acquire(partition, batches(2, 2), AcquireLimits(1))
    acquire(partition, batches(2, 2), AcquireLimits(1), member="other")
    before = states(partition)
    with pytest.raises(KafkaError) as raised:
        partition.acknowledge("m", [Acknowledged(0, 1, ACCEPT), Acknowledged(2, 3, ACCEPT)], 0)
    assert raised.value.code is ErrorCode.invalid_record_state
    assert states(partition) == before
    assert all(run.lot.change is None for run in partition.runs)


def test_what_was_never_acquired_cannot_be_acknowledged() -> None:
    partition = new()
    with pytest.raises(KafkaError) as raised:
        acknowledge(partition, 0, 0)
    assert raised.value.code is ErrorCode.invalid_record_state
    acquire(partition, batches(2))
    with pytest.raises(KafkaError) as raised:
        acknowledge(partition, 0, 2)
    assert raised.value.code is ErrorCode.invalid_request


def test_what_is_finished_below_the_start_is_acknowledged_again_without_a_write() -> None:
    partition = new()
    acquire(partition, batches(4))
    partition.settle(acknowledge(partition, 0, 1), is_written=True)
    assert partition.acknowledge("m", [Acknowledged(0, 1, ACCEPT)], 0) is None
    assert acknowledge(partition, 1, 2).batches == (StoredBatch(2, 2, ACKNOWLEDGED, 1),)


def test_offsets_without_a_record_are_archived_unseen() -> None:
    """3 to 4 were compacted away, 7 is a marker, 8 to 9 an aborted batch."""
    partition = new()
    log = [
        FetchedBatch(0, 2),
        FetchedBatch(5, 6),
        FetchedBatch(7, 7, has_records=False),
        FetchedBatch(8, 9, has_records=False),
    ]
    assert acquire(partition, log) == (AcquiredRecords(0, 2, 1), AcquiredRecords(5, 6, 1))
    assert (partition.end_offset, partition.in_flight) == (10, 5)
    partition.settle(acknowledge(partition, 0, 2), is_written=True)
    partition.settle(acknowledge(partition, 5, 6), is_written=True)
    assert partition.start_offset == 10


def test_a_log_that_was_compacted_while_records_were_given_loses_nothing_else() -> None:
    partition = new()
    acquire(partition, batches(6))
    partition.settle(acknowledge(partition, 0, 5, RELEASE), is_written=True)
    assert acquire(partition, [FetchedBatch(4, 5)]) == (AcquiredRecords(4, 5, 2),)
    assert partition.start_offset == 4


def test_what_the_log_no_longer_has_is_let_go() -> None:
    partition = new()
    acquire(partition, batches(4))
    write = acknowledge(partition, 0, 3)
    partition.log_start_moved(2)
    assert partition.start_offset == 2
    partition.settle(write, is_written=True)
    assert partition.start_offset == 4
    partition.log_start_moved(10)
    assert (partition.start_offset, partition.next_fetch_offset()) == (10, 10)
    partition.log_start_moved(5)
    assert partition.start_offset == 10


def test_what_was_written_is_loaded_and_gaps_in_it_were_never_finished() -> None:
    stored = [
        StoredBatch(7, 8, AVAILABLE, 2),
        StoredBatch(5, 5, ACKNOWLEDGED, 1),
        StoredBatch(2, 3, ACKNOWLEDGED, 1),
    ]
    partition = SharePartition.load(2, stored, SETTINGS)
    assert states(partition) == [
        (4, 4, AVAILABLE, 0),
        (5, 5, ACKNOWLEDGED, 1),
        (6, 6, AVAILABLE, 0),
        (7, 8, AVAILABLE, 2),
    ]
    assert partition.is_idle
    assert acquire(partition, batches(*[1] * 9), AcquireLimits(100, 100)) == (
        AcquiredRecords(4, 4, 1),
        AcquiredRecords(6, 6, 1),
        AcquiredRecords(7, 8, 3),
    )


def test_a_lock_that_was_written_is_of_the_leader_that_gave_it() -> None:
    assert states(SharePartition.load(0, [StoredBatch(0, 1, ACQUIRED, 2)], SETTINGS)) == [(0, 1, AVAILABLE, 2)]


@pytest.mark.parametrize(
    "stored",
    [
        [StoredBatch(2, 1, AVAILABLE, 0)],
        [StoredBatch(2, 3, 3, 0)],
        [StoredBatch(2, 4, AVAILABLE, 0), StoredBatch(4, 5, AVAILABLE, 0)],
    ],
)
def test_what_no_leader_has_written_is_not_loaded(stored: list[StoredBatch]) -> None:
    with pytest.raises(KafkaError, match="do not overlap"):
        SharePartition.load(0, stored, SETTINGS)


def test_finished_runs_of_two_kinds_behind_a_stuck_record_are_bounded() -> None:
    partition = new(settings=ShareSettings(locks_max=2))
    acquire(partition, batches(1))
    offset = 1
    while partition.can_acquire():
        acquire(partition, batches(1, start=offset))
        kind = ACCEPT if offset % 2 else REJECT
        partition.settle(acknowledge(partition, offset, offset, kind), is_written=True)
        offset += 1
    assert offset == 9


def test_no_more_is_acquired_than_a_share_coordinator_can_keep() -> None:
    stored = [StoredBatch(2 * n + 1, 2 * n + 1, ACKNOWLEDGED, 1) for n in range(RUNS_MAX // 2 + 1)]
    partition = SharePartition.load(0, stored, ShareSettings(locks_max=10_000))
    end = partition.end_offset
    assert acquire(partition, batches(1, start=end)) == ()
    assert 2 * RUNS_MAX <= BATCHES_MAX


def test_a_lock_is_not_renewed_where_the_group_says_so() -> None:
    partition = new(settings=ShareSettings(lock_ms=1_000, may_renew=False))
    acquire(partition, batches(2))
    with pytest.raises(KafkaError) as caught:
        partition.acknowledge("m", [Acknowledged(0, 0, ACCEPT), Acknowledged(1, 1, RENEW)], 900)
    assert caught.value.code is ErrorCode.invalid_record_state
    assert states(partition) == [(0, 1, ACQUIRED, 1)]
    assert partition.next_deadline_ms() == 1_000
    assert partition.acknowledge("m", [Acknowledged(0, 1, ACCEPT)], 900) is not None
