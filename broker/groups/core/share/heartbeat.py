"""ShareGroupHeartbeat: a member joins, stays, leaves; and members that are silent are lost.

| heartbeat | member | what is done |
|---|---|---|
| epoch 0 | new, or known: it begins again | subscribes, group epoch + 1 if that is news |
| its epoch, or the one before (the answer was lost) | known | it is given its target, in the target's epoch |
| any other epoch | known | FENCED_MEMBER_EPOCH: it joins again |
| -1 | known | it is removed, group epoch + 1 |

A new group epoch is followed by a new target assignment in the same decision. Share-partitions that were initialized
meanwhile, and topics that have changed, are noticed at the next heartbeat of any member.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import NoReturn

from .....light_dataclass import dataclass
from .....protocol import ErrorCode, KafkaError
from .....protocol.wire import SHARE_HEARTBEAT_INTERVAL, SHARE_SESSION_TIMEOUT
from ..consumer.assignors import Subscription
from ..consumer.heartbeat import Told
from ..consumer.records import NOTHING, Assignment, Current, GroupEpoch, MemberState, Target, TargetEpoch
from ..consumer.topics import Topics
from ..decided import Decided
from ..targeted import GroupTimeouts, is_blank, lost_at_once
from .assignor import assign
from .records import ShareKind, ShareMember
from .state import JOINING, LEAVING, ShareGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSettings(GroupTimeouts):
    """`group.share.*` of the broker, with Kafka's defaults; a group may have timeouts of its own."""

    size_max: int = 200

    def of(self, configs: Mapping[str, str]) -> ShareSettings:
        """Return what holds for a group that has these configs; limits of the broker hold nevertheless."""
        return self.with_own(configs, SHARE_SESSION_TIMEOUT, SHARE_HEARTBEAT_INTERVAL)


@dataclass(frozen=True, slots=True)
class ShareWorld:
    """What a decision may know besides the group."""

    topics: Topics
    topics_version: int
    """It differs whenever the topics do."""
    settings: ShareSettings
    now_ms: int


ShareDecision = Decided[ShareGroup]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareBeat:
    """A heartbeat; None: as in the one before."""

    member_id: str
    epoch: int
    rack_id: str | None = None
    topics: tuple[str, ...] | None = None
    client_id: str = ""
    client_host: str = ""


def heartbeat(decision: ShareDecision, beat: ShareBeat, world: ShareWorld) -> Told:
    """Decide a heartbeat. Raise KafkaError; nothing is decided then."""
    check(beat)
    group = decision.group
    if group.is_nothing and beat.epoch != JOINING:
        _refuse(ErrorCode.group_id_not_found, f"there is no share group {group.group_id!r}")
    old = group.members.get(beat.member_id)
    if old is None and beat.epoch != JOINING:
        _refuse(ErrorCode.unknown_member_id, f"{beat.member_id!r} is not a member of {group.group_id!r}")
    if beat.epoch == LEAVING:
        remove(decision, [beat.member_id], world)
        return Told(beat.member_id, LEAVING)
    if old is None and len(group.members) >= world.settings.size_max:
        _refuse(ErrorCode.group_max_size_reached, f"{group.group_id!r} has {len(group.members)} members already")
    before = group.current(beat.member_id)
    if old is not None and beat.epoch not in (JOINING, before.epoch, before.previous_epoch):
        message = f"member {beat.member_id!r} is in epoch {before.epoch}, not {beat.epoch}; it joins again"
        _refuse(ErrorCode.fenced_member_epoch, message)
    catch_up(decision, world, is_news=_subscribe(decision, beat, old))
    current = _advance(decision, beat.member_id)
    group.sessions[beat.member_id] = world.now_ms + world.settings.session_timeout_ms
    is_told = beat.epoch != before.epoch or beat.epoch == JOINING or current.assigned != before.assigned
    return Told(
        beat.member_id,
        current.epoch,
        group.next_heartbeat_ms(world.settings, world.now_ms),
        current.assigned if is_told else None,
    )


def check(beat: ShareBeat) -> None:
    """Raise the KafkaError of a heartbeat that makes no sense for any group."""
    if is_blank(beat.member_id):
        _refuse(ErrorCode.invalid_request, "MemberId is needed, and kept while the consumer lives")
    if beat.rack_id is not None and is_blank(beat.rack_id):
        _refuse(ErrorCode.invalid_request, "RackId may be absent, but not empty")
    if beat.epoch < LEAVING:
        _refuse(ErrorCode.invalid_request, f"MemberEpoch is {beat.epoch}: it is -1 at the least")
    if beat.epoch == JOINING and not beat.topics:
        _refuse(ErrorCode.invalid_request, "SubscribedTopicNames is needed to join")


