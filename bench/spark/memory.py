"""What a worker needs to read one segment of half a gigabyte, cut into tasks or as one task: its largest resident size.

Each case is a process of its own, which imports what a worker of Spark imports.
"""

from __future__ import annotations

import multiprocessing
import re
from pathlib import Path

from tierfetch.cli.local import end_with_parent
from tierfetch.protocol.records import Compression

from ..measure import Results
from .segments import TOPIC, TierWriter, batch

SEGMENT_BYTES = 512 << 20
SYSTEM = "tierfetch"
CASES = (
    ("551 B records, not compressed", 551, 400, Compression.NONE),
    ("551 B records, zstd", 551, 400, Compression.ZSTD),
    ("100 B records, lz4, batches of 1 MB", 100, 10_000, Compression.LZ4),
)


def run(base: Path, results: Results) -> None:
    for number, (case, record_bytes, records, compression) in enumerate(CASES):
        root = base / str(number)
        writer = TierWriter(root)
        writer.segment(batch(records, record_bytes, compression), records, SEGMENT_BYTES)
        for how, split_bytes in (("tasks of 32 MiB", 32 << 20), ("one task", 0)):
            rows, peak_mb = in_another_process(root, split_bytes)
            assert rows == writer.next_offset, (rows, writer.next_offset)
            results.add("spark", f"segment of 512 MiB, {case}, {how}", SYSTEM, "peak RSS of a worker", peak_mb, "MB")


def in_another_process(root: Path, split_bytes: int) -> tuple[int, float]:
    """(rows, peak in millions of bytes)."""
    with multiprocessing.get_context("spawn").Pool(1, end_with_parent()) as pool:
        return pool.apply(read_all, (str(root), split_bytes))


def read_all(location: str, split_bytes: int) -> tuple[int, float]:
    import pyarrow as pa

    from tierfetch.pipeline.access.options import parse
    from tierfetch.pipeline.core.decode import COLUMN_TYPES
    from tierfetch.pipeline.planning import tier_splits as tier_plan
    from tierfetch.pipeline.planning.driver import planning
    from tierfetch.pipeline.reading.read_ahead import ahead
    from tierfetch.pipeline.reading.splits import read_split

    from .planning import all_splits

    if split_bytes == 0:
        vars(tier_plan)["CUT_PIECES_MAX"] = 0
    options = parse({"location": location, "topics": TOPIC})
    schema = pa.schema(list(COLUMN_TYPES.items()))
    rows = 0
    for split in planning(options, all_splits):
        for found in ahead(read_split(options, split, schema)):
            rows += found.num_rows
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return rows, int(found[1]) * 1024 / 1e6
