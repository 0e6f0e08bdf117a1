"""What the brokers of a world lose, and which of it the fault model allows.

    crash of a machine -> what its files still hold -> `PartitionLosses` -> all members of the ISR? -> `AllowedLoss`

It reads the files itself, batch by batch, and does not ask the broker's recovery what it would keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from ...broker.cluster import ClusterImage, PartitionRegistration
from ...protocol import CorruptRecordError, TopicIdPartition
from ...protocol.records import iter_batches
from ..machine.filesystem import SimFilesystem
from ..machine.world import World
from .core.allowed_losses import FLUSH_NEVER, AllowedLoss, AllowedLosses, PartitionLosses
from .core.events import (
    Committed,
    DiskWiped,
    FilesChanged,
    MachinesCrashed,
    NodeCrashing,
    Observed,
    PagesGivenUp,
    ReplicaChanged,
    ReplicaLeft,
    UncleanlyElected,
)
from .core.partition import InvariantViolationError, Replicas, ReplicaStatus


class Cluster(Protocol):
    """The cluster that says who is in which ISR. `version` changes with `image`."""

    @property
    def image(self) -> ClusterImage: ...

    @property
    def version(self) -> int: ...


class LossJudge:
    """Judges the losses of the brokers in `node_ids` (by host name). `log_of` returns where the log of a broker's
    replica is, `is_in` whether it is lost with a log directory.
    """

    def __init__(
        self,
        world: World,
        cluster: Cluster,
        replicas: Replicas,
        node_ids: Mapping[str, int],
        log_of: Callable[[int, TopicIdPartition], Path],
        is_in: Callable[[int, Path, TopicIdPartition], bool],
    ) -> None:
        self._ended: dict[TopicIdPartition, list[AllowedLoss]] = {}
        """Losses that no longer excuse what is reported now."""
        self._open: dict[TopicIdPartition, list[AllowedLoss]] = {}
        self.losses: dict[TopicIdPartition, PartitionLosses] = {}
        self._world = world
        self._cluster = cluster
        self._replicas = replicas
        self._node_ids = node_ids
        self._log_of = log_of
        self._is_in_directory = is_in
        self._version = -1
        self._ends_before: dict[tuple[int, TopicIdPartition], int] = {}

    def may_wipe(self, host: str, directory: Path | None = None) -> bool:
        """Another live replica must be in sync, and level, in each partition of the host, or of that log directory."""
        node_id, image = self._node_ids[host], self._cluster.image
        for name, replicas, _ in self._partitions():
            registration = _registration(image, name)
            committed_end = self._replicas.of(name).committed_end
            others = [
                status
                for other in (registration.isr if registration is not None else ())
                if other != node_id and (status := self._replicas.status(other, name)) is not None
            ]
            is_hit = node_id in replicas and self._is_in(host, directory, name)
            if is_hit and not any(status.log_end_offset >= committed_end for status in others):
                return False
        return True

    def has_lost(self, node_id: int, name: TopicIdPartition) -> bool:
        """Whether the node has lost something of this partition, and has not been level since."""
        losses = self.losses.get(name)
        return losses is not None and losses.has_lost(node_id)

    def on(self, event: Observed) -> None:
        match event:
            case ReplicaChanged(partition, now):
                losses = self.losses.get(partition)
                if losses is not None:
                    losses.is_running(now.node_id, now.log_end_offset, self._replicas.of(partition).committed_end)
            case ReplicaLeft(node_id, partition):
                self._left(node_id, partition)
            case UncleanlyElected(partition, leader, by_config):
                self._elected_uncleanly(partition, leader, by_config=by_config)
            case Committed(partition, leader) if self._replicas.of(partition).is_deposed(leader):
                self._goes_on(partition, leader)
            case NodeCrashing(host) | PagesGivenUp(host) if host in self._node_ids:
                self._before_crash(host)
            case MachinesCrashed(hosts):
                self._machines_crashed([host for host in hosts if host in self._node_ids])
            case DiskWiped(host, directory) if host in self._node_ids:
                self._wiped(host, directory)
            case FilesChanged(host) if host in self._node_ids:
                self._before_crash(host)
                self._machines_crashed((host,))

    def _left(self, node_id: int, name: TopicIdPartition) -> None:
        """A broker that stops in order keeps the logs of replicas that are assigned to it, and believes in them."""
        registration = _registration(self._cluster.image, name)
        if registration is None or node_id not in registration.replicas:
            self._replicas.of(name).left(node_id)

    def _before_crash(self, host: str) -> None:
        node_id = self._node_ids[host]
        for name, _, _ in self._partitions():
            status = self._replicas.status(node_id, name)
            if status is not None:
                self._ends_before[node_id, name] = status.log_end_offset

    def _machines_crashed(self, hosts: Sequence[str]) -> None:
        for host in hosts:
            node_id, files = self._node_ids[host], self._world.host(host).files
            for name, replicas, flush_messages in self._partitions():
                if node_id in replicas:
                    end_before = self._ends_before.get((node_id, name), 0)
                    self._of(name, flush_messages).machine_crashed(
                        node_id,
                        surviving_end=surviving_end(
                            files, self._log_of(node_id, name), has_gaps=is_compacted(self._cluster.image, name)
                        ),
                        committed_end=min(end_before, self._replicas.of(name).committed_end),
                    )
        self.evaluate()

    def _is_in(self, host: str, directory: Path | None, name: TopicIdPartition) -> bool:
        """Whether the host's log of the partition is in that log directory, if one is given."""
        return directory is None or self._is_in_directory(self._node_ids[host], directory, name)

    def _wiped(self, host: str, directory: Path | None) -> None:
        node_id = self._node_ids[host]
        for name, replicas, flush_messages in self._partitions():
            if node_id in replicas and self._is_in(host, directory, name):
                self._of(name, flush_messages).wiped(node_id)
        self.evaluate()

    def follow_cluster(self) -> None:
        """After every event: an ISR may have changed; the last one that believed in what was lost may follow now."""
        for name in [name for name in self._open if not self._replicas.of(name).has_doubts]:
            self._ended.setdefault(name, []).extend(
                replace(loss, until_ms=self._now_ms) for loss in self._open.pop(name)
            )
        if self._cluster.version != self._version:
            self._version = self._cluster.version
            self.evaluate()
        self._check_shorter()

    def _check_shorter(self) -> None:
        """A replica that has lost something may be in an ISR only alone, or before it serves or fetches: it could be
        elected. InvariantViolationError.
        """
        for name, losses in self.losses.items():
            for node_id in losses.shorter:
                status, registration = self._replicas.status(node_id, name), _registration(self._cluster.image, name)
                committed_end = self._replicas.of(name).committed_end
                if status is None or registration is None or status.log_end_offset >= committed_end:
                    continue
                if node_id in registration.isr and len(registration.isr) > 1:
                    detail = (
                        f"{name.topic_partition}: {node_id} serves up to {status.log_end_offset} of {committed_end}"
                    )
                    raise InvariantViolationError("no shorter log in the ISR", f"{detail}, ISR {registration.isr}")

    def evaluate(self) -> None:
        """Allow what partitions have lost and may lose. Called after every loss and every change of an ISR."""
        image = self._cluster.image
        for name, losses in sorted(self.losses.items()):
            registration = _registration(image, name)
            invariants = self._replicas.of(name)
            if registration is None:
                continue
            from_offset = losses.allowed_from(registration.isr, invariants.committed_end)
            if from_offset is not None:
                self._allow(name, from_offset, registration.replicas)

    def _elected_uncleanly(self, name: TopicIdPartition, leader: int, *, by_config: bool) -> None:
        """A replica leads that is out of the ISR: what it has not is lost, and nothing else. An election `by_config`
        is immediate: the leader before may still commit.
        """
        registration = _registration(self._cluster.image, name)
        status = self._replicas.status(leader, name)
        invariants = self._replicas.of(name)
        if registration is None or status is None:
            return
        from_offset = invariants.first_difference(status)
        if from_offset < invariants.committed_end:
            self._allow(name, from_offset, registration.replicas, goes_on=by_config)
        elif by_config:
            invariants.forgive(from_offset, registration.replicas, goes_on=True)

    def _goes_on(self, name: TopicIdPartition, leader: ReplicaStatus) -> None:
        """A leader that does not know of its successor commits: where no other one does, that is lost, too."""
        known = self._open.setdefault(name, [])
        from_offset = max((loss.end_offset for loss in known), default=self._replicas.of(name).committed_end)
        if leader.high_watermark > from_offset:
            self._world.record(
                "losses", f"{name.topic_partition}: {leader.node_id} still commits up to {leader.high_watermark}"
            )
            known.append(AllowedLoss(from_offset=from_offset, end_offset=leader.high_watermark, at_ms=self._now_ms))

    def allowed_losses_of(self, name: TopicIdPartition) -> AllowedLosses:
        """Return the losses that are allowed so far."""
        return AllowedLosses((*self._ended.get(name, ()), *self._open.get(name, ())))

    def _allow(
        self, name: TopicIdPartition, from_offset: int, replicas: Sequence[int], *, goes_on: bool = False
    ) -> None:
        invariants = self._replicas.of(name)
        text = f"{name.topic_partition}: permitted from {from_offset} of {invariants.committed_end}"
        self._world.record("losses", text)
        loss = AllowedLoss(from_offset=from_offset, end_offset=invariants.committed_end, at_ms=self._now_ms)
        self._open.setdefault(name, []).append(loss)
        invariants.forgive(from_offset, replicas, goes_on=goes_on)

    @property
    def _now_ms(self) -> int:
        return int(self._world.now_s * 1000)

    def _of(self, name: TopicIdPartition, flush_messages: int) -> PartitionLosses:
        return self.losses.setdefault(name, PartitionLosses(flush_messages))

    def _partitions(self) -> Iterator[tuple[TopicIdPartition, tuple[int, ...], int]]:
        """Yield all partitions of the cluster: name, replicas, flush.messages."""
        image: ClusterImage = self._cluster.image
        for _, topic in sorted(image.topics.items()):
            flush_messages = int(topic.configs.get("flush.messages", FLUSH_NEVER))
            for number, registration in sorted(topic.partitions.items()):
                yield topic.id_partition(number), registration.replicas, flush_messages


def _registration(image: ClusterImage, name: TopicIdPartition) -> PartitionRegistration | None:
    """None if the topic was deleted, or there is another one of that name."""
    return image.partition(name.topic_partition) if image.topic_names.get(name.topic_id) == name.topic else None


def is_compacted(image: ClusterImage, name: TopicIdPartition) -> bool:
    """Whether its topic is: then offsets are missing from its segments, and from the ends of some."""
    topic = image.topics.get(name.topic)
    return topic is not None and topic.configs.get("cleanup.policy") == "compact"


def surviving_end(files: SimFilesystem, directory: Path, *, has_gaps: bool = False) -> int:
    """Return the offset up to which segment files hold whole batches, consecutive ones unless the log `has_gaps`; 0 if
    there is nothing.
    """
    segments = [(path, inode.read()) for path, inode in files.walk(directory) if path.suffix == ".log"]
    end = int(segments[0][0].stem) if segments else 0
    for path, data in segments:
        if int(path.stem) != end and not (has_gaps and int(path.stem) > end):
            break
        size = 0
        try:
            for _, header in iter_batches(data):
                end, size = header.next_offset, size + header.size_bytes
        except CorruptRecordError:
            break
        if size != len(data):
            break
    return end
