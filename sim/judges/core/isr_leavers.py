"""Whether who leaves an ISR had to: judged when its leader asks for that, and when it is decided.

| invariant        | violated when                                                                                     |
|------------------|---------------------------------------------------------------------------------------------------|
| left behind      | a leader asks for an ISR without a member that was level with it within `replica.lag.time.max.ms` |
| asked to leave   | a member leaves that is assigned still, though its broker serves on, and its leader did not ask,  |
|                  | nor had the broker told that the log directory is offline, in which a call had failed since it    |
|                  | registered, nor that it cannot open the log (KIP-858), which something has kept it from           |

Who is level is told by the leader's high watermark: it reaches the end of the log once every member has fetched from
there, so after the last append before: the leader knows each of them to have been level then, or later.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import field
from uuid import UUID

from ....broker.cluster import BrokerRegistration, ClusterImage, PartitionRegistration
from ....controller import LOST_DIRECTORY
from ....light_dataclass import dataclass
from ....protocol import TopicIdPartition
from ....quorum import CommittedBatch
from .events import LeaderProgressed, LeaversRequested, MetadataChanged, Observed
from .heartbeats import HeartbeatJudge
from .partition import InvariantViolationError, ReplicaStatus


@dataclass(slots=True)
class _Led:
    """A partition under one leader epoch. `level_s`: the last append before its members were level; None until then."""

    leader_epoch: int
    end_offset: int
    appended_s: float
    level_s: float | None = None
    members: frozenset[int] = frozenset()
    asked: set[int] = field(default_factory=set)
    """Brokers that the leader wanted to leave."""


class IsrLeaversJudge:
    """Judges all leaders by the cluster's newest image. `now_s` is the event loop's time; `failed_s` tells of a broker
    and its log directory when a call in there failed last, None if none has; `may_lose` whether anything has ever kept
    the broker from a log: such a call, a full disk, bit rot.
    """

    def __init__(
        self,
        image: Callable[[], ClusterImage],
        now_s: Callable[[], float],
        heartbeats: HeartbeatJudge,
        *,
        lag_time_max_ms: int,
        failed_s: Callable[[int, UUID], float | None],
        may_lose: Callable[[int], bool],
    ) -> None:
        self._image = image
        self._now_s = now_s
        self._lag_time_max_ms = lag_time_max_ms
        self._heartbeats = heartbeats
        self._failed_s = failed_s
        self._may_lose = may_lose
        self._registered_s: dict[tuple[int, int], float] = {}
        """When a registration was made, by broker and its epoch."""
        self._led: dict[TopicIdPartition, _Led] = {}

    def on(self, event: Observed) -> None:
        match event:
            case LeaderProgressed(partition, leader):
                self._progressed(partition, leader)
            case LeaversRequested(partition, leader, brokers):
                self._asked_for(partition, leader, brokers)
            case MetadataChanged(batch, _, before, after):
                self._changed(batch, before, after)

    def _progressed(self, name: TopicIdPartition, leader: ReplicaStatus) -> None:
        """Something of a leader."""
        led = self._of(name, leader)
        if led is None:
            return
        if led.end_offset != leader.log_end_offset:
            led.end_offset, led.appended_s = leader.log_end_offset, self._now_s()
        if leader.high_watermark == leader.log_end_offset:
            registration = self._image().partition(name.topic_partition)
            assert registration is not None, name
            led.level_s, led.members = led.appended_s, frozenset(registration.isr)

    def _asked_for(self, name: TopicIdPartition, leader: ReplicaStatus, leavers: Collection[int]) -> None:
        """A leader asks for these to leave. InvariantViolationError."""
        led, registration = self._of(name, leader), self._image().partition(name.topic_partition)
        if led is None or registration is None:
            return
        led.asked |= set(leavers)
        # Its leader may not have heard yet that a member is out: one that comes back shorter, say, from a crash.
        for member in sorted(led.members.intersection(leavers, registration.isr)):
            assert led.level_s is not None, led
            since_ms = (self._now_s() - led.level_s) * 1000
            if since_ms < self._lag_time_max_ms - 1:
                detail = f"{name.topic_partition}: {leader.node_id} wants {member} out of the ISR of {registration}"
                raise InvariantViolationError("left behind", f"{detail}, which was level {since_ms:.0f} ms ago")

    def _changed(self, batch: CommittedBatch, before: ClusterImage, after: ClusterImage) -> None:
        """InvariantViolationError."""
        for broker in after.brokers.values():
            self._registered_s.setdefault((broker.id, broker.epoch), self._now_s())
        for topic in after.topics.values():
            old = before.topics.get(topic.name)
            if old is None or old.topic_id != topic.topic_id or old.partitions is topic.partitions:
                continue
            for number, now in topic.partitions.items():
                then = old.partitions.get(number)
                if then is not None and then.isr != now.isr:
                    for member in sorted(set(then.isr) - set(now.isr)):
                        leaver = _serving(member, before, after)
                        if leaver is not None:
                            self._check_left(topic.id_partition(number), leaver, then, now, batch)

    def _check_left(
        self,
        name: TopicIdPartition,
        broker: BrokerRegistration,
        then: PartitionRegistration,
        now: PartitionRegistration,
        batch: CommittedBatch,
    ) -> None:
        member = broker.id
        is_lost = now.directory_of(member) == LOST_DIRECTORY and self._may_lose(member)
        is_unclean = now.leader not in then.isr and now.isr == (now.leader,)
        led = self._led.get(name)
        was_asked = led is not None and led.leader_epoch == then.leader_epoch and member in led.asked
        is_excused = is_lost or is_unclean or was_asked or self._is_offline(broker, then.directory_of(member), batch)
        if member in now.replicas and not is_excused:
            raise InvariantViolationError(
                "asked to leave",
                f"{name.topic_partition}: {member} leaves the ISR, which {then.leader} did not ask for: "
                f"{then} -> {now}",
            )

    def _is_offline(self, broker: BrokerRegistration, directory: UUID | None, batch: CommittedBatch) -> bool:
        """Whether who wrote the batch had been told so, with a cause."""
        if directory is None:
            return False
        failed_s = self._failed_s(broker.id, directory)
        has_failed = failed_s is not None and failed_s >= self._registered_s[broker.id, broker.epoch]
        heard = self._heartbeats.known(batch.epoch, broker.id, broker.epoch, batch.base_offset)
        return has_failed and any(directory in each.offline for each in heard)

    def _of(self, name: TopicIdPartition, leader: ReplicaStatus) -> _Led | None:
        """None for a leader of a past epoch."""
        image = self._image()
        now = image.partition(name.topic_partition) if image.topic_names.get(name.topic_id) == name.topic else None
        if now is None or leader.leads_epoch != now.leader_epoch:
            return None
        led = self._led.get(name)
        if led is None or led.leader_epoch != now.leader_epoch:
            led = self._led[name] = _Led(now.leader_epoch, leader.log_end_offset, self._now_s())
        return led


def _serving(member: int, before: ClusterImage, after: ClusterImage) -> BrokerRegistration | None:
    """None if the broker no longer serves, or has registered again."""
    was, now = before.brokers.get(member), after.brokers.get(member)
    serves = was is not None and now is not None and now.may_join_isr and was.epoch == now.epoch
    return now if serves else None
