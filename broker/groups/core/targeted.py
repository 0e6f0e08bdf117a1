"""A group whose members move towards a target assignment: what consumer groups (KIP-848) and share groups (KIP-932)
have in common.

    GROUP epoch  <- members, subscriptions or topics have changed
    TARGET epoch <- an assignment was computed for a group epoch
    CURRENT      <- what a member has, of which epoch

A kind of group adds its members, and the order of its records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final, Generic, NamedTuple, Self, TypeVar

from ....light_dataclass import dataclass
from .consumer.records import NOTHING, Assignment, Current, GroupEpoch, MemberState, Target, TargetEpoch

OVERHEAD_BYTES: Final = 1024
"""A member besides its texts and assignments, or the group itself."""
PARTITION_BYTES: Final = 64
SESSION_HEARTBEATS_MIN: Final = 2
"""In sessions of fewer heartbeats every member seems to be silent, so it means nothing before the end."""
SETTLING_INTERVAL_MIN_MS: Final = 250
SETTLING_MS_EACH: Final = 2
"""The time for each member that may come again soon: together they send 500 heartbeats a second at most meanwhile."""
LOST_BYTES_MAX: Final = 256 * 1024
"""What removes lost members in one write: more than `max.message.bytes` would never be written."""
LOST_RECORDS: Final = 3
"""The tombstones of a member."""
STEPS_MIN: Final = 64
"""So many bounds of deadlines are moved one by one, in a small group too."""

BLANKS: Final = "".join(map(chr, range(33)))
RECORD_OVERHEAD_BYTES: Final = 32
"""A record besides the texts of its key, at most."""

MemberT = TypeVar("MemberT")


def is_blank(text: str) -> bool:
    """Return whether there is nothing in a text that Java's `trim` leaves."""
    return not text.strip(BLANKS)


def settling_interval_ms(members: int) -> int:
    """Return after how long so many members come again while their groups settle."""
    return max(SETTLING_INTERVAL_MIN_MS, members * SETTLING_MS_EACH)


def lost_at_once(group_id: str, lost: Iterable[str]) -> list[str]:
    """Return those of the lost members, in order, whose tombstones fit into one write, one at least. The deadlines of
    the others are over too, so they follow at once.
    """
    chosen, left = list[str](), LOST_BYTES_MAX
    for member_id in sorted(lost):
        left -= LOST_RECORDS * (len(group_id.encode()) + len(member_id.encode()) + RECORD_OVERHEAD_BYTES)
        if chosen and left < 0:
            break
        chosen.append(member_id)
    return chosen


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
    """Deadlines in ms, by name. A heartbeat moves one to later, so a heap has a bound for each that is moved only when
    it is met: a member costs the same in a large group, also when the deadlines of all of them come near at once.
    """

    __slots__ = ("_bounds",)

    def __init__(self) -> None:
        super().__init__()
        self._bounds: list[tuple[int, str]] = []
        """A heap: each name has one no later than its deadline. Others are old, and go when they are met."""

    def __setitem__(self, name: str, deadline_ms: int) -> None:
        before_ms = self.get(name)
        super().__setitem__(name, deadline_ms)
        if before_ms is None or deadline_ms < before_ms:
            heappush(self._bounds, (deadline_ms, name))
            if len(self._bounds) > 2 * len(self) + STEPS_MIN:
                self._sort()

    def set_if_absent(self, name: str, deadline_ms: int) -> None:
        """Set a deadline where there is none."""
        if name not in self:
            self[name] = deadline_ms

    def not_before_ms(self) -> int | None:
        """Return a time before which none is over; None if there are none."""
        return self._bounds[0][0] if self else None

    def over(self, now_ms: int) -> list[str]:
        """Return those that are over."""
        if not self or self._bounds[0][0] > now_ms:
            return []
        first_ms = self._first()
        if first_ms is None or first_ms > now_ms:
            return []
        return [name for name, deadline_ms in self.items() if deadline_ms <= now_ms]

    def first_before(self, limit_ms: int) -> int | None:
        """Return the first deadline, None if none is before the limit."""
        if not self or self._bounds[0][0] >= limit_ms:
            return None
        first_ms = self._first()
        return first_ms if first_ms is not None and first_ms < limit_ms else None

    def _first(self) -> int | None:
        """Return the first deadline. Each heartbeat makes one bound old at most, and after many of them all are
        sorted again, which is faster.
        """
        for _ in range(max(STEPS_MIN, len(self) // 8)):
            if not self._bounds:
                return None
            bound_ms, name = self._bounds[0]
            deadline_ms = self.get(name)
            if deadline_ms == bound_ms:
                return bound_ms
            if deadline_ms is None:
                heappop(self._bounds)
            else:
                heapreplace(self._bounds, (deadline_ms, name))
        self._sort()
        return self._bounds[0][0] if self else None

    def _sort(self) -> None:
        self._bounds = [(deadline_ms, name) for name, deadline_ms in self.items()]
        heapify(self._bounds)


class MemberNow(NamedTuple, Generic[MemberT]):
    """A member at one moment, with what it has and what it shall have."""

    member_id: str
    member: MemberT
    current: Current
    target: Assignment

    @property
    def assigned(self) -> int:
        """The number of topics and partitions that it has, or shall have."""
        held = (self.current.assigned, self.target)
        return sum([1 + len(numbers) for each in held for numbers in each.values()])


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

    def next_heartbeat_ms(self, timeouts: GroupTimeouts, now_ms: int) -> int:
        """Return after how long a member shall come: its interval, or until just after another one is lost if that is
        sooner, so that what that one had is given out at once. Who would have come within an interval of the loss
        comes within a spread of it, in the same order.
        """
        interval_ms = timeouts.heartbeat_interval_ms
        if timeouts.session_timeout_ms < SESSION_HEARTBEATS_MIN * interval_ms:
            return interval_ms
        lost_ms = self.sessions.first_before(now_ms + interval_ms)
        if lost_ms is None:
            return interval_ms
        spread_ms = settling_interval_ms(len(self.members))
        left_ms = max(lost_ms - now_ms, 0)
        return min(left_ms + 1 + (interval_ms - left_ms) * spread_ms // interval_ms, interval_ms)

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
        if old is not None:
            self._count_current(old, -1)
        if isinstance(value, Current):
            self.currents[member_id] = value
            self._count_current(value, 1)
        return old

    def _count_current(self, current: Current, sign: int) -> None:
        for assignment in (current.assigned, *current.epochs.values()):
            self._count(assignment, sign)

    def _count(self, assignment: Assignment | None, sign: int) -> None:
        for numbers in (assignment or NOTHING).values():
            self.bytes_held += sign * (OVERHEAD_BYTES // 8 + PARTITION_BYTES * len(numbers))

    @property
    def is_nothing(self) -> bool:
        """Whether no record made it, so that it need not be remembered."""
        return not self.epoch and not self.members

    def members_now(self) -> Iterator[MemberNow[MemberT]]:
        """Return all members as they are now, whatever changes before the last one is reached."""
        members, currents, targets = dict(self.members), dict(self.currents), dict(self.targets)
        newcomer = self.current("")
        return (
            MemberNow(member_id, member, currents.get(member_id, newcomer), targets.get(member_id, NOTHING))
            for member_id, member in members.items()
        )

    def current(self, member_id: str) -> Current:
        """Return what a member has; nothing in epoch 0 for one that has just come."""
        return self.currents.get(member_id) or Current(epoch=0, previous_epoch=0, state=MemberState.STABLE)
