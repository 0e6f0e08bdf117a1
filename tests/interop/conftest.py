"""Apache Kafka itself as the judge of what we write. Every test here skips, with the reason, where it cannot be run.

With `--secure` our clusters are secured, Java's tools get the file that our commands get, and what needs Apache Kafka's
own brokers, which are not, is left out.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tierfetch.bench.lab.jars import KafkaUnavailableError, kafka_jars
from tierfetch.bench.lab.kafka import SHORT_LIVED_JVM, KafkaCluster
from tierfetch.log.disk import OsDisk
from tierfetch.tests.interop.brokers import BROKER
from tierfetch.tests.interop.quotas import remove_quotas
from tierfetch.tests.process.securing import leave_out_plaintext, secured_clusters

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.interop)
            leave_out_plaintext(config, item, if_it_uses="shared_cluster")


@pytest.fixture(scope="session", autouse=True)
def kafka() -> Path:
    """The directory of Kafka's jars."""
    try:
        return kafka_jars()
    except KafkaUnavailableError as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session", autouse=True)
def clusters_are_secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """As in `tests/process`."""
    if not request.config.getoption("--secure"):
        yield
        return
    with secured_clusters(tmp_path_factory.mktemp("security")):
        yield


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
def shared_cluster(kafka: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Start what `cluster` gives to one test after the other."""
    at_once = {"log.initial.task.delay.ms": "1000"}  # retention too: 30 seconds by default
    base = tmp_path_factory.mktemp("kafka")
    with KafkaCluster(base, (BROKER,), broker_configs=at_once, heap="512m", jvm=SHORT_LIVED_JVM) as running:
        yield running


@pytest.fixture
async def cluster(shared_cluster: KafkaCluster) -> AsyncIterator[KafkaCluster]:
    """Apache Kafka with one broker, 1, tiering into a local directory; for all tests, each with topics of its own.

    A test that leaves a quota or a broken node fails itself, and none of the others.
    """
    for node in shared_cluster.nodes:
        if not shared_cluster.is_running(node):
            shared_cluster.start(node)
            shared_cluster.wait_serving(node)
    yield shared_cluster
    for node in filter(shared_cluster.is_running, shared_cluster.nodes):
        if shared_cluster.process(node).poll() is not None:
            shared_cluster.stop(node)
            pytest.fail(f"node {node} of Apache Kafka has ended:\n{shared_cluster.log_tail(node)}")
    if shared_cluster.is_running(BROKER):
        assert await remove_quotas(shared_cluster.port(BROKER)) == ()
