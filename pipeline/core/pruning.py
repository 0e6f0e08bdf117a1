"""What a query's filters spare the reading of: whole partitions, offsets, batches. Pure.

| filter on   | by                  | partitions | offsets | segments, batches | Spark filters again |
|-------------|---------------------|------------|---------|-------------------|---------------------|
| `topic`     | `=`, `<=>`, `IN`    | x          |         |                   | no                  |
| `partition` | `=`, `<=>`, `IN`    | x          |         |                   | no                  |
| `offset`    | `=`, `<=>`, `<` ... |            | x       |                   | yes                 |
| `timestamp` | `=`, `<=>`, `>` ... |            |         | too old ones      | yes                 |

None of these columns is ever null in a record, so that IS NOT NULL holds by itself. An upper bound of `timestamp`
spares nothing: producers may write any time they like, and only the largest one of a batch or segment is known.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, Literal

from ...light_dataclass import dataclass
from .batch_table import OFFSET_END, TIMESTAMP_MIN

Comparison = Literal["=", "<", "<=", ">", ">="]
NEVER_NULL: Final = frozenset({"topic", "partition", "offset", "timestamp", "timestampType"})
"""The columns that are never null in a record."""
ALWAYS_KNOWN: Final = frozenset({"topic", "partition"})
"""The columns that are also known of rows that stand for unreadable records (`skipped`)."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND_US: Final = 1000


@dataclass(frozen=True, slots=True)
class Pruning:
    """A filter of rows: those outside of it are not read. None is all; offsets are [first_offset, end_offset) in every
    partition.
    """

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first_offset: int = 0
    end_offset: int = OFFSET_END
    min_timestamp_ms: int = TIMESTAMP_MIN

    def with_topics(self, names: frozenset[str]) -> Pruning:
        """Return a pruning to the rows of these topics."""
        return replace(self, topics=names if self.topics is None else self.topics & names)

    def with_partitions(self, numbers: frozenset[int]) -> Pruning:
        """Return a pruning to the rows of the partitions with these numbers."""
        return replace(self, partitions=numbers if self.partitions is None else self.partitions & numbers)

    def with_offset(self, comparison: Comparison, offset: int) -> Pruning:
        first, end = self.first_offset, self.end_offset
        if comparison in ("=", ">", ">="):
            first = max(first, offset + (comparison == ">"))
        if comparison in ("=", "<", "<="):
            end = min(end, offset + (comparison != "<"))
        return replace(self, first_offset=first, end_offset=end)

    def with_timestamp(self, comparison: Comparison, at: datetime) -> Pruning:
        """`at` knows its time zone, or is UTC."""
        if comparison not in ("=", ">", ">="):
            return self
        since = (at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH
        millis = (since.days * 86_400_000_000 + since.seconds * 1_000_000 + since.microseconds) // _MILLISECOND_US
        return replace(self, min_timestamp_ms=max(self.min_timestamp_ms, millis))


EVERYTHING: Final = Pruning()
