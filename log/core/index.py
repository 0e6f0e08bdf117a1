"""The three indexes of a segment, as Kafka lays them out, held as bytes in memory. All integers big-endian.

| index       | file         | bytes | entry                                                    | ordered by        |
|-------------|--------------|-------|----------------------------------------------------------|-------------------|
| offset      | `.index`     | 8     | offset - base int32, position int32                      | offset, position  |
| time        | `.timeindex` | 12    | timestamp ms int64, offset - base int32                  | timestamp, offset |
| transaction | `.txnindex`  | 34    | version int16 = 0, the 4 int64 of an `AbortedTransaction` | last offset       |

Rules:

* The first two are sparse: a look-up gives the nearest entry at or below, and the log is read on from there. An entry
  (offset o, position p) says that the batch at p begins at or below o, and all before it below o; (timestamp t, offset
  o) that o lies in the first batch that reaches t, so that all younger records come later.
* The bytes are the state. A look-up unpacks the O(log n) entries it visits; a full index of 10 MiB costs 10 MiB.
* Kafka preallocates the first two of an active segment: zero entries at the end are no entries and are cut on decoding.
* An aborted transaction is listed in the segment that holds its ABORT marker (whose offset is the last offset).

Outside bytes that break the order raise CorruptFileError from `check`; an append that would is our own fault: assert.
Knows no file and no log: the owner of the file writes `encode(start)` after what it wrote before.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final, Self

from ...light_dataclass import dataclass
from .errors import CorruptFileError

INDEX_BYTES_MAX: Final = 10 * 1024 * 1024
"""Kafka's default for `segment.index.bytes`."""

RELATIVE_OFFSET_MAX: Final = 2**31 - 1
NO_TIMESTAMP: Final = -1

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_TRANSACTION_ENTRY = struct.Struct(">hqqqq")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_TRANSACTION_VERSION: Final = 0
_LAST_OFFSET_AT: Final = 18

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class OffsetPosition:
    """Byte `position` in a segment's log file, from which `offset` can be found by reading on."""

    offset: int
    position: int


@dataclass(frozen=True, slots=True)
class TimestampOffset:
    """`timestamp` in ms, -1 for none."""

    timestamp: int
    offset: int


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """`last_offset` is the ABORT marker's; `last_stable_offset` is the partition's right after the marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class _Index:
    """Entries of one size in one bytearray. Positions and sizes in bytes, slots in entries."""

    __slots__ = ("_data",)
    _entry: struct.Struct
    _kind: str

    def __init__(self) -> None:
        self._data = bytearray()

    def __len__(self) -> int:
        return len(self._data) // self._entry.size

    @property
    def size_bytes(self) -> int:
        return len(self._data)

    def encode(self, start: int = 0) -> bytes:
        """The bytes of the file from byte `start` on."""
        assert 0 <= start <= len(self._data), (start, len(self._data))
        return bytes(memoryview(self._data)[start:])

    def _load(self, data: Buffer, name: str | None) -> None:
        if len(data) % self._entry.size:
            raise CorruptFileError(
                f"{name or self._kind}: {len(data)} bytes, expected a multiple of {self._entry.size}"
            )
        self._data[:] = data

    def _entries(self, first: int, end: int | None) -> Iterator[tuple[int, ...]]:
        """The fields of the entries in the slots [first, end)."""
        size = self._entry.size
        with memoryview(self._data)[first * size : len(self._data) if end is None else end * size] as view:
            yield from self._entry.iter_unpack(view)

    def _unpacked(self, slot: int) -> tuple[int, ...]:
        return self._entry.unpack_from(self._data, slot * self._entry.size)

    def _truncate_to_slots(self, slots: int) -> None:
        del self._data[slots * self._entry.size :]

    def _corrupt(self, name: str | None, slot: int, message: str) -> CorruptFileError:
        return CorruptFileError(f"{name or self._kind}: entry {slot} of {len(self)}: {message}")


class _SparseIndex(_Index):
    """What the offset and the time index share: a base offset, a size limit, a preallocated tail."""

    __slots__ = ("base_offset", "entries_max")
    _relative_offset_at: int

    def __init__(self, base_offset: int, *, max_bytes: int = INDEX_BYTES_MAX) -> None:
        super().__init__()
        assert base_offset >= 0, base_offset
        self.base_offset = base_offset
        self.entries_max = max_bytes // self._entry.size

    @classmethod
    def decode(
        cls, data: Buffer, base_offset: int, *, max_bytes: int = INDEX_BYTES_MAX, name: str | None = None
    ) -> Self:
        """The index in a file; CorruptFileError if it can be none. The order of the entries is left to `check`.

        `name` (a path) goes into the message.
        """
        index = cls(base_offset, max_bytes=max_bytes)
        index._load(_without_zero_tail(data, cls._entry.size), name)
        if len(index) and index._relative_offset(len(index) - 1) < 0:
            raise index._corrupt(name, len(index) - 1, f"its offset is below the base offset {base_offset}")
        return index

    def can_append(self, offset: int) -> bool:
        """Whether `offset` fits the 32 bits that an entry has for its distance from the base offset."""
        return 0 <= offset - self.base_offset <= RELATIVE_OFFSET_MAX

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above `offset`."""
        target = offset - self.base_offset
        self._truncate_to_slots(bisect_left(range(len(self)), target, key=self._relative_offset))

    def _relative_offset(self, slot: int) -> int:
        value: int = _INT32.unpack_from(self._data, slot * self._entry.size + self._relative_offset_at)[0]
        return value


