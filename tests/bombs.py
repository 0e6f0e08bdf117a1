"""Small batches that hold very much: what a hostile producer, or a tier that somebody else wrote, may contain."""

from __future__ import annotations

from tierfetch.protocol.records import Compression
from tierfetch.protocol.records.batch_header import HEADER, sealed
from tierfetch.protocol.records.compression import compress
from tierfetch.protocol.wire.varint import write_varint


def batch_of(payload: bytes, count: int, codec: Compression = Compression.ZSTD) -> bytes:
    """A batch with a right CRC whose header claims `count` records."""
    packed = compress(codec, payload)
    fields = (0, 49 + len(packed), -1, 2, 0, int(codec), count - 1, 0, 0, -1, -1, -1, count)
    return sealed(HEADER.pack(*fields), packed)


def header_bomb(count: int, codec: Compression = Compression.ZSTD) -> bytes:
    """One record with so many headers of two bytes each."""
    body = bytearray(b"\0\0\0\2k\2v")
    write_varint(body, count)
    body += bytes(2 * count)
    record = bytearray()
    write_varint(record, len(body))
    return batch_of(bytes(record + body), 1, codec)


def empty_records(count: int) -> bytes:
    """Records without key, value and headers, offsets rising."""
    payload = bytearray()
    for offset in range(count):
        body = bytearray(2)
        write_varint(body, offset)
        body += b"\1\1\0"
        write_varint(payload, len(body))
        payload += body
    return bytes(payload)
