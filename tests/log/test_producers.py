"""Producer state: Kafka's own logs and snapshots, and the rules for duplicates, sequences, epochs and transactions."""

from __future__ import annotations

import struct
import sys
from contextlib import suppress

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.log.core import (
    AbortedTransaction,
    CorruptFileError,
    ProducerStateManager,
    TransactionIndex,
    decode_snapshot,
    encode_snapshot,
)
from tierfetch.log.core import producers as producers_module
from tierfetch.log.core.packed_producer import PackedEntry, pack_entry, unpack_entry
from tierfetch.log.core.producer_snapshot import DECODED_SLICE_ENTRIES, SLICE_ENTRIES, decoded_slices
from tierfetch.log.core.producer_state import BatchMetadata, ProducerStateEntry
from tierfetch.log.core.producers import (
    EXPIRE_SLICE,
    RECENT_MAX,
    AppendOrigin,
    CompletedTransaction,
    OpenTransaction,
)
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.records import (
    CONTROL_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    iter_batches,
    iter_records,
)
from tierfetch.protocol.records.control import (
    ControlType,
    EndTransactionMarker,
    control_type,
    parse_end_transaction_marker,
)
from tierfetch.tests import samples

SEQUENCE_MAX = 2**31 - 1
CLIENT, COORDINATOR, REPLICATION = AppendOrigin.CLIENT, AppendOrigin.COORDINATOR, AppendOrigin.REPLICATION
COMMIT, ABORT = ControlType.COMMIT, ControlType.ABORT


def batch(offset=0, *, pid=7, epoch=0, sequence=0, records=1, timestamp=1000, attributes=0) -> BatchHeader:
    return BatchHeader(
        base_offset=offset,
        batch_length=100,
        partition_leader_epoch=0,
        magic=2,
        crc=0,
        attributes=attributes,
        last_offset_delta=records - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=records,
    )


def transactional(offset=0, **fields) -> BatchHeader:
    return batch(offset, attributes=TRANSACTIONAL_BIT, **fields)


def marker_batch(offset=0, **fields) -> BatchHeader:
    return batch(offset, sequence=-1, attributes=TRANSACTIONAL_BIT | CONTROL_BIT, **fields)


def end(kind=COMMIT, coordinator_epoch=0) -> EndTransactionMarker:
    return EndTransactionMarker(kind, coordinator_epoch)


def producers(*headers: BatchHeader, end_offset=0) -> ProducerStateManager:
    manager = ProducerStateManager(end_offset)
    for header in headers:
        manager.apply(header)
    return manager


def refused(manager: ProducerStateManager, header: BatchHeader, origin=CLIENT, **options) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        manager.check(header, origin, **options)
    assert f"producer {header.producer_id} epoch {header.producer_epoch}: " in str(caught.value)
    return caught.value.code


# Kafka's own logs.


def marker_in(data: bytes, position: int, header: BatchHeader) -> EndTransactionMarker | None:
    if not header.is_control or not header.has_producer_id:
        return None
    (record,) = iter_records(data, position, header)
    return parse_end_transaction_marker(record) if control_type(record) in {COMMIT, ABORT} else None


def replay(topic: str) -> dict[int, tuple[dict[int, ProducerStateEntry], list[AbortedTransaction]]]:
    """What a snapshot would hold, and the aborted transactions so far, at the end of each batch of a topic."""
    manager, aborted = ProducerStateManager(), []
    states = {0: ({}, [])}
    for path in samples.log_files(topic):
        data = path.read_bytes()
        for position, header in iter_batches(data):
            marker = marker_in(data, position, header)
            manager.check(header, REPLICATION, marker=marker)
            completed = manager.apply(header, marker=marker)
            if completed is not None and completed.is_aborted:
                aborted.append(completed.aborted)
            states[header.next_offset] = by_producer(manager.snapshot()), list(aborted)
    return states


def by_producer(snapshot: bytes) -> dict[int, ProducerStateEntry]:
    return {entry.producer_id: entry for entry in decode_snapshot(snapshot)}


