"""What the engine answers: for each move, for each resource, over time, and for the whole."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ..light_dataclass import dataclass
from .arrays import Bools, Floats, Ints
from .core import Seconds, critical_seconds, seconds_of
from .inventory_parts import Policy
from .moves import Moves


class Obstacle(IntEnum):
    """Why a replica never joins the ISR."""

    NONE = 0
    NO_LEADER = 1
    NOTHING_PENDING = 2
    OVERTAKEN = 3
    WAVE_BEFORE = 4

    @property
    def text(self) -> str:
        return _OBSTACLES[self]


_OBSTACLES = {
    Obstacle.NONE: "",
    Obstacle.NO_LEADER: "the partition has no leader: no replica in sync is alive",
    Obstacle.NOTHING_PENDING: "nothing is pending, so the leader does not know the next upload until a client produces",
    Obstacle.OVERTAKEN: "producers write faster than the replica can copy",
    Obstacle.WAVE_BEFORE: "a wave before its own never ends",
}


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """One resource. Bytes for each second (a CPU's: seconds of CPU for each second).

    `foreground` is what producers, consumers, replication and tiering need anyway; `peak` the most that moves took on
    top of it, at `peak_at_s`. `kind` is one of nic in, nic out, disk read, disk write, cpu, throttle in, throttle out,
    link, uplink out, uplink in, tier; `owner` a broker's id, racks "a -> b", a rack, or "" for the tier.
    """

    kind: str
    owner: str
    capacity: float
    foreground: float
    peak: float
    peak_at_s: float

    @property
    def peak_share(self) -> float:
        """The peak as a share of the capacity, foreground included; 1 is saturated."""
        return (self.foreground + self.peak) / self.capacity if np.isfinite(self.capacity) else 0.0


@dataclass(frozen=True, eq=False, slots=True)
class Timeline:
    """N instants, from 0 to the end; each value holds until the next instant. `into` and `out_of` are [N, B]: bytes for
    each second that moves bring into and take out of each broker.
    """

    at_s: Floats
    under_replicated: Ints
    below_min_isr: Ints
    moving: Ints
    into: Floats
    out_of: Floats


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class ModelResult:
    """Times are seconds since the start; infinite for a replica that never joins.

    For each move: `began_s` its turn comes (wave), `first_fetch_s` it is set up, `joined_s` it is in the ISR; bytes by
    kind: `bulk_bytes` that the leader had when it was asked, `catch_up_bytes` written since, `tier_bytes` of aux state,
    `thin_bytes` that the leader has locally and the new replica only in the tier; `tier_gets` requests to the tier.

    For each broker: `produce_headroom` is the share by which its foreground may grow before a resource is saturated, at
    the worst moment of the moves (0.5: by a half; infinite without any foreground), `produce_headroom_before` the same
    without moves. `warming_s`: how long a background warmer would then take for the thin bytes, and what it would pay.
    """

    policy: Policy
    moves: Moves
    began_s: Floats
    first_fetch_s: Floats
    joined_s: Floats
    bulk_bytes: Floats
    catch_up_bytes: Floats
    thin_bytes: Floats
    tier_bytes: Floats
    tier_gets: npt.NDArray[np.int64]
    obstacle: npt.NDArray[np.int8]
    cause_s: Floats  # [M, causes]: seconds that each waits for each `Cause`; they add up to joined_s
    resources: tuple[ResourceUse, ...]
    timeline: Timeline
    produce_headroom: (
        Floats  # [B]: share by which each broker's foreground may grow at the worst moment; inf without any
    )
    produce_headroom_before: Floats  # [B]: the same without moves
    urp_minutes: float
    below_min_isr_minutes: float
    below_min_isr_longest_s: float
    request_cost: float
    egress_cost: float
    warming_s: float
    warming_egress_cost: float

    @property
    def joins(self) -> Bools:
        return np.asarray(self.obstacle == Obstacle.NONE)

    @property
    def duration_s(self) -> float:
        """Until the last replica is in the ISR; infinite if one never is, 0 if nothing moves."""
        return float(self.joined_s.max(initial=0.0))

    @property
    def last_seconds(self) -> Seconds:
        """Where the time of the last replica goes."""
        return seconds_of(self.cause_s.tolist(), self.joined_s.tolist())

    @property
    def seconds(self) -> Seconds:
        """Where the time of the whole goes: of each wave's last replica, without its waiting for a slot."""
        return critical_seconds(self.cause_s.tolist(), self.joined_s.tolist(), self.moves.wave.tolist())

    @property
    def leader_bytes(self) -> float:
        return float(self.bulk_bytes.sum() + self.catch_up_bytes.sum())
