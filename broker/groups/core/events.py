"""The events and effects of a group: the values that go into and come out of `group.Group.step`.

A token stands for the client that waits for an answer: the group gives each one back exactly once, in a `Reply`, or
never if its shell has dropped the group (it lost leadership). Times: `Now.ms` is a monotonic clock, for timeouts;
`Now.wall_ms` is the time of day, for what is written into records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ....light_dataclass import dataclass
from ....protocol import ErrorCode
from ...coordinator.core.texts import text_bytes
from .records import GroupValue

Token = object
UNKNOWN_MEMBER_ID: Final = ""
"""In a JoinGroup of a member that has no id yet, or of an admin who knows only the instance id."""
NO_GENERATION: Final = -1


@dataclass(frozen=True, slots=True)
class Now:
    """One instant on both clocks."""

    ms: int
    wall_ms: int


@dataclass(frozen=True, slots=True)
class MemberIdentity:
    """Who somebody claims to be; static members have an instance id (KIP-345)."""

    member_id: str
    group_instance_id: str | None = None


def protocol_bytes(protocols: tuple[tuple[str, bytes], ...]) -> int:
    """Return the size of a member's protocols: names and metadata."""
    return sum(len(name) + len(metadata) for name, metadata in protocols)


def record_bytes(protocols: tuple[tuple[str, bytes], ...], *texts: str | None) -> int:
    """Return the size of the largest metadata, and of a member's texts."""
    return max((len(metadata) for _, metadata in protocols), default=0) + sum(len(text or "") for text in texts)


# Events.


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """JoinGroup. `protocols` in the member's order of preference, with its metadata for each.

    `new_member_id` is the id that it gets if it comes without one; `needs_known_member_id` (version 4, KIP-394) has it
    come again with that id before it counts. `can_skip_assignment` (version 9): a leader may be asked to assign
    nothing.
    """

    token: Token
    who: MemberIdentity
    new_member_id: str
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    needs_known_member_id: bool = False
    can_skip_assignment: bool = False

    @property
    def protocol_bytes(self) -> int:
        """The size of all that the member says of its protocols."""
        return protocol_bytes(self.protocols)

    @property
    def record_bytes(self) -> int:
        """The size of the member in its group's record, with the largest of its protocols and without an assignment."""
        return record_bytes(self.protocols, *self._texts)

    @property
    def text_bytes(self) -> int:
        """What the member's texts take of memory."""
        return text_bytes(*self._texts)

    @property
    def _texts(self) -> tuple[str | None, ...]:
        member_id = self.who.member_id or self.new_member_id
        return member_id, self.who.group_instance_id, self.client_id, self.client_host


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """SyncGroup; only the leader brings assignments. Protocol type and name are None before version 5."""

    token: Token
    who: MemberIdentity
    generation_id: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """Answered with an ErrorCode."""

    token: Token
    who: MemberIdentity
    generation_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """LeaveGroup of any number of members, answered with `Left`."""

    token: Token
    members: tuple[MemberIdentity, ...]


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The deadline of the last `SetTimer` has come."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of a `Store`: NONE once it is committed."""

    store_id: int
    error: ErrorCode


Event = Join | Sync | Heartbeat | Leave | TimerFired | Stored

# Answers.


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """Answer to Join. `members`, with their metadata, only for the leader: (identity, metadata)."""

    error: ErrorCode = ErrorCode.none
    member_id: str = UNKNOWN_MEMBER_ID
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = UNKNOWN_MEMBER_ID
    members: tuple[tuple[MemberIdentity, bytes], ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """Answer to Sync."""

    error: ErrorCode = ErrorCode.none
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Answer to Leave, for each member that was named."""

    error: ErrorCode = ErrorCode.none
    members: tuple[tuple[MemberIdentity, ErrorCode], ...] = ()


Answer = Joined | Synced | Left | ErrorCode

# Effects.


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer the request that waits for the token."""

    token: Token
    answer: Answer


@dataclass(frozen=True, slots=True)
class Store:
    """Append the group's record; `Stored` with this id comes back once it is committed, or has failed."""

    store_id: int
    value: GroupValue


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Let `TimerFired` come at this time of the monotonic clock, and not at the one that was set before."""

    deadline_ms: int


Effect = Reply | Store | SetTimer
