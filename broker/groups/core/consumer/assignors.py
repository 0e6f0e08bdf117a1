"""Server-side assignors: who shall own which partition, from what everybody is subscribed to and owned before.

Every assignor gives each partition of each subscribed topic to exactly one member that is subscribed to it, and gives
the same answer to the same question.

| assignor | what it is after |
|---|---|
| uniform | as even as can be, with as few moves as can be: members keep what they have up to their fair share |
| range | of each topic, one run of neighbouring partitions for each member, so that equal topics are joined alike |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final, Protocol
from uuid import UUID

from .records import Assignment

BALANCE_ROUNDS_MAX: Final = 10
"""How often all members are gone through to even out different subscriptions; each round leaves a better balance."""

Partition = tuple[UUID, int]


@dataclass(frozen=True, slots=True)
class Subscription:
    """A member as an assignor sees it."""

    topics: frozenset[UUID]
    instance_id: str | None = None
    assigned: Assignment = field(default_factory=dict)


class Assignor(Protocol):
    """The port."""

    name: str

    def assign(self, members: Mapping[str, Subscription], topics: Mapping[UUID, int]) -> dict[str, Assignment]:
        """Return the assignment of each member; `topics` has the number of partitions by id."""


class RangeAssignor:
    """See the module's docstring. Members are in the order of their instance ids, else of their ids."""

    name = "range"

    def assign(self, members: Mapping[str, Subscription], topics: Mapping[UUID, int]) -> dict[str, Assignment]:
        owned: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in members}
        ordered = sorted(members, key=lambda each: (members[each].instance_id is None, members[each].instance_id, each))
        for topic_id in sorted(topics):
            subscribed = [each for each in ordered if topic_id in members[each].topics]
            start = 0
            for place, member_id in enumerate(subscribed):
                share, extra = divmod(topics[topic_id], len(subscribed))
                end = start + share + (place < extra)
                if end > start:
                    owned[member_id][topic_id] = frozenset(range(start, end))
                start = end
        return dict(owned)


class UniformAssignor:
    """See the module's docstring."""

    name = "uniform"

    def assign(self, members: Mapping[str, Subscription], topics: Mapping[UUID, int]) -> dict[str, Assignment]:
        order = sorted(members)
        kept = self._kept(order, members, topics)
        if len({members[each].topics for each in order}) <= 1:
            owned = _evened(order, kept, topics, members)
        else:
            owned = _balanced(order, kept, topics, members)
        return {member_id: _as_assignment(owned[member_id]) for member_id in order}

    @staticmethod
    def _kept(
        order: Sequence[str], members: Mapping[str, Subscription], topics: Mapping[UUID, int]
    ) -> dict[str, list[Partition]]:
        """Return what each member had and may still have."""
        taken: set[Partition] = set()
        kept: dict[str, list[Partition]] = {}
        for member_id in order:
            member = members[member_id]
            kept[member_id] = mine = []
            for topic_id, numbers in sorted(member.assigned.items()):
                if topic_id in member.topics:
                    mine += [
                        (topic_id, number)
                        for number in sorted(numbers)
                        if number < topics.get(topic_id, 0) and (topic_id, number) not in taken
                    ]
            taken.update(mine)
        return kept


def _evened(
    order: Sequence[str],
    kept: Mapping[str, list[Partition]],
    topics: Mapping[UUID, int],
    members: Mapping[str, Subscription],
) -> dict[str, list[Partition]]:
    """All are subscribed to the same: the first with more than the least share keep one more, as far as it goes."""
    if not order:
        return {}
    wanted = [each for each in _all_of(topics) if each[0] in members[order[0]].topics]
    least, extra = divmod(len(wanted), len(order))
    # Those who have most keep one more: nothing is moved that need not be.
    richest = sorted(order, key=lambda each: -len(kept[each]))
    quota = {member_id: least + (place < extra) for place, member_id in enumerate(richest)}
    owned = {member_id: kept[member_id][: quota[member_id]] for member_id in order}
    taken = {partition for mine in owned.values() for partition in mine}
    free = iter([each for each in wanted if each not in taken])
    for member_id in order:
        mine = owned[member_id]
        while len(mine) < quota[member_id]:
            mine.append(next(free))
    return owned


def _balanced(
    order: Sequence[str],
    kept: Mapping[str, list[Partition]],
    topics: Mapping[UUID, int],
    members: Mapping[str, Subscription],
) -> dict[str, list[Partition]]:
    """Subscriptions differ: what is free goes to the one with least, then those with more give to those with less."""
    owned = {member_id: list(kept[member_id]) for member_id in order}
    subscribed = {topic_id: [each for each in order if topic_id in members[each].topics] for topic_id in topics}
    taken = {partition for mine in owned.values() for partition in mine}
    # Topics that few can take go first: the others can still even it out.
    for topic_id in sorted(topics, key=lambda each: (len(subscribed[each]), each)):
        heap = [(len(owned[each]), each) for each in subscribed[topic_id]]
        heapify(heap)
        for number in range(topics[topic_id]) if heap else ():
            if (topic_id, number) not in taken:
                _, member_id = heappop(heap)
                owned[member_id].append((topic_id, number))
                heappush(heap, (len(owned[member_id]), member_id))
    for _ in range(BALANCE_ROUNDS_MAX):
        if not any([_give(giver, owned, subscribed) for giver in sorted(order, key=lambda each: -len(owned[each]))]):
            break
    return owned


def _give(giver: str, owned: dict[str, list[Partition]], subscribed: Mapping[UUID, Sequence[str]]) -> bool:
    """Give what others with at least two fewer may have; return whether anything was given."""
    has_given = False
    least = {
        topic_id: min(subscribed[topic_id], key=lambda each: (len(owned[each]), each))
        for topic_id in {partition[0] for partition in owned[giver]}
    }
    for partition in list(reversed(owned[giver])):
        taker = least[partition[0]]
        if len(owned[taker]) + 1 < len(owned[giver]):
            owned[giver].remove(partition)
            owned[taker].append(partition)
            has_given = True
            for topic_id in least:
                least[topic_id] = min(subscribed[topic_id], key=lambda each: (len(owned[each]), each))
    return has_given


def _all_of(topics: Mapping[UUID, int]) -> Iterable[Partition]:
    return ((topic_id, number) for topic_id in sorted(topics) for number in range(topics[topic_id]))


def _as_assignment(partitions: Iterable[Partition]) -> Assignment:
    numbers: dict[UUID, set[int]] = {}
    for topic_id, number in partitions:
        numbers.setdefault(topic_id, set()).add(number)
    return {topic_id: frozenset(some) for topic_id, some in numbers.items()}


ASSIGNORS: Final[Mapping[str, Assignor]] = {each.name: each for each in (UniformAssignor(), RangeAssignor())}
