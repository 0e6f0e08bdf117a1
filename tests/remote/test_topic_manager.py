"""The metadata manager on a topic: conformance, and every call failing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from uuid import UUID

import pytest
from pydantic import ValidationError

from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.remote import RemoteLogMetadataError
from tierfetch.remote.core import IllegalTransitionError
from tierfetch.remote.core.records import encode_event
from tierfetch.remote.metadata_topic import MetadataTopicSettings, RemoteLogMetadataContext, metadata_partition
from tierfetch.remote.topic_manager import TopicBasedRemoteLogMetadataManager, TopicManagerConfig
from tierfetch.testing.remote_log_metadata import (
    DELETE_FINISHED,
    DELETE_STARTED,
    FINISHED,
    PARTITION,
    Managers,
    RemoteLogMetadataConformance,
    copy,
    make_segment,
    make_update,
    ready,
)
from tierfetch.tests.fakes.metadata_topic import FakeMetadataTopic, MetadataLog

NUMBER = metadata_partition(PARTITION, 5)
SAME_METADATA_PARTITION = next(
    partition
    for partition in (TopicIdPartition(UUID(int=number), "neighbour", 0) for number in range(100))
    if metadata_partition(partition, 5) == NUMBER
)


def make_manager(topic: FakeMetadataTopic, **config: int) -> TopicBasedRemoteLogMetadataManager:
    count = topic.log.partition_count
    fast = {
        "retry_backoff_ms": 1,
        "retry_backoff_max_ms": 2,
        "consume_wait_ms": 5_000,
        "topic_num_partitions": count,
        **config,
    }
    return TopicBasedRemoteLogMetadataManager(TopicManagerConfig(**fast), RemoteLogMetadataContext(topic, Random(1)))


@asynccontextmanager
async def started(topic: FakeMetadataTopic, **config: int) -> AsyncIterator[TopicBasedRemoteLogMetadataManager]:
    manager = make_manager(topic, **config)
    await manager.start()
    try:
        async with asyncio.timeout(10):
            yield manager
    finally:
        await manager.close()


class TestTopicBased(RemoteLogMetadataConformance):
    @pytest.fixture
    async def managers(self) -> AsyncIterator[Managers]:
        log = MetadataLog()
        async with started(FakeMetadataTopic(log)) as first, started(FakeMetadataTopic(log)) as second:
            yield first, second


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 a fake's counter has no event
        await asyncio.sleep(0)


def fill(log: MetadataLog, count: int, *partitions: TopicIdPartition) -> None:
    for number in range(count):
        for partition in partitions:
            log.append(NUMBER, encode_event(make_segment(number, partition)))
            log.append(NUMBER, encode_event(make_update(number, FINISHED, partition)))


async def test_events_lie_in_kafkas_partition_and_format() -> None:
    log = MetadataLog()
    async with started(FakeMetadataTopic(log)) as manager:
        await manager.assign([PARTITION])
        await copy(manager, 0)
    assert log.values == {NUMBER: [encode_event(make_segment(0)), encode_event(make_update(0, FINISHED))]}


async def test_topic_is_created_as_configured_once_it_can_be_reached() -> None:
    topic = FakeMetadataTopic(MetadataLog(partition_count=7))
    topic.fail("ensure", 1, error=ConnectionRefusedError(111, "refused"))
    topic.fail("ensure", 2, error=ZeroDivisionError("a bug"))
    created = {"topic_num_partitions": 7, "topic_replication_factor": 1, "topic_min_isr": 1, "topic_brokers_min": 4}
    async with started(topic, **created) as manager:
        await manager.assign([PARTITION])
        assert manager.ledger(PARTITION) is None
        await ready(manager)
    assert topic.settings == MetadataTopicSettings(7, 1, 1, -1, 4)
    assert topic.calls["ensure"] == 3


async def test_a_topic_with_another_count_of_partitions_is_not_read(caplog: pytest.LogCaptureFixture) -> None:
    """The events would be looked for, and written, where no other broker does."""
    topic = FakeMetadataTopic(MetadataLog())
    fill(topic.log, 1, PARTITION)
    reasons: list[str] = []
    context = RemoteLogMetadataContext(topic, Random(1), reasons.append)
    manager = TopicBasedRemoteLogMetadataManager(TopicManagerConfig(topic_num_partitions=6), context)
    await manager.start()
    await manager.assign([PARTITION])
    await until(lambda: bool(reasons))
    assert manager.ledger(PARTITION) is None
    await manager.close()
    (reason,) = reasons
    assert topic.calls["ensure"] == 1, "it is for an operator to decide"
    key = "rlmm.config.remote.log.metadata.topic.num.partitions"
    assert f"__remote_log_metadata has 5 partitions, and {key} says 6" in reason
    assert reason in caplog.text


async def test_where_no_count_is_set_the_topic_has_its_own() -> None:
    topic = FakeMetadataTopic(MetadataLog(partition_count=7))
    manager = TopicBasedRemoteLogMetadataManager(TopicManagerConfig(), RemoteLogMetadataContext(topic, Random(1)))
    await manager.start()
    await manager.assign([PARTITION])
    async with asyncio.timeout(10):
        await ready(manager)
    assert topic.settings is not None
    assert topic.settings.num_partitions == 50, "what it would have if it was made now"
    await manager.close()


async def test_a_retention_that_forgets_what_is_in_the_tier_is_said_at_the_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with started(FakeMetadataTopic(MetadataLog())):
        assert "retention" not in caplog.text
    async with started(FakeMetadataTopic(MetadataLog()), topic_retention_ms=5):
        assert "remote.log.metadata.topic.retention.ms=5" in caplog.text


async def test_ready_only_when_all_that_was_committed_at_assignment_is_read() -> None:
    log, topic = MetadataLog(), FakeMetadataTopic(MetadataLog())
    topic.log = log
    fill(log, 10, PARTITION)
    topic.hold_reads()
    async with started(topic) as manager:
        await manager.assign([PARTITION])
        await until(lambda: topic.calls["read"] == 1)
        for _ in range(10):
            await asyncio.sleep(0)
        assert topic.calls["read"] == 1, "a long poll of a second cursor would only be in the way"
        assert manager.ledger(PARTITION) is None
        topic.release_reads()
        assert len((await ready(manager)).finished()) == 10


async def test_a_new_partition_reads_its_past_while_the_others_go_on() -> None:
    log = MetadataLog()
    fill(log, 20, PARTITION, SAME_METADATA_PARTITION)
    async with started(FakeMetadataTopic(log)) as manager:
        await manager.assign([PARTITION])
        ledger = await ready(manager)
        version = ledger.version
        await manager.assign([SAME_METADATA_PARTITION])
        await copy(manager, 20)
        assert ledger.version == version + 2
        assert len((await ready(manager, SAME_METADATA_PARTITION)).finished()) == 20
        await copy(manager, 20, SAME_METADATA_PARTITION)
        assert len((await ready(manager, SAME_METADATA_PARTITION)).finished()) == 21
        assert ledger.version == version + 2


async def test_a_joining_partition_may_overtake_a_stuck_live_cursor(caplog: pytest.LogCaptureFixture) -> None:
    """It is ready with all that is committed, and the live cursor does not feed it the same events again."""
    log = MetadataLog()
    topic = FakeMetadataTopic(log)
    async with started(topic, request_timeout_ms=100) as manager:
        await manager.assign([PARTITION])
        await ready(manager)
        stuck = topic.calls["read"] + 1
        topic.hang("read", stuck)
        await until(lambda: topic.calls["read"] == stuck)
        fill(log, 2, SAME_METADATA_PARTITION)
        await manager.assign([SAME_METADATA_PARTITION])
        ledger = await ready(manager, SAME_METADATA_PARTITION)
        assert len(ledger.finished()) == 2
        await copy(manager, 2, SAME_METADATA_PARTITION)
        assert len(ledger.finished()) == 3
    assert [record.getMessage() for record in caplog.records] == [
        f"cannot read metadata partition {NUMBER}, retrying: TimeoutError"
    ]


async def test_partitions_assigned_one_by_one_share_few_reads() -> None:
    log, partitions = MetadataLog(partition_count=1), [TopicIdPartition(UUID(int=9), "t", n) for n in range(50)]
    for partition in partitions:
        log.append(0, encode_event(make_segment(0, partition)))
    topic = FakeMetadataTopic(log, batch_records_max=10)
    async with started(topic) as manager:
        for partition in partitions:
            await manager.assign([partition])
            await asyncio.sleep(0)
        for partition in partitions:
            assert len(await ready(manager, partition)) == 1
    assert topic.calls["read"] < 60


OUTSIDE, BUG = OSError(5, "io"), RuntimeError("a bug")


@pytest.mark.parametrize(
    ("call", "error"),
    [
        *[(call, OUTSIDE) for call in ("ensure", "bounds", "read", "append")],
        *[(call, BUG) for call in ("ensure", "bounds", "read")],
    ],
)
async def test_every_call_may_fail_once(call: str, error: Exception) -> None:
    """Each number in turn, until a run ends without that call failing."""
    for number in range(1, 30):
        log = MetadataLog()
        fill(log, 2, PARTITION)
        topic = FakeMetadataTopic(log)
        topic.fail(call, number, error=error)
        async with started(topic) as manager:
            await manager.assign([PARTITION])
            await ready(manager)
            await copy(manager, 2)
            await manager.assign([SAME_METADATA_PARTITION])
            await copy(manager, 0, SAME_METADATA_PARTITION)
            assert len((await ready(manager)).finished()) == 3
            assert len((await ready(manager, SAME_METADATA_PARTITION)).finished()) == 1
        if topic.calls[call] < number:
            return
    raise AssertionError(f"{call} was called more often than expected")


@pytest.mark.parametrize("call", ["ensure", "bounds", "read", "append"])
async def test_every_call_may_hang_and_is_given_up_at_its_deadline(call: str) -> None:
    topic = FakeMetadataTopic(MetadataLog())
    topic.hang(call, 1)
    async with started(topic, request_timeout_ms=20) as manager:
        await manager.assign([PARTITION])
        await copy(manager, 0)
        assert len((await ready(manager)).finished()) == 1


async def test_lost_answer_is_resolved_by_reading_on() -> None:
    """The append fails, but its event comes back: success, without a second record."""
    topic = FakeMetadataTopic(MetadataLog())
    topic.lose_answer(1)
    async with started(topic, retry_backoff_ms=4_000, retry_backoff_max_ms=4_000) as manager:
        await manager.assign([PARTITION])
        await manager.add_segment(make_segment(0))
    assert topic.calls["append"] == 1


async def test_duplicates_of_a_retried_append_are_harmless() -> None:
    topic = FakeMetadataTopic(MetadataLog())
    topic.lose_answer(1)
    async with started(topic) as manager:
        await manager.assign([PARTITION])
        await ready(manager)
        topic.hold_reads()
        writer = asyncio.create_task(manager.add_segment(make_segment(0)))
        await until(lambda: topic.calls["append"] == 2)
        topic.release_reads()
        await writer
        await manager.update_segment(make_update(0, FINISHED))
        assert (await ready(manager)).version == 2
    assert len(topic.log.values[NUMBER]) == 3


async def test_write_that_is_not_read_back_in_time_has_an_unknown_fate_which_the_ledger_resolves() -> None:
    topic = FakeMetadataTopic(MetadataLog())
    async with started(topic, consume_wait_ms=30) as manager:
        await manager.assign([PARTITION])
        await ready(manager)
        topic.hold_reads()
        with pytest.raises(RemoteLogMetadataError, match="not read back within 30 ms; it may or may not be w"):
            await manager.add_segment(make_segment(0))
        topic.release_reads()
        ledger = await manager.wait_newer(PARTITION, 0)
        assert ledger.get(make_segment(0).segment_id) == make_segment(0)
        await manager.add_segment(make_segment(0))
    assert topic.calls["append"] == 1


async def test_write_before_the_ledger_is_ready_fails_at_its_deadline_and_writes_nothing() -> None:
    topic = FakeMetadataTopic(MetadataLog())
    topic.hang("bounds", 1)
    async with started(topic, consume_wait_ms=20) as manager:
        await manager.assign([PARTITION])
        with pytest.raises(RemoteLogMetadataError):
            await manager.add_segment(make_segment(0))
    assert topic.calls["append"] == 0


async def test_the_loser_of_a_race_is_told() -> None:
    """Both ledgers allow the event when it is written; the log's order decides."""
    log = MetadataLog()
    slow_topic = FakeMetadataTopic(log)
    async with started(slow_topic) as slow, started(FakeMetadataTopic(log)) as quick:
        for manager in (slow, quick):
            await manager.assign([PARTITION])
        await copy(quick, 0)
        await slow.wait_newer(PARTITION, 1)
        slow_topic.hold_reads()
        await quick.update_segment(make_update(0, DELETE_STARTED))
        await quick.update_segment(make_update(0, DELETE_FINISHED))
        loser = asyncio.create_task(slow.update_segment(make_update(0, DELETE_STARTED, broker_id=2)))
        await until(lambda: slow_topic.calls["append"] == 1)
        slow_topic.release_reads()
        with pytest.raises(IllegalTransitionError, match="DELETE_SEGMENT_STARTED cannot follow an unknown segment"):
            await loser
        assert (await ready(slow)).version == (await ready(quick)).version == 4


