"""A cluster in a world: production controllers and brokers, and a client with a host of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tierfetch.broker.cluster.view import ClusterImage, PartitionRegistration
from tierfetch.broker.config.broker_config import BrokerConfig, parse_broker_config
from tierfetch.broker.node import Broker, open_broker
from tierfetch.broker.replicas.partition import Partition
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.fetch.messages import FetchPartition, FetchRequest, FetchTopic
from tierfetch.protocol.net.client import Address, BrokerUnavailableError, KafkaClient
from tierfetch.protocol.records import Record, build_batch, iter_batches, iter_records
from tierfetch.protocol.topics import TopicPartition
from tierfetch.protocol.wire.produce import ACKS_ALL, ProducePartition, ProduceRequest, ProduceTopic
from tierfetch.sim.machine.world import World
from tierfetch.sim.scenarios.controllers import (
    CONTROLLER_PORT,
    controller_config,
    controller_host,
    open_controller_process,
)
from tierfetch.tests.messages import request_of

BROKERS = (1, 2, 3)
PORT = 9092
NO_KEYS: Mapping[str, str] = {}


def broker_host(number: int) -> str:
    return f"broker-{number}"


class Cluster:
    """Brokers 1, 2 and so on, under controllers 101, 102 and so on; keys are Kafka's, for all of a kind."""

    def __init__(
        self,
        world: World,
        *,
        controllers: int = 1,
        brokers: Sequence[int] = BROKERS,
        controller_keys: Mapping[str, str] = NO_KEYS,
        broker_keys: Mapping[str, str] = NO_KEYS,
    ) -> None:
        self.world = world
        self.controllers = {controller_host(node_id): node_id for node_id in range(101, 101 + controllers)}
        self.brokers = {broker_host(number): number for number in brokers}
        self.addresses = [Address(name, PORT) for name in self.brokers]
        self._controller_keys = dict(controller_keys)
        self._broker_keys = dict(broker_keys)
        self._administrator = KafkaClient(client_id="administrator", random=world.rng("administrator"))

    async def start(self) -> None:
        for names in (self.controllers, self.brokers):
            await asyncio.gather(*(self.start_node(name) for name in names))

    async def start_node(self, name: str) -> None:
        host = self.world.host(name)
        if name in self.controllers:
            voters = tuple(self.controllers.values())
            controller = controller_config(self.controllers[name], voters, self._controller_keys)
            await host.start(lambda machine: open_controller_process(controller, machine))
        else:
            broker = self._broker_config(name)
            await host.start(lambda machine: open_broker(broker, machine))

    def _broker_config(self, name: str) -> BrokerConfig:
        properties = {
            "node.id": str(self.brokers[name]),
            "listeners": f"PLAINTEXT://{name}:{PORT}",
            "log.dirs": "/data",
            "controller.quorum.bootstrap.servers": ",".join(f"{host}:{CONTROLLER_PORT}" for host in self.controllers),
            **self._broker_keys,
        }
        config, warnings = parse_broker_config(properties, "test")
        assert warnings == []
        return config

    # Looking.

    def broker(self, number: int) -> Broker:
        node = self.world.host(broker_host(number)).node
        assert isinstance(node, Broker), f"broker {number} is down"
        return node

    @property
    def image(self) -> ClusterImage:
        """The newest that a running broker has."""
        running = [node for name in self.brokers if (node := self.world.host(name).node) is not None]
        return max(running, key=lambda broker: broker.view.replayed_offset()).view.image

    def registration(self, topic: str = "t") -> PartitionRegistration:
        return self.image.topics[topic].partitions[0]

    def decided_isr(self, topic: str = "t") -> tuple[int, ...]:
        """As the active controller has it, whether brokers run or not."""
        image = self.world.host(self.active_controller()).node.service.controller.core.state.image
        return image.topic(topic).partitions[0].isr

    def leader(self, topic: str = "t") -> str:
        """Its host."""
        return broker_host(self.registration(topic).leader)

    def replica(self, number: int, topic: str = "t") -> Partition:
        return self.broker(number).hosted.partitions[TopicPartition(topic, 0)]

    def active_controller(self) -> str:
        for name in self.controllers:
            node = self.world.host(name).node
            if node is not None and node.service.controller.is_active:
                return name
        raise AssertionError("no controller is active")

    async def until(self, holds: Callable[[], bool], timeout_s: float = 60) -> None:
        async with asyncio.timeout(timeout_s):
            while not holds():  # noqa: ASYNC110 - virtual time waits for free
                await asyncio.sleep(0.01)

    # Changing.

    async def ask(self, api: ApiKey, body: dict[str, Any]) -> Any:
        host = self.world.host("administrator")
        return await host.run(self._administrator.send(self.addresses[0], request_of(api, body), timeout_s=10))

    async def create_topic(self, name: str = "t", *replicas: int, **configs: str) -> None:
        """One partition, by default of all brokers; returns when all of them know it, and its leader leads."""
        assigned = list(replicas or self.brokers.values())
        topic = {
            "name": name,
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": [{"partition_index": 0, "broker_ids": assigned}],
            "configs": [{"name": key, "value": value} for key, value in configs.items()],
        }
        answer = await self.ask(ApiKey.CREATE_TOPICS, {"topics": [topic], "timeout_ms": 10_000, "validate_only": False})
        assert answer.topics[0].error_code is ErrorCode.none, answer
        partition = TopicPartition(name, 0)
        await self.until(lambda: all(partition in self.broker(number).hosted.partitions for number in assigned))
        await self.until(lambda: self.replica(assigned[0], name).leadership is not None)

    async def elect(self, number: int, topic: str = "t") -> None:
        """An in-sync replica becomes the preferred leader, and leads."""
        replicas = [number, *(each for each in self.registration(topic).replicas if each != number)]
        partitions = [{"partition_index": 0, "replicas": replicas}]
        topics = [{"name": topic, "partitions": partitions}]
        answer = await self.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, {"timeout_ms": 10_000, "topics": topics})
        assert answer.responses[0].partitions[0].error_code is ErrorCode.none, answer
        asked = [{"topic": topic, "partitions": [0]}]
        await self.ask(ApiKey.ELECT_LEADERS, {"election_type": 0, "topic_partitions": asked, "timeout_ms": 10_000})
        await self.until(lambda: self.registration(topic).leader == number)


