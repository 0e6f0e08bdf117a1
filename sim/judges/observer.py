"""Looks at the brokers after every event of the loop, and publishes what has changed. One line for each transition.

    event of a process -> its broker's partitions -> those in which something changed -> `ReplicaStatus` -> invariants

What a status is made of is a few offsets, and values that are replaced but never changed: all of them are compared, as
attributes that cost no call. Between two events nothing can change: that is what asyncio promises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ...broker import Broker
from ...broker.cluster import PartitionRegistration
from ...broker.replicas import Leadership, Partition
from ...fetcher.core import LeaderReplicas
from ...light_dataclass import dataclass
from ...log import PartitionLog
from ...log.core import EpochEntry
from ...protocol import TopicIdPartition, TopicPartition
from ..machine.process import Process
from .core.events import (
    Committed,
    IsrChangeSettled,
    JoinersRequested,
    LeaderElected,
    LeaderProgressed,
    LeaversRequested,
    LocalStartMoved,
    LogStartMoved,
    ReplicaChanged,
    ReplicaEvent,
    ReplicaLeft,
    ReplicaMoved,
    Truncated,
)
from .core.partition import InvariantViolationError, PartitionJudge, ReplicaStatus

Record = Callable[[str, str], None]
"""Host and text: a line of the trace."""


@dataclass(slots=True)
class _Watched:
    """A broker that hosts partitions. `count`: how many replicas it had at the last event."""

    node_id: int
    hosted: Mapping[TopicPartition, Partition]
    count: int = 0


@dataclass(slots=True, eq=False)
class _Seen:
    """A replica as it was at the last event."""

    key: tuple[int, TopicIdPartition]
    invariants: PartitionJudge
    status: ReplicaStatus | None
    """None before the first look; of a replica that was made again at first its predecessor's."""
    log: PartitionLog | None = None
    directory: Path | None = None
    log_end_offset: int = -1
    high_watermark: int = -1
    log_start_offset: int = -1
    first_base_offset: int = -1
    epochs: tuple[EpochEntry, ...] | None = None
    leadership: Leadership | None = None
    registration: PartitionRegistration | None = None
    pending_isr: frozenset[int] | None = None

    def take(self, partition: Partition, process: Process) -> ReplicaStatus:
        """Keep what will be compared from now on; the status that it gives."""
        log, leadership, registration = partition.log, partition.leadership, partition.registration
        state = log.state
        start, local_start = state.log_start_offset, state.segments.first_base_offset
        self.log, self.leadership, self.registration = log, leadership, registration
        self.directory = state.directory
        self.log_start_offset, self.first_base_offset = start, local_start
        self.log_end_offset, self.high_watermark = state.log_end_offset, state.high_watermark
        self.epochs = state.epochs._entries
        return ReplicaStatus(
            self.key[0],
            process.number,
            -1 if registration is None else registration.leader_epoch,
            None if leadership is None else leadership.leader_epoch,
            start,
            local_start if local_start > start else start,
            self.high_watermark,
            self.log_end_offset,
            self.epochs,
        )


