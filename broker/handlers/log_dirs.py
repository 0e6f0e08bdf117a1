"""DescribeLogDirs: what is stored in this broker's log directories. AlterReplicaLogDirs: it shall be in another one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Final

from ...limited_log import LimitedLog
from ...log import PartitionLog
from ...log.disk import Disk, DiskSpace
from ...log.keeper import LogDirectory, LogManager
from ...protocol import NOT_THIN, NOT_WARMED, ErrorCode, KafkaError, TopicPartition
from ...protocol.messages.cluster import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ...protocol.net import SLICED_ELEMENTS_MIN, RequestContext, Slices
from ..replicas.warmer import WarmingProgress

INVALID_OFFSET_LAG: Final = -1
TIER_ERROR_MAX: Final = 200
"""Characters of a partition's error: all partitions may have one at a time."""
MOVE_WEIGHT: Final = 10
"""What the beginning of a move costs on the loop, in elements of `pace`."""
MOVES_FREE: Final = 50
UNKNOWN_SPACE: Final = DiskSpace(-1, -1)
"""The answer while the disk does not respond."""

_log = LimitedLog(logging.getLogger(__name__))


def cannot_move(name: TopicPartition, _: str) -> None:
    """Raise an error: no replica can move."""
    raise KafkaError(ErrorCode.log_dir_not_found, f"{name} cannot be moved here")


class LogDirHandler:
    """Sizes in bytes of what is local; a partition's lag is its distance to its high watermark, that of a future log
    its distance to the end of the current one.

    `warming` returns what is being filled from the tier now, `warm_in_ms` the thin replicas with the longest time until
    each is warm, `out_of_service` the replicas whose log or whose full disk does not let them serve, and `tier_errors`
    why work in the tier failed last.
    `move` begins to move a replica to the log directory of a path, and raises KafkaError.
    """

    def __init__(
        self,
        logs: LogManager,
        disk: Disk,
        *,
        warming: Callable[[], Mapping[TopicPartition, WarmingProgress]] = dict,
        warm_in_ms: Callable[[], Mapping[TopicPartition, int]] = dict,
        out_of_service: Callable[[], Collection[TopicPartition]] = tuple,
        tier_errors: Callable[[], Mapping[TopicPartition, str]] = dict,
        move: Callable[[TopicPartition, str], None] = cannot_move,
    ) -> None:
        self._logs = logs
        self._disk = disk
        self._warming = warming
        self._warm_in_ms = warm_in_ms
        self._out_of_service = out_of_service
        self._tier_errors = tier_errors
        self._move = move

    async def alter_replica_log_dirs(
        self, _: RequestContext, request: AlterReplicaLogDirsRequest
    ) -> AlterReplicaLogDirsResponse:
        """Begin the moves; DescribeLogDirs shows how far each is."""
        results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
        wanted = (
            (TopicPartition(topic.name, number), directory.path)
            for directory in request.dirs
            for topic in directory.topics
            for number in topic.partitions
        )
        async for some in Slices(wanted, weight=MOVE_WEIGHT, free=MOVES_FREE):
            for name, path in some:
                error = self._begin_move(name, path)
                if error is not None:
                    _log.warning(path, "%s is not moved to %s: %s", name, path, error.message)
                code = ErrorCode.none if error is None else error.code
                result = AlterReplicaLogDirPartitionResult(partition_index=name.partition, error_code=code)
                results.setdefault(name.topic, []).append(result)
        topics: list[AlterReplicaLogDirTopicResult] = []
        async for names in Slices(list(results), free=MOVES_FREE):
            topics += [
                AlterReplicaLogDirTopicResult(topic_name=name, partitions=tuple(results[name])) for name in names
            ]
        return AlterReplicaLogDirsResponse(results=tuple(topics))

    def _begin_move(self, name: TopicPartition, path: str) -> KafkaError | None:
        """Return why not, if it is refused."""
        try:
            self._move(name, path)
        except KafkaError as error:
            return error
        return None

    async def describe_log_dirs(self, _: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
        """All partitions for null, else those asked for that are here."""
        wanted: set[TopicPartition] | None = None
        if request.topics is not None:
            wanted = set()
            asked = (TopicPartition(topic.topic, number) for topic in request.topics for number in topic.partitions)
            async for some in Slices(asked, free=SLICED_ELEMENTS_MIN):
                wanted.update(some)
        results = [await self._directory(directory, wanted) for directory in self._logs.directories]
        return DescribeLogDirsResponse(results=tuple(results))

    async def _directory(self, directory: LogDirectory, wanted: set[TopicPartition] | None) -> DescribeLogDirsResult:
        topics: dict[str, list[DescribeLogDirsPartition]] = {}
        warming, warm_in_ms, out_of_service = self._warming(), self._warm_in_ms(), self._out_of_service()
        tier_errors = self._tier_errors()
        for name in sorted(directory.futures):
            if wanted is None or name in wanted:
                topics.setdefault(name.topic, []).append(self._future(name, directory.futures[name]))
        for name in sorted({*directory.logs, *directory.failures}):
            if wanted is None or name in wanted:
                log = directory.logs.get(name)
                topics.setdefault(name.topic, []).append(
                    DescribeLogDirsPartition(
                        partition_index=name.partition,
                        partition_size=0 if log is None else log.state.segments.size_bytes,
                        offset_lag=0 if log is None else max(0, log.state.high_watermark - log.state.log_end_offset),
                        is_future_key=False,
                        warming_bytes_left=warming[name].bytes_left if name in warming else NOT_WARMED,
                        warming_bytes_per_second=warming[name].bytes_per_second if name in warming else 0,
                        warm_in_ms=warm_in_ms.get(name, NOT_THIN),
                        is_out_of_service=log is None or name in out_of_service,
                        tier_error=tier_errors.get(name, "")[:TIER_ERROR_MAX],
                    )
                )
        for topic, partitions in topics.items():
            topics[topic] = sorted(partitions, key=lambda partition: partition.partition_index)
        try:
            space = await self._disk.space(directory.path)
        except OSError:
            space = UNKNOWN_SPACE
        return DescribeLogDirsResult(
            error_code=ErrorCode.none if directory.offline is None else ErrorCode.kafka_storage_error,
            log_dir=str(directory.path.absolute()),  # as Kafka has it: plans name it so
            topics=tuple(
                DescribeLogDirsTopic(name=topic, partitions=tuple(parts)) for topic, parts in sorted(topics.items())
            ),
            total_bytes=space.total_bytes,
            usable_bytes=space.usable_bytes,
        )

    def _future(self, name: TopicPartition, future: PartitionLog) -> DescribeLogDirsPartition:
        current = next((directory.logs[name] for directory in self._logs.directories if name in directory.logs), None)
        return DescribeLogDirsPartition(
            partition_index=name.partition,
            partition_size=future.state.segments.size_bytes,
            offset_lag=INVALID_OFFSET_LAG
            if current is None
            else current.state.log_end_offset - future.state.log_end_offset,
            is_future_key=True,
            warming_bytes_left=NOT_WARMED,
            warming_bytes_per_second=0,
            warm_in_ms=NOT_THIN,
            is_out_of_service=False,
        )
