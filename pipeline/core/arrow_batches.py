"""The rows of a split as Arrow batches: what its records say, and what is the same in all of them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final
from uuid import UUID

import numpy as np
import pyarrow as pa

from ...protocol import TopicPartition, uuid_to_text
from .batch_table import FaultListener, Selection
from .decode import Columns, decode

Constants = dict[str, pa.Scalar]

ROWS_MAX: Final = 10_000
BATCH_BYTES: Final = 1 << 20
"""The size of one Arrow batch on its way to the JVM, which processes a batch once it is complete, out of its caches."""


def batches(
    data: memoryview,
    selection: Selection,
    constant: Constants,
    arrow_schema: pa.Schema,
    on_fault: FaultListener | None = None,
) -> Generator[pa.RecordBatch, None, None]:
    """The selected records with the columns of `arrow_schema`, about `BATCH_BYTES` or `ROWS_MAX` at a time.

    CorruptRecordError.
    """
    wanted = {"offset"}.union(name for name in arrow_schema.names if name not in constant)
    for columns in decode(data, wanted, selection, on_fault):
        batch = _batch(columns, constant, arrow_schema)
        rows = min(ROWS_MAX, 1 + batch.num_rows * BATCH_BYTES // max(1, batch.nbytes))
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def constants(partition: TopicPartition, segment_id: UUID | None, corrupt_column: str) -> Constants:
    """What is the same in all records of a split; live ones are in no remote segment, and none is corrupt."""
    return {
        corrupt_column: pa.scalar(None, pa.string()),
        "topic": pa.scalar(partition.topic),
        "partition": pa.scalar(partition.partition, pa.int32()),
        "segment_id": pa.scalar(None if segment_id is None else uuid_to_text(segment_id), pa.string()),
    }


def _batch(columns: Columns, constant: Constants, arrow_schema: pa.Schema) -> pa.RecordBatch:
    count = len(columns["offset"])
    arrays = [_repeated(constant[name], count) if name in constant else columns[name] for name in arrow_schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema)


def _repeated(value: pa.Scalar, count: int) -> pa.Array:
    if not value.is_valid:
        return pa.nulls(count, value.type)
    if pa.types.is_string(value.type):
        # One copy of the text, as many references: Arrow's dictionary, laid out plainly.
        return pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), pa.array([value.as_py()])).cast(pa.string())
    return pa.repeat(value, count)
