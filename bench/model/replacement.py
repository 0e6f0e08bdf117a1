"""A scenario on a live cluster: its data, its load, and broker 2 killed, wiped, started and timed from outside.

Looks at the ISR come every `LOOK_S`, those at the disk less often: they cost CPU that the brokers lack.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Final

from tierfetch.cli.local import poll
from tierfetch.model import Policy
from tierfetch.protocol import RetriableError

from ..lab.child import CHILD, started
from ..measure import cpu_seconds
from ..workload import STEP_TIMEOUT_S, admin, create_topic, isr_of, log_bytes, produce, wait_at_rest, wait_isr
from .breakdown import replaced_rows
from .lab import FOLLOWER, LEADER, Lab, wait_complete
from .producers import CONSUME, PRODUCING, RECORD_BYTES
from .scenario import BOUNDED_LOCAL_BYTES, Scenario
from .timing import Timing
from .traces import Logs, trace_of

LOOK_S: Final = 0.02
DISK_LOOKS_EVERY: Final = 5
JOIN_TIMEOUT_S: Final = 90.0
LOAD_SETTLE_S: Final = 0.5
CALM_LOOKS: Final = 8
CALM_INTERVAL_S: Final = 0.4
DELETE_LOOK_S: Final = 0.2
PAUSE_S: Final = 0.5
"""Between two runs: the leader's last answers and the follower's flush are over."""
_OPTION: Final = "follower.fetch.last.tiered.offset.enable"


class NeverJoinedError(RetriableError):
    """The replaced broker was not in every ISR in time."""


def broker_configs(lab: Lab, scenario: Scenario) -> dict[str, str]:
    """The dynamic configs that the scenario is about."""
    policy = scenario.policy(lab.system)
    configs = {_OPTION: str(policy not in (Policy.KAFKA, Policy.LOCAL_LOG_START)).lower()}
    if lab.system == "tierfetch" and configs[_OPTION] == "true":
        configs["bootstrap.policy"] = policy.value
        if policy is Policy.BOUNDED_LOCAL:
            configs["bootstrap.bounded.local.bytes"] = str(BOUNDED_LOCAL_BYTES)
    if scenario.throttle_mb_s is not None and not scenario.kind.is_rebalance:
        configs["follower.replication.throttled.rate"] = str(int(scenario.throttle_mb_s * 1e6))
    return configs


def topic_configs(scenario: Scenario) -> dict[str, str]:
    configs = {"segment.bytes": str(scenario.segment_mb << 20), "retention.ms": "-1"}
    if scenario.is_tiered:
        configs["remote.storage.enable"] = "true"
    if scenario.local_share is not None:
        assert scenario.is_tiered, f"{scenario.name}: retention would delete what is being copied"
        configs["local.retention.bytes"] = str(int(scenario.total_bytes / scenario.partitions * scenario.local_share))
    if scenario.throttle_mb_s is not None and not scenario.kind.is_rebalance:
        configs["follower.replication.throttled.replicas"] = "*"
    return configs


def prepared(lab: Lab, scenario: Scenario, topic: str) -> None:
    """Make the topic with its data, tiered and trimmed."""
    lab.set_tier_latency(0)
    lab.set_configs({})
    wait_complete(lab)
    create_topic(lab.cluster, scenario.assignment, topic_configs(scenario), topic)
    produce(lab.cluster, scenario.partitions, scenario.total_bytes, RECORD_BYTES, acks="1", topic=topic)
    if scenario.is_tiered:
        places = *map(lab.cluster.data_directory, lab.broker_ids), lab.objects
        wait_at_rest(lambda: [log_bytes(place, topic) for place in places], CALM_LOOKS, CALM_INTERVAL_S, topic=topic)
    whole = {partition: set(replicas) for partition, replicas in enumerate(scenario.assignment)}
    wait_isr(lab.cluster, whole, topic)
    os.sync()
    lab.set_configs(broker_configs(lab, scenario))
    lab.set_tier_latency(scenario.latency_ms)


def begin_deleting(lab: Lab, topic: str) -> None:
    """Delete the topic; its files go in their own time."""
    client = admin(lab.cluster)  # kept until the answer is there
    client.delete_topics([topic])[topic].result(STEP_TIMEOUT_S)


def wait_deleted(lab: Lab, topic: str) -> None:
    """Until no broker has a file of the topic."""
    for _ in poll(STEP_TIMEOUT_S, f"{topic} to be deleted", DELETE_LOOK_S):
        if not any(next(lab.cluster.data_directory(node).glob(f"{topic}-*"), None) for node in lab.broker_ids):
            return


@contextmanager
def load(lab: Lab, scenario: Scenario, topic: str) -> Iterator[None]:
    """Producers at the scenario's rate, where clients are; nothing where it has none. RuntimeError if they fail."""
    if not scenario.produce_mb_s:
        yield
        return
    log = lab.base.parent / f"producers-{topic}.log"
    log.unlink(missing_ok=True)
    module = (sys.executable, "-m", "tierfetch.bench.model.producers")
    arguments = (lab.bootstrap, topic, str(scenario.partitions), str(scenario.produce_mb_s))
    command = lab.by_clients([*module, *arguments, *([CONSUME] if scenario.consumes else [])])

    def is_producing() -> bool:
        return PRODUCING in log.read_text(errors="replace")

    with started(f"producers of {topic}", command, log, is_producing, RuntimeError, STEP_TIMEOUT_S) as children:
        time.sleep(LOAD_SETTLE_S)
        yield
        children.stop(CHILD)


