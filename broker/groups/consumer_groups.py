"""The consumer groups (KIP-848) of one led partition at work: decisions, their records, timers, expressions.

    request -> decision, applied -> records queued -> committed -> answer
                                          | lost: this decision and all later ones of the group are undone

Decisions follow each other without waiting for the log; an answer waits for everything that was decided of its group
before it. So what a client is given is durable, and a group of a thousand members joins in few batches.

| | bound |
|---|---|
| an answer waits for the log | `offsets.commit.timeout.ms`, then COORDINATOR_NOT_AVAILABLE; the decision goes its way |
| all members of a broker's groups | `GROUPS_BYTES_MAX` (`core.memory`), then COORDINATOR_NOT_AVAILABLE to newcomers |
| matching expressions with topics | in slices, once at a time for a group, at most each `REGEX_INTERVAL_MS` |
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeVar

from ...limited_log import LimitedLog
from ...protocol import ErrorCode, KafkaError
from ...protocol.net import Slices, monotonic_ms
from ..coordinator.shard import ActiveShard
from ..replicas.leadership import WallClock
from .core.consumer.decision import ConsumerSettings, Decision, World, expire, resolve, unresolved
from .core.consumer.migration import downgrade, must_downgrade, upgrade
from .core.consumer.records import Resolved
from .core.consumer.state import ConsumerGroup
from .core.consumer.topics import Pattern, Topics, compiled
from .core.group import Group
from .core.group_state import GroupState
from .core.memory import GroupMemory
from .core.records import GroupRecord, GroupValue
from .core.shard import Shard

REGEX_INTERVAL_MS: Final = 1_000
RETRY_MS: Final = 1_000

_log = logging.getLogger(__name__)
_of_peers = LimitedLog(_log)

T = TypeVar("T")
Visible = Callable[[str], bool]
"""Returns whether a client may know of the topic."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What consumer groups know besides themselves: the topics, with their version; `settings_of` a group by its id."""

    topics: Callable[[], tuple[int, Topics]]
    settings_of: Callable[[str], ConsumerSettings]
    now_ms: WallClock
    commit_timeout_ms: int


@dataclass(slots=True)
class _Pending:
    decision: Decision
    committed: asyncio.Future[None]
    was: GroupValue | None = None
    """The classic group that became this one with the decision."""


@dataclass(frozen=True, slots=True)
class _Matched:
    """When a group's expressions were matched last, and the version of the topics; None: not done yet, or failed."""

    topics_version: int | None
    at_ms: int
    rejected: frozenset[str]


class ClassicGroups(Protocol):
    """The port to the groups of the classic protocol in the same partition."""

    def become_classic(self, group_id: str, value: GroupValue) -> None:
        """Let a group be a classic one, whose members have to join again."""

    def end_classic(self, group_id: str) -> None:
        """Let a group be none of the classic ones: its members try again."""

    def put_back_classic(self, group_id: str, value: GroupValue) -> None:
        """Let a group be what it was: its record was not replaced."""


