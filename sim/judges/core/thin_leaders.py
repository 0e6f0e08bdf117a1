"""Whether a thin replica was made the leader while a full one could lead.

| invariant        | violated when                                                                               |
|------------------|---------------------------------------------------------------------------------------------|
| full ones first  | another leader is elected that was known to be thin, and a live member of the ISR was not   |

What is known is what brokers have told the controller that decided (`heartbeats`): after a failover nothing is, and all
count as full. A leader that is thin may stay.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....broker.cluster.view import NO_LEADER, ClusterImage, PartitionRegistration, TopicImage
from ....controller.image.registrations import PartitionKey
from ....quorum.listener import CommittedBatch
from .events import MetadataChanged, Observed
from .heartbeats import HeartbeatJudge
from .partition import InvariantViolationError


class ThinLeadersJudge:
    """Judges every election by what `heartbeats` knows."""

    def __init__(self, heartbeats: HeartbeatJudge) -> None:
        self._heartbeats = heartbeats
        self.spared = 0
        """Elections in which a thin replica could have been taken, and a full one was."""

    def on(self, event: Observed) -> None:
        if isinstance(event, MetadataChanged):
            self._changed(event.batch, event.before, event.after)

    def _changed(self, batch: CommittedBatch, before: ClusterImage, after: ClusterImage) -> None:
        """InvariantViolationError."""
        for topic in after.topics.values():
            for number, then, now in _elections(before.topics.get(topic.name), topic):
                key = PartitionKey(topic.topic_id, number)
                live = [member for member in now.isr if after.brokers[member].may_join_isr]
                thin = {member for member in live if self._is_thin(batch, after, key, member)}
                full = sorted(set(live) - thin - {now.leader})
                self.spared += bool(thin) and now.leader not in thin
                if now.leader in thin and full:
                    detail = f"{topic.name}-{number}: {then} -> {now}; thin are {sorted(thin)}"
                    raise InvariantViolationError("full ones first", detail)

    def _is_thin(self, batch: CommittedBatch, image: ClusterImage, key: PartitionKey, broker_id: int) -> bool:
        epoch = image.brokers[broker_id].epoch
        known = self._heartbeats.known(batch.epoch, broker_id, epoch, batch.base_offset)
        return bool(known) and key in known[-1].thin


def _elections(
    old: TopicImage | None, topic: TopicImage
) -> Iterator[tuple[int, PartitionRegistration, PartitionRegistration]]:
    """Partitions with another leader than before: number, then, and now."""
    if old is None or old.topic_id != topic.topic_id or old is topic:
        return
    for number, now in topic.partitions.items():
        then = old.partitions.get(number)
        if then is not None and now.leader not in (NO_LEADER, then.leader):
            yield number, then, now
