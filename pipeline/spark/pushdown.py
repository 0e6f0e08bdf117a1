"""The filters that Spark offers to a data source, as a `Pruning`, and those that Spark must still apply itself.

Spark offers them only with `spark.sql.python.filterPushdown.enabled`, and refuses without it a reader that can take
them: hence two data sources, of which `session.register` takes the one that was asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from ..core.pruning import EVERYTHING, NEVER_NULL, Comparison, Pruning

_COMPARISONS: Final[dict[type[Filter], Comparison]] = {
    EqualTo: "=",
    EqualNullSafe: "=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
}


def prune(filters: Iterable[Filter], never_null: Collection[str] = NEVER_NULL) -> tuple[Pruning, list[Filter]]:
    """What they spare, and those that are left to Spark."""
    pruning, left = EVERYTHING, []
    for each in filters:
        pruning, is_taken = _take(pruning, each, never_null)
        if not is_taken:
            left.append(each)
    return pruning, left


def _take(pruning: Pruning, each: Any, never_null: Collection[str]) -> tuple[Pruning, bool]:
    column = each.attribute[0] if len(getattr(each, "attribute", ())) == 1 else None
    if isinstance(each, IsNotNull):
        return pruning, column in never_null
    comparison = _COMPARISONS.get(type(each))
    if column in ("topic", "partition") and (comparison == "=" or isinstance(each, In)):
        values = each.value if isinstance(each, In) else (each.value,)
        take = pruning.with_topics if column == "topic" else pruning.with_partitions
        return take(frozenset(values)), True
    if comparison is None or getattr(each, "value", None) is None:
        return pruning, False
    if column == "offset":
        return pruning.with_offset(comparison, each.value), False
    if column == "timestamp":
        return pruning.with_timestamp(comparison, each.value), False
    return pruning, False
