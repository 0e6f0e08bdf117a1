"""Calculations beside the event loop that do not hold up the end of the process.

The default executor's threads are waited for when a program ends. Ctrl-C has to end the console at once, even in the
middle of a prediction, so these are daemons: what they calculate is dropped then.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Return what the function returns, or raise what it raises."""
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()

    def work() -> None:
        try:
            result = function(*arguments, **named)
        except BaseException as error:  # noqa: BLE001  # it belongs to the caller
            done.set_exception(error)
        else:
            done.set_result(result)

    threading.Thread(target=work, daemon=True, name="console").start()
    return await asyncio.wrap_future(done)
