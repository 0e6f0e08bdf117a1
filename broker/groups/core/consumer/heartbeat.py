"""ConsumerGroupHeartbeat: a member joins, stays, acknowledges, leaves; and members that are silent are lost.

    step: (group, event) -> Decision(records, answer), already applied; `undo` takes it back

| heartbeat | member | what is done |
|---|---|---|
| epoch 0 | new, or known: it begins again, and owns nothing | subscribes, group epoch + 1 if that is news |
| its epoch | known | what it owns is compared with what it was given, one step of `reconcile` |
| the epoch before, with nothing that it was not given | known | the same: the answer was lost |
| any other epoch | known | FENCED_MEMBER_EPOCH: it gives up everything and joins again |
| -1 | known | it is removed, group epoch + 1 |
| -2 | static | it is away: what it had is kept for the instance, until its session ends |

* A static instance that comes back under another member id takes over what it had, if the old member is away or speaks
  the classic protocol; else UNRELEASED_INSTANCE_ID. The old id is fenced: FENCED_INSTANCE_ID.
* A new group epoch is followed by a new target assignment in the same decision, by the assignor that most ask for. In
  a large group it waits for others (`gathering_ms`), so that a thousand members that join at once cost no more than a
  few assignments: until then they are in the epoch of the target before, and own nothing.
* Changed topics are noticed at the next heartbeat of any member.
* While a group settles its members come again sooner: what one gives up another one waits for.
* Once a member is silent its group comes again when its session ends, to take over what it owned.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from .....light_dataclass import dataclass
from .....protocol import ErrorCode, KafkaError
from ..targeted import is_blank
from .decision import (
    ConsumerSettings,
    Decision,
    World,
    advance,
    catch_up,
    heartbeat_interval_ms,
    remove,
    remove_records,
    subscribe,
)
from .records import NOTHING, Assignment, Kind, MemberState, Subscriber, Target
from .state import JOINING, LEAVING, LEAVING_STATIC, ConsumerGroup
from .topics import compiled


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A heartbeat; None: as in the one before."""

    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    """The empty one takes the expression away."""
    assignor: str | None = None
    owned: Assignment | None = None
    client_id: str = ""
    client_host: str = ""

    @property
    def is_full(self) -> bool:
        """Whether it says everything, as after a disconnection; it is answered with the whole assignment."""
        return self.rebalance_timeout_ms != -1 and self.owned is not None and (self.topics or self.regex) is not None


@dataclass(frozen=True, slots=True)
class Told:
    """The answer: the member's epoch, and what it shall own, None if that has not changed."""

    member_id: str
    epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None


# Heartbeats.


def heartbeat(decision: Decision, beat: Beat, world: World) -> Told:
    """Decide a heartbeat. Raise KafkaError; nothing is decided then."""
    check(beat, world.settings)
    group = decision.group
    if group.is_nothing and beat.epoch != JOINING:
        _refuse(ErrorCode.group_id_not_found, f"there is no consumer group {group.group_id!r}")
    if beat.epoch == LEAVING:
        return _leave(decision, beat, world)
    if beat.epoch == LEAVING_STATIC:
        return _leave_static(decision, beat)
    member_id = _judge(group, beat, world.settings)
    if member_id is not None and member_id != beat.member_id:
        take_over(decision, member_id, beat.member_id)
    old = group.members.get(beat.member_id)
    before = group.current(beat.member_id)
    if beat.epoch == JOINING and before.epoch:
        # It begins again and owns nothing, so all that is not meant for it is free at once.
        before = replace(before, epoch=0, previous_epoch=0, state=MemberState.STABLE, revoking=NOTHING, epochs={})
        decision.put(Kind.CURRENT, beat.member_id, before)
    is_news = subscribe(decision, beat.member_id, _subscriber(old, beat))
    catch_up(decision, world, is_news=is_news, may_wait=True)
    current = advance(decision, beat.member_id, beat.owned, world)
    has_changed = current.assigned != before.assigned or current.revoking != before.revoking
    return Told(
        beat.member_id,
        current.epoch,
        heartbeat_interval_ms(group, current, world),
        current.assigned if beat.epoch == JOINING or beat.is_full or has_changed else None,
    )


def check(beat: Beat, settings: ConsumerSettings) -> None:
    """Raise the KafkaError of a heartbeat that makes no sense for any group."""
    if is_blank(beat.member_id):
        _refuse(ErrorCode.invalid_request, "MemberId is needed, and kept while the consumer lives")
    if any(text is not None and is_blank(text) for text in (beat.instance_id, beat.rack_id)):
        _refuse(ErrorCode.invalid_request, "InstanceId and RackId may be absent, but not empty")
    if beat.epoch < LEAVING_STATIC:
        _refuse(ErrorCode.invalid_request, f"MemberEpoch is {beat.epoch}: it is -2 at the least")
    if beat.epoch == LEAVING_STATIC and beat.instance_id is None:
        _refuse(ErrorCode.invalid_request, "InstanceId is needed by a static member that leaves for a while")
    if beat.epoch == JOINING:
        _check_joining(beat)
    if beat.assignor is not None and beat.assignor not in settings.assignors:
        offered = ", ".join(settings.assignors)
        _refuse(ErrorCode.unsupported_assignor, f"assignor {beat.assignor!r} is not known here; {offered} are")
    if beat.regex:
        compiled(beat.regex)


