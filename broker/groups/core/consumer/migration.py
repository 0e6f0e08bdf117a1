"""A group changes its protocol with all that it has (KIP-848): while clients are upgraded, or taken back.

| when | the group |
|---|---|
| a member of KIP-848 joins a group of consumers of the classic protocol | is one of KIP-848 from then on |
| the last member of KIP-848 leaves, or is lost, and classic ones stay | is a classic one, which rebalances at once |
| it is empty | is of the protocol that the next member speaks |

Both are one batch in the log: tombstones of what it was, records of what it is. `group.consumer.migration.policy`
allows `upgrade`, `downgrade`, both (`bidirectional`) or none (`disabled`). Offsets stay, epochs continue at the
generation.
"""

from __future__ import annotations

from .....protocol import ErrorCode, KafkaError
from .....protocol.wire import read_subscription
from ..group import Group
from ..records import NO_TIMESTAMP, GroupKey, GroupRecord, GroupValue, MemberValue
from .decision import Decision, World
from .records import ClassicMetadata, Current, GroupEpoch, Kind, MemberState, Subscriber, Target, TargetEpoch
from .state import ConsumerGroup
from .subscription import read_assignment, written_assignment
from .topics import metadata_hash

CONSUMER = "consumer"


def upgrade(decision: Decision, classic: Group, world: World) -> None:
    """Take over a classic group, with its members. Raise GROUP_ID_NOT_FOUND if that is not possible or allowed."""
    group_id = classic.group_id
    if classic.is_idle or not len(classic.members):
        decision.records.append(GroupRecord(GroupKey(group_id), None))
        return
    if world.settings.migration_policy not in ("upgrade", "bidirectional"):
        message = f"group {group_id!r} has classic members, and group.consumer.migration.policy does not let it change"
        raise KafkaError(ErrorCode.group_id_not_found, message)
    members = {member.member_id: _subscriber(classic, member.member_id) for member in classic.members}
    assignments = {member.member_id: read_assignment(member.assignment, world.topics) for member in classic.members}
    if classic.protocol_type != CONSUMER or None in members.values() or None in assignments.values():
        message = f"group {group_id!r} has members that are no consumers of the classic protocol"
        raise KafkaError(ErrorCode.group_id_not_found, message)
    epoch = max(classic.generation_id, 1)
    decision.records.append(GroupRecord(GroupKey(group_id), None))
    for member_id, member in members.items():
        decision.put(Kind.MEMBER, member_id, member)
    newest = metadata_hash(decision.group.subscribed_topics(), world.topics)
    decision.put(Kind.GROUP, "", GroupEpoch(epoch, newest))
    for member_id, assignment in assignments.items():
        assert assignment is not None, member_id
        decision.put(Kind.TARGET_MEMBER, member_id, Target(assignment))
        current = Current(epoch=epoch, previous_epoch=epoch, state=MemberState.STABLE, assigned=assignment)
        decision.put(Kind.CURRENT, member_id, current)
        decision.group.sessions[member_id] = world.now_ms + classic.members[member_id].session_timeout_ms
    decision.put(Kind.TARGET, "", TargetEpoch(epoch))


def _subscriber(classic: Group, member_id: str) -> Subscriber | None:
    member = classic.members[member_id]
    subscription = read_subscription(member.protocols[0][1]) if member.protocols else None
    if subscription is None:
        return None
    return Subscriber(
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=subscription.topics,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMetadata(member.session_timeout_ms, member.protocols),
    )


def must_downgrade(group: ConsumerGroup, world: World) -> bool:
    """Whether only members of the classic protocol are left, and the group may become theirs."""
    is_allowed = world.settings.migration_policy in ("downgrade", "bidirectional")
    return is_allowed and bool(group.members) and all(member.classic for member in group.members.values())


def downgrade(decision: Decision, world: World, wall_ms: int) -> GroupValue:
    """Let the group be a classic one, and return it."""
    group = decision.group
    value = GroupValue(
        protocol_type=CONSUMER,
        generation_id=group.epoch,
        protocol_name=_common(group),
        leader=min(group.members),
        current_state_timestamp_ms=wall_ms if wall_ms else NO_TIMESTAMP,
        members=tuple(_member(group, member_id, member, world) for member_id, member in sorted(group.members.items())),
    )
    for record in group.tombstones():
        decision.put_record(record)
    decision.records.append(GroupRecord(GroupKey(group.group_id), value))
    return value


def _common(group: ConsumerGroup) -> str:
    """Return the protocol that all members speak and the first prefers."""
    classics = [member.classic for _, member in sorted(group.members.items()) if member.classic is not None]
    for name, _ in classics[0].protocols:
        if all(name in {each for each, _ in classic.protocols} for classic in classics):
            return name
    return classics[0].protocols[0][0]


def _member(group: ConsumerGroup, member_id: str, member: Subscriber, world: World) -> MemberValue:
    assert member.classic is not None, member_id
    protocol = _common(group)
    metadata = next((data for name, data in member.classic.protocols if name == protocol), b"")
    subscription = read_subscription(metadata)
    version = subscription.version if subscription else 0
    return MemberValue(
        member_id=member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        subscription=metadata,
        assignment=written_assignment(group.targets.get(member_id, {}), world.topics, version),
    )