@pytest.mark.parametrize("topic", [topic for topic in samples.TOPICS if topic not in {"s-compact", "s-jlz4"}])
def test_replay_of_kafkas_logs_gives_kafkas_snapshots_and_transaction_indexes(topic):
    states = replay(topic)
    directory = samples.partition_directory(topic)
    snapshots = sorted(directory.glob("*.snapshot"))
    assert snapshots
    for path in snapshots:
        assert states[int(path.name[:20])][0] == by_producer(path.read_bytes()), path
    logs = sorted(directory.glob("*.log"))
    ends = [*(int(path.name[:20]) for path in logs[1:]), max(states)]
    for path, end_offset in zip(logs, ends, strict=True):
        index = path.with_suffix(".txnindex")
        kafkas = list(TransactionIndex.decode(index.read_bytes())) if index.exists() else []
        before = states[int(path.name[:20])][1]
        assert states[end_offset][1][len(before) :] == kafkas, path


def test_kafkas_snapshots_decode_and_encode_to_the_same_bytes():
    entries = 0
    for path in sorted(samples.ROOT.rglob("*.snapshot")):
        if "__cluster_metadata" in str(path):
            continue  # the quorum's snapshots share nothing but the name
        decoded = decode_snapshot(path.read_bytes(), name=str(path))
        assert encode_snapshot(decoded) == path.read_bytes(), path
        entries += len(decoded)
    assert entries > 100


def test_F10_a_duplicate_that_lives_only_in_the_tier_is_still_known_from_the_tiered_snapshot():
    directory = samples.tier_directory("s-trim")
    for path in directory.glob("*.snapshot"):
        data = path.with_suffix(".log").read_bytes()
        last = {}
        for _, header in iter_batches(data):
            end_offset = header.next_offset
            if header.has_producer_id and not header.is_control:
                last[header.producer_id] = header
        manager = ProducerStateManager.from_snapshot(path.read_bytes(), end_offset, name=str(path))
        for header in last.values():
            duplicate = manager.check(header, CLIENT)
            assert duplicate is not None
            assert (duplicate.first_offset, duplicate.last_offset) == (header.base_offset, header.last_offset)


# Duplicates and sequences.


def test_a_batch_without_producer_id_moves_the_end_alone():
    manager = ProducerStateManager()
    header = batch(5, pid=-1, epoch=-1, sequence=-1, records=3)
    assert manager.check(header, CLIENT) is None
    assert manager.apply(header) is None
    assert manager.map_end_offset == 8
    assert not manager.entries


def test_duplicates_among_the_last_five_batches_are_answered_with_their_offsets():
    sent = [batch(10 * i, sequence=2 * i, records=2, timestamp=100 + i) for i in range(6)]
    manager = producers(*sent)
    for i in range(1, 6):
        resent = sent[i]._replace(base_offset=999)
        duplicate = manager.check(resent, CLIENT)
        assert duplicate == BatchMetadata(2 * i + 1, 10 * i + 1, 1, 100 + i)
        assert (duplicate.first_offset, duplicate.first_sequence) == (10 * i, 2 * i)
    assert refused(manager, sent[0]) is ErrorCode.out_of_order_sequence_number  # the sixth is forgotten
    assert producers(batch(4)).check(batch(9), CLIENT) == BatchMetadata(0, 4, 0, 1000)  # the very first sequence
    longer = batch(sequence=8, records=4)
    assert refused(manager, longer) is ErrorCode.out_of_order_sequence_number  # overlaps, but is no duplicate
    assert manager.entries[7].batches == tuple(BatchMetadata(2 * i + 1, 10 * i + 1, 1, 100 + i) for i in range(1, 6))


@pytest.mark.parametrize(
    ("last", "sequence", "accepted"),
    [
        (0, 1, True),
        (0, 2, False),
        (5, 5, False),
        (5, 0, False),
        (SEQUENCE_MAX, 0, True),
        (SEQUENCE_MAX, 1, False),
        (SEQUENCE_MAX - 1, SEQUENCE_MAX, True),
    ],
)
def test_sequences_follow_each_other_and_wrap(last, sequence, accepted):
    manager = producers(batch(0, sequence=last))
    next_batch = batch(1, sequence=sequence, records=2)
    if accepted:
        assert manager.check(next_batch, CLIENT) is None
    else:
        assert refused(manager, next_batch) is ErrorCode.out_of_order_sequence_number


