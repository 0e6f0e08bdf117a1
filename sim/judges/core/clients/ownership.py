"""Who owns the partitions that a group of the consumer protocol reads (KIP-848), judged at each heartbeat.

| invariant           | violated when                                                                                |
|---------------------|----------------------------------------------------------------------------------------------|
| one owner an epoch  | a partition is assigned to two members in one epoch                                          |
| given up first      | a partition is assigned to a member while another one owns it, which has not said otherwise, |
|                     | whose session cannot have ended, and that was not asked to give it up long ago               |
| member epochs rise  | a member is given an epoch below the one that it had when it asked, but by joining again     |
| owned in time       | a partition has no owner for longer than a session, a rebalance and `SLACK_MS`, although a    |
|                     | member was answered all the while, by one coordinator                                        |

Answers may be late: one that was asked for before another member got a partition, and is of an older epoch, says
nothing about it. A session lasts at least for `session_ms` after a heartbeat was sent that was answered: the
coordinator had it later. Where the coordinator's log has lost something that the fault model permits (`has_lost`), all
that is over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Final

from .....broker.cluster import ClusterImage
from .....light_dataclass import dataclass
from .....protocol import GROUP_METADATA_TOPIC, TopicPartition
from ..events import MemberAsked, MemberAssigned, MetadataChanged, MomentPassed, Observed
from ..partition import InvariantViolationError

SLACK_MS: Final = 3_000
ALIVE_MS: Final = 1_000
"""A member that was answered within so long a time takes what it is given."""


@dataclass(slots=True)
class _Member:
    epoch: int
    asked_ms: int
    """When it sent the heartbeat that was answered last."""
    answered_ms: int
    owned: dict[TopicPartition, int] = field(default_factory=dict)
    """Since when it knows that a partition is its own."""
    revoked_ms: dict[TopicPartition, int] = field(default_factory=dict)
    """Since when it knows that it shall give up a partition."""


class OwnershipJudge:
    """`partitions` are those that groups read. All times are virtual, in ms."""

    def __init__(
        self,
        partitions: tuple[TopicPartition, ...],
        has_lost: Callable[[str], bool],
        now_ms: Callable[[], int],
        session_ms: int,
        rebalance_ms: int,
    ) -> None:
        self._partitions = partitions
        self._has_lost = has_lost
        self._now_ms = now_ms
        self._session_ms = session_ms
        self._rebalance_ms = rebalance_ms
        self._members: dict[tuple[str, str], _Member] = {}
        self._epoch_owners: dict[tuple[str, int, TopicPartition], str] = {}
        self._unowned_since_ms: dict[tuple[str, TopicPartition], int] = {}
        self._is_over = False

    def on(self, event: Observed) -> None:
        match event:
            case MemberAsked():
                self._asked(event)
            case MemberAssigned():
                self._assigned(event)
            case MomentPassed():
                self._check_unowned()
            case MetadataChanged(_, _, before, after):
                if _coordinators(before) != _coordinators(after):
                    self._begin_again()

    def _asked(self, event: MemberAsked) -> None:
        member = self._members.get((event.group, event.member))
        if member is not None:
            member.owned = {each: at for each, at in member.owned.items() if each in event.owned}
            member.revoked_ms = {each: at for each, at in member.revoked_ms.items() if each in member.owned}

    def _assigned(self, event: MemberAssigned) -> None:
        """InvariantViolationError."""
        self._is_over = self._is_over or self._has_lost(GROUP_METADATA_TOPIC)
        if self._is_over:
            return
        key, now_ms = (event.group, event.member), self._now_ms()
        member = self._members.setdefault(key, _Member(event.epoch, event.asked_ms, now_ms))
        if member.owned and event.epoch < member.epoch:
            detail = f"{event.member} of {event.group} was in epoch {member.epoch}, and is given {event.epoch}"
            raise InvariantViolationError("member epochs rise", detail)
        given = [each for each in sorted(event.partitions) if self._is_given(event, each, now_ms)]
        member.epoch, member.asked_ms, member.answered_ms = event.epoch, event.asked_ms, now_ms
        for partition in member.owned.keys() - event.partitions:
            member.revoked_ms.setdefault(partition, now_ms)
        for partition in given:
            member.owned.setdefault(partition, now_ms)

    def _is_given(self, event: MemberAssigned, partition: TopicPartition, now_ms: int) -> bool:
        """Whether it is this member's now: a late answer may say what was so before another one got the partition.
        InvariantViolationError.
        """
        owner = self._epoch_owners.setdefault((event.group, event.epoch, partition), event.member)
        if owner != event.member:
            detail = f"{partition} is assigned to {owner} and to {event.member} in epoch {event.epoch} of {event.group}"
            raise InvariantViolationError("one owner an epoch", detail)
        for (group, name), other in self._members.items():
            if group != event.group or name == event.member or partition not in other.owned:
                continue
            if event.epoch < other.epoch and event.asked_ms <= other.owned[partition]:
                return False
            is_expired = now_ms - other.asked_ms >= self._session_ms
            is_late = now_ms - other.revoked_ms.get(partition, now_ms) >= self._rebalance_ms
            if not is_expired and not is_late:
                detail = (
                    f"{partition} is assigned to {event.member} in epoch {event.epoch} of {group} at {now_ms} ms; "
                    f"{name} owns it in epoch {other.epoch}, and was heard since {other.asked_ms} ms"
                )
                raise InvariantViolationError("given up first", detail)
            del other.owned[partition]
        return True

    def _check_unowned(self) -> None:
        """InvariantViolationError."""
        now_ms = self._now_ms()
        alive = {group for (group, _), each in self._members.items() if now_ms - each.answered_ms < ALIVE_MS}
        owned = {
            (group, partition)
            for (group, _), each in self._members.items()
            if now_ms - each.asked_ms < self._session_ms
            for partition in each.owned
        }
        unowned = {(group, each) for group in alive for each in self._partitions} - owned
        self._unowned_since_ms = {each: self._unowned_since_ms.get(each, now_ms) for each in sorted(unowned)}
        for (group, partition), since_ms in self._unowned_since_ms.items():
            if now_ms - since_ms > self._session_ms + self._rebalance_ms + SLACK_MS:
                detail = f"{partition} has had no owner in {group} since {since_ms} ms, though members are answered"
                raise InvariantViolationError("owned in time", detail)

    def _begin_again(self) -> None:
        """Another coordinator gives every member a whole session."""
        now_ms = self._now_ms()
        self._unowned_since_ms = dict.fromkeys(self._unowned_since_ms, now_ms)


def _coordinators(image: ClusterImage) -> dict[int, int]:
    topic = image.topics.get(GROUP_METADATA_TOPIC)
    return {} if topic is None else {number: now.leader_epoch for number, now in topic.partitions.items()}
