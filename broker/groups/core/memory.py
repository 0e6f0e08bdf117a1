"""What the members of groups take: whether one more fits into its group's record, and into this broker's memory.

| what | limit | a JoinGroup beyond it |
|---|---|---|
| the members of a group, as one record has them | the record that the group's log takes | GROUP_MAX_SIZE_REACHED |
| protocols, texts and assignments of all groups of a broker | `GROUPS_BYTES_MAX` | COORDINATOR_NOT_AVAILABLE |

The record has of each member what it says of the protocol that was chosen; before that is known, the largest counts.
Assignments come on top: a generation whose record is too large fails when its leader assigns, as in Kafka. One for
which the broker has no memory is COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Final

from ....protocol import ErrorCode
from ...coordinator.core.texts import text_bytes
from .events import Join, Sync
from .membership import RECORD_MEMBER_BYTES

if TYPE_CHECKING:
    from .group import Group

GROUPS_BYTES_MAX: Final = 256 * 1024 * 1024
GROUP_BYTES: Final = 4096
"""A group itself."""
MEMBER_BYTES: Final = 2048
"""A member besides its protocols, texts and assignment, or an id that was given out besides itself."""

_NOTHING: Final = 0, 0


class GroupMemory:
    """The bytes that groups hold, and their members, by group."""

    def __init__(self, bytes_max: int = GROUPS_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.used = 0
        self.members = 0
        self._held: dict[Hashable, tuple[int, int]] = {}

    def hold(self, group: Hashable, size: int, members: int = 0) -> None:
        """Account for a group as it is now; 0: it is gone."""
        old_size, old_members = self._held.pop(group, _NOTHING)
        self.used += size - old_size
        self.members += members - old_members
        if size:
            self._held[group] = size, members

    def held_by(self, group: Hashable) -> int:
        """Return the bytes that are accounted for a group."""
        return self._held.get(group, _NOTHING)[0]

    def judge(self, group: Group, join: Join, record_bytes_max: int) -> ErrorCode:
        """Return whether a member may join with what it brings: NONE, or the code that refuses it."""
        known = group.members.find(join.who.member_id)
        record_bytes = group.members.record_bytes + join.record_bytes + RECORD_MEMBER_BYTES
        growth = join.protocol_bytes + (MEMBER_BYTES + join.text_bytes if known is None else -known.protocol_bytes)
        if known is not None:
            record_bytes -= known.record_bytes + RECORD_MEMBER_BYTES
        if record_bytes > record_bytes_max or join.protocol_bytes > record_bytes_max:
            return ErrorCode.group_max_size_reached
        return ErrorCode.none if self._has_room(growth) else ErrorCode.coordinator_not_available

    def judge_assignments(self, group: Group, sync: Sync) -> ErrorCode:
        """Return whether a leader may assign what it brings: NONE, or the code that refuses it."""
        growth = sum(map(len, sync.assignments.values())) - group.members.assignment_bytes
        return ErrorCode.none if self._has_room(growth) else ErrorCode.coordinator_not_available

    def _has_room(self, growth: int) -> bool:
        return growth <= 0 or self.used + growth <= self.bytes_max


def bytes_of(group: Group) -> int:
    """Return what a group takes."""
    members, pending = group.members, group.pending_joins
    texts = text_bytes(group.group_id) + members.text_bytes + pending.text_bytes
    count = len(members) + len(pending)
    return GROUP_BYTES + count * MEMBER_BYTES + texts + members.protocol_bytes + members.assignment_bytes
