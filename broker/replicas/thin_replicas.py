"""Which replicas of this broker are thin (KIP-1023's drawback): their local logs hold only what the tier lacked.

| recipient | how | what follows |
|---|---|---|
| the controller | each heartbeat names them, with what they hold and since when | it elects them last |
| the leader | each fetch names the local log start | it sends no consumer there |

Both only until they have warmed. A replica is reported from the commit of its bootstrap on: it has not fetched by then,
so its leader cannot have asked for it in the ISR. What a heartbeat says is thus complete as far as this broker has
replayed the metadata (`controller.thin`). `on_change` asks for a heartbeat at once. A replica has warmed when it holds
so many bytes, or has been in sync so long. It also stops being thin when local retention raises its start, or the
warmer (`warmer`) finds nothing more to fetch: from then on it holds what every other replica holds.

A mark in the log's directory says of a replica that it is thin (`LogState.is_thin`), so that it is so also after a
restart; the time in sync counts from there again. `settle` takes the mark away once it has warmed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from ...light_dataclass import dataclass
from ...log import PartitionLog
from ...protocol import TopicPartition
from ...protocol.messages.brokers import ThinReplica
from .partition import Partition

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WarmingLimits:
    """`thin.replica.warm.bytes` and `.ms`: either makes a thin replica a full one."""

    bytes_min: int
    time_ms: int


@dataclass(frozen=True, slots=True)
class _Since:
    """`joined_ms` is when the replica joined the ISR; None before that."""

    local_start_offset: int
    joined_ms: int | None


class ThinReplicas:
    """`now_ms` is monotonic; `hosted` are the partitions that are hosted now."""

    def __init__(
        self, now_ms: Callable[[], int], hosted: Mapping[TopicPartition, Partition], limits: WarmingLimits
    ) -> None:
        self._now_ms = now_ms
        self._hosted = hosted
        self.limits = limits
        self._thin: dict[TopicPartition, _Since] = {}
        self._marked: dict[TopicPartition, None] = {}
        """The partitions whose log has the mark."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when the controller must learn at once which replicas are thin."""

    def opened(self, partition: Partition) -> None:
        """A log was opened, or took the place of another: it may have been rebuilt from the tier, by this process or an
        earlier one.
        """
        log, name = partition.log, partition.partition.topic_partition
        if log.state.is_adopted:
            # Reported before it can join the ISR: the controller must elect it last from its first moment there.
            # Reported before it can join the ISR: the controller must elect it last from its first moment there.
            self._thin[name] = _Since(log.state.offsets.local_log_start_offset, None)
        elif log.state.is_thin and name not in self._thin:
            self.joined(partition)
        else:
            return
        self.on_change()

    def joined(self, partition: Partition) -> None:
        """A replica that began above the log start has joined its ISR, or was thin in an earlier run."""
        log, name = partition.log, partition.partition.topic_partition
        self._marked[name] = None
        if log.state.offsets.local_log_start_offset > log.state.log_start_offset:
            self._thin[name] = _Since(log.state.offsets.local_log_start_offset, self._now_ms())
        else:
            self._thin.pop(name, None)

    def local_start_of(self, partition: Partition) -> int | None:
        """Where the local log of a replica that is thin, or not in sync yet, begins; None for a full one."""
        log = partition.log
        if log.state.is_adopted:
            return (
                log.state.offsets.local_log_start_offset
                if log.state.offsets.local_log_start_offset > log.state.log_start_offset
                else None
            )
        since = self._thin.get(partition.partition.topic_partition) if self._thin else None
        if since is None or not _is_thin(log, since):
            return None
        is_warm = log.state.segments.size_bytes >= self.limits.bytes_min or self._age_ms(since) >= self.limits.time_ms
        return None if is_warm else log.state.offsets.local_log_start_offset

    def warm_in_ms(self) -> dict[TopicPartition, int]:
        """How long at most each thin replica is from being warm, if it is in sync from now on."""
        hosted = {name: self._hosted[name] for name in self._thin if name in self._hosted}
        return {
            name: max(0, self.limits.time_ms - self._age_ms(self._thin[name]))
            for name, partition in hosted.items()
            if self.local_start_of(partition) is not None
        }

    def partitions(self) -> list[Partition]:
        """Return the replicas that are in sync and thin."""
        hosted = [self._hosted[name] for name in self._thin if name in self._hosted]
        return [each for each in hosted if not each.log.state.is_adopted and self.local_start_of(each) is not None]

    def warmed(self, partition: Partition, *, is_full: bool) -> None:
        """Its local log begins lower now; `is_full`: it lacks nothing that the others keep."""
        name = partition.partition.topic_partition
        since = self._thin.pop(name, None)
        if since is not None and not is_full:
            self._thin[name] = _Since(partition.log.state.offsets.local_log_start_offset, since.joined_ms)
        elif since is not None:
            self.on_change()

    async def settle(self) -> None:
        """Note durably which have warmed; where the disk refuses, the next time."""
        for name in list(self._marked):
            partition = self._hosted.get(name)
            if partition is not None and self.local_start_of(partition) is not None:
                continue
            try:
                if partition is not None:
                    await partition.log.confirm_warmed()
                del self._marked[name]
            except OSError as error:
                _log.warning("%s: could not be noted as a full replica, trying again: %s", name, error)

    def report(self) -> list[ThinReplica]:
        """Return the replicas that began above the log start, until local retention raises their local start."""
        for name in list(self._thin):
            hosted = self._hosted.get(name)
            if hosted is None or not _is_thin(hosted.log, self._thin[name]):
                del self._thin[name]
        return [
            ThinReplica(
                topic_id=self._hosted[name].partition.topic_id,
                partition_index=name.partition,
                local_start_offset=self._hosted[name].log.state.offsets.local_log_start_offset,
                local_bytes=self._hosted[name].log.state.segments.size_bytes,
                age_ms=self._age_ms(since),
            )
            for name, since in self._thin.items()
        ]

    def _age_ms(self, since: _Since) -> int:
        return 0 if since.joined_ms is None else self._now_ms() - since.joined_ms


def _is_thin(log: PartitionLog, since: _Since) -> bool:
    """Local retention has not raised its start (the warmer may have lowered it), and there is something below."""
    return since.local_start_offset >= log.state.offsets.local_log_start_offset > log.state.log_start_offset
