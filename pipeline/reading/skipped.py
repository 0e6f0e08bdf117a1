"""What was not read and was passed over: a warning in the executor's log, and a row where the query asks for one.

As in the permissive mode of Spark's own sources, a query that has the column `_corrupt_record` (`corrupt_column`) gets
a row for each batch, rest of an object or range of offsets that it lacks: its topic and partition, the offset where
that is known, what is wrong with it and where, and null in every other column. In all other rows that column is null.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pyarrow as pa

from ...light_dataclass import dataclass
from ..core.arrow_batches import Constants

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PassedOver:
    """`offset` is the first one that is lacking, None where nothing that can be trusted states it."""

    offset: int | None
    message: str


class Report:
    """What one task skips: call `add` for each, `rows` now and then. The schema may lack `column`."""

    def __init__(self, schema: pa.Schema, same: Constants, column: str) -> None:
        self._schema = schema
        self._same = same
        self._column = column
        self._waiting: list[PassedOver] = []

    def add(self, passed: PassedOver) -> None:
        _log.warning("skipped: %s", passed.message)
        if self._column in self._schema.names:
            self._waiting.append(passed)

    def rows(self) -> list[pa.RecordBatch]:
        """Return rows for what was added since the last call; none if the query does not ask for them."""
        waiting, self._waiting = self._waiting, []
        return [self._batch(waiting)] if waiting else []

    def _batch(self, waiting: Sequence[PassedOver]) -> pa.RecordBatch:
        known = {
            "topic": [self._same["topic"].as_py()] * len(waiting),
            "partition": [self._same["partition"].as_py()] * len(waiting),
            "offset": [passed.offset for passed in waiting],
            self._column: [passed.message for passed in waiting],
        }
        arrays = [
            pa.array(known[field.name], field.type) if field.name in known else pa.nulls(len(waiting), field.type)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)
