"""DescribeLogDirs: what lies in this broker's log directories."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ...log.disk.port import Disk, DiskSpace
from ...log.keeper.log_directory import LogDirectory
from ...log.keeper.manager import LogManager
from ...protocol.errors import ErrorCode
from ...protocol.extensions import NOT_WARMED
from ...protocol.net.dispatch import RequestContext
from ...protocol.topics import TopicPartition
from ..replicas.warmer import WarmingProgress
from . import Plain

NOT_TOLD: Final = DiskSpace(-1, -1)
"""Where the disk cannot be asked."""


class LogDirHandler:
    """Sizes in bytes of what is local; a partition's lag is how far its log lies behind its high watermark."""

    def __init__(self, logs: LogManager, disk: Disk) -> None:
        self._logs = logs
        self._disk = disk
        self.warming: Callable[[], Mapping[TopicPartition, WarmingProgress]] = dict
        """What is being filled from the tier now."""

    async def describe_log_dirs(self, _: RequestContext, request: Any) -> Plain:
        """All partitions for null, else those asked for that are here."""
        wanted = None
        if request.topics is not None:
            wanted = {TopicPartition(topic.topic, number) for topic in request.topics for number in topic.partitions}
        results = [await self._directory(directory, wanted) for directory in self._logs.directories]
        return {"error_code": ErrorCode.none, "results": results}

    async def _directory(self, directory: LogDirectory, wanted: set[TopicPartition] | None) -> Plain:
        topics: dict[str, list[Plain]] = {}
        warming = self.warming()
        for name, log in sorted(directory.logs.items()):
            if wanted is None or name in wanted:
                topics.setdefault(name.topic, []).append(
                    {
                        "partition_index": name.partition,
                        "partition_size": log.size_bytes,
                        "offset_lag": max(0, log.high_watermark - log.log_end_offset),
                        "is_future_key": False,
                        "warming_bytes_left": warming[name].bytes_left if name in warming else NOT_WARMED,
                        "warming_bytes_per_second": warming[name].bytes_per_second if name in warming else 0,
                    }
                )
        try:
            space = await self._disk.space(directory.path)
        except OSError:
            space = NOT_TOLD
        return {
            "error_code": ErrorCode.none if directory.offline is None else ErrorCode.kafka_storage_error,
            "log_dir": str(directory.path),
            "topics": [{"name": topic, "partitions": parts} for topic, parts in topics.items()],
            "total_bytes": space.total_bytes,
            "usable_bytes": space.usable_bytes,
            "is_cordoned": False,
        }
