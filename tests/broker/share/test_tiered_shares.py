"""Share groups that begin where only the tier has the records: all of them come, from each leader, slow tier or not."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.share_records import (
    AcquiredRecords,
    FetchPartition,
    FetchTopic,
    ShareFetchRequestAcknowledgementBatch,
    ShareFetchResponsePartitionData,
)
from tierfetch.protocol.net.client import KafkaClient
from tierfetch.protocol.records import iter_batches, iter_records
from tierfetch.tests.broker.nodes import Nodes
from tierfetch.tests.broker.share.consuming import ACCEPT, share_fetch
from tierfetch.tests.broker.test_tiered_nodes import (
    TIERED,
    all_closed_segments_tiered,
    produce,
    replace,
    tiered_nodes,
)
from tierfetch.tests.broker.waiting import until
from tierfetch.tests.fakes.share_persister import FakeSharePersister

pytestmark = pytest.mark.slow
COUNT = 40
REMOTE_WAIT_MS = 200


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[Nodes]:
    """A topic most of which only the tier has; broker 1 leads it."""
    configs = {
        "remote.log.storage.manager.plugin": "local",
        "rsm.config.dir": str(tmp_path / "tier"),
        "remote.fetch.max.wait.ms": str(REMOTE_WAIT_MS),
    }
    nodes = await tiered_nodes(tmp_path, configs, FakeSharePersister(begins_at=0))
    await nodes.topic("t", 1, 2, **TIERED, local_retention_bytes="2000")
    await produce(nodes, 1, COUNT)
    await all_closed_segments_tiered(nodes, 1)
    await until(lambda: nodes.partition(1, "t").log.state.offsets.local_log_start_offset > COUNT // 2)
    yield nodes
    await nodes.close()


class Consumer:
    """A member of the share group at one leader, on a connection of its own."""

    def __init__(self, nodes: Nodes, number: int, name: str, stack: AsyncExitStack) -> None:
        self.address = nodes[number].address
        self.topic_id = nodes[number].view.image.topics["t"].topic_id
        self.name = name
        self.epoch = 0
        self.client = KafkaClient(client_id=name, random=random.Random(1))
        stack.push_async_callback(self.client.close)

    async def fetch(self, *accepted: AcquiredRecords, **fields: Any) -> ShareFetchResponsePartitionData | None:
        """Accept what was acquired before, and fetch more; None for no answer of the partition."""
        some = tuple(
            ShareFetchRequestAcknowledgementBatch(
                first_offset=each.first_offset, last_offset=each.last_offset, acknowledge_types=(ACCEPT,)
            )
            for each in accepted
        )
        topic = FetchTopic(
            topic_id=self.topic_id, partitions=(FetchPartition(partition_index=0, acknowledgement_batches=some),)
        )
        fields = {"max_wait_ms": 200, **fields}
        response = await self.client.send(self.address, share_fetch(self.name, self.epoch, [topic], **fields))
        assert response.error_code is ErrorCode.none
        self.epoch += 1
        for answer in response.responses:
            (found,) = answer.partitions
            assert (found.error_code, found.acknowledge_error_code) == (ErrorCode.none, 0)
            return found
        return None

    async def read(self, end: int, **fields: Any) -> list[tuple[int, int]]:
        """Accept everything up to an offset; return each offset that came, with its delivery count."""
        got: list[tuple[int, int]] = []
        accepted: tuple[AcquiredRecords, ...] = ()
        async with asyncio.timeout(30):
            while not got or got[-1][0] < end - 1:
                found = await self.fetch(*accepted, **fields)
                accepted = () if found is None else found.acquired_records
                got += [] if found is None else delivered(found)
            await self.fetch(*accepted, max_wait_ms=0, max_records=0)
        return got


def delivered(found: ShareFetchResponsePartitionData) -> list[tuple[int, int]]:
    """Return the offsets that were acquired and are there, with their delivery counts."""
    data: Any = found.records
    there = {record.offset for at, header in iter_batches(data) for record in iter_records(data, at, header)}
    acquired = [
        (offset, each.delivery_count)
        for each in found.acquired_records
        for offset in range(each.first_offset, each.last_offset + 1)
    ]
    assert {offset for offset, _ in acquired} <= there
    return acquired


def once(first: int, end: int, count: int = 1) -> list[tuple[int, int]]:
    return [(offset, count) for offset in range(first, end)]


async def test_R3_a_group_that_begins_in_the_tier_gets_all_of_it_once(nodes: Nodes) -> None:
    async with AsyncExitStack() as stack:
        assert await Consumer(nodes, 1, "a", stack).read(COUNT) == once(0, COUNT)


async def test_R3_a_replaced_follower_that_leads_goes_on_where_the_group_is(nodes: Nodes) -> None:
    """It has none of the records itself; what was locked at the leader before comes again."""
    await replace(nodes, 2)
    start = nodes.partition(2, "t").log.state.offsets.local_log_start_offset
    assert start > COUNT // 2
    async with AsyncExitStack() as stack:
        first = Consumer(nodes, 1, "a", stack)
        assert await first.read(10, max_records=5, batch_size=5) == once(0, 10)
        locked = await first.fetch(max_records=5, batch_size=5)
        assert locked is not None
        assert delivered(locked) == once(10, 15)
        partition = nodes.partition(1, "t").partition
        await nodes[1].view.elect_leader(partition, 2)
        await until(lambda: nodes.partition(2, "t").leadership is not None)
        second = Consumer(nodes, 2, "b", stack)
        assert await second.read(COUNT) == once(10, COUNT)


async def test_R4_a_tier_that_hangs_delays_a_share_fetch_no_longer_than_its_wait_and_keeps_nothing(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    tier = nodes[1].tier
    assert tier is not None
    storage = tier.manager.storage
    hangs, asked = asyncio.Event(), asyncio.Event()
    fetch = storage.fetch_log_segment

    async def slow(*arguments: Any, **named: Any) -> bytes:
        asked.set()
        await hangs.wait()
        found: bytes = await fetch(*arguments, **named)
        return found

    monkeypatch.setattr(storage, "fetch_log_segment", slow)
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        first = Consumer(nodes, 1, "a", stack)
        began_s = loop.time()
        assert await first.fetch(max_wait_ms=50) is None
        assert asked.is_set()
        assert loop.time() - began_s < 5, "the wait of the tier, not that of the store"
        waiting = asyncio.create_task(first.read(COUNT, max_wait_ms=600_000))
        hangs.set()
        assert await waiting == once(0, COUNT), "woken by the tier alone"
