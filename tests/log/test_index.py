"""The indexes: Kafka's own files, naive models, and bytes that cannot be an index."""

from __future__ import annotations

import re
import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.log.core import (
    AbortedTransaction,
    CorruptFileError,
    OffsetIndex,
    OffsetPosition,
    TimeIndex,
    TimestampOffset,
    TransactionIndex,
)
from tierfetch.log.core.index import RELATIVE_OFFSET_MAX
from tierfetch.protocol.records import iter_batches
from tierfetch.tests import samples

BASE = 1000


def base_offset(path: Path) -> int:
    return int(re.match(r"\d+", path.name)[0])


def sample_files(suffix: str) -> list[Path]:
    files = sorted(path for path in samples.ROOT.rglob(f"*{suffix}") if path.is_file())
    assert files
    return files


def log_of(index: Path) -> list[tuple[int, int, int, int]]:
    """(position, base offset, last offset, max timestamp) of each batch in the log beside an index."""
    data = index.with_suffix(".log").read_bytes()
    return [
        (position, header.base_offset, header.last_offset, header.max_timestamp)
        for position, header in iter_batches(data)
    ]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_kafkas_index_files_decode_and_encode_to_the_same_bytes(suffix):
    kind = OffsetIndex if suffix == ".index" else TimeIndex
    entries = 0
    for path in sample_files(suffix):
        data = path.read_bytes()
        index = kind.decode(data, base_offset(path), name=str(path))
        index.check(name=str(path))
        assert index.encode() == data, path
        padded = kind.decode(data + bytes(kind._entry.size * 100), base_offset(path))
        assert padded.encode() == data, path
        entries += len(index)
    assert entries > 100


def test_kafkas_transaction_index_files_decode_and_encode_to_the_same_bytes():
    for path in sample_files(".txnindex"):
        data = path.read_bytes()
        index = TransactionIndex.decode(data, name=str(path))
        assert index.encode() == data, path
        assert len(list(index)) == len(index)
        for aborted in index:
            assert aborted.first_offset <= aborted.last_offset
            assert aborted.last_stable_offset <= aborted.last_offset + 1


def test_every_look_up_in_kafkas_offset_indexes_leads_to_the_batch():
    for path in samples.partition_directory("s-none").glob("*.index"):
        index = OffsetIndex.decode(path.read_bytes(), base_offset(path))
        batches = log_of(path)
        starts = {position for position, *_ in batches}
        for position, first, last, _ in batches:
            for offset in (first, last):
                found = index.lookup(offset)
                assert found.position in starts
                assert found.offset <= offset
                assert found.position <= position


def test_every_look_up_in_kafkas_time_indexes_leads_to_the_first_batch_that_reaches_the_timestamp():
    for path in samples.partition_directory("s-none").glob("*.timeindex"):
        times = TimeIndex.decode(path.read_bytes(), base_offset(path))
        offsets = OffsetIndex.decode(path.with_suffix(".index").read_bytes(), base_offset(path))
        batches = log_of(path)
        for timestamp in {batch[3] for batch in batches}:
            start = offsets.lookup(times.lookup(timestamp).offset).position
            first = next(position for position, _, _, newest in batches if newest >= timestamp)
            assert start <= first


@pytest.mark.parametrize("index", [OffsetIndex(BASE), TimeIndex(BASE)])
def test_an_empty_index_points_at_the_begin_of_the_segment(index):
    assert index.lookup(BASE + 5) in (OffsetPosition(BASE, 0), TimestampOffset(-1, BASE))
    assert len(index) == index.size_bytes == 0
    index.truncate_to(BASE)
    index.check()
    assert index.encode() == b""


def test_entries_have_kafkas_layout():
    offsets, times, transactions = OffsetIndex(BASE), TimeIndex(BASE), TransactionIndex()
    offsets.append(BASE + 1, 4096)
    times.maybe_append(1_700_000_000_000, BASE + 1)
    transactions.append(AbortedTransaction(7, 3, 9, 3))
    assert offsets.encode() == struct.pack(">ii", 1, 4096)
    assert times.encode() == struct.pack(">qi", 1_700_000_000_000, 1)
    assert transactions.encode() == struct.pack(">hqqqq", 0, 7, 3, 9, 3)
    offsets.append(BASE + 2, 8192)
    assert offsets.encode(8) == struct.pack(">ii", 2, 8192)


