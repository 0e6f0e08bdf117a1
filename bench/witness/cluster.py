"""A case on the simulated cluster: one controller, brokers on shaped interfaces, data, and what is timed.

    controller, brokers -> topic -> data by acks=all, unshaped -> interfaces -> what the case is about
    replace   the brokers crash and lose their disks; once they are out of every ISR they start again, at one moment
    add       the plan's waves, one after the other, by AlterPartitionReassignments

Timed on virtual time, by looks at what an unchanged broker knows of the cluster, each `LOOK_S`. Nothing here judges
invariants, which would cost more than all else: the seeds of `tierfetch simulate` do.

Brokers that do not change copy nothing once data are there: their followers wait `IDLE_WAIT_MS` for an answer, not the
0.5 s of those that come. Of 200 brokers nearly every pair has a fetch that waits, which is nearly all that happens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from tierfetch.broker import Broker, open_broker
from tierfetch.broker.cluster import ClusterImage, PartitionRegistration
from tierfetch.broker.config import parse_broker_config
from tierfetch.planning import PlanFile, PlannedPartition
from tierfetch.protocol import ErrorCode, TopicPartition
from tierfetch.protocol.messages.topics import (
    AlterPartitionReassignmentsRequest,
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tierfetch.protocol.net import Address, KafkaClient
from tierfetch.protocol.records import Record, build_batch
from tierfetch.protocol.wire import ProducePartition, ProduceRequest, ProduceTopic
from tierfetch.sim.machine.clock import EPOCH_MS
from tierfetch.sim.machine.pipe import Pipe
from tierfetch.sim.machine.world import World
from tierfetch.sim.scenarios.controllers import (
    CONTROLLER_PORT,
    controller_config,
    controller_host,
    open_controller_process,
)

from .case import TOPIC, Case, Kind
from .course import Course

CONTROLLER: Final = 1_000
PORT: Final = 9092
RECORD_BYTES: Final = 50_000
LOOK_S: Final = 0.005
IDLE_LOOK_S: Final = 0.25
PRODUCERS: Final = 16
TIMEOUT_MS: Final = 60_000
IDLE_WAIT_MS: Final = 10_000
"""Well below `replica.lag.time.max.ms`: a follower that only waits stays in sync."""
LIMIT_S: Final = 3_600.0
"""The limit of virtual time: what lasts longer never ends."""
Replica = tuple[int, int]
"""A partition's number, and a broker."""
BATCH: Final = build_batch([Record(0, EPOCH_MS, None, bytes(RECORD_BYTES))], base_offset=0)


@dataclass(frozen=True, slots=True)
class Simulated:
    """`courses` of the moves, in the order of a plan's or of partition and broker; `events` of the simulation."""

    courses: tuple[Course, ...]
    events: int
    virtual_s: float

    @property
    def joined_s(self) -> tuple[float, ...]:
        return tuple(each.joined_s for each in self.courses)

    @property
    def seconds(self) -> float:
        return max(self.joined_s, default=0.0)


def batches_of(case: Case) -> int:
    """How many batches a partition has."""
    return max(1, round(case.partition_bytes / len(BATCH)))


def partition_bytes(case: Case) -> int:
    """What a partition has on disk."""
    return batches_of(case) * len(BATCH)


def simulate_case(case: Case, plan: PlanFile | None, *, seed: int = 1, is_shaped: bool = True) -> Simulated:
    """Run it. TimeLimitError if it never ends."""
    with World(seed) as world:
        cluster = WitnessCluster(world, case)

        async def scenario() -> tuple[Course, ...]:
            await cluster.start()
            await cluster.load()
            if is_shaped:
                cluster.shape()
            if plan is None:
                return await cluster.replace()
            return await cluster.carry_out(plan)

        courses = world.run(scenario(), limit_s=LIMIT_S)
        return Simulated(courses, world.loop.events, world.now_s)


