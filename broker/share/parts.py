"""What a broker has for the partitions of share groups that it leads, composed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client.metrics_core import Metric

from ...protocol import ApiKey, ErrorCode, KafkaError
from ...protocol.fetch import READ_UNCOMMITTED
from ...protocol.messages.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ...protocol.net import RequestContext
from ..handlers.offsets import OffsetHandlers
from ..handlers.tier_reads import RemoteReads
from ..replicas.hosted_partitions import HostedPartitions
from ..replicas.leadership import WallClock
from ..replicas.partition import Partition
from .core.sessions import ConnectionKey
from .fetching import ShareFetching, ShareQuota
from .handlers import ShareHandlers
from .metrics import share_metrics
from .partitions import SharePartitions
from .persister import LeaderPersister
from .settings import GroupShareSettings, GroupShareSettingsOf, OffsetReset, ShareLimits

CONSUMER: Final = -1
"""In place of a replica's id."""
SEARCH_TIMEOUT_MS: Final = 15_000
"""How long a group that begins at a time waits for the offset of that time."""


class ShareGroups:
    """The parts, which stop together. `persister` is closed by who made it."""

    def __init__(
        self,
        hosted: HostedPartitions,
        persister: LeaderPersister,
        is_enabled: Callable[[], bool],
        settings_of: GroupShareSettingsOf,
        limits: ShareLimits,
        offsets: OffsetHandlers,
        remote: RemoteReads | None,
        quota: ShareQuota | None,
        now_ms: WallClock,
    ) -> None:
        self._offsets = offsets
        self._now_ms = now_ms
        self.partitions = SharePartitions(persister, settings_of, self._first_offset, sessions_max=limits.sessions_max)
        """Has to be notified of roles."""
        self.handlers = ShareHandlers(
            hosted,
            self.partitions,
            ShareFetching(hosted, remote, self.partitions, quota),
            is_enabled,
            response_bytes_max=limits.response_bytes_max,
            quota=quota,
        )

    async def close(self) -> None:
        await self.partitions.close()

    def connection_watcher(self, listener: str) -> Callable[[int], None]:
        """Return what has to be called when a connection of the listener has ended."""
        return lambda number: self.partitions.connection_ended(ConnectionKey(listener, number))

    def metrics(self) -> Iterator[Metric]:
        """Yield the families of the share groups whose partitions are led here."""
        partitions = self.partitions
        sessions = partitions.sessions
        return share_metrics(partitions.counters, partitions.machines, len(sessions), sessions.partitions)

    async def _first_offset(self, partition: Partition, settings: GroupShareSettings) -> int:
        """Return where a group begins that has nothing in this partition."""
        state = partition.log.state
        if settings.reset_before_ms is not None:
            found = await self._offset_at(partition, self._now_ms() - settings.reset_before_ms)
            return state.high_watermark if found is None else found
        return state.log_start_offset if settings.reset is OffsetReset.EARLIEST else state.high_watermark

    async def _offset_at(self, partition: Partition, timestamp_ms: int) -> int | None:
        """Return the first offset that is not older, in either tier; None if all are."""
        name = partition.partition.topic_partition
        asked = ListOffsetsPartition(partition_index=name.partition, timestamp=max(timestamp_ms, 0))
        request = ListOffsetsRequest(
            replica_id=CONSUMER,
            isolation_level=READ_UNCOMMITTED,
            topics=(ListOffsetsTopic(name=name.topic, partitions=(asked,)),),
            timeout_ms=SEARCH_TIMEOUT_MS,
        )
        api = ApiKey.LIST_OFFSETS
        context = RequestContext(api, api.max_version, None, 0, "", "", 0.0)
        response = await self._offsets.list_offsets(context, request)
        answer = response.topics[0].partitions[0]
        if answer.error_code is not ErrorCode.none:
            raise KafkaError(answer.error_code, f"{name}: the offset at {timestamp_ms} cannot be found")
        return answer.offset if answer.offset >= 0 else None
