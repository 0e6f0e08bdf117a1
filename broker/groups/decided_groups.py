"""Groups of one led partition that are what their records add up to, at work: decisions, their records, timers.

    request -> decision, applied -> records queued -> committed -> answer
                                          | lost: this decision and all later ones of the group are undone

Decisions follow each other without waiting for the log; an answer waits for everything that was decided of its group
before it. So what a client is given is durable, and a group of a thousand members joins in few batches.

| | bound |
|---|---|
| an answer waits for the log | `offsets.commit.timeout.ms`, then COORDINATOR_NOT_AVAILABLE; the decision goes its way |
| members that are lost at once | `LOST_BYTES_MAX` (`core.targeted`) a decision; the next follows at once |
| all members of a broker's groups | `GROUPS_BYTES_MAX` (`core.memory`), then COORDINATOR_NOT_AVAILABLE to newcomers |

Each kind of group says what holds of it: `ConsumerGroups`, `ShareGroups`.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence, Sized
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

from ...light_dataclass import dataclass
from ...limited_log import LimitedLog
from ...protocol import ErrorCode, KafkaError
from ...protocol.net import monotonic_ms, pace
from ..coordinator.shard import ActiveShard
from .core.decided import Decided, DecidedGroup, GroupT
from .core.memory import GroupMemory
from .core.records import GroupRecord

RETRY_MS: Final = 1_000
RESUME_WEIGHT: Final = 5
"""What it costs to resume a group besides its members, in elements of `pace`; a member is one."""

NAMED_MAX: Final = 10
"""So many lost members have their names in the log of the broker."""

_log = LimitedLog(logging.getLogger(__name__))


def named(member_ids: Sequence[str]) -> str:
    """Return the names of members for the log, or how many there are besides the first ones."""
    others = len(member_ids) - NAMED_MAX
    return f"members {list(member_ids[:NAMED_MAX])}{f' and {others} others' if others > 0 else ''}"


@dataclass(slots=True)
class Pending(Generic[GroupT]):
    """A decision on its way into the log."""

    decision: Decided[GroupT]
    committed: asyncio.Future[None]
    was: Any = None
    """What the group was before, if the decision made it a group of this kind."""


class _WithMembers(Protocol):
    @property
    def members(self) -> Sized: ...


_AnyGroupT = TypeVar("_AnyGroupT", bound=_WithMembers)


async def in_turns(groups: Iterable[_AnyGroupT]) -> AsyncIterator[_AnyGroupT]:
    """Yield groups for their members to get a deadline each; other work of the loop runs between them."""
    had, turns = 0, pace()
    for group in groups:
        cost = RESUME_WEIGHT + len(group.members)
        await turns.spend(cost, had)
        had += cost
        yield group


class DecidedGroups(ABC, Generic[GroupT]):
    """See the module's docstring. `groups` are those of the shard, by id."""

    kind: str
    """What the groups are, in names of timers."""

    def __init__(
        self,
        runtime: ActiveShard[GroupRecord],
        groups: dict[str, GroupT],
        memory: GroupMemory,
        commit_timeout_ms: int,
    ) -> None:
        self._runtime = runtime
        self._groups = groups
        self._memory = memory
        self._commit_timeout_ms = commit_timeout_ms
        self._pending: dict[str, deque[Pending[GroupT]]] = {}
        self._due: dict[str, tuple[GroupT, int]] = {}
        """The groups with a timer, and when it fires."""

    # What a kind of group says.

    @abstractmethod
    def _session_timeout_ms(self, group_id: str) -> int:
        """Return how long a member may be silent."""

    @abstractmethod
    def _look_after(self, group: GroupT) -> None:
        """Do what is due: members may be lost."""

    def _begins(self, group: GroupT, was: Any) -> None:
        """A decision made it a group of this kind, where `was` was before."""

    def _put_back(self, lost: Pending[GroupT]) -> None:
        """Let the group be of the kind that it was before a decision that is undone."""
        group = lost.decision.group
        if group.is_nothing and self._groups.get(group.group_id) is group:
            self.forget(group.group_id)
        self._account_for(group)

    # Decisions.

    def _check_memory(self, group: DecidedGroup) -> None:
        held = self._memory.held_by((self, group.group_id))
        if group.bytes_held > held and self._memory.used + group.bytes_held - held > self._memory.bytes_max:
            message = f"the groups of this broker hold {self._memory.used} of {self._memory.bytes_max} bytes"
            raise KafkaError(ErrorCode.coordinator_not_available, message)

    def submit(self, decision: Decided[GroupT], was: Any = None) -> None:
        """Let a decision be written, and the group be what it says. Raise KafkaError if it cannot be queued."""
        group = decision.group
        if decision.records:
            self._queue(decision, was)
            if not group.is_nothing:
                self._groups[group.group_id] = group
                self._begins(group, was)
        self._account_for(group)
        self.set_timer(group)

    def _queue(self, decision: Decided[GroupT], was: Any = None) -> None:
        group_id = decision.group.group_id
        lost = partial(self._lost, group_id)
        committed = self._runtime.submit(decision.records, on_lost=lost)
        pending = self._pending.setdefault(group_id, deque())
        pending.append(Pending(decision, committed, was))
        committed.add_done_callback(partial(self._done, group_id))

    def _done(self, group_id: str, committed: asyncio.Future[None]) -> None:
        if not committed.cancelled():
            committed.exception()  # It is seen by those who wait; nothing waits for a timer's decision.
        pending = self._pending.get(group_id)
        while pending and pending[0].committed.done():
            pending.popleft()
        if not pending:
            self._pending.pop(group_id, None)

    def _lost(self, group_id: str, error: KafkaError) -> None:
        """Undo what is not committed, newest first: later decisions were made on what was lost. These may be tried
        again, and so may that, unless it is too large for the log.
        """
        message = f"group {group_id!r}: a record could not be written"
        lost = [each for each in self._pending.pop(group_id, ()) if not each.committed.done()]
        for index, each in reversed(list(enumerate(lost))):
            is_too_large = not index and error.code is ErrorCode.message_too_large
            code = ErrorCode.unknown_server_error if is_too_large else ErrorCode.coordinator_not_available
            each.decision.undo()
            each.committed.set_exception(KafkaError(code, f"{message}: {error.message}" if is_too_large else message))
            self._put_back(each)
        _log.warning(group_id, "group %r: decisions were undone: their records could not be written", group_id)

        group = self._groups.get(group_id)
        if group is not None:
            self._complete_deadlines(group)

    def _undo(self, decision: Decided[GroupT]) -> None:
        """Take back a decision that was not queued."""
        decision.undo()
        if decision.records and self._groups.get(decision.group.group_id) is decision.group:
            self._complete_deadlines(decision.group)

    def _complete_deadlines(self, group: GroupT) -> None:
        """Give a session to members whose removal was undone; they are not looked at before `RETRY_MS` is over."""
        now_ms = monotonic_ms()
        is_changed = group.complete_deadlines(now_ms, self._session_timeout_ms(group.group_id))
        self.set_timer(group, not_before_ms=now_ms + RETRY_MS if is_changed else 0)

    async def _settled(self, group_id: str) -> None:
        """Return once all that was decided of a group is durable. Raise KafkaError."""
        pending = self._pending.get(group_id)
        if not pending:
            return
        try:
            async with asyncio.timeout(self._commit_timeout_ms / 1000):
                await asyncio.shield(pending[-1].committed)
        except TimeoutError:
            message = f"group {group_id!r}: its record is not committed yet"
            raise KafkaError(ErrorCode.coordinator_not_available, message) from None

    def _account_for(self, group: GroupT) -> None:
        is_known = self._groups.get(group.group_id) is group
        size, members = (group.bytes_held, len(group.members)) if is_known else (0, 0)
        self._memory.hold((self, group.group_id), size, members)

    # Life.

    async def resume(self) -> None:
        """The partition is read: every member has a whole session from now on."""
        async for group in in_turns(list(self._groups.values())):
            group.resume(monotonic_ms(), self._session_timeout_ms(group.group_id))
            self._account_for(group)
            self.set_timer(group)

    def release(self) -> None:
        """Give back the memory."""
        for group_id in self._groups:
            self._memory.hold((self, group_id), 0)

    def forget(self, group_id: str) -> None:
        """Drop a group that was deleted, or that is another kind of group now."""
        self._groups.pop(group_id, None)
        self._memory.hold((self, group_id), 0)
        self._due.pop(group_id, None)
        self._runtime.stop_timer((self.kind, group_id))

    def take_back(self, group: GroupT) -> None:
        """Have a group again that was dropped."""
        self._groups[group.group_id] = group
        self._account_for(group)

    # Timers.

    def set_timer(self, group: GroupT, not_before_ms: int = 0) -> None:
        """Let the group be looked after when something is due."""
        deadline_ms, name = group.deadline_ms(), (self.kind, group.group_id)
        due = None if deadline_ms is None else (group, max(deadline_ms, not_before_ms))
        if due == self._due.get(group.group_id):
            return
        if due is None:
            self._due.pop(group.group_id)
            self._runtime.stop_timer(name)
        else:
            self._due[group.group_id] = due
            self._runtime.set_timer(name, due[1], partial(self._fire, group))

    def _fire(self, group: GroupT) -> None:
        self._due.pop(group.group_id, None)
        if self._groups.get(group.group_id) is group:
            self._look_after(group)
