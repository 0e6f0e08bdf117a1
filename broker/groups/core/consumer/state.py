"""One consumer group (KIP-848): what its records add up to, and the deadlines of its members.

    apply(record) -> the record that undoes it

The state is a fold over records and nothing else: a coordinator that reads them is where the one that wrote them was. A
decision is applied when it is made and written then; one that could not be written is undone, newest first.

| state | when |
|---|---|
| Empty | no members |
| Assigning | the group epoch is above that of the target assignment |
| Reconciling | a member is not at its target |
| Stable | all members are |

Deadlines are not durable: a new coordinator gives every member a whole session. A member whose removal is undone gets
one too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final
from uuid import UUID

from .....protocol import ErrorCode, KafkaError
from ....coordinator.core.texts import text_bytes
from ..records import GroupRecord
from ..targeted import OVERHEAD_BYTES, Deadlines, TargetedGroup
from .records import (
    ConsumerKey,
    ConsumerValue,
    Current,
    GroupEpoch,
    Kind,
    MemberState,
    Resolved,
    Subscriber,
    Target,
    TargetEpoch,
)

JOINING: Final = 0
LEAVING: Final = -1
LEAVING_STATIC: Final = -2
"""Epochs of a heartbeat that are none; the last is also that of a static member that is away."""


class ConsumerGroupState(Enum):
    """The value is Kafka's name."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup(TargetedGroup[Subscriber]):
    """See the module's docstring."""

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.regexes: dict[str, Resolved] = {}
        self.static: dict[str, str] = {}
        """Member id by instance id."""
        self.owners: dict[UUID, dict[int, str]] = {}
        """The member that owns a partition, or has still to give it up, by topic and number."""
        self.revocations = Deadlines()
        """When a member has to have given up what it must, or to have joined again."""
        self.regex_uses: Counter[str] = Counter()
        """How many members have each expression: what one costs does not depend on how many there are."""
        self.topic_uses: Counter[str] = Counter()
        """How many members name each topic."""
        self.changed_ms: int | None = None
        """When the group epoch was bumped last; None if that was under another coordinator."""
        self.assigned_ms: int | None = None
        """When the target assignment was computed last; None if that was under another coordinator."""

    # Records.

    def apply(self, record: GroupRecord) -> GroupRecord:
        """Take in a record; return the one that undoes it."""
        key, value = record.key, record.value
        assert isinstance(key, ConsumerKey), key
        old = self._replace(key, value)
        return GroupRecord(key, old)

    def _replace(self, key: ConsumerKey, value: object) -> ConsumerValue | None:
        name = key.name
        old: ConsumerValue | None
        match key.kind:
            case Kind.GROUP:
                old = self._replace_epoch(value)
            case Kind.TARGET:
                old = self._replace_target_epoch(value)
            case Kind.MEMBER:
                old = self.members.get(name)
                self._set_member(name, value if isinstance(value, Subscriber) else None)
            case Kind.TARGET_MEMBER:
                old = self._replace_target(name, value)
            case Kind.CURRENT:
                old = self._replace_current(name, value)
            case Kind.REGEX:
                old = self.regexes.pop(name, None)
                if isinstance(value, Resolved):
                    self.regexes[name] = value
            case Kind.PARTITION_METADATA:
                old = None
        return old

    def _set_member(self, member_id: str, member: Subscriber | None) -> None:
        old = self.members.pop(member_id, None)
        if old is not None:
            self.bytes_held -= _bytes_of(member_id, old)
            _count_down(self.regex_uses, [old.regex] if old.regex else ())
            _count_down(self.topic_uses, old.topics)
            if old.instance_id is not None and self.static.get(old.instance_id) == member_id:
                del self.static[old.instance_id]
        if member is None:
            self.sessions.pop(member_id, None)
            self.revocations.pop(member_id, None)
            return
        self.members[member_id] = member
        self.bytes_held += _bytes_of(member_id, member)
        if member.regex:
            self.regex_uses[member.regex] += 1
        self.topic_uses.update(member.topics)
        if member.instance_id is not None:
            self.static[member.instance_id] = member_id

    def _replace_current(self, member_id: str, value: object) -> Current | None:
        old = super()._replace_current(member_id, value)
        if old is not None:
            for topic_id, numbers in _held(old):
                owners = self.owners.get(topic_id, {})
                for number in numbers:
                    if owners.get(number) == member_id:
                        del owners[number]
                if not owners:
                    self.owners.pop(topic_id, None)
        if isinstance(value, Current):
            for topic_id, numbers in _held(value):
                self.owners.setdefault(topic_id, {}).update(dict.fromkeys(numbers, member_id))
        return old

    def records(self) -> Iterator[GroupRecord]:
        """Yield the records that make the group what it is, in the order in which they may be replayed."""
        put = self.record
        for member_id, member in self.members.items():
            yield put(Kind.MEMBER, member_id, member)
        if self.epoch:
            yield put(Kind.GROUP, "", GroupEpoch(self.epoch, self.metadata_hash))
        for regex, resolved in self.regexes.items():
            yield put(Kind.REGEX, regex, resolved)
        for member_id, target in self.targets.items():
            yield put(Kind.TARGET_MEMBER, member_id, Target(target))
        if self.target_epoch:
            yield put(Kind.TARGET, "", TargetEpoch(self.target_epoch))
        for member_id, current in self.currents.items():
            yield put(Kind.CURRENT, member_id, current)

    def tombstones(self) -> list[GroupRecord]:
        """Return tombstones of everything, in the order in which Kafka's coordinator takes them."""
        held = {record.key: None for record in self.records()}
        held[ConsumerKey(Kind.GROUP, self.group_id)] = None
        rank = [Kind.CURRENT, Kind.TARGET_MEMBER, Kind.TARGET, Kind.MEMBER, Kind.REGEX, Kind.GROUP]
        keys = [key for key in held if isinstance(key, ConsumerKey)]
        return [GroupRecord(key, None) for key in sorted(keys, key=lambda key: rank.index(key.kind))]

    def record(self, kind: Kind, name: str, value: ConsumerValue | None) -> GroupRecord:
        return GroupRecord(ConsumerKey(kind, self.group_id, name), value)

    def resume(self, now_ms: int, session_timeout_ms: int) -> None:
        """Give every member a whole session: the coordinator has changed."""
        self.sessions.clear()
        self.revocations.clear()
        self.complete_deadlines(now_ms, session_timeout_ms)

    def complete_deadlines(self, now_ms: int, session_timeout_ms: int) -> bool:
        """Give a whole session to every member that has none, as after a removal that was undone. Return whether any
        had none.
        """
        held = len(self.sessions) + len(self.revocations)
        for member_id, member in self.members.items():
            timeout_ms = session_timeout_ms if member.classic is None else member.classic.session_timeout_ms
            self.sessions.set_if_absent(member_id, now_ms + timeout_ms)
            if self.current(member_id).state is MemberState.UNREVOKED_PARTITIONS:
                self.revocations.set_if_absent(member_id, now_ms + max(member.rebalance_timeout_ms, 0))
        return len(self.sessions) + len(self.revocations) > held

    # What others ask.

    @property
    def has_records(self) -> bool:
        """Whether the log may hold a record of it."""
        named = (self.members, self.targets, self.currents, self.regexes)
        return bool(self.epoch or self.target_epoch or any(named))

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        is_reconciled = all(
            current.state is MemberState.STABLE and current.epoch == self.target_epoch
            for current in self.currents.values()
        )
        return ConsumerGroupState.STABLE if is_reconciled else ConsumerGroupState.RECONCILING

    def free_for(self, member_id: str, topic_id: UUID, numbers: frozenset[int]) -> frozenset[int]:
        """Return those partitions that no other member owns."""
        owners = self.owners.get(topic_id, {})
        return frozenset([number for number in numbers if owners.get(number, member_id) == member_id])

    def names_of(self, member: Subscriber) -> frozenset[str]:
        """Return the topics that a member is subscribed to, by name or by what its expression matches."""
        resolved = self.regexes.get(member.regex) if member.regex else None
        return frozenset(member.topics) | frozenset(resolved.topics if resolved else ())

    def subscribed_topics(self) -> frozenset[str]:
        """Return the topics of all members."""
        names = set(self.topic_uses)
        for regex in self.regex_uses:
            resolved = self.regexes.get(regex)
            names.update(resolved.topics if resolved else ())
        return frozenset(names)

    def assignor_name(self, offered: tuple[str, ...]) -> str:
        """Return the assignor that most members ask for; the first on offer if none does."""
        asked = Counter(member.assignor for member in self.members.values() if member.assignor in offered)
        best = max(asked.values(), default=0)
        return next((name for name in offered if best and asked[name] == best), offered[0])

    def deadline_ms(self) -> int | None:
        """Return a time before which nothing is due."""
        found = (self.sessions.not_before_ms(), self.revocations.not_before_ms())
        return min([each for each in found if each is not None], default=None)

    def judge_fetch(self, member_id: str, epoch: int) -> None:
        """Raise the KafkaError that fences a fetch of offsets by one who claims to be a member."""
        member = self._member(member_id)
        current = self.current(member_id).epoch
        if epoch != current:
            raise _stale(member, f"member {member_id!r} is in epoch {current}, not {epoch}")

    def judge_commit(
        self,
        member_id: str,
        epoch: int,
        partitions: Iterable[tuple[UUID | None, int]],
        instance_id: str | None = None,
    ) -> None:
        """Raise the KafkaError that fences a commit of offsets by one who claims to be a member. In an epoch before its
        own, whose answer it may not have yet, it may commit for what it has had since then, all or nothing (KIP-1251).
        """
        member = self._member(member_id)
        if instance_id is not None and self.static.get(instance_id) != member_id:
            raise KafkaError(ErrorCode.fenced_instance_id, f"{instance_id!r} has another member now")
        current = self.current(member_id)
        if epoch == current.epoch:
            return
        if epoch > current.epoch:
            raise _stale(member, f"member {member_id!r} is in epoch {current.epoch}, not yet {epoch}")
        asked = list(partitions)
        since = current.since({topic_id for topic_id, _ in asked if topic_id is not None})
        for topic_id, number in asked:
            got = None if topic_id is None else since[topic_id].get(number)
            if got is None or epoch < got:
                has = "does not own it" if got is None else f"has it since epoch {got}"
                message = f"partition {number} of {topic_id} in epoch {epoch}: member {member_id!r}, now in epoch "
                raise _stale(member, f"{message}{current.epoch}, {has}")

    def _member(self, member_id: str) -> Subscriber:
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.unknown_member_id, f"{member_id!r} is not a member of {self.group_id!r}")
        return member


def _stale(member: Subscriber, message: str) -> KafkaError:
    return KafkaError(ErrorCode.stale_member_epoch if member.classic is None else ErrorCode.illegal_generation, message)


def _count_down(uses: Counter[str], names: Iterable[str]) -> None:
    for name in names:
        uses[name] -= 1
        if not uses[name]:
            del uses[name]


def _held(current: Current) -> Iterator[tuple[UUID, frozenset[int]]]:
    for assignment in (current.assigned, current.revoking):
        yield from assignment.items()


def _bytes_of(member_id: str, member: Subscriber) -> int:
    texts = (member_id, member.instance_id, member.rack_id, member.client_id, member.client_host, member.regex)
    protocols = 0 if member.classic is None else sum(len(metadata) for _, metadata in member.classic.protocols)
    return OVERHEAD_BYTES + text_bytes(*texts, *member.topics) + protocols
