"""Blocking SDK calls on a plugin's own threads, with a word for a call whose caller has gone.

A thread cannot be killed. A call that was cancelled or ran out of time goes on until its SDK's own timeout;
`Abandoned` is its flag, looked at before every step that would make something visible.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class AbandonedError(Exception):
    """Ends a call on its thread; nobody waits for it any more."""


class Abandoned:
    """Set once the caller of a blocking call is gone."""

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
        self._pool = ThreadPoolExecutor(threads_max, thread_name_prefix=name)

    async def run(self, call: Callable[[Abandoned], T]) -> T:
        abandoned = Abandoned()
        future = asyncio.get_running_loop().run_in_executor(self._pool, call, abandoned)
        try:
            return await future
        except asyncio.CancelledError:
            abandoned.set()
            raise

    async def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