def _subscribe(decision: ShareDecision, beat: ShareBeat, old: ShareMember | None) -> bool:
    """Put a member's subscription; return whether the target may change with it."""
    known = old or ShareMember(client_id=beat.client_id, client_host=beat.client_host)
    member = ShareMember(
        rack_id=known.rack_id if beat.rack_id is None else beat.rack_id,
        client_id=beat.client_id,
        client_host=beat.client_host,
        topics=known.topics if beat.topics is None else tuple(sorted(set(beat.topics))),
    )
    if member == old:
        return False
    decision.put_record(decision.group.record(ShareKind.MEMBER, beat.member_id, member))
    return old is None or old.topics != member.topics


def catch_up(decision: ShareDecision, world: ShareWorld, *, is_news: bool) -> None:
    """Bump the group epoch if members, or what can be assigned, have changed, and assign again."""
    group = decision.group
    if is_news or group.seen_topics != world.topics_version:
        newest = assignable_hash(group, world.topics)
        if is_news or newest != group.metadata_hash:
            decision.put_record(group.record(ShareKind.GROUP, "", GroupEpoch(group.epoch + 1, newest)))
        group.seen_topics = world.topics_version
    if group.target_epoch < group.epoch:
        _assign(decision, world)


def assignable_hash(group: ShareGroup, topics: Topics) -> int:
    """Return a signed 64-bit number that changes when what can be assigned does; 0 if that is nothing."""
    digest, assignable = blake2b(digest_size=8), group.assignable(topics)
    for name, (topic, numbers) in assignable.items():
        digest.update(f"{name}\0{topic.topic_id}\0{sorted(numbers)}\0".encode())
    return int.from_bytes(digest.digest(), "big", signed=True) if assignable else 0


def _assign(decision: ShareDecision, world: ShareWorld) -> None:
    group = decision.group
    assignable = group.assignable(world.topics)
    members = {
        member_id: Subscription(
            frozenset(assignable[name][0].topic_id for name in member.topics if name in assignable),
            assigned=group.targets.get(member_id, NOTHING),
        )
        for member_id, member in group.members.items()
    }
    targets = assign(members, {topic.topic_id: numbers for topic, numbers in assignable.values()})
    for member_id, target in targets.items():
        if member_id not in group.targets or group.targets[member_id] != target:
            decision.put_record(group.record(ShareKind.TARGET_MEMBER, member_id, Target(target)))
    decision.put_record(group.record(ShareKind.TARGET, "", TargetEpoch(group.epoch)))


def _advance(decision: ShareDecision, member_id: str) -> Current:
    """Move a member to its target."""
    group = decision.group
    before = group.currents.get(member_id)
    target: Assignment = group.targets.get(member_id, NOTHING)
    if before is not None and before.epoch == group.target_epoch and before.assigned == target:
        return before
    old = group.current(member_id)
    current = Current(
        epoch=group.target_epoch,
        previous_epoch=old.previous_epoch if old.epoch == group.target_epoch else old.epoch,
        state=MemberState.STABLE,
        assigned=target,
    )
    decision.put_record(group.record(ShareKind.CURRENT, member_id, current))
    return current


# Leaving, being lost.


def expire(decision: ShareDecision, world: ShareWorld) -> list[str]:
    """Remove members that were silent for too long, as many as are removed at once; return them."""
    lost = lost_at_once(decision.group.group_id, decision.group.sessions.over(world.now_ms))
    if lost:
        remove(decision, lost, world)
    return lost


def remove(decision: ShareDecision, member_ids: list[str], world: ShareWorld) -> None:
    """Remove members; the others share what they had at their next heartbeats."""
    group = decision.group
    for member_id in member_ids:
        for kind in (ShareKind.CURRENT, ShareKind.TARGET_MEMBER, ShareKind.MEMBER):
            decision.put_record(group.record(kind, member_id, None))
    newest = assignable_hash(group, world.topics)
    decision.put_record(group.record(ShareKind.GROUP, "", GroupEpoch(group.epoch + 1, newest)))
    group.seen_topics = world.topics_version


def _refuse(code: ErrorCode, message: str) -> NoReturn:
    raise KafkaError(code, message)
