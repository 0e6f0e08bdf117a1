"""The `.snapshot` files: the producers of a log at one offset, as Kafka writes them. All integers big-endian.

    version int16 (1), CRC-32C uint32 of all that follows, count int32, then for each producer a row of 46 bytes:
    producer id int64, epoch int16, last sequence int32, last offset int64, offset delta int32 (last - first offset of
    the last batch), last timestamp int64, coordinator epoch int32, first offset of the open transaction int64 (or -1)

Only the last batch of each producer is kept; -1, -1, 0 stand for "no batch". The file's name is the offset up to which
(exclusive) the log was seen.

In memory a producer is the same row, then the timestamp of its last batch (a marker may be younger), then the earlier
batches, oldest first (`PackedEntry`): one bytes object of 87 bytes with one batch and 183 with five, where tuples of
integers take 1,200. Because it is immutable, a list of them is a copy of all producers, and a snapshot is their first
46 bytes, one after another.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from crc32c import crc32c

from ...protocol.wire import Steps, run_to_end
from .errors import CorruptFileError
from .producer_state import BATCHES_MAX, NO_SEQUENCE, BatchMetadata, ProducerStateEntry

_HEAD = struct.Struct(">hIi")
_ROW = struct.Struct(">qhiqiqiq")
_TAILS = [struct.Struct(">q" + "iqiq" * count) for count in range(BATCHES_MAX)]
"""What follows the row in memory, by the number of earlier batches."""
_BATCH_SIZE: Final = struct.calcsize(">iqiq")
_AGE = struct.Struct(">qiq")
"""The last timestamp, the coordinator epoch and the first offset of the open transaction, in a row."""
_AGE_AT: Final = struct.calcsize(">qhiqi")
_CRC_END: Final = 6
_COUNT = struct.Struct(">i")
_VERSION: Final = 1
_NO_OFFSET: Final = -1
_NO_BATCH: Final = BatchMetadata(NO_SEQUENCE, _NO_OFFSET, 0, -1)

PackedEntry = bytes
"""A producer's entry in memory: see the module's docstring."""

SLICE_ENTRIES: Final = 2_048
"""The number of producers that are encoded in one go: well below a millisecond on an idle machine."""
DECODED_SLICE_ENTRIES: Final = 512
"""The number of producers that are decoded in one go: each is some objects, and costs twenty times as much."""


def pack_entry(entry: ProducerStateEntry) -> PackedEntry:
    batch = entry.batches[-1] if entry.batches else _NO_BATCH
    first_offset = entry.current_txn_first_offset
    row = _ROW.pack(
        entry.producer_id,
        entry.producer_epoch,
        batch.last_sequence,
        batch.last_offset,
        batch.offset_delta,
        entry.last_timestamp_ms,
        entry.coordinator_epoch,
        _NO_OFFSET if first_offset is None else first_offset,
    )
    earlier = entry.batches[:-1]
    return row + _TAILS[len(earlier)].pack(batch.timestamp_ms, *[number for batch in earlier for number in batch])


def unpack_entry(packed: PackedEntry) -> ProducerStateEntry:
    producer_id, epoch, sequence, last_offset, delta, timestamp, coordinator, txn_offset = _ROW.unpack_from(packed)
    batches: tuple[BatchMetadata, ...] = ()
    if last_offset >= 0:
        tail = _TAILS[(len(packed) - _ROW.size) // _BATCH_SIZE].unpack_from(packed, _ROW.size)
        earlier = [BatchMetadata(*tail[start : start + 4]) for start in range(1, len(tail), 4)]
        batches = (*earlier, BatchMetadata(sequence, last_offset, delta, tail[0]))
    return ProducerStateEntry(
        producer_id, epoch, coordinator, timestamp, txn_offset if txn_offset >= 0 else None, batches
    )


def is_idle(packed: PackedEntry, until_ms: int) -> bool:
    """Whether a producer has no open transaction and wrote nothing after `until_ms`."""
    timestamp_ms: int
    txn_first_offset: int
    timestamp_ms, _, txn_first_offset = _AGE.unpack_from(packed, _AGE_AT)
    return txn_first_offset < 0 and timestamp_ms <= until_ms


class ProducerSnapshot:
    """The producers of a log at one offset, not encoded yet. Immutable: the log's own state moves on."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Sequence[PackedEntry]) -> None:
        self._entries = entries

    def encode(self) -> bytes:
        """Return the content of the file."""
        return run_to_end(self.encode_stepwise())

    def encode_stepwise(self) -> Steps[bytes]:
        """Return the content of the file as the generator's value; each step encodes `SLICE_ENTRIES`."""
        count = len(self._entries)
        parts = [_COUNT.pack(count)]
        crc = crc32c(parts[0])
        for start in range(0, count, SLICE_ENTRIES):
            if start:
                yield
            rows = b"".join([packed[: _ROW.size] for packed in self._entries[start : start + SLICE_ENTRIES]])
            crc = crc32c(rows, crc)
            parts.append(rows)
        return b"".join([struct.pack(">hI", _VERSION, crc), *parts])


def encode_snapshot(entries: Iterable[ProducerStateEntry]) -> bytes:
    """Return the content of the file, in the order of `entries`."""
    return ProducerSnapshot([pack_entry(entry) for entry in entries]).encode()


def decode_snapshot(data: bytes, *, name: str = "producer snapshot") -> list[ProducerStateEntry]:
    """In the order of the file; CorruptFileError, with `name` in front, if it is no snapshot or was damaged."""
    return [entry for entries in decoded_slices(data, name=name) for entry in entries]


def decoded_slices(data: bytes, *, name: str = "producer snapshot") -> Iterator[list[ProducerStateEntry]]:
    """Yield the entries of `decode_snapshot`, at most `DECODED_SLICE_ENTRIES` at a time, which take a few milliseconds.

    CorruptFileError before the first, except for a producer that is listed twice.
    """
    if len(data) < _HEAD.size:
        raise CorruptFileError(f"{name}: {len(data)} bytes, expected at least {_HEAD.size}")
    version, crc, count = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise CorruptFileError(f"{name}: version {version}, expected {_VERSION}")
    found_crc = crc32c(memoryview(data)[_CRC_END:])
    if crc != found_crc:
        raise CorruptFileError(f"{name}: CRC-32C {crc:#010x} expected, the content has {found_crc:#010x}")
    if count < 0 or len(data) != _HEAD.size + count * _ROW.size:
        raise CorruptFileError(f"{name}: {count} producers expected, {len(data) - _HEAD.size} bytes follow")
    seen: set[int] = set()
    rows = _ROW.iter_unpack(memoryview(data)[_HEAD.size :])
    for first in range(0, count, DECODED_SLICE_ENTRIES):
        entries = [_entry(fields) for fields in islice(rows, DECODED_SLICE_ENTRIES)]
        seen.update(entry.producer_id for entry in entries)
        if len(seen) != first + len(entries):
            raise CorruptFileError(f"{name}: a producer id is listed twice")
        yield entries


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
