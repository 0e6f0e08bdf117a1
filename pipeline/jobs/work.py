"""Work spread over a Spark cluster: a task for each item, the results gathered in the driver.

    items -> bins -> Spark tasks -> work(item) in an executor -> results, in the order of the items

Items and results are values of this package, and a function of this package travels as its name: the executors need the
package, and the rights to read the tier, nothing else. A task that fails is tried again by Spark (by a cluster four
times, by a local session once), so that `work` must bear repetition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlsplit

from ..access.options import TierOptions, of_all_topics, parse
from ..planning.table import PartitionExtent, TablePlanner
from ..spark.spark_faults import JobError, spark_faults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Item = TypeVar("Item")
Result = TypeVar("Result")

TASKS_MAX: Final = 2000
"""The largest number of tasks of one stage. With more items, a task takes several."""


def job_options(options: Mapping[str, str]) -> TierOptions:
    """Return the options of the table (`TierOptions`), for all topics if none is named. OptionError, JobError."""
    parsed = parse(of_all_topics(options))
    for name, given in (("brokers", parsed.brokers), ("logDirs", parsed.log_dirs)):
        if given:
            raise JobError(f"a job reads only the tier, so that it can be repeated: remove the option {name}")
    if parsed.column_name_of_corrupt_record is not None:
        raise JobError("a job reports what it skipped: remove the option columnNameOfCorruptRecord")
    return parsed


async def there(options: TierOptions, planner: TablePlanner) -> list[PartitionExtent]:
    """What a job is asked to work on. JobError if that is nothing, and what `extents` raises."""
    if not (extents := await planner.extents()):
        raise nothing_there(options)
    return extents


def nothing_there(options: TierOptions) -> JobError:
    return JobError(f"the tier {display_name(options.location)} has none of the requested topics; check its location")


def display_name(location: str) -> str:
    """A location as it may stand in a report: of a directory its last part, of a URL no user, password or query."""
    parts = urlsplit(location)
    if parts.scheme in ("", "file"):
        return PurePosixPath(parts.path).name or "/"
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}".rstrip("/")


def bins(items: Iterable[Item], size_of: Callable[[Item], int], size: int) -> list[tuple[Item, ...]]:
    """Runs of items, in their order, each of at least `size` in all but for the last."""
    found: list[tuple[Item, ...]] = []
    run: list[Item] = []
    filled = 0
    for item in items:
        run.append(item)
        filled += size_of(item)
        if filled >= size:
            found.append(tuple(run))
            run, filled = [], 0
    return [*found, tuple(run)] if run else found


def spread(session: SparkSession, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """`work(item)` of each, in the order of `items`. JobError with what the task that failed said."""
    if not items:
        return []
    with spark_faults():
        results: list[Result] = session.sparkContext.parallelize(items, min(len(items), TASKS_MAX)).map(work).collect()
    return results