async def test_foreign_and_illegal_records_are_skipped_with_one_line_each(caplog: pytest.LogCaptureFixture) -> None:
    log = MetadataLog()
    log.append(NUMBER, b"\1\7\0 something newer")
    log.append(NUMBER, encode_event(make_update(5, FINISHED)))
    fill(log, 1, PARTITION)
    async with started(FakeMetadataTopic(log)) as manager:
        with caplog.at_level(logging.WARNING):
            await manager.assign([PARTITION])
            assert len((await ready(manager)).finished()) == 1
            await manager.assign([SAME_METADATA_PARTITION])
            await ready(manager, SAME_METADATA_PARTITION)
            log.append(NUMBER, encode_event(make_update(6, FINISHED)))
            await copy(manager, 1)
    expected = ("unknown: api key 7, version 0", "skipped 1 illegal events", "COPY_SEGMENT_FINISHED cannot follow")
    for record, text in zip(caplog.records, expected, strict=True):
        assert text in record.getMessage()


async def test_lost_metadata_is_read_anew_and_waiters_go_on_waiting() -> None:
    log = MetadataLog()
    fill(log, 3, PARTITION)
    async with started(FakeMetadataTopic(log)) as manager:
        await manager.assign([PARTITION])
        before = await ready(manager)
        waiter = asyncio.create_task(manager.wait_newer(PARTITION, before.version))
        await asyncio.sleep(0)
        log.truncate(NUMBER, 3)
        after = await waiter
        assert after is not before
        assert after.version > before.version
        assert [metadata.start_offset for metadata in after.segments()] == [0, 100]
        await manager.update_segment(make_update(1, FINISHED))
        assert len(after.finished()) == 2


