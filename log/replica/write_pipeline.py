"""The writes of one log, in the order in which their offsets were assigned.

An append decides without an await, submits its bytes here, and waits. One write is under way at a time; what queues up
behind it and is small goes into the file as one write. A write is published, which makes its offsets visible, once its
bytes and all before them are in the file. When one fails, it and everything behind it fail: none of them is ever
acknowledged, and the log takes no more (`fail` sees to that) until it is opened anew.

Bytes belong to the pipeline from `submit` until the write ended, also when who submitted them was cancelled.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from ..disk.port import Buffer
from ..segment.segment import LogSegment, Published

QUEUED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Above this an append waits until all is written."""
JOINED_BYTES_MAX: Final = 256 * 1024
"""Small writes are copied into one of at most this size: cheaper than a thread's turn for each."""


@dataclass(slots=True, eq=False)
class _Write:
    segment: LogSegment
    position: int
    data: Buffer
    published: Published
    done: asyncio.Future[None]


class WritePipeline:
    """`publish(segment, published)` and `fail(error)` do not wait; `fail` gives what the appenders are told."""

    def __init__(
        self, publish: Callable[[LogSegment, Published], None], fail: Callable[[BaseException], BaseException]
    ) -> None:
        self._publish = publish
        self._fail = fail
        self._queue: deque[_Write] = deque()
        self._under_way: asyncio.Future[None] | None = None
        """The disk's, of the write that takes the first of the queue."""
        self._group: list[_Write] = []
        """What that write takes."""
        self.queued_bytes = 0

    def submit(self, segment: LogSegment, data: Buffer, published: Published) -> asyncio.Future[None]:
        """Queue what the active segment has just accounted for; the future is done once it is published."""
        size_bytes = len(data)
        done = asyncio.get_running_loop().create_future()
        self._queue.append(_Write(segment, published.end_position - size_bytes, data, published, done))
        self.queued_bytes += size_bytes
        if self._under_way is None:
            self._begin()
        return done

    async def drain(self) -> None:
        """Wait until everything submitted so far is written or has failed."""
        while self._under_way is not None:
            await asyncio.wait([self._under_way])

    def _begin(self) -> None:
        """Write what is first in the queue. Without a task: nobody's cancellation reaches it."""
        first = self._queue[0]
        group = self._group = self._take_group() if len(self._queue) > 1 else [first]
        data = first.data if len(group) == 1 else b"".join(write.data for write in group)
        try:
            written = first.segment.open_file.begin_write(first.position, data)
        except Exception as error:  # noqa: BLE001 - as from the write itself
            self._settle(list(self._queue), self._fail(error))
            return
        first.segment.pins += 1
        self._under_way = written if isinstance(written, asyncio.Future) else asyncio.ensure_future(written)
        self._under_way.add_done_callback(self._ended)

    def _ended(self, written: asyncio.Future[None]) -> None:
        """Publish it and go on; or tell all who wait why it failed."""
        group, error = self._group, None
        segment = group[0].segment
        segment.pins -= 1
        try:
            written.result()
            self._publish(segment, group[-1].published)
        except BaseException as failure:  # noqa: BLE001 - the supervisor of the writes
            group, error = list(self._queue), self._fail(failure)
        self._under_way = None
        self._settle(group, error)
        if self._queue:
            self._begin()

    def _take_group(self) -> list[_Write]:
        group = [self._queue[0]]
        size = len(group[0].data)
        for write in islice(self._queue, 1, None):
            size += len(write.data)
            if size > JOINED_BYTES_MAX or write.segment is not group[0].segment:
                break
            assert write.position == group[-1].published.end_position, (group[-1], write)
            group.append(write)
        return group

    def _settle(self, group: list[_Write], error: BaseException | None) -> None:
        for write in group:
            assert self._queue[0] is write, (self._queue[0], write)
            self._queue.popleft()
            self.queued_bytes -= len(write.data)
            if write.done.done():
                continue
            if error is None:
                write.done.set_result(None)
            else:
                write.done.set_exception(error)
                write.done.exception()  # mark it as seen: who waited for it may have been cancelled
