"""Server-side assignors: who shall own which partition, from what everybody is subscribed to and owned before.

Every assignor gives each partition of each subscribed topic to exactly one member that is subscribed to it, and gives
the same answer to the same question.

| assignor | what it is after |
|---|---|
| uniform | as even as can be, with as few moves as can be: members keep what they have up to their fair share |
| range | of each topic, one run of neighbouring partitions for each member, so that equal topics are joined alike |
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from heapq import heapify, heappop, heappush
from itertools import chain, islice
from typing import Final, Protocol
from uuid import UUID

from .....light_dataclass import dataclass
from .records import Assignment

BALANCE_ROUNDS_MAX: Final = 10
"""How often all members are gone through to even out different subscriptions; each round leaves a better balance."""


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
        order, line = sorted(members), _Line(topics)
        kept = self._kept(order, members, line)
        if len({members[each].topics for each in order}) <= 1:
            owned = _evened(order, kept, line, members)
        else:
            owned = _balanced(order, kept, line, members)
        return {member_id: line.assignment(owned[member_id]) for member_id in order}

    @staticmethod
    def _kept(order: Sequence[str], members: Mapping[str, Subscription], line: _Line) -> dict[str, list[int]]:
        """Return what each member had and may still have."""
        taken: set[int] = set()
        kept: dict[str, list[int]] = {}
        for member_id in order:
            member, mine = members[member_id], []
            for topic_id, numbers in sorted(member.assigned.items()):
                if topic_id in member.topics and topic_id in line.topics:
                    start, count = line.start[topic_id], line.topics[topic_id]
                    mine += [start + number for number in sorted(numbers) if number < count]
            kept[member_id] = [place for place in mine if place not in taken]
            taken.update(mine)
        return kept


class _Line:
    """All partitions in a line, each by its place: what is done for every partition handles small numbers."""

    def __init__(self, topics: Mapping[UUID, int]) -> None:
        self.topics = topics
        self.order = sorted(topics)
        self.starts: list[int] = []
        end = 0
        for topic_id in self.order:
            self.starts.append(end)
            end += topics[topic_id]
        self.start = dict(zip(self.order, self.starts, strict=True))

    def of(self, topic_id: UUID) -> range:
        """Return the places of a topic's partitions."""
        return range(self.start[topic_id], self.start[topic_id] + self.topics[topic_id])

    def topic_at(self, place: int) -> int:
        """Return the index of the topic that has the place; topics without partitions have none."""
        return bisect_right(self.starts, place) - 1

    def assignment(self, places: Iterable[int]) -> Assignment:
        """Return places as an assignment."""
        numbers: dict[int, list[int]] = {}
        for place in places:
            index = bisect_right(self.starts, place) - 1
            numbers.setdefault(index, []).append(place - self.starts[index])
        return {self.order[index]: frozenset(some) for index, some in numbers.items()}


def _evened(
    order: Sequence[str], kept: Mapping[str, list[int]], line: _Line, members: Mapping[str, Subscription]
) -> dict[str, list[int]]:
    """All are subscribed to the same: the first with more than the least share keep one more, as far as it goes."""
    if not order:
        return {}
    subscribed = members[order[0]].topics
    wanted = [place for topic_id in line.order if topic_id in subscribed for place in line.of(topic_id)]
    least, extra = divmod(len(wanted), len(order))
    # Those who have most keep one more: nothing is moved that need not be.
    richest = sorted(order, key=lambda each: -len(kept[each]))
    quota = {member_id: least + (rank < extra) for rank, member_id in enumerate(richest)}
    owned = {member_id: kept[member_id][: quota[member_id]] for member_id in order}
    taken = set(chain.from_iterable(owned.values()))
    free = iter([place for place in wanted if place not in taken])
    for member_id in order:
        mine = owned[member_id]
        mine += islice(free, quota[member_id] - len(mine))
    return owned


def _balanced(
    order: Sequence[str], kept: Mapping[str, list[int]], line: _Line, members: Mapping[str, Subscription]
) -> dict[str, list[int]]:
    """Subscriptions differ: what is free goes to the one with least, then those with more give to those with less."""
    owned = {member_id: list(kept[member_id]) for member_id in order}
    subscribed = [[each for each in order if topic_id in members[each].topics] for topic_id in line.order]
    taken = set(chain.from_iterable(owned.values()))
    # Topics that few can take go first: the others can still even it out.
    for index in sorted(range(len(line.order)), key=lambda each: (len(subscribed[each]), each)):
        heap = [(len(owned[each]), each) for each in subscribed[index]]
        heapify(heap)
        for place in line.of(line.order[index]) if heap else ():
            if place not in taken:
                _, member_id = heappop(heap)
                owned[member_id].append(place)
                heappush(heap, (len(owned[member_id]), member_id))
    for _ in range(BALANCE_ROUNDS_MAX):
        givers = sorted(order, key=lambda each: -len(owned[each]))
        if not any([_give(giver, owned, subscribed, line) for giver in givers]):
            break
    return owned


def _give(giver: str, owned: dict[str, list[int]], subscribed: Sequence[Sequence[str]], line: _Line) -> bool:
    """Give what others with at least two fewer may have; return whether anything was given."""

    def poorest(index: int) -> str:
        return min(subscribed[index], key=lambda each: (len(owned[each]), each))

    has_given = False
    least = {index: poorest(index) for index in {line.topic_at(place) for place in owned[giver]}}
    for place in list(reversed(owned[giver])):
        taker = least[line.topic_at(place)]
        if len(owned[taker]) + 1 < len(owned[giver]):
            owned[giver].remove(place)
            owned[taker].append(place)
            has_given = True
            least = {index: poorest(index) if known == taker else known for index, known in least.items()}
    return has_given


ASSIGNORS: Final[Mapping[str, Assignor]] = {each.name: each for each in (UniformAssignor(), RangeAssignor())}
