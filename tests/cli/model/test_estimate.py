"""From what a cluster tells to an inventory."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.cli.model.estimate import FILL_IN, TIER_UNKNOWN, UNKNOWN_TO_ALL, Captured, assume_size, capture
from tierfetch.cli.model.snapshot import BrokerState, Offsets, PartitionState, RemoteSegment, Snapshot
from tierfetch.model.inventory import Inventory, InventoryError

KNOWN = {**dict.fromkeys(UNKNOWN_TO_ALL, "1e9"), **{f"tier.{key}": "1e9" for key in TIER_UNKNOWN}}


def snapshot(**changes: Any) -> Snapshot:
    offsets = Offsets(log_start=0, local_log_start=600, last_tiered=799, next_upload=800, log_end=1000)
    values: dict[str, Any] = {
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


def test_uplinks_of_racks_are_said_to_be_unknown_where_there_are_several() -> None:
    said = "uplinks of racks are in no response: taken as without a limit"
    apart = {each: BrokerState(id=each, rack=f"r{each}", disk_bytes=10**12) for each in (1, 2)}
    assert said in capture(snapshot(brokers=apart), None, KNOWN, "c").remarks
    assert said not in capture(snapshot(), None, KNOWN, "c").remarks


def test_what_no_request_tells_is_refused_by_name_until_filled_in() -> None:
    captured = capture(snapshot(), None, {}, "c")
    with pytest.raises(InventoryError) as error:
        Inventory.from_document(captured.document)
    for key in UNKNOWN_TO_ALL:
        assert f"{key} of broker_defaults is not filled in" in str(error.value)
        assert any(key in line for line in captured.unknown)
    for key in TIER_UNKNOWN:
        assert f"{key} of tier is not filled in" in str(error.value)
    assert len(error.value.problems) == len(UNKNOWN_TO_ALL) + len(TIER_UNKNOWN)


UNTIERED = {"t": {"remote.storage.enable": "false"}}


def test_what_a_live_follower_out_of_sync_lacks_is_the_difference_of_both_logs() -> None:
    alone = state(Offsets(log_start=0, log_end=1000), isr=(1,))
    found = snapshot(topic_configs=UNTIERED, partitions={("t", 0): alone})
    assert partition(capture(found, None, KNOWN, "c"))["lags"] == [{"broker": 2, "bytes": 31_000}]
    Inventory.from_document(capture(found, None, KNOWN, "c").document)
    dead = snapshot(topic_configs=UNTIERED, partitions={("t", 0): alone}, local_bytes={(1, "t", 0): 40_000})
    assert "lags" not in partition(capture(dead, None, KNOWN, "c"))
    in_sync = snapshot(topic_configs=UNTIERED)
    assert "lags" not in partition(capture(in_sync, None, KNOWN, "c")), "it lacks what comes just now"


def test_what_a_follower_of_a_tiered_topic_lacks_is_not_known_and_that_is_said() -> None:
    (offsets,) = (each.offsets for each in snapshot().partitions.values())
    captured = capture(snapshot(partitions={("t", 0): state(offsets, isr=(1,))}), None, KNOWN, "c")
    assert "lags" not in partition(captured)
    said = "t-0: tiered, with followers out of sync; what these lack is not known, and taken as nothing"
    assert said in captured.remarks
    assert said not in capture(snapshot(), None, KNOWN, "c").remarks


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


ALL_TIERED = Offsets(log_start=0, local_log_start=1000, last_tiered=999, log_end=1000)


def all_tiered(*segments: RemoteSegment, **changes: Any) -> Snapshot:
    """Nothing is local: the last segment has been closed, uploaded and deleted."""
    values = {"partitions": {("t", 0): state(ALL_TIERED)}, "local_bytes": {(1, "t", 0): 0, (2, "t", 0): 0}}
    return snapshot(**{**values, "remote": {("t", 0): segments}, **changes})


def test_partition_that_lies_in_the_tier_alone_has_its_segments_size() -> None:
    found = all_tiered(RemoteSegment(0, 599, 30_000), RemoteSegment(600, 999, 5_000))
    captured = capture(found, None, KNOWN, "c")
    assert sizes(captured) == (35_000, 0, 35_000)
    assert captured.unsized == ()
    assert Inventory.from_document(captured.document).topics[0].partitions[0].pending_bytes == 0


def test_what_lies_in_both_tiers_is_local_and_remote_but_one_size() -> None:
    """[0, 600) is remote, [600, 800) in both (and denser in the tier's first part), [800, 1000) local."""
    segments = (RemoteSegment(0, 599, 90_000), RemoteSegment(600, 799, 8_000))
    captured = capture(snapshot(remote={("t", 0): segments}), None, KNOWN, "c")
    assert sizes(captured) == (130_000, 40_000, 98_000)


def test_overlapping_uploads_of_two_leaders_count_once() -> None:
    segments = (RemoteSegment(0, 599, 60_000), RemoteSegment(300, 599, 15_000), RemoteSegment(300, 999, 35_000))
    assert sizes(capture(all_tiered(*segments), None, KNOWN, "c")) == (80_000, 0, 80_000)


def test_segment_that_the_log_start_cuts_counts_in_part() -> None:
    offsets = Offsets(log_start=500, local_log_start=1000, last_tiered=999, log_end=1000)
    found = all_tiered(RemoteSegment(0, 999, 50_000), partitions={("t", 0): state(offsets)})
    assert sizes(capture(found, None, KNOWN, "c")) == (25_000, 0, 25_000)


def test_offsets_that_the_metadata_lack_are_as_dense_as_the_others() -> None:
    assert sizes(capture(all_tiered(RemoteSegment(0, 499, 20_000)), None, KNOWN, "c")) == (40_000, 0, 40_000)


@pytest.mark.parametrize("remote", [None, {}, {("t", 0): ()}])
def test_size_that_nothing_tells_is_unknown_and_never_empty(remote: Any) -> None:
    captured = capture(all_tiered(remote=remote), None, KNOWN, "c")
    found = partition(captured)
    assert (found["size_bytes"], found["local_bytes"], found["tiered_bytes"]) == (FILL_IN, 0, FILL_IN)
    assert captured.unsized == ("t-0",)
    assert captured.unknown == (
        "t-0 size_bytes: what it holds, local or in the tier, each offset once",
        "t-0 tiered_bytes: what the tier holds of it, also what is local as well",
    )
    with pytest.raises(InventoryError, match="size_bytes of topic t partition 0 is not filled in"):
        Inventory.from_document(captured.document)


def test_partition_of_which_no_replica_is_alive_is_of_unknown_size() -> None:
    captured = capture(snapshot(local_bytes={}, topic_configs={}), None, KNOWN, "c")
    found = partition(captured)
    assert (found["size_bytes"], found["local_bytes"], found["tiered_bytes"]) == (FILL_IN, FILL_IN, 0)


def test_size_that_is_assumed_is_no_less_than_what_is_known() -> None:
    captured = capture(all_tiered(remote=None), None, KNOWN, "c")
    assume_size(captured.document, 7_000)
    assert sizes(captured) == (7_000, 0, 7_000)
    Inventory.from_document(captured.document)
    lost = capture(snapshot(local_bytes={}, remote={("t", 0): (RemoteSegment(0, 799, 9_000),)}), None, KNOWN, "c")
    assume_size(lost.document, 7_000)
    assert sizes(lost) == (9_000, 9_000, 9_000)
    Inventory.from_document(lost.document)


def test_leaderless_partition_has_its_largest_replicas_size() -> None:
    found = snapshot(partitions={("t", 0): state(None, leader=-1, isr=(1,))}, topic_configs={})
    captured = capture(found, None, KNOWN, "c")
    assert sizes(captured) == (40_000, 40_000, 0)
    assert Inventory.from_document(captured.document).topics[0].partitions[0].leader == -1


@pytest.mark.parametrize(
    ("segments", "expected"),
    [((), (FILL_IN, 40_000, FILL_IN)), ((RemoteSegment(0, 799, 60_000),), (60_000, 40_000, 60_000))],
)
def test_leaderless_tiered_partition_has_at_least_what_the_tier_holds(
    segments: tuple[RemoteSegment, ...], expected: tuple[Any, ...]
) -> None:
    found = snapshot(partitions={("t", 0): state(None, leader=-1, isr=(1,))}, remote={("t", 0): segments})
    captured = capture(found, None, KNOWN, "c")
    assert sizes(captured) == expected


@given(
    spans=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20)), max_size=6),
    log_start=st.integers(0, 40),
    local_start=st.integers(0, 40),
    next_upload=st.integers(0, 60),
    tail=st.integers(0, 30),
    local=st.integers(0, 10_000),
)
def test_sizes_agree_whatever_the_segments(
    spans: list[tuple[int, int]], log_start: int, local_start: int, next_upload: int, tail: int, local: int
) -> None:
    """No inventory is refused for sizes that were found: pending <= local <= size, and no byte in neither place."""
    starts = sorted((log_start, local_start))
    upload = max(starts[1], next_upload)
    offsets = Offsets(log_start=starts[0], local_log_start=starts[1], next_upload=upload, log_end=upload + tail)
    remote = {("t", 0): tuple(RemoteSegment(first, first + more, 100 * (more + 1)) for first, more in spans)}
    found = snapshot(partitions={("t", 0): state(offsets)}, local_bytes={(1, "t", 0): local}, remote=remote)
    captured = capture(found, None, KNOWN, "c")
    if not captured.unsized:
        Inventory.from_document(captured.document)


def test_produce_rate_is_offsets_between_the_looks_in_bytes() -> None:
    first = snapshot()
    after = state(Offsets(log_start=0, log_end=1500, seen_at_s=10.0))
    second = snapshot(partitions={("t", 0): after}, local_bytes={(1, "t", 0): 60_000})
    assert partition(capture(first, second, KNOWN, "c"))["produce_bytes_per_s"] == 5_000


@pytest.mark.parametrize("end", [1000, 900])
def test_no_growth_is_no_rate(end: int) -> None:
    second = snapshot(partitions={("t", 0): state(Offsets(log_start=0, log_end=end, seen_at_s=10.0))})
    assert partition(capture(snapshot(), second, KNOWN, "c"))["produce_bytes_per_s"] == 0


def test_rate_of_a_topic_that_was_empty_at_the_first_look() -> None:
    empty = Offsets(log_start=0, local_log_start=0, log_end=0)
    first = snapshot(partitions={("t", 0): state(empty)}, local_bytes={(1, "t", 0): 0})
    after = state(Offsets(log_start=0, log_end=500, seen_at_s=10.0))
    second = snapshot(partitions={("t", 0): after}, local_bytes={(1, "t", 0): 50_000})
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
