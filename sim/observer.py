"""Looks at the brokers after every event, and tells the invariants what has changed. One line for each transition.

    event of a process -> its broker's partitions -> those whose fingerprint changed -> `ReplicaStatus` -> invariants

A fingerprint is a few offsets and identities, so that an event that changed nothing costs little. Between two events
nothing can change: that is what asyncio promises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..broker.node import Broker
from ..broker.partition import Partition
from ..protocol.topics import TopicIdPartition
from .invariants import PartitionInvariants, ReplicaStatus
from .losses import PartitionLosses
from .process import Process

Record = Callable[[str, str], None]
"""Host and text: a line of the trace."""


class ReplicaObserver:
    """Of all replicas of a run. `hosts` gives the broker that runs as a process, None while it is not up."""

    def __init__(self, broker_of: Callable[[Process], Broker | None], record: Record) -> None:
        self.invariants: dict[TopicIdPartition, PartitionInvariants] = {}
        self.losses: Mapping[TopicIdPartition, PartitionLosses] = {}
        self.looks = 0
        self._broker_of = broker_of
        self._record = record
        self._fingerprints: dict[Partition, tuple[Any, ...]] = {}
        """By what hashes at no cost: this is looked up after every event."""
        self._replicas: dict[tuple[int, TopicIdPartition], Partition] = {}
        self._hosted: dict[int, int] = {}
        """How many replicas a node had."""
        self.on_commit: Callable[[TopicIdPartition, ReplicaStatus], None] = lambda *_: None
        """Told when a leader's high watermark rose."""
        self._statuses: dict[tuple[int, TopicIdPartition], ReplicaStatus] = {}

    def on_event(self, process: Process | None) -> None:
        """InvariantViolationError if something must not be."""
        broker = None if process is None else self._broker_of(process)
        if process is None or broker is None:
            return
        node_id = broker.config.node_id
        hosted = broker.hosted.partitions
        if len(hosted) < self._hosted.get(node_id, 0):
            self._forget_what_left(node_id, {partition.partition for partition in hosted.values()})
        self._hosted[node_id] = len(hosted)
        for partition in hosted.values():
            log = partition.log
            fingerprint = (
                log.high_watermark,
                log.log_end_offset,
                partition.leadership,
                log.epochs.version,
                log.local_log_start_offset,
                log.log_start_offset,
                partition.registration,
                log,
            )
            if self._fingerprints.get(partition) != fingerprint:
                self._fingerprints[partition] = fingerprint
                self._look((node_id, partition.partition), partition, process)

    def process_ended(self, node_id: int) -> None:
        """What it believed is gone."""
        for key in [key for key in self._replicas if key[0] == node_id]:
            self._forget(key)
        self._hosted.pop(node_id, None)

    def _forget_what_left(self, node_id: int, hosted: set[TopicIdPartition]) -> None:
        """Replicas that are hosted no more."""
        for key in [key for key in self._replicas if key[0] == node_id and key[1] not in hosted]:
            self._forget(key)

    def _forget(self, key: tuple[int, TopicIdPartition]) -> None:
        del self._fingerprints[self._replicas.pop(key)]
        self._statuses.pop(key, None)
        self.of(key[1]).forget(key[0])

    def of(self, name: TopicIdPartition) -> PartitionInvariants:
        return self.invariants.setdefault(name, PartitionInvariants(str(name.topic_partition)))

    def status(self, node_id: int, name: TopicIdPartition) -> ReplicaStatus | None:
        """As of the last event; None if the node is down or has no such replica."""
        return self._statuses.get((node_id, name))

    def _look(self, key: tuple[int, TopicIdPartition], partition: Partition, process: Process) -> None:
        self.looks += 1
        node_id, name = key
        replaced = self._replicas.get(key)
        if replaced is not None and replaced is not partition:
            del self._fingerprints[replaced]
        self._replicas[key] = partition
        now = _status(node_id, process.number, partition)
        before = self._statuses.get(key)
        self._statuses[key] = now
        text = _transition(before, now)
        if text:
            self._record(process.host, f"{name.topic_partition} {_columns(now)} {text}")
        invariants = self.of(name)
        invariants.observe(now)
        losses = self.losses.get(name)
        if losses is not None:
            losses.is_running(node_id, now.log_end_offset, invariants.committed_end)
        if now.leads_epoch is not None and (before is None or now.high_watermark > before.high_watermark):
            self.on_commit(name, now)


def _status(node_id: int, incarnation: int, partition: Partition) -> ReplicaStatus:
    log = partition.log
    return ReplicaStatus(
        node_id=node_id,
        incarnation=incarnation,
        leader_epoch=partition.leader_epoch,
        leads_epoch=None if partition.leadership is None else partition.leadership.leader_epoch,
        log_start_offset=log.log_start_offset,
        local_log_start_offset=log.local_log_start_offset,
        high_watermark=log.high_watermark,
        log_end_offset=log.log_end_offset,
        epochs=log.epochs.entries,
    )


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
