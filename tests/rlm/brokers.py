"""Brokers in a test: one replica each over a fake disk, a manager, and a tier and remote log metadata they share.

Nothing here sleeps: `until` lets the loop run until something is so, and fails by its condition if it never becomes so.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from itertools import count, pairwise
from random import Random

from tierfetch.log.core import LogConfig
from tierfetch.log.partition_log import PartitionLog
from tierfetch.protocol.records import iter_batches
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.remote import IndexType
from tierfetch.remote.core import RemoteLogLedger, RemoteLogSegmentMetadata, RemoteLogSegmentState
from tierfetch.rlm.config import RemoteLogManagerConfig
from tierfetch.rlm.manager import RemoteLogManager
from tierfetch.rlm.pending_deletions import PendingDeletions
from tierfetch.tests.fakes.disk import MemoryDisk
from tierfetch.tests.fakes.remote_metadata import InMemoryRemoteLogMetadataManager, SharedMetadata
from tierfetch.tests.fakes.remote_storage import MemoryRemoteStorage
from tierfetch.tests.log.logs import DIRECTORY, TP, Clock, append, open_log, read_bytes

PARTITION = TopicIdPartition(uuid.UUID(int=0x5EED), TP.topic, TP.partition)
WAIT_S_MAX = 5.0
QUICK = RemoteLogManagerConfig(task_retry_backoff_ms=1, task_retry_backoff_max_ms=2, task_interval_ms=20)
"""Retries at once, and looks again soon, for what no event announces."""

TIERED = LogConfig(remote_storage_enable=True, retention_ms=-1)
BATCHES_A_SEGMENT = 3


_starts = count(1)
"""No two processes draw the same segment ids."""


async def until(condition: Callable[[], object]) -> None:
    """Let everything else run until `condition` holds: what is ready first, and after that time too."""
    async with asyncio.timeout(WAIT_S_MAX):
        for turn in count(1):
            if condition():
                return
            await asyncio.sleep(0 if turn % 50 else 0.001)


class Broker:
    """`fill` appends and rolls; each batch has two records and each closed segment three batches."""

    def __init__(
        self,
        broker_id: int,
        storage: MemoryRemoteStorage,
        shared: SharedMetadata,
        *,
        config: RemoteLogManagerConfig = QUICK,
        disk: MemoryDisk | None = None,
        metadata: InMemoryRemoteLogMetadataManager | None = None,
    ) -> None:
        self.id = broker_id
        self.storage = storage
        self.shared = shared
        self.produced = b""
        self.disk = disk or MemoryDisk()
        self.metadata = metadata or InMemoryRemoteLogMetadataManager(shared)
        self.clock = Clock()
        self.epoch = -1
        self.isr_log_start: Callable[[], int] = lambda: self.log.state.log_start_offset
        self.manager = RemoteLogManager(
            storage,
            self.metadata,
            broker_id=broker_id,
            config=config,
            random=Random(next(_starts)),
            wall_clock_ms=self.clock,
            deletions=PendingDeletions(self.disk, DIRECTORY.parent),
        )

    async def open(
        self, log_config: LogConfig = TIERED, *, log_start_offset: int | None = 0, high_watermark: int = 0
    ) -> None:
        await self.metadata.start()
        await self.manager.start()
        self.log: PartitionLog = await open_log(
            self.disk,
            config=log_config,
            clock=self.clock,
            log_start_offset=log_start_offset,
            high_watermark=high_watermark,
        )

    async def close(self) -> None:
        await self.manager.close()
        await self.metadata.close()

    async def lead(self, epoch: int) -> None:
        self.epoch = epoch
        await self.log.assign_epoch(epoch)
        self.manager.lead(PARTITION, self.log, epoch, lambda: self.isr_log_start())

    def follow(self) -> None:
        self.manager.follow(PARTITION, self.log)

    async def fill(self, segments: int, *, commit: bool = True) -> None:
        """Closed segments, and a batch in the active one."""
        for _ in range(segments):
            for _ in range(BATCHES_A_SEGMENT):
                await append(self.log, 2, epoch=self.epoch)
            await self.log.roll()
        await append(self.log, 1, epoch=self.epoch)
        if commit:
            self.log.update_high_watermark(self.log.state.log_end_offset)

    async def replicate_from(self, leader: Broker) -> None:
        """Fetch everything, and roll where the leader rolled."""
        for segment in leader.log.state.segments:
            if self.log.state.log_end_offset < segment.next_offset:
                data = await read_bytes(leader.log, self.log.state.log_end_offset, segment.next_offset)
                await self.log.append_as_follower(data)
            if not segment.is_active and self.log.state.log_end_offset == segment.next_offset:
                await self.log.roll()
        self.log.update_high_watermark(leader.log.state.high_watermark)
        await self.log.increment_log_start_offset(leader.log.state.log_start_offset)

    @property
    def ledger(self) -> RemoteLogLedger:
        ledger = self.manager.ledger(PARTITION)
        assert ledger is not None, "the ledger is not ready"
        return ledger

    @property
    def active_base_offset(self) -> int:
        return self.log.state.segments.active.base_offset

    def tiered_to(self) -> int:
        """End (exclusive) of the finished segments, which must be without a gap from the first one on."""
        ledger = self.manager.ledger(PARTITION)
        segments = ledger.finished() if ledger else []
        for before, after in pairwise(segments):
            assert after.start_offset <= before.end_offset + 1, (before, after)
        return max((segment.end_offset + 1 for segment in segments), default=0)

    def is_all_tiered(self) -> bool:
        return self.tiered_to() == self.active_base_offset


def check_tier(storage: MemoryRemoteStorage, ledger: RemoteLogLedger) -> None:
    """The store holds exactly the finished segments, each with all its parts."""
    assert {state.state for state in ledger.segments()} <= {RemoteLogSegmentState.COPY_SEGMENT_FINISHED}
    finished = {segment.segment_id: segment for segment in ledger.finished()}
    assert {key[0] for key in storage.objects} == set(finished)
    for segment_id, segment in finished.items():
        kinds = {kind for each, kind in storage.objects if each == segment_id}
        assert kinds | {IndexType.TRANSACTION} == {None, *IndexType}
        assert (IndexType.TRANSACTION in kinds) == (not segment.txn_index_empty)
        check_segment(storage, segment)


def check_segment(storage: MemoryRemoteStorage, segment: RemoteLogSegmentMetadata) -> None:
    data = storage.objects[segment.segment_id, None]
    assert len(data) == segment.segment_size_in_bytes
    headers = [header for _, header in iter_batches(data)]
    assert headers[0].base_offset == segment.start_offset
    assert headers[-1].last_offset == segment.end_offset


async def everything(broker: Broker) -> bytes:
    """All batches from the log start on, from the tier and then from the local log."""
    local_start = broker.log.state.offsets.local_log_start_offset
    parts: list[bytes] = []
    offset = broker.log.state.log_start_offset
    while offset < local_start:
        epoch = broker.log.state.epochs.epoch_for_offset(offset)
        assert epoch is not None
        segment = broker.ledger.find(epoch, offset)
        assert segment is not None, f"offset {offset} is in neither tier"
        data = broker.storage.objects[segment.segment_id, None]
        for position, header in iter_batches(data):
            if offset <= header.last_offset and header.base_offset < local_start:
                parts.append(data[position : position + header.size_bytes])
                offset = header.next_offset
    return b"".join(parts) + await read_bytes(broker.log, max(offset, local_start))
