"""The topics of a scenario on a live cluster: made, filled, tiered and at rest; one broker may then begin to lag.

It is frozen (SIGSTOP), as a host that hangs: the cluster takes it out of every ISR, and what
is written then it has not. Thawed (`catch_up`), it copies that at once, for it needs no start.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from confluent_kafka.admin import AdminClient

from tierfetch.cli.local import poll
from tierfetch.model import Policy
from tierfetch.protocol import TopicPartition

from ..workload import STEP_TIMEOUT_S, admin, create_topic, log_bytes, produce, wait_at_rest, wait_isr
from .lab import Lab, wait_complete
from .producers import RECORD_BYTES
from .scenario import BOUNDED_LOCAL_BYTES, Scenario

CALM_LOOKS: Final = 8
CALM_INTERVAL_S: Final = 0.4
DELETE_LOOK_S: Final = 0.2
WAYS: Final = ("leader", "follower")
"""A throttle is of each broker, either way, as an inventory has it."""
_OPTION: Final = "follower.fetch.last.tiered.offset.enable"


def broker_configs(lab: Lab, scenario: Scenario) -> dict[str, str]:
    """The dynamic configs that the scenario is about."""
    policy = scenario.policy(lab.system)
    configs = {_OPTION: str(policy not in (Policy.KAFKA, Policy.LOCAL_LOG_START)).lower()}
    if lab.system == "tierfetch" and configs[_OPTION] == "true":
        configs["bootstrap.policy"] = policy.value
        if policy is Policy.BOUNDED_LOCAL:
            configs["bootstrap.bounded.local.bytes"] = str(BOUNDED_LOCAL_BYTES)
    if scenario.throttle_mb_s is not None and not scenario.kind.is_rebalance:
        configs |= {f"{way}.replication.throttled.rate": str(int(scenario.throttle_mb_s * 1e6)) for way in WAYS}
    return configs


def topic_configs(scenario: Scenario, topic: str) -> dict[str, str]:
    """The configs of the scenario's topic of this name."""
    configs = {"segment.bytes": str(scenario.segment_mb << 20), "retention.ms": "-1"}
    if scenario.has_tier(topic):
        configs["remote.storage.enable"] = "true"
    if scenario.local_share is not None and scenario.has_tier(topic):
        configs["local.retention.bytes"] = str(int(scenario.total_bytes / scenario.partitions * scenario.local_share))
    if scenario.throttle_mb_s is not None and not scenario.kind.is_rebalance:
        configs |= {f"{way}.replication.throttled.replicas": "*" for way in WAYS}
    return configs


def prepared(lab: Lab, scenario: Scenario, topic: str) -> None:
    """Make the topics with their data, tiered and trimmed; their names begin with `topic`."""
    lab.set_tier(0, None)
    lab.set_configs({})
    wait_complete(lab)
    for name, assignment in scenario.by_topic(topic).items():
        create_topic(lab.cluster, assignment, topic_configs(scenario, name), name)
    _filled(lab, scenario, topic, scenario.total_bytes, scenario.layout(topic))
    if scenario.laggard is not None:
        _fall_behind(lab, scenario, topic, scenario.laggard)
    os.sync()
    lab.set_configs(broker_configs(lab, scenario))
    lab.set_tier(scenario.latency_ms, scenario.tier_mb_s)


def _filled(
    lab: Lab, scenario: Scenario, topic: str, total_bytes: int, in_sync: Mapping[TopicPartition, Collection[int]]
) -> None:
    """Write so much, evenly, and wait until tier and disks are at rest and these brokers are in sync."""
    for name, assignment in scenario.by_topic(topic).items():
        size_bytes = total_bytes * len(assignment) // scenario.partitions
        client = {"bootstrap.servers": lab.bootstrap}
        produce(lab.cluster, len(assignment), size_bytes, RECORD_BYTES, acks="1", topic=name, client=client)
    if scenario.is_tiered:
        places = *map(lab.cluster.data_directory, lab.broker_ids), lab.objects
        wait_at_rest(lambda: [log_bytes(place, topic) for place in places], CALM_LOOKS, CALM_INTERVAL_S, topic=topic)
    wait_in_sync(lab, in_sync)


def _fall_behind(lab: Lab, scenario: Scenario, topic: str, laggard: int) -> None:
    """Freeze the broker, and write what it will have to copy."""
    os.kill(lab.cluster.process(laggard).pid, signal.SIGSTOP)
    left = without(scenario.layout(topic), laggard)
    wait_in_sync(lab, left)
    _filled(lab, scenario, topic, scenario.behind_mb * 1_000_000, left)


def catch_up(lab: Lab, scenario: Scenario) -> None:
    """Thaw the broker that lags, if there is one."""
    if scenario.laggard is not None:
        os.kill(lab.cluster.process(scenario.laggard).pid, signal.SIGCONT)


def without(layout: Mapping[TopicPartition, Iterable[int]], *brokers: int) -> dict[TopicPartition, set[int]]:
    """Return the replicas on other brokers than these."""
    return {place: {each for each in replicas if each not in brokers} for place, replicas in layout.items()}


def wait_in_sync(lab: Lab, wanted: Mapping[TopicPartition, Collection[int]]) -> float:
    """Until every partition has exactly this ISR; returns time.monotonic() when that was seen of the last one."""
    by_topic: dict[str, dict[int, set[int]]] = {}
    for place, brokers in wanted.items():
        by_topic.setdefault(place.topic, {})[place.partition] = set(brokers)
    return max(wait_isr(lab.cluster, each, name) for name, each in by_topic.items())


def are_in_sync(client: AdminClient, places: Iterable[TopicPartition], broker: int) -> bool:
    """Return whether the broker is in the ISR of all of these, as one look finds them."""
    found = client.list_topics(timeout=10).topics
    return all(broker in found[each.topic].partitions[each.partition].isrs for each in places)


def begin_deleting(lab: Lab, scenario: Scenario, topic: str) -> None:
    """Delete the topics; their files go in their own time."""
    client = admin(lab.cluster)  # kept until the answer is there
    for deleted in client.delete_topics(scenario.topic_names(topic)).values():
        deleted.result(STEP_TIMEOUT_S)


def wait_deleted(lab: Lab, topic: str) -> None:
    """Until no broker has a file of the topics."""
    for _ in poll(STEP_TIMEOUT_S, f"{topic} to be deleted", DELETE_LOOK_S):
        if not any(next(lab.cluster.data_directory(node).glob(f"{topic}-*"), None) for node in lab.broker_ids):
            return
