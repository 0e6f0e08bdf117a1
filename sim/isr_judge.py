"""Whether in-sync replicas are: after every event that commits something, and after every change of an ISR.

| invariant          | violated when                                                                               |
|--------------------|---------------------------------------------------------------------------------------------|
| whole ISR          | a leader's high watermark rises above the log end of a running member of the committed ISR  |
| joins level        | a replica becomes a member, and its log ends below what is committed                        |

Of a member whose machine lost something since it was level, nothing is demanded; nor of a leader whose epoch is over.
"""

from __future__ import annotations

from collections.abc import Callable

from ..broker.cluster_view import ClusterImage, PartitionRegistration
from ..protocol.topics import TopicIdPartition
from .invariants import InvariantViolationError, ReplicaStatus
from .observer import ReplicaObserver


class IsrJudge:
    """Of the replicas that `observer` sees, by the cluster's newest image."""

    def __init__(self, observer: ReplicaObserver, image: Callable[[], ClusterImage]) -> None:
        self._observer = observer
        self._image = image
        observer.on_commit = self.committed

    def committed(self, name: TopicIdPartition, leader: ReplicaStatus) -> None:
        """InvariantViolationError."""
        image = self._image()
        now = image.partition(name.topic_partition)
        if now is None or image.topic_names.get(name.topic_id) != name.topic or now.leader_epoch != leader.leads_epoch:
            return
        for member in now.isr:
            status = self._status(member, name)
            if status is not None and status.log_end_offset < leader.high_watermark:
                detail = f"{name.topic_partition}: {leader.high_watermark} is committed, {member} in the ISR of {now}"
                raise InvariantViolationError("whole ISR", f"{detail} ends at {status.log_end_offset}")

    def changed(self, before: ClusterImage, after: ClusterImage) -> None:
        """InvariantViolationError."""
        for topic in after.topics.values():
            old = before.topics.get(topic.name)
            for number, now in topic.partitions.items():
                then = old.partitions.get(number) if old is not None and old.topic_id == topic.topic_id else None
                if then is not None and now.isr != then.isr and now.leader_epoch == then.leader_epoch:
                    self._check_new_members(topic.id_partition(number), then, now)

    def _check_new_members(
        self, name: TopicIdPartition, then: PartitionRegistration, now: PartitionRegistration
    ) -> None:
        committed_end = self._observer.of(name).committed_end
        for member in sorted(set(now.isr) - set(then.isr)):
            status = self._status(member, name)
            if status is not None and status.log_end_offset < committed_end:
                detail = f"{name.topic_partition}: {member} joins {then}, its log ends at {status.log_end_offset}"
                raise InvariantViolationError("joins level", f"{detail}, {committed_end} is committed")

    def _status(self, member: int, name: TopicIdPartition) -> ReplicaStatus | None:
        """None if nothing can be demanded of it."""
        losses = self._observer.losses.get(name)
        if losses is not None and losses.has_lost(member):
            return None
        return self._observer.status(member, name)
