"""Reading ahead: the next batches are fetched and decoded while the last ones are handed to the JVM.

Writing to the JVM's socket waits for the JVM, and what was written last may stay in a buffer until more follows.
Without reading ahead each of the two stands still while the other one works.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")

AHEAD_MAX: Final = 4
"""Batches that wait, or are made."""


def ahead(items: Generator[T, None, None], count: int = AHEAD_MAX) -> Iterator[T]:
    """Yield the items in their order, and raise their error where it was raised. One thread of its own runs `items`,
    and closes it: also when no further item is asked for, as soon as the current one is made.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="tierfetch-ahead") as reader:
        coming: deque[Future[T | None]] = deque(reader.submit(next, items, None) for _ in range(count))
        try:
            while (item := coming.popleft().result()) is not None:
                coming.append(reader.submit(next, items, None))
                yield item
        finally:
            for future in coming:
                future.cancel()
            reader.submit(items.close)
