"""A rebalance on a live cluster: a plan of ours, carried out by `tierfetch reassign execute`, and timed from outside.

    `planned`    once for each scenario, from the captured inventory, before anything is run
    `move`       the plan for this run's own topics is written, executed, and watched with one connection to broker 1

The time is from the first look that finds a replica list changed until the first that finds every partition with the
replicas of the plan, all of them in sync: what is between two waves is in it, the start of the command is not. Each
look notes of each partition when its move was ordered, and when it had ended: which wave it waited for, and how long.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tierfetch.cli.cluster_session import Admin
from tierfetch.cli.cluster_session import run as run_admin
from tierfetch.cli.local import end_with_parent
from tierfetch.cli.local.nodes import TIERFETCH
from tierfetch.model import ClusterArrays, Inventory
from tierfetch.planning import Goal, PlanFile, PlannedPartition, PlanOptions, ReplicaPlan, plan_file_of, plan_replicas
from tierfetch.protocol import OperatorError, RetriableError, TopicPartition

from ..measure import cpu_seconds
from ..workload import STEP_TIMEOUT_S, log_bytes
from .breakdown import Trace, moved_rows, whole_rows
from .lab import Lab
from .replacement import load
from .scenario import Kind, Scenario, ending_of
from .timing import Timing
from .traces import Logs, Said, trace_of

LOOK_S: Final = 0.02
MOVE_TIMEOUT_S: Final = 180.0
SETTLE_S: Final = 1.0
SAID_MAX: Final = 2_000
"""Characters of what a command said that an error repeats."""

Brokers = Mapping[TopicPartition, frozenset[int]]
"""The brokers that hold each partition."""


class NothingMovesError(OperatorError):
    """The scenario has nothing to move: it says nothing about the model."""


class NeverMovedError(RetriableError):
    """The plan was not carried out in time."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan for the topics of `arrays`, which are under its throttle, and the same as a file."""

    arrays: ClusterArrays
    plan: ReplicaPlan
    file: PlanFile


def planned(inventory: Inventory, scenario: Scenario, topic: str) -> Planned:
    """Return what `reassign plan` comes to for the scenario's topics alone. NothingMovesError."""
    names = scenario.topic_names(topic)
    only = inventory.model_copy(update={"topics": tuple(each for each in inventory.topics if each.name in names)})
    arrays = ClusterArrays.from_inventory(only)
    throttle = None if scenario.throttle_mb_s is None else scenario.throttle_mb_s * 1e6
    options = PlanOptions(
        policy=inventory.bootstrap_policy,
        throttle_bytes_per_s=throttle,
        partitions_per_broker=scenario.wave_partitions,
    )
    plan = plan_replicas(arrays, _goal(scenario, arrays), options)
    if not len(plan.moves):
        raise NothingMovesError(f"{scenario.text}: every broker is within the tolerance")
    return Planned(replace(arrays, throttle_bytes_per_s=plan.throttle_bytes_per_s), plan, plan_file_of(arrays, plan))


def _goal(scenario: Scenario, arrays: ClusterArrays) -> Goal:
    last = arrays.broker_index(scenario.brokers)
    match scenario.kind:
        case Kind.ADD:
            return Goal.add([last])
        case Kind.REMOVE:
            return Goal.remove([last])
        case _:
            return Goal.rebalance()


def for_topics(file: PlanFile, topic: str) -> PlanFile:
    """Return the plan for topics that are laid out as those that it was made for; their names begin with `topic`."""

    def renamed(planned: PlannedPartition) -> PlannedPartition:
        return planned.model_copy(update={"topic": f"{topic}{ending_of(planned.topic)}"})

    details = file.details
    return file.model_copy(
        update={
            "partitions": tuple(map(renamed, file.partitions)),
            "tierfetch": details.model_copy(update={"leaders": tuple(map(renamed, details.leaders))}),
        }
    )


@dataclass(frozen=True, slots=True)
class Course:
    """When each partition's move was ordered, and had ended, as it was seen; `time.time()`."""

    ordered_s: Mapping[TopicPartition, float]
    ended_s: Mapping[TopicPartition, float]

    @property
    def seconds(self) -> float:
        return max(self.ended_s.values()) - min(self.ordered_s.values())


@dataclass(slots=True)
class Watch:
    """What looks at the partitions of a plan come to. Pure: `look` is given what was seen, and when."""

    before: Brokers
    after: Brokers
    ordered_s: dict[TopicPartition, float] = field(default_factory=dict)
    ended_s: dict[TopicPartition, float] = field(default_factory=dict)

    @classmethod
    def of(cls, layout: Mapping[TopicPartition, Sequence[int]], file: PlanFile) -> Watch:
        """Watch what changes brokers; a new order of replicas alone moves nothing."""
        after = {_partition_of(each): frozenset(each.replicas) for each in file.partitions}
        before = {place: frozenset(layout[place]) for place in after}
        moved = [place for place in after if after[place] != before[place]]
        return cls({each: before[each] for each in moved}, {each: after[each] for each in moved})

    def look(self, replicas: Brokers, isr: Brokers, now_s: float) -> bool:
        """Return whether all have ended."""
        for place, target in self.after.items():
            if place not in self.ordered_s and replicas[place] != self.before[place]:
                self.ordered_s[place] = now_s
            if place not in self.ended_s and replicas[place] == target and isr[place] >= target:
                self.ended_s[place] = now_s
        return len(self.ended_s) == len(self.after)

    @property
    def course(self) -> Course:
        return Course(self.ordered_s, self.ended_s)


