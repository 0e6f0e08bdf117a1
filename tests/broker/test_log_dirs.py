"""What lies in a broker's directories"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tierfetch.broker.handlers.log_dirs import LogDirHandler
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.cluster import DescribableLogDirTopic, DescribeLogDirsRequest, DescribeLogDirsResult
from tierfetch.protocol.topics import TopicPartition
from tierfetch.tests.broker.requests import ask_message
from tierfetch.tests.fakes.disk import FailNth, MemoryDisk


def log(*, size_bytes: int, high_watermark: int, log_end_offset: int) -> SimpleNamespace:
    segments = SimpleNamespace(size_bytes=size_bytes)
    return SimpleNamespace(
        state=SimpleNamespace(segments=segments, high_watermark=high_watermark, log_end_offset=log_end_offset)
    )


def handler(
    offline: str | None = None,
    disk: MemoryDisk | None = None,
    failures: dict[TopicPartition, object] | None = None,
    **conditions: Any,
) -> LogDirHandler:
    logs = {
        TopicPartition("b", 0): log(size_bytes=30, high_watermark=5, log_end_offset=9),
        TopicPartition("a", 1): log(size_bytes=20, high_watermark=9, log_end_offset=5),
        TopicPartition("a", 0): log(size_bytes=10, high_watermark=5, log_end_offset=5),
    }
    directory = SimpleNamespace(path=Path("/d"), logs=logs, futures={}, failures=failures or {}, offline=offline)
    return LogDirHandler(SimpleNamespace(directories=(directory,)), disk or MemoryDisk(), **conditions)


async def result_of(subject: LogDirHandler, *topics: DescribableLogDirTopic) -> DescribeLogDirsResult:
    """Return what is said of the one directory; of all topics unless some are named."""
    request = DescribeLogDirsRequest(topics=topics or None)
    (result,) = (await ask_message(subject.describe_log_dirs, request, 5)).results
    return result


async def described(*topics: DescribableLogDirTopic) -> list[tuple[str, int, int, int]]:
    result = await result_of(handler(), *topics)
    assert result.log_dir == "/d"
    return [
        (topic.name, part.partition_index, part.partition_size, part.offset_lag)
        for topic in result.topics
        for part in topic.partitions
    ]


async def test_all_partitions_in_order_with_their_sizes_and_lags() -> None:
    assert await described() == [("a", 0, 10, 0), ("a", 1, 20, 4), ("b", 0, 30, 0)]


async def test_only_those_asked_for() -> None:
    wanted = (
        DescribableLogDirTopic(topic="a", partitions=(1, 7)),
        DescribableLogDirTopic(topic="c", partitions=(0,)),
    )
    assert await described(*wanted) == [("a", 1, 20, 4)]


async def test_a_directory_that_is_offline_says_so() -> None:
    for offline, code in ((None, ErrorCode.none), ("no disk", ErrorCode.kafka_storage_error)):
        assert (await result_of(handler(offline))).error_code is code


async def test_how_large_the_disk_is_and_what_is_left_of_it() -> None:
    disk = MemoryDisk(capacity_bytes=100)
    result = await result_of(handler(disk=disk))
    assert (result.total_bytes, result.usable_bytes) == (100, 100)
    disk.faults = FailNth(1, reads=True)
    result = await result_of(handler(disk=disk))
    assert (result.total_bytes, result.usable_bytes) == (-1, -1), "which is Kafka's word for unknown"


async def test_F11_which_replicas_are_thin_and_how_long_at_most() -> None:
    subject = handler(warm_in_ms=lambda: {TopicPartition("a", 1): 1_500})
    assert await told(subject, "warm_in_ms") == {"a-0": -1, "a-1": 1_500, "b-0": -1}


async def test_C9_which_replicas_cannot_serve_whether_their_log_is_open_or_not() -> None:
    subject = handler(
        failures={TopicPartition("c", 2): "damaged"},
        out_of_service=lambda: {TopicPartition("a", 1), TopicPartition("c", 2)},
    )
    assert await told(subject, "is_out_of_service") == {"a-0": False, "a-1": True, "b-0": False, "c-2": True}


async def test_R1_why_work_in_the_tier_failed_in_so_many_characters() -> None:
    subject = handler(tier_errors=lambda: {TopicPartition("a", 1): "copy: " + "x" * 1000})
    assert await told(subject, "tier_error") == {"a-0": "", "a-1": "copy: " + "x" * 194, "b-0": ""}


async def told(subject: LogDirHandler, field: str) -> dict[str, object]:
    result = await result_of(subject)
    return {
        f"{topic.name}-{part.partition_index}": getattr(part, field)
        for topic in result.topics
        for part in topic.partitions
    }
