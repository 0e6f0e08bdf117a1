"""What one batch may take: what a few bytes claim, what is read of them, and how many records a slice has."""

from __future__ import annotations

import asyncio

import pytest

from tierfetch.log.cleaner.batch_cleaning import clean_batch, note_batch
from tierfetch.log.cleaner.core.batches import BatchCleaner, Transactions
from tierfetch.log.cleaner.core.offset_map import OffsetMap
from tierfetch.protocol.errors import CorruptRecordError
from tierfetch.protocol.net import batch_reading
from tierfetch.protocol.net.batch_reading import AT_ONCE_BYTES, FREE_RECORDS, reading_batch
from tierfetch.protocol.net.pacing import SLICE_ELEMENTS
from tierfetch.protocol.records import (
    Compression,
    Record,
    build_batch,
    check_record_count,
    decompressed_bytes_max,
    iter_records,
    parse_header,
    skim_records,
)
from tierfetch.protocol.records.batch_header import HEADER, sealed
from tierfetch.protocol.records.budget import BATCH_ELEMENTS_MAX, records_max
from tierfetch.tests.bombs import batch_of, empty_records, header_bomb

MIB = 1024 * 1024


def test_headers_are_skipped_not_built() -> None:
    bomb = header_bomb(8 * MIB)
    assert len(bomb) < 700
    (record,) = skim_records(bomb, 0, parse_header(bomb))
    assert (record.offset, record.key, record.value) == (0, b"k", b"v")


def test_a_reader_of_headers_rejects_more_than_a_batch_may_have() -> None:
    with pytest.raises(CorruptRecordError, match=r"1000000 headers, where its batch may have 999999 more"):
        list(iter_records(header_bomb(BATCH_ELEMENTS_MAX)))
    assert len(next(iter_records(header_bomb(BATCH_ELEMENTS_MAX - 1))).headers) == BATCH_ELEMENTS_MAX - 1


def test_records_count_against_the_headers_of_their_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tierfetch.protocol.records.record_body.BATCH_ELEMENTS_MAX", 5)
    headers = (("a", None), ("b", b""))
    fits = build_batch([Record(0, 0, b"k", None, headers), Record(1, 0)], base_offset=0)
    assert [len(record.headers) for record in iter_records(fits)] == [2, 0]
    exceeds = build_batch([Record(0, 0, b"k", None, headers), Record(1, 0, headers=headers)], base_offset=0)
    with pytest.raises(CorruptRecordError, match="record 1 of 2"):
        list(iter_records(exceeds))


@pytest.mark.parametrize(
    ("max_message_bytes", "expected"), [(1, 16 * MIB), (MIB, 32 * MIB), (8 * MIB, 128 * MIB), (500 * MIB, 500 * MIB)]
)
def test_decompressed_bytes_are_in_proportion_to_what_a_topic_takes(max_message_bytes: int, expected: int) -> None:
    assert decompressed_bytes_max(max_message_bytes) == expected


@pytest.mark.parametrize(
    ("codec", "payload_bytes", "expected"),
    [
        (Compression.NONE, 6, 0),
        (Compression.NONE, 7, 1),
        (Compression.NONE, 700, 100),
        (Compression.LZ4, 7, 255),
        (Compression.ZSTD, 20, BATCH_ELEMENTS_MAX),
    ],
)
def test_records_that_a_batch_can_hold(codec: Compression, payload_bytes: int, expected: int) -> None:
    fields = (0, 49 + payload_bytes, -1, 2, 0, int(codec), 0, 0, 0, -1, -1, -1, 1)
    header = parse_header(sealed(HEADER.pack(*fields), bytes(payload_bytes)))
    assert records_max(header, 16 * MIB) == expected


def test_a_count_that_the_bytes_cannot_hold_is_corrupt() -> None:
    possible, claimed = batch_of(empty_records(10), 10, Compression.NONE), batch_of(b"", 2**31 - 1)
    check_record_count(parse_header(possible), MIB)
    with pytest.raises(CorruptRecordError, match=r"2147483647 records .* which can hold 149796"):
        check_record_count(parse_header(claimed), MIB)


async def slices_of(batch: bytes, bytes_max: int = 16 * MIB) -> list[int]:
    async with reading_batch(batch, 0, parse_header(batch), bytes_max) as slices:
        return [len(some) async for some in slices]


async def test_records_are_read_in_slices() -> None:
    count = FREE_RECORDS + 2 * SLICE_ELEMENTS + 7
    sizes = await slices_of(batch_of(empty_records(count), count))
    assert sizes == [FREE_RECORDS, SLICE_ELEMENTS, SLICE_ELEMENTS, 7]


async def test_a_large_batch_is_decompressed_aside_and_only_then() -> None:
    aside = batch_reading.asyncio.to_thread  # type: ignore[attr-defined]
    threads: list[object] = []

    async def counted(*arguments: object) -> object:
        threads.append(arguments[0])
        return await aside(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_reading.asyncio, "to_thread", counted)  # type: ignore[attr-defined]
        await slices_of(header_bomb((AT_ONCE_BYTES - 100) // 2))
        assert threads == []
        await slices_of(header_bomb(AT_ONCE_BYTES // 2))
        assert len(threads) == 1
        with pytest.raises(CorruptRecordError, match="the limit of 16777216 bytes"):
            await slices_of(header_bomb(8 * MIB))


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
async def test_a_frame_without_a_size_is_read_whatever_it_holds(codec: Compression) -> None:
    assert await slices_of(header_bomb(AT_ONCE_BYTES, codec)) == [1]


async def test_the_cleaner_builds_no_headers_and_keeps_their_bytes() -> None:
    bomb = header_bomb(AT_ONCE_BYTES)
    header = parse_header(bomb)
    offset_map = OffsetMap(1000, 0)
    assert await note_batch(offset_map, Transactions(()), header, bomb, 0, 16 * MIB)
    cleaner = BatchCleaner(offset_map, Transactions(()), {}, now_ms=0, delete_retention_ms=0)
    assert await clean_batch(cleaner, header, bomb, 0, 16 * MIB) == bomb


async def test_large_batches_are_read_one_at_a_time() -> None:
    bomb = header_bomb(AT_ONCE_BYTES)
    header = parse_header(bomb)
    async with reading_batch(bomb, 0, header, 16 * MIB):
        second = asyncio.create_task(slices_of(bomb))
        assert await slices_of(header_bomb(10)) == [1], "small batches do not wait"
        assert not second.done()
    assert await second == [1]
