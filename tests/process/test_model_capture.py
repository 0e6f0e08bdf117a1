"""`tierfetch model capture` and `calibrate` beside a running cluster."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.model.calibration import Calibrations
from tierfetch.model.inventory import Inventory
from tierfetch.model.inventory_parts import Partition, Policy
from tierfetch.tests.process.clients import Librdkafka, create_topic

TOPIC = "captured"
VALUES = [b"%06d " % number + b"x" * 1000 for number in range(40)]
TIMEOUT_S = 60.0
RATES = ("nic_in_bytes_per_s", "nic_out_bytes_per_s", "disk_read_bytes_per_s", "disk_write_bytes_per_s", "disk_bytes")
KNOWN = (*(f"{key}=1 TB" for key in RATES), "cores=4", "tier.latency_ms=20", "tier.bandwidth_bytes_per_s=1 GB/s")


def model(*arguments: str | Path) -> str:
    command = [sys.executable, "-m", "tierfetch.cli.main", "model", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def tiered(shared_cluster: LocalCluster) -> LocalCluster:
    """Each call of `produce` fills a segment; the first are tiered, and the oldest are not local any more."""
    configs = {
        "remote.storage.enable": "true",
        "internal.segment.bytes": "60000",
        "local.retention.bytes": "150000",
    }
    create_topic(shared_cluster.bootstrap_servers, TOPIC, configs=configs)
    for _ in range(8):
        Librdkafka().produce(shared_cluster.bootstrap_servers, TOPIC, VALUES, "none")
    return shared_cluster


def captured(cluster: LocalCluster, out: Path) -> tuple[Inventory, Partition]:
    known = [f"--known={each}" for each in KNOWN]
    model("capture", "--bootstrap", cluster.bootstrap_servers, "--window", "0", "--out", out, *known)
    inventory = Inventory.read(out)
    (topic,) = (each for each in inventory.topics if each.name == TOPIC)
    return inventory, topic.partitions[0]


def test_sizes_are_those_on_the_disk_and_in_the_tier(tiered: LocalCluster, tmp_path: Path) -> None:
    for _ in poll(TIMEOUT_S, "tiering and local retention to show in a capture", 0.5):
        inventory, partition = captured(tiered, tmp_path / "cluster.yaml")
        if partition.local_bytes < partition.size_bytes and partition.tiered_bytes > 0:
            break
    directory = tiered.data_directory(partition.leader) / f"{TOPIC}-0"
    local = sum(path.stat().st_size for path in directory.glob("*.log"))
    tier = sum(path.stat().st_size for path in (tiered.base / "tier").glob(f"*/{TOPIC}-0-*/*.log"))
    assert partition.local_bytes == local
    assert partition.tiered_bytes <= partition.size_bytes <= local + tier
    assert partition.tiered_bytes == tier
    assert sorted(partition.isr) == sorted(partition.replicas) == [1, 2]
    assert inventory.bootstrap_policy is Policy.LOCAL_LOG_START
    assert inventory.rlm.interval_s == 1


def test_a_partition_that_lies_in_the_tier_alone_has_its_size(tiered: LocalCluster, tmp_path: Path) -> None:
    """Every closed segment is uploaded and deleted; the active one, by age, too."""
    topic = "all-tiered"
    configs = {"remote.storage.enable": "true", "segment.ms": "1000", "local.retention.ms": "1000"}
    create_topic(tiered.bootstrap_servers, topic, configs=configs)
    Librdkafka().produce(tiered.bootstrap_servers, topic, VALUES, "none")
    out = tmp_path / "cluster.yaml"
    for _ in poll(TIMEOUT_S, "all of a topic to be in the tier alone", 0.5):
        captured(tiered, out)
        (found,) = (each for each in Inventory.read(out).topics if each.name == topic)
        if found.partitions[0].local_bytes == 0:
            break
    (partition,) = found.partitions
    tier = sum(path.stat().st_size for path in (tiered.base / "tier").glob(f"*/{topic}-0-*/*.log"))
    assert partition.size_bytes == partition.tiered_bytes == tier > len(b"".join(VALUES))


def test_model_takes_what_was_captured(tiered: LocalCluster, tmp_path: Path) -> None:
    out = tmp_path / "cluster.yaml"
    captured(tiered, out)
    assert "broker 2" in model("replace", "--cluster", out, "--broker", "2")


def test_calibration_of_a_live_cluster(tiered: LocalCluster, tmp_path: Path) -> None:
    out = tmp_path / "calibration.json"
    where = ("--bootstrap", tiered.bootstrap_servers, "--read-mb", "1")
    shown = model("calibrate", "--out", out, "--dir", tmp_path, "--size-mb", "1", *where)
    assert "broker 1: fetch; round trip" in shown
    assert Calibrations.read(out).machine is not None
