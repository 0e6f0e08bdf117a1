"""Splits into tasks.

A task costs Spark as much as reading a few megabytes does, however little it reads. So neighbouring splits of a
partition share one, as small files do in Spark's own sources; those of neighbouring partitions too where there are so
many of them that tasks are plenty anyway. Each split is still read by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .table import TableSplit
from .tier_splits import PlannedSplit

OPEN_COST_BYTES: Final = 4 * 1024 * 1024
"""What a split counts for at least: what could be read while its segment is asked for (as
spark.sql.files.openCostInBytes).
"""
PLENTY: Final = 256
"""Tasks."""


def pack(splits: Sequence[TableSplit], bytes_max: int) -> list[list[TableSplit]]:
    """In the order of `splits`. A task has splits of the tier that make at most `bytes_max`, or one alone: a longer
    one, one that the brokers are asked for, one that is lost.
    """
    tasks = _packed(splits, bytes_max, across=False)
    return tasks if len(tasks) <= PLENTY else _packed(splits, bytes_max, across=True)


def _packed(splits: Sequence[TableSplit], bytes_max: int, *, across: bool) -> list[list[TableSplit]]:
    """`across` the borders of partitions or not."""
    tasks: list[list[TableSplit]] = []
    room = 0
    for split in splits:
        cost = _cost(split) if isinstance(split, PlannedSplit) else bytes_max
        if cost > room or not (across or tasks[-1][-1].partition == split.partition):
            tasks.append([])
            room = bytes_max
        tasks[-1].append(split)
        room -= cost
    return tasks


def _cost(split: PlannedSplit) -> int:
    return max(split.split.end - split.split.start, OPEN_COST_BYTES)
