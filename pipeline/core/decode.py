"""Record batches to Arrow columns, many batches at a time.

    BatchTable -> chunks of ~4 MiB of uncompressed records -> where each record begins -> varints, vectorised -> Arrow

Only the walk along the records' lengths goes record by record, and that only where batches are large: with many small
ones it goes along all of them in step. Keys, values and headers are gathered by Arrow from the chunk; columns that
no query asked for are not.

Whatever `protocol.records.record_body` refuses is refused here: a record fills its length, records fill their batch,
offsets rise. A fault in a chunk is looked for batch by batch, so that the error names the batch, and so that `on_fault`
may skip that one alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...light_dataclass import dataclass
from ...protocol import CorruptRecordError
from ...protocol.records import (
    BATCH_ELEMENTS_MAX,
    BATCH_HEADER_SIZE,
    DECOMPRESSED_BYTES_MAX,
    SEQUENCE_MAX,
    Compression,
    decompress,
)
from ...protocol.wire import read_varint
from .batch_table import BatchTable, BoolArray, FaultListener, Int64Array, Selection, read_table, select
from .unlisted_aborts import unlisted_aborts
from .varints import read_varints

CHUNK_BYTES: Final = 4 * 1024 * 1024
WIDE_BATCHES_MIN: Final = 200
"""A step over all batches at once costs as much as this many records one by one."""
WIDE_HEADERS_MIN: Final = 64
"""Headers of a record that are read in step with those of all other records of the chunk."""
_MILLIS_MAX: Final = (2**63 - 1) // 1000

HEADERS_TYPE: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
TIMESTAMP_TYPE: Final = pa.timestamp("us", "UTC")
COLUMN_TYPES: Final[dict[str, pa.DataType]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "offset": pa.int64(),
    "timestamp": TIMESTAMP_TYPE,
    "timestampType": pa.int32(),
    "headers": HEADERS_TYPE,
    "leader_epoch": pa.int32(),
    "producer_id": pa.int64(),
    "producer_epoch": pa.int32(),
    "sequence": pa.int32(),
}
"""What a segment states about its records; its opener knows topic, partition and segment."""

Columns = dict[str, pa.Array]


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Uncompressed records of the batches of `table`; those of batch i are `data[starts[i]:ends[i]]`."""

    table: BatchTable
    data: bytes | memoryview
    starts: Int64Array
    ends: Int64Array


def decode(
    data: memoryview,
    columns: Collection[str],
    selection: Selection,
    on_fault: FaultListener | None = None,
) -> Iterator[Columns]:
    """The wanted records of `data`, which holds whole batches, as tables of at most a few MiB.

    CorruptRecordError at the first fault; with `on_fault` it is reported instead, and the batch is skipped, or what
    is before the next one that can be found.
    """
    table = read_table(data, on_fault)
    if not selection.is_indexed:
        selection = _without_unlisted(table, selection, on_fault)
    for part in _parts(table.chosen(select(table, selection))):
        yield from _decode_part(part, columns, selection, on_fault)


def _without_unlisted(table: BatchTable, selection: Selection, on_fault: FaultListener | None) -> Selection:
    found = []
    for transaction, position in unlisted_aborts(table, selection):
        fault = CorruptRecordError(
            f"producer {transaction.producer_id} aborted what it wrote from offset {transaction.first_offset} to "
            f"{transaction.last_offset}, and no transaction index says so: that of the segment was lost",
            position,
        )
        if on_fault is None:
            raise fault
        on_fault(fault)
        found.append(transaction)
    return replace(selection, aborted=(*selection.aborted, *found))


