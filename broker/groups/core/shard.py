"""The groups of one partition of `__consumer_offsets`, and their offsets: what reading the partition from its start to
its end gives.

    record -> replay      while the partition is loaded: makes groups and offsets
    record -> apply       afterwards, once it is committed: offsets alone; the group itself is ahead of its record

* Offsets are what is committed: a commit counts once its record is, not before.
* Offsets that were committed in a transaction (by a broker that coordinates them) wait, by producer id, for its marker,
  and count if nothing came after them in the log meanwhile (`coordinator.core.undecided`).
* A group without members and without offsets is nothing to remember.
* A group is of one kind at a time: it is in `groups` (classic), `consumers` (KIP-848) or `shares` (KIP-932), or has no
  members.

It knows no log and no time but the one it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Final, NamedTuple
from uuid import UUID

from ....light_dataclass import dataclass
from ....protocol import ErrorCode, KafkaError, TopicPartition
from ...coordinator.core.undecided import Undecided
from .consumer.records import ConsumerKey, Kind
from .consumer.state import ConsumerGroup
from .events import MemberIdentity, Now
from .group import Group
from .group_state import GroupSettings, GroupState
from .records import NO_TIMESTAMP, GroupKey, GroupRecord, GroupValue, OffsetKey, OffsetValue
from .share.records import ShareGroupKey
from .share.state import ShareGroup

NO_MEMBER: Final = MemberIdentity("")
Offsets = dict[TopicPartition, OffsetValue]
MayGo = Callable[[OffsetKey, OffsetValue], bool]
"""Returns whether an offset may be deleted."""


class Incarnation(NamedTuple):
    """A topic, as records name it: without an id it is any topic of the name."""

    name: str
    topic_id: UUID | None


@dataclass(slots=True)
class Shard:
    """See the module's docstring."""

    settings: GroupSettings
    groups: dict[str, Group] = field(default_factory=dict)
    consumers: dict[str, ConsumerGroup] = field(default_factory=dict)
    shares: dict[str, ShareGroup] = field(default_factory=dict)
    offsets: dict[str, Offsets] = field(default_factory=dict)
    undecided: Undecided[OffsetKey, OffsetValue] = field(default_factory=Undecided)
    """Offsets in open transactions, by producer id."""

    def clear(self) -> None:
        """Begin again, empty."""
        self.groups.clear()
        self.consumers.clear()
        self.shares.clear()
        self.offsets.clear()
        self.undecided.clear()

    # From the log.

    def replay(self, record: GroupRecord) -> None:
        """Take in a record of the log, in the order of the log, before anybody asks."""
        key, value = record.key, record.value
        if isinstance(key, OffsetKey):
            self.apply(record)
        elif isinstance(key, ConsumerKey):
            self._replay_consumer(key, record)
        elif isinstance(key, ShareGroupKey):
            self._replay_share(key, record)
        elif isinstance(value, GroupValue):
            self.consumers.pop(key.group_id, None)
            self.groups[key.group_id] = Group.restored(key.group_id, self.settings, value)
        else:
            self.forget(key.group_id)

    def _replay_consumer(self, key: ConsumerKey, record: GroupRecord) -> None:
        group = self.consumers.get(key.group_id)
        if group is None:
            # What is left of a group that became a classic one: its tombstones may come after it.
            if record.value is None or key.kind is Kind.PARTITION_METADATA:
                return
            group = self.consumers[key.group_id] = ConsumerGroup(key.group_id)
            self.groups.pop(key.group_id, None)
        group.apply(record)
        # After compaction any kind of record may come first, so only a tombstone ends the group.
        if record.value is None and not group.has_records:
            del self.consumers[key.group_id]
            self.forget(key.group_id)

    def _replay_share(self, key: ShareGroupKey, record: GroupRecord) -> None:
        group = self.shares.get(key.group_id)
        if group is None:
            if record.value is None:
                return
            group = self.shares[key.group_id] = ShareGroup(key.group_id)
        group.apply(record)
        if record.value is None and not group.has_records:
            del self.shares[key.group_id]

    def is_of_other_kind(self, group_id: str, groups: object) -> bool:
        """Return whether a group is there, and not among these, which are those of one kind."""
        kinds: tuple[Mapping[str, object], ...] = (self.groups, self.consumers, self.shares)
        return any(group_id in kind for kind in kinds if kind is not groups)

    def apply(self, record: GroupRecord) -> None:
        """Take in what was decided here, once it is committed."""
        key, value = record.key, record.value
        if isinstance(key, OffsetKey):
            self.undecided.settle(key)
            self._apply_offset(key, value if isinstance(value, OffsetValue) else None)
        elif isinstance(key, GroupKey) and value is None:
            # One with members came after the tombstone: the group was of the other protocol meanwhile.
            group = self.groups.get(key.group_id)
            if group is None or group.state is GroupState.DEAD or not len(group.members):
                self.forget(key.group_id)

    def replay_undecided(self, producer_id: int, record: GroupRecord) -> None:
        """The same within a transaction."""
        if isinstance(record.key, OffsetKey) and isinstance(record.value, OffsetValue):
            self.undecided.hold(producer_id, record.key, record.value)

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        """A marker of this producer is in the log."""
        for key, value in self.undecided.end(producer_id, is_committed=is_committed).items():
            self._apply_offset(key, value)

    def _apply_offset(self, key: OffsetKey, value: OffsetValue | None) -> None:
        partition = TopicPartition(key.topic, key.partition)
        if value is not None:
            self.offsets.setdefault(key.group_id, {})[partition] = value
            if key.group_id not in self.groups and not self.is_of_other_kind(key.group_id, self.groups):
                self.groups[key.group_id] = Group(key.group_id, self.settings)
        elif key.group_id in self.offsets:
            self.offsets[key.group_id].pop(partition, None)
            if not self.offsets[key.group_id]:
                del self.offsets[key.group_id]

    def forget(self, group_id: str) -> None:
        """Forget a classic group. Offsets that are there nevertheless keep it as a group without members."""
        self.groups.pop(group_id, None)
        if group_id in self.offsets and group_id not in self.consumers:
            self.groups[group_id] = Group(group_id, self.settings)

    # Offsets.

    def has_undecided(self, group_id: str, partition: TopicPartition) -> bool:
        """Whether a transaction that is open may change the offset (KIP-447)."""
        return OffsetKey(group_id, partition.topic, partition.partition) in self.undecided

    def judge_commit(
        self,
        group_id: str,
        who: MemberIdentity,
        generation_id: int,
        now: Now,
        partitions: Iterable[tuple[UUID | None, int]],
        *,
        knows_epochs: bool = True,
        in_transaction: bool = False,
    ) -> ErrorCode:
        """Whether offsets of partitions may be committed for the group; one that is not there begins as one without
        members. In a transaction one that names no member commits for whatever group there is: its producer's epoch
        fences it (KIP-98).
        """
        if group_id in self.shares:
            return ErrorCode.group_id_not_found
        if in_transaction and generation_id < 0 and who == NO_MEMBER:
            return ErrorCode.none
        if group_id in self.consumers:
            return self._judge_consumer(group_id, who, generation_id, partitions, knows_epochs=knows_epochs)
        group = self.groups.get(group_id)
        if group is None:
            return ErrorCode.none if generation_id < 0 else ErrorCode.illegal_generation
        return group.judge_commit(who, generation_id, now, in_transaction=in_transaction)

    def _judge_consumer(
        self,
        group_id: str,
        who: MemberIdentity,
        epoch: int,
        partitions: Iterable[tuple[UUID | None, int]],
        *,
        knows_epochs: bool,
    ) -> ErrorCode:
        group = self.consumers[group_id]
        if epoch < 0 and not group.members:
            return ErrorCode.none
        member = group.members.get(who.member_id)
        if member is not None and member.classic is None and not knows_epochs:
            return ErrorCode.unsupported_version
        try:
            group.judge_commit(who.member_id, epoch, partitions, who.group_instance_id)
        except KafkaError as error:
            return error.code
        return ErrorCode.none

    def judge_fetch(self, group_id: str, member_id: str | None, epoch: int) -> ErrorCode:
        """Whether the offsets of a group may be fetched by one who claims to be a member of it, or claims nothing."""
        group = self.consumers.get(group_id)
        if group is None or (not member_id and epoch < 0):
            return ErrorCode.none
        try:
            group.judge_fetch(member_id or "", epoch)
        except KafkaError as error:
            return error.code
        return ErrorCode.none

    def subscribed_topics(self, group_id: str) -> frozenset[str]:
        """Return the topics that members of a group are subscribed to, as far as they are known."""
        if group_id in self.consumers:
            return self.consumers[group_id].subscribed_topics()
        return self.groups[group_id].subscribed_topics() or frozenset()

    def judge_offset_delete(self, group_id: str) -> ErrorCode:
        """Whether offsets of the group may be deleted, but for the topics that it is subscribed to."""
        if group_id in self.consumers:
            return ErrorCode.none
        group = self.groups.get(group_id)
        if group is None or group.state is GroupState.DEAD:
            return ErrorCode.group_id_not_found
        is_safe = group.state is GroupState.EMPTY or group.subscribed_topics() is not None
        return ErrorCode.none if is_safe else ErrorCode.non_empty_group

    # What may be deleted.

    def judge_delete(self, group_id: str) -> ErrorCode:
        """Whether the group may be deleted."""
        if group_id in self.consumers:
            return ErrorCode.non_empty_group if self.consumers[group_id].members else ErrorCode.none
        group = self.groups.get(group_id)
        if group is None or group.state is GroupState.DEAD:
            return ErrorCode.group_id_not_found
        return ErrorCode.none if group.state is GroupState.EMPTY else ErrorCode.non_empty_group

    def tombstones(self, group_id: str) -> list[GroupRecord]:
        """Return tombstones of the group itself, which are none of its offsets."""
        group = self.consumers.get(group_id)
        return [GroupRecord(GroupKey(group_id), None)] if group is None else group.tombstones()

    def ends_with_offsets(self, group_id: str) -> bool:
        """Return whether a group has no members: without offsets its metadata would stay for ever."""
        group, consumers = self.groups.get(group_id), self.consumers.get(group_id)
        return (group is not None and group.is_idle) or (consumers is not None and not consumers.members)

    def held(self) -> Iterator[tuple[OffsetKey, OffsetValue]]:
        """Yield all offsets, those in open transactions last. Others may come and go between two of them: these are
        those that a group had when the first of it was reached.
        """
        for group_id in list(self.offsets):
            yield from self._committed_by(group_id)
        for key in self.undecided.waited_for():
            for value in self.undecided.values_of(key):
                yield key, value

    def held_by(self, group_id: str) -> Iterator[tuple[OffsetKey, OffsetValue]]:
        """Yield the offsets of a group in the same way."""
        yield from self._committed_by(group_id)
        for key in self._undecided_of(group_id):
            for value in self.undecided.values_of(key):
                yield key, value

    def values_of(self, group_id: str) -> list[OffsetValue]:
        """Return what was committed by a group until now, also in open transactions."""
        undecided = [value for key in self._undecided_of(group_id) for value in self.undecided.values_of(key)]
        return [*self.offsets.get(group_id, {}).values(), *undecided]

    def _undecided_of(self, group_id: str) -> list[OffsetKey]:
        return [key for key in self.undecided.waited_for() if key.group_id == group_id]

    def _committed_by(self, group_id: str) -> Iterator[tuple[OffsetKey, OffsetValue]]:
        for partition, value in list(self.offsets.get(group_id, {}).items()):
            yield OffsetKey(group_id, partition.topic, partition.partition), value

    def goes(self, key: OffsetKey, may_go: MayGo) -> bool:
        """Return whether there are offsets with a key, and all of them may go: a tombstone is of all."""
        committed = self.offsets.get(key.group_id, {}).get(TopicPartition(key.topic, key.partition))
        values = [*([] if committed is None else [committed]), *self.undecided.values_of(key)]
        return bool(values) and all(may_go(key, value) for value in values)

    def expiry(self, group_id: str, retention_ms: int, wall_ms: int) -> MayGo:
        """Return what says which of a group's offsets are expired as it is now (KIP-211).

        | the group | an offset's age counts from |
        |---|---|
        | has no members, and had | when the last one left |
        | never had members | its commit |
        | consumers, stable | its commit, if no member is subscribed to its topic |
        | consumers of KIP-848 | its commit, if no member is subscribed to its topic |
        | is of another kind, or no longer there; the offset waits for a marker | nothing expires |
        """
        consumers, group = self.consumers.get(group_id), self.groups.get(group_id)
        if consumers is not None:
            topics = consumers.subscribed_topics()
            return lambda key, value: (
                key.topic not in topics
                and wall_ms - value.commit_timestamp_ms >= retention_ms
                and key not in self.undecided
            )
        since = _never if group is None else _ageing(group)
        return lambda key, value: (
            _is_expired(since(key, value), value, retention_ms, wall_ms) and key not in self.undecided
        )


