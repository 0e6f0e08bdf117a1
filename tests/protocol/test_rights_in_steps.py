"""Answers of any length are kept to what may be shown in steps: the loop is free between them."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, cast

import pytest

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.authorization import groups, shares, transactions
from tierfetch.protocol.authorization.access import JUDGE_WEIGHT, Access
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerGroupDescribeResponseMember,
    ConsumerGroupDescribeResponseTopicPartitions,
)
from tierfetch.protocol.messages.groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from tierfetch.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
)
from tierfetch.protocol.messages.share_groups import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupDescribeResponseAssignment,
    ShareGroupDescribeResponseDescribedGroup,
    ShareGroupDescribeResponseMember,
)
from tierfetch.protocol.messages.transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsResponseTransactionState,
)
from tierfetch.protocol.net.pacing import ELEMENTS_PER_ITERATION, SLICE_ELEMENTS
from tierfetch.protocol.net.slicing import SLICED_ELEMENTS_MIN
from tierfetch.security import Authorizer, Resource, ResourceType
from tierfetch.tests.broker.requests import context_of

COUNT = 10_000
JUDGED_MAX = (ELEMENTS_PER_ITERATION + SLICE_ELEMENTS) // JUDGE_WEIGHT + SLICED_ELEMENTS_MIN
"""What one iteration decides about at most."""


class Half:
    """Allows nothing of the cluster, and what does not end in 1; notes in which iteration it is asked."""

    def __init__(self) -> None:
        self.iteration = 0
        self.asked: Counter[int] = Counter()
        self._tick()

    def _tick(self) -> None:
        self.iteration += 1
        asyncio.get_running_loop().call_soon(self._tick)

    def allows(self, _: object, __: object, resource: Resource, *___: object, **____: object) -> bool:
        self.asked[self.iteration] += 1
        return resource.resource_type is not ResourceType.CLUSTER and not resource.name.endswith("1")

    def access(self, api: ApiKey) -> Access:
        return Access(cast(Authorizer, self), context_of(api, api.max_version), lambda _: None)


def answering(response: Any) -> Any:
    async def answer(_: object, __: object) -> Any:
        return response

    return answer


NAMES = [f"n{number}" for number in range(COUNT)]
SHOWN = [name for name in NAMES if not name.endswith("1")]


async def test_D10_many_groups() -> None:
    half = Half()
    listed = [ListedGroup(group_id=name, protocol_type="") for name in NAMES]
    handler = answering(ListGroupsResponse(groups=tuple(listed)))
    answer = await groups.list_groups(half.access(ApiKey.LIST_GROUPS), handler, ListGroupsRequest())
    assert [each.group_id for each in answer.groups] == SHOWN
    assert max(half.asked.values()) <= JUDGED_MAX


async def test_D10_many_transactional_ids() -> None:
    half = Half()
    state = ListTransactionsResponseTransactionState
    listed = [state(transactional_id=name, producer_id=1, transaction_state="Empty") for name in NAMES]
    handler = answering(ListTransactionsResponse(unknown_state_filters=(), transaction_states=tuple(listed)))
    access = half.access(ApiKey.LIST_TRANSACTIONS)
    answer = await transactions.list_transactions(access, handler, ListTransactionsRequest())
    assert [each.transactional_id for each in answer.transaction_states] == SHOWN
    assert max(half.asked.values()) <= JUDGED_MAX


async def test_D10_offsets_of_many_topics() -> None:
    half = Half()
    topics = [OffsetFetchResponseTopics(name=name, topic_id=None, partitions=()) for name in NAMES]
    fetched = OffsetFetchResponseGroup(group_id="g", topics=tuple(topics))
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=None),))
    handler = answering(OffsetFetchResponse(groups=(fetched,)))
    (group,) = (await groups.offset_fetch(half.access(ApiKey.OFFSET_FETCH), handler, request)).groups
    assert [each.name for each in group.topics] == SHOWN
    assert max(half.asked.values()) <= JUDGED_MAX


NOTHING = ConsumerGroupDescribeResponseAssignment(topic_partitions=())


def assigned(name: str) -> ConsumerGroupDescribeResponseAssignment:
    topic = ConsumerGroupDescribeResponseTopicPartitions(topic_id=None, topic_name=name, partitions=())
    return ConsumerGroupDescribeResponseAssignment(topic_partitions=(topic,))


def member(
    name: str, *subscribed: str, assignment: ConsumerGroupDescribeResponseAssignment = NOTHING,
    target: ConsumerGroupDescribeResponseAssignment = NOTHING,
) -> ConsumerGroupDescribeResponseMember:  # fmt: skip
    return ConsumerGroupDescribeResponseMember(
        member_id=name, member_epoch=1, client_id="", client_host="", subscribed_topic_names=subscribed,
        assignment=assignment, target_assignment=target,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("hidden", "code"),
    [
        (member("last"), ErrorCode.none),
        (member("last", "t1"), ErrorCode.topic_authorization_failed),
        (member("last", assignment=assigned("t1")), ErrorCode.topic_authorization_failed),
        (member("last", target=assigned("t1")), ErrorCode.topic_authorization_failed),
    ],
)
async def test_D10_a_group_of_many_members(hidden: ConsumerGroupDescribeResponseMember, code: ErrorCode) -> None:
    """It is shown if all topics of all members may be described, each of which is decided about once."""
    half = Half()
    group = ConsumerGroupDescribeResponseDescribedGroup(
        group_id="g", group_state="Stable", group_epoch=1, assignment_epoch=1, assignor_name="range",
        members=(*[member(name, f"t{2 + number % 2}") for number, name in enumerate(NAMES)], hidden),
    )  # fmt: skip
    handler = answering(ConsumerGroupDescribeResponse(groups=(group,)))
    request = ConsumerGroupDescribeRequest(group_ids=("g",), include_authorized_operations=False)
    began = half.iteration
    access = half.access(ApiKey.CONSUMER_GROUP_DESCRIBE)
    (answer,) = (await groups.consumer_group_describe(access, handler, request)).groups
    assert (answer.error_code, len(answer.members)) == (code, 0 if code else COUNT + 1)
    assert half.iteration - began >= COUNT * groups.MEMBER_WEIGHT // (ELEMENTS_PER_ITERATION + SLICE_ELEMENTS)
    assert half.asked.total() <= 4


@pytest.mark.parametrize(("name", "code"), [("t2", ErrorCode.none), ("t1", ErrorCode.topic_authorization_failed)])
async def test_D10_a_share_group_of_many_members(name: str, code: ErrorCode) -> None:
    half = Half()
    nothing = ShareGroupDescribeResponseAssignment(topic_partitions=())
    members = [
        ShareGroupDescribeResponseMember(
            member_id=each, member_epoch=1, client_id="", client_host="", subscribed_topic_names=(name,),
            assignment=nothing,
        )
        for each in NAMES
    ]  # fmt: skip
    group = ShareGroupDescribeResponseDescribedGroup(
        group_id="g", group_state="Stable", group_epoch=1, assignment_epoch=1, assignor_name="simple",
        members=tuple(members),
    )  # fmt: skip
    handler = answering(ShareGroupDescribeResponse(groups=(group,)))
    began = half.iteration
    access = half.access(ApiKey.SHARE_GROUP_DESCRIBE)
    (answer,) = (
        await shares.describe(
            access, handler, ShareGroupDescribeRequest(group_ids=("g",), include_authorized_operations=False)
        )
    ).groups
    assert (answer.error_code, len(answer.members)) == (code, 0 if code else COUNT)
    assert half.iteration - began >= COUNT * groups.MEMBER_WEIGHT // (ELEMENTS_PER_ITERATION + SLICE_ELEMENTS)
