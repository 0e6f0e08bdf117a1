"""Reading what only the brokers have, in an executor: one fetch at a time, to Arrow batches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator

import pyarrow as pa

from ...protocol import CorruptRecordError
from ..access.brokers import Brokers, Fetched
from ..access.options import TierOptions
from ..core.arrow_batches import batches, constants
from ..core.batch_table import Selection
from ..planning.table import TailSplit


def read_tail(options: TierOptions, split: TailSplit, schema: pa.Schema) -> Generator[pa.RecordBatch, None, None]:
    """What came is handed on before the next is asked for. CorruptRecordError, BrokersUnavailableError."""
    same = constants(split.partition, None, options.corrupt_column)
    with asyncio.Runner() as runner:
        brokers = Brokers(
            options.brokers or "",
            committed_only=options.isolation == "read_committed",
            command_config=options.command_config,
        )
        fetches = brokers.batches(split.partition, split.topic_id, split.first_offset, split.end_offset)
        try:
            while (fetched := runner.run(_next(fetches))) is not None:
                selection = Selection(split.first_offset, split.end_offset, fetched.aborted)
                yield from batches(fetched.data, selection, same, schema)
        except CorruptRecordError as error:
            raise CorruptRecordError(f"{split.partition}, of the brokers: {error.reason}", error.position) from None
        finally:
            runner.run(brokers.close())


async def _next(fetches: AsyncIterator[Fetched]) -> Fetched | None:
    return await anext(fetches, None)