class ReplicaObserver:
    """Looks at all replicas of a run. `broker_of` gives the broker that runs as a process, None before it hosts any;
    `has_gaps` says which partitions are compacted.
    """

    def __init__(
        self,
        broker_of: Callable[[Process], Broker | None],
        record: Record,
        publish: Callable[[ReplicaEvent], None],
        *,
        has_gaps: Callable[[TopicIdPartition], bool] = lambda _: False,
    ) -> None:
        self._has_gaps = has_gaps
        self.invariants: dict[TopicIdPartition, PartitionJudge] = {}
        self.looks = 0
        self._broker_of = broker_of
        self._record = record
        self._publish = publish
        self._seen: dict[Partition, _Seen] = {}
        """The key hashes at no cost: this is looked up after every event."""
        self._replicas: dict[tuple[int, TopicIdPartition], Partition] = {}
        self._watched: dict[Process, _Watched] = {}
        """The broker that runs as a process, from the moment it hosts partitions."""
        self._cut: dict[Partition, None] = {}
        """Replicas whose truncation is under way."""
        self._statuses: dict[tuple[int, TopicIdPartition], ReplicaStatus] = {}

    def look(self, process: Process | None) -> None:
        """Look at the broker of this process, after an event of its own. InvariantViolationError."""
        if process is None or process.is_dead:
            return
        watched = self._watched.get(process) or self._begin_to_watch(process)
        if watched is None:
            return
        hosted = watched.hosted
        if len(hosted) != watched.count:
            if len(hosted) < watched.count:
                self._forget_what_left(watched.node_id, {partition.partition for partition in hosted.values()})
            watched.count = len(hosted)
        for partition in hosted.values():
            seen = self._seen.get(partition) or self._begin_to_see(watched.node_id, partition)
            log, leadership = partition.log, partition.leadership
            state = log.state
            if (
                seen.log_end_offset != state.log_end_offset
                or seen.high_watermark != state.high_watermark
                or seen.log is not log
                or seen.directory is not state.directory
                or seen.leadership is not leadership
                or seen.registration is not partition.registration
                or seen.log_start_offset != state.log_start_offset
                or seen.first_base_offset != state.segments.first_base_offset
                or seen.epochs is not state.epochs._entries
            ):
                self._look(seen, partition, process)
            if leadership is not None and leadership.replicas.pending_isr is not seen.pending_isr:
                self._look_at_pending_isr(seen, leadership.replicas)
        if self._cut:
            self._look_at_cut(hosted)

    def _begin_to_watch(self, process: Process) -> _Watched | None:
        broker = self._broker_of(process)
        if broker is None:
            return None
        watched = self._watched[process] = _Watched(broker.config.node_id, broker.hosted.partitions)
        return watched

    def _begin_to_see(self, node_id: int, partition: Partition) -> _Seen:
        key = (node_id, partition.partition)
        replaced = self._replicas.get(key)
        if replaced is not None:
            del self._seen[replaced]
            self._cut.pop(replaced, None)
        self._replicas[key] = partition
        seen = self._seen[partition] = _Seen(key, self.of(partition.partition), self._statuses.get(key))
        return seen

    def process_ended(self, node_id: int) -> None:
        """Forget what the node believed."""
        for key in [key for key in self._replicas if key[0] == node_id]:
            self._forget(key)
        for process in [process for process, watched in self._watched.items() if watched.node_id == node_id]:
            del self._watched[process]

    def _forget_what_left(self, node_id: int, hosted: set[TopicIdPartition]) -> None:
        """Publish the replicas that are no longer hosted."""
        for key in [key for key in self._replicas if key[0] == node_id and key[1] not in hosted]:
            self._forget(key)
            self._publish(ReplicaLeft(*key))

    def _forget(self, key: tuple[int, TopicIdPartition]) -> None:
        partition = self._replicas.pop(key)
        del self._seen[partition]
        self._cut.pop(partition, None)
        self._statuses.pop(key, None)
        self.of(key[1]).forget(key[0])

    def of(self, name: TopicIdPartition) -> PartitionJudge:
        found = self.invariants.get(name)
        if found is None:
            found = self.invariants[name] = PartitionJudge(str(name.topic_partition), has_gaps=self._has_gaps(name))
        return found

    def status(self, node_id: int, name: TopicIdPartition) -> ReplicaStatus | None:
        """As of the last event; None if the node is down or has no such replica."""
        return self._statuses.get((node_id, name))

    def _look(self, seen: _Seen, partition: Partition, process: Process) -> None:
        self.looks += 1
        name, before, invariants = seen.key[1], seen.status, seen.invariants
        was_in = seen.directory if seen.log is partition.log else None
        now = seen.take(partition, process)
        seen.status = self._statuses[seen.key] = now
        text = _transition(before, now)
        if text:
            self._record(process.host, f"{name.topic_partition} {_columns(now)} {text}")
        invariants.observe(now)
        if was_in is not None and seen.directory is not None and was_in != seen.directory:
            self._record(process.host, f"{name.topic_partition} -> moved to {seen.directory.parent}")
            self._publish(ReplicaMoved(name, now.node_id, seen.directory.parent))
        self._publish(ReplicaChanged(name, now))
        self._publish_progress(name, before, now, process.host)
        if before is not None and before.incarnation == now.incarnation and now.log_end_offset < before.log_end_offset:
            self._cut[partition] = None
            self._publish(Truncated(name, before, now))

    def _publish_progress(
        self, name: TopicIdPartition, before: ReplicaStatus | None, now: ReplicaStatus, host: str
    ) -> None:
        if before is None or now.log_start_offset > before.log_start_offset:
            self._publish(LogStartMoved(name, before, now))
        if before is None or now.local_log_start_offset > before.local_log_start_offset:
            self._publish(LocalStartMoved(name, now))
        if now.leads_epoch is None:
            return
        self._publish(LeaderProgressed(name, now))
        if before is None or now.high_watermark > before.high_watermark:
            self._publish(Committed(name, now))
        if before is None or before.leads_epoch != now.leads_epoch:
            self._publish(LeaderElected(host, name))

    def _look_at_pending_isr(self, seen: _Seen, replicas: LeaderReplicas) -> None:
        pending = seen.pending_isr = replicas.pending_isr
        if pending is None:
            self._publish(IsrChangeSettled(seen.key[1], self._statuses[seen.key]))
        if pending is not None and (joiners := pending - replicas.isr):
            self._publish(JoinersRequested(seen.key[1], self._statuses[seen.key], joiners))
        if pending is not None and (leavers := replicas.isr - pending):
            self._publish(LeaversRequested(seen.key[1], self._statuses[seen.key], leavers))

    def _look_at_cut(self, hosted: Mapping[TopicPartition, Partition]) -> None:
        """Check replicas whose truncation is over: their producer state was rebuilt."""
        for partition in [each for each in self._cut if each.partition.topic_partition in hosted]:
            if not partition.log.state.gate.locked():
                del self._cut[partition]
                check_producers(partition)


