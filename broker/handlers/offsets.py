"""ListOffsets and OffsetForLeaderEpoch, answered by leaders, and special offsets by any replica that is asked as such.

| timestamp | since | answer |
|---|---|---|
| -1 -2 -4 -5 -6 | `fetcher.core.leader_offsets` | special offsets |
| -3 | v7 | the record with the largest timestamp, in the tier or here |
| >= 0 | v1 | the first record not older: the lineage's remote segments are searched first, then the local log |
| any other | - | UNSUPPORTED_VERSION |

Replica id -2 (Kafka's debugging consumer) asks the replica that the broker has, whatever its role: it gets special
offsets, the latest one being the end of its log. What is in the tier only a leader knows: -1 from a follower.

A record at or above what the asker may fetch is not returned (-1), or OFFSET_NOT_AVAILABLE while a new leader does not
know yet how far it is committed (KIP-207).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from ...fetcher.core import (
    MINIMUM_VERSIONS,
    FetchIsolation,
    LeaderView,
    Refuse,
    check_leader_epoch,
    end_offset_for_leader_epoch,
    special_offset,
)
from ...light_dataclass import dataclass
from ...log import PartitionLog, TimestampAndOffset
from ...protocol import ErrorCode, KafkaError, TopicIdPartition
from ...protocol.fetch import READ_COMMITTED
from ...protocol.messages.offsets import (
    EpochEndOffset,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from ...protocol.net import RequestContext
from ...remote.core import RemoteLogLedger
from ..replicas.hosted_partitions import HostedPartitions
from ..replicas.leadership import Leadership, view_of
from ..replicas.partition import Partition

MAX_TIMESTAMP: Final = -3
MAX_TIMESTAMP_SINCE: Final = 7
UNKNOWN: Final = -1
DEBUGGING: Final = -2
"""The replica id of a reader that asks a replica, not the leader."""


class OffsetsByTime(Protocol):
    """Searches over a partition's whole history; `rlm.times.OffsetsByTime`."""

    async def offset_for_timestamp(
        self, partition: TopicIdPartition, log: PartitionLog, timestamp_ms: int
    ) -> TimestampAndOffset | None: ...

    async def max_timestamp_offset(
        self, partition: TopicIdPartition, log: PartitionLog
    ) -> TimestampAndOffset | None: ...


_Found = TimestampAndOffset | None
_LocalSearch = Callable[[], Awaitable[_Found]]
_SearchAnywhere = Callable[[OffsetsByTime], Awaitable[_Found]]


@dataclass(frozen=True, slots=True)
class RemoteOffsets:
    """`ledger` gives what is known of a partition's remote segments, None until that has been read."""

    ledger: Callable[[TopicIdPartition], RemoteLogLedger | None]
    by_time: OffsetsByTime


@dataclass(frozen=True, slots=True)
class _Asker:
    """Who asks: isolation, version, by when an answer is of use, and whether any replica may answer."""

    isolation: FetchIsolation
    version: int
    timeout_s: float
    asks_any_replica: bool