def _check_joining(beat: Beat) -> None:
    if beat.rebalance_timeout_ms < 0:
        _refuse(ErrorCode.invalid_request, "RebalanceTimeoutMs is needed to join")
    if beat.owned is None or beat.owned:
        _refuse(ErrorCode.invalid_request, "TopicPartitions must be empty to join")
    if beat.topics is None and beat.regex is None:
        _refuse(ErrorCode.invalid_request, "SubscribedTopicNames or SubscribedTopicRegex is needed to join")


def _judge(group: ConsumerGroup, beat: Beat, settings: ConsumerSettings) -> str | None:
    """Return the id under which the member is known, None for a new one. Raise KafkaError."""
    known: str | None = beat.member_id if beat.member_id in group.members else None
    if beat.instance_id is not None:
        known = _judge_static(group, beat, beat.instance_id)
    if known is None:
        if beat.epoch != JOINING:
            _refuse(ErrorCode.unknown_member_id, f"{beat.member_id!r} is not a member of {group.group_id!r}")
        if len(group.members) >= settings.size_max:
            _refuse(ErrorCode.group_max_size_reached, f"{group.group_id!r} has {len(group.members)} members already")
        return None
    current = group.current(known)
    if beat.epoch not in (JOINING, current.epoch):
        is_retry = beat.epoch == current.previous_epoch and beat.owned is not None
        if not is_retry or not _is_within(beat.owned or NOTHING, current.assigned):
            message = (
                f"member {known!r} is in epoch {current.epoch}, not {beat.epoch}; it gives up all, and joins again"
            )
            _refuse(ErrorCode.fenced_member_epoch, message)
    return known


def _judge_static(group: ConsumerGroup, beat: Beat, instance_id: str) -> str | None:
    known = group.static.get(instance_id)
    if known is None or known == beat.member_id:
        return known
    if beat.epoch != JOINING:
        _refuse(ErrorCode.fenced_instance_id, f"instance {instance_id!r} has another member now")
    # A client that is upgraded keeps its instance id: its old member does not leave first.
    if group.current(known).epoch != LEAVING_STATIC and group.members[known].classic is None:
        message = f"instance {instance_id!r} is in use by {known!r}, which has to leave first or be lost"
        _refuse(ErrorCode.unreleased_instance_id, message)
    return known


def _is_within(owned: Assignment, assigned: Assignment) -> bool:
    return all(numbers <= assigned.get(topic_id, frozenset()) for topic_id, numbers in owned.items())


def take_over(decision: Decision, old_id: str, new_id: str) -> None:
    """Give a static instance's place to its new member id."""
    group = decision.group
    member, target, current = group.members[old_id], group.targets.get(old_id), group.current(old_id)
    remove_records(decision, old_id)
    decision.put(Kind.MEMBER, new_id, member)
    if target is not None:
        decision.put(Kind.TARGET_MEMBER, new_id, Target(target))
    taken = replace(current, epoch=0, previous_epoch=0, state=MemberState.STABLE, epochs={})
    decision.put(Kind.CURRENT, new_id, taken)


def _subscriber(old: Subscriber | None, beat: Beat) -> Subscriber:
    def newest(new: str | None, known: str | None) -> str | None:
        return known if new is None else new

    old = old or Subscriber(client_id=beat.client_id, client_host=beat.client_host)
    is_joining = beat.epoch == JOINING
    topics = (beat.topics or ()) if is_joining else beat.topics
    regex = (beat.regex or "") if is_joining else beat.regex
    return Subscriber(
        instance_id=newest(beat.instance_id, old.instance_id),
        rack_id=newest(beat.rack_id, old.rack_id),
        client_id=beat.client_id,
        client_host=beat.client_host,
        topics=old.topics if topics is None else tuple(sorted(set(topics))),
        regex=(old.regex if regex is None else regex) or None,
        rebalance_timeout_ms=old.rebalance_timeout_ms if beat.rebalance_timeout_ms < 0 else beat.rebalance_timeout_ms,
        assignor=newest(beat.assignor, old.assignor),
    )


# Leaving.


def _leave(decision: Decision, beat: Beat, world: World) -> Told:
    group = decision.group
    known = beat.member_id if beat.member_id in group.members else None
    if beat.instance_id is not None:
        known = group.static.get(beat.instance_id)
        if known is not None and known != beat.member_id:
            _refuse(ErrorCode.fenced_instance_id, f"instance {beat.instance_id!r} has another member now")
    if known is None:
        _refuse(ErrorCode.unknown_member_id, f"{beat.member_id!r} is not a member of {group.group_id!r}")
    remove(decision, [known], world)
    return Told(beat.member_id, LEAVING)


def _leave_static(decision: Decision, beat: Beat) -> Told:
    group = decision.group
    known = group.static.get(beat.instance_id or "")
    if known is None:
        _refuse(ErrorCode.unknown_member_id, f"instance {beat.instance_id!r} is not in {group.group_id!r}")
    if known != beat.member_id:
        _refuse(ErrorCode.fenced_instance_id, f"instance {beat.instance_id!r} has another member now")
    current = group.current(known)
    away = replace(current, epoch=LEAVING_STATIC, state=MemberState.STABLE, revoking=NOTHING, epochs={})
    decision.put(Kind.CURRENT, known, away)
    group.revocations.pop(known, None)
    return Told(beat.member_id, LEAVING_STATIC)


def _refuse(code: ErrorCode, message: str) -> NoReturn:
    raise KafkaError(code, message)