class OffsetIndex(_SparseIndex):
    """From an offset to a byte position at or before its batch."""

    __slots__ = ()
    _entry = _OFFSET_ENTRY
    _kind = "offset index"
    _relative_offset_at = 0

    def __iter__(self) -> Iterator[OffsetPosition]:
        return map(self._at, range(len(self)))

    @property
    def is_full(self) -> bool:
        return len(self._data) >= self.entries_max * self._entry.size

    @property
    def last_entry(self) -> OffsetPosition | None:
        return self._at(len(self) - 1) if self._data else None

    def append(self, offset: int, position: int) -> None:
        """Offsets increase strictly; so do positions."""
        last = self.last_entry
        assert self.can_append(offset), (self.base_offset, offset)
        assert last is None or (offset > last.offset and position > last.position), (last, offset, position)
        self._data += _OFFSET_ENTRY.pack(offset - self.base_offset, position)

    def lookup(self, offset: int) -> OffsetPosition:
        """The last entry at or below `offset`; the segment's begin if there is none."""
        slot = bisect_right(range(len(self)), offset - self.base_offset, key=self._relative_offset) - 1
        return self._at(slot) if slot >= 0 else OffsetPosition(self.base_offset, 0)

    def first_at_or_after(self, position: int) -> OffsetPosition | None:
        """The first entry at or behind a byte position: its offset bounds from above what lies before the position."""
        slot = bisect_left(range(len(self)), position, key=self._position)
        return self._at(slot) if slot < len(self) else None

    def last_at_or_before(self, position: int) -> OffsetPosition | None:
        """The last entry at or before a byte position: a border between two batches that needs no look into the log."""
        slot = bisect_right(range(len(self)), position, key=self._position) - 1
        return self._at(slot) if slot >= 0 else None

    def check(self, *, name: str | None = None, first: int = 0, end: int | None = None) -> None:
        """CorruptFileError unless offsets and positions increase strictly, among the slots [first, end) and from the
        one before them. Reads every entry.
        """
        previous_offset, previous_position = (-1, -1) if first == 0 else self._unpacked(first - 1)
        for slot, (relative_offset, position) in enumerate(self._entries(first, end), first):
            if relative_offset <= previous_offset or position <= previous_position:
                current = (relative_offset + self.base_offset, position)
                previous = (previous_offset + self.base_offset, previous_position)
                raise self._corrupt(name, slot, f"(offset, position) {current} must be above {previous}")
            previous_offset, previous_position = relative_offset, position

    def _at(self, slot: int) -> OffsetPosition:
        relative_offset, position = _OFFSET_ENTRY.unpack_from(self._data, slot * _OFFSET_ENTRY.size)
        return OffsetPosition(self.base_offset + relative_offset, position)

    def _position(self, slot: int) -> int:
        value: int = _INT32.unpack_from(self._data, slot * _OFFSET_ENTRY.size + _INT32.size)[0]
        return value


class TimeIndex(_SparseIndex):
    """From a timestamp to the offset of the first record that is not older, or one before it."""

    __slots__ = ()
    _entry = _TIME_ENTRY
    _kind = "time index"
    _relative_offset_at = 8

    def __iter__(self) -> Iterator[TimestampOffset]:
        return map(self._at, range(len(self)))

    @property
    def is_full(self) -> bool:
        """One entry is kept free for the largest timestamp, which is added when the segment is closed."""
        return len(self._data) >= (self.entries_max - 1) * self._entry.size

    @property
    def last_entry(self) -> TimestampOffset:
        """(-1, base offset) if there is none."""
        return self._at(len(self) - 1) if self._data else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def maybe_append(self, timestamp_ms: int, offset: int) -> bool:
        """Add an entry if `timestamp_ms` is above the last one. Offsets never fall."""
        last = self.last_entry
        assert self.can_append(offset), (self.base_offset, offset)
        assert offset >= last.offset, (last, timestamp_ms, offset)
        if timestamp_ms <= last.timestamp:
            return False
        self._data += _TIME_ENTRY.pack(timestamp_ms, offset - self.base_offset)
        return True

    def lookup(self, timestamp_ms: int) -> TimestampOffset:
        """The last entry at or below `timestamp_ms`; (-1, base offset) if there is none."""
        slot = bisect_right(range(len(self)), timestamp_ms, key=self._timestamp) - 1
        return self._at(slot) if slot >= 0 else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def check(self, *, name: str | None = None, first: int = 0, end: int | None = None) -> None:
        """CorruptFileError unless timestamps increase strictly and offsets never fall, among the slots [first, end) and
        from the one before them. Reads every entry.
        """
        previous_timestamp, previous_offset = (NO_TIMESTAMP, 0) if first == 0 else self._unpacked(first - 1)
        for slot, (timestamp, relative_offset) in enumerate(self._entries(first, end), first):
            if timestamp <= previous_timestamp or relative_offset < previous_offset:
                current = (timestamp, relative_offset + self.base_offset)
                previous = (previous_timestamp, previous_offset + self.base_offset)
                raise self._corrupt(name, slot, f"(timestamp, offset) {current} must be above {previous}")
            previous_timestamp, previous_offset = timestamp, relative_offset

    def _at(self, slot: int) -> TimestampOffset:
        timestamp, relative_offset = _TIME_ENTRY.unpack_from(self._data, slot * _TIME_ENTRY.size)
        return TimestampOffset(timestamp, self.base_offset + relative_offset)

    def _timestamp(self, slot: int) -> int:
        value: int = _INT64.unpack_from(self._data, slot * _TIME_ENTRY.size)[0]
        return value


