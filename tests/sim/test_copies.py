"""Judges of partitions that were read from the tier alone, or followed, and of ledgers that were kept as files."""

from __future__ import annotations

from dataclasses import replace

from tierfetch.protocol.records import Record, build_batch
from tierfetch.protocol.records.control import ControlType
from tierfetch.sim.judges.core.clients.copies import (
    Described,
    committed_offsets,
    within,
    wrong_batches,
    wrong_offsets,
    wrong_segments,
)
from tierfetch.sim.judges.core.replicas import StoredBatch, batches_of
from tierfetch.sim.scenarios.looks.ledger_snapshots import differing
from tierfetch.tests.remote.builders import ledger_of, segment
from tierfetch.tests.sim.test_reading import marker


def batch(offset: int, count: int = 2, producer_id: int = -1, value: bytes = b"") -> bytes:
    """Of a transaction, if it has a producer."""
    records = [Record(offset + number, 1_000, None, value) for number in range(count)]
    transaction = producer_id >= 0
    epoch, sequence = (0, 0) if transaction else (-1, -1)
    return build_batch(
        records,
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=transaction,
    )


def stored(*parts: bytes) -> list[StoredBatch]:
    return list(batches_of(b"".join(parts)))


def test_a_copy_has_every_batch_between_its_ends_and_no_other() -> None:
    right = within(stored(batch(0), batch(2), batch(4)), 3, 5)
    assert list(right) == [2, 4], "those that have some records between"
    assert not list(wrong_batches(dict(right), right))
    assert list(wrong_batches({2: right[2]}, right)) == ["no batch at offset 4"]
    assert list(wrong_batches(right, {2: right[2]})) == ["a batch at offset 4 that the cluster has not"]
    (other,) = stored(batch(2, value=b"other"))
    assert list(wrong_batches(right | {2: other}, right)) == ["another batch at offset 2 than the cluster has"]


def test_of_two_batches_at_an_offset_the_later_one_counts() -> None:
    (first,), (second,) = stored(batch(0, value=b"tier")), stored(batch(0, value=b"local"))
    assert within([first, second], 0, 9) == {0: second}


def test_a_reader_is_shown_what_was_committed_up_to_the_first_open_transaction() -> None:
    log = stored(
        batch(0, producer_id=1),
        batch(2),
        batch(4, producer_id=2),
        marker(6, ControlType.ABORT, 1),
        marker(7, ControlType.COMMIT, 2),
    )
    assert committed_offsets(log) == [2, 3, 4, 5]
    assert committed_offsets(log[:-1]) == [2, 3]
    assert committed_offsets(log[:-2]) == []


def test_a_reader_that_is_shown_too_much_or_too_little_is_convicted() -> None:
    assert not list(wrong_offsets([0, 1], [0, 1]))
    assert list(wrong_offsets([0, 2], [0, 1])) == ["2 of 2 records; without [1], with [2] beside"]
    assert list(wrong_offsets([1, 0], [0, 1])), "in another order"


def test_objects_say_of_a_segment_what_its_metadata_say() -> None:
    first, second = (Described.of(segment(number, number * 10, number * 10 + 9)) for number in (0, 1))
    assert not list(wrong_segments({"a": first}, {"a": first}))
    assert len(list(wrong_segments({"a": first}, {"a": second}))) == 1
    assert len(list(wrong_segments({"a": first}, {"b": first}))) == 2
    assert Described.of(segment(0, 0, 9, txn_index_empty=False)) != first


def test_ledgers_differ_by_a_segment_that_one_lacks_or_has_otherwise() -> None:
    one, two = segment(1, 0, 9), segment(2, 10, 19)
    whole = ledger_of(one, two)
    right = {whole.partition: whole}
    assert not list(differing({whole.partition: ledger_of(two, one)}, right, "it has"))
    for other in (
        {},
        {whole.partition: ledger_of(one)},
        {whole.partition: ledger_of(one, replace(two, end_offset=20))},
    ):
        assert len(list(differing(other, right, "it has"))) == 1
    assert not list(differing(right, {}, "it has")), "of partitions that are not asked for nothing is said"
