"""What the model says of a scenario, from an inventory captured of the live cluster just before it is run."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any, Final

import numpy as np

from tierfetch.cli.cluster_session import Admin
from tierfetch.cli.cluster_session import run as run_admin
from tierfetch.cli.model.capture import observe
from tierfetch.cli.model.estimate import capture
from tierfetch.cli.model.observe import Observer
from tierfetch.model import (
    Calibrations,
    ClusterArrays,
    Inventory,
    MachineRates,
    Obstacle,
    Seconds,
    System,
    most_live,
    predict,
    replacement_moves,
    seconds_of,
    unavailable_range,
)
from tierfetch.protocol import TopicPartition

from ..workload import log_bytes
from .lab import FOLLOWER, HEARTBEAT_S, INTERNAL_TOPIC, SESSION_S, Lab
from .moving import Planned
from .scenario import Scenario

WINDOW_S: Final = 3.0
WIRE_SHARE: Final = 1448 / 1514
"""What of a shaped link is left for bytes of TCP: Ethernet's, IP's and TCP's headers are counted by `tc`."""
PAGE_CACHE_BYTES_PER_S: Final = 100e9
"""A disk that no copy of some hundred megabytes waits for: the page cache takes it."""
DISK_BYTES: Final = 10**12
"""Enough: no scenario fills a disk."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """`start_to_isr_s` infinite where the model says that the broker never joins, and `obstacle` why. In 80 % of the
    cases it is between `low_s` and `high_s`, which `widest` makes wide. `seconds` of the last partition by cause, and
    `whole_seconds` of all waves, one after the other.
    """

    start_to_isr_s: float
    copied_bytes: float
    obstacle: str = ""
    low_s: float = 0.0
    high_s: float = math.inf
    widest: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)
    whole_seconds: Mapping[str, float] = field(default_factory=dict)


def captured(lab: Lab, scenario: Scenario, topic: str, machine: MachineRates) -> Inventory:
    """As `tierfetch model capture` finds the cluster, with what this machine is known to do, and what the lab knows of
    consumers, and of a broker that is frozen and answers nothing.
    """

    async def look(admin: Admin) -> Inventory:
        window_s = WINDOW_S if scenario.produce_mb_s else 0.0
        first, second = await observe(Observer(admin), window_s, asyncio.sleep)
        document = capture(first, second, known(scenario, machine), scenario.name).document
        if scenario.consumes:
            consume_what_is_produced(document)
        if scenario.laggard is not None:
            directory = lab.cluster.data_directory(scenario.laggard)
            held = {each: log_bytes(directory, each.topic, str(each.partition)) for each in scenario.layout(topic)}
            say_who_lags(document, scenario.laggard, held)
        return Inventory.from_document({**document, **between_racks(scenario)})

    return run_admin((lab.bootstrap,), look)


def consume_what_is_produced(document: dict[str, Any]) -> None:
    """No response has the rate of consumers: the scenario knows that they read all that comes."""
    for topic in document["topics"]:
        for partition in topic["partitions"] if topic["name"] != INTERNAL_TOPIC else ():
            partition["consume_bytes_per_s"] = partition["produce_bytes_per_s"]


def say_who_lags(document: dict[str, Any], broker: int, held: Mapping[TopicPartition, int]) -> None:
    """Add what this broker, which holds so many bytes of each partition, still has to copy."""
    for topic in document["topics"]:
        for partition in topic["partitions"]:
            place = TopicPartition(topic["name"], partition["index"])
            if place in held and broker not in partition["isr"]:
                missing = max(0, partition["local_bytes"] - held[place])
                partition["lags"] = [{"broker": broker, "bytes": missing}]


def between_racks(scenario: Scenario) -> dict[str, Any]:
    """Return what an inventory says of racks: their uplinks, and how far they are from each other."""
    topology = scenario.topology
    if topology is None or not topology.racks:
        return {}
    rates = {name: topology.uplinks.get(name) for name in topology.rack_names}
    uplinks = {name: None if rate is None else rate * WIRE_SHARE for name, rate in rates.items()}
    pairs = permutations(topology.rack_names, 2)
    return {
        "racks": [
            {"name": name, "uplink_out_bytes_per_s": rate, "uplink_in_bytes_per_s": rate}
            for name, rate in uplinks.items()
        ],
        "links": [{"from_rack": one, "to_rack": other, "latency_ms": topology.delay_s * 1000} for one, other in pairs],
    }


def known(scenario: Scenario, machine: MachineRates) -> Mapping[str, str]:
    latency_s = scenario.latency_ms / 1000 + (machine.tier_request_s or 0.0)
    nic = machine.loopback_bytes_per_s if scenario.links_mb_s is None else scenario.links_mb_s * 1e6 * WIRE_SHARE
    store = machine.loopback_bytes_per_s
    if scenario.store_mb_s is not None:
        store = scenario.store_mb_s * 1e6 * WIRE_SHARE
    elif scenario.tier_mb_s is not None:
        store = scenario.tier_mb_s * 1e6
    return {
        "nic_in_bytes_per_s": str(nic),
        "nic_out_bytes_per_s": str(nic),
        "disk_read_bytes_per_s": str(PAGE_CACHE_BYTES_PER_S),
        "disk_write_bytes_per_s": str(PAGE_CACHE_BYTES_PER_S),
        "disk_bytes": str(DISK_BYTES),
        "cores": str(machine.cores),
        "tier.latency_ms": str(latency_s * 1000),
        "tier.bandwidth_bytes_per_s": str(store),
    }


def forecast(inventory: Inventory, topics: Collection[str], calibrations: Calibrations) -> Forecast:
    """Predict broker 2's replacement: when the last partition of these topics is in sync, and what was copied."""
    arrays = ClusterArrays.from_inventory(inventory)
    moves = replacement_moves(arrays, arrays.broker_index(FOLLOWER))
    policy = inventory.bootstrap_policy
    found = predict(arrays, moves, policy, calibrations.of(policy))
    result = found.result
    ours = np.isin(arrays.topic[moves.partition], [arrays.topic_names.index(each) for each in topics])
    obstacles = {Obstacle(int(each)).text for each in result.obstacle[ours]} - {""}
    copied = float((result.bulk_bytes + result.catch_up_bytes)[ours].sum())
    last = int(np.flatnonzero(ours)[result.joined_s[ours].argmax()])
    seconds = _by_text(seconds_of(result.cause_s[ours].tolist(), result.joined_s[ours].tolist()))
    return Forecast(
        start_to_isr_s=float(result.joined_s[last]),
        copied_bytes=copied,
        obstacle="; ".join(sorted(obstacles)),
        low_s=float(found.joining.low_s[last]),
        high_s=float(found.joining.high_s[last]),
        widest=found.range.widest,
        seconds=seconds,
        whole_seconds=seconds,
    )


