"""A cluster in this process: a controller and brokers, each in a thread of its own, and what a test does to them.

    test's thread --calls, faults--> node threads (controller, broker 1, broker 2, ...)
                  --requests-------> an operator's thread, for topics and records
    the test's own clients ----------> loopback, ports that the kernel chose

Calls block until what they say holds, at most `TIMEOUT_S`; an async test makes them with `asyncio.to_thread`. A port is
reserved for the whole life of the cluster by a socket that never listens, so a killed broker refuses connections and
comes back at the same address.
"""

from __future__ import annotations

import asyncio
import logging
import random
import shutil
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, Literal, Self, TypeVar, overload
from uuid import uuid4

from ...broker import Broker, NodeEnvironment, open_broker
from ...broker.config import check_dynamic_configs, parse_broker_config
from ...controller import ControllerService, MetadataImage, PartitionRegistration, open_controller
from ...fetcher.core import EARLIEST_PENDING_UPLOAD_TIMESTAMP, FetchIsolation, special_offset
from ...log import PartitionLog
from ...protocol import TopicPartition, uuid_to_text
from ...protocol.net import LOOPBACK, Address, reserved_port
from ...quorum import ReplicaKey, parse_controller_config
from ...quorum.storage import FormatOrder, format_directories, new_directory_id
from ...remote import RemoteStorageManager, load_remote_storage
from ...remote.core import OffsetAndEpoch
from .clients import CLIENTS, AiokafkaClients, ClientName, Clients, ConfluentClients, KafkaPythonClients
from .configs import (
    CONTROLLER_ID,
    ClusterOptions,
    broker_properties,
    controller_properties,
    log_directories,
    new_directory,
)
from .disk import FaultyDisk
from .network import Network
from .node import NodeThread
from .operator import ConsumedRecord, Operator, PartitionAt, open_operator
from .storage import FaultyStorage, TierWeather

T = TypeVar("T")

TIMEOUT_S: Final = 30.0
POLL_S: Final = 0.005
LIST_OFFSETS_VERSION: Final = 11

_log = logging.getLogger(__name__)


