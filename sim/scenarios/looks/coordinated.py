"""What coordinators list, describe and delete: transactional ids, groups of all kinds, and their offsets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from ....protocol import ErrorCode
from ....protocol.messages.consumer_groups import ConsumerGroupDescribeRequest
from ....protocol.messages.groups import DeleteGroupsRequest, DescribeGroupsRequest, ListedGroup, ListGroupsRequest
from ....protocol.messages.offsets import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from ....protocol.messages.share_groups import ShareGroupDescribeRequest
from ....protocol.messages.transactions import DescribeTransactionsRequest, ListTransactionsRequest
from ...judges.core.truth import ClusterTruth
from .asker import Asker

EXPIRES_SHARE: Final = 0.5
EMPTY: Final = "Empty"
AT_REST: Final = frozenset({"Empty", "CompleteCommit", "CompleteAbort"})


class Coordinated:
    """Looks at what brokers coordinate."""

    def __init__(self, asker: Asker, truth: ClusterTruth) -> None:
        self._asker = asker
        self._truth = truth
        self.expires = asker.rng.random() < EXPIRES_SHARE
        """Whether groups are left to expire, and not deleted."""
        self.listed = 0
        """The groups and transactional ids that were seen."""

    async def transactions(self) -> list[str]:
        """Each id is listed and described by one coordinator, and none is in the middle of something."""
        listed: Counter[str] = Counter()
        wrong = []
        for broker_id in self._asker.addresses:
            answer = await self._asker.ask(broker_id, ListTransactionsRequest())
            states = {each.transactional_id: each for each in answer.transaction_states}
            listed.update(states.keys())
            self.listed += len(states)
            if answer.error_code is not ErrorCode.none:
                wrong.append(f"broker {broker_id} lists no transactions: {answer.error_code.name}")
            if not states:
                continue
            described = await self._asker.ask(broker_id, DescribeTransactionsRequest(transactional_ids=tuple(states)))
            for each in described.transaction_states:
                known = states[each.transactional_id]
                said = (each.error_code, each.transaction_state, each.producer_id, len(each.topics))
                if said != (ErrorCode.none, known.transaction_state, known.producer_id, 0) or (
                    each.transaction_state not in AT_REST
                ):
                    wrong.append(f"broker {broker_id}: {each} was listed as {known}")
        twice = [name for name, count in listed.items() if count > 1]
        return [*wrong, *(f"{name} has several coordinators" for name in twice)]

    async def groups(self) -> list[str]:
        """Each group is at one coordinator; once it has no members its offsets, and then the group, can be deleted."""
        wrong, listed = [], Counter[str]()
        for broker_id in self._asker.addresses:
            answer = await self._asker.ask(broker_id, ListGroupsRequest())
            listed.update(each.group_id for each in answer.groups)
            self.listed += len(answer.groups)
            if answer.error_code is not ErrorCode.none:
                wrong.append(f"broker {broker_id} lists no groups: {answer.error_code.name}")
            for group in answer.groups:
                wrong += [f"broker {broker_id}: {text}" for text in await self._wrong_group(broker_id, group)]
        wrong += [f"{name} has several coordinators" for name, count in listed.items() if count > 1]
        return wrong

    async def _wrong_group(self, broker_id: int, group: ListedGroup) -> list[str]:
        code, state, members = await self._described(broker_id, group)
        if (code, state) != (ErrorCode.none, group.group_state):
            return [f"{group} is described as {state}: {code.name}"]
        if (state == EMPTY) != (members == 0):
            return [f"{group} is {state} with {members} members"]
        if state != EMPTY:
            return [f"{group} still has {members} members"]
        if self.expires:
            return []
        offsets = await self._delete_offsets(broker_id, group)
        answer = await self._asker.ask(broker_id, DeleteGroupsRequest(groups_names=(group.group_id,)))
        deleted = answer.results[0].error_code
        left = await self._asker.ask(broker_id, ListGroupsRequest())
        if deleted is not ErrorCode.none or any(each.group_id == group.group_id for each in left.groups):
            return [*offsets, f"{group} is not deleted: {deleted.name}"]
        return offsets

    async def expired(self) -> list[str]:
        """Nothing is left that has not been used for days. Share groups stay."""
        left = []
        for broker_id in self._asker.addresses:
            groups = (await self._asker.ask(broker_id, ListGroupsRequest(types_filter=("classic", "consumer")))).groups
            transactions = (await self._asker.ask(broker_id, ListTransactionsRequest())).transaction_states
            left += [f"broker {broker_id} still has {each}" for each in (*groups, *transactions)]
        return left

    async def _described(self, broker_id: int, group: ListedGroup) -> tuple[ErrorCode, str, int]:
        """Return the error, the state and the number of members of a group of any kind."""
        names = (group.group_id,)
        if group.group_type == "classic":
            (found,) = (await self._asker.ask(broker_id, DescribeGroupsRequest(groups=names))).groups
            return found.error_code, found.group_state, len(found.members)
        if group.group_type == "consumer":
            consumers = ConsumerGroupDescribeRequest(group_ids=names, include_authorized_operations=True)
            (of_consumers,) = (await self._asker.ask(broker_id, consumers)).groups
            return of_consumers.error_code, of_consumers.group_state, len(of_consumers.members)
        shares = ShareGroupDescribeRequest(group_ids=names, include_authorized_operations=True)
        (of_sharers,) = (await self._asker.ask(broker_id, shares)).groups
        return of_sharers.error_code, of_sharers.group_state, len(of_sharers.members)

    async def _delete_offsets(self, broker_id: int, group: ListedGroup) -> list[str]:
        """Delete the group's offsets of every topic, where its kind has some."""
        if group.group_type == "share":
            return []
        request = OffsetDeleteRequest(group_id=group.group_id, topics=tuple(self._all_partitions()))
        answer = await self._asker.ask(broker_id, request)
        codes = {each.error_code for topic in answer.topics for each in topic.partitions}
        if (answer.error_code, codes) == (ErrorCode.none, {ErrorCode.none}):
            return []
        return [f"the offsets of {group} are not deleted: {answer.error_code.name}, {codes}"]

    def _all_partitions(self) -> Iterator[OffsetDeleteRequestTopic]:
        for topic in self._truth.image.topics.values():
            numbers = tuple(OffsetDeleteRequestPartition(partition_index=number) for number in topic.partitions)
            yield OffsetDeleteRequestTopic(name=topic.name, partitions=numbers)
