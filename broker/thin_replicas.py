"""Which replicas of this broker are thin (KIP-1023's drawback): they joined their ISR with only what the tier lacked.

Such a replica is reported with each heartbeat, with what it holds and since when, so that the controller elects it last
until it has warmed. It stops being thin when local retention moves its start: from then on it holds what every other
replica holds. After a restart nothing is known, and all count as full.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..log.partition_log import PartitionLog
from ..protocol.extensions import ThinReplica, thin_replica
from ..protocol.topics import TopicIdPartition


@dataclass(frozen=True, slots=True)
class _Since:
    local_start_offset: int
    joined_ms: int


class ThinReplicas:
    """`now_ms` is monotonic; `logs` gives the logs that are hosted now."""

    def __init__(self, now_ms: Callable[[], int], logs: Callable[[], Mapping[TopicIdPartition, PartitionLog]]) -> None:
        self._now_ms = now_ms
        self._logs = logs
        self._joined: dict[TopicIdPartition, _Since] = {}

    def joined(self, partition: TopicIdPartition, log: PartitionLog) -> None:
        """A replica that began behind the tier has joined its ISR."""
        if log.local_log_start_offset > log.log_start_offset:
            self._joined[partition] = _Since(log.local_log_start_offset, self._now_ms())

    def report(self) -> list[ThinReplica]:
        """Those that still are, in the order in which they joined."""
        if not self._joined:
            return []
        logs, now_ms = self._logs(), self._now_ms()
        for partition in list(self._joined):
            log = logs.get(partition)
            if log is None or log.local_log_start_offset != self._joined[partition].local_start_offset:
                del self._joined[partition]
        return [
            thin_replica(
                partition.topic_id,
                partition.partition,
                since.local_start_offset,
                logs[partition].size_bytes,
                now_ms - since.joined_ms,
            )
            for partition, since in self._joined.items()
        ]
