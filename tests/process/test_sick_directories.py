"""Log directories on a disk that is ill: it hangs, refuses everything, or is almost full."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka
import pytest

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.tests.process import connecting
from tierfetch.tests.process.clients import Librdkafka, create_topics
from tierfetch.tests.process.looks import registration
from tierfetch.tests.process.operating import TIMEOUT_S, wait_all_in_sync
from tierfetch.tests.process.producing import SteadyProducer
from tierfetch.tests.process.sick_disk import SickDisk, why_not

pytestmark = [pytest.mark.faults, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]

BROKERS = (1, 2, 3)
ILL = 2
"""The broker with the sick disk."""
TOPICS = [f"t{number}" for number in range(6)]
HANG_MS = 10_000
"""Long beside what the acknowledgements of the other directory take while it lasts."""


@dataclass(frozen=True)
class Scene:
    cluster: LocalCluster
    disk: SickDisk
    on_sick: tuple[str, ...]
    on_well: tuple[str, ...]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    configs = {"log.dir.hang.timeout.ms": str(HANG_MS), "replica.lag.time.max.ms": "600000"}
    with SickDisk(tmp_path / "sick") as disk:
        cluster = LocalCluster(tmp_path / "cluster", BROKERS, configs=configs)
        directories = (cluster.data_directory(ILL), disk.path / "logs")
        directories[1].mkdir()
        cluster.broker_configs[ILL] = {"log.dirs": ",".join(map(str, directories))}
        with cluster:
            create_topics(cluster.bootstrap_servers, TOPICS, replicas=3)
            wait_all_in_sync(cluster)
            on_sick = tuple(topic for topic in TOPICS if (directories[1] / f"{topic}-0").exists())
            on_well = tuple(topic for topic in TOPICS if topic not in on_sick)
            assert on_sick, cluster.log_tail(ILL)
            assert on_well
            try:
                yield Scene(cluster, disk, on_sick, on_well)
            finally:
                disk.heal()  # a process that waits for the disk cannot be ended


def wait_left(cluster: LocalCluster, topics: tuple[str, ...]) -> None:
    """Wait until the broker is in no ISR of these topics, and leads none of them."""
    for _ in poll(TIMEOUT_S, f"broker {ILL} to leave the ISRs of {topics}"):
        found = [registration(cluster, topic) for topic in topics]
        if all(ILL not in each.isr and each.leader != ILL for each in found):
            return


def test_D4_a_disk_that_hangs_holds_up_no_other_directory_and_goes_offline(scene: Scene) -> None:
    """Acknowledgements of the other directory's topics go on before the disk is given up; then those of its own."""
    servers = scene.cluster.bootstrap_servers
    with ExitStack() as stack:
        producers = {topic: stack.enter_context(SteadyProducer(servers, topic)) for topic in TOPICS}
        for producer in producers.values():
            producer.wait_acknowledged(1)
        for operation in ("write", "fsync", "open", "create", "read"):
            scene.disk.hang("logs/*", operation)
        for topic in scene.on_well:
            producers[topic].wait_acknowledged(10)
        assert "goes offline" not in scene.cluster.log_file(ILL).read_text(), "the disk was given up before"
        wait_left(scene.cluster, scene.on_sick)
        for producer in producers.values():
            producer.wait_acknowledged(100)
        for topic in scene.on_well:
            assert set(registration(scene.cluster, topic).isr) == set(BROKERS)
        scene.disk.heal()
    for producer in producers.values():
        producer.check_consumed()


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS, errno.ENOSPC], ids=errno.errorcode.get)
def test_D4_a_disk_that_refuses_everything_costs_its_own_replicas_alone(scene: Scene, code: int) -> None:
    servers = scene.cluster.bootstrap_servers
    with ExitStack() as stack:
        producers = {topic: stack.enter_context(SteadyProducer(servers, topic)) for topic in TOPICS}
        for producer in producers.values():
            producer.wait_acknowledged(1)
        for operation in ("write", "create", "rename", "mkdir", "truncate", "fsync"):
            scene.disk.fail("logs/*", operation, code)
        wait_left(scene.cluster, scene.on_sick)
        for producer in producers.values():
            producer.wait_acknowledged(100)
        for topic in scene.on_well:
            assert set(registration(scene.cluster, topic).isr) == set(BROKERS)
    for producer in producers.values():
        producer.check_consumed()


def test_D5_an_almost_full_disk_refuses_produce_alone_and_ends_by_itself(tmp_path: Path) -> None:
    """Consumers read, groups commit, and nothing needs a restart."""
    size = 512 << 20
    with SickDisk(tmp_path / "sick") as disk:
        configs = {"log.dir.free.bytes.min": str(size // 2), "offsets.topic.num.partitions": "1"}
        cluster = LocalCluster(tmp_path / "cluster", (1,), configs=configs)
        directory = disk.path / "logs"
        directory.mkdir()
        cluster.broker_configs[1] = {"log.dirs": str(directory)}
        with cluster:
            create_topics(cluster.bootstrap_servers, ["t"], replicas=1)
            servers, client = cluster.bootstrap_servers, Librdkafka()
            values = [b"%03d" % number for number in range(100)]
            client.produce(servers, "t", values, "none")
            disk.limit(size // 2)
            log = cluster.log_file(1)
            for _ in poll(TIMEOUT_S, "produce to be refused"):
                if "produce to its partitions is refused" in log.read_text():
                    break
            with SteadyProducer(servers, "t") as producer:
                assert client.consume(servers, "t", len(values)) == values
                commit(servers, "group", "t", 42)
                assert producer.acknowledged == {}
                disk.limit(size)
                producer.wait_acknowledged(10)
            assert "produce is accepted again" in log.read_text()
            assert "out of service" not in log.read_text()


def commit(servers: str, group: str, topic: str, offset: int) -> None:
    """Commit an offset; KafkaException where that fails."""
    consumer = confluent_kafka.Consumer({**connecting.librdkafka(servers), "group.id": group})
    try:
        consumer.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, offset)], asynchronous=False)
    finally:
        consumer.close()
