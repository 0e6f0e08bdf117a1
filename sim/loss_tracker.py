"""Watches what the brokers of a world lose, and turns what is permitted into excuses for the judges.

    crash of a machine -> what its files still hold -> `PartitionLosses` -> is every ISR member affected? -> `Excuse`

It reads the files itself, batch by batch, and does not ask the broker's recovery what it would keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from ..broker.cluster_view import ClusterImage
from ..protocol.errors import CorruptRecordError
from ..protocol.records import iter_batches
from ..protocol.topics import TopicPartition
from .checkers import Excuse
from .filesystem import SimFilesystem
from .losses import PartitionLosses
from .observer import ReplicaObserver
from .world import World

FLUSH_NEVER = 2**63 - 1


class LossTracker:
    """Of the brokers in `node_ids` (by host name), whose logs lie in `directory`."""

    def __init__(
        self,
        world: World,
        observer: ReplicaObserver,
        node_ids: Mapping[str, int],
        directory: Path,
        on_crash: Callable[[str], None],
    ) -> None:
        self.excuses: list[Excuse] = []
        self.losses: dict[TopicPartition, PartitionLosses] = {}
        observer.losses = self.losses
        self._world = world
        self._observer = observer
        self._node_ids = node_ids
        self._directory = directory
        self._on_crash = on_crash
        self._images_seen = 0
        self._ends_before: dict[tuple[int, TopicPartition], int] = {}

    def may_wipe(self, host: str) -> bool:
        """Another live replica must be in sync, and level, in each partition."""
        node_id, image = self._node_ids[host], self._world.cluster.image
        for name, replicas, _ in self._partitions():
            registration = image.partition(name)
            committed_end = self._observer.of(name).committed_end
            others = [
                status
                for other in (registration.isr if registration is not None else ())
                if other != node_id and (status := self._observer.status(other, name)) is not None
            ]
            if node_id in replicas and not any(status.log_end_offset >= committed_end for status in others):
                return False
        return True

    def before_crash(self, host: str) -> None:
        node_id = self._node_ids[host]
        for name, _, _ in self._partitions():
            status = self._observer.status(node_id, name)
            if status is not None:
                self._ends_before[node_id, name] = status.log_end_offset

    def process_ended(self, host: str) -> None:
        """Its memory is gone; its next start comes after an unclean stop."""
        self._on_crash(host)
        self._observer.process_ended(self._node_ids[host])

    def machines_crashed(self, hosts: Sequence[str]) -> None:
        for host in hosts:
            node_id, files = self._node_ids[host], self._world.host(host).files
            for name, replicas, flush_messages in self._partitions():
                if node_id in replicas:
                    end_before = self._ends_before.get((node_id, name), 0)
                    self._of(name, flush_messages).machine_crashed(
                        node_id,
                        surviving_end=surviving_end(files, self._directory / str(name)),
                        committed_end=min(end_before, self._observer.of(name).committed_end),
                    )
        self.evaluate()

    def wiped(self, host: str) -> None:
        node_id = self._node_ids[host]
        for name, replicas, flush_messages in self._partitions():
            if node_id in replicas:
                self._of(name, flush_messages).wiped(node_id)
        self.evaluate()

    def follow_cluster(self) -> None:
        """After every event: an ISR may have changed."""
        if len(self._world.cluster.history) != self._images_seen:
            self._images_seen = len(self._world.cluster.history)
            self.evaluate()

    def evaluate(self) -> None:
        """Has any partition lost something that it may lose? After every loss and every change of an ISR."""
        for name, losses in sorted(self.losses.items()):
            registration = self._world.cluster.image.partition(name)
            invariants = self._observer.of(name)
            if registration is None:
                continue
            from_offset = losses.excused_from(registration.isr, invariants.committed_end)
            if from_offset is not None:
                self._world.record("losses", f"{name}: permitted from {from_offset} of {invariants.committed_end}")
                self.excuses.append(Excuse(str(name), from_offset, int(self._world.now_s * 1000)))
                invariants.forgive(from_offset, registration.replicas)

    def _of(self, name: TopicPartition, flush_messages: int) -> PartitionLosses:
        return self.losses.setdefault(name, PartitionLosses(flush_messages))

    def _partitions(self) -> Iterator[tuple[TopicPartition, tuple[int, ...], int]]:
        """All of the cluster: name, replicas, flush.messages."""
        image: ClusterImage = self._world.cluster.image
        for topic_name, topic in sorted(image.topics.items()):
            flush_messages = int(topic.configs.get("flush.messages", FLUSH_NEVER))
            for number, registration in sorted(topic.partitions.items()):
                yield TopicPartition(topic_name, number), registration.replicas, flush_messages


def surviving_end(files: SimFilesystem, directory: Path) -> int:
    """Up to which offset the segment files hold whole batches that follow each other; 0 if there is nothing."""
    segments = [(path, bytes(inode.content)) for path, inode in files.walk(directory) if path.suffix == ".log"]
    end = int(segments[0][0].stem) if segments else 0
    for path, data in segments:
        if int(path.stem) != end:
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
