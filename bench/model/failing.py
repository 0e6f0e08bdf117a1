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
from typing import Final

from confluent_kafka import ElectionType, TopicPartition

from tierfetch.cli.cluster_session import Admin
from tierfetch.cli.cluster_session import run as run_admin
from tierfetch.cli.local import poll
from tierfetch.model import Death

from ..measure import cpu_seconds
from ..workload import STEP_TIMEOUT_S, admin, wait_isr
from .lab import FOLLOWER, LEADER, Lab
from .scenario import Scenario
from .timing import Timing

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
    process = lab.cluster.process(FOLLOWER)
    cpu_s = cpu_seconds([lab.cluster.process(LEADER).pid])
    try:
        taken_s = run_admin((lab.bootstrap,), lambda found: _watched(found, lab, topic, death))
        used_s = cpu_seconds([lab.cluster.process(LEADER).pid]) - cpu_s
    finally:
        if death is Death.HOST:
            os.kill(process.pid, signal.SIGCONT)
        else:
            lab.cluster.start(FOLLOWER)
    _lead_again(lab, scenario, topic)
    return Timing(
        start_to_isr_s=taken_s,
        first_data_s=0.0,
        all_data_s=0.0,
        fenced_s=taken_s,
        copied_bytes=0,
        leader_cpu_s=used_s,
        follower_cpu_s=0.0,
    )


async def _watched(found: Admin, lab: Lab, topic: str, death: Death) -> float:
    """Seconds from the death until broker 1 leads everywhere."""
    await found.cluster([topic])  # the connection is there
    began = time.monotonic()
    if death is Death.HOST:
        os.kill(lab.cluster.process(FOLLOWER).pid, signal.SIGSTOP)
    else:
        lab.cluster.kill(FOLLOWER)
    while time.monotonic() - began < FAILOVER_TIMEOUT_S:
        (seen,) = (await found.cluster([topic], at=lab.address)).topics
        now = time.monotonic()
        if all(part.leader_id == LEADER for part in seen.partitions):
            return now - began
        await asyncio.sleep(SOON_LOOK_S if now - began < SOON_S else LOOK_S)
    raise NeverFailedOverError(f"broker {LEADER} does not lead all of {topic} after {FAILOVER_TIMEOUT_S:.0f} s")


def _lead_again(lab: Lab, scenario: Scenario, topic: str) -> None:
    wait_isr(lab.cluster, {each: {LEADER, FOLLOWER} for each in range(scenario.partitions)}, topic)
    client = admin(lab.cluster, LEADER)
    parts = [TopicPartition(topic, each) for each in range(scenario.partitions)]
    for _ in poll(STEP_TIMEOUT_S, f"broker {FOLLOWER} to lead {topic} again", FENCED_LOOK_S):
        client.elect_leaders(ElectionType.PREFERRED, parts).result(STEP_TIMEOUT_S)
        found = client.list_topics(topic, timeout=10).topics[topic].partitions.values()
        if all(part.leader == FOLLOWER for part in found):
            return
