"""Tiny batches inside Spark: what a record costs in batches of 1, 3 and 10 records, beside one in large batches."""

from __future__ import annotations

from pathlib import Path

from ..measure import Results
from .segments import TOPIC, TierWriter, batch
from .table import in_a_session

RECORD_BYTES = 100
RECORDS = 1_500_000
LARGE = 2000
SIZES = (LARGE, 10, 3, 1)
SEGMENT_RECORDS = 500_000
MASTER = "local[1]"


def run(base: Path, results: Results, runs: int) -> None:
    for size in SIZES:
        writer, one = TierWriter(base / str(size)), batch(size, RECORD_BYTES)
        while writer.next_offset < RECORDS:
            writer.segment(one, size, SEGMENT_RECORDS // size * len(one))
        told = in_a_session(base / str(size), TOPIC, MASTER, runs)
        for seconds in told["seconds"]:
            case = f"100 B records, {size} a batch"
            results.add("spark", case, MASTER, "cost of a record", seconds / told["rows"] * 1e6, "us")