def test_a_batch_may_span_the_wrap():
    spanning = batch(0, sequence=SEQUENCE_MAX - 1, records=4)
    manager = producers(spanning)
    assert manager.entries[7].last_sequence == 1
    assert manager.check(spanning, CLIENT).first_sequence == SEQUENCE_MAX - 1
    assert manager.check(batch(4, sequence=2), CLIENT) is None


def test_an_unknown_producer_may_begin_anywhere():
    assert ProducerStateManager().check(batch(sequence=42, epoch=3), CLIENT) is None


def test_a_new_epoch_begins_at_sequence_zero_and_forgets_the_batches_of_the_old():
    manager = producers(batch(0, sequence=0), batch(1, sequence=1))
    assert refused(manager, batch(2, epoch=1, sequence=2)) is ErrorCode.out_of_order_sequence_number
    bumped = batch(2, epoch=1, sequence=0)
    assert manager.check(bumped, CLIENT) is None
    manager.apply(bumped)
    assert len(manager.entries[7].batches) == 1
    assert refused(manager, batch(3, epoch=0, sequence=2)) is ErrorCode.invalid_producer_epoch
    assert refused(manager, batch(3, epoch=0, sequence=2), COORDINATOR) is ErrorCode.invalid_producer_epoch


def test_a_client_must_send_sequences():
    assert refused(ProducerStateManager(), batch(sequence=-1)) is ErrorCode.invalid_record


def test_a_coordinators_batches_have_no_sequences_to_check():
    manager = producers(batch(0, sequence=5))
    assert manager.check(batch(1, sequence=-1), COORDINATOR) is None
    assert manager.check(batch(1, sequence=5), COORDINATOR) is None  # not taken for a duplicate either


def test_what_is_replicated_is_never_refused_and_is_followed():
    manager = producers(batch(0, epoch=5, sequence=0))
    for header in (batch(1, epoch=3, sequence=9), batch(2, epoch=3, sequence=9), batch(7, epoch=4, sequence=1)):
        assert manager.check(header, REPLICATION) is None
        manager.apply(header)
        assert manager.entries[7].producer_epoch == header.producer_epoch
    assert manager.map_end_offset == 8


def test_the_end_never_moves_back():
    manager = producers(batch(5))
    with pytest.raises(AssertionError):
        manager.apply(batch(5))
    with pytest.raises(AssertionError):
        manager.advance_to(5)
    manager.advance_to(9)
    assert manager.map_end_offset == 9


# Transactions.


def test_a_transaction_is_unstable_until_its_marker_is_committed():
    manager = producers(batch(0, pid=1), transactional(1, sequence=0), transactional(2, sequence=1))
    assert manager.first_unstable_offset == manager.first_undecided_offset == 1
    manager.on_high_watermark(3)
    assert manager.first_unstable_offset == 1
    assert manager.apply(marker_batch(3), marker=end(COMMIT)) == CompletedTransaction(7, 1, 3, 4, is_aborted=False)
    assert manager.first_undecided_offset is None
    manager.on_high_watermark(3)
    assert manager.first_unstable_offset == 1
    manager.on_high_watermark(4)
    assert manager.first_unstable_offset is None


def test_an_aborted_transaction_is_listed_with_the_last_stable_offset_of_its_moment():
    manager = producers(transactional(0, pid=1), transactional(1, pid=2), transactional(2, pid=3))
    second = manager.apply(marker_batch(3, pid=2), marker=end(ABORT))
    assert second.aborted == AbortedTransaction(2, 1, 3, 0)
    assert manager.first_unstable_offset == 0
    first = manager.apply(marker_batch(4, pid=1), marker=end(ABORT))
    assert first.aborted == AbortedTransaction(1, 0, 4, 2)
    third = manager.apply(marker_batch(5, pid=3), marker=end(ABORT))
    assert third.aborted == AbortedTransaction(3, 2, 5, 6)
    assert manager.first_unstable_offset == 0
    manager.on_high_watermark(5)  # the first two markers are committed
    assert manager.first_unstable_offset == 2


