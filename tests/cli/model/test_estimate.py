"""From what a cluster tells to an inventory."""

from __future__ import annotations

from typing import Any

import pytest

from tierfetch.cli.model.estimate import FILL_IN, TIER_UNKNOWN, UNKNOWN_TO_ALL, Captured, capture
from tierfetch.cli.model.snapshot import BrokerState, Offsets, PartitionState, Snapshot
from tierfetch.model.inventory import Inventory, InventoryError

KNOWN = {**dict.fromkeys(UNKNOWN_TO_ALL, "1e9"), **{f"tier.{key}": "1e9" for key in TIER_UNKNOWN}}


def snapshot(**changes: Any) -> Snapshot:
    offsets = Offsets(log_start=0, local_log_start=600, last_tiered=799, next_upload=800, log_end=1000)
    values: dict[str, Any] = {
        "taken_at_s": 0.0,
        "brokers": {each: BrokerState(id=each, rack="r", disk_bytes=10**12) for each in (1, 2)},
        "topic_configs": {"t": {"remote.storage.enable": "true", "segment.bytes": "1000", "min.insync.replicas": "2"}},
        "partitions": {("t", 0): state(offsets)},
        "local_bytes": {(1, "t", 0): 40_000, (2, "t", 0): 9_000},
    }
    return Snapshot(**{**values, **changes})


def state(offsets: Offsets | None, index: int = 0, **changes: Any) -> PartitionState:
    values: dict[str, Any] = {"leader": 1, "replicas": (1, 2), "isr": (1, 2)}
    return PartitionState(topic="t", index=index, offsets=offsets, **{**values, **changes})


