"""Bugs of brokers under controllers: who counts, and which incarnation of a topic is meant."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

from tierfetch.broker.cluster.view import ClusterImage
from tierfetch.broker.replicas.manager import ReplicaManager
from tierfetch.fetcher.core.leader_replicas import LeaderReplicas
from tierfetch.log.keeper.manager import LogManager
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.sim.faults.schedule import FaultKind
from tierfetch.tests.sim.planted.registry import planted


@planted(
    "a follower outside of the ISR counts",
    file="fetcher/core/leader_replicas.py",
    scenario="cluster",
    faults=(FaultKind.SLOW_LINK, FaultKind.PAUSE, FaultKind.PARTITION, FaultKind.PROCESS_CRASH),
    replication_factor=(3,),
    min_insync_replicas=(1, 2),
)
def outsider_counts() -> Iterator[None]:
    def high_watermark(self: LeaderReplicas, leader_end_offset: int, now_ms: int) -> int | None:
        if self.is_under_min_isr:
            return None
        ends = sorted((follower.log_end_offset for follower in self.followers.values()), reverse=True)
        return min([leader_end_offset, *ends[: len(self.maximal_isr) - 1]])

    with patch.object(LeaderReplicas, "high_watermark", high_watermark):
        yield


@planted(
    "the wrong incarnation of a topic is deleted from the tier",
    file="broker/replicas/manager.py",
    scenario="cluster",
    faults=(FaultKind.REPLACE_TOPIC,),
    administrator_pace_ms=(400,),
)
def wrong_incarnation_deleted() -> Iterator[None]:
    async def remove(self: ReplicaManager, key: TopicIdPartition, image: ClusterImage) -> None:
        led = self._hosted.partitions[key.topic_partition].leadership is not None
        await self._let_go(key)
        if self._tier is not None and led and key.topic_id not in image.topic_names:
            topic = self._hosted.image.topics.get(key.topic)
            await self._tier.delete_remote_partition(key if topic is None else topic.id_partition(key.partition))
        await self._logs.delete(key.topic_partition)

    with patch.object(ReplicaManager, "_remove", remove):
        yield


@planted(
    "the log of an earlier incarnation is taken for the topic's",
    file="log/keeper/manager.py",
    scenario="cluster",
    faults=(FaultKind.REPLACE_TOPIC, FaultKind.PROCESS_CRASH),
    administrator_pace_ms=(400,),
    shown_by="tests/log/test_manager.py",
)
def log_of_another_incarnation() -> Iterator[None]:
    async def topic_id_here(self: LogManager, *_: object) -> None:
        return None

    with patch.object(LogManager, "_topic_id_here", topic_id_here):
        yield


@planted(
    "laggards never leave the ISR",
    file="fetcher/core/leader_replicas.py",
    scenario="cluster",
    faults=(FaultKind.SLOW_LINK, FaultKind.PAUSE, FaultKind.PARTITION, FaultKind.ONE_WAY, FaultKind.HUNG_DISK),
    replication_factor=(3,),
    min_insync_replicas=(1, 2),
)
def laggards_stay() -> Iterator[None]:
    def shrunk_isr(self: LeaderReplicas, leader_end_offset: int, now_ms: int) -> frozenset[int] | None:
        return None

    with patch.object(LeaderReplicas, "shrunk_isr", shrunk_isr):
        yield
