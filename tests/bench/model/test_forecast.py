"""The engine comes to the formula that the constants were read off."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from typing import Any

import pytest

from tierfetch.bench.model.fit import INTERNAL_PARTITIONS
from tierfetch.bench.model.forecast import WIRE_SHARE, between_racks, forecast, known, say_who_lags
from tierfetch.bench.model.scenario import (
    CALIBRATION,
    CLIENTS,
    CONTROLLER,
    NETWORKS,
    STORE,
    TESTS,
    Kind,
    Policies,
    Scenario,
)
from tierfetch.model.calibration import Calibrations, MachineRates
from tierfetch.model.inventory import Inventory
from tierfetch.model.inventory_parts import Policy
from tierfetch.protocol import TopicPartition

from .test_fit import TRUE, as_the_formula_has_it

KAFKA_ON = Policy.KAFKA_LAST_TIERED
MACHINE = MachineRates(
    cores=1000,
    loopback_bytes_per_s=1e12,
    disk_read_bytes_per_s=1e12,
    disk_write_bytes_per_s=1e12,
    fsync_s=0.0,
    crc_bytes_per_s=1e12,
)
CALIBRATIONS = Calibrations(machine=MACHINE, systems={"tierfetch": TRUE})


def partition(index: int, size: float, local: float, tiered: float, rate: float, start: int) -> dict[str, Any]:
    return {
        "index": index,
        "replicas": [1, 2],
        "size_bytes": size,
        "local_bytes": local,
        "tiered_bytes": tiered,
        "produce_bytes_per_s": rate,
        "log_start_offset": start,
    }


def inventory(scenario: Scenario, pending_bytes: float) -> Inventory:
    count = scenario.partitions
    size = scenario.total_bytes / count
    tiered = size - pending_bytes / count
    share = scenario.local_share if scenario.local_share is not None and tiered else 1.0
    rate = scenario.produce_mb_s * 1e6 / count
    start = 0 if scenario.local_share is None or scenario.is_tiered else 1000
    rates = {key: value for key, value in known(scenario, MACHINE).items() if not key.startswith("tier.")}
    return Inventory.from_document(
        {
            "version": 1,
            "broker_defaults": {**rates, "disk_bytes": 1e15},
            "brokers": [{"id": 1}, {"id": 2}],
            "tier": {"latency_ms": scenario.latency_ms, "bandwidth_bytes_per_s": 1e12},
            "bootstrap_policy": scenario.policies.ours.value,
            "throttle_bytes_per_s": None if scenario.throttle_mb_s is None else scenario.throttle_mb_s * 1e6,
            "topics": [
                {
                    "name": "t",
                    "tiered": scenario.is_tiered,
                    "segment_bytes": 1e6,
                    "partitions": [partition(each, size, size * share, tiered, rate, start) for each in range(count)],
                },
                {
                    "name": "__remote_log_metadata",
                    "partitions": [partition(each, 0, 0, 0, 0, 0) for each in range(INTERNAL_PARTITIONS)],
                },
            ],
        }
    )


REPLACEMENTS = [each for each in CALIBRATION if each.kind is Kind.REPLACEMENT]


@pytest.mark.parametrize("scenario", REPLACEMENTS, ids=lambda each: each.name)
def test_engine_agrees_with_the_formula(scenario: Scenario) -> None:
    if scenario.policies.ours is Policy.TIER_FIRST:
        found = forecast(inventory(scenario, 4e6), ["t"], CALIBRATIONS)
    else:
        found = forecast(inventory(scenario, scenario.total_bytes), ["t"], CALIBRATIONS)
    wanted = as_the_formula_has_it(scenario, TRUE)
    assert found.start_to_isr_s == pytest.approx(wanted.seconds, rel=0.02)
    assert found.obstacle == ""


def test_engine_counts_the_lag_of_a_throttle() -> None:
    lagging = TRUE.model_copy(update={"throttle_burst_bytes": 0.0, "throttle_lag_s": 0.6})
    (scenario,) = (each for each in REPLACEMENTS if each.throttle_mb_s is not None)
    calibrations = Calibrations(machine=MACHINE, systems={"tierfetch": lagging})
    found = forecast(inventory(scenario, scenario.total_bytes), ["t"], calibrations)
    assert found.start_to_isr_s == pytest.approx(as_the_formula_has_it(scenario, lagging).seconds, rel=0.02)


def test_kafka_that_never_joins_is_said() -> None:
    idle = Scenario(name="idle", total_mb=100, local_share=0.0, policies=Policies(ours=KAFKA_ON, kafka=KAFKA_ON))
    calibrations = Calibrations(systems={"kafka": TRUE.model_copy(update={"system": "kafka"})})
    found = forecast(inventory(idle, 0.0), ["t"], calibrations)
    assert math.isinf(found.start_to_isr_s)
    assert "nothing is pending" in found.obstacle


LIMITED = Scenario(
    name="limited",
    total_mb=60,
    partitions=15,
    is_tiered=False,
    brokers=6,
    links_mb_s=8,
    racks=2,
    uplink_mb_s=4,
    delay_ms=5,
)


def limited(scenario: Scenario) -> Inventory:
    document = inventory(scenario, scenario.total_bytes).model_dump(mode="json", exclude_none=True)
    topology = scenario.topology
    assert topology is not None
    brokers = [
        {**document["brokers"][0], "id": each, "rack": topology.racks.get(each, "")} for each in scenario.broker_ids
    ]
    topic, _ = document["topics"]
    for row, replicas in zip(topic["partitions"], scenario.assignment, strict=True):
        row |= {"replicas": replicas, "leader": replicas[0], "isr": replicas}
    return Inventory.from_document({**document, "brokers": brokers, **between_racks(scenario)})


def test_the_model_has_the_racks_of_the_network() -> None:
    found = between_racks(LIMITED)
    rate = 4e6 * WIRE_SHARE
    assert found["racks"] == [
        {"name": name, "uplink_out_bytes_per_s": rate, "uplink_in_bytes_per_s": rate} for name in "ab"
    ]
    assert found["links"] == [
        {"from_rack": "a", "to_rack": "b", "latency_ms": 5.0},
        {"from_rack": "b", "to_rack": "a", "latency_ms": 5.0},
    ]
    assert known(LIMITED, MACHINE)["nic_in_bytes_per_s"] == str(8e6 * WIRE_SHARE)
    stored = replace(LIMITED, store_mb_s=3)
    assert known(stored, MACHINE)["tier.bandwidth_bytes_per_s"] == str(3e6 * WIRE_SHARE)
    narrow = Scenario(name="narrow", total_mb=60, tier_mb_s=8)
    assert known(narrow, MACHINE)["tier.bandwidth_bytes_per_s"] == str(8e6), "a directory: no bytes are the wire's"
    assert between_racks(CALIBRATION[0]) == {}
    assert between_racks(replace(LIMITED, racks=1)) == {}


def test_a_shared_uplink_decides_what_is_predicted() -> None:
    """36 of 60 MB come from the other rack."""
    found = forecast(limited(LIMITED), ["t"], CALIBRATIONS)
    assert found.seconds["rack's uplink"] == pytest.approx(36e6 / (4e6 * WIRE_SHARE), rel=0.03)
    wide = forecast(limited(replace(LIMITED, uplink_mb_s=None)), ["t"], CALIBRATIONS)
    assert wide.seconds["follower's link"] == pytest.approx(60e6 / (8e6 * WIRE_SHARE), rel=0.03)


BEHIND = Scenario(name="behind", total_mb=60, partitions=6, topics=2, is_tiered=False, brokers=3, behind_mb=30)


def with_laggard(scenario: Scenario, held: int) -> Inventory:
    """As a capture has it: broker 3 is in no ISR, and the lab knows how much it holds of each partition."""
    size = (scenario.total_mb + scenario.behind_mb) * 1e6 / scenario.partitions
    topics = [
        {
            "name": name,
            "partitions": [
                {**partition(index, size, size, 0, 0, 0), "replicas": replicas, "isr": [1, 2]}
                for index, replicas in enumerate(layout)
            ],
        }
        for name, layout in scenario.by_topic("t").items()
    ]
    rates = {key: value for key, value in known(scenario, MACHINE).items() if not key.startswith("tier.")}
    document: dict[str, Any] = {
        "version": 1,
        "broker_defaults": {**rates, "disk_bytes": 1e15, "nic_out_bytes_per_s": 50e6},
        "brokers": [{"id": each} for each in scenario.broker_ids],
        "bootstrap_policy": scenario.policies.ours.value,
        "topics": topics,
    }
    say_who_lags(document, 3, dict.fromkeys(scenario.layout("t"), held))
    return Inventory.from_document(document)


def test_who_is_behind_takes_of_the_leaders_link() -> None:
    """90 MB come to broker 2, and as many to broker 3, both of broker 1's 50 MB/s; broker 3 needs no start."""
    found = forecast(with_laggard(BEHIND, 0), BEHIND.topic_names("t"), CALIBRATIONS)
    whole = forecast(with_laggard(BEHIND, 15_000_000), BEHIND.topic_names("t"), CALIBRATIONS)
    begins_s = TRUE.start_s + 6 * (TRUE.setup_s / TRUE.setup_parallel + TRUE.replay_partition_s)
    assert whole.start_to_isr_s == pytest.approx(begins_s + 90e6 / 50e6 + TRUE.isr_expansion_s, rel=0.01)
    shared_s = found.start_to_isr_s - whole.start_to_isr_s
    assert shared_s == pytest.approx(90e6 / 50e6 - begins_s, rel=0.02)
    assert found.copied_bytes == pytest.approx(90e6), "what the other one copies is not broker 2's"


