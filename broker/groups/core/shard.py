"""The groups of one partition of `__consumer_offsets`, and their offsets: what reading the partition from its start to
its end gives.

    record -> replay      while the partition is loaded: makes groups and offsets
    record -> apply       afterwards, once it is committed: offsets alone; the group itself is ahead of its record

* Offsets are what is committed: a commit counts once its record is, not before.
* Offsets that were committed in a transaction (by a broker that coordinates them) wait, by producer id, for its marker.
* A group without members and without offsets is nothing to remember.

It knows no log and no time but the one it is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ....protocol import ErrorCode, TopicPartition
from .events import MemberIdentity, Now
from .group import Group
from .group_state import GroupSettings, GroupState
from .records import NO_TIMESTAMP, GroupKey, GroupRecord, GroupValue, OffsetKey, OffsetValue

Offsets = dict[TopicPartition, OffsetValue]


@dataclass(slots=True)
class Shard:
    """See the module's docstring."""

    settings: GroupSettings
    groups: dict[str, Group] = field(default_factory=dict)
    offsets: dict[str, Offsets] = field(default_factory=dict)
    undecided: dict[int, dict[OffsetKey, OffsetValue]] = field(default_factory=dict)
    """Offsets in open transactions, by producer id."""

    def clear(self) -> None:
        """Begin again, empty."""
        self.groups.clear()
        self.offsets.clear()
        self.undecided.clear()

    # From the log.

    def replay(self, record: GroupRecord) -> None:
        """Take in a record of the log, in the order of the log, before anybody asks."""
        key, value = record.key, record.value
        if isinstance(key, OffsetKey):
            self.apply(record)
        elif isinstance(value, GroupValue):
            self.groups[key.group_id] = Group.restored(key.group_id, self.settings, value)
        else:
            self._forget(key.group_id)

    def apply(self, record: GroupRecord) -> None:
        """Take in what was decided here, once it is committed."""
        key, value = record.key, record.value
        if isinstance(key, OffsetKey):
            self._apply_offset(key, value if isinstance(value, OffsetValue) else None)
        elif value is None:
            self._forget(key.group_id)

    def replay_undecided(self, producer_id: int, record: GroupRecord) -> None:
        """The same within a transaction."""
        if isinstance(record.key, OffsetKey) and isinstance(record.value, OffsetValue):
            self.undecided.setdefault(producer_id, {})[record.key] = record.value

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        """A marker of this producer is in the log."""
        for key, value in self.undecided.pop(producer_id, {}).items():
            if is_committed:
                self._apply_offset(key, value)

    def _apply_offset(self, key: OffsetKey, value: OffsetValue | None) -> None:
        partition = TopicPartition(key.topic, key.partition)
        if value is not None:
            self.offsets.setdefault(key.group_id, {})[partition] = value
            if key.group_id not in self.groups:
                self.groups[key.group_id] = Group(key.group_id, self.settings)
        elif key.group_id in self.offsets:
            self.offsets[key.group_id].pop(partition, None)
            if not self.offsets[key.group_id]:
                del self.offsets[key.group_id]

    def _forget(self, group_id: str) -> None:
        """Offsets that are there nevertheless keep it as a group without members."""
        self.groups.pop(group_id, None)
        if group_id in self.offsets:
            self.groups[group_id] = Group(group_id, self.settings)

    # Offsets.

    def has_undecided(self, group_id: str, partition: TopicPartition) -> bool:
        """Whether a transaction that is open may change the offset (KIP-447)."""
        key = OffsetKey(group_id, partition.topic, partition.partition)
        return any(key in offsets for offsets in self.undecided.values())

    def judge_commit(self, group_id: str, who: MemberIdentity, generation_id: int, now: Now) -> ErrorCode:
        """Whether offsets may be committed for the group; one that is not there begins as one without members."""
        group = self.groups.get(group_id)
        if group is None:
            return ErrorCode.none if generation_id < 0 else ErrorCode.illegal_generation
        return group.judge_commit(who, generation_id, now)

    def judge_offset_delete(self, group_id: str) -> ErrorCode:
        """Whether offsets of the group may be deleted, but for the topics that it is subscribed to."""
        group = self.groups.get(group_id)
        if group is None or group.state is GroupState.DEAD:
            return ErrorCode.group_id_not_found
        is_safe = group.state is GroupState.EMPTY or group.subscribed_topics() is not None
        return ErrorCode.none if is_safe else ErrorCode.non_empty_group

    # Deletion and expiry: tombstones, in one append each.

    def judge_delete(self, group_id: str) -> ErrorCode:
        """Whether the group may be deleted."""
        group = self.groups.get(group_id)
        if group is None or group.state is GroupState.DEAD:
            return ErrorCode.group_id_not_found
        return ErrorCode.none if group.state is GroupState.EMPTY else ErrorCode.non_empty_group

    def tombstones(self, group_id: str) -> list[GroupRecord]:
        """Return tombstones of everything the group has."""
        return [
            *(_tombstone(group_id, partition) for partition in sorted(self.offsets.get(group_id, {}))),
            GroupRecord(GroupKey(group_id), None),
        ]

    def tombstones_of_topics(self, topics: frozenset[str]) -> Iterator[tuple[str, list[GroupRecord]]]:
        """Yield tombstones of all offsets in deleted topics, by group."""
        for group_id, offsets in list(self.offsets.items()):
            tombstones = [_tombstone(group_id, partition) for partition in sorted(offsets) if partition.topic in topics]
            if tombstones:
                yield group_id, tombstones

    def expired(self, group_id: str, retention_ms: int, wall_ms: int) -> list[GroupRecord]:
        """Return tombstones of a group's expired offsets (KIP-211), and of the group if nothing is left of it.

        | the group | an offset's age counts from |
        |---|---|
        | has no members, and had | when the last one left |
        | never had members | its commit |
        | consumers, stable | its commit, if no member is subscribed to its topic |
        | anything else | nothing expires |
        """
        group, offsets = self.groups[group_id], self.offsets.get(group_id, {})
        old = [
            partition
            for partition, value in sorted(offsets.items())
            if _is_expired(group, partition, value, retention_ms, wall_ms)
            and not self.has_undecided(group_id, partition)
        ]
        # With its last offset an empty group goes too; otherwise its metadata would stay for ever.
        if group.is_idle and len(old) == len(offsets):
            return self.tombstones(group_id)
        return [_tombstone(group_id, partition) for partition in old]


def _tombstone(group_id: str, partition: TopicPartition) -> GroupRecord:
    return GroupRecord(OffsetKey(group_id, partition.topic, partition.partition), None)


def _is_expired(group: Group, partition: TopicPartition, value: OffsetValue, retention_ms: int, wall_ms: int) -> bool:
    # While a group is in use its offsets do not age; the clock starts when the last member leaves.
    since_ms = value.commit_timestamp_ms
    if group.protocol_type is not None:
        if group.state is GroupState.EMPTY:
            since_ms = since_ms if group.state_since_wall_ms is None else group.state_since_wall_ms
        elif group.state is not GroupState.STABLE:
            return False
        else:
            topics = group.subscribed_topics()
            if topics is None or partition.topic in topics:
                return False
    elif group.state is not GroupState.EMPTY:
        return False
    if value.expire_timestamp_ms != NO_TIMESTAMP:
        return wall_ms >= value.expire_timestamp_ms
    return wall_ms - since_ms >= retention_ms
