"""The headers of a split, summed up: what a profile needs to know of batches without opening them. Pure.

Control batches count with their segment's bytes and nowhere else. A batch counts at its largest timestamp.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import field

import numpy as np

from ...light_dataclass import dataclass
from ...protocol.records import Compression
from ..core.batch_table import BatchTable, FaultListener, Selection, read_table, select


@dataclass(slots=True)
class Sums:
    """The number of batches, of their records and of their bytes."""

    batches: int = 0
    records: int = 0
    size_bytes: int = 0

    def add(self, other: Sums) -> None:
        self.batches += other.batches
        self.records += other.records
        self.size_bytes += other.size_bytes


@dataclass(slots=True)
class BatchSums:
    """The sums of some splits of a partition, by codec and by time. Times are -1 if no batch has one."""

    codecs: dict[str, Sums] = field(default_factory=lambda: defaultdict(Sums))
    buckets: dict[int, Sums] = field(default_factory=lambda: defaultdict(Sums))
    first_timestamp_ms: int = -1
    last_timestamp_ms: int = -1

    @property
    def total(self) -> Sums:
        found = Sums()
        for sums in self.codecs.values():
            found.add(sums)
        return found

    def add(self, other: BatchSums) -> None:
        for codec, sums in other.codecs.items():
            self.codecs[codec].add(sums)
        for start_ms, sums in other.buckets.items():
            self.buckets[start_ms].add(sums)
        known = [time for time in (self.first_timestamp_ms, other.first_timestamp_ms) if time >= 0]
        self.first_timestamp_ms = min(known, default=-1)
        self.last_timestamp_ms = max(self.last_timestamp_ms, other.last_timestamp_ms)


def sum_batches(
    data: memoryview, selection: Selection, bucket_ms: int, on_fault: FaultListener | None = None
) -> BatchSums:
    """CorruptRecordError for bytes that are no whole batches; with `on_fault` it is reported, and they do not count."""
    table = read_table(data, on_fault)
    return _sums(table.chosen(select(table, selection)), bucket_ms)


def joined(parts: Iterable[BatchSums]) -> BatchSums:
    found = BatchSums()
    for part in parts:
        found.add(part)
    return found


def _sums(table: BatchTable, bucket_ms: int) -> BatchSums:
    found = BatchSums()
    sizes = table.ends - table.positions
    records = table.column("record_count")
    for codec in np.unique(table.codecs).tolist():
        mask = table.codecs == codec
        name = Compression(codec).name.lower()
        found.codecs[name].add(Sums(int(mask.sum()), int(records[mask].sum()), int(sizes[mask].sum())))
    times = table.column("max_timestamp")
    timed = times >= 0
    starts, which = np.unique(times[timed] // bucket_ms * bucket_ms, return_inverse=True)
    counts = np.bincount(which, minlength=len(starts))
    of_records = np.bincount(which, records[timed], len(starts))
    of_bytes = np.bincount(which, sizes[timed], len(starts))
    for index, start_ms in enumerate(starts.tolist()):
        found.buckets[start_ms].add(Sums(int(counts[index]), int(of_records[index]), int(of_bytes[index])))
    if timed.any():
        first = table.column("base_timestamp")[timed]
        found.first_timestamp_ms = int(np.where(first >= 0, first, times[timed]).min())
        found.last_timestamp_ms = int(times[timed].max())
    return found
