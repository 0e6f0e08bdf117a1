"""No input makes the batch parser do anything but give records or raise CorruptRecordError."""

from __future__ import annotations

import contextlib
import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from tierfetch.protocol.errors import CorruptRecordError
from tierfetch.protocol.records import BATCH_HEADER_SIZE, Record, iter_batches, iter_records
from tierfetch.protocol.records.control import ControlType, control_type, parse_end_transaction_marker
from tierfetch.tests.protocol.record_strategies import batches, nullable_bytes

FUZZ = settings(max_examples=100, deadline=None)
LIMIT = 1 << 20


def read_all(data: bytes, *, check_crc: bool) -> None:
    with contextlib.suppress(CorruptRecordError):
        for position, header in iter_batches(data, check_crc=check_crc):
            for _ in iter_records(data, position, header, decompressed_bytes_max=LIMIT):
                pass


@given(data=st.binary(max_size=300), magic=st.booleans(), check_crc=st.booleans())
@FUZZ
def test_random_bytes(data: bytes, magic: bool, check_crc: bool) -> None:
    if magic and len(data) >= BATCH_HEADER_SIZE:
        mutable = bytearray(data)
        struct.pack_into(">iib", mutable, 8, len(data) - 12, 0, 2)
        data = bytes(mutable)
    read_all(data, check_crc=check_crc)


@given(batch=batches(), flips=st.lists(st.tuples(st.integers(0), st.integers(0, 7)), min_size=1, max_size=8))
@FUZZ
def test_bit_flips(batch: bytes, flips: list[tuple[int, int]]) -> None:
    data = bytearray(batch)
    for byte, bit in flips:
        data[byte % len(data)] ^= 1 << bit
    read_all(bytes(data), check_crc=False)
    read_all(bytes(data), check_crc=True)


@given(batch=batches(), at=st.integers(BATCH_HEADER_SIZE), cut=st.integers(0, 20), put=st.binary(max_size=20))
@FUZZ
def test_payload_cut_or_stuffed_with_the_length_made_right(batch: bytes, at: int, cut: int, put: bytes) -> None:
    data = bytearray(batch)
    start = BATCH_HEADER_SIZE + at % (len(data) - BATCH_HEADER_SIZE)
    data[start : start + cut] = put
    struct.pack_into(">i", data, 8, len(data) - 12)
    read_all(bytes(data), check_crc=False)


@given(key=nullable_bytes, value=nullable_bytes)
@FUZZ
def test_control_records(key: bytes | None, value: bytes | None) -> None:
    record = Record(0, 0, key, value)
    with contextlib.suppress(CorruptRecordError):
        if control_type(record) in {ControlType.ABORT, ControlType.COMMIT}:
            parse_end_transaction_marker(record)
