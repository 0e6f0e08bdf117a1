"""A broker with two log directories, one of which is on a disk that is ill: the other one never notices."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tierfetch.cli.local_cluster import LocalCluster
from tierfetch.cli.processes import poll
from tierfetch.tests.process.clients import create_topics
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
            assert on_sick
            assert on_well
            yield Scene(cluster, disk, on_sick, on_well)


def wait_left(cluster: LocalCluster, topics: tuple[str, ...]) -> None:
    """Wait until the broker is in no ISR of these topics, and leads none of them."""
    for _ in poll(TIMEOUT_S, f"broker {ILL} to leave the ISRs of {topics}"):
        found = [registration(cluster, topic) for topic in topics]
        if all(ILL not in each.isr and each.leader != ILL for each in found):
            return


def test_D1_a_disk_that_hangs_holds_up_no_other_directory_and_goes_offline(scene: Scene) -> None:
    """Acknowledgements of the other directory's topics go on before the disk is given up; then those of its own."""
    servers = scene.cluster.bootstrap_servers
    with ExitStack() as stack:
        producers = {topic: stack.enter_context(SteadyProducer(servers, topic)) for topic in TOPICS}
        for producer in producers.values():
            producer.wait_acknowledged(1)
        for operation in ("write", "fsync", "open", "create", "read"):
            scene.disk.hang("logs/*", operation)
        for topic in scene.on_well:
            producers[topic].wait_acknowledged(100)
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
def test_D1_a_disk_that_refuses_everything_costs_its_own_replicas_alone(scene: Scene, code: int) -> None:
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