def test_the_oldest_open_transaction_is_told_with_its_producer():
    manager = producers(batch(0, pid=1), transactional(1, pid=3, epoch=4), transactional(2, pid=2))
    assert manager.oldest_open == OpenTransaction(3, 4, 1)
    loaded = ProducerStateManager.from_snapshot(manager.snapshot(), 3)
    assert loaded.oldest_open == manager.oldest_open
    manager.apply(marker_batch(3, pid=3, epoch=4), marker=end(ABORT))
    assert manager.oldest_open == OpenTransaction(2, 0, 2), "the other one has ended, if not committed yet"
    manager.apply(marker_batch(4, pid=2), marker=end(COMMIT))
    assert manager.oldest_open is None


def test_a_marker_without_a_transaction_ends_nothing_but_is_remembered():
    manager = producers()
    assert manager.check(marker_batch(0, epoch=2), COORDINATOR, marker=end()) is None
    assert manager.apply(marker_batch(0, epoch=2), marker=end(coordinator_epoch=4)) is None
    assert manager.entries[7] == ProducerStateEntry(7, 2, 4, 1000)
    assert manager.check(batch(1, epoch=2, sequence=0), CLIENT) is None
    assert refused(manager, batch(1, epoch=2, sequence=3)) is ErrorCode.out_of_order_sequence_number


def test_a_control_batch_that_was_cleaned_away_ends_nothing():
    manager = producers(transactional(0))
    assert manager.check(marker_batch(1), REPLICATION) is None
    assert manager.apply(marker_batch(1)) is None
    assert manager.first_undecided_offset == 0


def test_an_open_transaction_goes_on_with_more_batches_of_its_own():
    manager = producers(transactional(4, sequence=0))
    for origin in (CLIENT, COORDINATOR):
        assert manager.check(transactional(5, sequence=1), origin) is None
    manager.apply(transactional(5, sequence=1))
    assert manager.first_undecided_offset == 4


def test_a_batch_outside_the_open_transaction_is_refused():
    manager = producers(transactional(0))
    for origin in (CLIENT, COORDINATOR):
        assert refused(manager, batch(1, sequence=1), origin) is ErrorCode.invalid_txn_state
    manager.apply(batch(1, sequence=1))  # replicated all the same: the transaction stays open
    assert manager.first_undecided_offset == 0


def test_markers_of_a_fenced_coordinator_or_producer_are_refused():
    manager = producers(transactional(0, epoch=3))
    manager.apply(marker_batch(1, epoch=3), marker=end(coordinator_epoch=5))
    manager.apply(transactional(2, epoch=3, sequence=1))
    stale_coordinator, stale_producer = end(coordinator_epoch=4), end(coordinator_epoch=5)
    fenced = ErrorCode.transaction_coordinator_fenced
    assert refused(manager, marker_batch(3, epoch=3), COORDINATOR, marker=stale_coordinator) is fenced
    invalid = ErrorCode.invalid_producer_epoch
    assert refused(manager, marker_batch(3, epoch=2), COORDINATOR, marker=stale_producer) is invalid
    for stale in (stale_coordinator, stale_producer):
        assert manager.check(marker_batch(3, epoch=2), REPLICATION, marker=stale) is None
    assert manager.check(marker_batch(3, epoch=3), COORDINATOR, marker=end(coordinator_epoch=5)) is None


@pytest.mark.parametrize(
    ("epoch", "is_open", "version", "accepted"),
    [
        (3, True, 0, True),
        (3, True, 1, True),
        (2, True, 1, False),
        (3, True, 2, False),  # version 2: the coordinator bumps the epoch with each marker
        (4, True, 2, True),
        (3, False, 2, True),  # the same marker again
        (2, False, 2, False),
    ],
)
def test_transaction_version_2_markers_carry_a_bumped_epoch(epoch, is_open, version, accepted):
    manager = producers(transactional(0, epoch=3))
    if not is_open:
        manager.apply(marker_batch(1, epoch=3), marker=end())
    header = marker_batch(5, epoch=epoch)
    if accepted:
        assert manager.check(header, COORDINATOR, marker=end(), transaction_version=version) is None
    else:
        code = refused(manager, header, COORDINATOR, marker=end(), transaction_version=version)
        assert code is ErrorCode.invalid_producer_epoch


