"""Whether a thin replica was made the leader while a full one could lead.

| invariant           | violated when                                                                            |
|---------------------|------------------------------------------------------------------------------------------|
| full ones first     | another leader is elected that is not known to be full, and a live member of the ISR is  |
| known before it led | a live leader is deposed for a replica of which its broker has not reported since it     |
|                     | joined the ISR                                                                           |

What is known is what brokers have told the controller that decided (`heartbeats`): of a replica, what its broker said
once it had replayed the replica's last join of the ISR. After a failover nothing is known. Joins are read off the
metadata log. A leader that is thin may stay; replicas of topics that are not tiered are full.

A controller also passes over reports of metadata from before its epoch. Where that makes a difference nobody is blamed:
a replica counts as full only by a report of metadata of that epoch, and as unknown only without any report of its join.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....broker.cluster import NO_LEADER, ClusterImage, PartitionRegistration, TopicImage
from ....controller import PartitionKey
from ....light_dataclass import dataclass
from ....quorum import CommittedBatch
from .events import MetadataChanged, Observed
from .heartbeats import HeartbeatJudge
from .partition import InvariantViolationError

NEVER = -1


@dataclass(frozen=True, slots=True)
class _Members:
    """Live members of an ISR. Of those in neither of two sets the judge says nothing."""

    live: frozenset[int]
    full: frozenset[int]
    thin: frozenset[int]
    unknown: frozenset[int]


class ThinLeadersJudge:
    """Judges every election by what `heartbeats` knows."""

    def __init__(self, heartbeats: HeartbeatJudge) -> None:
        self._heartbeats = heartbeats
        self._joined: dict[tuple[PartitionKey, int], int] = {}
        """The offset of the batch by which a replica joined the ISR last."""
        self._epoch_offsets: dict[int, int] = {}
        """Of each controller's first batch that changed anything."""
        self.spared = 0
        """Elections in which a thin replica could have been taken, and a full one was."""

    def on(self, event: Observed) -> None:
        if isinstance(event, MetadataChanged):
            self._changed(event.batch, event.before, event.after)

    def _changed(self, batch: CommittedBatch, before: ClusterImage, after: ClusterImage) -> None:
        """InvariantViolationError."""
        self._epoch_offsets.setdefault(batch.epoch, batch.base_offset)
        for topic in after.topics.values():
            for number, then, now in _changes(before.topics.get(topic.name), topic):
                key = PartitionKey(topic.topic_id, number)
                for member in set(now.isr) - set(then.isr):
                    self._joined[key, member] = batch.last_offset
                if now.leader not in (NO_LEADER, then.leader) and _is_tiered(topic):
                    self._check(
                        f"{topic.name}-{number}: {then} -> {now}", then, now, self._look(batch, after, key, now)
                    )

    def _check(self, change: str, then: PartitionRegistration, now: PartitionRegistration, members: _Members) -> None:
        self.spared += bool(members.thin) and now.leader in members.full
        others = members.full - {now.leader}
        if now.leader in members.thin | members.unknown and others:
            raise InvariantViolationError("full ones first", f"{change}; full are {sorted(others)}")
        if now.leader in members.unknown and then.leader in members.live:
            raise InvariantViolationError("known before it led", change)

    def _look(
        self, batch: CommittedBatch, image: ClusterImage, key: PartitionKey, now: PartitionRegistration
    ) -> _Members:
        full, thin, unknown = set(), set(), set()
        live = [member for member in now.isr if image.brokers[member].may_join_isr]
        for member in live:
            joined = self._joined.get((key, member), NEVER)
            heard = self._heartbeats.known(batch.epoch, member, image.brokers[member].epoch, batch.base_offset)
            reports = [each for each in heard if each.metadata_offset >= joined]
            if heard and key in heard[-1].thin:
                thin.add(member)
            elif not reports:
                unknown.add(member)
            elif reports[-1].metadata_offset >= self._epoch_offsets[batch.epoch]:
                full.add(member)
        return _Members(frozenset(live), frozenset(full), frozenset(thin), frozenset(unknown))


def _is_tiered(topic: TopicImage) -> bool:
    return topic.configs.get("remote.storage.enable") == "true"


def _changes(
    old: TopicImage | None, topic: TopicImage
) -> Iterator[tuple[int, PartitionRegistration, PartitionRegistration]]:
    """Partitions that are not what they were: number, then, and now."""
    if old is None or old.topic_id != topic.topic_id or old is topic:
        return
    for number, now in topic.partitions.items():
        then = old.partitions.get(number)
        if then is not None and then is not now:
            yield number, then, now
