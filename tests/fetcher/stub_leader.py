"""A `LeaderEndpoint` in memory: `ModelLog`s behind the real answering code, and every call written down."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping

from tierfetch.fetcher.core.epoch_fetch import (
    DivergingEpoch,
    FetchIsolation,
    FetchPosition,
    Refuse,
    Serve,
    end_offset_for_leader_epoch,
    validate_fetch,
)
from tierfetch.fetcher.core.leader_offsets import special_offset
from tierfetch.fetcher.core.partition_fetch import FetchedPartition, FetchLimits, PartitionToFetch
from tierfetch.fetcher.ports import Arrived, Begins, pass_over
from tierfetch.log.core import EpochEnd
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.remote.core import OffsetAndEpoch, RemoteLogLedger
from tierfetch.tests.fetcher.model_log import ModelLog, batch_of

FOLLOWER_ID = 2


def no_ledger(partition: TopicIdPartition) -> RemoteLogLedger | None:
    """A leader that has not read the remote log metadata."""
    return None


class StubLeader:
    """`changed()` wakes fetches that wait for data. `before_call` is awaited first in each call: raise, or hold it."""

    def __init__(
        self,
        logs: Mapping[TopicIdPartition, ModelLog],
        ledger: Callable[[TopicIdPartition], RemoteLogLedger | None] = no_ledger,
    ) -> None:
        self.logs = dict(logs)
        self.ledger = ledger
        self.version = 11
        self.calls: list[str] = []
        self.before_call: Callable[[str], object] = lambda call: None
        self.always_diverges_at: EpochEnd | None = None
        self.torn_bytes = 0
        """Missing at the end of every answer with records."""
        self.begins_below = 0
        """How many records before its log start the first batch begins."""
        self.begins_early: Callable[[], Awaitable[object]] | None = None
        """Awaited in each fetch between the first bytes of the response and the rest."""
        self.tells_early = 0
        """So many answers of each fetch."""
        self.after_telling: Callable[[], object] = lambda: None
        self.fetches_answered = 0
        self._news = asyncio.Event()
        for log in self.logs.values():
            log.followers.setdefault(FOLLOWER_ID, -1)

    @property
    def broker_id(self) -> int:
        return 1

    def changed(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def fetch(
        self,
        partitions: Mapping[TopicIdPartition, PartitionToFetch],
        touched: Collection[TopicIdPartition],
        limits: FetchLimits,
        arrived: Arrived,
        begins: Begins = pass_over,
    ) -> Mapping[TopicIdPartition, FetchedPartition]:
        wanted = list(partitions.values())
        asked = " ".join(
            f"{each.partition.topic_partition}@{each.fetch_offset}(epoch {each.last_fetched_epoch})" for each in wanted
        )
        await self._enter(f"fetch {asked}")
        news = self._news
        answers = {each.partition: self._answer(each) for each in wanted}
        if not any(answer.records or answer.error or answer.diverging_epoch for answer in answers.values()):
            try:
                async with asyncio.timeout(limits.wait_max_ms / 1000):
                    await news.wait()
            except TimeoutError:
                pass
            answers = {each.partition: self._answer(each) for each in wanted}
        if self.begins_early is not None:
            begins()
            await self.begins_early()
        for partition in list(answers)[: self.tells_early]:
            arrived(partition, answers[partition])
        await asyncio.sleep(0)
        self.after_telling()
        await asyncio.sleep(0)
        self.fetches_answered += 1
        return answers

    async def list_offset(self, partition: TopicIdPartition, leader_epoch: int, timestamp: int) -> OffsetAndEpoch:
        await self._enter(f"list-offset {timestamp}")
        log = self._led(partition, leader_epoch)
        answer = special_offset(log.view(), self.ledger(partition), timestamp, FetchIsolation.LOG_END, self.version)
        if isinstance(answer, Refuse):
            raise KafkaError(answer.error, answer.reason)
        return answer

    async def end_offset_for_leader_epoch(self, partition: TopicIdPartition, leader_epoch: int, epoch: int) -> EpochEnd:
        await self._enter(f"end-offset-for-epoch {epoch}")
        answer = end_offset_for_leader_epoch(self._led(partition, leader_epoch).view(), leader_epoch, epoch)
        if isinstance(answer, Refuse):
            raise KafkaError(answer.error, answer.reason)
        return answer

    async def close(self) -> None:
        self.calls.append("close")

    async def _enter(self, call: str) -> None:
        self.calls.append(call)
        await asyncio.sleep(0)
        held = self.before_call(call)
        if asyncio.iscoroutine(held):
            await held

    def _led(self, partition: TopicIdPartition, leader_epoch: int) -> ModelLog:
        log = self.logs.get(partition)
        if log is None:
            raise KafkaError(ErrorCode.not_leader_or_follower, f"{partition} is not led here")
        if leader_epoch < log.leader_epoch:
            raise KafkaError(ErrorCode.fenced_leader_epoch, f"leader epoch {leader_epoch} is old")
        return log

    def _answer(self, asked: PartitionToFetch) -> FetchedPartition:
        log = self.logs.get(asked.partition)
        if log is None:
            return FetchedPartition(error=ErrorCode.not_leader_or_follower)
        view = log.view()
        decision = validate_fetch(
            view,
            FetchPosition(
                fetch_offset=asked.fetch_offset,
                current_leader_epoch=asked.current_leader_epoch,
                last_fetched_epoch=asked.last_fetched_epoch,
                replica_id=FOLLOWER_ID,
            ),
        )
        if isinstance(decision, Refuse):
            return FetchedPartition(
                error=decision.error, high_watermark=view.high_watermark, log_start_offset=view.log_start_offset
            )
        records = b""
        if isinstance(decision, Serve):
            records = self._records(log, asked, decision.max_offset)
        diverging = self.always_diverges_at
        if isinstance(decision, DivergingEpoch):
            diverging = EpochEnd(decision.epoch, decision.end_offset)
        return FetchedPartition(
            error=ErrorCode.none,
            high_watermark=view.high_watermark,
            log_start_offset=view.log_start_offset,
            diverging_epoch=diverging,
            records=memoryview(records),
        )

    def _records(self, log: ModelLog, asked: PartitionToFetch, max_offset: int) -> bytes:
        before = b""
        if asked.fetch_offset == log.log_start_offset:
            before = b"".join(batch_of(asked.fetch_offset - back, 0) for back in range(self.begins_below, 0, -1))
        whole = before + log.batches(asked.fetch_offset, max_offset)
        limited = whole[: max(asked.max_bytes, len(log.batches(asked.fetch_offset, asked.fetch_offset + 1)))]
        return limited[: len(limited) - self.torn_bytes]
