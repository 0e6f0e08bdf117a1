"""When a snapshot of the image is cut."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from tierfetch.controller.image.image import MetadataImage
from tierfetch.controller.snapshotter import AGAIN_MS, Snapshotter
from tierfetch.quorum.listener import CommittedBatch

BYTES_MAX = 100
INTERVAL_MS = 3_600_000


class Replica:
    """Cuts as many snapshots as there is room for; `asked` are their end offsets."""

    def __init__(self) -> None:
        self.is_full = False
        self.asked: list[int] = []

    async def create_snapshot(self, offset: int, epoch: int, records: Iterable[bytes], append_time_ms: int) -> None:
        self.asked.append(offset)
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")


class Applying:
    """One batch after the other, at the times given."""

    def __init__(self, snapshotter: Snapshotter) -> None:
        self._snapshotter = snapshotter
        self._offset = 0

    async def apply(self, now_ms: int, record_bytes: int = 1) -> None:
        batch = CommittedBatch(self._offset, self._offset, 1, now_ms, (b"x" * record_bytes,))
        self._offset += 1
        self._snapshotter.applied(MetadataImage(), batch)
        for _ in range(3):  # its task begins, lets the other listeners return, and ends
            await asyncio.sleep(0)


@asynccontextmanager
async def snapshotting(replica: Replica) -> AsyncIterator[Applying]:
    snapshotter = Snapshotter(replica, bytes_max=BYTES_MAX, interval_ms=INTERVAL_MS)
    yield Applying(snapshotter)
    await snapshotter.close()


async def test_a_snapshot_is_cut_after_so_many_bytes_and_after_so_long() -> None:
    replica = Replica()
    async with snapshotting(replica) as applying:
        await applying.apply(0, BYTES_MAX - 1)
        assert replica.asked == []
        await applying.apply(0)
        assert replica.asked == [2]
        await applying.apply(INTERVAL_MS - 1)
        await applying.apply(INTERVAL_MS)
        assert replica.asked == [2, 4]


async def test_one_that_could_not_be_cut_is_tried_again_a_minute_later() -> None:
    replica = Replica()
    async with snapshotting(replica) as applying:
        replica.is_full = True
        await applying.apply(0, BYTES_MAX)
        await applying.apply(AGAIN_MS - 1)
        assert replica.asked == [1]
        await applying.apply(AGAIN_MS)
        assert replica.asked == [1, 3]
        replica.is_full = False
        await applying.apply(2 * AGAIN_MS)
        await applying.apply(3 * AGAIN_MS)
        assert replica.asked == [1, 3, 4]
