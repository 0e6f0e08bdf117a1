"""Apache Kafka itself as the judge of what we write. Every test here skips, with the reason, where it cannot be run."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tierfetch.bench.lab.jars import KafkaUnavailableError, kafka_jars
from tierfetch.bench.lab.kafka import KafkaCluster
from tierfetch.log.disk import OsDisk

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="session", autouse=True)
def kafka() -> Path:
    """The directory of Kafka's jars."""
    try:
        return kafka_jars()
    except KafkaUnavailableError as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def jshell(kafka: Path) -> None:
    if shutil.which("jshell") is None:
        pytest.skip("this test drives Kafka's classes through `jshell`: a JDK is needed, not only a Java runtime")


@pytest.fixture
async def disk() -> AsyncIterator[OsDisk]:
    disk = OsDisk()
    yield disk
    await disk.close()


@pytest.fixture(scope="session")
def cluster(kafka: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Apache Kafka with one broker, 1, tiering into a local directory; for all tests, each with topics of its own."""
    with KafkaCluster(tmp_path_factory.mktemp("kafka"), (1,), heap="512m") as running:
        yield running
