"""A group of workers under faults: what is fed to it, who works, who is killed, and what must have come of it.

    feeder --> work-in-0, work-in-1 --> workers of a place, one after the other --> work-out-0, work-out-1

In half of the seeds the group is one of the consumer protocol (KIP-848), whose partitions the coordinator assigns. A
place is a transactional id, and in some seeds of the classic protocol an instance id. Its worker is killed after some
seconds, or left to run on as a zombie, and the next one takes the place. When the run ends, the last ones finish all
that was fed. In some seeds the outputs are read from their start again and again meanwhile, read committed every other
time: each of these sessions must have all of a transaction that it has passed, or nothing of it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Final
from uuid import UUID

from ....protocol import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from ....protocol.net import Address
from ...judges.core.acknowledged_writes import Anomaly, FinalLog
from ...judges.core.events import ClientEvent, MemberAssigned, OffsetCommitted, PartitionsAssigned
from ...judges.core.exactly_once import check_atomicity, check_work
from ...judges.core.history import ACKS_ALL
from ...machine.world import World
from ..client import AttemptFailedError, SimClient
from ..cluster_clients import Work
from ..lives import Lives, live_on
from ..workload import Pace, Producer, Reader, Retries, Shared
from .consumers import ConsumerMember
from .coordinators import CoordinatorClient, LaterError
from .members import GroupMember
from .transactions import IN_FLIGHT_MAX, PRODUCE_MAX, TransactionalProducer
from .worker import Worker, input_of

WORK_IN: Final = "work-in"
WORK_OUT: Final = "work-out"
PARTITIONS: Final = 2
TOPICS: Final = (WORK_IN, WORK_OUT, GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC)
DURABLE: Final = {"flush.messages": "1", "min.insync.replicas": "2", "retention.ms": "-1"}
"""So that nothing is excused but lost disks."""
COMPACT: Final = {"cleanup.policy": "compact", "flush.messages": "1", "min.insync.replicas": "2"}
COUNTED: Final = {
    PartitionsAssigned: "assignments to members",
    MemberAssigned: "heartbeats of KIP-848 answered",
    OffsetCommitted: "offsets committed",
}
FEED_GAP_S: Final = 0.15
LIFE_S: Final = (1.5, 7.0)
ZOMBIE_SHARE: Final = 0.4
STATIC_SHARE: Final = 0.4
VERSION_2_SHARE: Final = 0.5
SWEPT_SHARE: Final = 0.25
"""The share of seeds whose outputs are read all the time."""
PIPELINED_SHARE: Final = 0.4
"""The share of seeds whose producers have several batches of a partition in flight, as Java's have."""
PLAIN_SHARE: Final = 0.25
"""The share of seeds whose workers only read and commit offsets."""


