"""`read_large.py DIRECTORY cut|whole`: write a segment of 512 MiB, read all its columns, tell the largest size."""

from __future__ import annotations

import random
import re
import struct
import sys
from pathlib import Path

import pyarrow as pa

from tierfetch.log.core import OffsetIndex
from tierfetch.pipeline.core.decode import COLUMN_TYPES
from tierfetch.pipeline.planning import tier_splits as tier_plan
from tierfetch.pipeline.reading.read_ahead import ahead
from tierfetch.pipeline.reading.splits import read_split
from tierfetch.protocol.records import Record, build_batch
from tierfetch.tests.fakes.random_tier import START_MS, History, segments, write_kafka_tier
from tierfetch.tests.pipeline.tables import options_of, plan

SEGMENT_BYTES = 512 << 20
RECORDS = 400
INDEX_EVERY = 8
"""Batches."""


def write(root: Path) -> int:
    """How many rows it has."""
    one = bytearray(build_batch([Record(n, START_MS, b"key", b"v" * 540) for n in range(RECORDS)], base_offset=0))
    (small,) = segments(History().run([("plain", -1, 1)], random.Random(1)), [], random.Random(1))
    write_kafka_tier(root, [small])
    (log,) = root.glob("*/*/*.log")
    index, count = OffsetIndex(0), SEGMENT_BYTES // len(one)
    with log.open("wb") as file:
        for number in range(count):
            struct.pack_into(">q", one, 0, number * RECORDS)
            if number and number % INDEX_EVERY == 0:
                index.append(number * RECORDS + RECORDS - 1, number * len(one))
            file.write(one)
    log.with_suffix(".index").write_bytes(index.encode())
    return count * RECORDS


def main() -> None:
    root, how = Path(sys.argv[1]), sys.argv[2]
    written = write(root)
    if how == "whole":
        vars(tier_plan)["CUT_PIECES_MAX"] = 0
    options = options_of(root, topics="random")
    schema = pa.schema(list(COLUMN_TYPES.items()))
    rows = sum(found.num_rows for split in plan(options) for found in ahead(read_split(options, split, schema)))
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert peak is not None
    sys.stdout.write(f"rows {rows} of {written}, peak {int(peak[1]) // 1000} MB\n")


if __name__ == "__main__":
    main()
