"""The source without Spark: what its planner and its readers give, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tierfetch.pipeline.access.options import CORRUPT_COLUMN, TierOptions, parse
from tierfetch.pipeline.core.decode import COLUMN_TYPES
from tierfetch.pipeline.core.pruning import EVERYTHING, Pruning
from tierfetch.pipeline.planning.driver import planning
from tierfetch.pipeline.planning.table import TablePlanner, TableSplit
from tierfetch.pipeline.reading.splits import read_split

TYPES = {**COLUMN_TYPES, "topic": pa.string(), "partition": pa.int32(), "segment_id": pa.string()}
ALL_TYPES = {**TYPES, CORRUPT_COLUMN: pa.string()}

Row = dict[str, Any]


def options_of(location: Path | str, **options: object) -> TierOptions:
    """By the names that a query uses."""
    return parse({"location": str(location), **{name: str(value) for name, value in options.items()}})


async def all_splits(planner: TablePlanner) -> list[TableSplit]:
    return [
        split
        for extent in await planner.extents()
        for split in await planner.splits(extent, await planner.bounds(extent))
    ]


def plan(options: TierOptions, pruning: Pruning = EVERYTHING) -> list[TableSplit]:
    return planning(options, all_splits, pruning=pruning)


def read(options: TierOptions, split: TableSplit, columns: Sequence[str] = tuple(TYPES)) -> list[Row]:
    schema = pa.schema([(name, ALL_TYPES[name]) for name in columns])
    return [row for batch in read_split(options, split, schema) for row in batch.to_pylist()]


def rows(location: Path | str, columns: Sequence[str] = tuple(TYPES), **options: object) -> list[Row]:
    """In the order of the splits."""
    parsed = options_of(location, **options)
    return [row for split in plan(parsed) for row in read(parsed, split, columns)]


def offsets(location: Path | str, **options: object) -> list[int]:
    return [row["offset"] for row in rows(location, ("offset",), **options)]
