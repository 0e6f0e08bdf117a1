"""A group whose members move towards a target assignment: what consumer groups (KIP-848) and share groups (KIP-932)
have in common.

    GROUP epoch  <- members, subscriptions or topics have changed
    TARGET epoch <- an assignment was computed for a group epoch
    CURRENT      <- what a member has, of which epoch

A kind of group adds its members, and the order of its records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Generic, Self, TypeVar

from ....light_dataclass import dataclass
from .consumer.records import NOTHING, Assignment, Current, GroupEpoch, MemberState, Target, TargetEpoch

OVERHEAD_BYTES: Final = 1024
"""A member besides its texts and assignments, or the group itself."""
PARTITION_BYTES: Final = 64

MemberT = TypeVar("MemberT")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTimeouts:
    """Timeouts of the broker, with Kafka's defaults; a group may have its own."""

    session_timeout_ms: int = 45_000
    session_timeout_min_ms: int = 45_000
    session_timeout_max_ms: int = 60_000
    heartbeat_interval_ms: int = 5_000
    heartbeat_interval_min_ms: int = 5_000
    heartbeat_interval_max_ms: int = 15_000

    def with_own(self, configs: Mapping[str, str], session_key: str, interval_key: str) -> Self:
        """Return what holds for a group that has these configs; limits of the broker hold nevertheless."""
        session_ms = int(configs.get(session_key, self.session_timeout_ms))
        interval_ms = int(configs.get(interval_key, self.heartbeat_interval_ms))
        return replace(
            self,
            session_timeout_ms=min(max(session_ms, self.session_timeout_min_ms), self.session_timeout_max_ms),
            heartbeat_interval_ms=min(max(interval_ms, self.heartbeat_interval_min_ms), self.heartbeat_interval_max_ms),
        )


class Deadlines(dict[str, int]):
    """Deadlines in ms, by name. A heartbeat moves one to later, so the first of them is looked for only once it may be
    over: a member costs the same in a large group.
    """

    __slots__ = ("_not_before_ms",)

    def __init__(self) -> None:
        super().__init__()
        self._not_before_ms: int | None = None
        """No deadline is earlier."""

    def __setitem__(self, name: str, deadline_ms: int) -> None:
        super().__setitem__(name, deadline_ms)
        self._lower(deadline_ms)

    def set_if_absent(self, name: str, deadline_ms: int) -> None:
        """Set a deadline where there is none."""
        if name not in self:
            self[name] = deadline_ms

    def not_before_ms(self) -> int | None:
        """Return a time before which none is over; None if there are none."""
        return self._not_before_ms if self else None

    def over(self, now_ms: int) -> list[str]:
        """Return those that are over."""
        if self._not_before_ms is None or self._not_before_ms > now_ms:
            return []
        self._not_before_ms = min(self.values(), default=None)
        return [name for name, deadline_ms in self.items() if deadline_ms <= now_ms]

    def _lower(self, deadline_ms: int) -> None:
        if self._not_before_ms is None or deadline_ms < self._not_before_ms:
            self._not_before_ms = deadline_ms


class TargetedGroup(Generic[MemberT]):
    """See the module's docstring. What replaces a value returns the one before, None for none."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.target_epoch = 0
        self.members: dict[str, MemberT] = {}
        self.targets: dict[str, Assignment] = {}
        self.currents: dict[str, Current] = {}
        self.sessions = Deadlines()
        """When each member is lost, unless it sends a heartbeat before."""
        self.seen_topics: int | None = None
        """The version of the topics that `metadata_hash` was compared with; None if that is not known."""
        self.bytes_held = OVERHEAD_BYTES

    def _replace_epoch(self, value: object) -> GroupEpoch | None:
        old = GroupEpoch(self.epoch, self.metadata_hash) if self.epoch else None
        group = value if isinstance(value, GroupEpoch) else GroupEpoch(0)
        self.epoch, self.metadata_hash = group.epoch, group.metadata_hash
        return old

    def _replace_target_epoch(self, value: object) -> TargetEpoch | None:
        old = TargetEpoch(self.target_epoch) if self.target_epoch else None
        self.target_epoch = value.epoch if isinstance(value, TargetEpoch) else 0
        return old

    def _replace_target(self, member_id: str, value: object) -> Target | None:
        held = self.targets.pop(member_id, None)
        self._count(held, -1)
        if isinstance(value, Target):
            self.targets[member_id] = value.assignment
            self._count(value.assignment, 1)
        return None if held is None else Target(held)

    def _replace_current(self, member_id: str, value: object) -> Current | None:
        old = self.currents.pop(member_id, None)
        self._count(None if old is None else old.assigned, -1)
        if isinstance(value, Current):
            self.currents[member_id] = value
            self._count(value.assigned, 1)
        return old

    def _count(self, assignment: Assignment | None, sign: int) -> None:
        for numbers in (assignment or NOTHING).values():
            self.bytes_held += sign * (OVERHEAD_BYTES // 8 + PARTITION_BYTES * len(numbers))

    @property
    def is_nothing(self) -> bool:
        """Whether no record made it, so that it need not be remembered."""
        return not self.epoch and not self.members

    def current(self, member_id: str) -> Current:
        """Return what a member has; nothing in epoch 0 for one that has just come."""
        return self.currents.get(member_id) or Current(epoch=0, previous_epoch=0, state=MemberState.STABLE)