def test_after_a_bumped_marker_the_producer_goes_on_with_the_new_epoch_at_sequence_zero():
    manager = producers(transactional(0, epoch=3, sequence=8))
    assert manager.apply(marker_batch(1, epoch=4), marker=end()).first_offset == 0
    assert manager.entries[7].batches == ()
    assert refused(manager, transactional(2, epoch=3, sequence=9)) is ErrorCode.invalid_producer_epoch
    assert manager.check(transactional(2, epoch=4, sequence=0), CLIENT) is None


def test_an_unbumped_marker_keeps_the_batches_for_duplicates():
    sent = transactional(0, epoch=3, sequence=8)
    manager = producers(sent)
    manager.apply(marker_batch(1, epoch=3), marker=end())
    assert manager.check(sent, CLIENT) is not None


def test_raising_the_log_start_forgets_completed_transactions_below_but_no_producer():
    manager = producers(transactional(0))
    manager.apply(marker_batch(1), marker=end())
    manager.on_log_start_offset(10)
    assert manager.first_unstable_offset is None
    assert manager.map_end_offset == 10
    assert 7 in manager.entries


# Expiry.


def test_producers_expire_but_never_with_an_open_transaction():
    manager = ProducerStateManager(expiration_ms=100)
    manager.apply(batch(0, pid=1, timestamp=1000))
    manager.apply(batch(1, pid=2, timestamp=1050))
    manager.apply(transactional(2, pid=3, timestamp=1000))
    assert manager.expire(1099) == 0
    assert manager.expire(1100) == 1
    assert sorted(manager.entries) == [2, 3]
    assert manager.expire(10_000) == 1
    assert sorted(manager.entries) == [3]
    manager.apply(marker_batch(3, pid=3, timestamp=2000), marker=end())
    assert manager.expire(10_000) == 1


def test_F6_an_adopted_transaction_stays_open_until_its_marker_though_its_producer_is_long_idle():
    tiered = producers(transactional(0), batch(1, pid=9))
    manager = ProducerStateManager.from_snapshot(tiered.snapshot(), 2, expiration_ms=1)
    manager.on_high_watermark(2)
    manager.on_log_start_offset(2)
    assert manager.expire(10**15) == 1
    assert manager.first_unstable_offset == 0
    completed = manager.apply(marker_batch(2), marker=end(ABORT))
    assert completed.aborted == AbortedTransaction(7, 0, 2, 3)


# Snapshots.


def test_an_empty_snapshot():
    assert decode_snapshot(ProducerStateManager().snapshot()) == []


@pytest.mark.parametrize("last_offset", [3, 9])
def test_a_snapshot_whose_transaction_begins_beyond_its_offset_is_refused(last_offset):
    batches = (BatchMetadata(0, last_offset, 0, 1000),)
    entry = ProducerStateEntry(7, 0, current_txn_first_offset=12 - last_offset, batches=batches)
    with pytest.raises(CorruptFileError, match="producer 7 has offsets at or above the snapshot offset 9"):
        ProducerStateManager.from_snapshot(encode_snapshot([entry]), 9)
    ProducerStateManager.from_snapshot(encode_snapshot([entry]), 10)


def test_a_snapshot_beyond_its_offset_is_refused():
    manager = producers(batch(0), transactional(1, sequence=1))
    assert ProducerStateManager.from_snapshot(manager.snapshot(), 2).first_undecided_offset == 1
    with pytest.raises(CorruptFileError, match="S: producer 7 has offsets at or above the snapshot offset 1"):
        ProducerStateManager.from_snapshot(manager.snapshot(), 1, name="S")


def test_broken_snapshots_say_what_is_wrong():
    data = producers(batch(0), batch(1, pid=8)).snapshot()
    flipped = bytearray(data)
    flipped[20] ^= 1
    twice = encode_snapshot([ProducerStateEntry(7), ProducerStateEntry(7)])
    counted = {count: struct.pack(">i", count) + data[10:] for count in (-1, 1, 3)}
    miscounted = {count: struct.pack(">hI", 1, crc32c(body)) + body for count, body in counted.items()}
    for broken, message in [
        (b"", "S: 0 bytes, expected at least 10"),
        (b"\0\2" + data[2:], "S: version 2, expected 1"),
        (bytes(flipped), "S: CRC-32C 0x[0-9a-f]{8} expected, the content has 0x"),
        (data[:-1], "S: CRC-32C"),
        (twice, "S: a producer id is listed twice"),
        *((each, f"S: {count} producers expected, 92 bytes follow") for count, each in miscounted.items()),
        (struct.pack(">hIi", 1, crc32c(struct.pack(">i", -1)), -1), "S: -1 producers expected, 0 bytes follow"),
    ]:
        with pytest.raises(CorruptFileError, match=message):
            decode_snapshot(broken, name="S")


