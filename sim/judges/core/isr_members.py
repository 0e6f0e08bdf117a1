"""Whether in-sync replicas are: after every event that commits something, after every truncation and change of an ISR.

| invariant          | violated when                                                                               |
|--------------------|---------------------------------------------------------------------------------------------|
| whole ISR          | a leader's high watermark rises above the log end of a member of the committed ISR          |
| enough copies      | or to where fewer replicas than `min.insync.replicas` end                                   |
| flushed ISR        | or above what such a member has on its disk, less what `flush.messages` leaves unflushed     |
| joins level        | a replica becomes a member, or its leader asks for that, and its log ends below what is     |
|                    | committed                                                                                   |
| keeps whole        | a member takes records off its log that are committed, and the same there                   |

What a replica has that does not run is read from its files. Of one whose machine lost something since it was level,
nothing is demanded; nor of a leader whose epoch is over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Protocol
from uuid import UUID

from ....broker.cluster import ClusterImage, PartitionRegistration
from ....protocol import TopicIdPartition
from .allowed_losses import FLUSH_NEVER
from .events import Committed, JoinersRequested, MetadataChanged, Observed, Truncated
from .partition import InvariantViolationError, Replicas, ReplicaStatus


class Disks(Protocol):
    """What is on the disks of all machines."""

    def holds(self, host: str, directory: Path, end_offset: int) -> bool:
        """Whether everything below `end_offset` would survive a crash now."""

    def found_end(self, host: str, directory: Path) -> int:
        """Up to which offset a process that starts there now finds the log."""


class IsrMembersJudge:
    """Judges by the cluster's newest image. `hosts` by broker id keep the log of a replica in `place`. `has_lost` says
    whether a node has lost something of a partition since it was level.
    """

    def __init__(
        self,
        replicas: Replicas,
        has_lost: Callable[[int, TopicIdPartition], bool],
        image: Callable[[], ClusterImage],
        disks: Disks,
        hosts: Mapping[int, str],
        place: Callable[[int, TopicIdPartition], Path],
    ) -> None:
        self._replicas = replicas
        self._has_lost = has_lost
        self._image = image
        self._disks = disks
        self._hosts = hosts
        self._place_of = place
        self._min_isr: dict[UUID, int] = {}
        """The lowest `min.insync.replicas` of topics that had several: leaders see a change at their own time."""

    def on(self, event: Observed) -> None:
        match event:
            case Committed(partition, leader):
                self._committed(partition, leader)
            case Truncated(partition, before, after):
                self._truncated(partition, before, after)
            case JoinersRequested(partition, leader, brokers):
                self._asked_for(partition, leader, brokers)
            case MetadataChanged(_, _, before_image, after_image):
                self._changed(before_image, after_image)

    def _committed(self, name: TopicIdPartition, leader: ReplicaStatus) -> None:
        """InvariantViolationError."""
        now = self._registration(name)
        if now is None or now.leader_epoch != leader.leads_epoch:
            return
        configs = self._image().topics[name.topic].configs
        flushed_end = leader.high_watermark - (int(configs.get("flush.messages", FLUSH_NEVER)) - 1)
        ends = {replica: self._end(replica, name) for replica in now.replicas}
        for member in now.isr:
            end = ends[member]
            if end is None:
                continue
            detail = f"{name.topic_partition}: {leader.high_watermark} is committed, {member} in the ISR of {now}"
            if end < leader.high_watermark:
                raise InvariantViolationError("whole ISR", f"{detail} ends at {end}")
            if flushed_end > 0 and not self._disks.holds(*self._place(member, name), flushed_end):
                raise InvariantViolationError("flushed ISR", f"{detail} has not {flushed_end} on its disk")
        wanted = min(self._min_isr.get(name.topic_id, FLUSH_NEVER), _min_isr(configs), len(now.replicas))
        if sum(end is None or end >= leader.high_watermark for end in ends.values()) < wanted:
            detail = (
                f"{name.topic_partition}: {leader.high_watermark} is committed, the replicas of {now} end at {ends}"
            )
            raise InvariantViolationError("enough copies", f"{detail}, {wanted} of them shall have it")

    def _truncated(self, name: TopicIdPartition, before: ReplicaStatus, after: ReplicaStatus) -> None:
        """InvariantViolationError."""
        now = self._registration(name)
        if now is None or after.node_id not in now.isr or self._status(after.node_id, name) is None:
            return
        invariants = self._replicas.of(name)
        same_end = min(invariants.committed_end, invariants.first_difference(before))
        if after.log_end_offset < same_end:
            detail = f"{name.topic_partition}: {after.node_id} in the ISR of {now} goes back to {after.log_end_offset}"
            raise InvariantViolationError("keeps whole", f"{detail}, up to {same_end} it had what is committed")

    def _asked_for(self, name: TopicIdPartition, leader: ReplicaStatus, joiners: Collection[int]) -> None:
        """A leader asks for these to be members. InvariantViolationError."""
        now = self._registration(name)
        if now is None or now.leader_epoch != leader.leads_epoch:
            return
        for member in sorted(joiners):
            self._check_level(name, member, leader.high_watermark, f"{leader.node_id} asks for it")

    def _changed(self, before: ClusterImage, after: ClusterImage) -> None:
        """InvariantViolationError."""
        for topic in after.topics.values():
            old = before.topics.get(topic.name)
            if old is not None and _min_isr(old.configs) != _min_isr(topic.configs):
                lowest = min(_min_isr(old.configs), _min_isr(topic.configs))
                self._min_isr[topic.topic_id] = min(lowest, self._min_isr.get(topic.topic_id, lowest))
            for number, now in topic.partitions.items():
                then = old.partitions.get(number) if old is not None and old.topic_id == topic.topic_id else None
                is_unclean = then is not None and now.leader not in then.isr and now.isr == (now.leader,)
                if then is None or now.isr == then.isr or is_unclean:
                    continue
                name = topic.id_partition(number)
                for member in sorted(set(now.isr) - set(then.isr)):
                    self._check_level(name, member, self._replicas.of(name).committed_end, f"it was {then}")

    def _check_level(self, name: TopicIdPartition, member: int, committed_end: int, why: str) -> None:
        status = self._status(member, name)
        if status is not None and status.log_end_offset < committed_end:
            detail = f"{name.topic_partition}: {member} joins the ISR ({why}), its log ends at {status.log_end_offset}"
            raise InvariantViolationError("joins level", f"{detail}, {committed_end} is committed")

    def _registration(self, name: TopicIdPartition) -> PartitionRegistration | None:
        """None if the topic was deleted, or there is another one of that name."""
        image = self._image()
        return image.partition(name.topic_partition) if image.topic_names.get(name.topic_id) == name.topic else None

    def _place(self, member: int, name: TopicIdPartition) -> tuple[str, Path]:
        return self._hosts[member], self._place_of(member, name)

    def _end(self, member: int, name: TopicIdPartition) -> int | None:
        """The end of its log. None if nothing can be demanded of it."""
        if self._has_lost(member, name):
            return None
        status = self._replicas.status(member, name)
        return self._disks.found_end(*self._place(member, name)) if status is None else status.log_end_offset

    def _status(self, member: int, name: TopicIdPartition) -> ReplicaStatus | None:
        """None if nothing can be demanded of it."""
        return None if self._has_lost(member, name) else self._replicas.status(member, name)


def _min_isr(configs: Mapping[str, str]) -> int:
    return int(configs.get("min.insync.replicas", 1))
