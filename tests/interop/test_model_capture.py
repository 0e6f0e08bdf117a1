"""`tierfetch model capture` of an Apache Kafka cluster: the same questions, other answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tierfetch.bench.lab.kafka import KafkaCluster
from tierfetch.cli.local.processes import poll
from tierfetch.cli.model.command import model
from tierfetch.cli.tier import tier
from tierfetch.cli.tier.report import Listing
from tierfetch.model.inventory import Inventory
from tierfetch.model.inventory_parts import Partition, Policy
from tierfetch.tests.interop.brokers import BROKER
from tierfetch.tests.interop.clients import TIMEOUT_S, create_topic, produce_transactions
from tierfetch.tests.interop.histories import TOPIC_CONFIGS

TOPIC = "captured-by-model"
TIERED = "captured-all-tiered"
KEYS = ("nic_in_bytes_per_s", "nic_out_bytes_per_s", "disk_read_bytes_per_s", "disk_write_bytes_per_s", "cores")
KNOWN = [f"--known={key}=1000000000" for key in (*KEYS, "tier.latency_ms", "tier.bandwidth_bytes_per_s")]


def captured(cluster: KafkaCluster, out: Path) -> tuple[Inventory, Partition]:
    arguments = ["capture", "--bootstrap", cluster.bootstrap_servers, "--window", "0", "--out", str(out), *KNOWN]
    result = CliRunner().invoke(model, arguments)
    assert result.exit_code == 0, result.output
    inventory = Inventory.read(out)
    (topic,) = (each for each in inventory.topics if each.name == TOPIC)
    return inventory, topic.partitions[0]


def test_sizes_offsets_and_policy(cluster: KafkaCluster, tmp_path: Path) -> None:
    create_topic(cluster.bootstrap_servers, TOPIC, {"remote.storage.enable": "true", **TOPIC_CONFIGS})
    for compression in ("none", "zstd", "none"):
        produce_transactions(cluster.bootstrap_servers, TOPIC, compression)
    for _ in poll(TIMEOUT_S, "something to be tiered", 0.5):
        inventory, partition = captured(cluster, tmp_path / "kafka.yaml")
        if partition.tiered_bytes > 0:
            break
    directory = cluster.data_directory(BROKER) / f"{TOPIC}-0"
    assert partition.local_bytes == pytest.approx(
        sum(path.stat().st_size for path in directory.glob("*.log")), rel=0.01
    )
    listed = CliRunner().invoke(tier, ["ls", "--bootstrap", cluster.bootstrap_servers, "--topic", TOPIC, "--json"])
    assert 0 < partition.tiered_bytes <= partition.size_bytes
    assert partition.tiered_bytes <= Listing.model_validate_json(listed.stdout).size_bytes
    assert partition.leader == BROKER
    assert inventory.bootstrap_policy is Policy.KAFKA
    assert inventory.brokers[0].disk_bytes > 1e9


def test_a_partition_that_lies_in_the_tier_alone_has_its_size(cluster: KafkaCluster, tmp_path: Path) -> None:
    configs = {"remote.storage.enable": "true", "segment.ms": "1000", "local.retention.ms": "1000"}
    create_topic(cluster.bootstrap_servers, TIERED, configs)
    produce_transactions(cluster.bootstrap_servers, TIERED, "none")
    for _ in poll(TIMEOUT_S, "all of a topic to be in the tier alone", 1.0):
        inventory, _ = captured(cluster, tmp_path / "kafka.yaml")
        (topic,) = (each for each in inventory.topics if each.name == TIERED)
        if topic.partitions[0].local_bytes == 0:
            break
    listed = CliRunner().invoke(tier, ["ls", "--bootstrap", cluster.bootstrap_servers, "--topic", TIERED, "--json"])
    size = Listing.model_validate_json(listed.stdout).size_bytes
    assert topic.partitions[0].size_bytes == topic.partitions[0].tiered_bytes == size > 0
