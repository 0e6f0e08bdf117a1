"""A replacement on a live cluster: under its load, broker 2 is killed, wiped, started and timed from outside.

Looks at the ISR come every `LOOK_S`, those at the disk less often: they cost CPU that the brokers lack.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from typing import Final

from tierfetch.protocol import RetriableError, TopicPartition

from ..lab.child import CHILD, started
from ..measure import cpu_seconds
from ..workload import STEP_TIMEOUT_S, admin, log_bytes
from .breakdown import replaced_rows
from .lab import FOLLOWER, LEADER, Lab
from .producers import CONSUME, PRODUCING, topic_argument
from .scenario import Scenario
from .timing import Timing
from .topics import are_in_sync, catch_up, wait_in_sync, without
from .traces import Logs, trace_of

LOOK_S: Final = 0.02
DISK_LOOKS_EVERY: Final = 5
JOIN_TIMEOUT_S: Final = 90.0
LOAD_SETTLE_S: Final = 0.5
PAUSE_S: Final = 0.5
"""Between two runs: the leader's last answers and the follower's flush are over."""


class NeverJoinedError(RetriableError):
    """The replaced broker was not in every ISR in time."""


@contextmanager
def load(lab: Lab, scenario: Scenario, topic: str) -> Iterator[None]:
    """Producers at the scenario's rate, where clients are; nothing where it has none. RuntimeError if they fail."""
    if not scenario.produce_mb_s:
        yield
        return
    log = lab.base.parent / f"producers-{topic}.log"
    log.unlink(missing_ok=True)
    module = (sys.executable, "-m", "tierfetch.bench.model.producers")
    topics = [topic_argument(name, len(each)) for name, each in scenario.by_topic(topic).items()]
    arguments = (lab.bootstrap, str(scenario.produce_mb_s), *topics, *([CONSUME] if scenario.consumes else []))
    command = lab.by_clients([*module, *arguments])

    def is_producing() -> bool:
        return PRODUCING in log.read_text(errors="replace")

    with started(f"producers of {topic}", command, log, is_producing, RuntimeError, STEP_TIMEOUT_S) as children:
        time.sleep(LOAD_SETTLE_S)
        yield
        children.stop(CHILD)


def replace(lab: Lab, scenario: Scenario, topic: str, *, looks_at_disk: bool = False) -> Timing:
    """One run, under a load of its own if the scenario grows. NeverJoinedError."""
    cluster, layout = lab.cluster, scenario.layout(topic)
    killed = time.monotonic()
    cluster.kill(FOLLOWER)
    cluster.wipe(FOLLOWER)
    others = [each for each in lab.broker_ids if each != FOLLOWER]
    behind = () if scenario.laggard is None else (scenario.laggard,)
    fenced = wait_in_sync(lab, without(layout, FOLLOWER, *behind))
    with load(lab, scenario, topic) if scenario.grows else nullcontext():
        pids = [cluster.process(each).pid for each in others]
        cpu_s = cpu_seconds(pids)
        logs = Logs(lab)
        catch_up(lab, scenario)
        began = cluster.start(FOLLOWER)
        first_data, all_data, in_isr = _watch(lab, topic, layout, looks_at_disk)
    rows = _rows(lab, logs, scenario.topic_names(topic), time.time() - (time.monotonic() - began), in_isr - began)
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


def _rows(lab: Lab, logs: Logs, topics: Collection[str], began_s: float, took_s: float) -> dict[str, float]:
    """Where the time went until the last partition was in sync; `began_s` in unix seconds."""
    leaders = [each for each in lab.broker_ids if each != FOLLOWER]
    joined = {
        TopicPartition(topic, number): at
        for topic in topics
        for leader in leaders
        for (number, who), at in logs.said(leader, topic).joined_s.items()
        if who == FOLLOWER
    }
    if not joined:
        return {}
    last = max(joined, key=lambda place: joined[place])
    said = {topic: logs.said(FOLLOWER, topic) for topic in topics}
    asked_s = min((at for each in said.values() for at in each.asked_s.values()), default=None)
    trace = trace_of(said[last.topic], last.partition, joined_s=joined[last], asked_s=asked_s)
    return {row.value: seconds for row, seconds in replaced_rows(trace, began_s, began_s + took_s).items()}


def _watch(lab: Lab, topic: str, places: Collection[TopicPartition], looks_at_disk: bool) -> tuple[float, float, float]:
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
        if are_in_sync(client, places, FOLLOWER):
            return first_data or now, last_growth or now, now
        looks += 1
        time.sleep(LOOK_S)
    raise NeverJoinedError(f"broker {FOLLOWER} is not in every ISR of {topic} after {JOIN_TIMEOUT_S:.0f} s")
