"""A group whose clients are upgraded one after the other, and taken back (KIP-848), at the end of a run.

| step                                                     | must hold then                                       |
|----------------------------------------------------------|------------------------------------------------------|
| a member of the classic protocol joins, leads, commits   | it has all partitions                                |
| one of KIP-848 joins, with an expression and an instance | both have some, none has two owners, all have one    |
| that one leaves for a while, another one is the instance | it gets what the instance had                        |
| it leaves                                                | the first one leads a classic group again, with all  |
| the first one leaves                                     | the group has no members                             |

Offsets that were committed at first are there after each step, and the coordinator describes the group as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from itertools import count
from random import Random
from typing import Final

from ....protocol import GROUP_METADATA_TOPIC
from ....protocol.messages.consumer_groups import ConsumerGroupDescribeRequest
from ....protocol.messages.groups import ListGroupsRequest
from ....protocol.messages.offsets import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ...judges.core.truth import ClusterTruth
from ..administrator import GROUP_VERSION
from ..client import AttemptFailedError
from ..workers.coordinators import CoordinatorClient, LaterError
from ..workers.members import BY_NAME
from .asker import broker_addresses
from .group_members import ClassicMember, GroupMembers, NewMember, WrongGroupError, expect

ROUNDS_MAX: Final = 60
ROUND_S: Final = 0.25
OFFSET: Final = 7
AWAY: Final = -2
GONE: Final = -1


class UpgradedGroups:
    """`look` takes a group of its own through all of it, where a cluster has coordinators of both protocols."""

    def __init__(self, truth: ClusterTruth, has_lost: Callable[[str], bool], rng: Random) -> None:
        self._truth = truth
        self._has_lost = has_lost
        self._rng = rng
        self._numbers = count(1)

    async def look(self) -> list[str]:
        """Return what is wrong; nothing where there are no such groups, or their log may have lost something."""
        image, features = self._truth.image, self._truth.metadata.features
        topics = [each for each in image.topics.values() if not each.name.startswith("_")]
        is_there = GROUP_METADATA_TOPIC in image.topics and not self._has_lost(GROUP_METADATA_TOPIC)
        if not is_there or not topics or not features.get(GROUP_VERSION, 0):
            return []
        topic = max(topics, key=lambda each: (len(each.partitions), each.name))
        coordinators = CoordinatorClient("upgraded", broker_addresses(self._truth), self._rng)
        group = f"upgraded-{next(self._numbers)}"
        members = GroupMembers(group, topic.name, topic.topic_id, len(topic.partitions), coordinators, self._rng)
        try:
            await _upgrade(members)
        except (AttemptFailedError, LaterError, WrongGroupError) as error:
            return [f"{group} of {topic.name}: {error}"]
        finally:
            await coordinators.close()
        return []


async def _upgrade(members: GroupMembers) -> None:
    """Raise WrongGroupError."""
    everything, classic = members.everything, ClassicMember(members)
    await _until(lambda: classic.owned == everything, "the classic member has all", classic.join)
    await classic.commit(OFFSET)
    consumer = NewMember(members)
    await _share(members, classic, consumer)
    await _check_shown(members, "consumer", [classic.owned, consumer.owned])
    had = consumer.owned
    await consumer.beat(AWAY)
    consumer = NewMember(members)
    await _share(members, classic, consumer)
    if consumer.owned != had:
        raise WrongGroupError(f"the instance had {sorted(had)}, and has {sorted(consumer.owned)} once it is back")
    await consumer.beat(GONE)
    await _until(lambda: classic.owned == everything, "the classic member has all again", classic.beat)
    await _check_shown(members, "classic", [])
    await classic.leave()


async def _share(members: GroupMembers, classic: ClassicMember, consumer: NewMember) -> None:
    async def beat() -> None:
        for member in (classic, consumer):
            await member.beat()
            if twice := classic.owned & consumer.owned:
                raise WrongGroupError(f"partitions {sorted(twice)} have two owners")

    def is_shared() -> bool:
        has_each = bool(classic.owned and consumer.owned) or len(members.everything) == 1
        return has_each and classic.owned | consumer.owned == members.everything

    await _until(is_shared, "both members together have all", beat)


async def _until(is_so: Callable[[], bool], what: str, act: Callable[[], Awaitable[None]]) -> None:
    for _ in range(ROUNDS_MAX):
        await act()
        if is_so():
            return
        await asyncio.sleep(ROUND_S)
    raise WrongGroupError(f"not within {ROUNDS_MAX * ROUND_S:g} s: {what}")


async def _check_shown(members: GroupMembers, kind: str, owned: Collection[frozenset[int]]) -> None:
    """Look at the group's kind, at the members of one of KIP-848, and at its offsets."""
    listed = {each.group_id: each.group_type for each in (await members.ask(ListGroupsRequest())).groups}
    if listed.get(members.group) != kind:
        raise WrongGroupError(f"the group is listed as {listed.get(members.group)}, not as {kind}")
    if owned:
        request = ConsumerGroupDescribeRequest(group_ids=(members.group,), include_authorized_operations=False)
        (found,) = (await members.ask(request)).groups
        said = [
            frozenset(number for each in member.assignment.topic_partitions for number in each.partitions)
            for member in found.members
        ]
        if sorted(map(sorted, said)) != sorted(map(sorted, owned)):
            raise WrongGroupError(f"its members are said to have {said}, and have {list(owned)}")
    topic = OffsetFetchRequestTopics(name=members.topic, partition_indexes=tuple(sorted(members.everything)))
    fetch = OffsetFetchRequestGroup(group_id=members.group, topics=(topic,))
    answer = await members.ask(OffsetFetchRequest(groups=(fetch,), require_stable=True), BY_NAME)
    expect(answer.groups[0].error_code, "OffsetFetch")
    offsets = {each.partition_index: each.committed_offset for each in answer.groups[0].topics[0].partitions}
    if offsets != (right := {number: OFFSET + number for number in members.everything}):
        raise WrongGroupError(f"its offsets are {offsets}, {right} were committed")