@pytest.mark.parametrize("offset", [BASE - 1, BASE + RELATIVE_OFFSET_MAX + 1])
def test_offsets_too_far_from_the_base_do_not_fit(offset):
    index = OffsetIndex(BASE)
    assert not index.can_append(offset)
    with pytest.raises(AssertionError):
        index.append(offset, 1)
    assert index.can_append(BASE + RELATIVE_OFFSET_MAX)


def test_our_own_appends_out_of_order_are_caught():
    offsets, times, transactions = OffsetIndex(BASE), TimeIndex(BASE), TransactionIndex()
    offsets.append(BASE + 5, 10)
    times.maybe_append(100, BASE + 5)
    transactions.append(AbortedTransaction(1, 5, 9, 5))
    for offset, position in [(BASE + 5, 20), (BASE + 4, 20), (BASE + 6, 10)]:
        with pytest.raises(AssertionError):
            offsets.append(offset, position)
    with pytest.raises(AssertionError):
        times.maybe_append(101, BASE + 4)
    with pytest.raises(AssertionError):
        transactions.append(AbortedTransaction(2, 1, 9, 1))


def test_a_time_index_keeps_only_entries_that_are_younger_than_the_last():
    times = TimeIndex(BASE)
    assert [times.maybe_append(*entry) for entry in [(5, BASE), (5, BASE + 1), (4, BASE + 2), (6, BASE + 2)]] == [
        True,
        False,
        False,
        True,
    ]
    assert times.last_entry == TimestampOffset(6, BASE + 2)


def test_an_index_is_full_at_its_size_limit_and_the_time_index_one_entry_before():
    offsets, times = OffsetIndex(0, max_bytes=20), TimeIndex(0, max_bytes=40)
    for step in (1, 2):
        assert (offsets.is_full, times.is_full) == (False, False)
        offsets.append(step, step)
        times.maybe_append(step, step)
    assert (offsets.is_full, times.is_full) == (True, True)


OffsetEntries = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 9)), max_size=30)


@given(steps=OffsetEntries, cut=st.integers(-1, 130), asked=st.integers(0, 130), position=st.integers(0, 300))
def test_offset_index_agrees_with_a_list(steps, cut, asked, position):
    index, model, offset, end = OffsetIndex(BASE), [], BASE, 0
    for offset_step, position_step in steps:
        offset, end = offset + offset_step, end + position_step
        index.append(offset, end)
        model.append(OffsetPosition(offset, end))
    assert index.last_entry == (model[-1] if model else None)
    if cut >= 0:
        index.truncate_to(BASE + cut)
        model = [entry for entry in model if entry.offset < BASE + cut]
    index = OffsetIndex.decode(index.encode() + bytes(80), BASE)
    index.check()
    assert len(index) == len(model)
    below = [entry for entry in model if entry.offset <= BASE + asked]
    assert index.lookup(BASE + asked) == (below[-1] if below else OffsetPosition(BASE, 0))
    at_or_after = [entry for entry in model if entry.position >= position]
    assert index.first_at_or_after(position) == (at_or_after[0] if at_or_after else None)
    at_or_before = [entry for entry in model if entry.position <= position]
    assert index.last_at_or_before(position) == (at_or_before[-1] if at_or_before else None)


@given(steps=st.lists(st.tuples(st.integers(-3, 5), st.integers(0, 4)), max_size=30), cut=st.integers(0, 130))
def test_time_index_agrees_with_a_list(steps, cut):
    index, model, timestamp, offset = TimeIndex(BASE), [], 100, BASE
    for time_step, offset_step in steps:
        timestamp, offset = timestamp + time_step, offset + offset_step
        if index.maybe_append(timestamp, offset):
            model.append(TimestampOffset(timestamp, offset))
    index.truncate_to(BASE + cut)
    model = [entry for entry in model if entry.offset < BASE + cut]
    index = TimeIndex.decode(index.encode() + bytes(120), BASE)
    index.check()
    for asked in range(90, 260):
        below = [entry for entry in model if entry.timestamp <= asked]
        assert index.lookup(asked) == (below[-1] if below else TimestampOffset(-1, BASE))


def test_a_preallocated_tail_that_is_no_whole_entry_is_cut_if_it_is_zero():
    """Kafka's 10 MiB are no multiple of a time index entry."""
    entry = struct.pack(">qi", 9, 256)
    for tail in (4, 11, 16):
        assert list(TimeIndex.decode(entry + bytes(tail), 10)) == [TimestampOffset(9, 266)]
    with pytest.raises(CorruptFileError, match="16 bytes"):
        TimeIndex.decode(entry + b"\0\0\0\1", 10)


