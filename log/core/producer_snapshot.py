"""The `.snapshot` files: the producers of a log at one offset, as Kafka writes them. All integers big-endian.

    version int16 (1), CRC-32C uint32 of all that follows, count int32, then for each producer a row of 46 bytes:
    producer id int64, epoch int16, last sequence int32, last offset int64, offset delta int32 (last - first offset of
    the last batch), last timestamp int64, coordinator epoch int32, first offset of the open transaction int64 (or -1)

Only the last batch of each producer is kept; -1, -1, 0 stand for "no batch". The file's name is the offset up to which
(exclusive) the log was seen.

A snapshot is encoded from the packed entries (`packed_producer`): their rows, each after its id.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from crc32c import crc32c

from ...protocol.wire import Steps, run_to_end
from .errors import CorruptFileError
from .packed_producer import ROW_SIZE, PackedEntry, pack_entry
from .producer_state import BatchMetadata, ProducerStateEntry

_HEAD = struct.Struct(">hIi")
_ROW = struct.Struct(">qhiqiqiq")
_ID = struct.Struct(">q")
_CRC_END: Final = 6
_COUNT = struct.Struct(">i")
_VERSION: Final = 1
SLICE_ENTRIES: Final = 2_048
"""The number of producers that are encoded in one go: well below a millisecond on an idle machine."""
DECODED_SLICE_ENTRIES: Final = 256
"""The number of producers that are decoded in one go: each is some objects, and costs twenty times as much."""


class ProducerSnapshot:
    """The producers of a log at one offset, not encoded yet. Immutable: the log's own state moves on."""

    __slots__ = ("_entries", "_ids")

    def __init__(self, ids: Sequence[int], entries: Sequence[PackedEntry]) -> None:
        """`entries` are those of the producers `ids`, in their order."""
        self._ids = ids
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
            ids, entries = self._ids[start : start + SLICE_ENTRIES], self._entries[start : start + SLICE_ENTRIES]
            rows = b"".join([_ID.pack(id_) + packed[:ROW_SIZE] for id_, packed in zip(ids, entries, strict=True)])
            crc = crc32c(rows, crc)
            parts.append(rows)
        return b"".join([struct.pack(">hI", _VERSION, crc), *parts])


def encode_snapshot(entries: Iterable[ProducerStateEntry]) -> bytes:
    """Return the content of the file, in the order of `entries`."""
    known = list(entries)
    return ProducerSnapshot([entry.producer_id for entry in known], [pack_entry(entry) for entry in known]).encode()


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
