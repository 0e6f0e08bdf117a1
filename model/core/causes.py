"""Where the time goes: what a replica waits for, from the start until it is in the ISR.

    WAITING           its wave's turn: a slot that earlier moves hold
    DOWN              a process to be started, START: that process, REPLAY: its metadata
    SETUP             its broker to set replicas up, round trips to leaders included
    TIER              the tier: latency of requests for the state that it adopts, retries
    FETCHES           one fetch after the other: the follower's own pace
    LEADER_LINK ...   a resource that is full: links, racks' uplinks, disks, CPUs
    THROTTLE          the replication throttle
    ISR               the leader, to see that it has caught up
    BEGIN             the beginning of its wave: the executor looks, sets throttles, and gives the orders

Between two events of the engine a replica waits for one of these, so that its seconds add up to the time of its
joining. The whole is as long as its waves, one after the other, and each wave as long as its last replica: the seconds
of those replicas, without their waiting for a slot, add up to the whole (`critical_seconds`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from ...light_dataclass import dataclass


class Cause(IntEnum):
    """See the module."""

    WAITING = 0
    DOWN = 1
    START = 2
    REPLAY = 3
    SETUP = 4
    TIER = 5
    FETCHES = 6
    LEADER_LINK = 7
    FOLLOWER_LINK = 8
    RACK_LINK = 9
    LEADER_DISK = 10
    FOLLOWER_DISK = 11
    LEADER_CPU = 12
    FOLLOWER_CPU = 13
    THROTTLE = 14
    ISR = 15
    BEGIN = 16
    UPLINK = 17

    @property
    def text(self) -> str:
        return _TEXTS[self]


_TEXTS: Final = {
    Cause.WAITING: "waiting for a slot",
    Cause.DOWN: "until the process is started",
    Cause.START: "process start",
    Cause.REPLAY: "metadata replay",
    Cause.SETUP: "setting replicas up",
    Cause.TIER: "tier latency",
    Cause.FETCHES: "one fetch after the other",
    Cause.LEADER_LINK: "leader's link",
    Cause.FOLLOWER_LINK: "follower's link",
    Cause.RACK_LINK: "link between racks",
    Cause.LEADER_DISK: "leader's disk",
    Cause.FOLLOWER_DISK: "follower's disk",
    Cause.LEADER_CPU: "leader's CPU",
    Cause.FOLLOWER_CPU: "follower's CPU",
    Cause.THROTTLE: "throttle",
    Cause.ISR: "ISR expansion",
    Cause.BEGIN: "beginning a wave",
    Cause.UPLINK: "rack's uplink",
}
CAUSES: Final = len(Cause)
SECONDS_MIN: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Seconds:
    """Seconds by cause, in the order of `Cause`."""

    by_cause: tuple[float, ...]

    @property
    def total(self) -> float:
        return math.fsum(self.by_cause)

    def of(self, *causes: Cause) -> float:
        """Return the seconds of these causes together."""
        return math.fsum(self.by_cause[cause] for cause in causes)

    def longest_first(self) -> list[tuple[Cause, float]]:
        """Return the causes that take any time, the longest first."""
        found = [(cause, self.by_cause[cause]) for cause in Cause if self.by_cause[cause] > SECONDS_MIN]
        return sorted(found, key=lambda each: -each[1])


def seconds_of(rows: Sequence[Sequence[float]], joined_s: Sequence[float]) -> Seconds:
    """Return the seconds of the replica that joins last; nothing if none moves."""
    if not len(joined_s):
        return Seconds((0.0,) * CAUSES)
    last = max(range(len(joined_s)), key=lambda number: joined_s[number])
    return Seconds(tuple(float(each) for each in rows[last]))


def critical_seconds(rows: Sequence[Sequence[float]], joined_s: Sequence[float], waves: Sequence[int]) -> Seconds:
    """Return the seconds of each wave's last replica without its waiting, added up: those of the whole."""
    last: dict[int, int] = {}
    for number, wave in enumerate(waves):
        if wave not in last or joined_s[number] > joined_s[last[wave]]:
            last[wave] = number
    totals = [0.0] * CAUSES
    for number in last.values():
        for cause, seconds in enumerate(rows[number]):
            totals[cause] += 0.0 if cause == Cause.WAITING else float(seconds)
    return Seconds(tuple(totals))
