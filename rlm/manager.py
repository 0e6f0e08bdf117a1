"""The remote log manager of one broker: a task for each tiered partition it hosts, and the limits they share.

The broker reports, by plain calls that take effect at once: which partitions it leads and follows, and when a log's
configuration changed. A partition whose configuration asks for no tier is remembered and costs nothing.

| the broker says       | what happens                                                                            |
|-----------------------|-----------------------------------------------------------------------------------------|
| expecting             | the remote log metadata of partitions that are about to be hosted is read, of all in    |
|                       | one pass: each that joins later has the metadata topic read once more                   |
| lead, follow          | the partition's task is cancelled, a new one starts for the new role                    |
| config_changed        | the task starts, stops or looks again                                                   |
| stop                  | the task is cancelled and awaited, its remote log metadata no longer followed           |
| delete_remote_partition | every segment of a deleted topic's partition goes, with retries, beside everything else; |
|                       | after a restart too. Other replicas than the leader look later what is left of it: it   |
|                       | may have died before, or as it learned that it leads                                    |

Does not know why a partition leads, who its followers are, or what a segment holds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import asynccontextmanager
from random import Random
from typing import Final

from ..light_dataclass import dataclass
from ..log import PartitionLog
from ..protocol import OUTSIDE, TopicIdPartition, TopicPartition
from ..protocol.net import Slices
from ..remote import RemoteLogMetadataManager, RemoteStorageManager
from ..remote.core import RemoteLogLedger
from .config import RemoteLogManagerConfig
from .copier import SegmentCopier
from .core.view import TierMode, TierPolicy
from .deadlines import MetadataWriter, watched
from .expiry import RemoteSegmentDeleter, raise_if_cancelled
from .metrics import CopyLag, RemoteLogCounters
from .partition_task import Leadership, PartitionTask, TierServices
from .pending_deletions import PendingDeletions
from .rate_limit import RateLimit

DELETION_SPREAD: Final = 8
"""Brokers that look at different times what is left of a deleted topic."""

EXPECTED_AT_ONCE: Final = 500
"""Partitions that are expected without a turn of the loop in between: a few ms."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Hosted:
    """A partition of this broker; `task` and `running` while its configuration asks for a tier. `turn` is held by the
    task that works on the partition, until all that it began has ended.
    """

    log: PartitionLog
    leadership: Leadership | None
    turn: asyncio.Lock
    task: PartitionTask | None = None
    running: asyncio.Task[None] | None = None


