"""Three production brokers in a world, and a client of their own host that produces and fetches through the wire."""

from __future__ import annotations

from uuid import UUID

from tierfetch.broker.cluster_view import ClusterImage, NewTopic
from tierfetch.broker.config import BrokerConfig, parse
from tierfetch.broker.node import Broker
from tierfetch.broker.static_changes import create_topic
from tierfetch.protocol.client import Address, BrokerUnavailableError, KafkaClient
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.fetch_wire import FetchPartition, FetchRequest, FetchTopic
from tierfetch.protocol.produce_wire import ACKS_ALL, ProducePartition, ProduceRequest, ProduceTopic
from tierfetch.protocol.records import Record, build_batch, iter_batches, iter_records
from tierfetch.sim.world import World

TOPIC_ID = UUID(int=7)
BROKERS = (1, 2, 3)


def broker_config(number: int, **overrides: str | None) -> BrokerConfig:
    """None takes a key away."""
    properties = {
        "node.id": str(number),
        "listeners": f"PLAINTEXT://broker-{number}:9092",
        "log.dirs": "/data",
        "static.cluster.file": "/none",
        **{key.replace("_", "."): value for key, value in overrides.items()},
    }
    config, warnings = parse({key: value for key, value in properties.items() if value is not None}, "test")
    assert warnings == []
    return config


async def start_brokers(world: World, **overrides: str) -> None:
    for number in BROKERS:
        await start_broker(world, number, **overrides)


async def start_broker(world: World, number: int, **overrides: str) -> Broker:
    config = broker_config(number, **overrides)
    return await world.host(f"broker-{number}").start(lambda environment: Broker(config, environment))


async def make_topic(world: World, name: str = "t", *replicas: int, **configs: str) -> None:
    topic = NewTopic(name, -1, -1, (replicas or BROKERS,), {"min.insync.replicas": "2", **configs})
    world.cluster.change(lambda image: create_topic(image, topic, TOPIC_ID))


class Client:
    """Everything goes to the leader that `image` names."""

    def __init__(self, world: World, name: str = "client-1") -> None:
        self.world = world
        self.host = world.host(name)
        self.client = KafkaClient(client_id=name, random=world.rng(name))

    def image(self) -> ClusterImage:
        return self.world.cluster.image

    def leader(self) -> Address:
        image = self.image()
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
            topics=(ProduceTopic((ProducePartition(0, batch),), "t", self.image().topics["t"].topic_id),),
        )
        connection = await self.client.connection(self.leader())
        response = await connection.produce(request)
        answer = response.topics[0].partitions[0]
        assert answer.error_code is ErrorCode.none, answer
        return answer.base_offset

    async def fetch(self, offset: int, max_wait_ms: int = 500) -> list[bytes]:
        wanted = FetchPartition(0, fetch_offset=offset, partition_max_bytes=1_000_000)
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1_000_000,
            topics=(FetchTopic((wanted,), "t", self.image().topics["t"].topic_id),),
        )
        response = await self.client.fetch(self.leader(), request)
        answer = response.topics[0].partitions[0]
        assert answer.error_code is ErrorCode.none, answer
        data = answer.records or b""
        return [
            record.value
            for position, header in iter_batches(data)
            for record in iter_records(data, position, header)
            if record.offset >= offset and record.value is not None
        ]
