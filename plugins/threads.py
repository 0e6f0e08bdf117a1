"""Blocking SDK calls on a plugin's own threads, with a log line for a call whose caller has left.

A thread cannot be killed. A call that was cancelled or ran out of time continues until its SDK's own timeout;
`Abandoned` is its flag, looked at before every step that would make something visible. The step that it is at may still
take effect: who deletes what it writes waits until it has ended (`settled`), or the deletion would come first and what
was written stay for ever.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any, Final, TypeVar

T = TypeVar("T")


class AbandonedError(Exception):
    """Ends a call on its thread; no caller waits for it any longer."""


class Abandoned:
    """Set once the caller of a blocking call has left."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def check(self) -> None:
        if self._event.is_set():
            raise AbandonedError


class BlockingCalls:
    """A bounded pool; `run` is cancelled like any coroutine, its thread follows at the next `check`."""

    def __init__(self, name: str, threads_max: int) -> None:
        self.executor: Final = ThreadPoolExecutor(threads_max, thread_name_prefix=name)
        """The threads, for steps that need no log line once their caller has left."""
        self._abandoned: dict[Future[Any], str] = {}
        """Calls that no caller waits for any longer, and the key that each works on."""

    async def run(self, key: str, call: Callable[[Abandoned], T]) -> T:
        abandoned = Abandoned()
        future = self.executor.submit(call, abandoned)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            abandoned.set()
            if not future.done():
                self._abandoned[future] = key
            raise

    async def pieces(
        self, key: str, call: Callable[[Abandoned], Generator[bytes, None, None]]
    ) -> AsyncGenerator[bytes, None]:
        """Yield what the iterator yields on its thread, which does not wait for the caller: all of it must fit into
        memory. Once the caller has left, the thread follows before its next piece.
        """
        loop, arrived = asyncio.get_running_loop(), asyncio.Queue[bytes | None]()

        def on_thread(abandoned: Abandoned) -> None:
            with closing(call(abandoned)) as pieces:
                for piece in pieces:
                    abandoned.check()
                    loop.call_soon_threadsafe(arrived.put_nowait, piece)

        running = asyncio.create_task(self.run(key, on_thread))
        running.add_done_callback(lambda _: arrived.put_nowait(None))
        try:
            while (piece := await arrived.get()) is not None:
                yield piece
            await running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def settled(self, keys: Collection[str]) -> None:
        """Returns once no abandoned call works on any of `keys`."""
        self._abandoned = {future: key for future, key in self._abandoned.items() if not future.done()}
        running = [asyncio.wrap_future(future) for future, key in self._abandoned.items() if key in keys]
        if running:
            await asyncio.gather(*(asyncio.shield(future) for future in running), return_exceptions=True)

    async def close(self) -> None:
        self.executor.shutdown(wait=False, cancel_futures=True)