class TransactionIndex(_Index):
    """The aborted transactions whose ABORT marker lies in the segment, by marker offset."""

    __slots__ = ()
    _entry = _TRANSACTION_ENTRY
    _kind = "transaction index"
    ENTRY_BYTES: Final = _TRANSACTION_ENTRY.size

    @classmethod
    def decode(cls, data: Buffer, *, name: str | None = None) -> Self:
        """The index in a file; CorruptFileError if it can be none or its entries are out of order."""
        index = cls.unchecked(data, name=name)
        index.check(name=name)
        return index

    @classmethod
    def unchecked(cls, data: Buffer, *, name: str | None = None) -> Self:
        """The index in a file, whose entries are left to `check`; CorruptFileError if it can be none."""
        index = cls()
        index._load(data, name)
        return index

    def check(self, *, name: str | None = None, first: int = 0, end: int | None = None) -> None:
        """CorruptFileError unless the entries in the slots [first, end) are known and in order, and follow the one
        before them. Reads every entry.
        """
        previous_offset = None if first == 0 else self._last_offset(first - 1)
        for slot, fields in enumerate(self._entries(first, end), first):
            version, last_offset = fields[0], fields[3]
            if version != _TRANSACTION_VERSION:
                raise self._corrupt(name, slot, f"version {version}, expected {_TRANSACTION_VERSION}")
            if previous_offset is not None and last_offset <= previous_offset:
                raise self._corrupt(name, slot, f"last offset {last_offset} must be above {previous_offset}")
            previous_offset = last_offset

    def __iter__(self) -> Iterator[AbortedTransaction]:
        return self.slots(0, None)

    def slots(self, first: int, end: int | None) -> Iterator[AbortedTransaction]:
        """The entries in the slots [first, end)."""
        for fields in self._entries(first, end):
            yield AbortedTransaction(*fields[1:])

    def append(self, aborted: AbortedTransaction) -> None:
        """Markers come in the order of their offsets."""
        assert aborted.first_offset <= aborted.last_offset, aborted
        assert not self._data or aborted.last_offset > self._last_offset(len(self) - 1), (list(self)[-1], aborted)
        self._data += _TRANSACTION_ENTRY.pack(
            _TRANSACTION_VERSION,
            aborted.producer_id,
            aborted.first_offset,
            aborted.last_offset,
            aborted.last_stable_offset,
        )

    def collect(self, start_offset: int, end_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """The aborted transactions that overlap [start_offset, end_offset), and whether these are all there can be.

        False: the index of the next segment must be asked too, because a transaction that begins below `end_offset` may
        still be open at this segment's end.
        """
        overlapping: list[AbortedTransaction] = []
        for slot in range(bisect_left(range(len(self)), start_offset, key=self._last_offset), len(self)):
            aborted = AbortedTransaction(*_TRANSACTION_ENTRY.unpack_from(self._data, slot * self._entry.size)[1:])
            if aborted.first_offset < end_offset:
                overlapping.append(aborted)
            if aborted.last_stable_offset >= end_offset:
                return overlapping, True
        return overlapping, False

    def truncate_to(self, offset: int) -> None:
        """Drop the transactions whose marker lies at or above `offset`."""
        self._truncate_to_slots(bisect_left(range(len(self)), offset, key=self._last_offset))

    def _last_offset(self, slot: int) -> int:
        value: int = _INT64.unpack_from(self._data, slot * _TRANSACTION_ENTRY.size + _LAST_OFFSET_AT)[0]
        return value


def _without_zero_tail(data: Buffer, entry_size: int) -> Buffer:
    """`data` without the entries at its end that are all zero; a remainder that is no whole entry stays."""
    used = len(bytes(data).rstrip(b"\0"))
    remainder = len(data) % entry_size
    if remainder and used > len(data) - remainder:
        return data
    return memoryview(data)[: -(-used // entry_size) * entry_size]
