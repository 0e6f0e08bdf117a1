"""One member, one step towards its target assignment (KIP-848): what it may use now, and what it has to give up first.

    STABLE --target moved--> UNREVOKED --owned without what was revoked--> next step
                             UNRELEASED --others have given up what is missing--> STABLE, in the target's epoch

| a partition is | then |
|---|---|
| owned, not in the target | it must be revoked; until the member says that it has, no other gets it |
| in the target, owned by another | the member waits for it, and uses the rest meanwhile |
| in the target and free | it is assigned at once, once nothing is left to be revoked |

The member's epoch is that of the target once it has revoked all that it must; until then it stays in its own, and
offsets that it commits of what it gives up are taken. So are those of a member whose answer with the newest epoch is
still under way, or lost: a partition keeps the epoch in which the member got it, and commits count from that one on
(KIP-1251). A member that begins again gets everything in the epoch of the target: the process before it commits
nothing.
"""

from __future__ import annotations

from uuid import UUID

from .....protocol import ErrorCode, KafkaError
from .records import Assignment, Current, MemberState
from .state import ConsumerGroup


def reconciled(group: ConsumerGroup, member_id: str, owned: Assignment | None) -> Current:
    """Return where the member is after this step; `owned` is what it says it has, None if it says nothing."""
    current = group.current(member_id)
    if current.state is MemberState.UNREVOKED_PARTITIONS and _holds(owned, current.revoking):
        return current
    if current.state is MemberState.UNKNOWN and _holds(owned, current.revoking):
        # Another coordinator's state that is not known here: only a member that joins again is safe.
        raise KafkaError(ErrorCode.fenced_member_epoch, f"member {member_id!r} is in a state that is not known here")
    if current.state is MemberState.STABLE and current.epoch == group.target_epoch:
        return current
    return _next(group, member_id, current, owned)


def _next(group: ConsumerGroup, member_id: str, current: Current, owned: Assignment | None) -> Current:
    target = group.targets.get(member_id, {})
    kept: dict[UUID, frozenset[int]] = {}
    revoking: dict[UUID, frozenset[int]] = {}
    for topic_id, numbers in current.assigned.items():
        wanted = target.get(topic_id, frozenset())
        kept[topic_id], revoking[topic_id] = numbers & wanted, numbers - wanted
    if _holds(owned, revoking):
        return Current(
            epoch=current.epoch,
            previous_epoch=current.previous_epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=_without_empty(kept),
            revoking=_without_empty(revoking),
            epochs=_earlier(current, current.assigned, current.epoch),
        )
    assigned, waits = dict(kept), False
    for topic_id, wanted in target.items():
        free = group.free_for(member_id, topic_id, wanted)
        waits = waits or len(free) < len(wanted)
        assigned[topic_id] = assigned.get(topic_id, frozenset()) | free
    return Current(
        epoch=group.target_epoch,
        previous_epoch=current.previous_epoch if current.epoch == group.target_epoch else current.epoch,
        state=MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE,
        assigned=_without_empty(assigned),
        epochs=_earlier(current, kept, group.target_epoch),
    )


def _earlier(current: Current, kept: Assignment, epoch: int) -> dict[int, Assignment]:
    """Return what the member keeps by the epoch in which it got that, without what it has since `epoch`, its next."""
    if current.epoch <= 0 and epoch != current.epoch:
        return {}
    earlier: dict[int, Assignment] = {}
    rest = kept
    for since, held in current.epochs.items():
        some = {topic_id: numbers & held.get(topic_id, frozenset()) for topic_id, numbers in kept.items()}
        rest = {topic_id: numbers - some[topic_id] for topic_id, numbers in rest.items()}
        if any(some.values()):
            earlier[since] = _without_empty(some)
    if current.own_epoch != epoch and any(rest.values()):
        earlier[current.own_epoch] = _without_empty(rest)
    return earlier


def _holds(owned: Assignment | None, revoking: Assignment) -> bool:
    """Whether a member has some of it still, as far as it says."""
    if owned is None:
        return any(revoking.values())
    return any(numbers & owned.get(topic_id, frozenset()) for topic_id, numbers in revoking.items())


def _without_empty(assignment: Assignment) -> Assignment:
    return {topic_id: numbers for topic_id, numbers in assignment.items() if numbers}
