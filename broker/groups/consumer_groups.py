"""The consumer groups (KIP-848) of one led partition at work (`decided_groups` has their decisions and timers).

Expressions are matched with topics in steps (`core.consumer.topics.matching`), once at a time for a group, and at most
each `REGEX_INTERVAL_MS`. One group of the broker is at work at a time, and all rest after each step: however many
expressions there are, and whatever is in them, most of the loop is left to others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from ...light_dataclass import dataclass
from ...limited_log import LimitedLog
from ...protocol import ErrorCode, KafkaError
from ...protocol.net import monotonic_ms
from ...protocol.wire import Steps
from ..coordinator.shard import ActiveShard
from ..replicas.leadership import WallClock
from .core.consumer.decision import ConsumerSettings, Decision, World, expire, resolve, unresolved
from .core.consumer.migration import downgrade, must_downgrade, upgrade
from .core.consumer.records import Resolved
from .core.consumer.state import ConsumerGroup
from .core.consumer.topics import Topics, matching
from .core.decided import Decided
from .core.group import Group
from .core.group_state import GroupState
from .core.memory import GroupMemory
from .core.records import GroupRecord, GroupValue
from .core.shard import Shard
from .core.targeted import settling_interval_ms
from .decided_groups import DecidedGroups, Pending, named

REGEX_INTERVAL_MS: Final = 1_000
MATCHING_REST: Final = 2
"""The pause after a step of matching, as a multiple of the time of the step: mostly a millisecond, 10 ms at most."""

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
    matching: asyncio.Lock
    """Held for a step of matching, by one group of the broker; groups take turns."""


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


class ConsumerGroups(DecidedGroups[ConsumerGroup]):
    """See the module's docstring."""

    kind = "consumer"

    def __init__(
        self,
        runtime: ActiveShard[GroupRecord],
        shard: Shard,
        memory: GroupMemory,
        surroundings: Surroundings,
        classic: ClassicGroups,
    ) -> None:
        super().__init__(runtime, shard.consumers, memory, surroundings.commit_timeout_ms)
        self._classic = classic
        self._shard = shard
        self._surroundings = surroundings
        self._resolving: set[str] = set()
        self._matched: dict[str, _Matched] = {}

    def world(self, group_id: str) -> World:
        """Return what a decision of the group may know now."""
        version, topics = self._surroundings.topics()
        soon_ms = settling_interval_ms(self._memory.members)
        return World(topics, version, self._surroundings.settings_of(group_id), monotonic_ms(), soon_ms)

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
        if group_id in self._shard.shares:
            raise KafkaError(ErrorCode.group_id_not_found, f"group {group_id!r} is not a consumer group")
        group = self._shard.consumers.get(group_id) or ConsumerGroup(group_id)
        decision, world = Decision(group), self.world(group_id)
        classic = None if group_id in self._shard.consumers else self._shard.groups.get(group_id)
        try:
            if classic is not None and classic.state is GroupState.DEAD:
                raise KafkaError(ErrorCode.coordinator_not_available, f"group {group_id!r} is being deleted")
            if classic is not None and may_upgrade:
                upgrade(decision, classic, world)
            answer = decide(decision, world)
            self._check_memory(decision.group)
            self._submit_or_downgrade(decision, world, classic)
        except KafkaError:
            self._undo(decision)
            raise
        self._maybe_resolve(group, world, visible)
        await self._settled(group_id)
        return answer

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

    def submit(self, decision: Decided[ConsumerGroup], was: Group | None = None) -> None:
        """Let a decision be written, and the group be what it says; it may have been a classic one. Raise KafkaError
        if it cannot be queued.
        """
        super().submit(decision, was)
        if not decision.group.members:
            self._matched.pop(decision.group.group_id, None)

    def _queue(self, decision: Decided[ConsumerGroup], was: Group | None = None) -> None:
        super()._queue(decision, None if was is None else was.as_value())

    def _begins(self, group: ConsumerGroup, was: Group | None) -> None:
        if was is not None:
            self._classic.end_classic(group.group_id)

    def _put_back(self, lost: Pending[ConsumerGroup]) -> None:
        """Let the group be of the kind that it was before a decision that is undone."""
        group, group_id = lost.decision.group, lost.decision.group.group_id
        if lost.was is not None or group.is_nothing:
            if self._groups.get(group_id) is group:
                self.forget(group_id)
            if lost.was is not None:
                self._classic.put_back_classic(group_id, lost.was)
        elif self._groups.get(group_id) is not group:
            self._classic.end_classic(group_id)
            self._groups[group_id] = group
        self._account_for(group)

    def forget(self, group_id: str) -> None:
        """Drop a group that was deleted, or that is another kind of group now."""
        super().forget(group_id)
        self._matched.pop(group_id, None)

    def _session_timeout_ms(self, group_id: str) -> int:
        return self._surroundings.settings_of(group_id).session_timeout_ms

    def _look_after(self, group: ConsumerGroup) -> None:
        decision, world = Decision(group), self.world(group.group_id)
        lost = expire(decision, world)
        if lost:
            _log.info(
                "group %r: %s were silent for too long, or kept what they had to give up", group.group_id, named(lost)
            )
        try:
            self._submit_or_downgrade(decision, world)
        except KafkaError as error:
            self._undo(decision)
            _of_peers.warning(
                group.group_id, "group %r: lost members stay for another session: %s", group.group_id, error
            )

    # Regular expressions.

    def _maybe_resolve(self, group: ConsumerGroup, world: World, visible: Visible) -> None:
        group_id = group.group_id
        if not group.regex_uses or group_id in self._resolving:
            return
        last = self._matched.get(group_id)
        if last is not None:
            passed_ms = world.now_ms - last.at_ms
            if passed_ms < REGEX_INTERVAL_MS:
                return
            is_new = bool(unresolved(group) - last.rejected)
            is_old = passed_ms >= world.settings.regex_refresh_interval_ms
            has_changed = last.topics_version != world.topics_version
            if not (is_new or is_old or has_changed):
                return
        rejected = frozenset() if last is None else last.rejected
        self._matched[group_id] = _Matched(None, world.now_ms, rejected)
        self._resolving.add(group_id)
        self._runtime.spawn(self._resolve(group, sorted(group.regex_uses), visible))

    async def _resolve(self, group: ConsumerGroup, regexes: list[str], visible: Visible) -> None:
        group_id = group.group_id
        (version, topics), now_ms = self._surroundings.topics(), monotonic_ms()
        try:
            matched = await self._matching(group, matching(regexes, topics, visible))
            if matched is not None:
                found, rejected = matched
                self._report(group_id, rejected)
                self._put_resolved(group, found)
                self._matched[group_id] = _Matched(version, now_ms, frozenset(rejected))
        except KafkaError as error:
            _of_peers.warning(group_id, "group %r: regular expressions are matched again later: %s", group_id, error)
        finally:
            self._resolving.discard(group_id)

    async def _matching(self, group: ConsumerGroup, steps: Steps[T]) -> T | None:
        """Return what the steps return; None if no member has an expression any longer."""
        loop = asyncio.get_running_loop()
        while self._shard.consumers.get(group.group_id) is group and group.regex_uses:
            async with self._surroundings.matching:
                began_s = loop.time()
                try:
                    next(steps)
                except StopIteration as end:
                    result: T = end.value
                    return result
                await asyncio.sleep(MATCHING_REST * (loop.time() - began_s))
        return None

    def _report(self, group_id: str, rejected: Mapping[str, KafkaError]) -> None:
        """Say once which expressions match nothing: RE2 rejects them, and another coordinator took them in."""
        last = self._matched.get(group_id)
        for regex, error in rejected.items():
            if last is None or regex not in last.rejected:
                _of_peers.warning(group_id, "group %r: an expression matches no topic: %s", group_id, error)

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
