"""A `FollowerPartition` in memory over a `ModelLog`; what it was asked to do is written down in `effects`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tierfetch.log.core import LeaderEpochCache
from tierfetch.log.keeper.side_directories import AdoptedState
from tierfetch.log.replica.state import LogOffsets
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.records import iter_batches
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.tests.fetcher.model_log import ModelLog
from tierfetch.tests.fetcher.model_tier import PARTITION


class ModelFollower:
    """`before_effect` is awaited before each effect: raise there, or hold it."""

    def __init__(
        self, *, log: ModelLog | None = None, partition: TopicIdPartition = PARTITION, leader_epoch: int = 0
    ) -> None:
        self.log = log or ModelLog()
        self.topic_id_partition = partition
        self.leader_epoch = leader_epoch
        self.is_tiered = True
        self.is_compacted = False
        self.is_never_in_isr = False
        self.has_failed = False
        self.has_room = True
        self.producer_snapshot: bytes | None = None
        self.effects: list[str] = []
        self.before_effect: Callable[[str], Awaitable[None] | None] = lambda effect: None

    @property
    def offsets(self) -> LogOffsets:
        log = self.log
        start, end = log.log_start_offset, log.log_end_offset
        return LogOffsets(
            start, max(log.local_log_start_offset, start), None, log.high_watermark, log.high_watermark, end, end, end
        )

    @property
    def epochs(self) -> LeaderEpochCache:
        return self.log.epochs

    async def append(self, records: memoryview) -> None:
        headers = [header for _, header in iter_batches(records)]
        await self._effect(f"append {headers[0].base_offset}-{headers[-1].last_offset}")
        for header in headers:
            end_offset = self.offsets.log_end_offset
            if header.base_offset != end_offset:
                raise KafkaError(ErrorCode.invalid_record, f"{header.base_offset} where {end_offset} is next")
            self.log.append(header.partition_leader_epoch)

    async def truncate_to(self, offset: int) -> None:
        assert offset >= self.offsets.local_log_start_offset, (offset, self.offsets.local_log_start_offset)
        await self._effect(f"truncate to {offset}")
        self.log.truncate_to(offset)

    async def start_at(self, offset: int) -> None:
        await self._effect(f"start at {offset}")
        self._replace(ModelLog(log_start_offset=offset, local_log_start_offset=offset, high_watermark=offset))

    async def adopt(self, state: AdoptedState) -> None:
        await self._effect(f"adopt [{state.log_start_offset}, {state.start_offset})")
        log = ModelLog(
            epochs=LeaderEpochCache(state.epochs),
            log_start_offset=state.log_start_offset,
            local_log_start_offset=state.start_offset,
            high_watermark=state.start_offset,
        )
        for offset in range(state.log_start_offset, state.start_offset):
            epoch = log.epochs.epoch_for_offset(offset)
            assert epoch is not None, f"the adopted epochs do not cover {offset}"
            log.records.append(epoch)
        self._replace(log)
        self.producer_snapshot = state.producer_snapshot
        self.is_never_in_isr = True

    def update_high_watermark(self, offset: int) -> None:
        self.log.high_watermark = max(self.log.high_watermark, offset)

    async def follow_log_start_offset(self, offset: int) -> None:
        assert offset <= self.offsets.log_end_offset, (offset, self.offsets.log_end_offset)
        if offset <= self.offsets.log_start_offset:
            return
        await self._effect(f"log start {offset}")
        del self.log.records[: offset - self.log.log_start_offset]
        self.log.log_start_offset = offset
        self.update_high_watermark(offset)
        self.log.epochs.truncate_from_start(offset)

    def _replace(self, log: ModelLog) -> None:
        self.log = log

    async def _effect(self, effect: str) -> None:
        self.effects.append(effect)
        held = self.before_effect(effect)
        if held is not None:
            await held
        await asyncio.sleep(0)
