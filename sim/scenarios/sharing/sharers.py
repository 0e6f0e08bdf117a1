"""A share group under faults: what is fed to it, who takes records, who dies, and what must have come of it.

    feeders --> shared-in-0, shared-in-1 --> members of a place, one after the other

The group's configs (resource type 32) are set before its topic exists: it begins at the start of the topic, with short
locks and few deliveries. A place has one member after the other, each killed after some seconds with all that it has
locked, or leaves in order. A watcher asks where the group's share-partitions start. When the run ends, the last members
finish all that was fed.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final
from uuid import UUID

from ....protocol import GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC, ErrorCode, KafkaError, TopicPartition
from ....protocol.messages.share_groups import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from ....protocol.net import Address
from ....protocol.wire import DELIVERY_LIMIT, EARLIEST, LOCK_DURATION, OFFSET_RESET
from ...judges.core.acknowledged_writes import Anomaly, FinalLog
from ...judges.core.clients.deliveries import DeliveriesJudge
from ...judges.core.clients.share_events import ShareStartFound
from ...judges.core.history import ACKS_ALL
from ...machine.world import World
from ..client import LATEST, AttemptFailedError, SimClient
from ..cluster_clients import Work
from ..lives import Lives, live_on
from ..workers.coordinators import OF_GROUPS, CoordinatorClient, LaterError, RejoinError
from ..workload import Pace, Producer, Shared
from .member import ShareMember

SHARED_IN: Final = "shared-in"
PARTITIONS: Final = 2
TOPICS: Final = (SHARED_IN, GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC)
GROUP: Final = "sharers"
LOCK_MS: Final = 1_500
LIMITS: Final = (3, 5)
KEPT: Final = {"flush.messages": "1", "min.insync.replicas": "2", "retention.ms": "-1"}
"""So that nothing is excused but lost disks."""
COMPACT: Final = {"cleanup.policy": "compact", "flush.messages": "1", "min.insync.replicas": "2"}
FEED_GAP_S: Final = 0.15
WATCH_S: Final = (0.2, 0.8)
LIFE_S: Final = (1.5, 7.0)
KILLED_SHARE: Final = 0.6
NOT_BEGUN: Final = -1


class Sharers:
    """The `count` places of one group, its feeders, and its watcher."""

    def __init__(
        self,
        world: World,
        addresses: Sequence[Address],
        shared: Shared,
        count: int,
        *,
        topic_id: Callable[[str], UUID],
        hosts: Mapping[int, str],
        has_lost: Callable[[str], bool],
        renews: bool = False,
        is_late: bool = False,
    ) -> None:
        """`renews`: members renew locks. `is_late`: share.version is raised some time after they have begun."""
        self._world = world
        self._renews = renews
        self._is_late = is_late
        self._addresses = tuple(addresses)
        self._shared = shared
        self.count = count
        self._topic_id = topic_id
        self._limit = world.rng("sharers").choice(LIMITS)
        self._feeding = PARTITIONS
        self._numbers = itertools.count(1)
        self._is_over = False
        self.judge = DeliveriesJudge(
            tuple(self.inputs), hosts, has_lost, shared.now_ms, lock_ms=LOCK_MS, limit=self._limit
        )
        self.counts: Counter[str] = Counter()

    @property
    def inputs(self) -> list[TopicPartition]:
        return [TopicPartition(SHARED_IN, number) for number in range(PARTITIONS)]

    @property
    def partitions(self) -> list[TopicPartition]:
        """All that are read in the end."""
        return self.inputs

    @property
    def group_configs(self) -> dict[str, str]:
        """They are there before the topic: each of its leaders knows them."""
        return {OFFSET_RESET: EARLIEST, LOCK_DURATION: str(LOCK_MS), DELIVERY_LIMIT: str(self._limit)}

    @staticmethod
    def topics(brokers: Collection[int]) -> list[tuple[str, list[list[int]], dict[str, str]]]:
        """Name, replicas of each partition, and configs of the topics that it needs."""
        everywhere = [list(brokers)] * PARTITIONS
        return [(name, everywhere, COMPACT if name == GROUP_METADATA_TOPIC else KEPT) for name in TOPICS]

    def works(self) -> list[tuple[str, str, Work]]:
        """Name, host, and what the client process does."""
        feeders = [(f"share-feeder-{each}", "producers", partial(self._feed, each)) for each in self.inputs]
        places = [(f"share-place-{number}", "readers", partial(self._fill, number)) for number in range(self.count)]
        return [*feeders, *places, ("share-watch", "readers", self._watch)]

    async def _feed(self, partition: TopicPartition) -> None:
        name = f"share-feeder-{partition}"
        rng = self._world.rng(name)
        client = SimClient(name, self._addresses, rng)
        await Producer(name, partition, ACKS_ALL, client, self._shared, rng, Pace(gap_s=FEED_GAP_S)).run()
        self._feeding -= 1

    async def _fill(self, place: int) -> None:
        """Have members in a place, one after the other, until everything is done."""
        rng = self._world.rng(f"share-place-{place}")
        leaving: Lives = {}
        try:
            for number in itertools.count(1):
                member = self._member(f"sharer-{place}.{number}")
                life = asyncio.create_task(self._live(member), name=f"sharer-{place}.{number}")
                leaving[life] = None
                self.counts["members of share groups"] += 1
                await live_on(leaving, self._shared.pause(rng.uniform(*LIFE_S)))
                if self._shared.stopping.is_set():
                    break
                if rng.random() < KILLED_SHARE:
                    self.counts["members of share groups killed"] += life.cancel()
                else:
                    member.may_go = True
            await asyncio.gather(*leaving)
        except asyncio.CancelledError:
            for task in leaving:
                task.cancel()
            raise

    def _member(self, name: str) -> ShareMember:
        return ShareMember(
            name,
            GROUP,
            self.inputs,
            self._addresses,
            self._shared,
            self._world.rng(name),
            topic_id=lambda: self._topic_id(SHARED_IN),
            numbers=self._numbers,
            is_over=lambda: self._is_over,
            renewals=self._world.rng(f"{name}/renewals") if self._renews else None,
        )

    @staticmethod
    async def _live(member: ShareMember) -> None:
        try:
            await member.run()
        finally:
            await member.close()

    async def _watch(self) -> None:
        """Ask where the group starts, until its members have finished all that was fed."""
        rng = self._world.rng("share-watch")
        client = SimClient("share-watch", self._addresses, rng)
        coordinators = CoordinatorClient("share-watch-group", self._addresses, rng)
        try:
            while not self._is_over:
                await asyncio.sleep(rng.uniform(*WATCH_S))
                try:
                    await self._starts(coordinators)
                    if self._shared.stopping.is_set() and self._feeding == 0:
                        ends = {each: await client.list_offset(each, LATEST) for each in self.inputs}
                        self._is_over = not any(self.judge.left(each, end) for each, end in ends.items())
                except (AttemptFailedError, LaterError, RejoinError, KafkaError):
                    continue
        finally:
            await client.close()
            await coordinators.close()

    async def _starts(self, coordinators: CoordinatorClient) -> None:
        topic = DescribeShareGroupOffsetsRequestTopic(topic_name=SHARED_IN, partitions=tuple(range(PARTITIONS)))
        group = DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=(topic,))
        asked_ms = self._shared.now_ms()
        answer = await coordinators.ask(OF_GROUPS, GROUP, DescribeShareGroupOffsetsRequest(groups=(group,)))
        (found,) = answer.groups
        if self._is_late and found.error_code is ErrorCode.unsupported_version:
            return
        coordinators.check(OF_GROUPS, GROUP, found.error_code, "DescribeShareGroupOffsets")
        starts = {
            TopicPartition(SHARED_IN, each.partition_index): each.start_offset
            for one in found.topics
            for each in one.partitions
            if each.error_code is ErrorCode.none and each.start_offset != NOT_BEGUN
        }
        for partition, offset in sorted(starts.items()):
            self._shared.publish(ShareStartFound(partition, offset, asked_ms))

    @property
    def changed(self) -> Counter[str]:
        """What has happened, for the report."""
        return self.counts + self.judge.counts

    def anomalies(self, logs: Mapping[str, FinalLog]) -> list[Anomaly]:
        """What must not be, once everything is done."""
        sent_ms = {value: send.invoked_ms for send in self._shared.history.sends for value in send.values}
        return self.judge.anomalies(logs, sent_ms)
