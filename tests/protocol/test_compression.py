from __future__ import annotations

import zlib

import cramjam
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from tierfetch.protocol.records.compression import Compression, compress, decompress

CODECS = list(Compression)
REAL_CODECS = [codec for codec in CODECS if codec is not Compression.NONE]
LIMIT = 1 << 20
TEXT = b"a record, and another record " * 5000


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.binary(max_size=2000), repeat=st.integers(1, 50))
@settings(max_examples=30, deadline=None)
def test_round_trip(codec: Compression, data: bytes, repeat: int) -> None:
    assert decompress(codec, memoryview(compress(codec, data * repeat)), limit=LIMIT) == data * repeat


@pytest.mark.parametrize("codec", CODECS)
def test_exactly_the_limit_passes_and_one_byte_more_is_refused(codec: Compression) -> None:
    packed = compress(codec, TEXT)
    assert decompress(codec, packed, limit=len(TEXT)) == TEXT
    with pytest.raises(ValueError, match=f"{codec.name.lower()}: .* limit"):
        decompress(codec, packed, limit=len(TEXT) - 1)


def test_zstd_without_content_size_is_bounded_too() -> None:
    packed = zstandard.ZstdCompressor(write_content_size=False).compress(TEXT)
    assert decompress(Compression.ZSTD, packed, limit=len(TEXT)) == TEXT
    with pytest.raises(ValueError, match="zstd"):
        decompress(Compression.ZSTD, packed, limit=len(TEXT) - 1)


@pytest.mark.parametrize("codec", REAL_CODECS)
@pytest.mark.parametrize("spoil", [lambda z: z[:-1], lambda z: z + b"\0", lambda z: b"", lambda z: z[: len(z) // 2]])
def test_malformed_input_is_a_value_error(codec: Compression, spoil) -> None:
    with pytest.raises(ValueError, match=codec.name.lower()):
        decompress(codec, spoil(compress(codec, TEXT)), limit=LIMIT)


def test_snappy_is_written_as_xerial_blocks_and_read_raw_too() -> None:
    packed = compress(Compression.SNAPPY, TEXT)
    assert packed.startswith(bytes.fromhex("82534e4150505900 00000001 00000001"))
    first_block = packed[20 : 20 + int.from_bytes(packed[16:20], "big")]
    assert cramjam.snappy.decompress_raw_len(first_block) == 32 * 1024
    raw = bytes(cramjam.snappy.compress_raw(TEXT))
    assert decompress(Compression.SNAPPY, raw, limit=LIMIT) == TEXT


@pytest.mark.parametrize("length", [0, -1, 2**31 - 1])
def test_xerial_block_length_is_checked(length: int) -> None:
    packed = bytearray(compress(Compression.SNAPPY, TEXT))
    packed[16:20] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(ValueError, match=f"block length {length} where"):
        decompress(Compression.SNAPPY, packed, limit=LIMIT)


def test_snappy_limit_counts_all_blocks() -> None:
    packed = compress(Compression.SNAPPY, bytes(100_000))
    with pytest.raises(ValueError, match="block of 32768 bytes where the limit leaves 4464"):
        decompress(Compression.SNAPPY, packed, limit=70_000)


def test_lz4_frame_is_what_the_java_reader_accepts() -> None:
    """Version 1, independent blocks, no checksums or content size; blocks of 64 KiB: as Kafka's own frames begin."""
    assert compress(Compression.LZ4, TEXT).startswith(bytes.fromhex("04224d18 60 40 82"))


def test_gzip_output_does_not_depend_on_the_clock() -> None:
    assert compress(Compression.GZIP, TEXT)[4:8] == bytes(4)
    assert zlib.decompress(compress(Compression.GZIP, TEXT), wbits=31) == TEXT


def gzipped(*parts: bytes) -> bytes:
    return b"".join(compress(Compression.GZIP, part) for part in parts)


def test_gzip_of_several_members_is_read_whole() -> None:
    assert decompress(Compression.GZIP, gzipped(TEXT, b"", b"tail"), limit=LIMIT) == TEXT + b"tail"


def test_gzip_limit_counts_all_members() -> None:
    packed = gzipped(TEXT, TEXT)
    assert decompress(Compression.GZIP, packed, limit=2 * len(TEXT)) == TEXT * 2
    with pytest.raises(ValueError, match=r"gzip: .* limit"):
        decompress(Compression.GZIP, packed, limit=2 * len(TEXT) - 1)
    with pytest.raises(ValueError, match="gzip: more than 1000 members"):
        decompress(Compression.GZIP, gzipped(b"") * 1001, limit=LIMIT)


@pytest.mark.parametrize("spoil", [lambda z: z[:-1], lambda z: z + b"more", lambda z: z + gzipped(b"x")[:12]])
def test_gzip_that_is_damaged_behind_its_first_member_is_refused(spoil) -> None:
    with pytest.raises(ValueError, match="gzip"):
        decompress(Compression.GZIP, spoil(gzipped(b"one", b"two")), limit=LIMIT)
