"""Judging bytes that came from the tier."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.protocol.errors import CorruptRecordError
from tierfetch.protocol.records import parse_header
from tierfetch.remote.batches import Found, ReadOn, WholeBatches, batch_at, find_batch, whole_batches
from tierfetch.rlm.times import first_record_from
from tierfetch.tests.log.logs import NOW_MS, data_batch

from .views import remote

SEGMENT = remote(1, 10, 20)
BATCHES = [bytes(data_batch(2, base_offset=offset, timestamp_ms=NOW_MS + offset)) for offset in (10, 12, 15, 18)]
SIZE = len(BATCHES[0])
LOG = b"".join(BATCHES)
NO_LIMIT = 1 << 62


@pytest.mark.parametrize(
    ("offset", "position"), [(10, 0), (11, 0), (12, 1), (13, 1), (14, 2), (15, 2), (17, 3), (18, 3), (19, 3)]
)
def test_batch_of_an_offset_is_the_first_that_reaches_it(offset: int, position: int) -> None:
    found = find_batch(LOG, SEGMENT, offset)
    assert isinstance(found, Found)
    assert found.position == position * SIZE


def test_search_goes_on_where_the_bytes_end() -> None:
    assert find_batch(LOG[: 2 * SIZE + 60], SEGMENT, 15) == ReadOn(2 * SIZE)
    assert find_batch(LOG[: SIZE - 1], SEGMENT, 12) == ReadOn(SIZE)
    assert find_batch(b"", SEGMENT, 12) == ReadOn(0)


def test_a_batch_at_a_place_is_one_of_the_segment_that_begins_with_the_offset() -> None:
    assert batch_at(LOG[SIZE:], SEGMENT, 12) == parse_header(LOG, SIZE)
    for data, offset in (
        (LOG[SIZE:], 11),
        (LOG[SIZE:], 13),
        (LOG[SIZE : SIZE + 60], 12),
        (b"", 12),
        (bytes(100), 0),
        (bytes(data_batch(9, base_offset=12)), 12),
    ):
        assert batch_at(data, SEGMENT, offset) is None


@pytest.mark.parametrize(
    ("size", "limit_offset", "batches", "next_offset"),
    [
        (len(LOG), NO_LIMIT, 4, 20),
        (len(LOG) - 1, NO_LIMIT, 3, 17),
        (len(LOG), 17, 3, 17),
        (len(LOG), 16, 2, 14),
        (len(LOG), 15, 2, 14),
        (SIZE - 1, NO_LIMIT, 0, 10),
    ],
)
def test_whole_batches_below_a_limit(size: int, limit_offset: int, batches: int, next_offset: int) -> None:
    assert whole_batches(LOG[:size], SEGMENT, limit_offset=limit_offset) == WholeBatches(
        batches * SIZE, next_offset, has_transactions=False
    )


@pytest.mark.parametrize("order", [(0, 2, 1, 3), (0, 0, 1), (1, 0)])
def test_batches_out_of_order_are_corrupt(order: tuple[int, ...]) -> None:
    data = b"".join(BATCHES[index] for index in order)
    with pytest.raises(CorruptRecordError, match="are expected"):
        whole_batches(data, SEGMENT, limit_offset=NO_LIMIT)
    with pytest.raises(CorruptRecordError, match="are expected"):
        find_batch(data, SEGMENT, 19)


@pytest.mark.parametrize("base_offset", [8, 9, 19, 500])
def test_batch_of_another_segment_is_corrupt(base_offset: int) -> None:
    data = bytes(data_batch(2, base_offset=base_offset))
    with pytest.raises(CorruptRecordError, match="are expected"):
        whole_batches(data, SEGMENT, limit_offset=NO_LIMIT)


def test_batch_below_what_was_read_before_is_corrupt() -> None:
    with pytest.raises(CorruptRecordError, match="from 13 to 19"):
        whole_batches(BATCHES[1], SEGMENT, limit_offset=NO_LIMIT, from_offset=13)


async def test_first_record_by_time() -> None:
    found = await first_record_from(LOG, start_offset=0, timestamp_ms=NOW_MS + 13)
    assert not isinstance(found, ReadOn)
    assert (found.offset, found.timestamp) == (13, NOW_MS + 13)
    later = await first_record_from(LOG, start_offset=16, timestamp_ms=NOW_MS)
    assert not isinstance(later, ReadOn)
    assert later.offset == 16
    assert await first_record_from(LOG[:-1], start_offset=0, timestamp_ms=NOW_MS + 18) == ReadOn(3 * SIZE)


@given(st.integers(0, len(LOG) - 1), st.integers(1, 255))
def test_no_damaged_byte_is_served(position: int, change: int) -> None:
    """Base offset and leader epoch lie outside the CRC: what they may still say is checked by place, or harmless."""
    data = bytearray(LOG)
    data[position] ^= change
    in_batch = position % SIZE
    try:
        served = whole_batches(bytes(data), SEGMENT, limit_offset=NO_LIMIT)
    except CorruptRecordError:
        return
    is_outside_crc = in_batch < 8 or 12 <= in_batch < 16
    assert is_outside_crc or served.size_bytes <= position // SIZE * SIZE