def test_the_lab_says_who_is_behind_and_by_how_much() -> None:
    document: dict[str, Any] = {
        "topics": [
            {
                "name": "t",
                "partitions": [{"index": 0, "isr": [1, 2], "local_bytes": 50}, {"index": 1, "isr": [1, 2, 3]}],
            },
            {"name": "internal", "partitions": [{"index": 0, "isr": [1], "local_bytes": 9}]},
        ]
    }
    say_who_lags(document, 3, {TopicPartition("t", 0): 20, TopicPartition("t", 1): 7})
    first, internal = document["topics"]
    assert [each.get("lags") for each in first["partitions"]] == [[{"broker": 3, "bytes": 30}], None]
    assert "lags" not in internal["partitions"][0]


def test_the_network_of_a_scenario() -> None:
    topology = replace(LIMITED, store_mb_s=3).topology
    assert topology is not None
    assert topology.links == {**dict.fromkeys(range(1, 7), 8e6), CONTROLLER: None, CLIENTS: None, STORE: 3e6}
    assert topology.racks == {1: "a", 2: "b", 3: "a", 4: "b", 5: "a", 6: "b"}
    assert topology.uplinks == {"a": 4e6, "b": 4e6}
    assert topology.delay_s == 0.005
    assert CALIBRATION[0].topology is None


