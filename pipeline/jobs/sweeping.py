"""Many runs of a model in parallel. What a case is, and what its run says, only the caller knows.

    cases -> Spark tasks -> run(case) -> rows                   in the order of the cases

`run` and the cases are pickled: a function of an installed package and values of its own travel as their names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ...light_dataclass import dataclass
from ..spark.spark_faults import spark_faults
from .work import spread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Case = TypeVar("Case")
Row = Mapping[str, Any]
RunCase = Callable[[Case], Row]


@dataclass(frozen=True, slots=True)
class _Run(Generic[Case]):
    """A call that can be sent."""

    run: RunCase[Case]

    def __call__(self, case: Case) -> Row:
        return self.run(case)


def sweep(session: SparkSession, cases: Sequence[Case], run: RunCase[Case]) -> list[Row]:
    """A row of each case, in their order. JobError with what the case that failed said."""
    return spread(session, _Run(run), cases)


def save_rows(session: SparkSession, rows: Sequence[Row], fields: Mapping[str, str], directory: str) -> None:
    """As Parquet, in place of what an earlier sweep left there. `fields`: the types of Spark SQL, by name."""
    schema = ", ".join(f"{name} {kind}" for name, kind in fields.items())
    with spark_faults():
        frame = session.createDataFrame([tuple(row[name] for name in fields) for row in rows], schema)
        frame.coalesce(1).write.mode("overwrite").parquet(directory)
