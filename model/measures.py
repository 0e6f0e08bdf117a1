"""From the course of a simulation to what people ask for: under-replication, risk, peaks, headroom, cost."""

from __future__ import annotations

from dataclasses import fields
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from ..light_dataclass import dataclass
from .arrays import ClusterArrays, Floats, Ints
from .core import CAUSES
from .inventory_parts import Policy
from .moves import Moves
from .recorder import Recorder
from .resources import BYTES_PER_GB, Kind, Resources
from .results import ModelResult, Obstacle, ResourceUse, Timeline
from .warming import warming_s

INSTANTS: Final = 200
"""The number of instants of a timeline."""
_HEADROOM_KINDS: Final = (Kind.NIC_IN, Kind.NIC_OUT, Kind.DISK_WRITE, Kind.CPU)
_S_PER_MINUTE: Final = 60.0


@dataclass(frozen=True, eq=False, slots=True)
class Course:
    """What happened to each move, [M] each; the engine fills it. See `ModelResult` for the fields."""

    began_s: Floats
    first_fetch_s: Floats
    joined_s: Floats
    bulk_bytes: Floats
    catch_up_bytes: Floats
    thin_bytes: Floats
    tier_bytes: Floats
    tier_gets: npt.NDArray[np.int64]
    obstacle: npt.NDArray[np.int8]
    cause_s: Floats

    @classmethod
    def of(cls, count: int) -> Self:
        """Nothing has happened yet: a move whose wave never begins keeps these values."""
        return cls(
            began_s=np.full(count, np.inf),
            first_fetch_s=np.full(count, np.inf),
            joined_s=np.full(count, np.inf),
            bulk_bytes=np.zeros(count),
            catch_up_bytes=np.zeros(count),
            thin_bytes=np.zeros(count),
            tier_bytes=np.zeros(count),
            tier_gets=np.zeros(count, dtype=np.int64),
            obstacle=np.full(count, Obstacle.WAVE_BEFORE, dtype=np.int8),
            cause_s=np.zeros((count, CAUSES)),
        )

    def first(self, count: int) -> Self:
        """Return that of the first `count` moves."""
        return type(self)(*(getattr(self, each.name)[:count] for each in fields(self)))


def result_of(
    arrays: ClusterArrays, moves: Moves, policy: Policy, course: Course, resources: Resources, recorder: Recorder
) -> ModelResult:
    """`arrays` as they are once replaced brokers are removed."""
    below_s = below_min_isr_s(arrays, moves, course.joined_s)
    peak = np.where(np.isfinite(resources.capacity), recorder.peak, 0.0)
    return ModelResult(
        policy=policy,
        moves=moves,
        began_s=course.began_s,
        first_fetch_s=course.first_fetch_s,
        joined_s=course.joined_s,
        bulk_bytes=course.bulk_bytes,
        catch_up_bytes=course.catch_up_bytes,
        thin_bytes=course.thin_bytes,
        tier_bytes=course.tier_bytes,
        tier_gets=course.tier_gets,
        obstacle=course.obstacle,
        cause_s=course.cause_s,
        resources=_uses(arrays, resources, recorder),
        timeline=_timeline(moves, course, below_s, recorder),
        produce_headroom=headroom_of(resources, peak),
        produce_headroom_before=headroom_of(resources, np.zeros_like(peak)),
        urp_minutes=float(under_replicated_s(moves, course.joined_s).sum()) / _S_PER_MINUTE,
        below_min_isr_minutes=float(below_s.sum()) / _S_PER_MINUTE,
        below_min_isr_longest_s=float(below_s.max(initial=0.0)),
        request_cost=float(course.tier_gets.sum()) * arrays.tier.price_per_get,
        egress_cost=float(course.tier_bytes.sum()) / BYTES_PER_GB * arrays.tier.price_per_gb_egress,
        warming_s=warming_s(resources, arrays.racks, moves.target, course.thin_bytes, arrays.warmer_bytes_per_s),
        warming_egress_cost=float(course.thin_bytes.sum()) / BYTES_PER_GB * arrays.tier.price_per_gb_egress,
    )


def under_replicated_s(moves: Moves, joined_s: Floats) -> Floats:
    """How long each partition that loses a replica to a replacement lacks one, from the start on."""
    lost = moves.is_replacement
    partitions, of_move = np.unique(moves.partition[lost], return_inverse=True)
    until_s = np.zeros(len(partitions))
    np.maximum.at(until_s, of_move.ravel(), joined_s[lost])
    return until_s


def below_min_isr_s(arrays: ClusterArrays, moves: Moves, joined_s: Floats) -> Floats:
    """How long each partition that moves repair has fewer in sync than min.insync.replicas, from the start on."""
    lacks = arrays.min_isr[arrays.topic] - arrays.in_sync.sum(axis=1)
    order = np.lexsort((joined_s, moves.partition))
    partition = moves.partition[order]
    is_first = np.ones(len(order), dtype=np.bool_)
    is_first[1:] = partition[1:] != partition[:-1]
    starts = np.flatnonzero(is_first)
    count = np.diff(np.append(starts, len(order)))
    lacking = lacks[partition[starts]]
    concerned = lacking > 0
    is_repaired = concerned & (lacking <= count)
    until_s = np.full(len(starts), np.inf)
    until_s[is_repaired] = joined_s[order][starts[is_repaired] + lacking[is_repaired] - 1]
    return np.asarray(until_s[concerned])


def _uses(arrays: ClusterArrays, resources: Resources, recorder: Recorder) -> tuple[ResourceUse, ...]:
    rows = zip(
        resources.names(arrays),
        resources.capacity.tolist(),
        resources.foreground.tolist(),
        recorder.peak.tolist(),
        recorder.peak_at_s.tolist(),
        strict=True,
    )
    return tuple(ResourceUse(*name, *values) for name, *values in rows if np.isfinite(values[0]))


def headroom_of(resources: Resources, peak: Floats) -> Floats:
    """Share by which each broker's foreground may grow, [B]."""
    headroom = np.full(resources.brokers, np.inf)
    for kind in _HEADROOM_KINDS:
        at = resources.of(kind)
        free = np.maximum(0.0, resources.capacity[at] - resources.foreground[at] - peak[at])
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(resources.foreground[at] > 0, free / resources.foreground[at], np.inf)
        headroom = np.minimum(headroom, share)
    return headroom


def _timeline(moves: Moves, course: Course, below_s: Floats, recorder: Recorder) -> Timeline:
    ended_s = course.joined_s[np.isfinite(course.joined_s)]
    horizon_s = max(float(ended_s.max(initial=0.0)), 1.0)
    at_s = np.linspace(0.0, horizon_s, INSTANTS)
    edges_s = np.append(at_s, at_s[-1] + (at_s[1] - at_s[0]))
    into, out_of = recorder.rates(edges_s)
    return Timeline(
        at_s=at_s,
        under_replicated=_later_than(under_replicated_s(moves, course.joined_s), at_s),
        below_min_isr=_later_than(below_s, at_s),
        moving=_later_than(course.joined_s, at_s) - _later_than(course.began_s, at_s),
        into=into,
        out_of=out_of,
    )


def _later_than(times_s: Floats, at_s: Floats) -> Ints:
    """How many of these times are later than each instant."""
    return (len(times_s) - np.searchsorted(np.sort(times_s), at_s, side="right")).astype(np.int32)
