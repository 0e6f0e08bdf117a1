"""Members of the classic protocol in a group of KIP-848, while its clients are upgraded one after the other.

| request | answer |
|---|---|
| JoinGroup | subscribes, takes one step towards the target; its generation is the member's epoch, it never leads |
| SyncGroup | what the member may use now, as its own protocol writes it |
| Heartbeat | REBALANCE_IN_PROGRESS while the member has a step to take: it joins again |
| LeaveGroup | removes members, of either protocol |

A static instance that joins without a member id takes the place of its old member, of either protocol, at once.

An eager member owns nothing when it joins; a cooperative one says what it owns. A member that has to join again, or to
fetch what it was given, does so within its rebalance timeout, or is lost.
"""

from __future__ import annotations

from .....light_dataclass import dataclass
from .....protocol import ErrorCode
from .....protocol.wire import read_subscription
from ..events import Heartbeat, Join, Joined, Leave, Left, MemberIdentity, Sync, Synced
from .decision import Decision, World, advance, catch_up, remove, subscribe
from .heartbeat import take_over
from .records import ClassicMetadata, Current, MemberState, Subscriber
from .state import ConsumerGroup
from .subscription import by_id, written_assignment

CONSUMER: str = "consumer"


@dataclass(frozen=True, slots=True)
class Sessions:
    """The limits of the sessions that members of the classic protocol may ask for."""

    min_ms: int
    max_ms: int


def join(decision: Decision, event: Join, world: World, sessions: Sessions) -> Joined:
    """Decide a JoinGroup."""
    group, who = decision.group, event.who
    subscription = read_subscription(event.protocols[0][1]) if event.protocols else None
    error = _judge_join(group, event, world, sessions)
    if error is ErrorCode.none and (subscription is None or event.protocol_type != CONSUMER):
        error = ErrorCode.inconsistent_group_protocol
    if error is not ErrorCode.none or subscription is None:
        return Joined(error=error, member_id=who.member_id)
    known = group.static.get(who.group_instance_id or "")
    if not who.member_id and known is None and event.needs_known_member_id and who.group_instance_id is None:
        return Joined(error=ErrorCode.member_id_required, member_id=event.new_member_id)
    member_id = who.member_id or event.new_member_id
    if known is not None and known != member_id:
        take_over(decision, known, member_id)
    member = Subscriber(
        instance_id=who.group_instance_id,
        rack_id=subscription.rack_id,
        client_id=event.client_id,
        client_host=event.client_host,
        topics=subscription.topics,
        rebalance_timeout_ms=event.rebalance_timeout_ms,
        classic=ClassicMetadata(event.session_timeout_ms, event.protocols),
    )
    catch_up(decision, world, is_news=subscribe(decision, member_id, member))
    current = advance(decision, member_id, by_id(subscription.owned, world.topics), world)
    group.revocations[member_id] = world.now_ms + event.rebalance_timeout_ms
    return Joined(
        member_id=member_id,
        generation_id=current.epoch,
        protocol_type=CONSUMER,
        protocol_name=event.protocols[0][0],
    )


def _judge_join(group: ConsumerGroup, event: Join, world: World, sessions: Sessions) -> ErrorCode:
    who = event.who
    if not sessions.min_ms <= event.session_timeout_ms <= sessions.max_ms:
        return ErrorCode.invalid_session_timeout
    known = group.static.get(who.group_instance_id or "")
    if not _supports(group, event, but=who.member_id or known):
        return ErrorCode.inconsistent_group_protocol
    if known is not None and who.member_id and known != who.member_id:
        return ErrorCode.fenced_instance_id
    is_new = known is None and who.member_id not in group.members
    return (
        ErrorCode.group_max_size_reached
        if is_new and len(group.members) >= world.settings.size_max
        else (ErrorCode.none)
    )


def _supports(group: ConsumerGroup, event: Join, but: str | None) -> bool:
    """Whether the member speaks a protocol that all other members of the classic protocol speak."""
    common = {name for name, _ in event.protocols}
    for member_id, member in group.members.items():
        if member.classic is not None and member_id != but:
            common &= {name for name, _ in member.classic.protocols}
    return bool(common)


