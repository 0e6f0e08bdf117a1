"""A broker with several log directories: the controller knows what lies where, and one directory may be missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.log.core import META_PROPERTIES, decode_meta_properties
from tierfetch.tests.process.clients import TIMEOUT_S, Librdkafka, create_topic
from tierfetch.tests.process.looks import image

PARTITIONS = 4


@pytest.fixture
def second(tmp_path: Path) -> Path:
    """Broker 1's second directory."""
    return tmp_path / "second"


@pytest.fixture
def cluster(tmp_path: Path, second: Path) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path, (1, 2))
    cluster.broker_configs = {1: {"log.dirs": f"{cluster.data_directory(1)},{second}"}}
    with cluster:
        yield cluster


def wait_in_sync(cluster: LocalCluster, partitions: set[int]) -> None:
    """Until broker 1 is in sync in these, and in no others."""
    for _ in poll(TIMEOUT_S, f"broker 1 to be in sync in {partitions} alone"):
        known = image(cluster).topics["t"].partitions
        if {number for number, entry in known.items() if 1 in entry.isr} == partitions:
            return


def test_C1_a_directory_that_is_missing_takes_its_partitions_along_and_no_others(
    cluster: LocalCluster, second: Path
) -> None:
    create_topic(cluster.bootstrap_servers, "t", partitions=PARTITIONS)
    Librdkafka().produce(cluster.bootstrap_servers, "t", [b"1"], "none")
    wait_in_sync(cluster, set(range(PARTITIONS)))
    path = second / META_PROPERTIES
    directory_id = decode_meta_properties(path.read_bytes(), name=str(path)).directory_id
    there = {int(path.name.rpartition("-")[2]) for path in second.glob("t-[0-9]")}
    assert 0 < len(there) < PARTITIONS
    for _ in poll(TIMEOUT_S, "the controller to know what lies where"):
        known = image(cluster).topics["t"].partitions
        if {number for number, entry in known.items() if entry.directory_of(1) == directory_id} == there:
            break
    cluster.kill(1)
    second.rename(second.with_name("elsewhere"))
    second.write_text("no directory")
    cluster.start(1)
    cluster.wait_serving(1)
    wait_in_sync(cluster, set(range(PARTITIONS)) - there)
    Librdkafka().produce(cluster.bootstrap_servers, "t", [b"2"], "none")
    assert Librdkafka().consume(cluster.bootstrap_servers, "t", 2) == [b"1", b"2"]
    assert str(second) in cluster.log_file(1).read_text()
    cluster.kill(1)
    second.unlink()
    second.with_name("elsewhere").rename(second)
    cluster.start(1)
    cluster.wait_serving(1)
    wait_in_sync(cluster, set(range(PARTITIONS)))
    assert "Traceback" not in cluster.log_file(1).read_text()
