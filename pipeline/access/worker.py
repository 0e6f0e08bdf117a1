"""What a Python process of Spark keeps from one task to the next: an event loop, and the stores that it has opened.

Opening a store costs as much as reading a small split (an SDK's client, threads), so each is opened once. Nothing of it
goes from process to process.
"""

from __future__ import annotations

import asyncio
import atexit
from collections import OrderedDict
from collections.abc import Coroutine
from typing import Final, TypeVar

from .options import TierOptions
from .stores import SegmentStore, StoreRef, open_store

T = TypeVar("T")

STORES_MAX: Final = 8
"""Kept open between tasks; what was used longest ago is closed before the next one."""


class Worker:
    """One caller at a time."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._stores: OrderedDict[object, SegmentStore] = OrderedDict()

    def run(self, work: Coroutine[object, None, T]) -> T:
        """Its result, which is not that of a task of asyncio's: the runner makes a text of one twice while it looks for
        the handler of SIGINT, and for the bytes of a split that takes ten times as long as decoding them.
        """
        results: list[T] = []
        self._runner.run(self._run(work, results))
        (result,) = results
        return result

    async def _run(self, work: Coroutine[object, None, T], results: list[T]) -> None:
        while len(self._stores) > STORES_MAX:
            _, oldest = self._stores.popitem(last=False)
            await oldest.close()
        results.append(await work)

    def store(self, options: TierOptions, ref: StoreRef) -> SegmentStore:
        """PluginError, RemoteStorageError."""
        key = ref, options.access
        store = self._stores.get(key)
        if store is None:
            store = self._stores[key] = open_store(options, ref)
        self._stores.move_to_end(key)
        return store

    def close(self) -> None:
        while self._stores:
            _, store = self._stores.popitem()
            self._runner.run(store.close())
        self._runner.close()


WORKER: Final = Worker()
"""The worker of this process."""
atexit.register(WORKER.close)