def sync(decision: Decision, event: Sync, world: World) -> Synced:
    """Decide a SyncGroup."""
    group, who = decision.group, event.who
    error = _judge_member(group, who, event.generation_id)
    if error is not ErrorCode.none:
        return Synced(error=error)
    name, metadata = _protocol(group, who)
    if event.protocol_type not in (None, CONSUMER) or event.protocol_name not in (None, name):
        return Synced(error=ErrorCode.inconsistent_group_protocol)
    current = group.current(who.member_id)
    if _is_behind(group, current):
        return Synced(error=ErrorCode.rebalance_in_progress)
    subscription = read_subscription(metadata)
    extend(group, who.member_id, world)
    if current.state is not MemberState.UNREVOKED_PARTITIONS:
        group.revocations.pop(who.member_id, None)
    return Synced(
        protocol_type=CONSUMER,
        protocol_name=name,
        assignment=written_assignment(current.assigned, world.topics, subscription.version if subscription else 0),
    )


def heartbeat(decision: Decision, event: Heartbeat, world: World) -> ErrorCode:
    """Decide a Heartbeat."""
    group, who = decision.group, event.who
    error = _judge_member(group, who, event.generation_id)
    if error is not ErrorCode.none:
        return error
    extend(group, who.member_id, world)
    catch_up(decision, world, is_news=False)
    if not _has_step(group, who.member_id):
        return ErrorCode.none
    timeout_ms = max(group.members[who.member_id].rebalance_timeout_ms, 0)
    group.revocations.set_if_absent(who.member_id, world.now_ms + timeout_ms)
    return ErrorCode.rebalance_in_progress


def leave(decision: Decision, event: Leave, world: World) -> Left:
    """Decide a LeaveGroup. It removes members of both protocols, static and dynamic ones, as Kafka's does: it is how an
    administrator removes them.
    """
    gone: dict[str, None] = {}
    answers: list[tuple[MemberIdentity, ErrorCode]] = []
    for who in event.members:
        member_id, error = _leaving(decision.group, who)
        if error is ErrorCode.none:
            gone[member_id] = None  # once, however often it is named
        answers.append((who, error))
    if gone:
        remove(decision, list(gone), world)
    return Left(members=tuple(answers))


def _leaving(group: ConsumerGroup, who: MemberIdentity) -> tuple[str, ErrorCode]:
    """Return which member is meant, and why it cannot be removed. An instance alone, without its member, is enough."""
    if who.group_instance_id is None:
        is_known = who.member_id in group.members
        return who.member_id, ErrorCode.none if is_known else ErrorCode.unknown_member_id
    member_id = group.static.get(who.group_instance_id)
    if member_id is None:
        return who.member_id, ErrorCode.unknown_member_id
    return member_id, ErrorCode.none if who.member_id in ("", member_id) else ErrorCode.fenced_instance_id


def extend(group: ConsumerGroup, member_id: str, world: World) -> None:
    """Begin the session of a member again."""
    classic = group.members[member_id].classic
    assert classic is not None, member_id
    group.sessions[member_id] = world.now_ms + classic.session_timeout_ms


def _judge_member(group: ConsumerGroup, who: MemberIdentity, generation_id: int) -> ErrorCode:
    member = group.members.get(who.member_id)
    if group.static.get(who.group_instance_id or "", who.member_id) != who.member_id:
        return ErrorCode.fenced_instance_id
    if member is None or member.classic is None:
        return ErrorCode.unknown_member_id
    is_current = generation_id == group.current(who.member_id).epoch
    return ErrorCode.none if is_current else ErrorCode.illegal_generation


def _protocol(group: ConsumerGroup, who: MemberIdentity) -> tuple[str, bytes]:
    classic = group.members[who.member_id].classic
    assert classic is not None, who
    return classic.protocols[0]


def _is_behind(group: ConsumerGroup, current: Current) -> bool:
    """Whether there is another target than the member knows; one that revokes does that first."""
    return group.epoch > current.epoch and current.state is not MemberState.UNREVOKED_PARTITIONS


def _has_step(group: ConsumerGroup, member_id: str) -> bool:
    current = group.current(member_id)
    if _is_behind(group, current) or current.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    return current.state is MemberState.UNRELEASED_PARTITIONS and all(
        group.free_for(member_id, topic_id, numbers) == numbers
        for topic_id, numbers in group.targets.get(member_id, {}).items()
    )