def many(count: int) -> list[ProducerStateEntry]:
    """Producers with an open transaction each, the latest first."""
    return [ProducerStateEntry(pid, 0, current_txn_first_offset=count - pid) for pid in range(count)]


def test_a_large_snapshot_is_decoded_in_slices():
    entries = many(2 * DECODED_SLICE_ENTRIES + 1)
    data = encode_snapshot(entries)
    assert [len(some) for some in decoded_slices(data)] == [DECODED_SLICE_ENTRIES, DECODED_SLICE_ENTRIES, 1]
    assert decode_snapshot(data) == entries
    steps = ProducerStateManager.from_snapshot_stepwise(data, len(entries) + 1)
    assert [next(steps), next(steps)] == [None, None]
    with pytest.raises(StopIteration) as end:
        next(steps)
    loaded = end.value.value
    assert loaded.snapshot() == data
    assert loaded.first_undecided_offset == 1
    twice = encode_snapshot([*entries, entries[0]])
    with pytest.raises(CorruptFileError, match="a producer id is listed twice"):
        list(decoded_slices(twice))


def test_open_transactions_of_a_snapshot_are_in_order_whatever_the_order_of_their_producers():
    manager = ProducerStateManager.from_snapshot(encode_snapshot(many(5)), 6)
    begins = []
    while (first := manager.first_undecided_offset) is not None:
        begins.append(first)
        manager.apply(marker_batch(10 + first, pid=5 - first), marker=end())
    assert begins == [1, 2, 3, 4, 5]


@given(st.binary(max_size=200))
def test_foreign_bytes_are_corrupt_and_nothing_else(data):
    with suppress(CorruptFileError):
        decode_snapshot(data)
    with suppress(CorruptFileError):
        decode_snapshot(b"\0\1" + data)


Steps = st.lists(
    st.tuples(
        st.integers(1, 4),  # producer
        st.sampled_from(["data", "transactional", "commit", "abort"]),
        st.integers(0, 2),  # offsets left out before it, as compaction does
        st.booleans(),  # the producer comes back with a new epoch
        st.integers(1, 3),  # records
    ),
    max_size=40,
)


def log_from(steps) -> list[tuple[BatchHeader, EndTransactionMarker | None]]:
    log, offset, epochs, sequences = [], 0, {}, {}
    for pid, kind, gap, is_bumped, records in steps:
        offset += gap
        if is_bumped:
            epochs[pid], sequences[pid] = epochs.get(pid, 0) + 1, 0
        epoch, sequence = epochs.get(pid, 0), sequences.get(pid, 0)
        if kind in {"commit", "abort"}:
            header = marker_batch(offset, pid=pid, epoch=epoch, timestamp=offset)
            log.append((header, end(COMMIT if kind == "commit" else ABORT)))
        else:
            make = transactional if kind == "transactional" else batch
            header = make(offset, pid=pid, epoch=epoch, sequence=sequence, records=records, timestamp=offset)
            sequences[pid] = sequence + records
            log.append((header, None))
        offset = header.next_offset
    return log


@given(Steps, st.integers(0, 40))
def test_snapshot_and_replay_of_the_rest_equal_replay_of_all(steps, cut):
    log = log_from(steps)
    whole, completed = ProducerStateManager(), []
    for header, marker in log[:cut]:
        whole.apply(header, marker=marker)
    resumed = ProducerStateManager.from_snapshot(whole.snapshot(), whole.map_end_offset)
    whole.on_high_watermark(whole.map_end_offset)
    for header, marker in log[cut:]:
        completed = [manager.apply(header, marker=marker) for manager in (whole, resumed)]
        assert completed[0] == completed[1]
    assert resumed.snapshot() == whole.snapshot()
    assert resumed.first_unstable_offset == whole.first_unstable_offset
    assert resumed.map_end_offset == whole.map_end_offset


