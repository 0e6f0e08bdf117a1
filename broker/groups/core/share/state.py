"""One share group (KIP-932): what its records add up to, and the sessions of its members.

| state | when |
|---|---|
| Empty | no members |
| Stable | it has members: nothing has to be given up first, so every member moves to its target at once |

Only share-partitions whose state is initialized are assigned. Deadlines are not durable: a new coordinator gives every
member a whole session, and so does the undoing of a removal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from enum import Enum
from typing import Final
from uuid import UUID

from ....coordinator.core.texts import text_bytes
from ..consumer.records import GroupEpoch, Target, TargetEpoch
from ..consumer.topics import Topic, Topics
from ..records import GroupRecord
from ..targeted import OVERHEAD_BYTES, PARTITION_BYTES, TargetedGroup
from .records import NO_STARTS, ShareGroupKey, ShareKind, ShareMember, ShareValue, Starts, TopicStarts

JOINING: Final = 0
LEAVING: Final = -1
NAME_BYTES: Final = 70
"""A name that a member subscribes to, besides its characters."""


class ShareGroupState(Enum):
    """The value is Kafka's name."""

    EMPTY = "Empty"
    STABLE = "Stable"


class ShareGroup(TargetedGroup[ShareMember]):
    """See the module's docstring."""

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self._subscribers: dict[str, int] = {}
        """How many members subscribe to each topic."""
        self.starts = NO_STARTS
        self._begun_topics: int | None = None
        """The version of the topics of which all share-partitions are initialized; None if that is not known."""

    # Records.

    def apply(self, record: GroupRecord) -> GroupRecord:
        """Take in a record; return the one that undoes it."""
        key, value = record.key, record.value
        assert isinstance(key, ShareGroupKey), key
        return GroupRecord(key, self._replace(key, value))

    def _replace(self, key: ShareGroupKey, value: object) -> ShareValue | None:
        name = key.name
        old: ShareValue | None
        match key.kind:
            case ShareKind.GROUP:
                old = self._replace_epoch(value)
            case ShareKind.TARGET:
                old = self._replace_target_epoch(value)
            case ShareKind.MEMBER:
                old = self.members.get(name)
                self._set_member(name, value if isinstance(value, ShareMember) else None)
            case ShareKind.TARGET_MEMBER:
                old = self._replace_target(name, value)
            case ShareKind.CURRENT:
                old = self._replace_current(name, value)
            case ShareKind.STARTS:
                old = None if self.starts.is_empty else self.starts
                self._set_starts(value if isinstance(value, Starts) else NO_STARTS)
        return old

    def _set_member(self, member_id: str, member: ShareMember | None) -> None:
        old = self.members.pop(member_id, None)
        if member is not None and (old is None or old.topics != member.topics):
            self._begun_topics = None
        if old is None or member is None or old.topics != member.topics:
            self._count_subscribers(member, old)
        if old is not None:
            self.bytes_held -= _bytes_of(member_id, old)
        if member is None:
            self.sessions.pop(member_id, None)
            return
        self.members[member_id] = member
        self.bytes_held += _bytes_of(member_id, member)

    def _count_subscribers(self, new: ShareMember | None, old: ShareMember | None) -> None:
        counts = self._subscribers
        for name in () if new is None else new.topics:
            counts[name] = counts.get(name, 0) + 1
        for name in () if old is None else old.topics:
            counts[name] -= 1
            if not counts[name]:
                del counts[name]

    def _set_starts(self, starts: Starts) -> None:
        for value, sign in ((self.starts, -1), (starts, 1)):
            for topics in (value.initializing, value.initialized):
                for topic in topics.values():
                    self.bytes_held += sign * (OVERHEAD_BYTES // 8 + PARTITION_BYTES * len(topic.partitions))
        self.starts = starts
        self.seen_topics = self._begun_topics = None

    def records(self) -> Iterator[GroupRecord]:
        """Yield the records that make the group what it is, in the order in which they may be replayed."""
        put = self.record
        for member_id, member in self.members.items():
            yield put(ShareKind.MEMBER, member_id, member)
        if self.epoch:
            yield put(ShareKind.GROUP, "", GroupEpoch(self.epoch, self.metadata_hash))
        if not self.starts.is_empty:
            yield put(ShareKind.STARTS, "", self.starts)
        for member_id, target in self.targets.items():
            yield put(ShareKind.TARGET_MEMBER, member_id, Target(target))
        if self.target_epoch:
            yield put(ShareKind.TARGET, "", TargetEpoch(self.target_epoch))
        for member_id, current in self.currents.items():
            yield put(ShareKind.CURRENT, member_id, current)

    def tombstones(self) -> list[GroupRecord]:
        """Return tombstones of everything, in the order in which Kafka's coordinator takes them."""
        rank = [
            ShareKind.CURRENT,
            ShareKind.TARGET_MEMBER,
            ShareKind.TARGET,
            ShareKind.MEMBER,
            ShareKind.STARTS,
            ShareKind.GROUP,
        ]
        keys = {record.key for record in self.records()} | {ShareGroupKey(ShareKind.GROUP, self.group_id)}
        of_group = sorted((rank.index(key.kind), key.name, key) for key in keys if isinstance(key, ShareGroupKey))
        return [GroupRecord(key, None) for _, _, key in of_group]

    def record(self, kind: ShareKind, name: str, value: ShareValue | None) -> GroupRecord:
        return GroupRecord(ShareGroupKey(kind, self.group_id, name), value)

    # Deadlines.

    def resume(self, now_ms: int, session_timeout_ms: int) -> None:
        """Give every member a whole session: the coordinator has changed."""
        self.sessions.clear()
        self.complete_deadlines(now_ms, session_timeout_ms)

    def complete_deadlines(self, now_ms: int, session_timeout_ms: int) -> bool:
        """Give a whole session to every member that has none, as after a removal that was undone. Return whether any
        had none.
        """
        held = len(self.sessions)
        for member_id in self.members:
            self.sessions.set_if_absent(member_id, now_ms + session_timeout_ms)
        return len(self.sessions) > held

    def deadline_ms(self) -> int | None:
        """Return a time before which nothing is due."""
        return self.sessions.not_before_ms()

    # What others ask.

    @property
    def has_records(self) -> bool:
        """Whether the log may hold a record of it."""
        return bool(
            self.epoch or self.target_epoch or self.members or self.targets or self.currents or not self.starts.is_empty
        )

    @property
    def state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    def subscribed_topics(self) -> Set[str]:
        """Return the topics of all members."""
        return self._subscribers.keys()

    def assignable(self, topics: Topics) -> dict[str, tuple[Topic, frozenset[int]]]:
        """Return the share-partitions that may be assigned: initialized, of topics that are there, by name."""
        found = {}
        for name in sorted(self.subscribed_topics()):
            topic = topics.get(name)
            started = None if topic is None else self.starts.initialized.get(topic.topic_id)
            if topic is not None and started is not None:
                numbers = frozenset(number for number in started.partitions if number < topic.partitions)
                if numbers:
                    found[name] = topic, numbers
        return found

    def uninitialized(self, topics: Topics, version: int) -> Mapping[UUID, TopicStarts]:
        """Return the share-partitions of its topics that are not initialized. Nothing is looked at again, heartbeat for
        heartbeat, while topics, subscriptions and what is initialized are those of a look that has found none.
        """
        if self._begun_topics == version:
            return {}
        missing = {}
        for name in sorted(self.subscribed_topics()):
            topic = topics.get(name)
            if topic is not None:
                started = self.starts.initialized.get(topic.topic_id)
                numbers = frozenset(range(topic.partitions)) - (frozenset() if started is None else started.partitions)
                if numbers:
                    missing[topic.topic_id] = TopicStarts(name, numbers)
        if not missing:
            self._begun_topics = version
        return missing


def _bytes_of(member_id: str, member: ShareMember) -> int:
    texts = (member_id, member.rack_id, member.client_id, member.client_host)
    return OVERHEAD_BYTES + text_bytes(*texts, *member.topics) + NAME_BYTES * len(member.topics)
