"""Whole brokers in the test's event loop, in one fake cluster, on ports that the system chooses."""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from tierfetch.broker.cluster.view import NewTopic, PartitionRegistration, TopicImage
from tierfetch.broker.config.broker_config import BrokerConfig, parse_broker_config
from tierfetch.broker.environment import NodeEnvironment
from tierfetch.broker.node import Broker, open_broker
from tierfetch.broker.replicas.partition import Partition
from tierfetch.broker.share.persister import LeaderPersister
from tierfetch.protocol.topics import TopicPartition
from tierfetch.tests.broker.waiting import until
from tierfetch.tests.fakes.cluster_view import FakeCluster, FakeClusterView

FAST = {
    "replica.fetch.wait.max.ms": "50",
    "replica.fetch.backoff.ms": "20",
    "replica.lag.time.max.ms": "400",
}


class Nodes:
    """Brokers by number; `stop` is in order, `crash` leaves the directory as it is, without a clean end."""

    def __init__(self, base: Path, configs: Mapping[str, str] | None = None) -> None:
        self.base = base
        self.configs = {**FAST, **(configs or {})}
        self._running: dict[int, Broker] = {}
        self._open: dict[int, AbstractAsyncContextManager[Broker]] = {}
        self._made = 0
        self.cluster = FakeCluster()
        self.views: dict[int, FakeClusterView] = {}
        """For the next start of a broker, in place of one that sees all at once."""
        self.share_persister: LeaderPersister | None = None
        """Keeps the state of share groups, which are off without."""
        self.operator = self.cluster.view()
        """What is done to the cluster from outside."""

    def __getitem__(self, number: int) -> Broker:
        return self._running[number]

    def directory(self, number: int) -> Path:
        return self.base / f"data-{number}"

    def config(self, number: int, **configs: str) -> BrokerConfig:
        properties = {
            "node.id": str(number),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(self.directory(number)),
            "controller.quorum.bootstrap.servers": "127.0.0.1:1",
            **self.configs,
            **{key.replace("_", "."): value for key, value in configs.items()},
        }
        config, warnings = parse_broker_config(properties, "test")
        assert warnings == []
        return config

    def make(self, number: int, **configs: str) -> AbstractAsyncContextManager[Broker]:
        self._made += 1
        view = self.views.pop(number, None) or self.cluster.view()
        environment = NodeEnvironment(
            rng=random.Random(self._made), cluster_view=view, share_persister=self.share_persister
        )
        return open_broker(self.config(number, **configs), environment)

    async def start(self, *numbers: int, **configs: str) -> None:
        for number in numbers:
            self._open[number] = opening = self.make(number, **configs)
            self._running[number] = await opening.__aenter__()

    async def stop(self, number: int) -> None:
        del self._running[number]
        await self._open.pop(number).__aexit__(None, None, None)

    async def close(self) -> None:
        for number in list(self._running):
            await self.stop(number)

    async def topic(self, name: str, *replicas: int, **configs: str) -> TopicImage:
        """One partition; returns once its replicas have their roles and are in sync."""
        view = self._running[replicas[0]].view
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        topic = await view.create_topic(NewTopic(name, -1, -1, (replicas,), settings))
        await until(lambda: all(self.hosts(number, name) for number in replicas))
        await until(lambda: self.partition(replicas[0], name).leadership is not None)
        return topic

    def hosts(self, number: int, topic: str) -> bool:
        return TopicPartition(topic, 0) in self._running[number].hosted.partitions

    def partition(self, number: int, topic: str) -> Partition:
        return self._running[number].hosted.partitions[TopicPartition(topic, 0)]

    def registration(self, topic: str) -> PartitionRegistration:
        """As the broker that knows most sees it now."""
        seen = [broker.view.image.topics[topic].partitions[0] for broker in self._running.values()]
        return max(seen, key=lambda entry: entry.partition_epoch)

    def log_bytes(self, number: int, topic: str) -> bytes:
        files = sorted((self.directory(number) / f"{topic}-0").glob("*.log"))
        return b"".join(file.read_bytes() for file in files)