@given(Steps, st.integers(0, 150))
def test_the_last_stable_offset_agrees_with_a_list(steps, high_watermark):
    manager, began, transactions = ProducerStateManager(), {}, []
    for header, marker in log_from(steps):
        pid = header.producer_id
        completed = manager.apply(header, marker=marker)
        if marker is None and header.is_transactional:
            began.setdefault(pid, header.base_offset)
        elif marker is not None and pid in began:
            first = began.pop(pid)
            transactions.append((first, header.base_offset))
            stable = min(began.values(), default=header.next_offset)
            aborted = marker.type is ABORT
            assert completed == CompletedTransaction(pid, first, header.base_offset, stable, is_aborted=aborted)
        else:
            assert completed is None
        manager.on_high_watermark(min(high_watermark, header.next_offset))
    unstable = [*began.values(), *(first for first, last in transactions if last >= high_watermark)]
    if not log_from(steps) or high_watermark <= manager.map_end_offset:
        assert manager.first_unstable_offset == min(unstable, default=None)


# Size: many producers.


def test_an_entry_in_memory_keeps_all_that_a_check_needs():
    manager = ProducerStateManager()
    for i in range(7):
        manager.apply(batch(10 * i, sequence=2 * i, records=2, timestamp=100 + i))
    manager.apply(marker_batch(70, timestamp=999), marker=end(coordinator_epoch=4))
    assert manager.entries[7] == ProducerStateEntry(
        7, 0, 4, 999, None, tuple(BatchMetadata(2 * i + 1, 10 * i + 1, 1, 100 + i) for i in range(2, 7))
    )
    other = ProducerStateEntry(8, 32_767, -1, -1, 2**62, (BatchMetadata(2**31 - 1, 2**62, 2**31 - 1, 2**62),))
    assert unpack_entry(8, pack_entry(other)) == other
    empty = ProducerStateEntry(9, 3)
    assert unpack_entry(9, pack_entry(empty)) == empty


NEAR_BORDERS = (0, 1, 2**15, 2**16 - 1, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40)
numbers = st.sampled_from(NEAR_BORDERS) | st.integers(0, 2**40)


