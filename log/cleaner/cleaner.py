"""Log compaction of a node: one log after another, the dirtiest first.

    every log.cleaner.backoff.ms: which compacted log is dirty enough? -> clean it -> look again at once -> ...

* A log is looked at by its segments' sizes alone; nothing is read of one that is clean enough.
* A log that could not be cleaned is left alone for `RETRY_S`, and said: the others go on.
* How far each log is clean is in the directory's `cleaner-offset-checkpoint`, which may be older than the truth.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ...protocol.errors import OUTSIDE
from ...protocol.topics import TopicPartition
from ..core.config import INT64_MAX
from ..partition_log import PartitionLog
from .cleaning import Throttle
from .core.plan import Filth, is_worth_cleaning

RETRY_S: Final = 60.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSettings:
    """`log.cleaner.*` of the node, with Kafka's defaults."""

    enabled: bool = True
    backoff_ms: int = 15_000
    dedupe_buffer_bytes: int = 128 * 1024 * 1024
    io_bytes_per_second_max: float = float("inf")


class LogCleaner:
    """`logs` gives the open logs of the node. `run` is a coroutine for a task of the owner's."""

    def __init__(self, logs: Callable[[], Mapping[TopicPartition, PartitionLog]], settings: CleanerSettings) -> None:
        self._logs = logs
        self._settings = settings
        self._throttle = Throttle(settings.io_bytes_per_second_max)
        self.cleaned_bytes = 0
        """What was gone through so far, as large as it was before."""
        self.failures = 0
        self._left_alone: dict[TopicPartition, float] = {}
        """Until when, on the loop's clock."""

    async def run(self) -> None:
        while self._settings.enabled:
            if not await self.clean_dirtiest():
                await asyncio.sleep(self._settings.backoff_ms / 1000)

    async def clean_dirtiest(self) -> bool:
        """Clean one log, if one is worth it; whether one was tried."""
        log = await self._dirtiest()
        if log is None:
            return False
        try:
            cleaned = await log.clean(self._settings.dedupe_buffer_bytes, self._throttle)
        except OUTSIDE as error:
            self.failures += 1
            logger.error("%s could not be cleaned: %s", log.topic_partition, error)
            self._left_alone[log.topic_partition] = asyncio.get_running_loop().time() + RETRY_S
        else:
            self.cleaned_bytes += cleaned.before_bytes
            logger.info(
                "%s: cleaned up to offset %d, %d bytes became %d",
                log.topic_partition,
                cleaned.clean_end_offset,
                cleaned.before_bytes,
                cleaned.after_bytes,
            )
        return True

    async def _dirtiest(self) -> PartitionLog | None:
        now = asyncio.get_running_loop().time()
        self._left_alone = {partition: until for partition, until in self._left_alone.items() if until > now}
        found: list[tuple[float, PartitionLog]] = []
        for partition, log in self._logs().items():
            if not log.config.is_compacted or log.failure is not None or partition in self._left_alone:
                continue
            filth = log.filth()
            if await self._is_worth(log, filth):
                found.append((filth.ratio, log))
        return max(found, key=lambda each: each[0])[1] if found else None

    async def _is_worth(self, log: PartitionLog, filth: Filth) -> bool:
        oldest_ms = None
        if filth.dirty_bytes and log.config.max_compaction_lag_ms < INT64_MAX:
            try:
                oldest_ms = await log.oldest_dirty_ms(filth)
            except OUTSIDE as error:
                logger.warning("%s: %s", log.topic_partition, error)
        return is_worth_cleaning(filth, log.config, oldest_ms=oldest_ms, now_ms=log.now_ms())