def _partition_of(planned: PlannedPartition) -> TopicPartition:
    return TopicPartition(planned.topic, planned.partition)


def move(lab: Lab, scenario: Scenario, topic: str, file: PlanFile) -> Timing:
    """One run, under its load. NeverMovedError, after which nothing is under way; RuntimeError if a command fails."""
    ours, topics = for_topics(file, topic), scenario.topic_names(topic)
    path = lab.base / f"plan-{topic}.json"
    path.write_text(ours.to_text())
    watch = Watch.of(scenario.layout(topic), ours)
    time.sleep(SETTLE_S)
    logs = Logs(lab)
    pids = [lab.cluster.process(each).pid for each in lab.broker_ids]
    with load(lab, scenario, topic):
        cpu_s = cpu_seconds(pids)
        with _executing(lab, path) as process:
            run_admin((lab.bootstrap,), lambda found: _watched(found, lab, topics, watch, process))
            used_s = cpu_seconds(pids) - cpu_s
    course = watch.course
    said = {(each, name): logs.said(each, name) for each in lab.broker_ids for name in topics}
    last, whole = _rows(watch, ours, said)
    return Timing(
        start_to_isr_s=course.seconds,
        first_data_s=0.0,
        all_data_s=0.0,
        fenced_s=0.0,
        copied_bytes=_copied_bytes(lab, watch),
        leader_cpu_s=used_s,
        follower_cpu_s=0.0,
        moves=sum(len(watch.after[each] - watch.before[each]) for each in watch.after),
        waves=len(ours.waves),
        seconds=last,
        whole_seconds=whole,
    )


def _rows(
    watch: Watch, file: PlanFile, said: Mapping[tuple[int, str], Said]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return where the time of the last replica went, and that of all waves; `said` by broker and topic. Pure."""
    waves = [{_partition_of(file.partitions[number]) for number in wave} & watch.ended_s.keys() for wave in file.waves]
    last_of_waves = [
        _trace(watch, wave, max(wave, key=lambda place: watch.ended_s[place]), said) for wave in waves if wave
    ]
    began_s = min(watch.ordered_s.values())
    last = max(last_of_waves, key=lambda trace: trace.joined_s)
    rows = moved_rows(last, began_s), whole_rows(last_of_waves, began_s)
    by_last, by_whole = ({row.value: seconds for row, seconds in each.items()} for each in rows)
    return by_last, by_whole


def _trace(
    watch: Watch, wave: Collection[TopicPartition], last: TopicPartition, said: Mapping[tuple[int, str], Said]
) -> Trace:
    """The trace of a wave's replica; its broker's first question in the wave is that of any replica there."""
    (broker, *_) = sorted(watch.after[last] - watch.before[last])
    with_it = [each for each in wave if broker in watch.after[each] - watch.before[each]]
    asked = [
        at
        for each in with_it
        if (at := said[broker, each.topic].asked_s.get(each.partition)) is not None and at <= watch.ended_s[each]
    ]
    return trace_of(
        said[broker, last.topic],
        last.partition,
        joined_s=watch.ended_s[last],
        ordered_s=watch.ordered_s[last],
        asked_s=min(asked, default=None),
    )


def _copied_bytes(lab: Lab, watch: Watch) -> int:
    return sum(
        log_bytes(lab.cluster.data_directory(broker), place.topic, str(place.partition))
        for place, target in watch.after.items()
        for broker in target - watch.before[place]
    )


@contextmanager
def _executing(lab: Lab, path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Carry the plan out; at the end it has ended well, or is cancelled."""
    bootstrap = ("--bootstrap", lab.bootstrap)
    command = [*TIERFETCH, "reassign", "execute", str(path), "--warm-timeout", "0", *bootstrap]
    said = path.with_suffix(".said")
    with said.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, preexec_fn=end_with_parent())
        try:
            yield process
            process.wait(STEP_TIMEOUT_S)
        except BaseException:
            process.kill()
            process.wait()
            cancel = [*TIERFETCH, "reassign", "cancel", str(path), *bootstrap]
            subprocess.run(
                cancel,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=STEP_TIMEOUT_S,
                check=False,
                preexec_fn=end_with_parent(),
            )
            raise
    _check(process, said)


def _check(process: subprocess.Popen[bytes], said: Path) -> None:
    if process.returncode:
        end = said.read_text(errors="replace")[-SAID_MAX:]
        raise RuntimeError(f"reassign execute ended with {process.returncode}: {end}")


async def _watched(
    found: Admin, lab: Lab, topics: Sequence[str], watch: Watch, process: subprocess.Popen[bytes]
) -> None:
    """Until everything has moved. NeverMovedError; RuntimeError if the command failed."""
    deadline_s = time.monotonic() + MOVE_TIMEOUT_S
    while time.monotonic() < deadline_s:
        seen = (await found.cluster(topics, at=lab.address)).topics
        parts = {TopicPartition(topic.name, part.partition_index): part for topic in seen for part in topic.partitions}
        replicas = {place: frozenset(part.replica_nodes) for place, part in parts.items()}
        isr = {place: frozenset(part.isr_nodes) for place, part in parts.items()}
        if watch.look(replicas, isr, time.time()):
            return
        if process.poll():
            return
        await asyncio.sleep(LOOK_S)
    left = len(watch.after) - len(watch.ended_s)
    raise NeverMovedError(f"{left} partitions of {', '.join(topics)} have not moved after {MOVE_TIMEOUT_S:.0f} s")
