"""A storage whose copies and deletions run in a worker process; reads stay in the broker.

    no worker -> starting -> a worker serves -> it died -> no worker
                    |                             (not before its process has ended)
                    +-> it cannot be started: the broker copies by itself, and tries again after START_AGAIN_S

A worker that has had no call for IDLE_S is stopped, and its memory free; the next copy starts another one.

| what                     | where                                                                               |
|--------------------------|-------------------------------------------------------------------------------------|
| copies                   | the worker, which the first one starts; the log is read there, by its path          |
| a log without a path     | the broker                                                                          |
| deletions                | where the copy ran: only there is it known which steps of one that was cancelled    |
|                          | still run. The broker where that is not known and there is no worker                |
| everything else          | the broker                                                                          |

There is never a second worker before the first one's process has ended, and no deletion either: what it still did could
become visible after the deletion.

Why a process: a thread that waits for the interpreter's lock, or holds it while it has no CPU, makes the event loop
wait; a thread of low priority that holds it makes it wait longest. A process of low priority has nothing that a broker
waits for (docs/benchmarks.md has the figures).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ...protocol import TopicIdPartition
from ...remote import (
    CopiesInWorker,
    IndexType,
    LogSegmentData,
    RemoteObject,
    RemoteStorageError,
    RemoteStorageManager,
)
from ...remote.core import RemoteLogSegmentId, RemoteLogSegmentMetadata
from ..checked_source import copy_checked
from .core.messages import BODY_BYTES_MAX
from .process import CopyWorker, StorageRecipe, WorkerStartError

START_AGAIN_S: Final = 60.0
IDLE_S: Final = 300.0
ENVELOPE_BYTES_MAX: Final = 1 << 20
"""What a message may have besides indexes."""
END_S_MAX: Final = 5.0
"""How long a broker that stops waits for the end of its worker, which was killed."""

BROKEN_OFF_MAX: Final = 1_000
"""Copies that are remembered until they are deleted; the oldest are forgotten."""

logger = logging.getLogger(__name__)


def may_copy_in_worker(storage: RemoteStorageManager) -> bool:
    """Return whether a storage says that its equal in another process may copy for it."""
    return isinstance(storage, CopiesInWorker) and storage.may_copy_in_worker


class WorkerStorage:
    """See the module's docstring. Closes `storage` too."""

    def __init__(
        self,
        storage: RemoteStorageManager,
        recipe: StorageRecipe,
        start: Callable[[StorageRecipe], Awaitable[CopyWorker]] = CopyWorker.start,
    ) -> None:
        self._storage = storage
        self._recipe = recipe
        self._start = start
        self._worker: CopyWorker | None = None
        self._starting: asyncio.Task[CopyWorker] | None = None
        self._start_at_s = 0.0
        self._calls = 0
        self._broken_off: dict[RemoteLogSegmentId, None] = {}
        """The copies of the broker itself that have not come to their end."""
        self._idle: asyncio.TimerHandle | None = None

    @property
    def worker_pid(self) -> int | None:
        """The process that copies; None where there is none."""
        return self._worker.pid if self._worker is not None and self._worker.is_open else None

    async def copy_log_segment_data(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> bytes | None:
        copied = await self._copy(metadata, data, is_checked=False)
        if copied is not None:
            return copied[0]
        return await self._by_broker(metadata, self._storage.copy_log_segment_data(metadata, data))

    async def copy_checked(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> bytes | None:
        """Copy a segment, every batch of it checked."""
        copied = await self._copy(metadata, data, is_checked=True)
        if copied is not None:
            return copied[0]
        return await self._by_broker(metadata, copy_checked(self._storage, metadata, data))

    async def _by_broker(self, metadata: RemoteLogSegmentMetadata, copy: Awaitable[bytes | None]) -> bytes | None:
        """Await a copy of the broker's. If it breaks off, it is deleted here."""
        self._broken_off[metadata.segment_id] = None
        if len(self._broken_off) > BROKEN_OFF_MAX:
            del self._broken_off[next(iter(self._broken_off))]
        custom_metadata = await copy
        self._broken_off.pop(metadata.segment_id, None)
        return custom_metadata

    async def _copy(
        self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData, *, is_checked: bool
    ) -> tuple[bytes | None] | None:
        """Return what the worker returned; None where the broker copies by itself."""
        path, size = data.log.path, data.log.size
        index_bytes = sum(source.size for source in data.indexes.values())
        if path is None or index_bytes + ENVELOPE_BYTES_MAX > BODY_BYTES_MAX:
            return None
        with self._busy():
            worker = await self._open_worker()
            if worker is None:
                return None
            indexes = {kind.value: await source.read(0, source.size) for kind, source in data.indexes.items()}
            return (await worker.copy(metadata, str(path.absolute()), size, indexes, is_checked=is_checked),)

    async def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        worker = None if metadata.segment_id in self._broken_off else await self._living_worker()
        if worker is None:
            await self._storage.delete_log_segment_data(metadata)
            self._broken_off.pop(metadata.segment_id, None)
        else:
            with self._busy():
                await worker.delete(metadata)

    @contextmanager
    def _busy(self) -> Iterator[None]:
        """Keep the worker as long as the block lasts, and `IDLE_S` after the last one."""
        self._calls += 1
        if self._idle is not None:
            self._idle.cancel()
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle = asyncio.get_running_loop().call_later(IDLE_S, self._stop_idle)

    def _stop_idle(self) -> None:
        if self._worker is not None:
            self._worker.stop("had nothing to copy")

    async def _living_worker(self) -> CopyWorker | None:
        """Return the worker, or None once there is none whose process lives."""
        while (worker := self._worker) is not None and not worker.is_open:
            await worker.ended()
            if self._worker is worker:
                self._worker = None
        return worker

    async def _open_worker(self) -> CopyWorker | None:
        """Return the worker, started if need be; None where that fails. One start serves all who wait."""
        worker = await self._living_worker()
        loop = asyncio.get_running_loop()
        if worker is not None or (self._starting is None and loop.time() < self._start_at_s):
            return worker
        if self._starting is None:
            self._starting = loop.create_task(self._started(), name="start of the copy worker")
        starting = self._starting
        await asyncio.wait([starting])
        if starting.cancelled():
            raise RemoteStorageError("the tier is closed: nothing is copied any longer")
        return None if isinstance(starting.exception(), WorkerStartError) else starting.result()

    async def _started(self) -> CopyWorker:
        try:
            self._worker = await self._start(self._recipe)
        except WorkerStartError as error:
            self._start_at_s = asyncio.get_running_loop().time() + START_AGAIN_S
            logger.warning(
                "%s: the broker copies to the tier by itself, which producers feel more, and tries again in %.0f s",
                error,
                START_AGAIN_S,
            )
            raise
        finally:
            self._starting = None
        logger.info("worker process %d copies to the tier", self._worker.pid)
        return self._worker

    async def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
        return await self._storage.fetch_log_segment(metadata, start, end)

    async def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        return await self._storage.fetch_index(metadata, index_type)

    async def log_segment_size(self, metadata: RemoteLogSegmentMetadata) -> int | None:
        return await self._storage.log_segment_size(metadata)

    def list_objects(self, partition: TopicIdPartition) -> AsyncIterator[RemoteObject]:
        return self._storage.list_objects(partition)

    async def close(self) -> None:
        """Stop the worker, then close the storage."""
        if self._idle is not None:
            self._idle.cancel()
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        if self._worker is not None:
            await self._worker.close()
            try:
                async with asyncio.timeout(END_S_MAX):
                    await self._worker.ended()
            except TimeoutError:
                logger.warning("worker process %d does not end: a call of the tier hangs in it", self._worker.pid)
        await self._storage.close()
