"""Delivery of the committed log to its listeners: a snapshot first where one is needed, then the batches in order.

* A batch is handed over once, below the high watermark only, after everything before it.
* A snapshot is loaded where the log does not hold what comes next: at the start, if there is one, and whenever the log
  begins above what was applied (the leader had let go of it, and this replica fetched its snapshot).
* A change of the leader takes its place between batches. This replica's own leadership is reported once everything
  before it has been applied; if it is lost before that, it is never reported. Its end is reported at once: a
  controller must not go on deciding while a slow disk holds up what comes before.

Listeners are called on the event loop and do not wait; a long batch or snapshot they apply in steps. Between batches,
and between steps, everything else on the loop has its turn (`pace`): a hundred thousand partitions that change leader
must not keep a controller from its own fetches and votes. A record that a listener cannot understand, as of a newer
release, stops the replica with its offset; anything else that listeners raise is an internal error and does so too.

The voters in effect are followed on the way: a snapshot cut later says which they were at its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ..protocol import OUTSIDE, CorruptRecordError, KafkaError, PeerError
from ..protocol.net import pace
from ..protocol.records import Record, iter_batches, iter_records, parse_quorum_record
from ..protocol.wire import Steps
from .core.state import LeaderAndEpoch
from .core.voters import VotersAt
from .listener import RECORDS_PER_STEP, CommittedBatch, QuorumListener, SnapshotContent
from .metrics import QuorumMetrics
from .storage.control_batches import voters_after, voters_of_snapshot
from .storage.metadata_log import MetadataLog

NOW: Final = -1
"""As an offset: applied in any case."""
RECORD_WEIGHT: Final = 2
"""What one record costs in the listeners, in elements of `pace`."""
OVER: Final = object()
"""What `next` gives of steps that are at their end."""


class Delivery:
    """`listeners` are complete before `run`; `fail` is called with the reason if delivery stops."""

    def __init__(
        self, log: MetadataLog, configured: VotersAt, metrics: QuorumMetrics, fail: Callable[[str], None]
    ) -> None:
        self.listeners: Sequence[QuorumListener] = ()
        self.applied_offset = 0
        """Exclusive."""
        self._log = log
        self._metrics = metrics
        self._fail = fail
        self._configured = configured
        self._voters = [configured]
        """Since the snapshot that was loaded or cut last, by the offset of their record."""
        self._high_watermark = 0
        self._leaders: list[tuple[LeaderAndEpoch, int]] = []
        """Changes to report, each with the offset that must be applied before."""
        self._has_reported_itself = False
        """Whether the listeners take this replica for the leader."""
        self._wanted = asyncio.Event()

    def advance(self, high_watermark: int) -> None:
        """Below it everything is committed, and here."""
        self._high_watermark = max(self._high_watermark, high_watermark)
        self._log.update_high_watermark(high_watermark)
        self._wanted.set()

    def snapshot_installed(self) -> None:
        """The log begins with another snapshot."""
        self._wanted.set()

    def leader_changed(self, leader: LeaderAndEpoch, not_before_offset: int = NOW) -> None:
        """Report it in turn, but not before that offset is applied. What was still held back is void.

        The end of this replica's own leadership is reported before this returns.
        """
        if self._has_reported_itself:
            self._has_reported_itself = False
            self._report(leader if not_before_offset == NOW else LeaderAndEpoch(None, leader.epoch))
            if not_before_offset == NOW:
                return
        self._leaders = [(known, offset) for known, offset in self._leaders if offset == NOW]
        self._leaders.append((leader, not_before_offset))
        self._wanted.set()

    def voters_at(self, end_offset: int) -> VotersAt:
        """Return the voters in effect after the applied record before `end_offset`."""
        assert end_offset <= self.applied_offset, (end_offset, self.applied_offset)
        return [known for known in self._voters if known.offset < max(end_offset, 0)][-1]

    def snapshot_taken(self, end_offset: int) -> None:
        """Forget the voters below it: no snapshot needs them any longer."""
        first = [known for known in self._voters if known.offset < end_offset][-1:]
        self._voters = [*first, *(known for known in self._voters if known.offset >= end_offset)]

    async def run(self) -> None:
        """The task."""
        try:
            await self._load_snapshot_above(self.applied_offset)
            while True:
                self._wanted.clear()
                if self.applied_offset < self._log.log_start_offset:
                    await self._load_snapshot_above(self.applied_offset)
                self._notify_of_leaders()
                await self._apply()
                self._notify_of_leaders()
                if not self._wanted.is_set():
                    await self._wanted.wait()
        except (*OUTSIDE, PeerError) as error:
            self._fail(f"the committed metadata log cannot be applied from offset {self.applied_offset} on: {error}")

    async def _load_snapshot_above(self, offset: int) -> None:
        """The latest one."""
        snapshots = self._log.snapshots
        while (latest := snapshots.latest) is not None and latest.end_offset > offset:
            try:
                parsed = await snapshots.read(latest)
            except FileNotFoundError:
                if latest in snapshots.ids:
                    raise
                continue  # a later one took its place meanwhile
            self._voters = [voters_of_snapshot(latest.end_offset, parsed.setup, self._configured)]
            content = SnapshotContent(latest.end_offset, latest.epoch, parsed.last_append_time_ms, parsed.batches)
            for listener in self.listeners:
                await self._carry_out(listener.on_load_snapshot(content))
            offset = self.applied_offset = latest.end_offset

    async def _apply(self) -> None:
        """Deliver everything committed that the log holds."""
        while self._log.log_start_offset <= self.applied_offset < self._high_watermark:
            data, applied_offset = await self._read(), self.applied_offset
            if not data:
                return
            for position, header in iter_batches(data, check_crc=False):
                records = tuple(iter_records(data, position, header))
                if header.is_control:
                    self._follow_voters(records)
                    records = ()
                await pace().spend(len(records) * RECORD_WEIGHT)
                await self._commit(
                    CommittedBatch(
                        header.base_offset,
                        header.last_offset,
                        header.partition_leader_epoch,
                        header.max_timestamp,
                        tuple(record.value or b"" for record in records),
                    )
                )
            if self.applied_offset == applied_offset:
                raise CorruptRecordError(f"no whole batch in {len(data)} bytes", 0)

    async def _read(self) -> bytes:
        """Read what comes next; return nothing if a snapshot has replaced it meanwhile, which is delivered then."""
        try:
            return await self._log.read_bytes(self.applied_offset, max_offset=self._high_watermark)
        except KafkaError:
            if self.applied_offset < self._log.log_start_offset:
                return b""
            raise

    def _follow_voters(self, records: Iterable[Record]) -> None:
        for record in records:
            after = voters_after(parse_quorum_record(record), record.offset, self._voters[-1])
            if after is not self._voters[-1]:
                self._voters.append(after)

    async def _commit(self, batch: CommittedBatch) -> None:
        assert batch.base_offset >= self.applied_offset, (batch.base_offset, self.applied_offset)
        busy_s = self._metrics.busy_s
        for listener in self.listeners:
            began_s = self._metrics.now_s()
            steps = listener.on_commit(batch)
            self._metrics.busy_s += self._metrics.now_s() - began_s
            await self._carry_out(steps)
        self.applied_offset = batch.last_offset + 1
        self._metrics.apply.observe(self._metrics.busy_s - busy_s)

    async def _carry_out(self, steps: Steps[None] | None) -> None:
        """Let a listener finish, and others on the loop have their turn."""
        if steps is None:
            return
        turns, weight, had = pace(), RECORDS_PER_STEP * RECORD_WEIGHT, 0
        while True:
            began_s = self._metrics.now_s()
            is_over = next(steps, OVER) is OVER
            self._metrics.busy_s += self._metrics.now_s() - began_s
            if is_over:
                return
            had += weight
            await turns.spend(weight, had)

    def _notify_of_leaders(self) -> None:
        while self._leaders and self._leaders[0][1] <= self.applied_offset:
            leader, offset = self._leaders.pop(0)
            self._has_reported_itself = offset != NOW
            self._report(leader)

    def _report(self, leader: LeaderAndEpoch) -> None:
        for listener in self.listeners:
            listener.on_leader_change(leader)