def test_a_replacement_of_several_brokers_has_all_others_lead() -> None:
    assert LIMITED.assignment[:6] == [[1, 2], [3, 2], [4, 2], [5, 2], [6, 2], [1, 2]]
    assert CALIBRATION[0].assignment == [[1, 2]] * CALIBRATION[0].partitions


@pytest.mark.parametrize("scenario", NETWORKS, ids=lambda each: each.name)
def test_in_the_networks_links_decide(scenario: Scenario) -> None:
    topology = scenario.topology
    assert topology is not None
    assert topology.uplinks
    assert scenario.brokers in range(6, 13)
    assert scenario.uplink_mb_s is not None
    assert Scenario.of(json.loads(json.dumps(asdict(scenario)))) == scenario


def test_tests_cover_what_was_asked_for() -> None:
    assert {each.partitions for each in TESTS} >= {1, 4, 24}
    assert any(each.produce_mb_s for each in TESTS)
    assert any(each.throttle_mb_s for each in TESTS)
    assert any(each.latency_ms for each in TESTS)
    assert {each.policies.ours for each in TESTS} >= {
        Policy.LOG_START,
        Policy.LOCAL_LOG_START,
        Policy.EARLIEST_PENDING_UPLOAD,
        Policy.TIER_FIRST,
        Policy.BOUNDED_LOCAL,
    }
    assert {each.policies.kafka for each in TESTS} == {Policy.KAFKA, Policy.KAFKA_LAST_TIERED}