Transactions = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 6)), max_size=20)


@given(steps=Transactions, cut=st.integers(0, 140), start=st.integers(0, 130), length=st.integers(0, 60))
def test_transaction_index_agrees_with_a_list(steps, cut, start, length):
    index, model, marker = TransactionIndex(), [], 0
    for size, step in steps:
        marker += step
        aborted = AbortedTransaction(size, max(0, marker - size), marker, max(0, marker - size // 2))
        index.append(aborted)
        model.append(aborted)
    index.truncate_to(cut)
    model = [aborted for aborted in model if aborted.last_offset < cut]
    index = TransactionIndex.decode(index.encode())
    assert list(index) == model
    found, complete = index.collect(start, start + length)
    overlapping = [each for each in model if each.last_offset >= start and each.first_offset < start + length]
    assert found == overlapping if not complete else found == overlapping[: len(found)]
    if complete:
        assert any(each.last_stable_offset >= start + length for each in model)


def test_aborted_transactions_stop_at_the_first_that_proves_there_are_no_more():
    index = TransactionIndex()
    index.append(AbortedTransaction(1, 0, 5, 3))
    index.append(AbortedTransaction(2, 3, 8, 9))
    index.append(AbortedTransaction(3, 12, 20, 21))
    assert index.collect(0, 9) == ([AbortedTransaction(1, 0, 5, 3), AbortedTransaction(2, 3, 8, 9)], True)
    assert index.collect(6, 13) == ([AbortedTransaction(2, 3, 8, 9), AbortedTransaction(3, 12, 20, 21)], True)
    assert index.collect(6, 12) == ([AbortedTransaction(2, 3, 8, 9)], True)
    assert index.collect(9, 21) == ([AbortedTransaction(3, 12, 20, 21)], True)
    assert index.collect(6, 22) == ([AbortedTransaction(2, 3, 8, 9), AbortedTransaction(3, 12, 20, 21)], False)


@pytest.mark.parametrize(
    ("decode", "message"),
    [
        (lambda: OffsetIndex.decode(b"\1" * 9, 0, name="dir/7.index"), "dir/7.index: 9 bytes.* 8"),
        (lambda: TimeIndex.decode(b"\1" * 13, 0), "time index: 13 bytes.* 12"),
        (lambda: TransactionIndex.decode(b"\0" * 35), "transaction index: 35 bytes.* 34"),
        (lambda: OffsetIndex.decode(struct.pack(">ii", -1, 5), 7), "below the base offset 7"),
        (lambda: TransactionIndex.decode(struct.pack(">hqqqq", 1, 0, 0, 0, 0)), "entry 0 of 1: version 1"),
        (
            lambda: TransactionIndex.decode(struct.pack(">hqqqqhqqqq", 0, 1, 2, 3, 2, 0, 1, 2, 3, 2)),
            "entry 1 of 2: last offset 3 must be above 3",
        ),
        (
            lambda: OffsetIndex.decode(struct.pack(">iiii", 2, 5, 2, 6), 10).check(name="x"),
            r"x: entry 1 of 2: .*\(12, 6\) must be above \(12, 5\)",
        ),
        (
            lambda: OffsetIndex.decode(struct.pack(">iiii", 2, 5, 3, 5), 10).check(),
            r"offset index: entry 1 of 2: .*\(13, 5\) must be above \(12, 5\)",
        ),
        (
            lambda: TimeIndex.decode(struct.pack(">qiqi", 9, 5, 9, 6), 10).check(),
            r"\(9, 16\) must be above \(9, 15\)",
        ),
        (
            lambda: TimeIndex.decode(struct.pack(">qiqi", 9, 5, 10, 4), 10).check(),
            r"\(10, 14\) must be above \(9, 15\)",
        ),
        (
            lambda: TimeIndex.decode(struct.pack(">qiqi", 9, 5, 8, 6), 10).check(),
            r"time index: entry 1 of 2: .*\(8, 16\) must be above \(9, 15\)",
        ),
    ],
)
def test_bytes_that_are_no_index_say_what_is_wrong(decode, message):
    with pytest.raises(CorruptFileError, match=message):
        decode()


@given(st.binary(max_size=200))
def test_foreign_bytes_decode_or_are_corrupt_and_nothing_else(data):
    for decode in (
        lambda: OffsetIndex.decode(data, 5).check(),
        lambda: TimeIndex.decode(data, 5).check(),
        lambda: list(TransactionIndex.decode(data)),
    ):
        with suppress(CorruptFileError):
            decode()
