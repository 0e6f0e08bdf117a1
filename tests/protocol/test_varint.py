from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.protocol.wire.varint import read_uvarint, read_varint, read_varlong, write_uvarint, write_varint

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


@given(INT32)
def test_varint_round_trip(value: int) -> None:
    out = bytearray(b"\xff")
    write_varint(out, value)
    assert read_varint(out, 1) == (value, len(out))
    assert read_varlong(bytes(out), 1) == (value, len(out))


@given(INT64)
def test_varlong_round_trip(value: int) -> None:
    out = bytearray()
    write_varint(out, value)
    assert read_varlong(out, 0) == (value, len(out))


@given(st.integers(0, 2**32 - 1))
def test_uvarint_round_trip(value: int) -> None:
    out = bytearray()
    write_uvarint(out, value)
    assert read_uvarint(out, 0) == (value, len(out))


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (-65, "8101"), (-(2**31), "ffffffff0f")],
)
def test_known_encodings(value: int, encoded: str) -> None:
    out = bytearray()
    write_varint(out, value)
    assert out.hex() == encoded


@pytest.mark.parametrize("encoded", ["ffffffff10", "ffffffffff00", "808080808000"])
def test_int32_refuses_what_is_wider(encoded: str) -> None:
    with pytest.raises(ValueError, match="wider than 32 bits"):
        read_varint(bytes.fromhex(encoded), 0)


@pytest.mark.parametrize("encoded", ["ffffffffffffffffff02", "80" * 10 + "00"])
def test_int64_refuses_what_is_wider(encoded: str) -> None:
    with pytest.raises(ValueError, match="wider than 64 bits"):
        read_varlong(bytes.fromhex(encoded), 0)


@pytest.mark.parametrize("encoded", ["", "80", "ffff"])
def test_early_end_is_an_index_error(encoded: str) -> None:
    with pytest.raises(IndexError):
        read_varint(bytes.fromhex(encoded), 0)
