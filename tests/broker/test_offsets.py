"""ListOffsets and OffsetForLeaderEpoch on real logs: every special timestamp from its version on, errors, searches."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from tierfetch.broker.handlers.offsets import OffsetHandlers, RemoteOffsets
from tierfetch.broker.replicas.partition import Partition
from tierfetch.fetcher.core.leader_replicas import FollowerFetch
from tierfetch.log.core import EpochEntry, LogConfig
from tierfetch.log.partition_log import PartitionLog, TimestampAndOffset
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.fetch.messages import READ_COMMITTED
from tierfetch.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.remote.core import (
    RemoteLogLedger,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from tierfetch.tests.broker.hosting import NOW_MS, Host, append, batch
from tierfetch.tests.broker.requests import all_versions, ask_message

CONSUMER, DEBUG_CONSUMER = -1, -2


class NoTimes:
    """A tier in which every search hangs."""

    async def offset_for_timestamp(
        self, partition: TopicIdPartition, log: PartitionLog, timestamp_ms: int
    ) -> TimestampAndOffset | None:
        await asyncio.Event().wait()
        raise AssertionError

    async def max_timestamp_offset(self, partition: TopicIdPartition, log: PartitionLog) -> TimestampAndOffset | None:
        return TimestampAndOffset(NOW_MS + 9, 0, 0)


def handlers(
    host: Host, ledger: RemoteLogLedger | None = None, *, tier: bool = True, search_timeout_ms: int = 60_000
) -> OffsetHandlers:
    remote = RemoteOffsets(lambda partition: ledger, NoTimes()) if tier else None
    return OffsetHandlers(host.hosted, remote, search_timeout_ms=search_timeout_ms)


async def listed(
    handler: OffsetHandlers,
    timestamp: int,
    version: int = 11,
    *,
    topic: str = "t",
    replica: int = CONSUMER,
    **fields: int,
) -> ListOffsetsPartitionResponse:
    wanted = ListOffsetsPartition(
        partition_index=0, timestamp=timestamp, current_leader_epoch=fields.pop("current_leader_epoch", -1)
    )
    request = ListOffsetsRequest(
        replica_id=replica, topics=(ListOffsetsTopic(name=topic, partitions=(wanted,)),), **fields
    )
    response = await ask_message(handler.list_offsets, request, version)
    return response.topics[0].partitions[0]


def finished(partition: Partition, start: int, end: int, ledger: RemoteLogLedger | None = None) -> RemoteLogLedger:
    """A ledger with the segment [start, end], inclusive, in epoch 0."""
    ledger = ledger or RemoteLogLedger(partition.partition)

    segment_id = RemoteLogSegmentId(partition.partition, UUID(int=start + 1))
    ledger.apply(RemoteLogSegmentMetadata(segment_id, start, end, NOW_MS, 1, NOW_MS, 100, (EpochEntry(0, start),)))
    done = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
    ledger.apply(RemoteLogSegmentMetadataUpdate(segment_id, done, NOW_MS, 1))
    return ledger


@pytest.mark.parametrize("version", all_versions(ApiKey.LIST_OFFSETS))
async def test_F2_special_timestamps_from_their_versions_on(host: Host, version: int) -> None:
    """Log start 1, local start 2, tiered to 2, high watermark 4."""
    partition = await host.topic("t", 1, config=LogConfig(segment_bytes=100, remote_storage_enable=True))
    await append(partition, *(batch(b"a" * 30) for _ in range(4)))
    await partition.log.increment_log_start_offset(1)
    await partition.log.delete_local_segments(2)
    handler = handlers(host, finished(partition, 0, 2))
    expected = {-1: (1, 4), -2: (1, 1), -3: (7, 0), -4: (8, 2), -5: (9, 2), -6: (11, 3)}
    for timestamp, (since, offset) in expected.items():
        answer = await listed(handler, timestamp, version)
        if version < since:
            assert answer.error_code is ErrorCode.unsupported_version, timestamp
        else:
            assert (answer.error_code, answer.offset) == (ErrorCode.none, offset), timestamp
    assert (await listed(handler, -7, version)).error_code is ErrorCode.unsupported_version


async def test_F2_latest_by_reader(host: Host) -> None:
    partition = await host.topic("t", 1, 2)
    await append(
        partition, batch(b"a"), batch(b"x", producer_id=5, sequence=0, transactional=True), batch(b"b"), batch(b"c")
    )
    partition.leader().record_fetch(2, FollowerFetch(3, 0))
    handler = handlers(host)
    assert (await listed(handler, -1, replica=2)).offset == 4
    assert (await listed(handler, -1)).offset == 3
    assert (await listed(handler, -1, isolation_level=READ_COMMITTED)).offset == 1
    assert (await listed(handler, -1)).leader_epoch == 0


async def test_F2_a_reader_of_replicas_is_answered_by_a_follower_out_of_its_log(host: Host) -> None:
    """Log start 0, local start 100, log end 100."""
    follower = await host.topic("t", 2, 1)
    await follower.log.truncate_fully_and_start_at(100, log_start_offset=0)
    handler = handlers(host, finished(follower, 0, 99))
    answers = [await listed(handler, timestamp, replica=DEBUG_CONSUMER) for timestamp in (-1, -2, -4, -5, -6)]
    assert [answer.offset for answer in answers] == [100, 0, 100, -1, -1]
    refused = [await listed(handler, -1), await listed(handler, NOW_MS, replica=DEBUG_CONSUMER)]
    assert {answer.error_code for answer in refused} == {ErrorCode.not_leader_or_follower}
    led = await host.topic("led", 1, 2)
    await append(led, batch(b"a"))
    assert (await listed(handlers(host), -1, topic="led", replica=DEBUG_CONSUMER)).offset == 1, "committed or not"


async def test_F2_leader_answers_unknown_until_it_has_read_the_remote_metadata(host: Host) -> None:
    await host.topic("t", 1)
    for handler in (handlers(host), handlers(host, tier=False)):
        assert [(await listed(handler, timestamp)).offset for timestamp in (-5, -6)] == [-1, -1]


async def test_F2_new_leader_that_is_behind_says_not_available(host: Host) -> None:
    partition = await host.topic("t", 1, 2)
    await append(partition, batch(b"a"))
    await host.view.elect_leader(partition.partition, 1)
    await partition.lead(host.view.image.topics["t"].partitions[0])
    handler = handlers(host)
    codes = [(await listed(handler, -1, version)).error_code for version in (4, 5)]
    assert codes == [ErrorCode.leader_not_available, ErrorCode.offset_not_available]
    assert (await listed(handler, NOW_MS)).error_code is ErrorCode.offset_not_available
    assert (await listed(handler, -1, replica=2)).offset == 1
    partition.leader().record_fetch(2, FollowerFetch(1, 0))
    assert (await listed(handler, -1)).offset == 1


async def test_search_by_time_and_largest_timestamp(host: Host) -> None:
    partition = await host.topic("t", 1, 2)
    await append(partition, batch(b"a"), batch(b"b"))
    handler = handlers(host)
    partition.leader().record_fetch(2, FollowerFetch(2, 0))
    for timestamp in (0, NOW_MS, -3):
        answer = await listed(handler, timestamp)
        assert (answer.offset, answer.timestamp, answer.leader_epoch) == (0, NOW_MS, 0)
    later = await listed(handler, NOW_MS + 1)
    assert (later.error_code, later.offset, later.timestamp) == (ErrorCode.none, -1, -1)


async def test_record_that_is_not_committed_is_not_told(host: Host) -> None:
    partition = await host.topic("t", 1, 2)
    await append(partition, batch(b"a"))
    handler = handlers(host)
    assert (await listed(handler, 0)).offset == -1
    assert (await listed(handler, 0, replica=2)).offset == 0


@pytest.mark.parametrize(("timestamp", "search"), [(5, "offset_for_timestamp"), (-3, "max_timestamp_offset")])
async def test_bootstrap_rule_12_what_local_retention_takes_during_a_search_is_searched_in_the_tier(
    host: Host, monkeypatch: pytest.MonkeyPatch, timestamp: int, search: str
) -> None:
    partition = await host.topic("t", 1, config=LogConfig(segment_bytes=100, remote_storage_enable=True))
    await append(partition, *(batch(b"a" * 30) for _ in range(3)))
    await partition.log.flush()
    search_local = getattr(partition.log, search)

    async def overtaken(*arguments: int) -> TimestampAndOffset | None:
        await partition.log.delete_local_segments(2)
        return await search_local(*arguments)

    async def in_the_tier(*_: object) -> TimestampAndOffset | None:
        return TimestampAndOffset(NOW_MS, 1, 0)

    monkeypatch.setattr(partition.log, search, overtaken)
    monkeypatch.setattr(NoTimes, search, in_the_tier)
    assert (await listed(handlers(host), timestamp)).offset == 1


async def test_search_in_a_tier_that_hangs_ends(host: Host) -> None:
    partition = await host.topic("t", 1, config=LogConfig(segment_bytes=100, remote_storage_enable=True))
    await append(partition, *(batch(b"a" * 30) for _ in range(3)))
    await partition.log.delete_local_segments(2)
    assert (await listed(handlers(host, search_timeout_ms=20), 5)).error_code is ErrorCode.request_timed_out


async def test_refusals(host: Host) -> None:
    await host.topic("t", 1)
    await host.topic("followed", 2, 1)
    handler = handlers(host)
    assert (await listed(handler, -1, topic="absent")).error_code is ErrorCode.unknown_topic_or_partition
    assert (await listed(handler, -1, topic="followed")).error_code is ErrorCode.not_leader_or_follower
    assert (await listed(handler, -1, current_leader_epoch=1)).error_code is ErrorCode.unknown_leader_epoch


# -- OffsetForLeaderEpoch ----------------------------------------------------------------------------------------------


async def epoch_end(
    host: Host, epoch: int, version: int = 4, current: int = -1, topic: str = "t"
) -> tuple[ErrorCode, int, int]:
    wanted = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        replica_id=DEBUG_CONSUMER, topics=(OffsetForLeaderTopic(topic=topic, partitions=(wanted,)),)
    )
    response = await ask_message(handlers(host).offset_for_leader_epoch, request, version)
    answer = response.topics[0].partitions[0]
    return answer.error_code, answer.leader_epoch, answer.end_offset


@pytest.mark.parametrize("version", all_versions(ApiKey.OFFSET_FOR_LEADER_EPOCH))
async def test_E2_end_of_the_largest_epoch_at_or_below_the_asked_one(host: Host, version: int) -> None:
    """Epochs 0@0 and 2@1, log end 2."""
    partition = await host.topic("t", 1)
    await append(partition, batch(b"a"))
    for _ in range(2):
        await host.view.elect_leader(partition.partition, 1)
    await partition.lead(host.view.image.topics["t"].partitions[0])
    await append(partition, batch(b"b"))
    answers = {epoch: await epoch_end(host, epoch, version) for epoch in (0, 1, 2, 3, -1)}
    assert answers == {
        0: (ErrorCode.none, 0, 1),
        1: (ErrorCode.none, 0, 1),
        2: (ErrorCode.none, 2, 2),
        3: (ErrorCode.none, -1, -1),
        -1: (ErrorCode.none, -1, -1),
    }
    assert (await epoch_end(host, 0, version, current=1))[0] is ErrorCode.fenced_leader_epoch
    assert (await epoch_end(host, 0, version, current=3))[0] is ErrorCode.unknown_leader_epoch


async def test_E2_refusals(host: Host) -> None:
    await host.topic("followed", 2, 1)
    assert (await epoch_end(host, 0, topic="followed"))[0] is ErrorCode.not_leader_or_follower
    assert (await epoch_end(host, 0, topic="absent"))[0] is ErrorCode.unknown_topic_or_partition