class InProcessCluster:
    """`with InProcessCluster(brokers=3) as cluster:` has it serving. Brokers are numbered from 1.

    `directory` holds the nodes' data, below `broker-<id>/<number>`; it is removed at the end.
    """

    def __init__(self, options: ClusterOptions | None = None) -> None:
        self.options = options or ClusterOptions()
        self._stack = ExitStack()
        self._weather = TierWeather()
        self._brokers: dict[int, NodeThread[Broker]] = {}
        self._ports: dict[int, int] = {}
        self._tier_options: Mapping[str, str] = {}

    # Life.

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.directory = new_directory()
            stack.callback(shutil.rmtree, self.directory, ignore_errors=True)
            self._set_up_tier(stack)
            for node in (CONTROLLER_ID, *self.broker_ids):
                self._ports[node] = stack.enter_context(reserved_port())
            self._controller = NodeThread(
                "tierfetch-controller", self._open_controller, failures_of_controller, fsync=self.options.fsync
            )
            self._operator = NodeThread("tierfetch-operator", lambda _: open_operator(), lambda _: [], fsync=False)
            stack.callback(self._stop)
            self._controller.start()
            self._operator.start()
            self._controller.wait_started(TIMEOUT_S)
            self._start(self.broker_ids)
            self._operator.wait_started(TIMEOUT_S)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _set_up_tier(self, stack: ExitStack) -> None:
        if self.options.tier == "local":
            self._tier_options = {"dir": str(self.directory / "tier")}
        elif self.options.tier == "s3":
            from .moto import moto_bucket

            self._tier_options = stack.enter_context(moto_bucket())

    def _stop(self) -> None:
        """Stop the brokers at once, then the controller. What is paused or cut off could not stop in order: kill it."""
        with ThreadPoolExecutor(len(self._brokers) + 1) as threads:
            list(threads.map(_stop_or_kill, self._brokers.values()))
        self._operator.stop()
        self._controller.stop()

    @asynccontextmanager
    async def _open_controller(self, disk: FaultyDisk) -> AsyncIterator[ControllerService]:
        properties = controller_properties(self.options, self.directory, self._ports[CONTROLLER_ID])
        config, _ = parse_controller_config(properties, "the test's controller")
        machine = NodeEnvironment(disk=disk, lock_directory=disk.lock_directory)
        try:
            key = ReplicaKey(CONTROLLER_ID, new_directory_id(machine.rng))
            order = FormatOrder(uuid_to_text(uuid4()), key, config.directories)
            await format_directories(disk, order, ignore_formatted=True, rng=machine.rng, now_ms=machine.now_ms)
            async with open_controller(config, machine, check_broker_configs=check_dynamic_configs) as service:
                yield service
        finally:
            await disk.close()

    def _open_broker(self, broker: int, disk: FaultyDisk) -> AbstractAsyncContextManager[Broker]:
        ports = self._ports[broker], self._ports[CONTROLLER_ID]
        properties = broker_properties(self.options, self.directory, broker, ports, self._tier_options)
        config, warnings = parse_broker_config(properties, f"broker {broker} of the test")
        for warning in warnings:
            _log.warning("%s", warning)

        def open_storage(name: str, options: Mapping[str, str], prefix: str) -> RemoteStorageManager:
            return FaultyStorage(load_remote_storage(name, options, key_prefix=prefix), self._weather)

        machine = NodeEnvironment(disk=disk, lock_directory=disk.lock_directory, open_remote_storage=open_storage)
        return open_broker(config, machine)

    def _start(self, brokers: Iterable[int]) -> None:
        started = []
        for broker in brokers:
            assert broker in self.broker_ids, f"there is no broker {broker}, but {self.broker_ids}"
            if broker in self._brokers and self._brokers[broker].is_running:
                raise RuntimeError(f"broker {broker} runs already")
            node = self._brokers[broker] = NodeThread(
                f"tierfetch-broker-{broker}",
                partial(self._open_broker, broker),
                failures_of_broker,
                fsync=self.options.fsync,
            )
            node.start()
            started.append(node)
        for node in started:
            node.wait_started(TIMEOUT_S)

    # What there is.

    @property
    def broker_ids(self) -> tuple[int, ...]:
        return tuple(range(1, self.options.brokers + 1))

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses, separated by commas: `bootstrap.servers`."""
        return ",".join(self.address(broker) for broker in self.broker_ids)

    def address(self, broker: int) -> str:
        """Return the HOST:PORT of one broker."""
        return f"{LOOPBACK}:{self._ports[broker]}"

    def is_running(self, broker: int) -> bool:
        """Whether the broker's thread runs: neither stopped, killed, nor ended by a failure."""
        return self._brokers[broker].is_running

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of all topics but internal ones, sorted."""
        names = self._image(lambda image: [topic.name for topic in image.topics.values()])
        return tuple(sorted(name for name in names if not name.startswith("__")))

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the broker that leads a partition; -1 for none."""
        return self._registration(topic, partition).leader

    def isr(self, topic: str, partition: int = 0) -> tuple[int, ...]:
        """Return the in-sync replicas of a partition."""
        return self._registration(topic, partition).isr

    def log_directory(self, broker: int, number: int = 0) -> Path:
        """Return the path of one of a broker's log directories."""
        return log_directories(self.options, self.directory, broker)[number]

    def _image(self, look: Callable[[MetadataImage], T]) -> T:
        return self._controller.call(lambda service: look(service.controller.core.state.image))

    def _registrations(self, topic: str) -> Mapping[int, PartitionRegistration]:
        found = self._image(lambda image: {each.name: dict(each.partitions) for each in image.topics.values()})
        if topic not in found:
            raise KeyError(f"there is no topic {topic!r}")
        return found[topic]

    def _registration(self, topic: str, partition: int) -> PartitionRegistration:
        return self._registrations(topic)[partition]

    # Topics and records.

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        tiered: bool = False,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> str:
        """Return the name, once every broker that runs knows the topic and its leaders lead. KafkaError.

        A tiered topic has `remote.storage.enable`; its segments are copied once they are closed (`roll_segments`).
        """
        if tiered and self.options.tier is None:
            raise ValueError(f"topic {name}: this cluster has no tier: start it with tier='local' or tier='s3'")
        settings = {**({"remote.storage.enable": "true"} if tiered else {}), **(configs or {})}
        factor = replication_factor or min(3, len(self.broker_ids))
        controller = self._controller_address
        self._ask(lambda operator: operator.create_topic(controller, name, partitions, factor, settings))
        self.wait_until(lambda: self._all_lead(name), f"the leaders of topic {name}")
        return name

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        controller = self._controller_address
        self._ask(lambda operator: operator.delete_topic(controller, name))

    def produce(self, topic: str, *values: bytes, partition: int = 0) -> int:
        """Append one batch with acks=all; return the offset of its first record."""
        at = self._at(topic, partition)
        return self._ask(lambda operator: operator.produce(at, values))

    def records(self, topic: str, partition: int | None = None) -> list[ConsumedRecord]:
        """Return all committed records of a topic or of one partition, by partition and offset, tier included."""
        numbers = sorted(self._registrations(topic)) if partition is None else [partition]
        found: list[ConsumedRecord] = []
        for number in numbers:
            at = self._at(topic, number)
            start, end = self._on_leader(
                topic, number, lambda _, log: (log.state.log_start_offset, log.state.high_watermark)
            )
            found += self._ask(partial(_records, at, start, end, lambda broker: Address(LOOPBACK, self._ports[broker])))
        return found

    def roll_segments(self, topic: str) -> None:
        """Close the active segment of every partition on its leader, as `segment.ms` would, so it can be copied."""
        for number in self._registrations(topic):
            key = TopicPartition(topic, number)
            leader = self._brokers[self.leader(topic, number)]
            leader.run(partial(_roll, key))

    def _ask(self, request: Callable[[Operator], Coroutine[object, None, T]]) -> T:
        return self._operator.run(request)

    @property
    def _controller_address(self) -> Address:
        return Address(LOOPBACK, self._ports[CONTROLLER_ID])

    def _at(self, topic: str, partition: int) -> PartitionAt:
        self.wait_until(lambda: self._leads(topic, partition), f"a leader of {topic}-{partition}")
        ids = self._image(lambda image: {each.name: each.topic_id for each in image.topics.values()})
        port = self._ports[self.leader(topic, partition)]
        return PartitionAt(topic, ids[topic], partition, Address(LOOPBACK, port))

    def _on_leader(self, topic: str, partition: int, look: Callable[[Broker, PartitionLog], T]) -> T:
        key = TopicPartition(topic, partition)
        leader = self._brokers[self.leader(topic, partition)]
        return leader.call(lambda broker: look(broker, broker.hosted.partitions[key].log))

    def _leads(self, topic: str, partition: int) -> bool:
        """Whether the leader runs and has taken its role."""
        leader = self.leader(topic, partition)
        node = self._brokers.get(leader)
        if node is None or not node.is_running or node.is_paused:
            return False
        key = TopicPartition(topic, partition)
        return node.call(
            lambda broker: key in broker.hosted.partitions and broker.hosted.partitions[key].leadership is not None
        )

    def _is_tiered(self, topic: str, partition: int) -> bool:
        return self._leads(topic, partition) and self._on_leader(topic, partition, is_tiered)

    def _all_lead(self, topic: str) -> bool:
        """Whether all leaders lead, and all brokers that run know the topic."""
        numbers = list(self._registrations(topic))
        known = all(
            node.call(lambda broker: topic in broker.view.image.topics)
            for node in self._brokers.values()
            if node.is_running and not node.is_paused
        )
        return known and all(self._leads(topic, number) for number in numbers)

    # Faults.

    def kill(self, broker: int) -> None:
        """End a broker as kill -9 does; its directories stay as they are."""
        self._brokers[broker].kill()

    def stop(self, broker: int) -> None:
        """Stop a broker in order: its leaderships move first."""
        self._brokers[broker].stop()

    def start(self, broker: int, *, wipe: bool = False) -> None:
        """Start a broker that was stopped or killed, at its old address; with `wipe`, on empty directories."""
        if wipe and not self._brokers[broker].is_running:
            shutil.rmtree(self.directory / f"broker-{broker}", ignore_errors=True)
        self._start([broker])

    def restart(self, broker: int) -> None:
        """Stop a broker in order, and start it."""
        self.stop(broker)
        self.start(broker)

    def pause(self, broker: int) -> None:
        """Freeze a broker as SIGSTOP does, until `resume`."""
        self._brokers[broker].pause()

    def resume(self, broker: int) -> None:
        """Let a paused broker continue."""
        self._brokers[broker].resume()

    def partition(self, broker: int, *, refuse: bool = False) -> None:
        """Cut a broker off from everything, until `heal`: no byte moves, and peers notice by timeouts.

        With `refuse`, its connections are reset and new ones are closed as soon as they are made.
        """
        self._brokers[broker].set_network(Network.REFUSED if refuse else Network.STALLED)

    def heal(self, broker: int) -> None:
        """Give a broker its network back."""
        self._brokers[broker].set_network(Network.OPEN)

    def fail_disk(self, broker: int, number: int = 0) -> None:
        """Fail every call on a log directory with EIO, until the broker's next start. The first directory has the
        metadata log: the broker stops.
        """
        self._brokers[broker].disk.fail(self.log_directory(broker, number))

    def slow_tier(self, seconds: float) -> None:
        """Delay every later call to the tier by so much; 0 ends it."""
        self._weather.delay_s = seconds

    def fail_tier(self) -> None:
        """Fail every later call to the tier, as an unreachable store, until `heal_tier`."""
        self._weather.is_away = True

    def heal_tier(self) -> None:
        """Give the tier back, at its usual speed."""
        self._weather.is_away, self._weather.delay_s = False, 0.0

    # Waits.

    def wait_until(
        self, condition: Callable[[], bool], what: str = "a condition", timeout_s: float = TIMEOUT_S
    ) -> None:
        """Return once the condition holds. TimeoutError names `what` it waited for."""
        deadline_s = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"waited {timeout_s:g} s for {what}")
            time.sleep(POLL_S)

    def wait_tiered(self, topic: str, timeout_s: float = TIMEOUT_S) -> None:
        """Return once every closed segment of a topic is in the tier. TimeoutError."""
        for number in self._registrations(topic):
            self.wait_until(
                partial(self._is_tiered, topic, number),
                f"the closed segments of {topic}-{number} to be in the tier",
                timeout_s,
            )

    def wait_isr(self, topic: str, size: int | None = None, timeout_s: float = TIMEOUT_S) -> None:
        """Return once every partition has so many in-sync replicas; None: all of its replicas. TimeoutError."""

        def is_reached() -> bool:
            entries = self._registrations(topic).values()
            return all(len(entry.isr) == (len(entry.replicas) if size is None else size) for entry in entries)

        self.wait_until(is_reached, f"the ISR of {topic} to have {size or 'all'} members", timeout_s)

    def wait_leader(self, topic: str, partition: int = 0, timeout_s: float = TIMEOUT_S) -> int:
        """Return the leader, once a broker that runs leads the partition. TimeoutError."""
        self.wait_until(lambda: self._leads(topic, partition), f"a leader of {topic}-{partition}", timeout_s)
        return self.leader(topic, partition)

    # Clients.

    @overload
    def client(self, library: Literal["confluent"]) -> ConfluentClients: ...
    @overload
    def client(self, library: Literal["aiokafka"]) -> AiokafkaClients: ...
    @overload
    def client(self, library: Literal["kafka-python"]) -> KafkaPythonClients: ...
    def client(self, library: ClientName) -> Clients:
        """Return what makes producers and consumers of a library, with configs for tests."""
        return CLIENTS[library](self.bootstrap)

    def unique_topic(self, prefix: str = "topic") -> str:
        """Return a name that no other test of a shared cluster has."""
        return f"{prefix}-{random.SystemRandom().getrandbits(48):012x}"


