"""A group whose members are processes of librdkafka, one of which is killed: until its partitions are read by others.

`python -m bench.coordinators.killed_member SERVERS TOPIC GROUP PROTOCOL` is such a member. It prints the number of each
partition that it reads a record of, again after each assignment, as it commits nothing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from confluent_kafka import Consumer

from tierfetch.cli.local import end_with_parent, poll

from ..systems import Cluster
from .real_members import settings_of

MEMBERS: Final = 5
TIMEOUT_S: Final = 120.0
SESSION_TIMEOUT_MS: Final = 10_000
HEARTBEAT_INTERVAL_MS: Final = 3_000


class Process:
    """`with` it: a member, and when it has read which partition last."""

    def __init__(self, servers: str, topic: str, group_id: str, protocol: str) -> None:
        self.read_at: dict[int, float] = {}
        command = [sys.executable, "-m", __spec__.name, servers, topic, group_id, protocol]
        root = Path(__file__).resolve().parents[2]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=root, preexec_fn=end_with_parent()
        )
        self._thread = threading.Thread(target=self._listen, name="listen")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()
        self._process.wait()
        self._thread.join()

    def kill(self) -> None:
        """Send SIGKILL."""
        os.kill(self._process.pid, signal.SIGKILL)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.read_at[int(line)] = time.perf_counter()


def measure_kill(cluster: Cluster, topic: str, partitions: int, protocol: str, group_id: str, share: float) -> float:
    """Return the seconds from SIGKILL to the last of the victim's partitions being read by another member.

    Args:
        share: of a heartbeat's interval, from 0 to 1, that passes between what the members read and the kill.
    """
    members = [Process(cluster.bootstrap_servers, topic, group_id, protocol) for _ in range(MEMBERS)]
    with members[0], members[1], members[2], members[3], members[4] as victim:
        for _ in poll(TIMEOUT_S, "every member to read, and every partition to be read"):
            read = set().union(*(each.read_at for each in members))
            if len(read) == partitions and all(each.read_at for each in members):
                break
        time.sleep((2 + share) * HEARTBEAT_INTERVAL_MS / 1000)
        owned = {
            number
            for number, at in list(victim.read_at.items())
            if at >= max(each.read_at.get(number, 0.0) for each in members)
        }
        began = time.perf_counter()
        victim.kill()
        for _ in poll(TIMEOUT_S, f"{len(owned)} partitions to be read by others"):
            last = {number: max(each.read_at.get(number, 0.0) for each in members[:-1]) for number in owned}
            if all(at > began for at in last.values()):
                return max(last.values(), default=began) - began
    raise AssertionError("poll raises when its time is over")


def _consume(servers: str, topic: str, group_id: str, protocol: str) -> None:
    config = settings_of(servers, protocol, group_id)
    if protocol == "classic":
        config |= {"session.timeout.ms": SESSION_TIMEOUT_MS, "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS}
    consumer = Consumer(config)
    consumer.subscribe([topic])
    while True:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            print(message.partition(), flush=True)


if __name__ == "__main__":
    _consume(*sys.argv[1:])