class RemoteLogManager:
    """See the module's docstring. One event loop. `storage` is the plugin with deadlines around it, for others too."""

    def __init__(
        self,
        storage: RemoteStorageManager,
        metadata: RemoteLogMetadataManager,
        *,
        broker_id: int,
        config: RemoteLogManagerConfig,
        random: Random,
        wall_clock_ms: Callable[[], int],
        deletions: PendingDeletions,
    ) -> None:
        """Make a manager over two plugins, which the caller starts and closes."""
        self.storage = watched(
            storage, copy_deadline=config.copy_deadline, request_timeout_ms=config.request_timeout_ms
        )
        writer = MetadataWriter(
            metadata, broker_id=broker_id, timeout_ms=config.request_timeout_ms, wall_clock_ms=wall_clock_ms
        )
        rate_limit = RateLimit(config.copy_max_bytes_per_second)
        self.counters = RemoteLogCounters()
        self._metadata = metadata
        self._services = TierServices(
            broker_id=broker_id,
            config=config,
            metadata=metadata,
            copier=SegmentCopier(
                self.storage, writer, rate_limit, custom_metadata_max_bytes=config.custom_metadata_max_bytes
            ),
            deleter=RemoteSegmentDeleter(self.storage, writer, config.expiration_thread_pool_size),
            copy_slots=asyncio.Semaphore(config.copier_thread_pool_size),
            counters=self.counters,
            random=random,
            wall_clock_ms=wall_clock_ms,
        )
        self._hosted: dict[TopicIdPartition, _Hosted] = {}
        self._deletions = deletions
        self._deleting: set[TopicIdPartition] = set()
        self._owned: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Go on with what an earlier process was to delete."""
        for partition in await self._deletions.load():
            self._delete(partition)

    async def close(self) -> None:
        """Cancel everything and wait for it. Copies under way are left for the next leader to sweep."""
        self._hosted.clear()
        for task in self._owned:
            task.cancel()
        if self._owned:
            await asyncio.wait(self._owned)

    @asynccontextmanager
    async def expecting(self, partitions: Collection[TopicIdPartition]) -> AsyncIterator[None]:
        """Read the remote log metadata of tiered partitions that the block begins to lead or to follow; forget it at
        the end of those that it did not.
        """
        expected = [partition for partition in partitions if partition not in self._hosted]
        try:
            async for some in Slices(expected, free=EXPECTED_AT_ONCE):
                await self._metadata.assign(some)
            yield
        finally:
            if left := [partition for partition in expected if not self._is_followed(partition)]:
                await self._metadata.unassign(left)

    def _is_followed(self, partition: TopicIdPartition) -> bool:
        """Return whether there is a task that needs the partition's ledger."""
        hosted = self._hosted.get(partition)
        return partition in self._deleting or (hosted is not None and hosted.task is not None)

    def lead(
        self,
        partition: TopicIdPartition,
        log: PartitionLog,
        leader_epoch: int,
        isr_log_start_min: Callable[[], int],
    ) -> None:
        """This broker leads the partition from now on. `isr_log_start_min`: the lowest log start offset in the ISR, the
        leader's own included.
        """
        self._host(partition, log, Leadership(leader_epoch, isr_log_start_min))

    def follow(self, partition: TopicIdPartition, log: PartitionLog) -> None:
        """This broker follows from now on, and copies nothing."""
        self._host(partition, log, None)

    def config_changed(self, partition: TopicIdPartition) -> None:
        """After the log got its new configuration."""
        if (hosted := self._hosted.get(partition)) is not None:
            self._adjust(partition, hosted)

    def wake(self, partition: TopicIdPartition) -> None:
        """Look at the partition now: the ISR has fetched a higher log start, or an operator asked."""
        hosted = self._hosted.get(partition)
        if hosted is not None and hosted.task is not None:
            hosted.task.wake()

    async def stop(self, partition: TopicIdPartition) -> None:
        """Stop all work on the partition; afterwards its log may be closed or deleted."""
        hosted = self._hosted.pop(partition, None)
        if hosted is None:
            return
        self._end(hosted)
        async with hosted.turn:
            if partition not in self._deleting:
                await self._metadata.unassign([partition])

    async def delete_remote_partition(self, partition: TopicIdPartition, *, is_leader: bool = True) -> None:
        """The topic was deleted: delete what the tier holds of the partition. A broker that did not lead it last waits
        for `orphaned_deletion_delay_ms`: the broker that did will have deleted it by then.

        When this returns it is certain to happen, now or after a restart, and the local log may go. OSError if it
        could not be written down.
        """
        await self._deletions.add(partition)
        spread = 1 + self._services.broker_id % DELETION_SPREAD / DELETION_SPREAD
        self._delete(partition, 0 if is_leader else spread * self._services.config.orphaned_deletion_delay_ms)

    def _delete(self, partition: TopicIdPartition, delay_ms: float = 0) -> None:
        if partition not in self._deleting:
            self._deleting.add(partition)
            self._own(self._delete_remote_partition(partition, delay_ms), f"deletion of {partition} from the tier")

    def ledger(self, partition: TopicIdPartition) -> RemoteLogLedger | None:
        """The partition's ledger once the remote log metadata has been read; None before, and if it is not tiered."""
        return self._metadata.ledger(partition)

    def partitions_without_ledger(self) -> int:
        """Tiered partitions here whose remote log metadata is not read yet: nothing of them is copied, expired or read
        from the tier meanwhile.
        """
        tiered = [partition for partition, hosted in self._hosted.items() if hosted.task is not None]
        return sum(self._metadata.ledger(partition) is None for partition in tiered)

    def copy_lag(self, partition: TopicIdPartition) -> CopyLag:
        """As of the last time that the partition was looked at; nothing on a follower."""
        hosted = self._hosted.get(partition)
        return hosted.task.lag if hosted is not None and hosted.task is not None else CopyLag()

    def errors(self) -> dict[TopicPartition, str]:
        """Return why work in the tier failed last, of the partitions where it has not succeeded since."""
        return {
            partition.topic_partition: "; ".join(f"{what}: {error}" for what, error in hosted.task.errors.items())
            for partition, hosted in self._hosted.items()
            if hosted.task is not None and hosted.task.errors
        }

    def _host(self, partition: TopicIdPartition, log: PartitionLog, leadership: Leadership | None) -> None:
        before = self._hosted.get(partition)
        if before is not None:
            self._end(before)
        hosted = self._hosted[partition] = _Hosted(log, leadership, before.turn if before else asyncio.Lock())
        self._adjust(partition, hosted)

    def _adjust(self, partition: TopicIdPartition, hosted: _Hosted) -> None:
        mode = TierPolicy.of(partition.topic, hosted.log.state.config).mode
        if mode is TierMode.UNTIERED:
            if hosted.task is not None:
                self._end(hosted)
                self._own(self._forget_ledger(partition, hosted), f"end of the tier of {partition}")
        elif hosted.task is not None:
            hosted.task.wake()
        else:
            hosted.task = PartitionTask(partition, hosted.log, hosted.leadership, self._services)
            hosted.running = self._own(_in_turn(hosted.task, hosted.turn), f"tier of {partition}")

    def _end(self, hosted: _Hosted) -> None:
        if hosted.running is not None:
            hosted.running.cancel()
        hosted.task = hosted.running = None

    async def _forget_ledger(self, partition: TopicIdPartition, hosted: _Hosted) -> None:
        """Forget the ledger of a partition that is no longer tiered, unless it is tiered again by now."""
        async with hosted.turn:
            if hosted.task is None and partition not in self._deleting:
                await self._metadata.unassign([partition])

    def _own(self, work: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._owned.add(task)
        task.add_done_callback(self._disown)
        return task

    def _disown(self, task: asyncio.Task[None]) -> None:
        self._owned.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error(
                "internal error in %s; it stops until the broker is restarted", task.get_name(), exc_info=error
            )

    async def _delete_remote_partition(self, partition: TopicIdPartition, delay_ms: float) -> None:
        """Try until it is done. The first failure is a warning; those that follow may last for hours, and are INFO."""
        await asyncio.sleep(delay_ms / 1000)
        level = logging.WARNING
        backoff = self._services.config.backoff(self._services.random)
        while True:
            try:
                await self._metadata.assign([partition])
                ledger = await self._metadata.wait_newer(partition, -1)
                await self._services.deleter.delete_partition(partition, ledger)
                await self._deletions.discard(partition)
                break
            except OUTSIDE as error:
                raise_if_cancelled()
                self.counters.errors["partition deletion"] += 1
                delay_ms = backoff.next_delay_ms()
                logger.log(
                    level, "%s: deletion from the tier failed, retrying in %.0f ms: %s", partition, delay_ms, error
                )
                level = logging.INFO
                await asyncio.sleep(delay_ms / 1000)
        self._deleting.discard(partition)
        if partition not in self._hosted:
            await self._metadata.unassign([partition])


async def _in_turn(task: PartitionTask, turn: asyncio.Lock) -> None:
    """After the task before it has ended: what that one uploads must not appear behind this one's back."""
    async with turn:
        await task.run()