def _parts(table: BatchTable) -> Iterator[BatchTable]:
    """Runs of batches of about `CHUNK_BYTES`, as they are stored."""
    if not len(table):
        return
    sizes = np.cumsum(table.column("batch_length"))
    for part in np.split(np.arange(len(table)), np.flatnonzero(np.diff(sizes // CHUNK_BYTES)) + 1):
        yield BatchTable(table.data, table.positions[part], table.headers[part])


def _decode_part(
    table: BatchTable, columns: Collection[str], selection: Selection, on_fault: FaultListener | None
) -> Iterator[Columns]:
    """A chunk at a time; from the first fault on batch by batch."""
    done = 0
    try:
        for chunk in _chunks(table):
            found = _decode_chunk(chunk, columns, selection)
            done += len(chunk.table)
            yield found
    except (CorruptRecordError, IndexError, ValueError, OverflowError) as error:
        if len(table) > 1:
            for index in range(done, len(table)):
                one = BatchTable(table.data, table.positions[index : index + 1], table.headers[index : index + 1])
                yield from _decode_part(one, columns, selection, on_fault)
            return
        fault = _named(error, table)
        if on_fault is None:
            raise fault from error
        on_fault(fault)


def _named(error: Exception, table: BatchTable) -> CorruptRecordError:
    if isinstance(error, CorruptRecordError):
        return error
    reason = "the records end early" if isinstance(error, IndexError) else str(error)
    offset, position = int(table.headers["base_offset"][0]), int(table.positions[0])
    return CorruptRecordError(f"batch at offset {offset}: {reason}", position)


def _chunks(table: BatchTable) -> Iterator[_Chunk]:
    """Checked and decompressed; what is not compressed stays where it is."""
    table.check()
    codecs = table.codecs
    if not codecs.any():
        yield _Chunk(table, table.data, table.positions + BATCH_HEADER_SIZE, table.ends)
        return
    begin, size, parts, ends = 0, 0, [], table.ends
    for index in range(len(table)):
        payload = table.data[int(table.positions[index]) + BATCH_HEADER_SIZE : int(ends[index])]
        parts.append(decompress(Compression(int(codecs[index])), payload, limit=DECOMPRESSED_BYTES_MAX))
        size += len(parts[-1])
        if size >= CHUNK_BYTES:
            yield _joined(table, begin, parts)
            begin, size, parts = index + 1, 0, []
    if parts:
        yield _joined(table, begin, parts)


def _joined(table: BatchTable, begin: int, parts: list[bytes]) -> _Chunk:
    end = begin + len(parts)
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    starts = np.concatenate(([0], ends[:-1]))
    some = BatchTable(table.data, table.positions[begin:end], table.headers[begin:end])
    return _Chunk(some, b"".join(parts), starts, ends)


def _decode_chunk(chunk: _Chunk, columns: Collection[str], selection: Selection) -> Columns:
    data = np.frombuffer(chunk.data, np.uint8)
    counts = chunk.table.column("record_count")
    _check_elements(counts)
    fields = _Fields(data, chunk, counts)
    rows = (fields.offsets >= selection.first_offset) & (fields.offsets < selection.end_offset)
    if rows.all():
        return {name: fields.column(name, slice(None)) for name in columns}
    return {name: fields.column(name, rows) for name in columns}


class _Fields:
    """Where the fields of all records of a chunk are, checked."""

    def __init__(self, data: npt.NDArray[np.uint8], chunk: _Chunk, counts: Int64Array) -> None:
        self._data, self._bytes, self._table = data, chunk.data, chunk.table
        self._batch = np.repeat(np.arange(len(counts)), counts)
        lengths, bodies = read_varints(data, _record_positions(chunk, counts))
        ends = bodies + lengths
        if (lengths < 0).any() or (ends > chunk.ends[self._batch]).any():
            raise ValueError("a record's length is not what is left")
        self.timestamp_deltas, at = read_varints(data, bodies + 1)
        self.offset_deltas, at = read_varints(data, at)
        self.key_lengths, self.keys = read_varints(data, at)
        self.value_lengths, self.values = read_varints(data, self.keys + np.maximum(self.key_lengths, 0))
        self.header_counts, at = read_varints(data, self.values + np.maximum(self.value_lengths, 0))
        if (self.key_lengths < -1).any() or (self.value_lengths < -1).any() or (self.header_counts < 0).any():
            raise ValueError("a length below -1")
        _check_elements(counts + np.bincount(self._batch, self.header_counts, len(counts)))
        self._headers = _Headers(data, at, self.header_counts)
        if (self._headers.ends != ends).any():
            raise ValueError("a record's fields do not fill its length")
        last = np.cumsum(counts) - 1
        if (ends[last] != chunk.ends).any():
            raise ValueError("bytes after the last record")
        self.offsets = self._of_batch("base_offset") + self.offset_deltas
        self._check_offsets(last)

    def column(self, name: str, rows: slice | BoolArray) -> pa.Array:
        match name:
            case "key":
                return _gather(self._bytes, self.keys[rows], self.key_lengths[rows])
            case "value":
                return _gather(self._bytes, self.values[rows], self.value_lengths[rows])
            case "headers":
                return self._headers.column(self._bytes, rows)
            case "timestamp":
                millis = np.clip(self._timestamps()[rows], -_MILLIS_MAX, _MILLIS_MAX)
                return pa.array(millis * 1000).view(TIMESTAMP_TYPE)
            case "offset":
                return pa.array(self.offsets[rows])
            case "timestampType":
                return pa.array(self._table.is_log_append_time.astype(np.int32)[self._batch][rows])
            case "sequence":
                first = self._of_batch("base_sequence")
                sequences = np.where(first < 0, -1, (first + self.offset_deltas) & SEQUENCE_MAX)
                return pa.array(sequences[rows].astype(np.int32))
            case _:
                values = self._of_batch(name)[rows]
                return pa.array(values if COLUMN_TYPES[name] == pa.int64() else values.astype(np.int32))

    def _timestamps(self) -> Int64Array:
        created = self._of_batch("base_timestamp") + self.timestamp_deltas
        appended = self._table.is_log_append_time
        if not appended.any():
            return created
        return np.where(appended[self._batch], self._of_batch("max_timestamp"), created)

    def _of_batch(self, name: str) -> Int64Array:
        return self._table.column(name)[self._batch]

    def _check_offsets(self, last: Int64Array) -> None:
        rises = np.diff(self.offset_deltas) > 0
        rises[last[:-1]] = True
        first = np.concatenate(([0], last[:-1] + 1))
        if not rises.all() or (self.offset_deltas[first] < 0).any():
            raise ValueError("offsets do not rise")
        if (self.offset_deltas[last] > self._table.column("last_offset_delta")).any():
            raise ValueError("a record's offset is above the last one of its batch")


class _Headers:
    """Header names and values of all records, flat."""

    def __init__(self, data: npt.NDArray[np.uint8], at: Int64Array, counts: Int64Array) -> None:
        total = int(counts.sum())
        if total > len(data):
            raise ValueError(f"{total} headers in {len(data)} bytes")
        self._first = np.concatenate(([0], np.cumsum(counts)))
        self._counts = counts
        self.ends = at.copy()
        self._names, self._name_lengths, self._values, self._value_lengths = (
            np.empty(total, np.int64) for _ in range(4)
        )
        live, nth = np.flatnonzero(counts), 0
        while live.size:
            to, where = self._first[live] + nth, self.ends[live]
            self._name_lengths[to], self._names[to] = lengths, names = read_varints(data, where)
            if (lengths < 0).any():
                raise ValueError("a header's name is null")
            self._value_lengths[to], self._values[to] = lengths, values = read_varints(data, names + lengths)
            if (lengths < -1).any():
                raise ValueError("a length below -1")
            self.ends[live] = values + np.maximum(lengths, 0)
            nth += 1
            live = live[counts[live] > nth]
            if nth >= WIDE_HEADERS_MIN and live.size < WIDE_BATCHES_MIN:
                for record in live.tolist():
                    self._read_one_by_one(data, record, nth)
                return

    def _read_one_by_one(self, data: npt.NDArray[np.uint8], record: int, nth: int) -> None:
        """Read the headers of one record from the nth on: a step over few records costs as much as over many."""
        view, at = data.data, int(self.ends[record])
        for to in range(int(self._first[record]) + nth, int(self._first[record + 1])):
            self._name_lengths[to], self._names[to] = length, at = read_varint(view, at)
            if length < 0:
                raise ValueError("a header's name is null")
            self._value_lengths[to], self._values[to] = length, at = read_varint(view, at + length)
            if length < -1:
                raise ValueError("a length below -1")
            at += max(length, 0)
        self.ends[record] = at

    def column(self, data: bytes | memoryview, rows: slice | BoolArray) -> pa.Array:
        """Null where a record has none, as Spark's Kafka source has it."""
        counts = self._counts
        if not len(self._names):
            return pa.nulls(len(counts[rows]), HEADERS_TYPE)
        names = _text(_gather(data, self._names, self._name_lengths))
        values = _gather(data, self._values, self._value_lengths)
        pairs = pa.StructArray.from_arrays([names, values], fields=list(HEADERS_TYPE.value_type))
        offsets = pa.array(self._first.astype(np.int32), mask=np.append(counts == 0, False))
        lists = pa.ListArray.from_arrays(offsets, pairs, type=HEADERS_TYPE)
        return lists if isinstance(rows, slice) else lists.filter(pa.array(rows))


def _check_elements(counts: npt.NDArray[np.int64 | np.float64]) -> None:
    most = int(counts.max())
    if most > BATCH_ELEMENTS_MAX:
        raise ValueError(f"{most} records and headers in one batch, at most {BATCH_ELEMENTS_MAX} are read")


def _record_positions(chunk: _Chunk, counts: Int64Array) -> Int64Array:
    """Where the length of each record begins."""
    total = int(counts.sum())
    if total > int((chunk.ends - chunk.starts).sum()):
        raise ValueError(f"{total} records in fewer bytes")
    if total >= WIDE_BATCHES_MIN * int(counts.max()):
        return _positions_in_step(np.frombuffer(chunk.data, np.uint8), chunk.starts, counts)
    return _positions_one_by_one(chunk, counts)


def _positions_in_step(data: npt.NDArray[np.uint8], starts: Int64Array, counts: Int64Array) -> Int64Array:
    positions = np.empty(int(counts.sum()), np.int64)
    first = np.cumsum(counts) - counts
    live, at, nth = np.arange(len(counts)), starts, 0
    while live.size:
        positions[first[live] + nth] = at
        lengths, bodies = read_varints(data, at)
        if (lengths < 0).any():
            raise ValueError("a record of negative length")
        nth += 1
        more = counts[live] > nth
        live, at = live[more], (bodies + lengths)[more]
    return positions


def _positions_one_by_one(chunk: _Chunk, counts: Int64Array) -> Int64Array:
    # The sign bit of a length is not looked at here: a negative one is found when all lengths are decoded.
    data = chunk.data
    positions: list[int] = []
    found = positions.append
    for at, count in zip(chunk.starts.tolist(), counts.tolist(), strict=True):
        for _ in range(count):
            found(at)
            low = data[at]
            if low < 0x80:
                at += 1 + (low >> 1)
            elif (high := data[at + 1]) < 0x80:  # most records: up to 8 KiB
                at += 2 + ((low & 0x7F | high << 7) >> 1)
            else:
                at = _behind(data, at)
    return np.array(positions, np.int64)


def _behind(data: bytes | memoryview, at: int) -> int:
    """Where the record ends whose length begins at `at`."""
    shift, length = 0, 0
    while (byte := data[at]) > 0x7F and shift < 63:
        length |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
    return at + 1 + ((length | byte << shift) >> 1)


def _gather(data: bytes | memoryview, starts: Int64Array, lengths: Int64Array) -> pa.Array:
    """data[start:start + length] of each, null where the length is negative: every other piece of an array whose
    offsets are starts and ends in turn.
    """
    count = len(starts)
    is_null = lengths < 0
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[0:-1:2] = starts
    offsets[1::2] = starts + np.maximum(lengths, 0)
    offsets[-1] = offsets[-2] if count else 0
    pieces = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    wanted = pa.array(np.arange(0, 2 * count, 2, dtype=np.int32), mask=is_null if is_null.any() else None)
    return pieces.take(wanted)


def _text(names: pa.Array) -> pa.Array:
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.as_py().decode("utf-8", "replace") for name in names], pa.string())