def partition(captured: Captured, index: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = captured.document["topics"][0]["partitions"][index]
    return found


def sizes(captured: Captured, index: int = 0) -> tuple[int, int, int]:
    found = partition(captured, index)
    return found["size_bytes"], found["local_bytes"], found["tiered_bytes"]


def test_bytes_below_the_local_start_are_as_dense_as_those_above() -> None:
    assert sizes(capture(snapshot(), None, KNOWN, "c")) == (100_000, 40_000, 80_000)


def test_document_is_an_inventory() -> None:
    inventory = Inventory.from_document(capture(snapshot(), None, KNOWN, "c").document)
    assert inventory.partition_count == 1
    assert inventory.topics[0].min_insync_replicas == 2
    assert inventory.brokers[0].rack == "r"


def test_what_no_request_tells_is_refused_by_name_until_filled_in() -> None:
    captured = capture(snapshot(), None, {}, "c")
    with pytest.raises(InventoryError) as error:
        Inventory.from_document(captured.document)
    for key in UNKNOWN_TO_ALL:
        assert f"broker 1 {key}" in str(error.value)
        assert any(key in line for line in captured.unknown)
    for key in TIER_UNKNOWN:
        assert f"tier {key}" in str(error.value)


def test_next_upload_that_kafka_does_not_tell_is_behind_the_last_tiered() -> None:
    offsets = Offsets(log_start=0, local_log_start=900, last_tiered=999, log_end=1000)
    captured = capture(snapshot(partitions={("t", 0): state(offsets)}), None, KNOWN, "c")
    size, _, tiered = sizes(captured)
    assert size == tiered


def test_empty_local_log_takes_the_topics_usual_record() -> None:
    idle = Offsets(log_start=0, local_log_start=1000, last_tiered=999, log_end=1000)
    found = snapshot(
        partitions={**snapshot().partitions, ("t", 1): state(idle, 1)},
        local_bytes={**snapshot().local_bytes, (1, "t", 1): 0},
    )
    assert sizes(capture(found, None, KNOWN, "c"), 1) == (100_000, 0, 100_000)


def test_nothing_that_tells_a_size_is_said() -> None:
    idle = Offsets(log_start=0, local_log_start=1000, last_tiered=999, log_end=1000)
    found = snapshot(partitions={("t", 0): state(idle)}, local_bytes={(1, "t", 0): 0})
    captured = capture(found, None, KNOWN, "c")
    assert sizes(captured) == (0, 0, 0)
    assert "t-0: of unknown size, taken as empty; write their bytes" in captured.remarks


def test_leaderless_partition_has_its_largest_replicas_size() -> None:
    found = snapshot(partitions={("t", 0): state(None, leader=-1, isr=(1,))})
    captured = capture(found, None, KNOWN, "c")
    assert sizes(captured) == (40_000, 40_000, 0)
    assert Inventory.from_document(captured.document).topics[0].partitions[0].leader == -1


def test_produce_rate_is_offsets_between_the_looks_in_bytes() -> None:
    first = snapshot()
    after = state(Offsets(log_start=0, log_end=1500))
    second = snapshot(taken_at_s=10.0, partitions={("t", 0): after}, local_bytes={(1, "t", 0): 60_000})
    assert partition(capture(first, second, KNOWN, "c"))["produce_bytes_per_s"] == 5_000


@pytest.mark.parametrize("end", [1000, 900])
def test_no_growth_is_no_rate(end: int) -> None:
    second = snapshot(taken_at_s=10.0, partitions={("t", 0): state(Offsets(log_start=0, log_end=end))})
    assert partition(capture(snapshot(), second, KNOWN, "c"))["produce_bytes_per_s"] == 0


def test_rate_of_a_topic_that_was_empty_at_the_first_look() -> None:
    empty = Offsets(log_start=0, local_log_start=0, log_end=0)
    first = snapshot(partitions={("t", 0): state(empty)}, local_bytes={(1, "t", 0): 0})
    after = state(Offsets(log_start=0, log_end=500))
    second = snapshot(taken_at_s=10.0, partitions={("t", 0): after}, local_bytes={(1, "t", 0): 50_000})
    assert partition(capture(first, second, KNOWN, "c"))["produce_bytes_per_s"] == 5_000


def test_changes_between_the_looks_are_said() -> None:
    first = snapshot(partitions={**snapshot().partitions, ("t", 1): state(None, 1)})
    second = snapshot(partitions={("t", 0): state(Offsets(log_end=1000), leader=2)})
    remarks = capture(first, second, KNOWN, "c").remarks
    assert "t-1: deleted during the capture; as they were at its beginning" in remarks
    assert "t-0: changed leaders during the capture; as they were at its beginning" in remarks


@pytest.mark.parametrize(
    ("configs", "policy"),
    [
        ({}, "kafka"),
        ({"follower.fetch.last.tiered.offset.enable": "true"}, "kafka-last-tiered"),
        ({"bootstrap.policy": "tier-first"}, "local-log-start"),
        ({"bootstrap.policy": "tier-first", "follower.fetch.last.tiered.offset.enable": "true"}, "tier-first"),
    ],
)
def test_policy_by_the_brokers_configs(configs: dict[str, str], policy: str) -> None:
    brokers = {each: BrokerState(id=each, rack=None, disk_bytes=1, configs=configs) for each in (1, 2)}
    captured = capture(snapshot(brokers=brokers, local_bytes={}), None, KNOWN, "c")
    assert captured.document["bootstrap_policy"] == policy


def test_limits_and_pace_by_the_brokers_configs() -> None:
    configs = {
        "follower.replication.throttled.rate": "25000000",
        "remote.log.manager.task.interval.ms": "30000",
        "remote.log.manager.copy.max.bytes.per.second": str(2**63 - 1),
    }
    brokers = {each: BrokerState(id=each, rack=None, disk_bytes=10**9, configs=configs) for each in (1, 2)}
    inventory = Inventory.from_document(capture(snapshot(brokers=brokers), None, KNOWN, "c").document)
    assert inventory.throttle_bytes_per_s == 25e6
    assert inventory.rlm.interval_s == 30
    assert inventory.rlm.copy_bytes_per_s is None


def test_brokers_that_differ_are_said() -> None:
    brokers = {
        1: BrokerState(id=1, rack=None, configs={"follower.replication.throttled.rate": "5"}),
        2: BrokerState(id=2, rack=None, configs={}),
    }
    remarks = capture(snapshot(brokers=brokers), None, KNOWN, "c").remarks
    assert "throttle_bytes_per_s differs: 5 on broker 1, None on broker 2; the first is taken for all" in remarks


def test_broker_that_is_gone_stands_in_the_inventory() -> None:
    captured = capture(snapshot(brokers={1: BrokerState(id=1, rack="r", disk_bytes=10**12)}), None, KNOWN, "c")
    assert [each["id"] for each in captured.document["brokers"]] == [1, 2]
    assert captured.document["brokers"][1]["disk_bytes"] == FILL_IN
    assert "brokers 2 hold replicas but are not alive: rack and disk unknown" in captured.remarks
    captured = capture(snapshot(brokers={1: BrokerState(id=1, rack="r")}, racks={1: "r", 2: "s"}), None, KNOWN, "c")
    assert captured.document["brokers"][1]["rack"] == "s"
    assert "brokers 2 hold replicas but are not alive: disk unknown" in captured.remarks
    assert "broker 2 disk_bytes" in captured.unknown
