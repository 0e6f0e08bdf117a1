"""The decoder alone, one core: batches in memory to Arrow columns, CRC and decompression included, by CPU time."""

from __future__ import annotations

import time

from tierfetch.pipeline.core.batch_table import Selection
from tierfetch.pipeline.core.decode import decode
from tierfetch.protocol.records import Compression

from ..measure import Results
from .segments import batch, repeated

DATA_BYTES = 64 << 20
COLUMNS = ("key", "value", "offset", "timestamp", "timestampType", "headers")
"""The columns of Spark's Kafka source that a decoder yields."""
SYSTEM = "tierfetch"
LARGE_BATCH_BYTES = 200_000
TINY = (1, 3, 10)


def run(results: Results, runs: int) -> None:
    for record_bytes in (551, 100):
        for compression in Compression:
            records = LARGE_BATCH_BYTES // record_bytes
            case = f"decoder alone, {record_bytes} B, {compression.name.lower()}"
            add(results, case, record_bytes, records, compression, runs)
        for records in TINY:
            case = f"decoder alone, {record_bytes} B, {records} a batch"
            add(results, case, record_bytes, records, Compression.NONE, runs)


def add(results: Results, case: str, record_bytes: int, records: int, compression: Compression, runs: int) -> None:
    one = batch(records, record_bytes, compression)
    data = memoryview(b"".join(data for _, data in repeated(one, records, DATA_BYTES)))
    total = len(data) // len(one) * records
    for _ in range(runs):
        began, rows = time.process_time(), 0
        for table in decode(data, COLUMNS, Selection()):
            rows += len(table["offset"])
        seconds = time.process_time() - began
        assert rows == total, (rows, total)
        results.add("spark", case, SYSTEM, "rate", rows / seconds / 1000, "krec/CPU s")