class WitnessCluster:
    """The nodes of one case in a world."""

    def __init__(self, world: World, case: Case) -> None:
        self._world = world
        self._case = case
        self._client = KafkaClient(client_id="witness", random=world.rng("witness"))

    async def start(self) -> None:
        config = controller_config(CONTROLLER, [CONTROLLER])
        host = self._world.host(controller_host(CONTROLLER))
        await host.start(lambda machine: open_controller_process(config, machine))
        await asyncio.gather(*(self._start_broker(each) for each in self._case.broker_ids))
        await self._create_topic()

    async def load(self) -> None:
        """The same data on every partition, on all of its replicas."""
        at_once = asyncio.Semaphore(PRODUCERS)

        async def fill(number: int) -> None:
            async with at_once:
                for _ in range(batches_of(self._case)):
                    await self._produce(number)

        await asyncio.gather(*(fill(number) for number in range(self._case.partitions)))

    def shape(self) -> None:
        """Give every broker its interface, and those that start from now on their disk."""
        for broker, rate in self._case.nic_bytes_per_s.items():
            self._world.network.shape(_host(broker), in_bytes_per_s=rate, out_bytes_per_s=rate)
            if self._case.disk_mb_s is not None and self._case.kind is Kind.REPLACE:
                self._world.host(_host(broker)).device = Pipe(self._case.disk_mb_s * 1e6)

    async def replace(self) -> tuple[Course, ...]:
        """The replicas of brokers whose processes start empty, at one moment."""
        changed = set(self._case.changed_ids)
        wanted = [
            (number, broker)
            for number, replicas in enumerate(self._case.assignment)
            for broker in replicas
            if broker in changed
        ]
        for broker in sorted(changed):
            self._world.host(_host(broker)).crash("process")
            self._world.host(_host(broker)).wipe()
        await self._until(lambda: not any(broker in self._partition(each).isr for each, broker in wanted))
        began_s = self._world.now_s
        starts = [asyncio.create_task(self._start_broker(broker)) for broker in sorted(changed)]
        courses = await self._watched(wanted, began_s, began_s)
        await asyncio.gather(*starts)
        return courses

    async def carry_out(self, plan: PlanFile) -> tuple[Course, ...]:
        """The replicas that come, in the plan's order; seconds since the first order."""
        began_s = self._world.now_s
        found: list[Course] = []
        for number, wave in enumerate(plan.waves):
            entries = [plan.partitions[place] for place in wave]
            wanted = [
                (each.partition, broker)
                for each in entries
                for broker in each.replicas
                if broker not in self._case.assignment[each.partition]
            ]
            ordered_s = self._world.now_s
            await self._reassign((each.partition, each.replicas) for each in entries)
            found += await self._watched(wanted, began_s, ordered_s, number)
            await self._until(partial(self._are_in_place, entries))
        return tuple(found)

    def _are_in_place(self, entries: Iterable[PlannedPartition]) -> bool:
        """Whether reassignments to these have ended: no replica is left of those that go."""
        return all(self._partition(each.partition).replicas == each.replicas for each in entries)

    # --- its parts --------------------------------------------------------------------------------------------------

    async def _watched(
        self, wanted: Collection[Replica], began_s: float, ordered_s: float, wave: int = 0
    ) -> tuple[Course, ...]:
        """Until all of them are in sync."""
        filled: dict[Replica, tuple[float, float, float]] = {}
        joined: dict[Replica, Course] = {}
        while len(joined) < len(wanted):
            await asyncio.sleep(LOOK_S)
            now_s = self._world.now_s - began_s
            lacking = [each for each in wanted if each not in filled]
            for each, begun_s in self._filled(lacking):
                asked_s, settled_s = (at_s - began_s for at_s in begun_s)
                filled[each] = asked_s, settled_s, now_s
            for each in wanted:
                if each not in joined and each[1] in self._partition(each[0]).isr:
                    steps_s = filled.get(each, (now_s, now_s, now_s))
                    joined[each] = Course(wave, ordered_s - began_s, *steps_s, now_s)
        return tuple(joined[each] for each in wanted)

    def _filled(self, lacking: Collection[Replica]) -> Iterator[tuple[Replica, tuple[float, float]]]:
        """Yield those that have all records by now, with when their broker first asked a leader about them, and when it
        knew where they begin.
        """
        for broker in sorted({broker for _, broker in lacking}):
            node: Broker | None = self._world.host(_host(broker)).node
            if node is None:
                continue
            whole = {
                partition.partition: number
                for number, holder in lacking
                if holder == broker
                and (partition := node.hosted.partitions.get(TopicPartition(TOPIC, number))) is not None
                and partition.log.state.log_end_offset >= batches_of(self._case)
            }
            for key, replica in node.fetchers.replicas() if whole else ():
                asked_at, settled_at = replica.progress.first_fetch_at, replica.progress.bootstrap_ended_at
                if key in whole and asked_at is not None and settled_at is not None:
                    yield (whole[key], broker), (asked_at - EPOCH_MS / 1000, settled_at - EPOCH_MS / 1000)

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():  # noqa: ASYNC110 - virtual time waits for free
            await asyncio.sleep(LOOK_S)

    def _partition(self, number: int) -> PartitionRegistration:
        return self._image.topics[TOPIC].partitions[number]

    @property
    def _image(self) -> ClusterImage:
        """As broker 1 has it, which never changes."""
        broker: Broker = self._world.host(_host(1)).node
        return broker.view.image

    async def _start_broker(self, broker: int) -> None:
        properties = {
            "node.id": str(broker),
            "listeners": f"PLAINTEXT://{_host(broker)}:{PORT}",
            "log.dirs": "/data",
            "controller.quorum.bootstrap.servers": f"{controller_host(CONTROLLER)}:{CONTROLLER_PORT}",
        }
        if broker not in self._case.changed_ids:
            properties["replica.fetch.wait.max.ms"] = str(IDLE_WAIT_MS)
        config, warnings = parse_broker_config(properties, _host(broker))
        assert not warnings, warnings
        await self._world.host(_host(broker)).start(lambda machine: open_broker(config, machine))

    async def _create_topic(self) -> None:
        assignments = tuple(
            CreatableReplicaAssignment(partition_index=number, broker_ids=tuple(replicas))
            for number, replicas in enumerate(self._case.assignment)
        )
        configs = (CreatableTopicConfig(name="retention.ms", value="-1"),)
        topic = CreatableTopic(
            name=TOPIC, num_partitions=-1, replication_factor=-1, assignments=assignments, configs=configs
        )
        answer = await self._client.send(_address(1), CreateTopicsRequest(topics=(topic,), timeout_ms=TIMEOUT_MS))
        assert answer.topics[0].error_code is ErrorCode.none, answer
        while not self._is_led():  # noqa: ASYNC110 - virtual time waits for free
            await asyncio.sleep(IDLE_LOOK_S)

    def _is_led(self) -> bool:
        """Whether every leader knows that it is one."""
        for number, (leader, *_) in enumerate(self._case.assignment):
            broker: Broker = self._world.host(_host(leader)).node
            partition = broker.hosted.partitions.get(TopicPartition(TOPIC, number))
            if partition is None or partition.leadership is None:
                return False
        return True

    async def _produce(self, number: int) -> None:
        topic_id = self._image.topics[TOPIC].topic_id
        topic = ProduceTopic((ProducePartition(number, bytearray(BATCH)),), TOPIC, topic_id)
        request = ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topics=(topic,), transactional_id=None)
        answer = await self._client.send(_address(self._case.assignment[number][0]), request)
        assert answer is not None, "acks=all is answered"
        error = answer.topics[0].partitions[0].error_code
        assert error is ErrorCode.none, (number, error)

    async def _reassign(self, orders: Iterable[tuple[int, tuple[int, ...]]]) -> None:
        asked = tuple(ReassignablePartition(partition_index=number, replicas=replicas) for number, replicas in orders)
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=TIMEOUT_MS, topics=(ReassignableTopic(name=TOPIC, partitions=asked),)
        )
        answer = await self._client.send(_address(1), request)
        assert answer.error_code is ErrorCode.none, answer
        refused = [part for topic in answer.responses for part in topic.partitions if part.error_code]
        assert not refused, refused


def _host(broker: int) -> str:
    return f"broker-{broker}"


def _address(broker: int) -> Address:
    return Address(_host(broker), PORT)
