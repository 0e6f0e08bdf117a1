"""A failover on a live cluster: broker 2, which leads everywhere, dies, and broker 1 takes over; timed from outside.

| death   | done to broker 2                                      | the cluster sees                               |
|---------|-------------------------------------------------------|------------------------------------------------|
| process | kill -9                                               | its host refuses connections at once           |
| host    | SIGSTOP: the kernel accepts connections, no one reads | silence, until the broker's session is over    |

Looked at with one connection to broker 1 alone. Afterwards broker 2 runs again with what it
has, is in sync, and leads again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import confluent_kafka
from confluent_kafka import ElectionType

from tierfetch.cli.cluster_session import Admin
from tierfetch.cli.cluster_session import run as run_admin
from tierfetch.cli.local import poll
from tierfetch.model import Death
from tierfetch.protocol import TopicPartition

from ..measure import cpu_seconds
from ..workload import STEP_TIMEOUT_S, admin
from .lab import FOLLOWER, LEADER, Lab
from .scenario import Scenario
from .timing import Timing
from .topics import wait_in_sync

LOOK_S: Final = 0.01
SOON_LOOK_S: Final = 0.002
SOON_S: Final = 0.5
"""So long a look may come sooner: a death that a refusal shows is over after 0.06 s."""
FAILOVER_TIMEOUT_S: Final = 60.0
FENCED_LOOK_S: Final = 0.1
SETTLE_S: Final = 1.0
"""Before a death: a heartbeat and the last election are over."""


class NeverFailedOverError(TimeoutError):
    """Broker 1 does not lead every partition in time."""


def fail_over(lab: Lab, scenario: Scenario, topic: str) -> Timing:
    """One run. NeverFailedOverError."""
    death = scenario.kind.death
    assert death is not None, scenario.name
    time.sleep(SETTLE_S)
    cpu_s = cpu_seconds([lab.cluster.process(LEADER).pid])
    taken_s = run_admin((lab.bootstrap,), lambda found: _watched(found, lab, scenario.topic_names(topic), death))
    used_s = cpu_seconds([lab.cluster.process(LEADER).pid]) - cpu_s
    _lead_again(lab, scenario.layout(topic))
    return Timing(
        start_to_isr_s=taken_s,
        first_data_s=0.0,
        all_data_s=0.0,
        fenced_s=taken_s,
        copied_bytes=0,
        leader_cpu_s=used_s,
        follower_cpu_s=0.0,
    )


async def _watched(found: Admin, lab: Lab, topics: Sequence[str], death: Death) -> float:
    """Seconds from the death until broker 1 leads everywhere."""
    await found.cluster(topics)  # the connection is there
    began = time.monotonic()
    with _dead(lab, death):
        while time.monotonic() - began < FAILOVER_TIMEOUT_S:
            seen = (await found.cluster(topics, at=lab.address)).topics
            now = time.monotonic()
            if all(part.leader_id == LEADER for topic in seen for part in topic.partitions):
                return now - began
            await asyncio.sleep(SOON_LOOK_S if now - began < SOON_S else LOOK_S)
    names = ", ".join(topics)
    raise NeverFailedOverError(f"broker {LEADER} does not lead all of {names} after {FAILOVER_TIMEOUT_S:.0f} s")


@contextmanager
def _dead(lab: Lab, death: Death) -> Iterator[None]:
    """Have broker 2 dead in the block; it runs again after it, however that ends."""
    if death is Death.PROCESS:
        lab.cluster.kill(FOLLOWER)
    try:
        if death is Death.HOST:
            os.kill(lab.cluster.process(FOLLOWER).pid, signal.SIGSTOP)
        yield
    finally:
        if death is Death.HOST:
            os.kill(lab.cluster.process(FOLLOWER).pid, signal.SIGCONT)
        else:
            lab.cluster.start(FOLLOWER)


def _lead_again(lab: Lab, layout: Mapping[TopicPartition, Collection[int]]) -> None:
    wait_in_sync(lab, layout)
    client = admin(lab.cluster, LEADER)
    parts = [confluent_kafka.TopicPartition(each.topic, each.partition) for each in layout]
    for _ in poll(STEP_TIMEOUT_S, f"broker {FOLLOWER} to lead again", FENCED_LOOK_S):
        client.elect_leaders(ElectionType.PREFERRED, parts).result(STEP_TIMEOUT_S)
        found = client.list_topics(timeout=10).topics
        if all(found[place.topic].partitions[place.partition].leader == FOLLOWER for place in layout):
            return
