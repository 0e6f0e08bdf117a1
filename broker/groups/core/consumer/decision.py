"""The parts of every decision of a consumer group: subscribe, assign, advance, remove, resolve.

A `Decision` gathers records (`core.decided`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final
from uuid import UUID

from .....light_dataclass import dataclass
from .....protocol.wire import (
    ASSIGNMENT_INTERVAL_MAX_MS,
    GROUP_ASSIGNMENT_INTERVAL,
    GROUP_HEARTBEAT_INTERVAL,
    GROUP_SESSION_TIMEOUT,
)
from ..decided import Decided
from ..targeted import SETTLING_INTERVAL_MIN_MS, GroupTimeouts, lost_at_once
from .assignors import ASSIGNORS, Subscription
from .reconcile import reconciled
from .records import (
    NOTHING,
    Assignment,
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
from .state import ConsumerGroup
from .topics import Topics, metadata_hash

ASSIGNED_AT_ONCE_MAX: Final = 100
"""A group of so many members is assigned with each change; that takes less than a millisecond."""
GATHERED_MEMBERS_PER_MS: Final = 10
"""A larger group waits a millisecond for each so many members: at some 7 us a member that is a tenth of the loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings(GroupTimeouts):
    """`group.consumer.*` of the broker, with Kafka's defaults; a group may have timeouts of its own."""

    size_max: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    migration_policy: str = "bidirectional"
    regex_refresh_interval_ms: int = 600_000
    assignment_interval_ms: int = 0
    """A group's own `consumer.assignment.interval.ms`: its changes are gathered for so long, whatever its size."""

    def of(self, configs: Mapping[str, str]) -> ConsumerSettings:
        """Return what holds for a group that has these configs; limits of the broker hold nevertheless."""
        return replace(
            self.with_own(configs, GROUP_SESSION_TIMEOUT, GROUP_HEARTBEAT_INTERVAL),
            assignment_interval_ms=min(int(configs.get(GROUP_ASSIGNMENT_INTERVAL, 0)), ASSIGNMENT_INTERVAL_MAX_MS),
        )


class Decision(Decided[ConsumerGroup]):
    """Records of a consumer group that are applied, to be written."""

    __slots__ = ()

    def put(self, kind: Kind, name: str, value: ConsumerValue | None) -> None:
        """Decide and apply a record."""
        self.put_record(self.group.record(kind, name, value))


@dataclass(frozen=True, slots=True)
class World:
    """What a decision may know besides the group."""

    topics: Topics
    topics_version: int
    """It differs whenever the topics do, so that a group need not keep them."""
    settings: ConsumerSettings
    now_ms: int
    settling_interval_ms: int = SETTLING_INTERVAL_MIN_MS
    """The time after which a member comes again while its group settles."""


def subscribe(decision: Decision, member_id: str, member: Subscriber) -> bool:
    """Put a member's subscription; return whether the target may change with it."""
    group = decision.group
    old = group.members.get(member_id)
    if old == member:
        return False
    decision.put(Kind.MEMBER, member_id, member)
    if old is None:
        return True
    if old.regex != member.regex:
        _forget_regex(decision, old.regex)
    names = (old.topics, old.regex, old.assignor, old.instance_id)
    return names != (member.topics, member.regex, member.assignor, member.instance_id)


def catch_up(decision: Decision, world: World, *, is_news: bool, may_wait: bool = False) -> None:
    """Bump the group epoch if members or topics have changed, and assign again; the assignment may wait for the next
    heartbeat if the last one is too recent for a group of that size.
    """
    group = decision.group
    if is_news:
        _bump(decision, world)
    elif group.seen_topics != world.topics_version:
        if metadata_hash(group.subscribed_topics(), world.topics) != group.metadata_hash:
            _bump(decision, world)
        group.seen_topics = world.topics_version
    if group.target_epoch < group.epoch and not (may_wait and _is_too_soon(group, world)):
        _assign(decision, world)
        group.assigned_ms = world.now_ms


def gathering_ms(members: int) -> int:
    """Return for how long changes of a group of so many members are gathered before it is assigned again, which costs
    a few microseconds for each of them.
    """
    return 0 if members <= ASSIGNED_AT_ONCE_MAX else members // GATHERED_MEMBERS_PER_MS


def _is_too_soon(group: ConsumerGroup, world: World) -> bool:
    least_ms = max(gathering_ms(len(group.members)), world.settings.assignment_interval_ms)
    return group.assigned_ms is not None and world.now_ms - group.assigned_ms < least_ms


def _bump(decision: Decision, world: World) -> None:
    """Begin another group epoch."""
    group = decision.group
    newest = metadata_hash(group.subscribed_topics(), world.topics)
    decision.put(Kind.GROUP, "", GroupEpoch(group.epoch + 1, newest))
    group.seen_topics, group.changed_ms = world.topics_version, world.now_ms


