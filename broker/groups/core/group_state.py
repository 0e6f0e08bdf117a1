"""What one group is at a moment, how it got there, and what every part of its behaviour needs: no decision is here.

`TRANSITIONS` is literal: a change of state that is not in it is an internal error. `rebalance` and `group` hold the
decisions, over this base.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from enum import Enum
from typing import Final, Self

from ....light_dataclass import dataclass
from ....protocol import ErrorCode
from ....protocol.wire import MalformedMessageError, Reader
from ...coordinator.core.texts import text_bytes
from .events import (
    NO_GENERATION,
    UNKNOWN_MEMBER_ID,
    Answer,
    Effect,
    Joined,
    MemberIdentity,
    Now,
    Reply,
    SetTimer,
    Store,
    Synced,
    Token,
)
from .membership import Member, Membership
from .records import NO_TIMESTAMP, GroupValue

CONSUMER_PROTOCOL: Final = "consumer"
"""The protocol type whose subscriptions name topics; also the type of every group of KIP-848."""


class GroupState(Enum):
    """The value is Kafka's name, as DescribeGroups returns it."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: Final[Mapping[GroupState, frozenset[GroupState]]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """`group.*` of the broker, with Kafka's defaults."""

    session_timeout_min_ms: int = 6_000
    session_timeout_max_ms: int = 1_800_000
    size_max: int = 2**31 - 1
    initial_rebalance_delay_ms: int = 3_000


@dataclass(frozen=True, slots=True)
class Assignments:
    """What the leader of a generation decided, on its way into the log."""

    generation_id: int
    by_member: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Replacement:
    """A static member came back in a stable group; it is answered once its new id is in the log."""

    token: Token
    answer: Joined


@dataclass(slots=True)
class Rebalance:
    """The deadlines of the rebalance that is under way."""

    join_deadline_ms: int | None = None
    sync_deadline_ms: int | None = None
    initial_until_ms: int | None = None
    """How long newcomers may hold back the first rebalance; None in any other one."""
    pending_syncs: set[str] = field(default_factory=set)


class PendingJoins(dict[str, int]):
    """Member ids with deadlines in ms. `text_bytes` is what the ids take of memory."""

    __slots__ = ("text_bytes",)

    def __init__(self) -> None:
        super().__init__()
        self.text_bytes = 0

    def __setitem__(self, member_id: str, deadline_ms: int) -> None:
        self.discard(member_id)
        super().__setitem__(member_id, deadline_ms)
        self.text_bytes += text_bytes(member_id)

    def __delitem__(self, member_id: str) -> None:
        super().__delitem__(member_id)
        self.text_bytes -= text_bytes(member_id)

    def discard(self, member_id: str) -> None:
        """Forget an id, which may be unknown."""
        if member_id in self:
            del self[member_id]


class GroupBase:
    """See the module's docstring."""

    def __init__(self, group_id: str, settings: GroupSettings) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.state_since_wall_ms: int | None = None
        self.members = Membership()
        self.pending_joins = PendingJoins()
        """Ids that were given out and not used yet (KIP-394), with the time at which they are forgotten."""
        self._settings = settings
        self._rebalance = Rebalance()
        self._storing: dict[int, Assignments | Replacement | None] = {}
        self._stores = 0
        self._lost_members = False
        self._timer_ms: int | None = None
        self._effects: list[Effect] = []
        self._now = Now(0, 0)

    @classmethod
    def restored(cls, group_id: str, settings: GroupSettings, value: GroupValue) -> Self:
        """The group as its last record has it; call `resume` once the log was read to its end."""
        group = cls(group_id, settings)
        group.generation_id = value.generation_id
        group.protocol_type = value.protocol_type or None
        group.protocol_name = value.protocol_name
        group.state_since_wall_ms = None if value.current_state_timestamp_ms < 0 else value.current_state_timestamp_ms
        group.state = GroupState.STABLE if value.members else GroupState.EMPTY
        for stored in value.members:
            member = Member(
                member_id=stored.member_id,
                group_instance_id=stored.group_instance_id,
                client_id=stored.client_id,
                client_host=stored.client_host,
                session_timeout_ms=stored.session_timeout_ms,
                rebalance_timeout_ms=stored.rebalance_timeout_ms,
                protocol_type=value.protocol_type,
                protocols=((value.protocol_name or "", stored.subscription),),
                assignment=stored.assignment,
            )
            group.members.add(member)
        if value.leader in group.members:
            group.members.leader = value.leader
        return group

    # What others ask.

    @property
    def is_idle(self) -> bool:
        """Whether no member is in it or about to join."""
        return self.state is GroupState.EMPTY and not self.pending_joins and not self._storing

    def subscribed_topics(self) -> frozenset[str] | None:
        """Return the topics of a group of consumers; None if they cannot be known."""
        if self.protocol_type != CONSUMER_PROTOCOL:
            return None
        if not len(self.members):
            return frozenset()
        topics: set[str] = set()
        for metadata in {member.metadata(self.protocol_name) for member in self.members}:
            subscription = _subscribed(metadata)
            if subscription is None:
                return None
            topics |= subscription
        return frozenset(topics)

    def as_value(self) -> GroupValue:
        """Its record, with the assignments in force."""
        return self._value({member.member_id: member.assignment for member in self.members})

    # For the parts of its behaviour.

    def _transition(self, state: GroupState) -> None:
        assert state in TRANSITIONS[self.state], f"group {self.group_id!r}: {self.state} -> {state}"
        self.state = state
        self.state_since_wall_ms = self._now.wall_ms

    def _reply(self, token: Token, answer: Answer) -> None:
        self._effects.append(Reply(token, answer))

    def _store(self, value: GroupValue, purpose: Assignments | Replacement | None) -> None:
        self._stores += 1
        self._storing[self._stores] = purpose
        self._effects.append(Store(self._stores, value))

    def _value(self, assignments: Mapping[str, bytes]) -> GroupValue:
        since_ms = self._now.wall_ms if self.state is GroupState.COMPLETING_REBALANCE else self.state_since_wall_ms
        return GroupValue(
            protocol_type=self.protocol_type or "",
            generation_id=self.generation_id,
            protocol_name=self.protocol_name,
            leader=self.members.leader,
            current_state_timestamp_ms=NO_TIMESTAMP if since_ms is None else since_ms,
            members=tuple(
                member.as_value(self.protocol_name, assignments[member.member_id]) for member in self.members
            ),
        )

    def _extend(self, member: Member, now: Now, *, always: bool = False) -> None:
        """Restart the member's session; unless `always`, only if it has to show that it lives."""
        if always or (member.deadline_ms is not None and not member.is_new):
            member.deadline_ms = now.ms + member.session_timeout_ms

    def _dismiss(self, member: Member, error: ErrorCode) -> None:
        """Answer what waits under the id that a member had."""
        join_token, member.join_token = member.join_token, None
        sync_token, member.sync_token = member.sync_token, None
        if join_token is not None:
            self._reply(join_token, refused(error, member.member_id))
        if sync_token is not None:
            self._reply(sync_token, Synced(error=error))

    def _remove(self, member_id: str) -> None:
        member = self.members.remove(member_id)
        self._rebalance.pending_syncs.discard(member_id)
        self._dismiss(member, ErrorCode.unknown_member_id)
        self._lost_members = True

    def _roster(self) -> tuple[tuple[MemberIdentity, bytes], ...]:
        """What a leader needs in order to assign."""
        return tuple((member.identity, member.metadata(self.protocol_name)) for member in self.members)

    def _joined(self, member: Member) -> Joined:
        is_leader = self.members.leader == member.member_id
        return Joined(
            member_id=member.member_id,
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.members.leader or UNKNOWN_MEMBER_ID,
            members=self._roster() if is_leader else (),
        )

    def _synced(self, member: Member) -> Synced:
        return Synced(protocol_type=self.protocol_type, protocol_name=self.protocol_name, assignment=member.assignment)

    def _deadlines(self) -> Iterator[int]:
        yield from self.pending_joins.values()
        for deadline_ms in (self._rebalance.join_deadline_ms, self._rebalance.sync_deadline_ms):
            if deadline_ms is not None:
                yield deadline_ms
        for member in self.members:
            if member.deadline_ms is not None:
                yield member.deadline_ms

    def _take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    def _finish(self) -> list[Effect]:
        """The effects of a step, with a new timer if something is due before the one that is set."""
        earliest_ms = min(self._deadlines(), default=None)
        if earliest_ms is not None and (self._timer_ms is None or earliest_ms < self._timer_ms):
            self._timer_ms = earliest_ms
            self._effects.append(SetTimer(earliest_ms))
        return self._take_effects()


def refused(error: ErrorCode, member_id: str) -> Joined:
    return Joined(error=error, member_id=member_id, generation_id=NO_GENERATION)


def _subscribed(metadata: bytes) -> frozenset[str] | None:
    """The topics of a consumer's subscription (`ConsumerProtocolSubscription`, any version); None if it is none."""
    reader = Reader(memoryview(metadata), 0, flexible=False)
    try:
        reader.int16()
        return frozenset([reader.string() for _ in range(reader.array_length())])
    except MalformedMessageError:
        return None
