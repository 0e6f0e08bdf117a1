"""The ledgers of the partitions that one broker follows, and everybody who waits for them.

The part that every `RemoteLogMetadataManager` shares: it feeds events in their order (`apply`) and says when a ledger
holds all that was committed when it was assigned (`mark_ready`); readers look (`ledger`), wait (`wait_newer`), and
writers wait for their own event to come back (`write`), which shows whether it took effect or was refused.
`BookedMetadataManager` has the calls of the port that need nothing else.

An event that the ledger refuses is skipped, on every broker alike, because all apply the same events in the same order.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from ..limited_log import LimitedLog
from ..protocol import TopicIdPartition
from .core.ledger import IllegalTransitionError, RemoteLogLedger
from .core.segment import (
    RemoteLogEvent,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)
from .metadata import RemoteLogMetadataError

_log = logging.getLogger(__name__)
_of_peers = LimitedLog(_log)


def partition_of(event: RemoteLogEvent) -> TopicIdPartition:
    if isinstance(event, RemotePartitionDeleteMetadata):
        return event.topic_id_partition
    return event.segment_id.topic_id_partition


class _Page:
    """One partition. `changed` exists only while somebody waits."""

    __slots__ = ("arrivals", "changed", "is_open", "is_ready", "ledger", "refused_count")

    def __init__(self, ledger: RemoteLogLedger) -> None:
        self.ledger = ledger
        self.is_ready = False
        self.is_open = True
        self.changed: asyncio.Event | None = None
        self.arrivals: dict[RemoteLogEvent, list[asyncio.Future[None]]] = {}
        self.refused_count = 0

    def wake(self) -> None:
        if self.changed is not None:
            self.changed.set()
            self.changed = None

    def settle(self, event: RemoteLogEvent, error: Exception | None) -> bool:
        """Tell the writers of `event`; False if there are none."""
        arrivals = self.arrivals.pop(event, []) if self.arrivals else []
        waiting = [arrival for arrival in arrivals if not arrival.done()]
        for arrival in waiting:
            if error is None:
                arrival.set_result(None)
            else:
                arrival.set_exception(error)
        return bool(waiting)


class LedgerBook:
    """Not thread-safe: one event loop."""

    def __init__(self) -> None:
        self._pages: dict[TopicIdPartition, _Page] = {}

    def __contains__(self, partition: TopicIdPartition) -> bool:
        return partition in self._pages

    def add(self, partition: TopicIdPartition) -> None:
        """Begin an empty ledger, not ready yet."""
        assert partition not in self._pages, f"{partition} is followed already"
        self._pages[partition] = _Page(RemoteLogLedger(partition))

    def restart(self, partition: TopicIdPartition) -> None:
        """Forget what is known, because it is read again from its beginning. Waiting callers keep waiting."""
        page = self._pages[partition]
        page.ledger = RemoteLogLedger(partition, version=page.ledger.version)
        page.is_ready = False

    def resume(self, ledger: RemoteLogLedger) -> None:
        """Take the ledger of a snapshot, instead of what is known, for a partition that is not ready yet."""
        page = self._pages[ledger.partition]
        assert not page.is_ready, ledger
        ledger.continue_version(page.ledger.version)
        page.ledger = ledger

    def remove(self, partition: TopicIdPartition) -> None:
        """Drop the ledger; who waits for it gets RemoteLogMetadataError."""
        if (page := self._pages.pop(partition, None)) is None:
            return
        page.is_open = False
        page.wake()
        for event in list(page.arrivals):
            page.settle(event, _not_followed(partition))

    def close(self) -> None:
        for partition in list(self._pages):
            self.remove(partition)

    def ledger(self, partition: TopicIdPartition) -> RemoteLogLedger | None:
        """None until it is ready, or if it is not followed."""
        page = self._pages.get(partition)
        return page.ledger if page is not None and page.is_ready else None

    async def wait_newer(self, partition: TopicIdPartition, version: int) -> RemoteLogLedger:
        """The ledger, once it is ready and its version is above `version` (-1: once it is ready)."""
        page = self._pages.get(partition)
        if page is None:
            raise _not_followed(partition)
        while not (page.is_ready and page.ledger.version > version):
            if page.changed is None:
                page.changed = asyncio.Event()
            await page.changed.wait()
            if not page.is_open:
                raise _not_followed(partition)
        return page.ledger

    async def write(
        self,
        event: RemoteLogEvent,
        append: Callable[[asyncio.Future[None]], Awaitable[None]],
        *,
        also_if_known: bool = False,
    ) -> None:
        """Have `append` write an event, and return once it has come back: `append` gets what is done then. Nothing is
        written if the ledger refuses the event (IllegalTransitionError), or knows it already, unless `also_if_known`.
        """
        ledger = await self.wait_newer(partition_of(event), -1)
        if not ledger.check(event) and not also_if_known:
            return
        with self._expect(event) as arrival:
            await append(arrival)
            await arrival

    @contextmanager
    def _expect(self, event: RemoteLogEvent) -> Iterator[asyncio.Future[None]]:
        """A future that is done once `apply` has met an equal event, with its IllegalTransitionError if that was
        refused. The partition must be followed.
        """
        arrivals = self._pages[partition_of(event)].arrivals
        arrival = asyncio.get_running_loop().create_future()
        arrivals.setdefault(event, []).append(arrival)
        try:
            yield arrival
        finally:
            if arrival.done():
                arrival.exception()
            else:
                arrival.cancel()
                arrivals[event].remove(arrival)
                if not arrivals[event]:
                    del arrivals[event]

    def apply(self, event: RemoteLogEvent) -> None:
        """Take the next event of a followed partition."""
        page = self._pages[partition_of(event)]
        try:
            has_changed = page.ledger.apply(event)
        except IllegalTransitionError as error:
            if not page.settle(event, error):
                self._report_refused(page, error)
            return
        page.settle(event, None)
        if has_changed and page.is_ready:
            page.wake()

    def mark_ready(self, partition: TopicIdPartition) -> None:
        page = self._pages[partition]
        page.is_ready = True
        page.wake()
        if page.refused_count:
            _log.warning(
                "%s: skipped %d illegal events in the remote log metadata",
                partition,
                page.refused_count,
            )
            page.refused_count = 0

    @staticmethod
    def _report_refused(page: _Page, error: IllegalTransitionError) -> None:
        if page.is_ready:
            _of_peers.warning("", "skipped an event of the remote log metadata: %s", error)
        else:
            page.refused_count += 1
            _log.debug("skipped an event of the remote log metadata: %s", error)


class BookedMetadataManager(ABC):
    """The calls of a `RemoteLogMetadataManager` that its book answers; where events are kept is up to a subclass."""

    def __init__(self) -> None:
        self._book = LedgerBook()

    def ledger(self, partition: TopicIdPartition) -> RemoteLogLedger | None:
        return self._book.ledger(partition)

    async def wait_newer(self, partition: TopicIdPartition, version: int) -> RemoteLogLedger:
        return await self._book.wait_newer(partition, version)

    async def add_segment(self, metadata: RemoteLogSegmentMetadata) -> None:
        await self._write(metadata)

    async def confirm_started(self, metadata: RemoteLogSegmentMetadata) -> None:
        await self._write(metadata, also_if_known=True)

    async def update_segment(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        await self._write(update)

    async def put_partition_delete(self, event: RemotePartitionDeleteMetadata) -> None:
        await self._write(event)

    @abstractmethod
    async def _write(self, event: RemoteLogEvent, *, also_if_known: bool = False) -> None:
        """Write an event by `LedgerBook.write`, within the limits of time of where it goes."""


def _not_followed(partition: TopicIdPartition) -> RemoteLogMetadataError:
    return RemoteLogMetadataError(
        f"{partition}: this broker does not follow, or no longer follows, its remote log metadata"
    )