class Workforce:
    """The `count` places of one group, and its feeders."""

    def __init__(
        self,
        world: World,
        addresses: Sequence[Address],
        shared: Shared,
        count: int,
        topic_id: Callable[[str], UUID],
        *,
        is_classic: bool,
    ) -> None:
        self._world = world
        self._addresses = tuple(addresses)
        self._shared = shared
        self.count = count
        self._rng = rng = world.rng("workforce")
        self.is_plain = rng.random() < PLAIN_SHARE
        self._is_classic = is_classic
        self._topic_id = topic_id
        self._is_static = rng.random() < STATIC_SHARE and is_classic
        self._is_swept = world.rng("workforce/outputs").random() < SWEPT_SHARE and not self.is_plain
        is_pipelined = world.rng("workforce/in flight").random() < PIPELINED_SHARE
        self._in_flight_max = IN_FLIGHT_MAX if is_pipelined else 1
        self._group = "copiers" if self.is_plain else "workers"
        self._feeding = PARTITIONS
        self._newest: dict[int, int] = {}
        """The number of the newest worker of a place."""
        self.counts: Counter[str] = Counter()
        """What workers did, for the report."""
        self._done: set[int] = set()
        """What workers have read, where they only read."""

    @property
    def inputs(self) -> list[TopicPartition]:
        return [TopicPartition(WORK_IN, number) for number in range(PARTITIONS)]

    @property
    def outputs(self) -> list[TopicPartition]:
        return [TopicPartition(WORK_OUT, number) for number in range(PARTITIONS)]

    @property
    def partitions(self) -> list[TopicPartition]:
        """All that are read in the end."""
        return [*self.inputs, *self.outputs]

    @staticmethod
    def topics(brokers: Collection[int]) -> list[tuple[str, list[list[int]], dict[str, str]]]:
        """Name, replicas of each partition, and configs of the topics that it needs."""
        everywhere = [list(brokers)] * PARTITIONS
        return [
            (name, everywhere, COMPACT if name in (GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC) else DURABLE)
            for name in TOPICS
        ]

    def works(self) -> list[tuple[str, str, Work]]:
        """Name, host, and what the client process does."""
        feeders = [(f"feeder-{each}", "producers", partial(self._feed, each)) for each in self.inputs]
        places = [(f"place-{number}", "readers", partial(self._fill, number)) for number in range(self.count)]
        swept = self.outputs if self._is_swept else []
        sweepers = [(f"sweeper-{each}", "readers", partial(self._sweep, each)) for each in swept]
        return [*feeders, *places, *sweepers]

    async def _feed(self, partition: TopicPartition) -> None:
        name = f"feeder-{partition}"
        rng = self._world.rng(name)
        client = SimClient(name, self._addresses, rng)
        producer = Producer(name, partition, ACKS_ALL, client, self._shared, rng, Pace(gap_s=FEED_GAP_S))
        await producer.run()
        self._feeding -= 1

    async def _sweep(self, partition: TopicPartition) -> None:
        name = f"sweeper-{partition}"
        rng = self._world.rng(name)
        client = SimClient(name, self._addresses, rng)
        try:
            await Reader(name, partition, client, self._shared, rng).sweep()
        finally:
            await client.close()

    async def _fill(self, place: int) -> None:
        """Have workers in a place, one after the other, until everything is done."""
        rng = self._world.rng(f"place-{place}")
        tasks: Lives = {}
        try:
            while not self._shared.stopping.is_set():
                number = self._newest[place] = self._newest.get(place, 0) + 1
                self.counts["workers started"] += 1
                worker = asyncio.create_task(self._work(place, number), name=f"worker-{place}.{number}")
                tasks[worker] = None
                await live_on(tasks, self._shared.pause(rng.uniform(*LIFE_S)))
                is_killed = not self._shared.stopping.is_set() and rng.random() >= ZOMBIE_SHARE
                self.counts["workers killed"] += is_killed and worker.cancel()
            await asyncio.gather(*tasks, return_exceptions=False) if tasks else None
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            raise

    async def _work(self, place: int, number: int) -> None:
        """One worker, from its start to its end."""
        name = f"worker-{place}.{number}"
        rng = self._world.rng(name)
        version = 2 if rng.random() < VERSION_2_SHARE else 1
        transactional_id = f"{self._group}-{place}"
        coordinators = CoordinatorClient(name, self._addresses, rng)
        client = SimClient(
            name, self._addresses, rng, transactional_id=transactional_id, produce_max=PRODUCE_MAX[version]
        )
        member = self._member(name, coordinators, f"place-{place}" if self._is_static else None)
        producer = TransactionalProducer(
            name,
            transactional_id,
            version,
            client,
            coordinators,
            self._shared,
            rng,
            in_flight_max=self._in_flight_max,
        )
        worker = Worker(
            member,
            None if self.is_plain else producer,
            client,
            self._shared,
            rng,
            inputs=self.inputs,
            outputs=self.outputs,
            may_stop=lambda: self._feeding == 0,
            is_superseded=lambda: self._newest[place] != number,
            done=self._done,
        )
        try:
            await worker.run()
        finally:
            await client.close()
            await coordinators.close()

    def _member(self, name: str, coordinators: CoordinatorClient, instance_id: str | None = None) -> GroupMember:
        if not self._is_classic:
            return ConsumerMember(
                name,
                self._group,
                self.inputs,
                coordinators,
                self._publish,
                member_ids=(f"{name}-{number}" for number in itertools.count(1)),
                topic_id=lambda: self._topic_id(WORK_IN),
            )
        return GroupMember(name, self._group, self.inputs, coordinators, self._publish, instance_id=instance_id)

    def _publish(self, event: ClientEvent) -> None:
        if isinstance(event, PartitionsAssigned | MemberAssigned | OffsetCommitted):
            self.counts[COUNTED[type(event)]] += 1
        self._shared.publish(event)

    async def committed(self) -> dict[str, int]:
        """Return what is committed in the end, by input partition."""
        rng = self._world.rng("workforce/judge")
        coordinators = CoordinatorClient("judge-group", self._addresses, rng)
        member, attempt = self._member("judge", coordinators), Retries(rng)
        try:
            while True:
                with suppress(LaterError, AttemptFailedError):
                    return {str(each): offset for each, offset in (await member.committed(self.inputs)).items()}
                await attempt.back_off()
        finally:
            await coordinators.close()

    @property
    def changed(self) -> Counter[str]:
        """What has happened, for the report."""
        ends = Counter(
            f"transactions {'committed' if each.is_commit else 'aborted'}"
            for each in self._shared.history.ends
            if each.is_certain and not each.partition
        )
        return self.counts + ends

    def anomalies(self, logs: dict[str, FinalLog], committed: dict[str, int], reader: str) -> list[Anomaly]:
        """What must not be, once everything is done. `reader` is the read-committed one that has read all outputs."""
        inputs = [logs[str(each)] for each in self.inputs]
        left = [f"{each.partition} from {committed[each.partition]} to {each.end_offset}"
                for each in inputs if committed[each.partition] < each.end_offset]  # fmt: skip
        found = [Anomaly("work left", self._group, ", ".join(left))] if left else []
        if self.is_plain:
            work = check_work(self._group, inputs, committed, input_of, self._done)
            return found + [each for each in work if each.kind == "lost work"]
        names = {str(each) for each in self.outputs}
        shown = [
            value
            for poll in self._shared.history.polls
            if poll.process == reader and poll.partition in names
            for _, value in poll.records
        ]
        found += check_work(self._group, inputs, committed, input_of, shown)
        return found + check_atomicity(self._shared.history, names, shown)