def rebalance_forecast(made: Planned, calibrations: Calibrations) -> Forecast:
    """Predict a plan's moves: from the orders of the first wave until the last replica is in sync."""
    policy = made.arrays.policy
    found = predict(made.arrays, made.plan.moves, policy, calibrations.of(policy))
    result = found.result
    obstacles = {Obstacle(int(each)).text for each in result.obstacle} - {""}
    return Forecast(
        start_to_isr_s=result.duration_s,
        copied_bytes=result.leader_bytes,
        obstacle="; ".join(sorted(obstacles)),
        low_s=found.range.low,
        high_s=found.range.high,
        widest=found.range.widest,
        seconds=_by_text(result.last_seconds),
        whole_seconds=_by_text(result.seconds),
    )


def _by_text(found: Seconds) -> dict[str, float]:
    return {cause.text: seconds for cause, seconds in found.longest_first()}


def failover_forecast(scenario: Scenario, system: System, calibrations: Calibrations) -> Forecast:
    """Predict how long the topic's partitions lack a leader when broker 2 dies, in the lab's session."""
    death = scenario.kind.death
    assert death is not None, scenario.name
    usual = calibrations.of(scenario.policy(system))
    calibration = usual.model_copy(update={"session_timeout_s": SESSION_S})
    within = unavailable_range(death, calibration, HEARTBEAT_S, most_live=most_live(1, scenario.brokers))
    return Forecast(
        start_to_isr_s=within.median, copied_bytes=0.0, low_s=within.low, high_s=within.high, widest=within.widest
    )
