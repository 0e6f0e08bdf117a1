"""The five codecs of record batches, as Kafka's clients write them.

| codec | written | read |
|---|---|---|
| gzip | one member | any number of members, one after the other (as Java's GZIPInputStream) |
| snappy | xerial framing (snappy-java): length-prefixed blocks of 32 KiB | that, or one raw block (librdkafka) |
| lz4 | one frame, independent blocks of 64 KiB (the Java reader insists), no content size | one frame of any kind |
| zstd | one frame | one frame, content size known or not |

Decompression never makes more than `limit` bytes, and every malformed input is a ValueError that names the codec.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from enum import IntEnum

import cramjam
import lz4.frame
import zstandard

from ..errors import PeerError

Buffer = bytes | bytearray | memoryview

_GZIP_WBITS = 31
_GZIP_MEMBERS_MAX = 1000
"""What is left after each member is copied: a batch of nothing but empty members must not cost its size squared."""
_XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_MAGIC_SIZE = 8
_XERIAL_BLOCK_SIZE = 32 * 1024
_LENGTH = struct.Struct(">i")
_ZSTD_NOT_WHOLE = "did not decompress full frame"
"""The library's error for a frame that is cut off, and for one that states no size and does not fit."""


class Compression(IntEnum):
    """Codec ids: the low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class DecompressedTooLargeError(PeerError, ValueError):
    """Data that holds more bytes than the caller's limit."""


def compress(codec: Compression, data: bytes) -> bytes:
    """`data` in the codec's form; `Compression.NONE` returns it unchanged."""
    return _COMPRESSORS[codec](data)


def decompress(codec: Compression, data: Buffer, *, limit: int) -> bytes:
    """Return the bytes that `compress` was given. ValueError if the input is malformed or has trailing bytes,
    DecompressedTooLargeError if it holds more than `limit`.
    """
    return _DECOMPRESSORS[codec](data, limit)


def _gzip_compress(data: bytes) -> bytes:
    deflate = zlib.compressobj(wbits=_GZIP_WBITS)
    return deflate.compress(data) + deflate.flush()


def _snappy_compress(data: bytes) -> bytes:
    out = bytearray(_XERIAL_HEADER)
    for start in range(0, len(data), _XERIAL_BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_SIZE]))
        out += _LENGTH.pack(len(block)) + block
    return bytes(out)


def _lz4_compress(data: bytes) -> bytes:
    return bytes(lz4.frame.compress(data, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False))


def _zstd_compress(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def _none_decompress(data: Buffer, limit: int) -> bytes:
    if len(data) > limit:
        raise _too_large("none", limit)
    return bytes(data)


def _gzip_decompress(data: Buffer, limit: int) -> bytes:
    members = []
    room = limit
    rest: Buffer = data
    while True:
        inflate = zlib.decompressobj(wbits=_GZIP_WBITS)
        try:
            out = inflate.decompress(rest, room + 1)
        except zlib.error as error:
            raise ValueError(f"gzip: {error}") from error
        if len(out) > room:
            raise _too_large("gzip", limit)
        if not inflate.eof:
            raise _incomplete("gzip")
        members.append(out)
        room -= len(out)
        if not inflate.unused_data:
            return b"".join(members)
        if len(members) == _GZIP_MEMBERS_MAX:
            raise ValueError(f"gzip: more than {_GZIP_MEMBERS_MAX} members")
        rest = inflate.unused_data


def _snappy_decompress(data: Buffer, limit: int) -> bytes:
    if bytes(data[:_XERIAL_MAGIC_SIZE]) != _XERIAL_HEADER[:_XERIAL_MAGIC_SIZE]:
        return _snappy_block(data, limit)
    blocks = []
    room = limit
    position = len(_XERIAL_HEADER)
    while position != len(data):
        start = position + _LENGTH.size
        if start > len(data):
            raise _incomplete("snappy")
        (length,) = _LENGTH.unpack_from(data, position)
        position = start + length
        if length <= 0 or position > len(data):
            raise ValueError(f"snappy: block length {length} where {len(data) - start} bytes are left")
        blocks.append(_snappy_block(data[start:position], room))
        room -= len(blocks[-1])
    return b"".join(blocks)


def _snappy_block(data: Buffer, limit: int) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(data)
        if size > limit:
            raise DecompressedTooLargeError(f"snappy: block of {size} bytes where the limit leaves {limit}")
        return bytes(cramjam.snappy.decompress_raw(data))
    except cramjam.DecompressionError as error:
        raise ValueError(str(error)) from error


def _lz4_decompress(data: Buffer, limit: int) -> bytes:
    frame = lz4.frame.LZ4FrameDecompressor()
    try:
        out = bytes(frame.decompress(data, max_length=limit + 1))
    except RuntimeError as error:
        raise ValueError(f"lz4: {error}") from error
    if len(out) > limit:
        raise _too_large("lz4", limit)
    if not frame.eof:
        raise _incomplete("lz4")
    if frame.unused_data:
        raise _trailing("lz4", len(frame.unused_data))
    return out


def _zstd_decompress(data: Buffer, limit: int) -> bytes:
    try:
        if zstandard.frame_content_size(data) > limit:
            raise _too_large("zstd", limit)
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=limit, allow_extra_data=False)
    except zstandard.ZstdError as error:
        if _ZSTD_NOT_WHOLE in str(error):
            message = f"zstd: the frame is cut off, or holds more than the limit of {limit} bytes"
            raise DecompressedTooLargeError(message) from error
        raise ValueError(f"zstd: {error}") from error


def _too_large(codec: str, limit: int) -> ValueError:
    return DecompressedTooLargeError(f"{codec}: holds more than the limit of {limit} bytes")


def _incomplete(codec: str) -> ValueError:
    return ValueError(f"{codec}: ends early")


def _trailing(codec: str, count: int) -> ValueError:
    return ValueError(f"{codec}: {count} bytes after the end")


_COMPRESSORS: dict[Compression, Callable[[bytes], bytes]] = {
    Compression.NONE: lambda data: data,
    Compression.GZIP: _gzip_compress,
    Compression.SNAPPY: _snappy_compress,
    Compression.LZ4: _lz4_compress,
    Compression.ZSTD: _zstd_compress,
}
_DECOMPRESSORS: dict[Compression, Callable[[Buffer, int], bytes]] = {
    Compression.NONE: _none_decompress,
    Compression.GZIP: _gzip_decompress,
    Compression.SNAPPY: _snappy_decompress,
    Compression.LZ4: _lz4_decompress,
    Compression.ZSTD: _zstd_decompress,
}
