"""The share coordinator in whole brokers, over the wire: what is kept, fenced, survives, is deleted."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tierfetch.broker.share_state import active_shard
from tierfetch.broker.share_state.active_shard import ActiveShard
from tierfetch.broker.share_state.core import state
from tierfetch.broker.share_state.core.records import ShareKey
from tierfetch.broker.share_state.core.state import NOT_GIVEN
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.messages.base import Request, ResponseT
from tierfetch.protocol.messages.groups import FindCoordinatorRequest
from tierfetch.protocol.messages.share_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateRequestPartitionData,
    DeleteStateData,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateRequestPartitionData,
    InitializeStateData,
    ReadShareGroupStateRequest,
    ReadShareGroupStateRequestPartitionData,
    ReadShareGroupStateResponsePartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryRequestPartitionData,
    ReadShareGroupStateSummaryResponsePartitionResult,
    ReadStateData,
    ReadStateSummaryData,
    WriteShareGroupStateRequest,
    WriteShareGroupStateRequestPartitionData,
    WriteShareGroupStateRequestStateBatch,
    WriteStateData,
)
from tierfetch.protocol.net.client import KafkaClient
from tierfetch.protocol.topics import uuid_to_text
from tierfetch.protocol.wire import run_to_end
from tierfetch.tests.broker.nodes import Nodes
from tierfetch.tests.broker.waiting import until

NONE = ErrorCode.none
RETRIED = {
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
    ErrorCode.unknown_topic_or_partition,
}
CONFIGS = {
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "3",
}
STATE = "__share_group_state"


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[Nodes]:
    nodes = Nodes(tmp_path, CONFIGS)
    yield nodes
    await nodes.close()


@pytest.fixture
async def shares(nodes: Nodes) -> AsyncIterator[Shares]:
    client = KafkaClient(client_id="broker", random=random.Random(1))
    await nodes.start(1)
    topic = await nodes.topic("t", 1)
    shares = Shares(nodes, client, topic.topic_id)
    yield shares
    await client.close()


class Shares:
    """Partition 0 of a topic in share group "g", as brokers ask for its state."""

    def __init__(self, nodes: Nodes, client: KafkaClient, topic_id: UUID) -> None:
        self.nodes = nodes
        self.client = client
        self.topic_id = topic_id

    @property
    def active(self) -> ActiveShard:
        (active,) = self.nodes[1].shares.shards
        return active

    async def send(self, request: Request[ResponseT], version: int | None = None) -> ResponseT:
        return await self.client.send(self.nodes[1].address, request, max_version=version, timeout_s=10)

    async def find(self, key: str | None = None, *, key_type: int = 2, version: int | None = None) -> ErrorCode:
        text = f"g:{uuid_to_text(self.topic_id)}:0" if key is None else key
        answer = await self.send(FindCoordinatorRequest(key_type=key_type, coordinator_keys=(text,)), version)
        return answer.coordinators[0].error_code

    async def ready(self) -> None:
        async with asyncio.timeout(30):
            while await self.find() is not NONE:  # noqa: ASYNC110 - as a broker polls
                await asyncio.sleep(0.01)
            while (await self.summary()).error_code in RETRIED:  # noqa: ASYNC110 - as a broker polls
                await asyncio.sleep(0.01)

    async def initialize(self, state_epoch: int = 1, start_offset: int = 5, *, partition: int = 0) -> ErrorCode:
        data = InitializeShareGroupStateRequestPartitionData(
            partition=partition, state_epoch=state_epoch, start_offset=start_offset
        )
        topic = InitializeStateData(topic_id=self.topic_id, partitions=(data,))
        answer = await self.send(InitializeShareGroupStateRequest(group_id="g", topics=(topic,)))
        return answer.results[0].partitions[0].error_code

    async def read(self, leader_epoch: int = 3, group: str = "g") -> ReadShareGroupStateResponsePartitionResult:
        data = ReadShareGroupStateRequestPartitionData(partition=0, leader_epoch=leader_epoch)
        topic = ReadStateData(topic_id=self.topic_id, partitions=(data,))
        answer = await self.send(ReadShareGroupStateRequest(group_id=group, topics=(topic,)))
        return answer.results[0].partitions[0]

    async def write(
        self, first: int, last: int, state: int = 2, *, leader_epoch: int = 3, state_epoch: int = 1, done: int = 0
    ) -> ErrorCode:
        batch = WriteShareGroupStateRequestStateBatch(
            first_offset=first, last_offset=last, delivery_state=state, delivery_count=1
        )
        data = WriteShareGroupStateRequestPartitionData(
            partition=0,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=-1,
            delivery_complete_count=done,
            state_batches=(batch,),
        )
        topic = WriteStateData(topic_id=self.topic_id, partitions=(data,))
        answer = await self.send(WriteShareGroupStateRequest(group_id="g", topics=(topic,)))
        return answer.results[0].partitions[0].error_code

    async def delete(self, state_epoch: int = NOT_GIVEN) -> ErrorCode:
        data = DeleteShareGroupStateRequestPartitionData(partition=0)
        topic = DeleteStateData(topic_id=self.topic_id, partitions=(data,))
        answer = await self.send(DeleteShareGroupStateRequest(group_id="g", topics=(topic,), state_epoch=state_epoch))
        return answer.results[0].partitions[0].error_code

    async def summary(self) -> ReadShareGroupStateSummaryResponsePartitionResult:
        data = ReadShareGroupStateSummaryRequestPartitionData(partition=0, leader_epoch=-1)
        topic = ReadStateSummaryData(topic_id=self.topic_id, partitions=(data,))
        answer = await self.send(ReadShareGroupStateSummaryRequest(group_id="g", topics=(topic,)))
        return answer.results[0].partitions[0]


async def test_what_is_written_is_read_by_the_next_leader_and_the_one_before_is_fenced(shares: Shares) -> None:
    await shares.ready()
    assert (await shares.read()).error_code is ErrorCode.invalid_request
    assert await shares.write(5, 6) is ErrorCode.invalid_request
    assert (await shares.summary()).start_offset == -1
    assert await shares.initialize() is NONE
    assert (await shares.read(3)).start_offset == 5
    for offset in range(5, 12):
        assert await shares.write(offset, offset, done=offset - 4) is NONE
    assert await shares.initialize() is NONE, "asked twice: nothing of what was written is dropped"
    found = await shares.read(4)
    assert (found.error_code, found.state_epoch, found.start_offset) == (NONE, 1, 5)
    assert [(each.first_offset, each.last_offset, each.delivery_state) for each in found.state_batches] == [(5, 11, 2)]
    assert await shares.write(12, 12) is ErrorCode.fenced_leader_epoch
    assert (await shares.read(3)).error_code is ErrorCode.fenced_leader_epoch
    assert await shares.initialize(0) is ErrorCode.fenced_state_epoch
    assert await shares.write(12, 12, leader_epoch=4, state_epoch=0) is ErrorCode.fenced_state_epoch
    summary = await shares.summary()
    assert (summary.leader_epoch, summary.start_offset, summary.delivery_complete_count) == (4, 5, 7)


async def test_a_share_partition_that_is_initialized_again_keeps_its_state_unless_it_is_told_where_to_begin(
    shares: Shares,
) -> None:
    await shares.ready()
    assert await shares.initialize(1, -1) is NONE
    assert (await shares.read()).start_offset == -1
    assert await shares.write(5, 6) is NONE
    assert await shares.initialize(2, -1) is NONE, "the answer of the first was lost, and a member has joined"
    found = await shares.read()
    assert (found.state_epoch, [(each.first_offset, each.last_offset) for each in found.state_batches]) == (1, [(5, 6)])
    assert await shares.initialize(3, 0) is NONE
    found = await shares.read()
    assert (found.state_epoch, found.start_offset, found.state_batches) == (3, 0, ())


async def test_what_makes_no_sense_is_refused_and_nothing_is_kept(shares: Shares) -> None:
    assert await shares.find("g:nonsense:0") is ErrorCode.invalid_request
    assert await shares.find("no-partition") is ErrorCode.invalid_request
    assert await shares.find(key_type=3) is ErrorCode.invalid_request
    assert await shares.find(version=5) is ErrorCode.invalid_request, "no version below 6 knows share-partitions"
    assert STATE not in shares.nodes.cluster.image.topics
    await shares.ready()
    assert await shares.initialize(partition=9) is ErrorCode.unknown_topic_or_partition
    assert await shares.initialize(partition=-1) is ErrorCode.invalid_request
    assert (await shares.read(group="")).error_code is ErrorCode.invalid_request
    assert await shares.initialize(start_offset=-2) is ErrorCode.invalid_request
    assert await shares.delete() is NONE, "what is not there is deleted"
    assert len(shares.active.shard) == 0


async def test_what_a_fence_is_left_of_is_not_initialized_until_it_begins_again(shares: Shares) -> None:
    await shares.ready()
    assert await shares.initialize(2) is NONE
    assert await shares.delete(2) is NONE
    assert (await shares.read()).error_code is ErrorCode.invalid_request
    assert await shares.write(5, 6, state_epoch=2) is ErrorCode.invalid_request
    summary = await shares.summary()
    assert (summary.error_code, summary.state_epoch, summary.leader_epoch, summary.start_offset) == (NONE, 2, 0, -1)
    assert await shares.initialize(2) is ErrorCode.fenced_state_epoch
    assert await shares.initialize(3) is NONE
    assert await shares.write(5, 6, state_epoch=3) is NONE


async def test_a_fence_goes_once_it_no_longer_holds_and_no_more_than_there_may_be_are_left(
    nodes: Nodes, shares: Shares, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shares.ready()
    monkeypatch.setattr(active_shard, "SHARE_PARTITIONS_MAX", 0)
    assert await shares.delete(1) is NONE
    assert len(shares.active.shard) == 0, "what is not known takes no place that another one may need"
    monkeypatch.undo()
    assert await shares.delete(1) is NONE
    await nodes[1].shares.prune(shares.active)
    assert len(shares.active.shard) == 1
    monkeypatch.setattr(state, "FENCE_MS", 0)
    await nodes[1].shares.prune(shares.active)
    assert len(shares.active.shard) == 0


async def test_a_fence_that_begins_again_while_old_ones_are_looked_for_stays(
    nodes: Nodes, shares: Shares, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shares.ready()
    assert await shares.delete(1) is NONE
    monkeypatch.setattr(state, "FENCE_MS", 0)
    (key,) = shares.active.shard.held
    write_all = ActiveShard._write_all

    async def later(active: ActiveShard, keys: list[ShareKey], *how: Any) -> None:
        if keys:
            await active.initialize(key, 2, 7)
        await write_all(active, keys, *how)

    monkeypatch.setattr(ActiveShard, "_write_all", later)
    await nodes[1].shares.prune(shares.active)
    assert (await shares.summary()).start_offset == 7


async def test_another_coordinator_goes_on(nodes: Nodes, shares: Shares) -> None:
    await shares.ready()
    await shares.initialize()
    await shares.read(3)
    for offset in range(5, 10):
        assert await shares.write(offset, offset, 4) is NONE
    before = dict(shares.active.shard.held)
    await nodes.stop(1)
    await nodes.start(1)
    await until(lambda: any(active.is_loaded for active in nodes[1].shares.shards))
    assert shares.active.shard.held == before
    assert await shares.write(10, 10) is NONE
    assert await shares.write(11, 11, leader_epoch=2) is ErrorCode.fenced_leader_epoch


async def test_records_that_are_not_needed_are_deleted(nodes: Nodes, shares: Shares) -> None:
    await shares.ready()
    await shares.initialize()
    for offset in range(5, 20):
        await shares.write(offset, offset)
    log = nodes.partition(1, STATE).log
    needed = run_to_end(shares.active.shard.needed_offset(log.state.high_watermark))
    assert needed > 0
    await nodes[1].shares.prune(shares.active)
    assert log.state.offsets.log_start_offset == needed
    before = dict(shares.active.shard.held)
    await nodes.stop(1)
    await nodes.start(1)
    await until(lambda: any(active.is_loaded for active in nodes[1].shares.shards))
    assert shares.active.shard.held == before


async def test_the_state_of_a_topic_goes_with_it(nodes: Nodes, shares: Shares) -> None:
    await shares.ready()
    await shares.initialize()
    await nodes.operator.delete_topic("t")
    await until(lambda: not shares.active.shard.held)
    assert (await shares.summary()).error_code is ErrorCode.unknown_topic_or_partition
    assert await shares.delete() is NONE


async def test_what_the_log_refuses_never_was(nodes: Nodes, shares: Shares, monkeypatch: pytest.MonkeyPatch) -> None:
    await shares.ready()
    await shares.initialize()
    before = dict(shares.active.shard.held)
    partition = nodes.partition(1, STATE)

    async def refused(*_: object, **__: object) -> None:
        raise KafkaError(ErrorCode.not_enough_replicas, "one of two")

    monkeypatch.setattr(partition, "append", refused)
    answers = await asyncio.gather(*(shares.write(offset, offset) for offset in range(5, 9)))
    assert set(answers) == {ErrorCode.coordinator_not_available}
    monkeypatch.undo()
    assert (dict(shares.active.shard.held), shares.active.shard.pending) == (before, {})
    assert await shares.write(5, 5) is NONE
    found = await shares.read(3)
    assert [(each.first_offset, each.last_offset) for each in found.state_batches] == [(5, 5)]


async def test_A2_numbers_of_any_size_are_answered_and_what_is_kept_of_them_is_read_again(
    nodes: Nodes, shares: Shares
) -> None:
    await shares.ready()
    int32, int64 = (0, -1, 2**31 - 1, -(2**31)), (0, -1, 2**63 - 1, -(2**63))
    kept = []
    for epoch, offset in product((*int32, 7), (*int64, 7)):
        for other in (*int32, 7):
            answers = [
                await shares.initialize(epoch, offset),
                await shares.initialize(other, offset, partition=epoch),
                (await shares.read(other)).error_code,
                await shares.write(offset, offset, state_epoch=epoch, leader_epoch=other, done=other),
                await shares.write(0, offset, other % 128, state_epoch=epoch, leader_epoch=other),
                await shares.delete(other),
            ]
            assert ErrorCode.unknown_server_error not in answers, (epoch, offset, other, answers)
            assert ErrorCode.coordinator_not_available not in answers, (epoch, offset, other, answers)
            kept.append(await shares.initialize(7, 7))
    assert NONE in kept
    before = dict(shares.active.shard.held)
    await nodes.stop(1)
    await nodes.start(1)
    await until(lambda: any(active.is_loaded for active in nodes[1].shares.shards))
    assert shares.active.shard.held == before