class OffsetHandlers:
    """`remote` is None where there is no tier; `search_timeout_ms` bounds searches that need it."""

    def __init__(self, hosted: HostedPartitions, remote: RemoteOffsets | None, *, search_timeout_ms: int) -> None:
        self._hosted = hosted
        self._remote = remote
        self._search_timeout_ms = search_timeout_ms

    async def list_offsets(self, context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
        asker = self._asker(request, context.api_version)
        async with asyncio.TaskGroup() as group:
            answers = [
                (topic.name, [group.create_task(self._list(topic.name, wanted, asker)) for wanted in topic.partitions])
                for topic in request.topics
            ]
        topics = [
            ListOffsetsTopicResponse(name=name, partitions=tuple(task.result() for task in tasks))
            for name, tasks in answers
        ]
        return ListOffsetsResponse(topics=tuple(topics))

    def _asker(self, request: ListOffsetsRequest, version: int) -> _Asker:
        isolation = FetchIsolation.HIGH_WATERMARK
        asks_any_replica = request.replica_id == DEBUGGING
        if request.replica_id >= 0 or asks_any_replica:
            isolation = FetchIsolation.LOG_END
        elif request.isolation_level == READ_COMMITTED:
            isolation = FetchIsolation.TXN_COMMITTED
        asked_ms = request.timeout_ms
        timeout_ms = min(asked_ms, self._search_timeout_ms) if asked_ms > 0 else self._search_timeout_ms
        return _Asker(isolation, version, timeout_ms / 1000, asks_any_replica)

    async def _list(self, topic: str, wanted: ListOffsetsPartition, asker: _Asker) -> ListOffsetsPartitionResponse:
        number = wanted.partition_index
        try:
            partition = self._hosted.find(topic, number)
            if asker.asks_any_replica and partition.leadership is None and wanted.timestamp in MINIMUM_VERSIONS:
                return self._of_follower(partition, wanted.timestamp, asker)
            leadership = partition.leader()
            _check(check_leader_epoch(leadership.leader_epoch, wanted.current_leader_epoch))
            if wanted.timestamp in MINIMUM_VERSIONS:
                return self._special(partition, leadership, wanted.timestamp, asker)
            found = await self._search(partition, leadership, wanted.timestamp, asker)
        except KafkaError as error:
            return ListOffsetsPartitionResponse(partition_index=number, error_code=error.code)
        except TimeoutError:
            return ListOffsetsPartitionResponse(partition_index=number, error_code=ErrorCode.request_timed_out)
        except OSError:
            return ListOffsetsPartitionResponse(partition_index=number, error_code=ErrorCode.kafka_storage_error)
        if found is None:
            return ListOffsetsPartitionResponse(partition_index=number)
        return ListOffsetsPartitionResponse(
            partition_index=number, timestamp=found.timestamp, offset=found.offset, leader_epoch=found.leader_epoch
        )

    def _special(
        self, partition: Partition, leadership: Leadership, timestamp: int, asker: _Asker
    ) -> ListOffsetsPartitionResponse:
        ledger = None if self._remote is None else self._remote.ledger(partition.partition)
        return self._answer(partition, leadership.view_now(), ledger, timestamp, asker)

    def _of_follower(self, partition: Partition, timestamp: int, asker: _Asker) -> ListOffsetsPartitionResponse:
        """Answer out of the log alone: a follower follows no remote log metadata of its own."""
        state = partition.log.state
        if state.failure is not None:
            raise KafkaError(ErrorCode.kafka_storage_error, state.failure)
        view = view_of(partition.leader_epoch, state.epochs, state.offsets, epoch_start_offset=0, followers={})
        return self._answer(partition, view, None, timestamp, asker)

    def _answer(
        self, partition: Partition, view: LeaderView, ledger: RemoteLogLedger | None, timestamp: int, asker: _Asker
    ) -> ListOffsetsPartitionResponse:
        answer = special_offset(view, ledger, timestamp, asker.isolation, asker.version)
        if isinstance(answer, Refuse):
            raise KafkaError(answer.error, answer.reason)
        return ListOffsetsPartitionResponse(
            partition_index=partition.partition.partition, offset=answer.offset, leader_epoch=answer.leader_epoch
        )

    async def _search(
        self, partition: Partition, leadership: Leadership, timestamp: int, asker: _Asker
    ) -> TimestampAndOffset | None:
        async with asyncio.timeout(asker.timeout_s):
            if timestamp >= 0:
                found = await self._first_not_older(partition, timestamp)
            elif timestamp == MAX_TIMESTAMP and asker.version >= MAX_TIMESTAMP_SINCE:
                found = await self._largest(partition)
            else:
                raise KafkaError(
                    ErrorCode.unsupported_version, f"timestamp {timestamp} in ListOffsets v{asker.version}"
                )
        view = leadership.view_now()
        if found is not None and found.offset < view.end_visible_to(asker.isolation):
            return found
        _check(_not_available(view, asker))
        return None

    async def _first_not_older(self, partition: Partition, timestamp_ms: int) -> TimestampAndOffset | None:
        log = partition.log
        return await self._search_all(
            log,
            lambda: log.offset_for_timestamp(timestamp_ms),
            lambda by_time: by_time.offset_for_timestamp(partition.partition, log, timestamp_ms),
        )

    async def _largest(self, partition: Partition) -> TimestampAndOffset | None:
        log = partition.log
        return await self._search_all(
            log, log.max_timestamp_offset, lambda by_time: by_time.max_timestamp_offset(partition.partition, log)
        )

    async def _search_all(self, log: PartitionLog, local: _LocalSearch, anywhere: _SearchAnywhere) -> _Found:
        """Locally, if all is local and local retention has not taken any of it meanwhile."""
        if self._remote is None or not _is_partly_remote(log):
            found = await local()
            if self._remote is None or not _is_partly_remote(log):
                return found
        return await anywhere(self._remote.by_time)

    # -- OffsetForLeaderEpoch -----------------------------------------------------------------------------------------

    async def offset_for_leader_epoch(
        self, _: RequestContext, request: OffsetForLeaderEpochRequest
    ) -> OffsetForLeaderEpochResponse:
        topics = [
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=tuple(self._epoch_end(topic.topic, each) for each in topic.partitions)
            )
            for topic in request.topics
        ]
        return OffsetForLeaderEpochResponse(topics=tuple(topics))

    def _epoch_end(self, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
        try:
            view = self._hosted.find(topic, wanted.partition).leader().view_now()
            answer = end_offset_for_leader_epoch(view, wanted.current_leader_epoch, wanted.leader_epoch)
            if isinstance(answer, Refuse):
                raise KafkaError(answer.error, answer.reason)
        except KafkaError as error:
            return EpochEndOffset(partition=wanted.partition, error_code=error.code)
        return EpochEndOffset(partition=wanted.partition, leader_epoch=answer.epoch, end_offset=answer.end_offset)


def _is_partly_remote(log: PartitionLog) -> bool:
    return log.state.offsets.local_log_start_offset > log.state.log_start_offset


def _check(refusal: Refuse | None) -> None:
    if refusal is not None:
        raise KafkaError(refusal.error, refusal.reason)


def _not_available(view: LeaderView, asker: _Asker) -> Refuse | None:
    if asker.isolation is FetchIsolation.LOG_END or view.high_watermark >= view.epoch_start_offset:
        return None
    code = ErrorCode.offset_not_available if asker.version >= 5 else ErrorCode.leader_not_available
    return Refuse(code, "the high watermark is below the start of this leader's epoch")
