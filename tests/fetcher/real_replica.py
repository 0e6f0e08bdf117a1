"""Real logs on a disk in memory: a leader behind the endpoint port, a replica behind the follower's port."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from pathlib import Path
from random import Random

from tierfetch.fetcher.core.epoch_fetch import (
    DivergingEpoch,
    FetchIsolation,
    FetchPosition,
    LeaderView,
    Refuse,
    Serve,
    end_offset_for_leader_epoch,
    validate_fetch,
)
from tierfetch.fetcher.core.leader_offsets import special_offset
from tierfetch.fetcher.core.partition_fetch import FetchedPartition, FetchLimits, PartitionToFetch
from tierfetch.fetcher.ports import Arrived, Begins, pass_over
from tierfetch.log.core import AppendOrigin, EpochEnd, LeaderEpochCache, LogConfig
from tierfetch.log.disk import Disk
from tierfetch.log.keeper.log_directory import LogServices
from tierfetch.log.keeper.manager import LogManager
from tierfetch.log.keeper.replace_replica import adopt
from tierfetch.log.keeper.side_directories import AdoptedState
from tierfetch.log.partition_log import LogAppendInfo, PartitionLog
from tierfetch.log.replica.state import LogOffsets
from tierfetch.log.segment.segment import LogSegment
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.records import Record, build_batch
from tierfetch.protocol.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.remote import IndexType, LogSegmentData
from tierfetch.remote.core import OffsetAndEpoch, RemoteLogSegmentMetadata
from tierfetch.tests.fetcher.model_tier import PARTITION, ModelTier, segment

DIRECTORY = Path("/data")
NOW_MS = 1_700_000_000_000
FOLLOWER_ID = 2


class NoLock:
    """A directory in memory needs none."""

    def release(self) -> None:
        """Nothing is held."""


def manager_on(disk: Disk, node_id: int) -> LogManager:
    config = LogConfig(remote_storage_enable=True, index_interval_bytes=1)
    return LogManager(
        [DIRECTORY],
        LogServices(
            disk=disk,
            rng=Random(node_id),
            now_ms=lambda: NOW_MS,
            config_of=lambda topic: config,
            lock=lambda path: NoLock(),
        ),
        cluster_id="cluster",
        node_id=node_id,
    )


class RealLeader:
    """A led `PartitionLog` as a `LeaderEndpoint`; everything in it counts as committed."""

    def __init__(self, log: PartitionLog, tier: ModelTier) -> None:
        self.log = log
        self.tier = tier
        self.leader_epoch = -1
        self.calls: list[str] = []

    @property
    def broker_id(self) -> int:
        return 1

    async def lead(self, leader_epoch: int) -> None:
        self.leader_epoch = leader_epoch
        await self.log.assign_epoch(leader_epoch)

    async def append(
        self, value: bytes, *, producer_id: int, sequence: int, is_transactional: bool = False
    ) -> LogAppendInfo:
        """One record of an idempotent producer in a batch of its own."""
        batch = build_batch(
            [Record(0, NOW_MS, None, value)],
            base_offset=0,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
        return await self._append(batch, AppendOrigin.CLIENT)

    async def abort(self, producer_id: int) -> LogAppendInfo:
        """The marker that ends the producer's transaction."""
        marker = EndTransactionMarker(ControlType.ABORT, 0)
        batch = build_end_transaction_batch(
            marker, base_offset=0, timestamp_ms=NOW_MS, producer_id=producer_id, producer_epoch=0
        )
        return await self._append(batch, AppendOrigin.COORDINATOR)

    async def _append(self, batch: bytes, origin: AppendOrigin) -> LogAppendInfo:
        info = await self.log.append_as_leader(
            bytearray(batch), leader_epoch=self.leader_epoch, now_ms=NOW_MS, origin=origin
        )
        self.log.update_high_watermark(self.log.state.log_end_offset)
        return info

    async def upload(self, closed: LogSegment) -> None:
        """Copy a closed segment into the tier as a leader's log manager does."""
        last_offset = closed.next_offset - 1
        held = self.log.state.epochs.range(closed.base_offset, last_offset + 1)
        epochs = [(entry.epoch, entry.start_offset) for entry in held]
        metadata: RemoteLogSegmentMetadata = segment(closed.base_offset, last_offset, *epochs, size=closed.size_bytes)
        with await self.log.segment_files(closed) as files:
            indexes = {kind: files.files[kind.value] for kind in IndexType if kind.value in files.files}
            await self.tier.storage.copy_log_segment_data(metadata, LogSegmentData(files.files["log"], indexes))
        self.tier.finish(metadata)

    async def upload_closed_segments(self) -> None:
        for closed in self.log.state.segments:
            if not closed.is_active:
                await self.upload(closed)

    def view(self) -> LeaderView:
        log = self.log
        return LeaderView(
            leader_epoch=self.leader_epoch,
            epochs=log.state.epochs,
            log_start_offset=log.state.log_start_offset,
            local_log_start_offset=log.state.offsets.local_log_start_offset,
            last_stable_offset=log.state.offsets.last_stable_offset,
            high_watermark=log.state.high_watermark,
            log_end_offset=log.state.log_end_offset,
            epoch_start_offset=0,
            followers={FOLLOWER_ID: -1},
        )

    async def fetch(
        self,
        partitions: Mapping[TopicIdPartition, PartitionToFetch],
        touched: Collection[TopicIdPartition],
        limits: FetchLimits,
        arrived: Arrived,
        begins: Begins = pass_over,
    ) -> Mapping[TopicIdPartition, FetchedPartition]:
        (asked,) = partitions.values()
        self.calls.append(f"fetch {asked.fetch_offset}")
        await asyncio.sleep(0.001 if asked.fetch_offset == self.log.state.log_end_offset else 0)
        view = self.view()
        position = FetchPosition(
            fetch_offset=asked.fetch_offset,
            current_leader_epoch=asked.current_leader_epoch,
            last_fetched_epoch=asked.last_fetched_epoch,
            replica_id=FOLLOWER_ID,
        )
        match validate_fetch(view, position):
            case Refuse(error):
                answer = FetchedPartition(error=error, log_start_offset=view.log_start_offset)
            case DivergingEpoch(epoch, end_offset):
                answer = FetchedPartition(error=ErrorCode.none, diverging_epoch=EpochEnd(epoch, end_offset))
            case decision:
                records = await self._read(asked, decision.max_offset) if isinstance(decision, Serve) else b""
                answer = FetchedPartition(
                    error=ErrorCode.none,
                    high_watermark=view.high_watermark,
                    log_start_offset=view.log_start_offset,
                    records=memoryview(records),
                )
        return {asked.partition: answer}

    async def list_offset(self, partition: TopicIdPartition, leader_epoch: int, timestamp: int) -> OffsetAndEpoch:
        self.calls.append(f"list-offset {timestamp}")
        await asyncio.sleep(0)
        answer = special_offset(self.view(), self.tier.ledger(), timestamp, FetchIsolation.LOG_END, 11)
        assert isinstance(answer, OffsetAndEpoch), answer
        return answer

    async def end_offset_for_leader_epoch(self, partition: TopicIdPartition, leader_epoch: int, epoch: int) -> EpochEnd:
        self.calls.append(f"end-of-epoch {epoch}")
        await asyncio.sleep(0)
        answer = end_offset_for_leader_epoch(self.view(), leader_epoch, epoch)
        assert isinstance(answer, EpochEnd), answer
        return answer

    async def close(self) -> None:
        """Nothing is open."""

    async def _read(self, asked: PartitionToFetch, max_offset: int) -> bytes:
        with await self.log.read(asked.fetch_offset, max_bytes=asked.max_bytes, max_offset=max_offset) as piece:
            return await piece.read()


