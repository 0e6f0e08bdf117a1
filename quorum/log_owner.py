"""The one task that changes the metadata log and its snapshots: effects in, completions out, in the same order.

| effect or order | done | reported |
|---|---|---|
| AppendRecords | stamped with the time, written, visible to readers | LogCompleted |
| AppendFetched | written as it came | LogCompleted |
| Flush | fsync of what the log's files hold | LogCompleted |
| Truncate | cut, durably | LogCompleted |
| SnapshotChunkAppend | appended to the part | SnapshotChunkWritten |
| the first of several | appended if the snapshot may be so large | SnapshotChunkWritten, SnapshotChunkRefused |
| InstallSnapshot | part checked, named, log emptied | SnapshotInstalled, or SnapshotRejected if it is not whole |
| `take_snapshot` | written beside all that; in its turn named, retention applied | SnapshotTaken |

An OSError or a storage error is reported as LogFailed, and nothing is touched after it: memory and disk may differ. A
snapshot that cannot be written or named is only counted, and its caller gets the error: the log is whole without it.
The queue is bounded by the core, which decided what waits in it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ..light_dataclass import dataclass
from ..limited_log import LimitedLog
from ..log.core import CorruptFileError
from ..protocol import OUTSIDE
from ..protocol.fetch import SnapshotId
from .core.effects import AppendFetched, AppendRecords, Flush, InstallSnapshot, LogEffect, SnapshotChunkAppend, Truncate
from .core.errors import QuorumFailedError
from .core.events import (
    LogCompleted,
    LogFailed,
    SnapshotChunkRefused,
    SnapshotChunkWritten,
    SnapshotInstalled,
    SnapshotRejected,
    SnapshotTaken,
)
from .core.state import OffsetAndEpoch
from .core.voters import VotersAt
from .metrics import QuorumMetrics
from .storage.control_batches import append_bytes, voters_of_snapshot
from .storage.metadata_log import MetadataLog
from .storage.snapshot_file import QuorumSetup, snapshot_batches
from .storage.snapshots import CutSnapshot, SnapshotTooLargeError

OwnerEvent = (
    LogCompleted
    | LogFailed
    | SnapshotChunkWritten
    | SnapshotChunkRefused
    | SnapshotInstalled
    | SnapshotRejected
    | SnapshotTaken
)
ORDERS_MAX: Final = 100_000
NOT_CUT: Final = "the replica stops: the snapshot is not cut"

_log = logging.getLogger(__name__)
_of_peers = LimitedLog(_log)


@dataclass(slots=True, eq=False)
class _Snapshot:
    """A snapshot that is written, and the future of the caller that waits until it counts."""

    cut: CutSnapshot
    done: asyncio.Future[None]

    def fail(self, error: BaseException) -> None:
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # mark it as retrieved: the caller may have been cancelled


class LogOwner:
    """`configured` are the voters of a log that names none."""

    def __init__(
        self,
        log: MetadataLog,
        *,
        now_ms: Callable[[], int],
        configured: VotersAt,
        metrics: QuorumMetrics,
        report: Callable[[OwnerEvent], None],
    ) -> None:
        self._log = log
        self._now_ms = now_ms
        self._configured = configured
        self._metrics = metrics
        self._report = report
        self._orders: deque[LogEffect | InstallSnapshot | SnapshotChunkAppend | _Snapshot] = deque()
        self._wanted = asyncio.Event()
        self._is_dropped = False

    def put(self, effect: LogEffect | InstallSnapshot | SnapshotChunkAppend) -> None:
        """Queue an effect; does not wait."""
        assert len(self._orders) < ORDERS_MAX, f"{len(self._orders)} effects wait for the log"
        self._orders.append(effect)
        self._wanted.set()

    async def take_snapshot(
        self, snapshot_id: SnapshotId, records: Iterable[bytes], setup: QuorumSetup, last_append_time_ms: int
    ) -> None:
        """Cut a snapshot; durable when this returns. Nothing happens if there is one of this offset or a later one.

        Raise OSError if it cannot be cut, which the replica survives, and QuorumFailedError if the replica stops.
        """
        batches = snapshot_batches(
            snapshot_id, records, setup=setup, last_append_time_ms=last_append_time_ms, now_ms=self._now_ms()
        )
        try:
            cut = await self._log.snapshots.write(snapshot_id, self._until_dropped(batches))
            self._refuse_if_dropped()
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._orders.append(_Snapshot(cut, done))
            self._wanted.set()
            await done
        except OSError:
            self._metrics.snapshot_errors += 1
            raise

    def _until_dropped(self, batches: Iterable[bytes]) -> Iterator[bytes]:
        for batch in batches:
            self._refuse_if_dropped()
            yield batch

    def _refuse_if_dropped(self) -> None:
        if self._is_dropped:
            raise QuorumFailedError(NOT_CUT)

    def drop(self) -> None:
        """Forget what waits; callers that wait for a snapshot get QuorumFailedError."""
        self._is_dropped = True
        for order in self._orders:
            if isinstance(order, _Snapshot):
                order.fail(QuorumFailedError(NOT_CUT))
        self._orders.clear()

    async def run(self) -> None:
        """The task. It ends by itself when the log has failed."""
        try:
            while True:
                while self._orders:
                    await self._perform(self._orders.popleft())
                self._wanted.clear()
                await self._wanted.wait()
        except OUTSIDE as error:
            _log.error("the metadata log cannot be written: %s", error)
            self._report(LogFailed(str(error)))

    async def _perform(self, order: LogEffect | InstallSnapshot | SnapshotChunkAppend | _Snapshot) -> None:
        match order:
            case AppendRecords():
                await self._append(order)
            case AppendFetched():
                await self._log.append(order.records.payload)  # type: ignore[arg-type]  # the shell's own bytes
                self._metrics.fetched_records += order.end_offset - order.base_offset
                self._completed(order)
            case Flush():
                await self._flush(order)
            case Truncate():
                end_offset = await self._log.truncate_to(order.end_offset)
                assert end_offset == order.end_offset, f"cut at {order.end_offset}, the log ends at {end_offset}"
                self._report(LogCompleted(order))
            case SnapshotChunkAppend():
                await self._store_chunk(order)
            case InstallSnapshot():
                await self._install(order.snapshot_id)
            case _Snapshot():
                await self._count(order)

    async def _append(self, order: AppendRecords) -> None:
        data = append_bytes(order, self._now_ms())
        await self._log.append(data)
        self._metrics.appended_records += order.end_offset - order.base_offset
        self._completed(order)

    def _completed(self, order: AppendRecords | AppendFetched) -> None:
        assert self._log.log_end_offset == order.end_offset, (self._log.log_end_offset, order)
        self._report(LogCompleted(order))

    async def _flush(self, order: Flush) -> None:
        began_s = self._metrics.now_s()
        flushed = await self._log.flush()
        assert flushed >= order.end_offset, (flushed, order)
        self._metrics.fsync.observe(self._metrics.now_s() - began_s)
        self._report(LogCompleted(order))

    async def _store_chunk(self, order: SnapshotChunkAppend) -> None:
        snapshots, wire_id = self._log.snapshots, _wire_id(order.snapshot_id)
        try:
            if order.position == 0 and not order.is_last:  # one chunk alone takes no more than an append
                await snapshots.check_room(wire_id, order.size)
        except SnapshotTooLargeError as error:
            _of_peers.error("", "the leader's snapshot is not fetched: %s", error)
            self._report(SnapshotChunkRefused(order))
            return
        payload: memoryview = order.payload  # type: ignore[assignment]  # the shell's own bytes
        await snapshots.store_chunk(wire_id, order.position, payload)
        self._report(SnapshotChunkWritten(order))

    async def _install(self, snapshot_id: OffsetAndEpoch) -> None:
        wire_id = _wire_id(snapshot_id)
        try:
            setup = await self._log.snapshots.finish_part(wire_id)
        except CorruptFileError as error:
            _of_peers.error("", "the snapshot fetched from the leader is rejected: %s", error)
            self._report(SnapshotRejected(snapshot_id, str(error)))
            return
        await self._log.begin_at_snapshot(wire_id)
        self._report(SnapshotInstalled(snapshot_id, voters_of_snapshot(snapshot_id.offset, setup, self._configured)))

    async def _count(self, order: _Snapshot) -> None:
        """Name a snapshot that is written, and delete what it makes unnecessary."""
        snapshot_id = order.cut.snapshot_id
        try:
            try:
                is_named = await self._name_latest(order.cut)
            except OSError as error:
                order.fail(error)
                return
            if is_named:
                await self._log.clean()
                start = self._log.start_id
                snapshot = OffsetAndEpoch(snapshot_id.end_offset, snapshot_id.epoch)
                self._report(SnapshotTaken(snapshot, OffsetAndEpoch(start.end_offset, start.epoch)))
        except asyncio.CancelledError:
            order.fail(QuorumFailedError(NOT_CUT))
            raise
        except BaseException as error:
            order.fail(error)
            raise
        if not order.done.done():
            order.done.set_result(None)

    async def _name_latest(self, cut: CutSnapshot) -> bool:
        """Return False, and drop the snapshot, if there is one of this offset or a later one."""
        snapshots = self._log.snapshots
        latest = snapshots.latest
        if latest is not None and latest.end_offset >= cut.snapshot_id.end_offset:
            await snapshots.drop(cut)
            return False
        await snapshots.name(cut)
        return True


def _wire_id(snapshot_id: OffsetAndEpoch) -> SnapshotId:
    return SnapshotId(snapshot_id.offset, snapshot_id.epoch)