async def test_metadata_lost_and_written_over_before_anybody_looked_is_read_anew() -> None:
    log = MetadataLog()
    fill(log, 3, PARTITION)
    async with started(FakeMetadataTopic(log)) as manager:
        await manager.assign([PARTITION])
        before = await ready(manager)
        log.truncate(NUMBER, 2)
        for number in range(10, 14):
            log.append(NUMBER, encode_event(make_segment(number, PARTITION)))
            log.append(NUMBER, encode_event(make_update(number, FINISHED, PARTITION)))
        after = await manager.wait_newer(PARTITION, before.version)
        assert [metadata.start_offset for metadata in after.finished()] == [0, 1_000, 1_100, 1_200, 1_300]


async def test_a_new_leader_and_retention_are_no_loss(caplog: pytest.LogCaptureFixture) -> None:
    log = MetadataLog()
    fill(log, 3, PARTITION)
    async with started(FakeMetadataTopic(log)) as manager:
        await manager.assign([PARTITION])
        before = await ready(manager)
        log.leader_epoch = 1
        await copy(manager, 5)
        log.trim(NUMBER, 8)
        await copy(manager, 6)
        assert (await ready(manager)) is before
    assert not caplog.records


async def test_metadata_lost_while_a_partition_joins_is_read_anew() -> None:
    log = MetadataLog()
    fill(log, 3, PARTITION, SAME_METADATA_PARTITION)
    topic = FakeMetadataTopic(log)
    async with started(topic) as manager:
        await manager.assign([PARTITION])
        await ready(manager)
        topic.hold_reads()
        reads = topic.calls["read"]
        await manager.assign([SAME_METADATA_PARTITION])
        await until(lambda: topic.calls["read"] > reads)
        log.trim(NUMBER, 2)
        topic.release_reads()
        assert len((await ready(manager, SAME_METADATA_PARTITION)).finished()) == 3
        assert len((await ready(manager)).finished()) == 2


