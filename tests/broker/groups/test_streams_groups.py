"""Streams groups (KIP-1071) are not there: nothing says that they are, and a request of theirs closes its connection.

Apache Kafka treats a request so if its listener does not have the API; clients see in ApiVersions that it is not there.
"""

from __future__ import annotations

import asyncio
import struct

import pytest
from kio.schema.streams_group_describe.v0 import StreamsGroupDescribeRequest
from kio.schema.streams_group_heartbeat.v0 import StreamsGroupHeartbeatRequest

from tierfetch.controller import served_features
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.cluster import ApiVersionsRequest
from tierfetch.protocol.messages.groups import ListGroupsRequest
from tierfetch.protocol.net.client import KafkaClient
from tierfetch.tests.broker.groups.conversation import Coordinator
from tierfetch.tests.broker.nodes import Nodes
from tierfetch.tests.broker.transactions.test_brokers import client
from tierfetch.tests.protocol.test_every_version import framed

__all__ = ["client"]

HEARTBEAT = StreamsGroupHeartbeatRequest(
    group_id="g",  # type: ignore[arg-type]
    member_id="m",
    member_epoch=0,  # type: ignore[arg-type]
    endpoint_information_epoch=0,  # type: ignore[arg-type]
    active_tasks=(),
    standby_tasks=(),
    warmup_tasks=(),
    client_tags=None,
    task_offsets=None,
    task_end_offsets=None,
)
DESCRIBE = StreamsGroupDescribeRequest(group_ids=("g",), include_authorized_operations=False)  # type: ignore[arg-type]


@pytest.mark.usefixtures("one")
async def test_neither_apis_nor_the_feature_are_offered(nodes: Nodes, client: KafkaClient) -> None:
    request = ApiVersionsRequest(client_software_name="streams", client_software_version="1")
    answer = await client.send(nodes[1].address, request, timeout_s=10)
    keys = {api.api_key for api in answer.api_keys}
    assert {HEARTBEAT.__api_key__, DESCRIBE.__api_key__} & keys == set()
    assert "group.version" in served_features(keys)
    assert "streams.version" not in served_features(keys)


@pytest.mark.usefixtures("one")
@pytest.mark.parametrize("request_", [HEARTBEAT, DESCRIBE], ids=["heartbeat", "describe"])
async def test_a_request_closes_its_connection(
    nodes: Nodes, request_: StreamsGroupHeartbeatRequest | StreamsGroupDescribeRequest, caplog: pytest.LogCaptureFixture
) -> None:
    address = nodes[1].address
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        writer.write(framed(struct.pack(">hhihB", request_.__api_key__, 0, 1, -1, 0), request_))
        async with asyncio.timeout(10):
            assert await reader.read() == b""
    finally:
        writer.close()
    assert f"API key {request_.__api_key__} is unknown" in caplog.text


async def test_no_group_is_of_that_type(one: Coordinator) -> None:
    await one.enter("classic")
    answer = await one.ask(ListGroupsRequest(types_filter=("streams",)))
    assert (answer.error_code, answer.groups) == (ErrorCode.none, ())
