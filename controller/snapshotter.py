"""When to cut a snapshot of the image, and cutting it.

After so many bytes of records, or so long after the last one; one that could not be cut is tried again with the first
batch that comes `AGAIN_MS` later or more.

The image is copied at once, which is cheap (what it holds never changes, only what it points to); records are made from
the copy while the quorum's log writes them. One snapshot at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from ..quorum import CommittedBatch, QuorumFailedError
from .image.image import MetadataImage
from .image.snapshot import snapshot_records
from .records import encode_record

AGAIN_MS: Final = 60_000

_log = logging.getLogger(__name__)


class SnapshotWriter(Protocol):
    """The port to the quorum's log: `QuorumNode.create_snapshot`."""

    async def create_snapshot(self, offset: int, epoch: int, records: Iterable[bytes], append_time_ms: int) -> None: ...


class Snapshotter:
    """`bytes_max` of records between two snapshots; `interval_ms` 0 means without a limit of time."""

    def __init__(self, node: SnapshotWriter, *, bytes_max: int, interval_ms: int) -> None:
        self._node = node
        self._bytes_max = bytes_max
        self._interval_ms = interval_ms
        self._bytes = 0
        self._last_ms: int | None = None
        self._again_ms: int | None = None
        self._task: asyncio.Task[None] | None = None

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def applied(self, image: MetadataImage, batch: CommittedBatch) -> None:
        """A batch was replayed; `image` is as it is after that."""
        self._bytes += sum(map(len, batch.records))
        if self._last_ms is None:
            self._last_ms = batch.append_time_ms
        if self._is_due(batch.append_time_ms) and self._task is None and not image.is_in_transaction:
            self._bytes, self._last_ms, self._again_ms = 0, batch.append_time_ms, None
            self._task = asyncio.create_task(self._cut(image.copy(), batch), name="metadata-snapshot")
            self._task.add_done_callback(self._done)

    def _is_due(self, now_ms: int) -> bool:
        assert self._last_ms is not None
        is_late = self._interval_ms > 0 and now_ms >= self._last_ms + self._interval_ms
        is_wanted_again = self._again_ms is not None and now_ms >= self._again_ms
        return self._bytes >= self._bytes_max or (is_late and self._bytes > 0) or is_wanted_again

    async def _cut(self, image: MetadataImage, batch: CommittedBatch) -> None:
        await asyncio.sleep(0)  # the batch counts as applied when all listeners have returned
        end_offset = batch.last_offset + 1
        try:
            await self._node.create_snapshot(end_offset, batch.epoch, _values(image), batch.append_time_ms)
        except (OSError, QuorumFailedError) as error:
            self._again_ms = batch.append_time_ms + AGAIN_MS
            _log.error("no snapshot of the metadata at offset %d: %s", end_offset, error)
        else:
            _log.info("snapshot of the metadata at offset %d", end_offset)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._task = None


def _values(image: MetadataImage) -> Iterator[bytes]:
    return (encode_record(record) for record in snapshot_records(image))