async def test_metadata_that_begins_later_is_read_from_there() -> None:
    log = MetadataLog(start_offsets={NUMBER: 1_000})
    fill(log, 3, PARTITION)
    async with started(FakeMetadataTopic(log)) as manager:
        await manager.assign([PARTITION])
        assert len((await ready(manager)).finished()) == 3


async def test_a_reader_that_backs_off_asks_another_leader_at_once() -> None:
    log = MetadataLog()
    fill(log, 3, PARTITION)
    topic = FakeMetadataTopic(log)
    topic.fail("bounds", 1, 2)
    async with started(topic, retry_backoff_ms=60_000, retry_backoff_max_ms=60_000) as manager:
        await manager.assign([PARTITION])
        await until(lambda: topic.calls["bounds"] == 1)
        topic.elect()
        await until(lambda: topic.calls["bounds"] == 2)
        topic.elect()
        assert len((await ready(manager)).finished()) == 3


async def test_readers_end_with_their_last_partition_and_with_close() -> None:
    topic = FakeMetadataTopic(MetadataLog())
    async with started(topic) as manager:
        before = asyncio.all_tasks()
        await manager.assign([PARTITION, SAME_METADATA_PARTITION])
        await ready(manager)
        await manager.unassign([PARTITION])
        await copy(manager, 0, SAME_METADATA_PARTITION)
        await manager.unassign([SAME_METADATA_PARTITION])
        assert asyncio.all_tasks() <= before


async def test_unassign_during_a_write_ends_it() -> None:
    topic = FakeMetadataTopic(MetadataLog())
    async with started(topic) as manager:
        await manager.assign([PARTITION])
        await ready(manager)
        topic.hold_reads()
        writer: Awaitable[None] = asyncio.create_task(manager.add_segment(make_segment(0)))
        await until(lambda: topic.calls["append"] == 1)
        await manager.unassign([PARTITION])
        with pytest.raises(RemoteLogMetadataError, match="does not follow"):
            await writer


def test_config_takes_kafkas_keys_and_refuses_others() -> None:
    config = TopicManagerConfig.model_validate({"remote.log.metadata.topic.num.partitions": "5"})
    assert config.topic_num_partitions == 5
    with pytest.raises(ValidationError):
        TopicManagerConfig.model_validate({"remote.log.metadata.topic.nonsense": "5"})
