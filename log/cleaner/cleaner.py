"""Log compaction of a node: one log after another, the dirtiest first.

    every log.cleaner.backoff.ms: which compacted log is dirty enough? -> clean it -> look again at once -> ...

* A log is judged by the sizes of its segments; nothing is read of a log that is clean enough.
* A log that could not be cleaned is logged and retried after `RETRY_S`; the others continue.
* The clean end of each log is in the directory's `cleaner-offset-checkpoint`, which may be older than the truth.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from ...light_dataclass import dataclass
from ...protocol import OUTSIDE, TopicPartition
from ...protocol.net import Slices
from ..core.config import INT64_MAX
from ..partition_log import PartitionLog
from .cleaning import Throttle
from .core.plan import DirtyRange, is_worth_cleaning

RETRY_S: Final = 60.0
"""The time in s after which a failed cleaning of a log is retried."""
FREE_LOGS: Final = 100
"""Logs that are looked at without an account of the loop's share."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSettings:
    """The `log.cleaner.*` settings of the node, with Kafka's defaults."""

    enabled: bool = True
    backoff_ms: int = 15_000
    dedupe_buffer_bytes: int = 128 * 1024 * 1024
    io_bytes_per_second_max: float = float("inf")


class LogCleaner:
    """The cleaner of a node. `logs` returns the node's open logs; the owner runs `run` in a task."""

    def __init__(self, logs: Callable[[], Mapping[TopicPartition, PartitionLog]], settings: CleanerSettings) -> None:
        self._logs = logs
        self._settings = settings
        self._throttle = Throttle(settings.io_bytes_per_second_max)
        self.cleaned_bytes = 0
        """The number of bytes cleaned so far, counted before the cleaning."""
        self.failures = 0
        self._retry_at: dict[TopicPartition, float] = {}
        """The loop time before which a failed log is not tried again."""

    async def run(self) -> None:
        while self._settings.enabled:
            if not await self.clean_dirtiest():
                await asyncio.sleep(self._settings.backoff_ms / 1000)

    async def clean_dirtiest(self) -> bool:
        """Clean the dirtiest log that is dirty enough; return whether one was tried."""
        log = await self._dirtiest()
        if log is None:
            return False
        try:
            cleaned = await log.clean(self._settings.dedupe_buffer_bytes, self._throttle)
        except OUTSIDE as error:
            self.failures += 1
            logger.error(
                "%s could not be cleaned: %s; it is tried again in %d s", log.state.topic_partition, error, RETRY_S
            )
            self._retry_at[log.state.topic_partition] = asyncio.get_running_loop().time() + RETRY_S
        else:
            self.cleaned_bytes += cleaned.before_bytes
            logger.info(
                "%s: compacted up to offset %d, from %d to %d bytes",
                log.state.topic_partition,
                cleaned.clean_end_offset,
                cleaned.before_bytes,
                cleaned.after_bytes,
            )
        return True

    async def _dirtiest(self) -> PartitionLog | None:
        now = asyncio.get_running_loop().time()
        self._retry_at = {partition: until for partition, until in self._retry_at.items() if until > now}
        candidates: list[tuple[float, PartitionLog]] = []
        async for some in Slices([*self._logs().items()], free=FREE_LOGS):
            for partition, log in some:
                if not log.state.config.is_compacted or log.state.failure is not None or partition in self._retry_at:
                    continue
                dirty_range = log.dirty_range()
                if await self._is_worth_cleaning(log, dirty_range):
                    candidates.append((dirty_range.ratio, log))
        return max(candidates, key=lambda candidate: candidate[0])[1] if candidates else None

    async def _is_worth_cleaning(self, log: PartitionLog, dirty_range: DirtyRange) -> bool:
        oldest_ms = None
        if dirty_range.dirty_bytes and log.state.config.max_compaction_lag_ms < INT64_MAX:
            try:
                oldest_ms = await log.oldest_dirty_ms(dirty_range)
            except OUTSIDE as error:
                logger.warning(
                    "%s: the age of its oldest dirty batch cannot be read: %s", log.state.topic_partition, error
                )
        return is_worth_cleaning(dirty_range, log.state.config, oldest_ms=oldest_ms, now_ms=log.state.now_ms())