def incarnation_of(key: OffsetKey, value: OffsetValue) -> Incarnation:
    """Return the topic that an offset is in."""
    return Incarnation(key.topic, value.topic_id)


def _ageing(group: Group) -> Callable[[OffsetKey, OffsetValue], int | None]:
    """Return what says since when an offset of a classic group ages; None if it does not: the group uses it."""
    empty = group.state is GroupState.EMPTY
    if group.protocol_type is None:
        return _commit_time if empty else _never
    if empty:
        left_ms = group.state_since_wall_ms
        return _commit_time if left_ms is None else lambda _, __: left_ms
    topics = group.subscribed_topics() if group.state is GroupState.STABLE else None
    if topics is None:
        return _never
    return lambda key, value: None if key.topic in topics else value.commit_timestamp_ms


def _never(_: OffsetKey, __: OffsetValue) -> int | None:
    return None


def _commit_time(_: OffsetKey, value: OffsetValue) -> int | None:
    return value.commit_timestamp_ms


def _is_expired(since_ms: int | None, value: OffsetValue, retention_ms: int, wall_ms: int) -> bool:
    if since_ms is None:
        return False
    if value.expire_timestamp_ms != NO_TIMESTAMP:
        return wall_ms >= value.expire_timestamp_ms
    return wall_ms - since_ms >= retention_ms
