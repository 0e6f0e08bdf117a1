"""The writes of one log, in the order in which their offsets were assigned.

An append decides without an await, submits its bytes here, and waits. One write is under way at a time; small writes
that queue up after it are joined into one. A write is published, which makes its offsets visible, once its bytes and
all bytes before them are in the file. When a write fails, it and every write after it fail: none of them is ever
acknowledged, and the log (through `fail`) rejects appends until it is reopened.

Bytes belong to the pipeline from `submit` until the write has ended, also if the caller was cancelled.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Final

from ...light_dataclass import dataclass
from ..disk.port import Buffer
from ..segment.segment import LogSegment, Published

QUEUED_BYTES_MAX: Final = 64 * 1024 * 1024
"""The queue length in bytes above which an append waits until all is written."""
JOINED_BYTES_MAX: Final = 256 * 1024
"""The largest write that small writes are joined into: one copy is cheaper than a thread switch for each."""


@dataclass(slots=True, eq=False)
class _Write:
    segment: LogSegment
    position: int
    data: Buffer
    published: Published
    done: asyncio.Future[None]


class WritePipeline:
    """The write queue of one log. `publish` and `fail` do not wait; `fail` returns the appenders' error."""

    def __init__(
        self, publish: Callable[[LogSegment, Published], None], fail: Callable[[BaseException], BaseException]
    ) -> None:
        self._publish = publish
        self._fail = fail
        self._queue: deque[_Write] = deque()
        self._under_way: asyncio.Future[None] | None = None
        """The disk's future of the write at the head of the queue; None while the queue is empty."""
        self._group: list[_Write] = []
        """The queued writes that the write under way joins."""
        self.queued_bytes = 0

    def submit(self, segment: LogSegment, data: Buffer, published: Published) -> asyncio.Future[None]:
        """Queue the bytes that the active segment has just accounted for; the future is done at publication."""
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
        """Write the head of the queue. There is no task, so no caller's cancellation can stop a write."""
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
        """Publish the write and begin the next; after a failure fail every queued write."""
        group, error = self._group, None
        segment = group[0].segment
        segment.pins -= 1
        try:
            written.result()
            self._publish(segment, group[-1].published)
        except BaseException as failure:  # noqa: BLE001 - the supervisor of the writes
            # Offsets are assigned already: a later write would leave a hole in the file, so all of them fail.
            group, error = list(self._queue), self._fail(failure)
        self._under_way, self._group = None, []  # a log that rests holds no bytes of its last append
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
                write.done.exception()  # mark it as retrieved: its caller may have been cancelled
