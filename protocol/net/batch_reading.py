"""Reads the records of a batch without holding the event loop, whatever a batch of a few hundred bytes holds.

    batch -- decompresses to AT_ONCE_BYTES at most --------------------------> records, in slices of the loop's share
      |                                                                          ^
      +-- to more --> its turn (LARGE_BATCHES_MAX at a time) --> a thread -------+

The codecs release the interpreter while they work, so that a thread costs the loop nothing. The memory of large batches
is bounded by their number, because each keeps its turn until its records have been read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from weakref import WeakKeyDictionary

from ..errors import CorruptRecordError
from ..records import DECOMPRESSED_BYTES_MAX, BatchHeader, SkimmedRecord, decompressed
from ..records.batch_header import Buffer
from ..records.compression import DecompressedTooLargeError
from ..records.skim import skim
from .pacing import Slices
from .turns import Turns

AT_ONCE_BYTES: Final = 256 * 1024
LARGE_BATCHES_MAX: Final = 1
FREE_RECORDS: Final = 100
"""Records that are read without an account: what is small keeps its order."""

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()


@asynccontextmanager
async def reading_batch(
    buf: Buffer,
    position: int,
    header: BatchHeader,
    bytes_max: int = DECOMPRESSED_BYTES_MAX,
    *,
    weight: float = 1,
    free: int = FREE_RECORDS,
) -> AsyncIterator[Slices[SkimmedRecord]]:
    """Give the records of the batch at `position`, without their headers, in slices: each costs the loop `weight`
    elements, the first `free` ones are left to the caller to account for. CorruptRecordError, also while the slices
    are read.
    """
    data = _small(buf, position, header, bytes_max)
    if data is not None:
        yield Slices(skim(data, header, position), weight=weight, free=free)
        return
    turns = _turns.setdefault(asyncio.get_running_loop(), Turns(LARGE_BATCHES_MAX))
    await turns.take()
    try:
        data = await asyncio.to_thread(decompressed, buf, position, header, bytes_max)
        yield Slices(skim(data, header, position), weight=weight, free=free)
    finally:
        turns.give_back()


def _small(buf: Buffer, position: int, header: BatchHeader, bytes_max: int) -> bytes | None:
    """Return the encoded records, or None if they are many bytes."""
    try:
        return decompressed(buf, position, header, min(bytes_max, AT_ONCE_BYTES))
    except CorruptRecordError as error:
        if isinstance(error.__cause__, DecompressedTooLargeError) and bytes_max > AT_ONCE_BYTES:
            return None
        raise
