"""Share groups over connections to a whole broker: every version, two members, lost connections, a restart."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tierfetch.log.core import AppendOrigin
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.groups import FindCoordinatorRequest
from tierfetch.protocol.messages.share_records import (
    AcknowledgePartition,
    AcknowledgeTopic,
    FetchPartition,
    FetchTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeRequestAcknowledgementBatch,
    ShareFetchResponsePartitionData,
)
from tierfetch.protocol.messages.share_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateRequestPartitionData,
    DeleteStateData,
)
from tierfetch.protocol.net.client import KafkaClient
from tierfetch.protocol.net.service import closing
from tierfetch.protocol.records import iter_batches, iter_records
from tierfetch.protocol.topics import uuid_to_text
from tierfetch.protocol.wire.group_configs import EARLIEST, LOCK_DURATION, OFFSET_RESET
from tierfetch.tests.broker.hosting import batch
from tierfetch.tests.broker.nodes import Nodes
from tierfetch.tests.broker.share.consuming import ACCEPT, GROUP, share_fetch
from tierfetch.tests.broker.waiting import until
from tierfetch.tests.fakes.share_persister import FakeSharePersister

FOREVER_MS = 600_000
VERSIONS = range(ApiKey.SHARE_FETCH.min_version, ApiKey.SHARE_FETCH.max_version + 1)


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[Nodes]:
    nodes = Nodes(tmp_path)
    nodes.share_persister = FakeSharePersister(begins_at=0)
    yield nodes
    await nodes.close()


class Client:
    """A member with a connection of its own, in one version of both APIs."""

    def __init__(self, nodes: Nodes, stack: AsyncExitStack, name: str, version: int) -> None:
        self.nodes = nodes
        self.name = name
        self.version = version
        self.epoch = 0
        self.client = KafkaClient(client_id=name, random=random.Random(1))
        stack.push_async_callback(self.client.close)

    async def fetch(self, topic_id: UUID, **fields: Any) -> ShareFetchResponsePartitionData:
        wanted = FetchTopic(
            topic_id=topic_id, partitions=(FetchPartition(partition_index=0, acknowledgement_batches=()),)
        )
        fields = {"max_wait_ms": FOREVER_MS, **fields}
        request = share_fetch(self.name, self.epoch, [wanted], **fields)
        response = await self.client.send(self.nodes[1].address, request, max_version=self.version)
        assert response.error_code is ErrorCode.none
        self.epoch += 1
        return response.responses[0].partitions[0]

    async def acknowledge(self, topic_id: UUID, first: int, last: int, *, epoch: int | None = None) -> ErrorCode:
        some = ShareAcknowledgeRequestAcknowledgementBatch(
            first_offset=first, last_offset=last, acknowledge_types=(ACCEPT,)
        )
        partition = AcknowledgePartition(partition_index=0, acknowledgement_batches=(some,))
        request = ShareAcknowledgeRequest(
            group_id=GROUP,
            member_id=self.name,
            share_session_epoch=self.epoch if epoch is None else epoch,
            topics=(AcknowledgeTopic(topic_id=topic_id, partitions=(partition,)),),
        )
        response = await self.client.send(self.nodes[1].address, request, max_version=self.version)
        assert response.error_code is ErrorCode.none
        self.epoch += 1
        return response.responses[0].partitions[0].error_code


def values(found: ShareFetchResponsePartitionData) -> list[bytes | None]:
    """The records of the acquired offsets."""
    acquired = {number for each in found.acquired_records for number in range(each.first_offset, each.last_offset + 1)}
    data = bytes(found.records)
    return [
        record.value
        for position, header in iter_batches(data)
        for record in iter_records(data, position, header)
        if record.offset in acquired
    ]


async def produce(nodes: Nodes, *some: bytes) -> UUID:
    partition = nodes.partition(1, "t")
    for value in some:
        await partition.append(batch(value), AppendOrigin.CLIENT, acks_all=True)
    return partition.partition.topic_id


@pytest.mark.parametrize("version", VERSIONS)
async def test_two_members_share_a_topic(nodes: Nodes, version: int) -> None:
    await nodes.start(1)
    await nodes.topic("t", 1)
    topic_id = await produce(nodes, *(bytes([65 + number]) * 2_000 for number in range(6)))
    async with AsyncExitStack() as stack:
        first, second = Client(nodes, stack, "a", version), Client(nodes, stack, "b", version)
        one = await first.fetch(topic_id, max_records=3)
        two = await second.fetch(topic_id)
        assert [value[:1] for value in (*values(one), *values(two)) if value] == [b"A", b"B", b"C", b"D", b"E", b"F"]
        assert await first.acknowledge(topic_id, 0, 2) is ErrorCode.none
        assert await second.acknowledge(topic_id, 0, 0) is ErrorCode.none, "it is finished: nothing is left to say"
        assert await second.acknowledge(topic_id, 3, 5, epoch=-1) is ErrorCode.none
    assert await produced_next(nodes, topic_id, version) == [b"new"]


async def produced_next(nodes: Nodes, topic_id: UUID, version: int) -> list[bytes | None]:
    await produce(nodes, b"new")
    async with AsyncExitStack() as stack:
        return values(await Client(nodes, stack, "c", version).fetch(topic_id))


async def test_the_configs_of_a_group_hold_at_the_leaders_of_partitions(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path)
    nodes.share_persister = FakeSharePersister()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(nodes.close)
        await nodes.start(1)
        await nodes.topic("t", 1)
        topic_id = await produce(nodes, b"before")
        configure(nodes, **{OFFSET_RESET: EARLIEST, LOCK_DURATION: "20000"})
        member = Client(nodes, stack, "a", VERSIONS[-1])
        assert values(await member.fetch(topic_id)) == [b"before"], "the broker's own is latest"
        assert await lock_ms(member) == 20_000
        configure(nodes, **{LOCK_DURATION: "1"})
        assert await lock_ms(member) == 15_000, "group.share.min.record.lock.duration.ms"


def configure(nodes: Nodes, **configs: str) -> None:
    nodes.cluster.change(lambda image: replace(image, group_configs={GROUP: configs}))


async def lock_ms(member: Client) -> int:
    """How long what it acquires now is locked."""
    request = share_fetch(member.name, member.epoch, [], max_wait_ms=0)
    member.epoch += 1
    response = await member.client.send(member.nodes[1].address, request)
    return response.acquisition_lock_timeout_ms


async def test_records_of_a_lost_connection_come_again_and_count(nodes: Nodes) -> None:
    await nodes.start(1)
    await nodes.topic("t", 1)
    topic_id = await produce(nodes, b"a", b"b")
    async with AsyncExitStack() as stack:
        second = Client(nodes, stack, "b", 2)
        async with AsyncExitStack() as lost:
            first = Client(nodes, lost, "a", 2)
            assert values(await first.fetch(topic_id)) == [b"a", b"b"]
        again = await second.fetch(topic_id)
        assert values(again) == [b"a", b"b"]
        assert [each.delivery_count for each in again.acquired_records] == [2]


async def test_who_waits_is_gone_with_its_connection(nodes: Nodes) -> None:
    await nodes.start(1)
    await nodes.topic("t", 1)
    topic_id = await produce(nodes)
    news = nodes.partition(1, "t").high_watermark_news
    async with AsyncExitStack() as stack:
        waits = Client(nodes, stack, "a", 2)
        fetching = asyncio.create_task(waits.fetch(topic_id))
        await until(lambda: len(news) == 1)
    await until(lambda: len(news) == 0)
    await asyncio.gather(fetching, return_exceptions=True)
    assert await produced_next(nodes, topic_id, 2) == [b"new"]


async def test_what_was_acknowledged_is_not_delivered_after_a_restart(nodes: Nodes) -> None:
    await nodes.start(1)
    await nodes.topic("t", 1)
    topic_id = await produce(nodes, b"a", b"b", b"c")
    async with AsyncExitStack() as stack:
        client = Client(nodes, stack, "a", 2)
        await client.fetch(topic_id)
        assert await client.acknowledge(topic_id, 1, 1) is ErrorCode.none
        await nodes.stop(1)
        await nodes.start(1)
        await until(lambda: nodes.partition(1, "t").leadership is not None)
        client.epoch = 0
        assert values(await client.fetch(topic_id)) == [b"a", b"c"]


async def test_share_groups_are_off_by_default(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path)
    nodes.cluster.image = replace(nodes.cluster.image, features={})
    await nodes.start(1)
    try:
        async with closing(KafkaClient(client_id="a", random=random.Random(1))) as client:
            response = await client.send(nodes[1].address, share_fetch("a", 0, ()))
            assert response.error_code is ErrorCode.unsupported_version
            await nodes.topic("t", 1)
            key = f"g:{uuid_to_text(nodes.cluster.image.topics['t'].topic_id)}:0"
            asked = FindCoordinatorRequest(key_type=2, coordinator_keys=(key,))
            found = await client.send(nodes[1].address, asked)
            assert found.coordinators[0].error_code is ErrorCode.invalid_request
            nothing = DeleteShareGroupStateRequestPartitionData(partition=0)
            topic = DeleteStateData(topic_id=UUID(int=1), partitions=(nothing,))
            answer = await client.send(nodes[1].address, DeleteShareGroupStateRequest(group_id="g", topics=(topic,)))
            assert answer.results[0].partitions[0].error_code is ErrorCode.unsupported_version
            assert list(nodes.cluster.image.topics) == ["t"], "nothing is made for what is off"
    finally:
        await nodes.close()
