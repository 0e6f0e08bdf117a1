"""Who belongs to one group: members by id, static ones also by instance id, the leader, and what all can agree on.

Rules, after every change:

* A static member (KIP-345) is found under its instance id by exactly one member id; its older ids are fenced.
* The leader is a member, or there is none.
* All members speak one protocol type, and at least one protocol that all of them speak: `supports` is asked before
  anybody is let in.

It knows no time and no state of the group: `group` decides, this remembers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import field
from typing import Final

from ....light_dataclass import dataclass
from ....protocol import ErrorCode
from ...coordinator.core.texts import text_bytes
from .events import MemberIdentity, Token, protocol_bytes, record_bytes
from .records import MemberValue

RECORD_MEMBER_BYTES: Final = 22
"""A member in a record besides its texts, subscription and assignment: lengths and timeouts."""

Protocols = tuple[tuple[str, bytes], ...]
"""Names with the member's metadata, most preferred first."""


def metadata_of(protocols: Protocols, protocol_name: str | None) -> bytes:
    """Return what a member says of a protocol; nothing of one that it does not speak."""
    return next((metadata for name, metadata in protocols if name == protocol_name), b"")


@dataclass(slots=True, eq=False, kw_only=True)
class Member:
    """One member. It has at most one request that waits: a JoinGroup or a SyncGroup."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    join_token: Token | None = None
    sync_token: Token | None = None
    is_new: bool = False
    """It waits for its first JoinGroup to be answered, and cannot send heartbeats meanwhile."""
    deadline_ms: int | None = None
    """When its session ends; None while it waits for a rebalance, in which nobody needs to send heartbeats."""

    @property
    def identity(self) -> MemberIdentity:
        return MemberIdentity(self.member_id, self.group_instance_id)

    @property
    def protocol_bytes(self) -> int:
        """The size of its protocols."""
        return protocol_bytes(self.protocols)

    @property
    def text_bytes(self) -> int:
        """What its texts take of memory."""
        return text_bytes(self.member_id, self.group_instance_id, self.client_id, self.client_host)

    @property
    def record_bytes(self) -> int:
        """Its size in the group's record, with the largest of its protocols and without its assignment."""
        return record_bytes(self.protocols, self.member_id, self.group_instance_id, self.client_id, self.client_host)

    def metadata(self, protocol_name: str | None) -> bytes:
        """Empty for a protocol that it does not speak."""
        return metadata_of(self.protocols, protocol_name)

    def as_value(self, protocol_name: str | None, assignment: bytes) -> MemberValue:
        return MemberValue(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            subscription=self.metadata(protocol_name),
            assignment=assignment,
        )


@dataclass(slots=True)
class Membership:
    """See the module's docstring. Members are in the order in which they came."""

    leader: str | None = None
    protocol_bytes: int = 0
    """The size of all members' protocols."""
    record_bytes: int = 0
    """The size of all members in the group's record, each with the largest of its protocols."""
    text_bytes: int = 0
    """What the texts of all members take of memory."""
    assignment_bytes: int = 0
    """The size of all members' assignments."""
    _speakers: Counter[str] = field(default_factory=Counter)
    """How many members speak each protocol: a join costs the same in a large group, whatever the others speak."""
    _members: dict[str, Member] = field(default_factory=dict)
    _static: dict[str, str] = field(default_factory=dict)
    """Member id by instance id."""

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(list(self._members.values()))

    def __contains__(self, member_id: object) -> bool:
        return member_id in self._members

    def __getitem__(self, member_id: str) -> Member:
        return self._members[member_id]

    def find(self, member_id: str) -> Member | None:
        """Return the member with that id."""
        return self._members.get(member_id)

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(self._members)

    def find_static(self, group_instance_id: str | None) -> Member | None:
        member_id = self._static.get(group_instance_id) if group_instance_id is not None else None
        return None if member_id is None else self._members[member_id]

    def judge(self, who: MemberIdentity) -> ErrorCode:
        """NONE if this is a member; UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID for the older id of a static one."""
        if who.group_instance_id is not None:
            current = self._static.get(who.group_instance_id)
            if current is None:
                return ErrorCode.unknown_member_id
            if current != who.member_id:
                return ErrorCode.fenced_instance_id
        return ErrorCode.none if who.member_id in self._members else ErrorCode.unknown_member_id

    def add(self, member: Member) -> None:
        assert member.member_id not in self._members, member
        self._members[member.member_id] = member
        self._count(member, 1)
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self._static, member
            self._static[member.group_instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> Member:
        member = self._members.pop(member_id)
        self._count(member, -1)
        if member.group_instance_id is not None:
            self._static.pop(member.group_instance_id)
        if self.leader == member_id:
            self.leader = next(iter(self._members), None)
        return member

    def change_protocols(self, member: Member, protocols: Protocols) -> None:
        """Replace the protocols that a member supports."""
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)

    def assign(self, member: Member, assignment: bytes) -> None:
        """Replace the assignment of a member."""
        self.assignment_bytes += len(assignment) - len(member.assignment)
        member.assignment = assignment

    def _count(self, member: Member, sign: int) -> None:
        self.protocol_bytes += sign * member.protocol_bytes
        self.text_bytes += sign * member.text_bytes
        self.assignment_bytes += sign * len(member.assignment)
        self.record_bytes += sign * (member.record_bytes + RECORD_MEMBER_BYTES)
        for name in dict(member.protocols):
            self._speakers[name] += sign
            if not self._speakers[name]:
                del self._speakers[name]

    def rename_static(self, member: Member, new_member_id: str) -> None:
        """A static member came back under another id: it keeps its place, its assignment and the leadership."""
        assert member.group_instance_id is not None, member
        self._count(member, -1)
        old_member_id, member.member_id = member.member_id, new_member_id
        self._count(member, 1)
        self._members = {each.member_id: each for each in self._members.values()}
        self._static[member.group_instance_id] = new_member_id
        if self.leader == old_member_id:
            self.leader = new_member_id

    def elect_waiting_leader(self) -> bool:
        """Whether the leader is somebody who waits for the rebalance to end; another one if the old one does not."""
        waiting = [member.member_id for member in self._members.values() if member.join_token is not None]
        if self.leader not in waiting and waiting:
            self.leader = waiting[0]
        return self.leader in waiting

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self._members.values()), default=0)

    # Protocols.

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether somebody with these can be in the group."""
        if not protocol_type or not protocols:
            return False
        first = next(iter(self._members.values()), None)
        if first is None:
            return True
        return first.protocol_type == protocol_type and any(self._is_spoken_by_all(name) for name, _ in protocols)

    def _is_spoken_by_all(self, name: str) -> bool:
        return self._speakers.get(name, 0) == len(self._members)

    def select_protocol(self) -> str:
        """The one that most members like best of those that all speak; among equals the leader's order decides."""
        votes = Counter(
            next(name for name, _ in member.protocols if self._is_spoken_by_all(name))
            for member in self._members.values()
        )
        assert self.leader is not None, self
        order = [name for name, _ in self._members[self.leader].protocols]
        return max(votes, key=lambda name: (votes[name], -order.index(name)))