def replace(lab: Lab, scenario: Scenario, topic: str, *, looks_at_disk: bool = False) -> Timing:
    """One run, under a load of its own if the scenario grows. NeverJoinedError."""
    cluster = lab.cluster
    killed = time.monotonic()
    cluster.kill(FOLLOWER)
    cluster.wipe(FOLLOWER)
    others = [each for each in lab.broker_ids if each != FOLLOWER]
    left = {number: set(replicas) - {FOLLOWER} for number, replicas in enumerate(scenario.assignment)}
    fenced = wait_isr(cluster, left, topic)
    with load(lab, scenario, topic) if scenario.grows else nullcontext():
        pids = [cluster.process(each).pid for each in others]
        cpu_s = cpu_seconds(pids)
        logs = Logs(lab)
        began = cluster.start(FOLLOWER)
        first_data, all_data, in_isr = _watch(lab, topic, looks_at_disk)
    rows = _rows(lab, logs, topic, time.time() - (time.monotonic() - began), in_isr - began)
    timing = Timing(
        start_to_isr_s=in_isr - began,
        first_data_s=first_data - began,
        all_data_s=all_data - began,
        fenced_s=fenced - killed,
        copied_bytes=log_bytes(cluster.data_directory(FOLLOWER), topic),
        leader_cpu_s=cpu_seconds(pids) - cpu_s,
        follower_cpu_s=cpu_seconds([cluster.process(FOLLOWER).pid]),
        seconds=rows,
        whole_seconds=rows,
    )
    time.sleep(PAUSE_S)
    return timing


def _rows(lab: Lab, logs: Logs, topic: str, began_s: float, took_s: float) -> dict[str, float]:
    """Where the time went until the last partition was in sync; `began_s` in unix seconds."""
    leaders = [each for each in lab.broker_ids if each != FOLLOWER]
    joined = {
        number: at
        for leader in leaders
        for (number, who), at in logs.said(leader, topic).joined_s.items()
        if who == FOLLOWER
    }
    if not joined:
        return {}
    last = max(joined, key=lambda number: joined[number])
    said = logs.said(FOLLOWER, topic)
    trace = trace_of(said, last, joined_s=joined[last], asked_s=min(said.asked_s.values(), default=None))
    return {row.value: seconds for row, seconds in replaced_rows(trace, began_s, began_s + took_s).items()}


def _watch(lab: Lab, topic: str, looks_at_disk: bool) -> tuple[float, float, float]:
    """time.monotonic() of first data, of the last growth that was seen, and of the ISR."""
    client = admin(lab.cluster, LEADER)
    directory = lab.cluster.data_directory(FOLLOWER)
    first_data = last_growth = 0.0
    size = 0
    deadline = time.monotonic() + JOIN_TIMEOUT_S
    looks = 0
    while (now := time.monotonic()) < deadline:
        if not first_data and any(directory.glob(f"{topic}-*")):
            first_data = now
        if (
            looks_at_disk
            and first_data
            and looks % DISK_LOOKS_EVERY == 0
            and (new := log_bytes(directory, topic)) > size
        ):
            size, last_growth = new, now
        if all(FOLLOWER in isr for isr in isr_of(client, topic).values()):
            return first_data or now, last_growth or now, now
        looks += 1
        time.sleep(LOOK_S)
    raise NeverJoinedError(f"broker {FOLLOWER} is not in every ISR of {topic} after {JOIN_TIMEOUT_S:.0f} s")