def check_producers(partition: Partition) -> None:
    """No producer is known beyond the end of a log that was cut, unless it failed half-way. InvariantViolationError."""
    log, next_offset = partition.log, partition.log.state.next_offset
    for entry in log.state.producers.entries.values() if log.state.failure is None else ():
        seen = [batch.last_offset for batch in entry.batches]
        if entry.current_txn_first_offset is not None:
            seen.append(entry.current_txn_first_offset)
        if max(seen, default=-1) >= next_offset:
            detail = f"{partition.partition.topic_partition} was cut at {next_offset}, and knows of {entry}"
            raise InvariantViolationError("truncated producers", detail)


def _columns(now: ReplicaStatus) -> str:
    role = "follower" if now.leads_epoch is None else "leader"
    return f"epoch={now.leader_epoch} {role} hw={now.high_watermark} end={now.log_end_offset}"


def _transition(before: ReplicaStatus | None, now: ReplicaStatus) -> str:
    """What has happened, in words; empty for appends and a rising high watermark."""
    if before is None:
        return f"-> hosted, starts at {now.log_start_offset}, locally at {now.local_log_start_offset}"
    news = []
    if now.leads_epoch != before.leads_epoch:
        news.append(f"leads epoch {now.leads_epoch}" if now.leads_epoch is not None else "leads no more")
    elif now.leader_epoch != before.leader_epoch:
        news.append(f"follows epoch {now.leader_epoch}")
    if now.log_end_offset < before.log_end_offset:
        news.append(f"truncated from {before.log_end_offset}")
    if now.log_start_offset != before.log_start_offset:
        news.append(f"log start {before.log_start_offset} -> {now.log_start_offset}")
    if now.local_log_start_offset != before.local_log_start_offset:
        news.append(f"local start {before.local_log_start_offset} -> {now.local_log_start_offset}")
    if now.high_watermark < before.high_watermark:
        news.append(f"high watermark back from {before.high_watermark}")
    return f"-> {', '.join(news)}" if news else ""
