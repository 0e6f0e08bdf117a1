"""One task of Spark."""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterable, Iterator
from functools import cache

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ..access.options import TierOptions
from ..planning.table import TableSplit
from ..reading.read_ahead import ahead
from ..reading.splits import read_split


class SplitPartition(InputPartition):
    """The splits of a task; none where there is nothing to read, for Spark needs at least one task."""

    def __init__(self, splits: Iterable[TableSplit] = ()) -> None:
        super().__init__(None)
        self.splits = tuple(splits)

    def __repr__(self) -> str:
        return f"SplitPartition({self.splits})"

    def read(self, options: TierOptions, columns: StructType) -> Iterator[pa.RecordBatch]:
        """In an executor; the errors are those of `read_split`."""
        if self.splits:
            yield from ahead(self._read(options, to_arrow_schema(columns, timezone="UTC")))
            _settle()

    def _read(self, options: TierOptions, schema: pa.Schema) -> Generator[pa.RecordBatch, None, None]:
        for split in self.splits:
            yield from read_split(options, split, schema)


@cache
def _settle() -> None:
    """Once in a process: what a first task has imported and opened stays. Spark looks for garbage after each task, and
    among all that this takes longer than reading a split.
    """
    gc.freeze()