class ConsumerGroups:
    """See the module's docstring."""

    def __init__(
        self,
        runtime: ActiveShard[GroupRecord],
        shard: Shard,
        memory: GroupMemory,
        surroundings: Surroundings,
        classic: ClassicGroups,
    ) -> None:
        self._classic = classic
        self._runtime = runtime
        self._shard = shard
        self._memory = memory
        self._surroundings = surroundings
        self._pending: dict[str, deque[_Pending]] = {}
        self._resolving: set[str] = set()
        self._matched: dict[str, _Matched] = {}

    def world(self, group_id: str) -> World:
        """Return what a decision of the group may know now."""
        version, topics = self._surroundings.topics()
        return World(topics, version, self._surroundings.settings_of(group_id), monotonic_ms())

    async def ask(
        self,
        group_id: str,
        decide: Callable[[Decision, World], T],
        visible: Visible = lambda _: True,
        *,
        may_upgrade: bool = False,
    ) -> T:
        """Decide for a group, which may begin with it, and return the answer once it is durable. Raise KafkaError. A
        classic group is upgraded only by a member that joins.
        """
        group = self._shard.consumers.get(group_id) or ConsumerGroup(group_id)
        decision, world = Decision(group), self.world(group_id)
        classic = None if group_id in self._shard.consumers else self._shard.groups.get(group_id)
        try:
            if classic is not None and classic.state is GroupState.DEAD:
                raise KafkaError(ErrorCode.coordinator_not_available, f"group {group_id!r} is being deleted")
            if classic is not None and may_upgrade:
                upgrade(decision, classic, world)
            answer = decide(decision, world)
            self._check_memory(decision)
            self._submit_or_downgrade(decision, world, classic)
        except KafkaError:
            self._undo(decision)
            raise
        self._maybe_resolve(group, world, visible)
        await self._settled(group_id)
        return answer

    def _check_memory(self, decision: Decision) -> None:
        held = self._memory.held_by((self, decision.group.group_id))
        if decision.group.bytes_held > held and self._memory.used + decision.group.bytes_held - held > (
            self._memory.bytes_max
        ):
            message = f"the groups of this broker hold {self._memory.used} of {self._memory.bytes_max} bytes"
            raise KafkaError(ErrorCode.coordinator_not_available, message)

    def _submit_or_downgrade(self, decision: Decision, world: World, classic: Group | None = None) -> None:
        """Let a decision be written; with it the group becomes a classic one if only classic members are left."""
        group = decision.group
        if not decision.records or not must_downgrade(group, world):
            self.submit(decision, classic)
            return
        value = downgrade(decision, world, self._surroundings.now_ms())
        self._queue(decision)
        self.forget(group.group_id)
        _log.info("group %r: only classic members are left, it is a classic group from now on", group.group_id)
        self._classic.become_classic(group.group_id, value)

    def submit(self, decision: Decision, classic: Group | None = None) -> None:
        """Let a decision be written, and the group be what it says; it may have been a classic one. Raise KafkaError
        if it cannot be queued.
        """
        group = decision.group
        if decision.records:
            self._queue(decision, classic)
            if not group.is_nothing:
                self._shard.consumers[group.group_id] = group
                if classic is not None:
                    self._classic.end_classic(group.group_id)
        if not group.members:
            self._matched.pop(group.group_id, None)
        self._account_for(group)
        self.set_timer(group)

    def _queue(self, decision: Decision, classic: Group | None = None) -> None:
        group_id = decision.group.group_id
        lost = partial(self._lost, group_id)
        committed = self._runtime.submit(decision.records, on_lost=lost)
        pending = self._pending.setdefault(group_id, deque())
        pending.append(_Pending(decision, committed, None if classic is None else classic.as_value()))
        committed.add_done_callback(partial(self._done, group_id))

    def _done(self, group_id: str, committed: asyncio.Future[None]) -> None:
        if not committed.cancelled():
            committed.exception()  # It is seen by those who wait; nothing waits for a timer's decision.
        pending = self._pending.get(group_id)
        while pending and pending[0].committed.done():
            pending.popleft()
        if not pending:
            self._pending.pop(group_id, None)

    def _lost(self, group_id: str) -> None:
        """Undo what is not committed, newest first: later decisions were made on what was lost."""
        error = KafkaError(ErrorCode.coordinator_not_available, f"group {group_id!r}: a record could not be written")
        for each in reversed(self._pending.pop(group_id, ())):
            if not each.committed.done():
                each.decision.undo()
                each.committed.set_exception(error)
                self._put_back(each)
        _of_peers.warning(group_id, "group %r: decisions were undone: their records could not be written", group_id)

        group = self._shard.consumers.get(group_id)
        if group is not None:
            self._complete_deadlines(group)

    def _undo(self, decision: Decision) -> None:
        """Take back a decision that was not queued."""
        decision.undo()
        if decision.records and self._shard.consumers.get(decision.group.group_id) is decision.group:
            self._complete_deadlines(decision.group)

    def _complete_deadlines(self, group: ConsumerGroup) -> None:
        """Give a session to members whose removal was undone; they are not looked at before `RETRY_MS` is over."""
        world = self.world(group.group_id)
        is_changed = group.complete_deadlines(world.now_ms, world.settings.session_timeout_ms)
        self.set_timer(group, not_before_ms=world.now_ms + RETRY_MS if is_changed else 0)

    def _put_back(self, lost: _Pending) -> None:
        """Let the group be of the kind that it was before a decision that is undone."""
        group, group_id = lost.decision.group, lost.decision.group.group_id
        if lost.was is not None or group.is_nothing:
            if self._shard.consumers.get(group_id) is group:
                self.forget(group_id)
            if lost.was is not None:
                self._classic.put_back_classic(group_id, lost.was)
        elif self._shard.consumers.get(group_id) is not group:
            self._classic.end_classic(group_id)
            self._shard.consumers[group_id] = group
        self._account_for(group)

    async def _settled(self, group_id: str) -> None:
        pending = self._pending.get(group_id)
        if not pending:
            return
        try:
            async with asyncio.timeout(self._surroundings.commit_timeout_ms / 1000):
                await asyncio.shield(pending[-1].committed)
        except TimeoutError:
            message = f"group {group_id!r}: its record is not committed yet"
            raise KafkaError(ErrorCode.coordinator_not_available, message) from None

    def _account_for(self, group: ConsumerGroup) -> None:
        is_known = self._shard.consumers.get(group.group_id) is group
        self._memory.hold((self, group.group_id), group.bytes_held if is_known else 0)

    # Life.

    def resume(self) -> None:
        """The partition is read: every member has a whole session from now on."""
        for group in self._shard.consumers.values():
            world = self.world(group.group_id)
            group.resume(world.now_ms, world.settings.session_timeout_ms)
            self._account_for(group)
            self.set_timer(group)

    def release(self) -> None:
        """Give back the memory."""
        for group_id in self._shard.consumers:
            self._memory.hold((self, group_id), 0)

    def forget(self, group_id: str) -> None:
        """Drop a group that was deleted, or that is another kind of group now."""
        self._shard.consumers.pop(group_id, None)
        self._matched.pop(group_id, None)
        self._memory.hold((self, group_id), 0)
        self._runtime.stop_timer(_timer(group_id))

    # Timers.

    def set_timer(self, group: ConsumerGroup, not_before_ms: int = 0) -> None:
        """Let the group be looked after when something is due."""
        deadline_ms = group.deadline_ms()
        if deadline_ms is None:
            self._runtime.stop_timer(_timer(group.group_id))
        else:
            due_ms = max(deadline_ms, not_before_ms)
            self._runtime.set_timer(_timer(group.group_id), due_ms, partial(self._fire, group))

    def _fire(self, group: ConsumerGroup) -> None:
        if self._shard.consumers.get(group.group_id) is not group:
            return
        decision, world = Decision(group), self.world(group.group_id)
        lost = expire(decision, world)
        if lost:
            _log.info(
                "group %r: members %s were silent for too long, or kept what they had to give up", group.group_id, lost
            )
        try:
            self._submit_or_downgrade(decision, world)
        except KafkaError as error:
            self._undo(decision)
            message = "group %r: lost members stay for another session: %s"
            _of_peers.warning(group.group_id, message, group.group_id, error)

    # Regular expressions.

    def _maybe_resolve(self, group: ConsumerGroup, world: World, visible: Visible) -> None:
        group_id = group.group_id
        wanted = {member.regex for member in group.members.values() if member.regex}
        if not wanted or group_id in self._resolving:
            return
        last = self._matched.get(group_id)
        if last is not None:
            passed_ms = world.now_ms - last.at_ms
            is_new = bool(unresolved(group) - last.rejected)
            is_old = passed_ms >= world.settings.regex_refresh_interval_ms
            has_changed = last.topics_version != world.topics_version
            if passed_ms < REGEX_INTERVAL_MS or not (is_new or is_old or has_changed):
                return
        rejected = frozenset() if last is None else last.rejected
        self._matched[group_id] = _Matched(None, world.now_ms, rejected)
        self._resolving.add(group_id)
        self._runtime.spawn(self._resolve(group, sorted(each for each in wanted if each), visible))

    async def _resolve(self, group: ConsumerGroup, regexes: list[str], visible: Visible) -> None:
        group_id = group.group_id
        (version, topics), now_ms = self._surroundings.topics(), monotonic_ms()
        try:
            patterns = self._compiled(group_id, regexes)
            found: dict[str, list[str]] = {regex: [] for regex in patterns}
            async for some in Slices([(name, regex) for name in sorted(topics) for regex in patterns]):
                for name, regex in some:
                    if patterns[regex].fullmatch(name) and visible(name):
                        found[regex].append(name)
            if self._shard.consumers.get(group_id) is group:
                self._put_resolved(group, found)
                self._matched[group_id] = _Matched(version, now_ms, frozenset(regexes) - frozenset(patterns))
        except KafkaError as error:
            _of_peers.warning(group_id, "group %r: regular expressions are matched again later: %s", group_id, error)
        finally:
            self._resolving.discard(group_id)

    def _compiled(self, group_id: str, regexes: list[str]) -> dict[str, Pattern]:
        """Return the expressions compiled. One that RE2 rejects, which another coordinator took in, matches nothing."""
        last, patterns = self._matched.get(group_id), {}
        for regex in regexes:
            try:
                patterns[regex] = compiled(regex)
            except KafkaError as error:
                if last is None or regex not in last.rejected:
                    _of_peers.warning(group_id, "group %r: an expression matches no topic: %s", group_id, error)
        return patterns

    def _put_resolved(self, group: ConsumerGroup, found: Mapping[str, Sequence[str]]) -> None:
        wall_ms = self._surroundings.now_ms()
        decision = Decision(group)
        resolved = {regex: Resolved(tuple(names), wall_ms, wall_ms) for regex, names in found.items()}
        resolve(decision, resolved, self.world(group.group_id))
        try:
            self.submit(decision)
        except KafkaError:
            self._undo(decision)
            raise


def _timer(group_id: str) -> tuple[str, str]:
    """Return the name of the timer; that of a classic group is its id, whatever that is."""
    return "consumer", group_id
