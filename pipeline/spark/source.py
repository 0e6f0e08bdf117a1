"""`spark.read.format("tierfetch")`: the Spark side. Everything that is decided is decided in the plans.

    driver: options -> splits -> tasks   executor: split -> one ranged GET -> decode -> Arrow batches

The executors need this package and the rights to read the tier; nothing else passes between them and the driver but the
options and the splits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from ..access.options import OptionError, TierOptions, parse
from ..core.pruning import ALWAYS_KNOWN, EVERYTHING, NEVER_NULL
from ..planning.driver import planning
from ..planning.packing import pack
from ..planning.table import TablePlanner, TableSplit
from .columns import check_schema, schema
from .partition import SplitPartition
from .pushdown import prune
from .stream import TierStreamReader

_READ_ONLY: Final = (
    "format tierfetch cannot be written: a tier is written by the brokers of its cluster. To give records to a topic, "
    "use Spark's Kafka connector; to keep what was read, Parquet or another table"
)


class TierDataSource(DataSource):
    """Options are those of `TierOptions`. `session.register` registers it."""

    probe: str | None = None
    """Where a plan asks the executors (`driver_probe`); None where they are the driver."""

    @cached_property
    def tier_options(self) -> TierOptions:
        """Read when they are needed, in the driver, so that writing to the format fails for that reason alone.
        OptionError.
        """
        return parse(self.options)

    @classmethod
    def name(cls) -> str:
        return "tierfetch"

    def schema(self) -> StructType:
        return schema(self.tier_options)

    def reader(self, schema: StructType) -> TierReader:
        return TierReader(self.tier_options, schema, self.probe)

    def streamReader(self, schema: StructType) -> TierStreamReader:
        return TierStreamReader(self.tier_options, schema, self.probe)

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        raise OptionError(_READ_ONLY)

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:
        raise OptionError(_READ_ONLY)


class FilteringTierDataSource(TierDataSource):
    """The source for sessions with `spark.sql.python.filterPushdown.enabled`; see `session.register` for its trap."""

    def reader(self, schema: StructType) -> FilteringTierReader:
        return FilteringTierReader(self.tier_options, schema, self.probe)


def asking(source: type[TierDataSource], probe: str) -> type[TierDataSource]:
    """Return a source whose plans ask the executors first."""
    return type(source.__name__, (source,), {"probe": probe})


class TierReader(DataSourceReader):
    """Batch reads."""

    def __init__(self, options: TierOptions, schema: StructType, probe: str | None = None) -> None:
        check_schema(schema, options)
        self._options = options
        self._schema = schema
        self._probe = probe
        self._pruning = EVERYTHING

    def partitions(self) -> list[InputPartition]:
        if self._probe is not None:
            from .driver_probe import ask_driver  # what no executor needs to import

            ask_driver(self._probe, self._options)
        splits = planning(self._options, _all_splits, pruning=self._pruning)
        return [SplitPartition(task) for task in pack(splits, self._options.split_bytes) or [[]]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SplitPartition), partition
        return partition.read(self._options, self._schema)


class FilteringTierReader(TierReader):
    """Spares what the query's filters leave out."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        reports_losses = self._options.corrupt_column in self._schema.names
        self._pruning, left = prune(filters, ALWAYS_KNOWN if reports_losses else NEVER_NULL)
        return left


async def _all_splits(planner: TablePlanner) -> list[TableSplit]:
    return [
        split
        for extent in await planner.extents()
        for split in await planner.splits(extent, await planner.bounds(extent))
    ]
