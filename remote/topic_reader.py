"""Reads one partition of the metadata topic into a `LedgerBook`, for the user partitions whose events it holds.

Two cursors, each with its own task:

    joining  from the end of the ledger snapshot, or from the log start where there is none, for partitions that were
             added since the last time; when it has passed both the high watermark of its start and the live cursor,
             its partitions become ready and are handed over to the live one
    live     from where the first join ended; feeds the partitions that have joined

so that a new partition reads its past while the others continue. One join at a time: partitions added meanwhile share
the next one. A third task cuts a snapshot when the live cursor is far enough beyond the last one.

If a call fails, the cursor's task tries again where it was: after a back-off, or once there is another leader. If the
topic has lost the offset they are at, or has other records before it than were read (OFFSET_OUT_OF_RANGE: an unclean
election, or retention), what is known may be wrong: the snapshot is dropped, every ledger is rebuilt from the log
start, and is not ready until then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import field

from ..light_dataclass import dataclass
from ..limited_log import LimitedLog
from ..protocol import OUTSIDE, ErrorCode, KafkaError, TopicIdPartition, describe_error
from .backoff import Backoff
from .core.records import MetadataRecordError, decode_event, decode_partition
from .ledger_book import LedgerBook
from .metadata_topic import NO_EPOCH, MetadataTopic
from .snapshot_cutter import SnapshotCutter
from .snapshot_files import SnapshotFiles

_log = logging.getLogger(__name__)
_of_peers = LimitedLog(_log)

RECORDS_PER_SLICE_MAX = 64
"""Records applied before the event loop gets its turn: two to five milliseconds."""


BEFORE_START = -1


@dataclass(slots=True)
class _Cursor:
    """`position` is the next offset to read, `last_epoch` the leader epoch of what was read; `partitions` maps each to
    the first offset it has not seen. `target` is what the position must reach before its partitions are ready.
    `is_checked` is False until the leader has said that its log has what a snapshot was cut from.
    """

    position: int
    last_epoch: int = NO_EPOCH
    target: int = 0
    is_checked: bool = True
    partitions: dict[TopicIdPartition, int] = field(default_factory=dict)


class MetadataPartitionReader:
    """`start` it once; `join` and `leave` at any time, even before; `close` it."""

    def __init__(
        self,
        topic: MetadataTopic,
        partition: int,
        book: LedgerBook,
        new_backoff: Callable[[], Backoff],
        call_timeout_ms: int,
        files: SnapshotFiles | None = None,
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._book = book
        self._new_backoff = new_backoff
        self._call_timeout_s = call_timeout_ms / 1000
        self._cutter = SnapshotCutter(topic, partition, files, self._call_timeout_s)
        self._is_cut_due = asyncio.Event()
        self._waiting: set[TopicIdPartition] = set()
        self._has_waiting = asyncio.Event()
        self._joining: _Cursor | None = None
        self._live: _Cursor | None = None
        self._has_live = asyncio.Event()
        self._skipped_to = -1
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        assert not self._tasks, f"reader of metadata partition {self._partition} has been started already"
        self._tasks = [asyncio.create_task(self._supervise(step)) for step in (self._follow, self._join, self._cut)]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def join(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Begin to read for partitions that the book has just begun."""
        self._waiting.update(partitions)
        if self._waiting:
            self._has_waiting.set()

    def leave(self, partition: TopicIdPartition) -> None:
        self._waiting.discard(partition)
        for cursor in self._cursors():
            cursor.partitions.pop(partition, None)

    @property
    def is_idle(self) -> bool:
        """Whether no partition needs this reader any longer."""
        return not self._waiting and not any(cursor.partitions for cursor in self._cursors())

    def _cursors(self) -> list[_Cursor]:
        return [cursor for cursor in (self._joining, self._live) if cursor is not None]

    async def _supervise(self, step: Callable[[], Awaitable[None]]) -> None:
        backoff = self._new_backoff()
        while True:
            asked = self._topic.leader(self._partition)
            try:
                await step()
                backoff.reset()
            except OUTSIDE as error:
                _log.warning("cannot read metadata partition %d, retrying: %s", self._partition, describe_error(error))
                if isinstance(error, KafkaError) and error.code is ErrorCode.offset_out_of_range:
                    self._begin_again()
                await self._pause(backoff, asked)
            except Exception:  # noqa: BLE001 the supervisor of this task
                _log.exception("internal error while reading metadata partition %d; retrying", self._partition)
                await asyncio.sleep(backoff.next_delay_ms() / 1000)

    async def _pause(self, backoff: Backoff, asked: Hashable) -> None:
        try:
            async with asyncio.timeout(backoff.next_delay_ms() / 1000):
                await self._topic.another_leader(self._partition, asked)
        except TimeoutError:
            return
        backoff.reset()

    def _begin_again(self) -> None:
        """Read all from the start. A task that works on a former cursor finds it without partitions, and then no longer
        in its place.
        """
        known = [partition for cursor in self._cursors() for partition in cursor.partitions]
        self._cutter.distrust()
        _log.error(
            "metadata partition %d lost records that this broker had read; rereading it from its start for %d"
            " partitions (an unclean election, or deleted records)",
            self._partition,
            len(known),
        )
        for cursor in self._cursors():
            cursor.partitions.clear()
        self._live = self._joining = None
        self._has_live.clear()
        for partition in known:
            self._book.restart(partition)
        self.join(known)

    async def _follow(self) -> None:
        """One step of the live cursor."""
        await self._has_live.wait()
        live = self._live
        if live is not None:  # else it was given up just now
            await self._advance(live)
            if self._cutter.is_due(live.position):
                self._is_cut_due.set()

    async def _cut(self) -> None:
        """One snapshot, of what the live cursor has read at least."""
        await self._is_cut_due.wait()
        self._is_cut_due.clear()
        if self._live is not None:
            await self._cutter.cut(self._live.position)

    async def _join(self) -> None:
        """One step of the joining cursor: begin, read on, or hand its partitions over."""
        await self._has_waiting.wait()
        if self._joining is None:
            self._joining = _Cursor(BEFORE_START, partitions=dict.fromkeys(self._waiting, 0))
            self._waiting.clear()
        cursor = self._joining
        if cursor.position == BEFORE_START:
            await self._begin_join(cursor)
        if self._joining is not cursor:
            return
        if not cursor.is_checked or cursor.position < max(cursor.target, self._live.position if self._live else 0):
            await self._advance(cursor)
            return
        self._hand_over(cursor)

    async def _begin_join(self, cursor: _Cursor) -> None:
        log_start, cursor.target = await self._bounds()
        snapshot = await self._cutter.load(log_start, cursor.target, cursor.partitions.keys())
        if self._joining is not cursor:
            return
        cursor.position = log_start
        if snapshot is None:
            return
        cursor.position, cursor.last_epoch = snapshot.header.end_offset, snapshot.header.last_epoch
        cursor.is_checked = False
        for partition in cursor.partitions:
            cursor.partitions[partition] = cursor.position
            if (ledger := snapshot.ledgers.get(partition)) is not None:
                self._book.resume(ledger)

    def _hand_over(self, cursor: _Cursor) -> None:
        self._joining = None
        if self._live is None:
            self._live = _Cursor(cursor.position, cursor.last_epoch)
            self._has_live.set()
        for partition in cursor.partitions:
            self._live.partitions[partition] = cursor.position
            self._book.mark_ready(partition)
        if not self._waiting:
            self._has_waiting.clear()

    async def _bounds(self) -> tuple[int, int]:
        async with asyncio.timeout(self._call_timeout_s):
            return await self._topic.bounds(self._partition)

    async def _advance(self, cursor: _Cursor) -> None:
        """Read and apply one batch. Its records may begin before the position."""
        async with asyncio.timeout(self._call_timeout_s):
            batch = await self._topic.read(self._partition, cursor.position, cursor.last_epoch)
        cursor.is_checked = True
        if batch.last_epoch != NO_EPOCH:
            cursor.last_epoch = batch.last_epoch
        for count, (offset, value) in enumerate(batch.records, start=1):
            if offset >= cursor.position:
                self._apply(offset, value, cursor.partitions)
                cursor.position = offset + 1
            if count % RECORDS_PER_SLICE_MAX == 0:
                await asyncio.sleep(0)
        cursor.position = max(cursor.position, batch.next_offset)

    def _apply(self, offset: int, value: bytes, partitions: dict[TopicIdPartition, int]) -> None:
        try:
            if offset >= partitions.get(decode_partition(value), offset + 1):
                self._book.apply(decode_event(value))
        except MetadataRecordError as error:
            if offset > self._skipped_to:
                self._skipped_to = offset
                message = "skipped offset %d of metadata partition %d: %s"
                _of_peers.warning(str(self._partition), message, offset, self._partition, error)