class Client:
    """Everything goes to the leader of `t` that any running broker names."""

    def __init__(self, cluster: Cluster, name: str = "client-1") -> None:
        self.cluster = cluster
        self.host = cluster.world.host(name)
        self.client = KafkaClient(client_id=name, random=cluster.world.rng(name))

    def leader(self) -> Address:
        image = self.cluster.image
        broker = image.brokers.get(image.topics["t"].partitions[0].leader)
        if broker is None:
            raise BrokerUnavailableError("t-0 has no leader now")
        return Address(broker.host, broker.port)

    async def produce(self, value: bytes) -> int:
        """The offset of the record."""
        batch = build_batch([Record(0, self.host.clock.now_ms(), None, value, ())], base_offset=0)
        request = ProduceRequest(
            acks=ACKS_ALL,
            timeout_ms=10_000,
            topics=(ProduceTopic((ProducePartition(0, batch),), "t", self.cluster.image.topics["t"].topic_id),),
        )
        connection = await self.client.connection(self.leader())
        response = await connection.send(request)
        answer = response.topics[0].partitions[0]
        assert answer.error_code is ErrorCode.none, answer
        return answer.base_offset

    async def fetch(self, offset: int, max_wait_ms: int = 500) -> list[bytes]:
        wanted = FetchPartition(0, fetch_offset=offset, partition_max_bytes=1_000_000)
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1_000_000,
            topics=(FetchTopic((wanted,), "t", self.cluster.image.topics["t"].topic_id),),
        )
        response = await self.client.send(self.leader(), request)
        answer = response.topics[0].partitions[0]
        assert answer.error_code is ErrorCode.none, answer
        data = answer.records or b""
        return [
            record.value
            for position, header in iter_batches(data)
            for record in iter_records(data, position, header)
            if record.offset >= offset and record.value is not None
        ]
