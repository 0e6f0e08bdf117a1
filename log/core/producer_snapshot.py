"""The `.snapshot` files: the producers of a log at one offset, as Kafka writes them. All integers big-endian.

    version int16 (1), CRC-32C uint32 of all that follows, count int32, then for each producer (46 bytes):
    producer id int64, epoch int16, last sequence int32, last offset int64, offset delta int32 (last - first offset of
    the last batch), last timestamp int64, coordinator epoch int32, first offset of the open transaction int64 (or -1)

Only the last batch of each producer is kept; -1, -1, 0 stand for "no batch". The file's name is the offset up to which
(exclusive) the log was seen.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from crc32c import crc32c

from .errors import CorruptFileError
from .producer_state import NO_SEQUENCE, BatchMetadata, ProducerStateEntry

_HEAD = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_END: Final = 6
_COUNT = struct.Struct(">i")
_VERSION: Final = 1
_NO_OFFSET: Final = -1
_NO_BATCH: Final = BatchMetadata(NO_SEQUENCE, _NO_OFFSET, 0, -1)


def encode_snapshot(entries: Iterable[ProducerStateEntry]) -> bytes:
    """In the order of `entries`."""
    rows = []
    for entry in entries:
        batch = entry.batches[-1] if entry.batches else _NO_BATCH
        first_offset = entry.current_txn_first_offset
        rows.append(
            _ENTRY.pack(
                entry.producer_id,
                entry.producer_epoch,
                batch.last_sequence,
                batch.last_offset,
                batch.offset_delta,
                entry.last_timestamp_ms,
                entry.coordinator_epoch,
                _NO_OFFSET if first_offset is None else first_offset,
            )
        )
    body = _COUNT.pack(len(rows)) + b"".join(rows)
    return struct.pack(">hI", _VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes, *, name: str = "producer snapshot") -> list[ProducerStateEntry]:
    """In the order of the file; CorruptFileError, with `name` in front, if it is no snapshot or was damaged."""
    if len(data) < _HEAD.size:
        raise CorruptFileError(f"{name}: {len(data)} bytes, expected at least {_HEAD.size}")
    version, crc, count = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise CorruptFileError(f"{name}: version {version}, expected {_VERSION}")
    found_crc = crc32c(memoryview(data)[_CRC_END:])
    if crc != found_crc:
        raise CorruptFileError(f"{name}: CRC-32C {crc:#010x} expected, the content has {found_crc:#010x}")
    if count < 0 or len(data) != _HEAD.size + count * _ENTRY.size:
        raise CorruptFileError(f"{name}: {count} producers expected, {len(data) - _HEAD.size} bytes follow")
    entries = [_entry(fields) for fields in _ENTRY.iter_unpack(memoryview(data)[_HEAD.size :])]
    if len({entry.producer_id for entry in entries}) != count:
        raise CorruptFileError(f"{name}: a producer id is listed twice")
    return entries


def _entry(fields: tuple[int, ...]) -> ProducerStateEntry:
    producer_id, epoch, sequence, last_offset, offset_delta, timestamp, coordinator_epoch, txn_first_offset = fields
    return ProducerStateEntry(
        producer_id,
        epoch,
        coordinator_epoch,
        timestamp,
        txn_first_offset if txn_first_offset >= 0 else None,
        (BatchMetadata(sequence, last_offset, offset_delta, timestamp),) if last_offset >= 0 else (),
    )
