"""Reading one split, in an executor: bytes from a store or from the brokers, to Arrow batches.

A split of the usual size is one ranged GET. A longer one (a segment that was not cut, an index with holes) is read in
windows of that size, each ended where its last whole batch ends, so that memory does not grow with the segment.

| what is wrong                          | failfast              | permissive         | failOnDataLoss false |
|----------------------------------------|-----------------------|--------------------|----------------------|
| a batch                                | fails, with its place | passed over        | as the mode says     |
| an object shorter than was planned     | fails, with the sizes | the rest is passed | as the mode says     |
| an object deleted since the job began  | fails, says so        | fails              | passed over          |
| offsets that were in no segment        | no plan               | no plan            | passed over          |

`skipped` says how skipped bytes are reported.
"""

from __future__ import annotations

import socket
from collections.abc import Generator, Iterator
from typing import Final

import pyarrow as pa

from ...protocol import CorruptRecordError
from ...remote import RemoteResourceNotFoundError, RemoteStorageCorruptError, RemoteStorageError
from ..access.options import TierOptions
from ..access.worker import WORKER
from ..core.arrow_batches import batches, constants
from ..core.batch_table import FaultListener, batch_size, next_batch, stated_offset, whole_batches
from ..planning.table import LostSplit, TableSplit, TailSplit
from ..planning.tier_splits import PlannedSplit, TierError
from .skipped import PassedOver, Report

BATCH_BYTES_MAX: Final = 128 * 1024 * 1024
"""A batch that claims to be longer is none."""


def read_split(options: TierOptions, split: TableSplit, schema: pa.Schema) -> Generator[pa.RecordBatch, None, None]:
    """Yield Arrow batches with the columns of the schema. CorruptRecordError names segment and position; TierError and
    BrokersUnavailableError say what was wrong.
    """
    match split:
        case TailSplit():
            from .tail import read_tail  # takes longer to import than a split to read, and most tables have no tail

            return read_tail(options, split, schema)
        case LostSplit():
            return _report_lost(options, split, schema)
        case PlannedSplit():
            return _SegmentReader(options, split, schema).read()


def read_windows(options: TierOptions, split: PlannedSplit) -> Iterator[memoryview]:
    """Its bytes as they are stored, whole batches at a time. RemoteStorageError."""
    return (data for _, data in _SegmentReader(options, split, pa.schema([])).windows())


class _SegmentReader:
    """One split of a segment."""

    def __init__(self, options: TierOptions, planned: PlannedSplit, schema: pa.Schema) -> None:
        self._options = options
        self._planned = planned
        self._split = planned.split
        self._schema = schema
        self._where = f"{planned.partition}, segment {self._name()}"
        segment = self._split.segment.segment_id.id if planned.store.is_remote else None
        self._same = constants(planned.partition, segment, options.corrupt_column)
        self._report = Report(schema, self._same, options.corrupt_column)

    def read(self) -> Generator[pa.RecordBatch, None, None]:
        at = self._split.selection.first_offset
        try:
            for position, data in self.windows():
                yield from self._decoded(position, data)
                yield from self._report.rows()
        except RemoteResourceNotFoundError as error:
            what = f"{self._where} does not exist ({error}): it was deleted since the job was planned, or lost"
            if self._options.fail_on_data_loss:
                raise TierError(f"{what}; run the job again, or set failOnDataLoss to false") from None
            self._report.add(PassedOver(at, what))
        except RemoteStorageCorruptError as error:
            if self._options.mode != "permissive":
                raise TierError(f"{self._where}: {error}") from None
            self._report.add(PassedOver(None, f"{self._where}: {error}"))
        except RemoteStorageError as error:
            raise TierError(
                f"{self._where}: the executor on {socket.gethostname()} cannot read what the driver planned: "
                f"{error}. Credentials that only the driver has are not passed on: set them as storage.* options, or "
                "to every executor"
            ) from None
        yield from self._report.rows()

    def _decoded(self, position: int, data: memoryview) -> Iterator[pa.RecordBatch]:
        on_fault = self._skip(position, data) if self._options.mode == "permissive" else None
        try:
            yield from batches(data, self._split.selection, self._same, self._schema, on_fault)
        except CorruptRecordError as error:
            raise CorruptRecordError(f"{self._where}: {error.reason}", position + error.position) from None

    def _skip(self, start: int, data: memoryview) -> FaultListener:
        def skip(error: CorruptRecordError) -> None:
            offset = stated_offset(data, error.position, self._split.selection)
            self._report.add(PassedOver(offset, f"{self._where}: {error.at(start + error.position)}"))

        return skip

    def windows(self) -> Iterator[tuple[int, memoryview]]:
        """(position in the log, whole batches), all of the split; with what is no batch at the end of the last one."""
        position, end = self._split.start, self._split.end
        usual = max(self._options.split_bytes, 1)
        wanted = end - position if end - position <= 2 * usual else usual
        while position < end:
            stop = min(end, position + wanted)
            data = memoryview(self._fetch(position, stop))
            used = len(data) if stop == end else whole_batches(data)
            if used == 0:
                size = batch_size(data)
                if len(data) < size <= BATCH_BYTES_MAX:
                    wanted = size
                    continue
                used = next_batch(data, 1)
            yield position, data[:used]
            position, wanted = position + used, usual

    def _fetch(self, start: int, end: int) -> bytes:
        store = WORKER.store(self._options, self._planned.store)
        data = WORKER.run(store.fetch_log_segment(self._split.segment, start, end))
        if len(data) != end - start:
            raise RemoteStorageCorruptError(
                f"bytes [{start}, {end}) of the log came back as {len(data)}: the object is shorter than its metadata "
                "says"
            )
        return data

    def _name(self) -> str:
        segment, store = self._split.segment, self._planned.store
        return str(segment.segment_id) if store.is_remote else f"{segment.start_offset} of {store.location}"


def _report_lost(options: TierOptions, split: LostSplit, schema: pa.Schema) -> Generator[pa.RecordBatch, None, None]:
    report = Report(schema, constants(split.partition, None, options.corrupt_column), options.corrupt_column)
    report.add(PassedOver(split.first_offset, split.message))
    yield from report.rows()
