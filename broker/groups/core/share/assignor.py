"""The simple assignor of share groups: which members read a partition together.

* A partition has as many members as every subscriber needs to have one: ceil(subscribers / partitions), so one as long
  as there are more partitions than members.
* Every member has a partition if its topics have any. All subscribed alike, members have the same number, or one more.
* Members keep what they have up to their share. The same question has the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import ceil
from typing import Final
from uuid import UUID

from ..consumer.assignors import Subscription
from ..consumer.records import Assignment

SIMPLE: Final = "simple"
Slot = tuple[UUID, int]


def assign(members: Mapping[str, Subscription], topics: Mapping[UUID, frozenset[int]]) -> dict[str, Assignment]:
    """Return the assignment of each member; `topics` has the partitions that may be assigned."""
    order = sorted(members)
    subscribers = {
        topic_id: [each for each in order if topic_id in members[each].topics]
        for topic_id, numbers in sorted(topics.items())
        if numbers
    }
    sharing = {topic_id: -(-len(each) // len(topics[topic_id])) for topic_id, each in subscribers.items() if each}
    owned: dict[str, set[Slot]] = {member_id: set() for member_id in order}
    count: dict[Slot, int] = {(topic_id, number): 0 for topic_id in sharing for number in topics[topic_id]}
    _keep(order, members, _quotas(order, members, topics, sharing), sharing, owned, count)
    # Topics that few can take go first: the others can still even it out.
    for topic_id in sorted(sharing, key=lambda each: (len(subscribers[each]), each)):
        _fill(topic_id, sorted(topics[topic_id]), subscribers[topic_id], sharing[topic_id], owned, count)
    for member_id in order:
        if not owned[member_id]:
            _give_any(member_id, members[member_id], owned, count)
    return {member_id: _assignment(owned[member_id]) for member_id in order}


def _quotas(
    order: Sequence[str],
    members: Mapping[str, Subscription],
    topics: Mapping[UUID, frozenset[int]],
    sharing: Mapping[UUID, int],
) -> dict[str, int]:
    """Return how much each member may keep: its share, rounded up for those who have most."""
    subscribers = {topic_id: sum(topic_id in each.topics for each in members.values()) for topic_id in sharing}
    share = {topic_id: len(topics[topic_id]) * each / subscribers[topic_id] for topic_id, each in sharing.items()}
    if len({each.topics for each in members.values()}) <= 1:
        least, extra = divmod(sum(len(topics[each]) * sharing[each] for each in sharing), max(len(order), 1))
        richest = sorted(order, key=lambda each: -sum(map(len, members[each].assigned.values())))
        return {member_id: least + (rank < extra) for rank, member_id in enumerate(richest)}
    return {
        member_id: ceil(sum(share[topic_id] for topic_id in sorted(members[member_id].topics) if topic_id in share))
        for member_id in order
    }


def _keep(
    order: Sequence[str],
    members: Mapping[str, Subscription],
    quotas: Mapping[str, int],
    sharing: Mapping[UUID, int],
    owned: dict[str, set[Slot]],
    count: dict[Slot, int],
) -> None:
    for member_id in order:
        member = members[member_id]
        for topic_id, numbers in sorted(member.assigned.items()):
            for number in sorted(numbers) if topic_id in member.topics else ():
                slot = topic_id, number
                has_room = len(owned[member_id]) < quotas[member_id]
                if has_room and slot in count and count[slot] < sharing[topic_id]:
                    owned[member_id].add(slot)
                    count[slot] += 1


def _fill(
    topic_id: UUID,
    numbers: Sequence[int],
    subscribers: Sequence[str],
    sharing: int,
    owned: dict[str, set[Slot]],
    count: dict[Slot, int],
) -> None:
    """Give what is missing to those who have least."""
    heap = [(len(owned[each]), each) for each in subscribers]
    heapify(heap)
    for number in numbers:
        slot, passed = (topic_id, number), []
        while count[slot] < sharing:
            load, member_id = heappop(heap)
            if slot in owned[member_id]:
                passed.append((load, member_id))
                continue
            owned[member_id].add(slot)
            count[slot] += 1
            passed.append((load + 1, member_id))
        for each in passed:
            heappush(heap, each)


def _give_any(member_id: str, member: Subscription, owned: dict[str, set[Slot]], count: dict[Slot, int]) -> None:
    """Let a member that has nothing join those who have least to share."""
    slots = [(count[slot], slot) for slot in count if slot[0] in member.topics]
    if slots:
        _, slot = min(slots)
        owned[member_id].add(slot)
        count[slot] += 1


def _assignment(slots: set[Slot]) -> Assignment:
    numbers: dict[UUID, set[int]] = {}
    for topic_id, number in slots:
        numbers.setdefault(topic_id, set()).add(number)
    return {topic_id: frozenset(some) for topic_id, some in sorted(numbers.items())}