class RealReplica:
    """A `FollowerPartition` over a log manager: a log that has failed is opened anew before it is used again."""

    def __init__(self, logs: LogManager, leader_epoch: int) -> None:
        self.logs = logs
        self.leader_epoch = leader_epoch
        self.topic_id_partition = PARTITION
        self.is_tiered = True
        self.is_compacted = False
        self.is_never_in_isr = False
        self.has_failed = False
        self.has_room = True
        self._last_log: PartitionLog | None = None

    @property
    def log(self) -> PartitionLog:
        """The one that is open, or was last."""
        self._last_log = self.logs.logs.get(PARTITION.topic_partition, self._last_log)
        assert self._last_log is not None
        return self._last_log

    @property
    def offsets(self) -> LogOffsets:
        return self.log.state.offsets

    @property
    def epochs(self) -> LeaderEpochCache:
        return self.log.state.epochs

    async def append(self, records: memoryview) -> None:
        await (await self._usable_log()).append_as_follower(records)

    async def truncate_to(self, offset: int) -> None:
        await (await self._usable_log()).truncate_to(offset)

    async def start_at(self, offset: int) -> None:
        await (await self._usable_log()).truncate_fully_and_start_at(offset)

    async def adopt(self, state: AdoptedState) -> None:
        await adopt(self.logs, PARTITION.topic_partition, state)
        self.is_never_in_isr = True

    def update_high_watermark(self, offset: int) -> None:
        self.log.update_high_watermark(offset)

    async def follow_log_start_offset(self, offset: int) -> None:
        await (await self._usable_log()).follow_log_start_offset(offset)

    async def _usable_log(self) -> PartitionLog:
        if self.log.state.failure is not None:
            await self.logs.reopen(PARTITION.topic_partition)
        return self.log


async def local_bytes(log: PartitionLog, start: int) -> bytes:
    """The batches of the local log from `start` on."""
    data = b""
    offset = start
    while offset < log.state.log_end_offset:
        with await log.read(offset, max_bytes=1 << 20, max_offset=log.state.log_end_offset) as piece:
            data += await piece.read()
            offset = piece.end_offset
    return data