@given(
    st.lists(st.tuples(st.booleans(), numbers, numbers, st.integers(-(2**40), 2**40)), max_size=5),
    st.integers(-1, 2**31 - 1),
    st.sampled_from((0, 5)),
)
def test_D10_whatever_the_batches_of_an_entry_are_packing_keeps_them(steps, sequence, younger_ms):
    """Contiguous ones and others, near each other and far."""
    batches: list[BatchMetadata] = []
    offset, timestamp = 10, 1_700_000_000_000
    for is_contiguous, delta, gap, later_ms in steps:
        delta = delta if delta < 2**31 else 0
        sequence = (sequence + delta + 1 + (0 if is_contiguous else gap)) & SEQUENCE_MAX
        offset, timestamp = offset + gap + delta + 1, timestamp + later_ms
        batches.append(BatchMetadata(sequence, offset, delta, timestamp))
    entry = ProducerStateEntry(2**40, 3, 4, timestamp + younger_ms, None, tuple(batches))
    assert unpack_entry(2**40, pack_entry(entry)) == entry


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=60))
def test_an_entry_is_the_same_packed_and_as_values(steps):
    """Against the rules of `producer_state` alone, which pack nothing."""
    manager, model = ProducerStateManager(), {}
    for offset, (pid, kind) in enumerate(steps):
        before = model.get(pid, ProducerStateEntry(pid))
        if kind == 0:
            header = marker_batch(offset, pid=pid, timestamp=offset)
            model[pid] = before.after_marker(header, end(coordinator_epoch=offset))
            manager.apply(header, marker=end(coordinator_epoch=offset))
        else:
            header = batch(offset, pid=pid, epoch=kind // 4, sequence=offset, timestamp=offset)
            model[pid] = before.after_batch(header)
            manager.apply(header)
    assert dict(manager.entries) == model
    assert manager.snapshot() == encode_snapshot(model.values())


def test_a_frozen_snapshot_is_that_of_its_moment():
    manager = producers(*(batch(i, pid=i) for i in range(3 * SLICE_ENTRIES)))
    expected = manager.snapshot()
    frozen = manager.freeze()
    steps = frozen.encode_stepwise()
    next(steps)
    manager.apply(batch(3 * SLICE_ENTRIES, pid=1, sequence=1))
    manager.expire(10**15)
    assert len(manager.entries) == 0
    content: list[bytes] = []

    def rest():
        content.append((yield from steps))

    assert len(list(rest())) == 1
    assert content == [expected]


def test_D10_an_idle_producer_expires_in_steps_and_one_that_writes_between_them_stays():
    manager = ProducerStateManager(expiration_ms=100)
    count = EXPIRE_SLICE + 2
    for i in range(count):
        manager.apply(batch(i, pid=i, timestamp=1000))
    steps = manager.expire_stepwise(1100)
    assert next(steps) == EXPIRE_SLICE
    manager.apply(batch(count, pid=EXPIRE_SLICE, sequence=1, timestamp=1050))
    assert list(steps) == [1]
    assert list(manager.entries) == [EXPIRE_SLICE]
    assert manager.expire(1100, expiration_ms=50) == 1


@pytest.mark.parametrize(("writers", "unpacked"), [(RECENT_MAX, 0), (RECENT_MAX + 1, 4 * (RECENT_MAX + 1))])
def test_D10_few_entries_are_kept_unpacked_and_none_changes_when_it_is_packed(
    writers: int, unpacked: int, monkeypatch: pytest.MonkeyPatch
):
    """They write in turn: with one more than are kept, the next one to write is the one that was dropped last."""
    calls: list[int] = []

    def counted(producer_id: int, packed: PackedEntry) -> ProducerStateEntry:
        calls.append(producer_id)
        return unpack_entry(producer_id, packed)

    monkeypatch.setattr(producers_module, "unpack_entry", counted)
    manager, written = ProducerStateManager(), list[BatchHeader]()
    for turn in range(5):
        for pid in range(writers):
            header = batch(len(written), pid=pid, sequence=turn, timestamp=turn)
            assert manager.check(header, CLIENT) is None
            manager.apply(header)
            written.append(header)
            assert len(manager._recent) <= RECENT_MAX
    assert len(calls) == unpacked
    for header in written:
        duplicate = manager.check(header, CLIENT)
        assert duplicate is not None
        assert duplicate.last_offset == header.last_offset


@pytest.mark.parametrize("batches", [1, 5])
def test_D10_an_entry_takes_at_most_200_bytes(batches: int):
    """Many producers write in turn, a hundred records each; their dictionary is as full as with 50,000."""
    count = 12_500
    manager = ProducerStateManager()
    for turn in range(batches):
        for i in range(count):
            offset = (turn * count + i) * 100
            manager.apply(batch(offset, pid=2**32 + i, sequence=turn * 100, records=100, timestamp=turn * 1000))
    assert len(manager.entries[2**32].batches) == batches
    packed = manager._entries
    used = sys.getsizeof(packed) + sum(allocated(key) + allocated(value) for key, value in packed.items())
    assert used / count <= 200


def allocated(value: object) -> int:
    """What Python's allocator, which hands out multiples of 16 bytes, takes for it."""
    return -(-sys.getsizeof(value) // 16) * 16


def test_a_new_producer_above_the_limit_is_rejected_and_the_known_ones_write_on():
    manager = ProducerStateManager(producers_max=2, expiration_ms=100)
    for i in range(2):
        manager.apply(batch(i, pid=i, timestamp=1000))
    assert refused(manager, batch(2, pid=9)) is ErrorCode.throttling_quota_exceeded
    with pytest.raises(KafkaError, match="has 2 producers, at most 2 are allowed"):
        manager.check(batch(2, pid=9), CLIENT)
    assert manager.check(batch(2, pid=0, sequence=1), CLIENT) is None
    assert manager.check(batch(2, pid=9), REPLICATION) is None, "what the leader took is a fact"
    assert manager.check(marker_batch(2, pid=9), COORDINATOR, marker=end()) is None
    manager.expire(1100)
    assert manager.check(batch(2, pid=9), CLIENT) is None
