"""The headers of many record batches as columns, so that batches are chosen without a look at their records.

    bytes of whole batches -> positions (a walk along the lengths) -> one structured array of headers -> mask

A batch is skipped by its header alone: outside of the wanted offsets, a control batch, part of an aborted transaction.
What is skipped is neither summed nor decompressed.

Rules:
* The bytes begin and end at batch borders; a cut batch is a fault of the object, not a tail to wait for.
* An aborted transaction is (producer id, first offset, offset of its marker), as the transaction index says; batches of
  that producer between the two are not committed (KIP-98).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from ...light_dataclass import dataclass
from ...log.core import AbortedTransaction
from ...protocol import CorruptRecordError
from ...protocol.records import (
    BATCH_HEADER_SIZE,
    CONTROL_BIT,
    CRC_START,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    TRANSACTIONAL_BIT,
    Compression,
)

FaultListener = Callable[[CorruptRecordError], None]
Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

OFFSET_END: Final = 2**63 - 1
"""An end offset above every offset."""
TIMESTAMP_MIN: Final = -(2**63)
"""A timestamp below every timestamp."""
_CODEC_MASK: Final = 0x07
_OFFSET = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_UNKNOWN: Final = "{} {} in the header of the batch at offset {} is not known"
_LENGTH_AT: Final = 8
_CRC_AT: Final = 17
_HEADER: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("batch_length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
assert _HEADER.itemsize == BATCH_HEADER_SIZE


@dataclass(frozen=True, slots=True)
class Selection:
    """The offsets [first_offset, end_offset) of one partition; `aborted` is empty for read_uncommitted. Batches with
    nothing of `min_timestamp_ms` or later may be left out, their records need not be. `is_indexed`: whether `aborted`
    has what the segment's transaction index says, and not nothing because there is none.
    """

    first_offset: int = 0
    end_offset: int = OFFSET_END
    aborted: tuple[AbortedTransaction, ...] = ()
    min_timestamp_ms: int = TIMESTAMP_MIN
    is_indexed: bool = True


@dataclass(frozen=True, slots=True)
class BatchTable:
    """Batches of `data`: where each begins, and its header, in the same order."""

    data: memoryview
    positions: Int64Array
    headers: npt.NDArray[np.void]

    def __len__(self) -> int:
        return len(self.positions)

    def column(self, name: str) -> Int64Array:
        return self.headers[name].astype(np.int64)

    @property
    def ends(self) -> Int64Array:
        return self.positions + self.column("batch_length") + LOG_OVERHEAD

    @property
    def last_offsets(self) -> Int64Array:
        return self.column("base_offset") + self.column("last_offset_delta")

    @property
    def codecs(self) -> Int64Array:
        return self.column("attributes") & _CODEC_MASK

    def has(self, bit: int) -> BoolArray:
        """Whether this bit is set in the attributes."""
        is_set: BoolArray = (self.column("attributes") & bit) != 0
        return is_set

    @property
    def is_log_append_time(self) -> BoolArray:
        return self.has(LOG_APPEND_TIME_BIT)

    def chosen(self, mask: BoolArray) -> BatchTable:
        return BatchTable(self.data, self.positions[mask], self.headers[mask])

    def check(self) -> None:
        """CorruptRecordError at the first batch whose CRC is not that of its bytes."""
        data = self.data
        crcs = self.headers["crc"].tolist()
        for position, end, stated in zip(self.positions.tolist(), self.ends.tolist(), crcs, strict=True):
            if crc32c(data[position + CRC_START : end]) != stated:
                fault = _crc_fault(data, position, end)
                assert fault is not None, position
                raise fault


def read_table(data: memoryview, on_fault: FaultListener | None = None) -> BatchTable:
    """The batches of `data`. CorruptRecordError names the position of a header that can be none, or is cut.

    With `on_fault` it is reported instead: a batch whose header says something unknown is left out, and after one whose
    length cannot be right the next one is searched for.
    """
    positions = np.fromiter(_walk(data, on_fault), np.int64)
    if not len(positions):
        return BatchTable(data, positions, np.empty(0, _HEADER))
    raw = np.frombuffer(data, np.uint8)
    matrix = raw[positions[:, None] + np.arange(BATCH_HEADER_SIZE)]
    table = BatchTable(data, positions, matrix.view(_HEADER)[:, 0])
    faults = list(_header_faults(table))
    if not faults:
        return table
    if on_fault is None:
        raise min(faults, key=lambda fault: fault.position)
    for fault in faults:
        on_fault(fault)
    return table.chosen(~np.isin(positions, [fault.position for fault in faults]))


def whole_batches(data: memoryview) -> int:
    """How many bytes at its begin are whole batches, judged by their lengths."""
    end, last_header = 0, len(data) - BATCH_HEADER_SIZE
    while end <= last_header:
        size = batch_size(data, end)
        if size < BATCH_HEADER_SIZE or size > len(data) - end:
            break
        end += size
    return end


def batch_size(data: memoryview, position: int = 0) -> int:
    """Bytes of the batch that begins at `position`, by its length; 0 if not so much of it is there."""
    if len(data) - position < LOG_OVERHEAD:
        return 0
    size: int = _LENGTH.unpack_from(data, position + _LENGTH_AT)[0] + LOG_OVERHEAD
    return size


def select(table: BatchTable, selection: Selection) -> BoolArray:
    """Which batches hold records that are wanted."""
    bases = table.column("base_offset")
    mask: BoolArray = ~table.has(CONTROL_BIT) & (table.headers["record_count"] > 0)
    mask &= (table.last_offsets >= selection.first_offset) & (bases < selection.end_offset)
    if selection.min_timestamp_ms > TIMESTAMP_MIN:
        mask &= table.headers["max_timestamp"] >= selection.min_timestamp_ms
    if selection.aborted and mask.any():
        mask &= ~_is_aborted(table, bases, selection.aborted)
    return mask


def stated_offset(data: memoryview, position: int, selection: Selection) -> int | None:
    """The base offset in the header at `position`, if it can be: of a batch that is damaged nothing is sure."""
    if len(data) - position < _OFFSET.size:
        return None
    offset: int = _OFFSET.unpack_from(data, position)[0]
    return offset if selection.first_offset <= offset < selection.end_offset else None


def _is_aborted(table: BatchTable, bases: Int64Array, aborted: Sequence[AbortedTransaction]) -> BoolArray:
    """A producer has one open transaction at a time, so that the last one that began before a batch is the one that
    counts; where its end is not known, it covers the batches after it.
    """
    producers, transactional = table.column("producer_id"), table.has(TRANSACTIONAL_BIT)
    found = np.zeros(len(table), np.bool_)
    of_producer: dict[int, list[AbortedTransaction]] = {}
    present = set(np.unique(producers[transactional]).tolist())
    for transaction in aborted:
        if transaction.producer_id in present:
            of_producer.setdefault(transaction.producer_id, []).append(transaction)
    for producer_id, transactions in of_producer.items():
        transactions.sort(key=lambda transaction: transaction.first_offset)
        firsts = np.array([transaction.first_offset for transaction in transactions])
        lasts = np.maximum.accumulate([transaction.last_offset for transaction in transactions])
        batches = np.flatnonzero(transactional & (producers == producer_id))
        before = np.searchsorted(firsts, bases[batches], side="right") - 1
        found[batches] = (before >= 0) & (bases[batches] <= lasts[np.maximum(before, 0)])
    return found


def _walk(data: memoryview, on_fault: FaultListener | None) -> Iterator[int]:
    """Where each batch begins. With `on_fault` only those whose CRC is right: the length of another one may be wrong
    too, and would lead astray.
    """
    position, end, unpack = 0, len(data), _LENGTH.unpack_from
    last_header = end - BATCH_HEADER_SIZE
    while position != end:
        following = position
        if position <= last_header:
            following += LOG_OVERHEAD + unpack(data, position + _LENGTH_AT)[0]
        if following - position < BATCH_HEADER_SIZE or following > end:
            fault: CorruptRecordError | None = CorruptRecordError(_length_fault(data, position), position)
        else:
            fault = None if on_fault is None else _doubt(data, position, following)
        if fault is None:
            yield position
            position = following
            continue
        if on_fault is None:
            raise fault
        on_fault(fault)
        position = next_batch(data, position + 1)


def _doubt(data: memoryview, position: int, end: int) -> CorruptRecordError | None:
    if data[position + MAGIC_AT] == MAGIC:
        return _crc_fault(data, position, end)
    (offset,) = _OFFSET.unpack_from(data, position)
    return CorruptRecordError(_UNKNOWN.format("magic", data[position + MAGIC_AT], offset), position)


def _crc_fault(data: memoryview, position: int, end: int) -> CorruptRecordError | None:
    found, (stated,) = crc32c(data[position + CRC_START : end]), _CRC.unpack_from(data, position + _CRC_AT)
    if found == stated:
        return None
    (offset,) = _OFFSET.unpack_from(data, position)
    return CorruptRecordError(
        f"batch at offset {offset} has CRC {found:#010x}, its header says {stated:#010x}", position
    )


def next_batch(data: memoryview, start: int) -> int:
    """Where the next bytes are that their own CRC proves to be a batch; the end of the data if there are none."""
    content, end = data.obj if isinstance(data.obj, bytes) and len(data.obj) == len(data) else bytes(data), len(data)
    magic = content.find(MAGIC, start + MAGIC_AT)
    while 0 <= magic <= end - (BATCH_HEADER_SIZE - MAGIC_AT):
        position = magic - MAGIC_AT
        size = batch_size(data, position)
        if BATCH_HEADER_SIZE <= size <= end - position and _crc_fault(data, position, position + size) is None:
            return position
        magic = content.find(MAGIC, magic + 1)
    return end


def _length_fault(data: memoryview, position: int) -> str:
    left, size = len(data) - position, batch_size(data, position)
    if left < BATCH_HEADER_SIZE:
        return f"the data ends {left} bytes into a batch header"
    if size < BATCH_HEADER_SIZE:
        return f"no batch begins here: its length would be {size} bytes"
    return f"the data ends {left} bytes into a batch of {size}"


def _header_faults(table: BatchTable) -> Iterator[CorruptRecordError]:
    """One at most for each batch."""
    headers = table.headers
    seen = np.zeros(len(table), np.bool_)
    for is_wrong, what in (
        (headers["magic"] != MAGIC, "magic"),
        (table.codecs > max(Compression), "attributes"),
        (headers["base_offset"] < 0, "base_offset"),
        (headers["last_offset_delta"] < 0, "last_offset_delta"),
        (headers["record_count"] < 0, "record_count"),
        (headers["record_count"] > headers["last_offset_delta"].astype(np.int64) + 1, "record_count"),
    ):
        for index in np.flatnonzero(is_wrong & ~seen).tolist():
            offset = int(headers["base_offset"][index])
            yield CorruptRecordError(
                _UNKNOWN.format(what, int(headers[what][index]), offset), int(table.positions[index])
            )
        seen |= is_wrong
