"""A plan before it is carried out: what of it remains to do on the cluster as it is now, and all that forbids it.

Nothing is done unless there is no problem at all. A partition that is already where it shall be is left out.

A plan that is resumed may be divided again (`waves_again`): only what has not begun, whether the plan brought waves of
its own or not. Forward, its waves come after those of what has begun. On the way back the last wave is taken first.

Sizes that are others than those the plan was made for forbid nothing, and are said: what was predicted rests on them.
Producers and retention change every size a little, so only what adds up to `SIZES_SHARE` of the whole counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ..byte_text import size
from .cluster_state import ClusterState, PartitionState, Standing, standing
from .directories import is_complete, to_stop
from .journal import Entry, Journal, Key, Mode
from .plan_file import PlanFile, PlannedPartition
from .waves import WHOLE, assign_waves

ANY_DIRECTORY: Final = "any"
SIZES_SHARE: Final = 0.1
SIZES_BYTES_MIN: Final = 64 << 20
"""Less makes no difference, whatever its share."""
SIZES_NAMED_MAX: Final = 3


def entries_of(
    plan: PlanFile,
    state: ClusterState,
    *,
    changes_factor: bool = False,
    partitions_per_broker: int = 50,
    partitions_per_wave: int = 2000,
) -> tuple[list[Entry], list[str]]:
    """What remains to do, and what is wrong. The plan's own waves are kept; a plan without any is divided into waves in
    which no broker has more than `partitions_per_broker` coming, and going.
    """
    problems = [text for each in plan.partitions for text in _problems(each, state, changes_factor=changes_factor)]
    if problems:
        return [], problems
    final = {each.key: each.replicas for each in plan.details.leaders}
    waves = plan.details.waves
    wave_of = {number: wave for wave, numbers in enumerate(waves) for number in numbers}
    sizes, held = plan.details.size_bytes, plan.details.held_bytes
    entries = []
    for number, each in enumerate(plan.partitions):
        before = state.partitions[each.key].replicas
        end = final.get(each.key, each.replicas)
        directories = directories_of(each)
        placed = {
            broker: state.placements[each.key, broker].directory
            for broker in before
            if directories and (each.key, broker) in state.placements
        }
        if before != end or any(placed.get(broker) != path for broker, path in directories):
            entries.append(
                Entry(
                    topic=each.topic,
                    partition=each.partition,
                    before=before,
                    target=each.replicas,
                    final=end,
                    wave=wave_of.get(number, 0),
                    size_bytes=sizes[number] if sizes else 0,
                    held_bytes=held[number] if held else None,
                    directories=directories,
                    directories_before=tuple(placed.items()),
                )
            )
    return (entries if waves else _divided(entries, state, partitions_per_broker, partitions_per_wave)), []


def waves_again(
    journal: Journal, state: ClusterState, partitions_per_broker: int, *, partitions_per_wave: int = 2000
) -> tuple[tuple[str, int, int], ...]:
    """Return topic, partition and wave of what has not begun in the direction that a resumed plan takes, so that no
    broker has more than `partitions_per_broker` coming, and going; nothing where none is left.
    """
    if journal.aim is Mode.CANCELLING:
        return ()
    is_back = journal.aim is Mode.ROLLING_BACK
    entries = [entry for entry in journal.header.entries if entry.key not in journal.skipped]
    ids = journal.header.topic_ids
    waiting = [entry for entry in entries if _has_not_begun(entry, ids[entry.topic], state, is_back=is_back)]
    keys = {entry.key for entry in waiting}
    begun = [entry.wave for entry in entries if entry.key not in keys]
    turned = [entry.model_copy(update={"target": entry.before, "before": entry.target}) for entry in waiting]
    divided = _divided(turned if is_back else waiting, state, partitions_per_broker, partitions_per_wave)
    last = max((entry.wave for entry in divided), default=0)
    first = 1 + max(begun, default=-1)
    return tuple(
        (entry.topic, entry.partition, last - entry.wave if is_back else first + entry.wave) for entry in divided
    )


def _has_not_begun(entry: Entry, topic_id: str, state: ClusterState, *, is_back: bool) -> bool:
    found = standing(entry, topic_id, state)
    if is_back:
        return found is Standing.DONE and state.partitions[entry.key].replicas != entry.before
    is_elsewhere = found is Standing.DONE and not is_complete(entry, topic_id, state)
    return found is Standing.BEFORE or (is_elsewhere and not to_stop([entry], state))


def directories_of(each: PlannedPartition) -> tuple[tuple[int, str], ...]:
    """Return the log directories that a plan names for the replicas of a partition, by broker."""
    named = zip(each.replicas, each.log_dirs or (), strict=False)
    return tuple((broker, path.rstrip("/") or path) for broker, path in named if path != ANY_DIRECTORY)


def _problems(each: PlannedPartition, state: ClusterState, *, changes_factor: bool) -> Iterator[str]:
    name = f"{each.topic}-{each.partition}"
    found = state.partitions.get(each.key)
    if found is None:
        is_topic_there = any(topic == each.topic for topic, _ in state.partitions)
        yield f"{name}: " + (
            f"the topic has no partition {each.partition}" if is_topic_there else f"there is no topic {each.topic}"
        )
        return
    if found.is_reassigning:
        yield f"{name}: it is being reassigned to {list(found.toward)} already: wait for that, or cancel it"
        return
    yield from _replica_problems(name, each, found, state, changes_factor=changes_factor)
    yield from _directory_problems(name, each, found, state)


def _directory_problems(name: str, each: PlannedPartition, found: PartitionState, state: ClusterState) -> Iterator[str]:
    for broker, path in directories_of(each):
        there = state.log_dirs.get(broker)
        if there is None:
            yield f"{name}: log_dirs names {path} of broker {broker}, which does not say what log directories it has"
        elif path not in there:
            has = ", ".join(sorted(there))
            yield f"{name}: log_dirs names {path}, and broker {broker} has no such log directory in use; it has {has}"
        elif broker in found.replicas and (each.key, broker) not in state.placements:
            yield f"{name}: broker {broker} does not say in which log directory its replica is now"


def _replica_problems(
    name: str, each: PlannedPartition, found: PartitionState, state: ClusterState, *, changes_factor: bool
) -> Iterator[str]:
    come = [broker for broker in each.replicas if broker not in found.replicas]
    for broker in come:
        if broker not in state.live:
            yield f"{name}: broker {broker} will hold a replica, and is not alive; alive are {sorted(state.live)}"
    if come and found.leader < 0:
        yield f"{name}: it has no leader, so nothing can be copied: elect one first"
    if len(each.replicas) != len(found.replicas) and not changes_factor:
        yield (
            f"{name}: {len(each.replicas)} replicas are planned where {len(found.replicas)} are; to change their number"
            " give --allow-replication-factor-change"
        )


def _divided(entries: list[Entry], state: ClusterState, per_broker: int, per_wave: int) -> list[Entry]:
    """Return the entries, divided into waves."""
    partitions: Mapping[Key, PartitionState] = state.partitions
    numbers: dict[int, int] = {}

    def place(broker: int) -> int:
        return numbers.setdefault(broker, len(numbers))

    sources = [place(max(0, partitions[entry.key].leader)) for entry in entries]
    come = [[place(broker) for broker in entry.target if broker not in entry.before] for entry in entries]
    targets = [brokers[0] if brokers else source for brokers, source in zip(come, sources, strict=True)]
    more = {number: brokers[1:] for number, brokers in enumerate(come) if len(brokers) > 1}
    waves = assign_waves(sources, targets, [-(-WHOLE // per_broker)] * len(entries), per_wave, more)
    return [entry.model_copy(update={"wave": wave}) for entry, wave in zip(entries, waves, strict=True)]


def sizes_differ(expected: Mapping[Key, int], found: Mapping[Key, int]) -> str:
    """Return in what the sizes on leaders' disks differ from what was expected; "" if not by much. A partition that is
    not found is left out: its leader did not answer.
    """
    both = {key: (was, found[key]) for key, was in expected.items() if key in found}
    apart = {key: abs(now - was) for key, (was, now) in both.items() if now != was}
    planned = sum(was for was, _ in both.values())
    if sum(apart.values()) <= max(SIZES_SHARE * planned, SIZES_BYTES_MIN):
        return ""
    worst = sorted(apart, key=lambda key: (-apart[key], key))
    named = [
        f"{topic}-{number} {size(both[topic, number][1])} for {size(both[topic, number][0])}"
        for topic, number in worst[:SIZES_NAMED_MAX]
    ]
    named += [f"{len(worst) - SIZES_NAMED_MAX} more"] if len(worst) > SIZES_NAMED_MAX else []
    held = sum(now for _, now in both.values())
    return f"leaders hold {size(held)} where it was predicted for {size(planned)} ({', '.join(named)})"
