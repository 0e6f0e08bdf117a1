"""What is shown of share groups to whom."""

from __future__ import annotations

from typing import Any, cast

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.authorization import shares
from tierfetch.protocol.authorization.access import Access
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.share_groups import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponseTopic,
)
from tierfetch.security import Authorizer, Resource
from tierfetch.tests.broker.requests import context_of


class AllButSecret:
    """Allows everything but the topic "secret"."""

    def allows(self, _: object, __: object, resource: Resource, *___: object, **____: object) -> bool:
        return resource.name != "secret"


async def everything(_: object, request: DescribeShareGroupOffsetsRequest) -> DescribeShareGroupOffsetsResponse:
    """Tell all topics of each group that is asked for, in whatever way."""
    topics = tuple(
        DescribeShareGroupOffsetsResponseTopic(topic_name=name, topic_id=None, partitions=())
        for name in ("open", "secret")
    )
    groups = [DescribeShareGroupOffsetsResponseGroup(group_id=each.group_id, topics=topics) for each in request.groups]
    return DescribeShareGroupOffsetsResponse(groups=tuple(groups))


async def test_a_group_that_is_named_twice_shows_no_hidden_topic() -> None:
    access = Access(
        cast(Authorizer, AllButSecret()), context_of(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0), lambda _: None
    )
    secret = DescribeShareGroupOffsetsRequestTopic(topic_name="secret", partitions=(0,))
    asked = [DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=topics) for topics in ((secret,), (), None)]
    handler: Any = everything
    answer = await shares.describe_offsets(access, handler, DescribeShareGroupOffsetsRequest(groups=tuple(asked)))
    told = [[(topic.topic_name, len(topic.partitions)) for topic in group.topics] for group in answer.groups]
    assert told == [[("open", 0), ("secret", 1)], [("open", 0)], [("open", 0)]]
    assert answer.groups[0].topics[1].partitions[0].error_code is ErrorCode.topic_authorization_failed
