"""A disk full of data, with the metadata log on it: the controller writes on, and the data comes back by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, PartitionMetadata

from tierfetch.cli.local.processes import poll
from tierfetch.cli.local.servers import LocalServers
from tierfetch.tests.process import connecting
from tierfetch.tests.process.clients import Librdkafka, create_topics
from tierfetch.tests.process.sick_disk import SickDisk, why_not

pytestmark = [pytest.mark.faults, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]

NODES = (1, 2, 3)
FULL = 1
"""The node on the small disk."""
TOPICS = ("t0", "t1", "t2")
TIMEOUT_S = 90.0
FREE_BYTES_MIN = 8 << 20
DISK_BYTES = 24 << 20
RECORDS = 40_000


@dataclass(frozen=True)
class Scene:
    servers: LocalServers
    disk: SickDisk
    topic: str
    """Led by another node."""

    def wait(self, what: str, holds: Callable[[PartitionMetadata], bool]) -> None:
        admin = AdminClient(connecting.librdkafka(self.servers.bootstrap_servers))
        for _ in poll(TIMEOUT_S, what):
            if holds(admin.list_topics(self.topic, timeout=10).topics[self.topic].partitions[0]):
                return

    def wait_logged(self, text: str) -> None:
        for _ in poll(TIMEOUT_S, text):
            if text in self.servers.log_file(FULL).read_text():
                return

    def metadata_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.disk.device.glob("node/__cluster_metadata-0/*.log"))


def preferred_leader_of(servers: LocalServers, topic: str) -> int:
    """The leader now may be another one, until this one has joined the ISR."""
    admin = AdminClient(connecting.librdkafka(servers.bootstrap_servers))
    preferred: int = admin.list_topics(topic, timeout=10).topics[topic].partitions[0].replicas[0]
    return preferred


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    configs = {
        "log.dir.free.bytes.min": str(FREE_BYTES_MIN),
        "log.segment.bytes": "1048576",
        "replica.lag.time.max.ms": "3000",
    }
    with SickDisk(tmp_path / "sick") as disk:
        # Before the node starts: what the disk loses to others is noticed a measurement (1 s) later.
        disk.limit(DISK_BYTES)
        (disk.path / "node").mkdir()
        base = tmp_path / "cluster"
        base.mkdir()
        (base / f"server-{FULL}").symlink_to(disk.path / "node")
        with LocalServers(base, NODES, configs=configs) as servers:
            create_topics(servers.bootstrap_servers, TOPICS, replicas=3)
            (topic, *_) = [topic for topic in TOPICS if preferred_leader_of(servers, topic) != FULL]
            yield Scene(servers, disk, topic)


def produce(servers: str, topic: str, count: int) -> None:
    """Acknowledged by the leader alone."""
    producer = confluent_kafka.Producer({**connecting.librdkafka(servers), "acks": 1})
    for number in range(count):
        producer.produce(topic, b"%06d" % number + bytes(1_000), partition=0)
        if number % 1_000 == 0:
            producer.poll(0.1)
    assert producer.flush(TIMEOUT_S) == 0


def test_D5_with_the_disk_full_of_data_the_controller_writes_metadata_and_all_of_it_comes_back(scene: Scene) -> None:
    servers = scene.servers.bootstrap_servers
    scene.wait("all in sync", lambda part: set(part.isrs) == set(NODES) and part.leader == part.replicas[0])
    produce(servers, scene.topic, RECORDS)
    scene.wait_logged("its replicas follow no leader and leave their ISRs")
    scene.wait("the full node to leave the ISR", lambda part: FULL not in part.isrs)
    before = scene.metadata_bytes()
    for number in range(30):
        create_topics(servers, [f"more-{number}"], replicas=1)
    assert scene.metadata_bytes() > before
    kept = DISK_BYTES - scene.disk.used_bytes()
    assert kept > FREE_BYTES_MIN // 4, "what is kept for metadata was used up"
    log = scene.servers.log_file(FULL).read_text()
    assert "No space left" not in log
    scene.disk.limit(1 << 30)
    scene.wait_logged("its replicas follow their leaders again")
    scene.wait("all in sync again", lambda part: set(part.isrs) == set(NODES))
    values = Librdkafka().consume(servers, scene.topic, RECORDS)
    assert [value[:6] for value in values] == [b"%06d" % number for number in range(RECORDS)]
    assert "Traceback" not in scene.servers.log_file(FULL).read_text()
