"""Plan files to arrays and back."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..model import NO_BROKER, ClusterArrays, Ints, Outlook
from .directories import Arrival, named_evenly
from .goals import PlanError
from .journal import Key
from .plan_file import PROBLEMS_MAX, PlanDetails, PlanFile, PlannedPartition, Roll
from .planner import ReplicaPlan
from .preflight import ANY_DIRECTORY


def plan_file_of(arrays: ClusterArrays, plan: ReplicaPlan, outlook: Outlook | None = None) -> PlanFile:
    """The plan, for partitions in the order of their names; it must not be empty. `outlook`: how long it takes."""
    assert len(plan.changed), "an empty plan has no file"
    order = np.lexsort((arrays.index[plan.changed], arrays.topic[plan.changed]))
    changed, first, wave_of = plan.changed[order], plan.first[order], plan.wave_of[order]
    sizes = np.bincount(plan.moves.partition, weights=plan.move_bytes, minlength=arrays.partition_count)
    differs = (plan.replicas[changed] != first).any(axis=1)
    step = plan.tier_step
    by_wave = np.argsort(wave_of, kind="stable")
    waves = np.split(by_wave, np.cumsum(np.bincount(wave_of))[:-1])
    throttle = plan.throttle_bytes_per_s
    details = PlanDetails.model_construct(
        waves=tuple(tuple(wave.tolist()) for wave in waves if len(wave)),
        size_bytes=tuple(sizes[changed].astype(np.int64).tolist()),
        held_bytes=tuple(arrays.local_bytes[changed].astype(np.int64).tolist()),
        leaders=_entries(arrays, changed[differs], plan.replicas[changed][differs]),
        throttle_bytes_per_s=max(1, int(throttle)) if np.isfinite(throttle) else None,
        roll=None
        if step is None
        else Roll(
            topics=step.topics,
            segment_ms=max(1, int(step.roll_s * 1000)),
            wait_max_s=step.wait_s,
            saved_bytes=int(step.saved_bytes),
        ),
        outlook=outlook,
    )
    partitions = _with_directories(arrays, plan, _entries(arrays, changed, first))
    return PlanFile.model_construct(version=1, partitions=partitions, tierfetch=details)


def _with_directories(
    arrays: ClusterArrays, plan: ReplicaPlan, partitions: tuple[PlannedPartition, ...]
) -> tuple[PlannedPartition, ...]:
    """Name the log directories of replicas that come to a broker with several."""
    if not arrays.log_dirs:
        return partitions
    moves = plan.moves
    names, ids = arrays.topic_names, arrays.broker_ids
    arrivals = [
        Arrival((names[arrays.topic[each]], int(arrays.index[each])), int(ids[target]), float(arrays.local_bytes[each]))
        for each, target in zip(moves.partition.tolist(), moves.target.tolist(), strict=True)
    ]
    named = named_evenly(arrays.log_dirs, arrivals)
    return tuple(each.model_copy(update={"log_dirs": _log_dirs(each, named)}) for each in partitions)


def _log_dirs(planned: PlannedPartition, named: Mapping[tuple[Key, int], str]) -> tuple[str, ...] | None:
    found = tuple(named.get((planned.key, broker), ANY_DIRECTORY) for broker in planned.replicas)
    return found if set(found) != {ANY_DIRECTORY} else None


def _entries(arrays: ClusterArrays, partitions: Ints, replicas: Ints) -> tuple[PlannedPartition, ...]:
    ids = np.append(arrays.broker_ids, NO_BROKER)[replicas].tolist()
    topics, indexes = arrays.topic[partitions].tolist(), arrays.index[partitions].tolist()
    return tuple(
        PlannedPartition.model_construct(
            topic=arrays.topic_names[topic],
            partition=index,
            replicas=tuple(broker for broker in row if broker != NO_BROKER),
            log_dirs=None,
        )
        for topic, index, row in zip(topics, indexes, ids, strict=True)
    )


def planned_replicas(arrays: ClusterArrays, plan: PlanFile) -> Ints:
    """[P, R'] of brokers as the plan has them at its end. PlanError names whatever the cluster does not have."""
    places = {name: number for number, name in enumerate(arrays.topic_names)}
    rows = {key: number for number, key in enumerate(zip(arrays.topic.tolist(), arrays.index.tolist(), strict=True))}
    brokers = {int(broker): number for number, broker in enumerate(arrays.broker_ids)}
    final = {each.key: each for each in (*plan.partitions, *plan.details.leaders)}
    if problems := [text for each in final.values() for text in _unknown(each, places, rows, brokers)]:
        more = [f"... and {len(problems) - PROBLEMS_MAX} more"] if len(problems) > PROBLEMS_MAX else []
        raise PlanError("\n".join([*problems[:PROBLEMS_MAX], *more]))
    width = max(arrays.replicas.shape[1], *(len(each.replicas) for each in final.values()))
    replicas = np.full((arrays.partition_count, width), NO_BROKER, dtype=np.int32)
    replicas[:, : arrays.replicas.shape[1]] = arrays.replicas
    for each in final.values():
        row = rows[places[each.topic], each.partition]
        replicas[row] = NO_BROKER
        replicas[row, : len(each.replicas)] = [brokers[broker] for broker in each.replicas]
    return replicas


def _unknown(
    each: PlannedPartition, places: Mapping[str, int], rows: Mapping[tuple[int, int], int], brokers: Mapping[int, int]
) -> list[str]:
    if each.topic not in places:
        return [f"{each.topic}-{each.partition}: there is no topic {each.topic}"]
    if (places[each.topic], each.partition) not in rows:
        return [f"{each.topic}-{each.partition}: the topic has no partition {each.partition}"]
    absent = [broker for broker in each.replicas if broker not in brokers]
    return [f"{each.topic}-{each.partition}: there is no broker {broker}" for broker in absent]