def is_tiered(broker: Broker, log: PartitionLog) -> bool:
    """Whether the leader's next offset to upload is the first one of its active segment."""
    if broker.tier is None:
        return False
    partition = broker.hosted.partitions[log.state.topic_partition]
    answer = special_offset(
        partition.leader().view_now(),
        broker.tier.manager.ledger(partition.partition),
        EARLIEST_PENDING_UPLOAD_TIMESTAMP,
        FetchIsolation.LOG_END,
        LIST_OFFSETS_VERSION,
    )
    return isinstance(answer, OffsetAndEpoch) and answer.offset == log.state.segments.active.base_offset


async def _roll(key: TopicPartition, broker: Broker) -> bool:
    return await broker.hosted.partitions[key].log.roll()


async def _records(
    at: PartitionAt, start: int, end: int, address_of: Callable[[int], Address], operator: Operator
) -> list[ConsumedRecord]:
    return await operator.records(at, start, end, address_of)


def failures_of_broker(broker: Broker) -> list[asyncio.Future[str]]:
    """Return what is done when the broker must stop by itself."""
    return [] if broker.failed is None else [broker.failed]


def failures_of_controller(service: ControllerService) -> list[asyncio.Future[str]]:
    """Return what is done when the controller must stop by itself."""
    return [service.node.failed, service.controller.failed]


def _stop_or_kill(node: NodeThread[Broker]) -> None:
    """What is paused or cut off cannot stop in order, and is not waited for."""
    if node.can_stop:
        node.stop()
    else:
        node.kill()
