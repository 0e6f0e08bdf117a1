"""Walks over the batches of a `.log` file through the `Disk` port.

* `HeaderScan` reads little: it searches for one batch, and skips the bytes between the headers.
* `BatchScan` reads all: recovery, rebuilding of producer state, look-ups by time.

Positions are absolute in the file. Both raise CorruptRecordError, with the absolute position, after everything before
the fault has been given out. At an incomplete batch they stop silently if it may be a torn tail, which the caller sees
because the last batch ends before `end`. Below `whole_until`, what was written whole, it is a fault like any other:
with a flipped bit in its length a batch seems to end beyond the file, and what follows it would go unseen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

from ...light_dataclass import dataclass
from ...protocol import CorruptRecordError
from ...protocol.records import (
    BATCH_HEADER_SIZE,
    CONTROL_BIT,
    CONTROL_BYTES_MAX,
    LOG_OVERHEAD,
    BatchHeader,
    ControlType,
    EndTransactionMarker,
    control_type,
    iter_batches,
    parse_end_transaction_marker,
    parse_header,
    skim_records,
    usual_marker,
)
from ..disk.port import Buffer, DiskFile

HEADER_READ_BYTES: Final = 16 * 1024
"""One read of `HeaderScan`: some headers of small batches, not much wasted on large ones."""
BATCH_READ_BYTES: Final = 1024 * 1024

Markers = Mapping[int, EndTransactionMarker | None]
"""The end-transaction markers in the control batches of a run of batches, by index of the batch."""


@dataclass(frozen=True, slots=True)
class BatchChunk:
    """Complete batches that were read together; `data` begins at `start`, and may end with a part of the next batch."""

    start: int
    data: bytes
    batches: list[tuple[int, BatchHeader]]
    """`(absolute position, header)`, never empty."""

    def marker(self, position: int, header: BatchHeader) -> EndTransactionMarker | None:
        return end_transaction_marker(self.data, position - self.start, header)


def end_transaction_marker(buf: Buffer, position: int, header: BatchHeader) -> EndTransactionMarker | None:
    """Return the COMMIT or ABORT that a batch holds; None for data and for other control records."""
    if not header.is_control or not header.has_producer_id:
        return None
    usual = usual_marker(buf, position, header)
    if usual is not None:
        return usual
    record = next(skim_records(buf, position, header, decompressed_bytes_max=CONTROL_BYTES_MAX), None)
    if record is None or control_type(record) not in {ControlType.ABORT, ControlType.COMMIT}:
        return None
    return parse_end_transaction_marker(record)


def end_transaction_markers(buf: Buffer, headers: list[BatchHeader]) -> Markers:
    """Return the markers in the control batches of `buf`, which begins with the first of these and holds them all."""
    markers: dict[int, EndTransactionMarker | None] = {}
    position = 0
    for index, header in enumerate(headers):
        if header.attributes & CONTROL_BIT:
            markers[index] = end_transaction_marker(buf, position, header)
        position += header.batch_length + LOG_OVERHEAD
    return markers


def _stop(file: DiskFile, position: int, whole_until: int) -> StopAsyncIteration | CorruptRecordError:
    """Return what to raise where no complete batch begins at `position`."""
    if position >= whole_until:
        return StopAsyncIteration()
    return CorruptRecordError(f"{file.path}: {whole_until - position} bytes are no complete batch", position)


class HeaderScan:
    """`async for position, header` over the complete batches in `[start, end)`; the CRC is not checked.

    A class, not a generator, so that leaving the loop early leaves nothing behind.
    """

    __slots__ = ("_buffer", "_buffer_start", "_end", "_file", "_position", "_whole_until")

    def __init__(self, file: DiskFile, start: int, end: int, *, whole_until: int = 0) -> None:
        self._file = file
        self._position = start
        self._end = end
        self._whole_until = whole_until
        self._buffer = b""
        self._buffer_start = start

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tuple[int, BatchHeader]:
        position = self._position
        if position + BATCH_HEADER_SIZE > self._end:
            raise _stop(self._file, position, self._whole_until)
        if position + BATCH_HEADER_SIZE > self._buffer_start + len(self._buffer):
            self._buffer = await self._file.read(position, min(HEADER_READ_BYTES, self._end - position))
            self._buffer_start = position
            if len(self._buffer) < BATCH_HEADER_SIZE:
                raise _stop(self._file, position, self._whole_until)
        try:
            header = parse_header(self._buffer, position - self._buffer_start)
        except CorruptRecordError as error:
            raise error.at(position) from error
        if position + header.size_bytes > self._end:
            raise _stop(self._file, position, self._whole_until)
        self._position = position + header.size_bytes
        return position, header


class BatchScan:
    """`async for chunk` over the complete batches in `[start, end)`: pieces of about 1 MiB, or of one larger batch."""

    __slots__ = ("_check_crc", "_end", "_fault", "_file", "_whole_until", "position")

    def __init__(self, file: DiskFile, start: int, end: int, *, check_crc: bool = False, whole_until: int = 0) -> None:
        self._file = file
        self._end = end
        self._whole_until = whole_until
        self._check_crc = check_crc
        self._fault: CorruptRecordError | None = None
        self.position = start
        """The position after the last batch returned."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> BatchChunk:
        if self._fault is not None:
            raise self._fault
        read_bytes = BATCH_READ_BYTES
        while self.position + BATCH_HEADER_SIZE <= self._end:
            start = self.position
            data = await self._file.read(start, min(read_bytes, self._end - start))
            batches, self._fault = _walk(data, start, check_crc=self._check_crc)
            if batches:
                self.position = batches[-1][0] + batches[-1][1].size_bytes
                return BatchChunk(start, data, batches)
            if self._fault is not None:
                raise self._fault
            if len(data) < BATCH_HEADER_SIZE:
                break
            read_bytes = parse_header(data).size_bytes
            if read_bytes <= len(data) or start + read_bytes > self._end:
                break
        raise _stop(self._file, self.position, self._whole_until)


def _walk(
    data: bytes, base: int, *, check_crc: bool
) -> tuple[list[tuple[int, BatchHeader]], CorruptRecordError | None]:
    batches: list[tuple[int, BatchHeader]] = []
    try:
        for position, header in iter_batches(data, check_crc=check_crc):
            batches.append((base + position, header))
    except CorruptRecordError as error:
        return batches, error.at(base + error.position)
    return batches, None
