"""Planning in the driver: the store and the brokers opened, a question asked, both closed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from pyspark.sql.datasource import InputPartition

from .brokers import Brokers
from .options import TierOptions
from .table_plan import TablePlanner, TableSplit

T = TypeVar("T")


class SplitPartition(InputPartition):
    """One task of Spark; None where there is nothing to read, for Spark wants at least one."""

    def __init__(self, split: TableSplit | None) -> None:
        super().__init__(None)
        self.split = split

    def __repr__(self) -> str:
        return f"SplitPartition({self.split})"


def planning(options: TierOptions, question: Callable[[TablePlanner], Awaitable[T]]) -> T:
    """Its answer. TierError, RemoteStorageError, BrokersUnavailableError."""
    return asyncio.run(_planning(options, question))


async def _planning(options: TierOptions, question: Callable[[TablePlanner], Awaitable[T]]) -> T:
    storage = options.open_storage()
    committed_only = options.isolation == "read_committed"
    brokers = None if options.brokers is None else Brokers(options.brokers, committed_only=committed_only)
    try:
        return await question(TablePlanner(options, storage, brokers))
    finally:
        await storage.close()
        if brokers is not None:
            await brokers.close()