def heartbeat_interval_ms(group: ConsumerGroup, current: Current, world: World) -> int:
    """Return when a member shall come next: sooner while it waits for others, or others may wait for it."""
    interval_ms = group.next_heartbeat_ms(world.settings, world.now_ms)
    is_young = group.changed_ms is not None and world.now_ms - group.changed_ms < world.settings.heartbeat_interval_ms
    is_settling = is_young or current.state is not MemberState.STABLE
    return min(interval_ms, world.settling_interval_ms) if is_settling else interval_ms


def _assign(decision: Decision, world: World) -> None:
    group = decision.group
    ids = {name: topic.topic_id for name, topic in world.topics.items()}
    subscribed: dict[frozenset[str], frozenset[UUID]] = {}
    members = {}
    for member_id, member in group.members.items():
        names = group.names_of(member)
        if names not in subscribed:
            subscribed[names] = frozenset(ids[name] for name in names if name in ids)
        members[member_id] = Subscription(
            subscribed[names], member.instance_id, group.targets.get(member_id) or group.current(member_id).assigned
        )
    wanted = {world.topics[name].topic_id: world.topics[name].partitions for name in _names(group, world.topics)}
    targets = ASSIGNORS[group.assignor_name(world.settings.assignors)].assign(members, wanted)
    for member_id in group.members:
        target = targets.get(member_id, NOTHING)
        if member_id not in group.targets or group.targets[member_id] != target:
            decision.put(Kind.TARGET_MEMBER, member_id, Target(target))
    decision.put(Kind.TARGET, "", TargetEpoch(group.epoch))


def _names(group: ConsumerGroup, topics: Topics) -> list[str]:
    return [name for name in sorted(group.subscribed_topics()) if name in topics]


def advance(decision: Decision, member_id: str, owned: Assignment | None, world: World) -> Current:
    """Move a member one step towards its target, and set its deadlines."""
    group, now_ms = decision.group, world.now_ms
    before = group.currents.get(member_id)
    current = reconciled(group, member_id, owned)
    if current != before:
        decision.put(Kind.CURRENT, member_id, current)
    member = group.members[member_id]
    group.sessions[member_id] = now_ms + session_timeout_ms(member, world.settings)
    if current.state is not MemberState.UNREVOKED_PARTITIONS:
        group.revocations.pop(member_id, None)
    elif before is None or before.state is not MemberState.UNREVOKED_PARTITIONS:
        group.revocations[member_id] = now_ms + max(member.rebalance_timeout_ms, 0)
    return current


def session_timeout_ms(member: Subscriber, settings: ConsumerSettings) -> int:
    """Return how long a member may be silent."""
    return settings.session_timeout_ms if member.classic is None else member.classic.session_timeout_ms


# Leaving, being lost.


def expire(decision: Decision, world: World) -> list[str]:
    """Remove members that were silent for too long, or that have not given up in time what they must, as many as are
    removed at once; return them.
    """
    group = decision.group
    over = {*group.sessions.over(world.now_ms), *group.revocations.over(world.now_ms)}
    lost = lost_at_once(group.group_id, over)
    if lost:
        remove(decision, lost, world)
    return lost


def remove(decision: Decision, member_ids: list[str], world: World) -> None:
    """Remove members; the others share what they had at their next heartbeats."""
    group = decision.group
    for member_id in member_ids:
        regex = group.members[member_id].regex
        remove_records(decision, member_id)
        _forget_regex(decision, regex)
    _bump(decision, world)


def remove_records(decision: Decision, member_id: str) -> None:
    decision.put(Kind.CURRENT, member_id, None)
    decision.put(Kind.TARGET_MEMBER, member_id, None)
    decision.put(Kind.MEMBER, member_id, None)


def _forget_regex(decision: Decision, regex: str | None) -> None:
    group = decision.group
    if regex is not None and regex in group.regexes and regex not in group.regex_uses:
        decision.put(Kind.REGEX, regex, None)


# Regular expressions.


def unresolved(group: ConsumerGroup) -> frozenset[str]:
    """Return the expressions of members whose topics are not known yet."""
    return frozenset(group.regex_uses.keys() - group.regexes.keys())


def resolve(decision: Decision, resolved: Mapping[str, Resolved], world: World) -> None:
    """Take in what expressions match; the next heartbeat of any member assigns it."""
    group = decision.group
    has_changed = False
    for regex, topics in resolved.items():
        known = group.regexes.get(regex)
        if regex in group.regex_uses and (known is None or known.topics != topics.topics):
            decision.put(Kind.REGEX, regex, topics)
            has_changed = True
    if has_changed:
        _bump(decision, world)
