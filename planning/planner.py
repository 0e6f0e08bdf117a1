"""From a cluster and a goal to a plan, arrays to arrays.

    1. replicas that cannot stay get new places       forced.py       one move each
    2. numbers, then disks, are brought into bands    balancing.py, disks.py; what is not needed for that is taken back,
                                                      what is dear exchanged: refining/
    3. preferred leaders are made even                leaders.py      no bytes
    4. the partitions that change are put in waves    waves.py        those with the fewest in sync first, then the
                                                                      cheapest, so that most are done early
    5. the plan is compared with what any plan needs  bounds.py

A plan has two orders of replicas. `first` is what a partition is reassigned to, new thin replicas last; `replicas` is
where they end, once those are warm. What it does not know: how long all that takes; that is `model`'s to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from .. import byte_text
from ..light_dataclass import dataclass
from ..model import (
    NO_BROKER,
    Bootstraps,
    ClusterArrays,
    Floats,
    Ints,
    Moves,
    Obstacle,
    Policy,
    at_worst,
    bootstraps_of,
    moves_between,
)
from .balancing import Band, disk_band, even_numbers, replica_band
from .bounds import Bound, bound
from .disks import even_disks
from .forced import hand_over, place, place_apart
from .goals import Goal, PlanOptions
from .headroom import Passages, passages_of, safe_throttle, shares_of_waves
from .leaders import even_leaders, leader_counts, thin_last
from .placement import Indexes, Placement, RackRule, any_slot
from .refining import refine
from .tier_first import TierStep, bytes_after_tiering, tier_step
from .waves import CATCH_UP, NOTHING_SHARED, WHOLE, Taken, assign_waves

NAMED_MAX = 5
"""Partitions that a warning names; the rest is counted."""


@dataclass(frozen=True, eq=False, slots=True)
class Evenness:
    """[B] each, of the brokers: replicas, bytes on disk, preferred leaders."""

    replicas: Indexes
    disk_bytes: Floats
    leaders: Floats


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class ReplicaPlan:
    """`replicas` [P, R] is the end. `changed` [N] are the partitions that get there by a reassignment to `first`
    [N, R], in wave `wave_of` [N]; those whose order in `replicas` is another one get it at last.

    `moves` have the bytes that each copies in `move_bytes`. `throttle_bytes_per_s` is infinite where no capacity is
    known and none was given. `tier_step` comes before the first wave.
    """

    replicas: Ints
    changed: Ints
    first: Ints
    wave_of: Ints
    moves: Moves
    move_bytes: Floats
    bound: Bound
    throttle_bytes_per_s: float
    tier_step: TierStep | None
    before: Evenness
    after: Evenness
    warnings: tuple[str, ...]

    @property
    def wave_count(self) -> int:
        return int(self.wave_of.max(initial=-1)) + 1


def plan_replicas(arrays: ClusterArrays, goal: Goal, options: PlanOptions | None = None) -> ReplicaPlan:
    """The plan; empty if everything is as it should be. PlanError where there is none."""
    options = options or PlanOptions()
    goal.check(arrays.broker_count)
    policy = options.policy or arrays.policy
    begin = _new_replicas(arrays, policy)
    cost = begin.leader_bytes
    if options.tier_first:
        cost = bytes_after_tiering(arrays, policy, cost, options.roll_s)
    placement = Placement(arrays, goal, cost)
    leaders = leader_counts(arrays.replicas, arrays.broker_count)
    before = Evenness(placement.counts.copy(), placement.disk.copy(), leaders)
    repaired = _force(placement, goal, options)
    numbers, disks = _balance(placement, goal, options)
    replicas = placement.replicas
    is_changed = any_slot(replicas != arrays.replicas)
    if options.balances_leaders and not goal.successors:
        replicas = even_leaders(replicas, placement.is_open, options.leader_tolerance, is_changed)
        is_changed = any_slot(replicas != arrays.replicas)
    changed = np.flatnonzero(is_changed).astype(np.int32)
    moves = _moves(arrays, replicas, changed)
    worst = at_worst(arrays)
    passages = passages_of(worst, moves, options.headroom)
    throttle = _throttle(worst, moves, passages, options)
    waves = _waves(arrays, changed, moves, cost, throttle, passages, options)
    return ReplicaPlan(
        replicas=replicas,
        changed=changed,
        first=thin_last(arrays.replicas[changed], replicas[changed], begin.thin_bytes[changed] > 0),
        wave_of=waves,
        moves=replace(moves, wave=_wave_of_moves(changed, waves, moves)),
        move_bytes=cost[moves.partition],
        bound=bound(placement, repaired, numbers, disks, moves.partition.astype(np.int64)),
        throttle_bytes_per_s=throttle,
        tier_step=tier_step(
            arrays,
            moves.partition,
            (begin.leader_bytes - cost)[moves.partition],
            options.roll_s,
            float(cost[moves.partition].sum()) / throttle / max(1, len(np.unique(moves.target))),
        ),
        before=before,
        after=Evenness(placement.counts, placement.disk, leader_counts(replicas, arrays.broker_count)),
        warnings=_warnings(
            placement, _present(moves.partition, arrays.partition_count), throttle, begin.obstacle, options
        ),
    )


def _force(placement: Placement, goal: Goal, options: PlanOptions) -> Indexes:
    """Place what cannot stay; the partitions of replicas that have to leave a shared rack."""
    needed = _repairs_needed(placement) if options.repairs_racks else np.zeros(0, dtype=np.int64)
    hand_over(placement, goal.successors, RackRule.FREE if options.repairs_racks else RackRule.NO_WORSE)
    leaves = ~placement.stays
    if leaves.any():
        place(placement, *np.nonzero((placement.replicas != NO_BROKER) & leaves[placement.replicas]))
    if options.repairs_racks:
        stuck = place_apart(placement, *placement.shared_racks())
        needed = _without(needed, stuck)
    return needed


def _without(partitions: Indexes, less: Indexes) -> Indexes:
    """Each of the first as often as it is there, less how often it is in the second."""
    counts = np.bincount(partitions, minlength=int(less.max(initial=-1)) + 1)
    counts[: int(less.max(initial=-1)) + 1] -= np.bincount(less)
    return np.repeat(np.arange(len(counts)), counts.clip(0))


def _repairs_needed(placement: Placement) -> Indexes:
    """Partitions, once for each replica that could stay and has to move for lack of racks, whatever the plan."""
    stays = np.append(placement.stays, False)[placement.replicas]
    racks = np.where(stays, placement.rack_of(placement.replicas), NO_BROKER)
    distinct = sum((racks == rack).any(axis=1).astype(np.int64) for rack in np.unique(placement.racks))
    held = (placement.replicas != NO_BROKER).sum(axis=1)
    wanted = np.minimum(held, placement.available_racks)
    lacking = wanted - distinct - (held - stays.sum(axis=1))
    return np.repeat(np.arange(len(held)), np.clip(lacking, 0, None))


def _balance(placement: Placement, goal: Goal, options: PlanOptions) -> tuple[Band | None, Band | None]:
    if not goal.balances:
        return None, None
    is_fixed = placement.is_moved.copy()
    numbers = replica_band(placement, options.replica_tolerance)
    disks = disk_band(placement, options.disk_tolerance)
    even_numbers(placement, goal, numbers, disks)
    even_disks(placement, goal, disks, numbers)
    refine(placement, is_fixed, numbers, disks)
    return numbers, disks


def _moves(arrays: ClusterArrays, replicas: Ints, changed: Ints) -> Moves:
    """Return the moves of the partitions that change; the others need no look."""
    rows = replace(arrays, replicas=arrays.replicas[changed])
    found = moves_between(rows, replicas[changed])
    return replace(found, partition=changed[found.partition])


def _throttle(arrays: ClusterArrays, moves: Moves, passages: Passages, options: PlanOptions) -> float:
    if options.throttle_bytes_per_s is not None:
        return options.throttle_bytes_per_s
    leaders = arrays.leader[moves.partition]
    sources, targets = (_present(each, arrays.broker_count) for each in (leaders[leaders != NO_BROKER], moves.target))
    spare = safe_throttle(arrays, sources, targets, passages, options.headroom)
    return min(spare, arrays.throttle_bytes_per_s)


def _present(values: Ints | Indexes, count: int) -> Indexes:
    """Each of these once, in order; they are below `count`."""
    return np.flatnonzero(np.bincount(values, minlength=count))


def _waves(
    arrays: ClusterArrays,
    changed: Ints,
    moves: Moves,
    cost: Floats,
    throttle: float,
    passages: Passages,
    options: PlanOptions,
) -> Ints:
    """[N]. Partitions that only change their order come with the first wave."""
    waves = np.zeros(len(changed), dtype=np.int32)
    if not len(moves):
        return waves
    is_first = np.append(True, moves.partition[1:] != moves.partition[:-1])  # they are in the order of partitions
    first = np.flatnonzero(is_first)
    moving, count = moves.partition[first], np.diff(np.append(first, len(moves)))
    produce = arrays.produce[moving]
    loads = np.maximum(1 / options.partitions_per_broker, cost[moving] / (throttle * options.wave_s))
    loads = np.maximum(loads, produce / (throttle * CATCH_UP))
    in_sync = arrays.in_sync[moving].sum(axis=1)
    order = np.lexsort((cost[moving], in_sync))
    more = _more_targets(moves.target.tolist(), first[order], count[order])
    needs = np.maximum(cost / options.wave_s, arrays.produce / CATCH_UP)
    found = assign_waves(
        arrays.leader[moving].clip(0)[order].tolist(),
        moves.target[first][order].tolist(),
        np.ceil(loads[order].clip(0, 1) * WHOLE).astype(np.int64).clip(1).tolist(),
        options.partitions_per_wave,
        more,
        _shared(moves, moving[order], needs, throttle, passages),
    )
    waves[np.searchsorted(changed, moving[order])] = found
    return waves


def _shared(moves: Moves, ordered: Ints, needs: Floats, throttle: float, passages: Passages) -> Mapping[int, Taken]:
    """Return what partitions take of what brokers share, by their places in this order."""
    if not len(passages.move):
        return NOTHING_SHARED
    partitions, shared, shares = shares_of_waves(passages, moves.partition, needs, throttle)
    by_partition = np.argsort(ordered, kind="stable")
    places = by_partition[np.searchsorted(ordered, partitions, sorter=by_partition)]
    units = np.ceil(shares.clip(0, 1) * WHOLE).astype(np.int64).clip(1)
    found: dict[int, list[tuple[int, int]]] = {}
    for at, number, part in zip(places.tolist(), shared.tolist(), units.tolist(), strict=True):
        found.setdefault(at, []).append((number, part))
    return found


def _more_targets(targets: list[int], first: Indexes, count: Indexes) -> dict[int, list[int]]:
    """Return all but the first target of each run that is longer than one, by place."""
    several = np.flatnonzero(count > 1)
    starts, ends = (first + 1)[several].tolist(), (first + count)[several].tolist()
    return {place: targets[start:end] for place, start, end in zip(several.tolist(), starts, ends, strict=True)}


def _wave_of_moves(changed: Ints, waves: Ints, moves: Moves) -> Ints:
    found: Ints = waves[np.searchsorted(changed, moves.partition)]
    return found


def _warnings(
    placement: Placement, moving: Ints, throttle: float, obstacle: npt.NDArray[np.int8], options: PlanOptions
) -> tuple[str, ...]:
    arrays = placement.arrays
    found = []
    for each in (Obstacle.NO_LEADER, Obstacle.NOTHING_PENDING):
        if names := _named(arrays, moving[obstacle[moving] == each]):
            found.append(f"{names}: {each.text}")
    if names := _named(arrays, moving[arrays.produce[moving] > throttle]):
        rate = byte_text.rate(throttle)
        found.append(f"{names}: producers write faster than the throttle of {rate}, so it never catches up")
    if names := _named(arrays, _present(placement.shared_racks()[0], arrays.partition_count)):
        why = "without room for them" if options.repairs_racks else "(--repair-racks moves them)"
        found.append(f"{names}: replicas share a rack though there is another {why}")
    return tuple(found)


def _named(arrays: ClusterArrays, partitions: Ints | Indexes) -> str:
    """Their names, "" if there are none."""
    names = ", ".join(arrays.partition_name(int(each)) for each in partitions[:NAMED_MAX])
    return names + (f" and {len(partitions) - NAMED_MAX} more" if len(partitions) > NAMED_MAX else "")


def _new_replicas(arrays: ClusterArrays, policy: Policy) -> Bootstraps:
    """Return what a new replica of each partition would copy if it began now, [P]."""
    partitions = np.arange(arrays.partition_count, dtype=np.int32)
    return bootstraps_of(arrays, partitions, np.zeros(arrays.partition_count), policy)
