"""DeleteRecords: the log start rises, and every in-sync replica has followed before the answer."""

from __future__ import annotations

import asyncio

import pytest

from tierfetch.broker.handlers.delete_records import DeleteRecordsHandler
from tierfetch.broker.replicas.partition import Partition
from tierfetch.fetcher.core.leader_replicas import FollowerFetch
from tierfetch.log.core import AppendOrigin, LogConfig
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.offsets import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tierfetch.protocol.topics import REMOTE_LOG_METADATA_TOPIC
from tierfetch.tests.broker.hosting import Host, batch
from tierfetch.tests.broker.requests import all_versions, ask_message
from tierfetch.tests.broker.waiting import until


async def delete(
    host: Host, offset: int, *, topic: str = "t", version: int = 2, timeout_ms: int = 5000
) -> tuple[ErrorCode, int]:
    wanted = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(
        topics=(DeleteRecordsTopic(name=topic, partitions=(wanted,)),), timeout_ms=timeout_ms
    )
    response = await ask_message(DeleteRecordsHandler(host.hosted).delete_records, request, version)
    answer = response.topics[0].partitions[0]
    return answer.error_code, answer.low_watermark


async def append(partition: Partition, count: int) -> None:
    for _ in range(count):
        await partition.append(batch(b"a"), AppendOrigin.CLIENT, acks_all=False)


@pytest.mark.parametrize("version", all_versions(ApiKey.DELETE_RECORDS))
async def test_up_to_an_offset_and_up_to_the_high_watermark(host: Host, version: int) -> None:
    partition = await host.topic("t", 1)
    await append(partition, 3)
    assert await delete(host, 2, version=version) == (ErrorCode.none, 2)
    assert await delete(host, 1, version=version) == (ErrorCode.none, 2)
    assert await delete(host, -1, version=version) == (ErrorCode.none, 3)
    assert partition.log.state.log_start_offset == 3


async def test_remote_log_metadata_are_never_deleted(host: Host) -> None:
    partition = await host.topic(REMOTE_LOG_METADATA_TOPIC, 1)
    await append(partition, 3)
    assert await delete(host, 2, topic=REMOTE_LOG_METADATA_TOPIC) == (ErrorCode.policy_violation, -1)
    assert partition.log.state.log_start_offset == 0


async def test_waits_for_the_in_sync_replicas(host: Host) -> None:
    partition = await host.topic("t", 1, 2)
    await append(partition, 3)
    leader = partition.leader()
    leader.record_fetch(2, FollowerFetch(3, log_start_offset=0))
    waiting = asyncio.create_task(delete(host, 2))
    await until(lambda: partition.log.state.log_start_offset == 2 and len(partition.low_watermark_news) == 1)
    assert not waiting.done()
    leader.record_fetch(2, FollowerFetch(3, log_start_offset=2))
    assert await waiting == (ErrorCode.none, 2)


async def test_replica_that_does_not_follow_in_time(host: Host) -> None:
    partition = await host.topic("t", 1, 2)
    await append(partition, 3)
    partition.leader().record_fetch(2, FollowerFetch(3, log_start_offset=0))
    assert await delete(host, 2, timeout_ms=10) == (ErrorCode.request_timed_out, -1)
    assert len(partition.low_watermark_news) == 0


async def test_leadership_that_ends_meanwhile(host: Host) -> None:
    partition = await host.topic("t", 1, 2)
    await append(partition, 1)
    partition.leader().record_fetch(2, FollowerFetch(1, log_start_offset=0))
    waiting = asyncio.create_task(delete(host, 1))
    await until(lambda: len(partition.low_watermark_news) == 1)
    await host.view.elect_leader(partition.partition, 2)
    await partition.step_down(host.view.image.topics["t"].partitions[0])
    assert await waiting == (ErrorCode.not_leader_or_follower, -1)


async def test_refusals(host: Host) -> None:
    await append(await host.topic("t", 1), 2)
    await host.topic("compacted", 1, config=LogConfig(cleanup_policy=frozenset({"compact"})))
    await host.topic("followed", 2, 1)
    assert await delete(host, 3) == (ErrorCode.offset_out_of_range, -1)
    assert await delete(host, -2) == (ErrorCode.offset_out_of_range, -1)
    assert await delete(host, 0, topic="compacted") == (ErrorCode.policy_violation, -1)
    assert await delete(host, 0, topic="followed") == (ErrorCode.not_leader_or_follower, -1)
    assert await delete(host, 0, topic="absent") == (ErrorCode.unknown_topic_or_partition, -1)
