"""The fetchers of one broker: one for each leader and shard, made for its first partition, ended with its last.

`num.replica.fetchers` shards spread a leader's partitions over several connections. A fetcher whose loop ends by an
internal error is reported, and its partitions are not replicated until they are added again.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Callable, Iterator

from ...fetcher import FollowedReplica, FollowerPartition, ReplicaFetcher, ReplicaProgress
from ...light_dataclass import dataclass
from ...protocol import TopicIdPartition

_log = logging.getLogger(__name__)

FetcherKey = tuple[int, int]
"""Leader and shard."""


@dataclass(frozen=True, slots=True)
class _Running:
    fetcher: ReplicaFetcher
    task: asyncio.Task[None]


class FetcherPool:
    """`make` gives a new fetcher from a leader, by its id."""

    def __init__(self, make: Callable[[int], ReplicaFetcher], shards: int) -> None:
        self._make = make
        self._shards = shards
        self._running: dict[FetcherKey, _Running] = {}
        self._keys: dict[TopicIdPartition, FetcherKey] = {}

    def replicas(self) -> Iterator[tuple[TopicIdPartition, FollowedReplica]]:
        """What is followed, for metrics."""
        for running in self._running.values():
            yield from running.fetcher.replicas.items()

    def add(self, leader_id: int, partition: FollowerPartition) -> None:
        """Follow `leader_id` from now on; the partition is not followed at this moment."""
        key = partition.topic_id_partition
        assert key not in self._keys, f"{key} is followed already"
        where = (leader_id, zlib.crc32(str(key.topic_partition).encode()) % self._shards)
        running = self._running.get(where)
        if running is None:
            fetcher = self._make(leader_id)
            task = asyncio.create_task(fetcher.run(), name=f"fetcher-{leader_id}-{where[1]}")
            task.add_done_callback(_report)
            running = self._running[where] = _Running(fetcher, task)
        self._keys[key] = where
        running.fetcher.add(partition)

    async def remove(self, key: TopicIdPartition) -> ReplicaProgress | None:
        """Stop following; afterwards nothing is done to its log. None if it was not followed."""
        where = self._keys.pop(key, None)
        if where is None:
            return None
        running = self._running[where]
        progress = await running.fetcher.remove(key)
        if not running.fetcher.replicas and self._running.get(where) is running:
            del self._running[where]
            await _stop(running)
        return progress

    def retry_now(self) -> None:
        """Something that followers may be waiting for has changed."""
        for running in self._running.values():
            running.fetcher.retry_now()

    async def close(self) -> None:
        for key in list(self._keys):
            await self.remove(key)


async def _stop(running: _Running) -> None:
    running.task.cancel()
    await asyncio.wait([running.task])


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error(
            "internal error in %s: its replicas are not replicated until their leader changes or the broker restarts",
            task.get_name(),
            exc_info=error,
        )
