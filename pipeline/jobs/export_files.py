"""One task of an export, in an executor: Arrow batches in, Parquet files by day out, each of about the size asked for.

    batches -> rows of one day -> buffer of the day -> row group -> file, closed once it is large enough

Memory: all buffers together hold at most `BUFFER_BYTES_MAX`; then the largest becomes a row group. Records whose
timestamps jump about between many days have at most `OPEN_FILES_MAX` files open; then the one that was written longest
ago is closed, and its day continues in another file.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import field
from datetime import date, timedelta
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ...light_dataclass import dataclass
from ...protocol import check_topic_name
from .export_log import ExportedFile
from .export_place import Place

BUFFER_BYTES_MAX: Final = 64 << 20
ROW_GROUP_BYTES: Final = 16 << 20
OPEN_FILES_MAX: Final = 16
CODEC: Final = "zstd"
_EPOCH: Final = date(1970, 1, 1)
_DAY_US: Final = 86_400_000_000
_FIRST_DAY: Final = (date.min - _EPOCH).days
_LAST_DAY: Final = (date.max - _EPOCH).days
"""Timestamps are whatever a producer wrote: what no calendar has goes to the calendar's last day."""


@dataclass(frozen=True, slots=True)
class FileLimits:
    """A file is closed at the first row group that brings it to `file_bytes`, as stored."""

    file_bytes: int


def write_files(place: Place, topic: str, batches: Iterable[pa.RecordBatch], limits: FileLimits) -> list[ExportedFile]:
    """Under hidden names (`ExportedFile.hidden_path`). `batches` have a column `timestamp`, which says the day (UTC).
    A second attempt at the same task writes other files. OSError; ValueError for a name that is no topic's.
    """
    check_topic_name(topic)
    with ExitStack() as stack:
        writer = _Writer(place, topic, limits, stack)
        for batch in batches:
            writer.add(batch)
        return writer.finish()


@dataclass(slots=True)
class _Open:
    """A file that is being written."""

    path: str
    sink: BinaryIO
    stack: ExitStack
    parquet: Any
    rows: int = 0


@dataclass(slots=True)
class _Buffer:
    """Rows of a day that are in no file yet."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    size_bytes: int = 0


class _Writer:
    def __init__(self, place: Place, topic: str, limits: FileLimits, stack: ExitStack) -> None:
        self._place = place
        self._topic = topic
        self._limits = limits
        self._stack = stack
        self._buffers: dict[str, _Buffer] = {}
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._written: list[ExportedFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        for day, rows in _by_day(batch):
            buffer = self._buffers.setdefault(day, _Buffer())
            buffer.batches.append(rows)
            buffer.size_bytes += rows.nbytes
            if buffer.size_bytes >= min(ROW_GROUP_BYTES, self._limits.file_bytes):
                self._flush(day)
        while sum(buffer.size_bytes for buffer in self._buffers.values()) > BUFFER_BYTES_MAX:
            self._flush(max(self._buffers, key=lambda day: self._buffers[day].size_bytes))

    def finish(self) -> list[ExportedFile]:
        for day in sorted(self._buffers):
            self._flush(day)
        for day in list(self._open):
            self._close(day)
        return self._written

    def _flush(self, day: str) -> None:
        table = pa.Table.from_batches(self._buffers.pop(day).batches)
        file = self._file(day, table.schema)
        file.parquet.write_table(table, row_group_size=max(1, table.num_rows))
        file.rows += table.num_rows
        if file.sink.tell() >= self._limits.file_bytes:
            self._close(day)

    def _file(self, day: str, schema: pa.Schema) -> _Open:
        if day not in self._open:
            if len(self._open) >= OPEN_FILES_MAX:
                self._close(next(iter(self._open)))
            path = f"topic={self._topic}/date={day}/part-{uuid.uuid4().hex}.parquet"
            stack = self._stack.enter_context(ExitStack())
            sink = stack.enter_context(self._place.write(_hidden(path)))
            parquet = stack.enter_context(pq.ParquetWriter(sink, schema, compression=CODEC))
            self._open[day] = _Open(path, sink, stack, parquet)
        self._open.move_to_end(day)
        return self._open[day]

    def _close(self, day: str) -> None:
        file = self._open.pop(day)
        file.parquet.close()
        size_bytes = file.sink.tell()
        file.stack.close()
        self._written.append(ExportedFile(path=file.path, rows=file.rows, size_bytes=size_bytes))


def _hidden(path: str) -> str:
    return ExportedFile(path=path, rows=1, size_bytes=1).hidden_path


def _by_day(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    days = np.clip(batch.column("timestamp").cast(pa.int64()).to_numpy() // _DAY_US, _FIRST_DAY, _LAST_DAY)
    for day in np.unique(days):
        is_of_day = days == day
        rows = batch if is_of_day.all() else batch.filter(pa.array(is_of_day))
        yield (_EPOCH + timedelta(days=int(day))).isoformat(), rows
