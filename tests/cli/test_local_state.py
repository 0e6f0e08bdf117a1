"""What a broker tells of its disks, one of which may be offline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tierfetch.cli.admin.local_state import local_state
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.cluster import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from tierfetch.protocol.net.client import Address
from tierfetch.protocol.topics import TopicPartition


def held(index: int, size: int) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(partition_index=index, partition_size=size, offset_lag=0, is_future_key=False)


def directory(name: str, code: ErrorCode, *partitions: DescribeLogDirsPartition) -> DescribeLogDirsResult:
    topics = (DescribeLogDirsTopic(name="t", partitions=partitions),) if partitions else ()
    return DescribeLogDirsResult(log_dir=name, error_code=code, topics=topics)


class Admin:
    def __init__(self, *directories: DescribeLogDirsResult) -> None:
        self._answer = DescribeLogDirsResponse(results=directories)

    async def send_to(self, _: Address, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
        assert request.topics is None
        return self._answer


@pytest.mark.parametrize(
    ("code", "size_bytes"),
    [(ErrorCode.none, 30), (ErrorCode.kafka_storage_error, 30), (ErrorCode.cluster_authorization_failed, None)],
)
async def test_an_offline_directory_hides_none_of_the_others(code: ErrorCode, size_bytes: int | None) -> None:
    admin: Any = Admin(directory("/a", ErrorCode.none, held(0, 10), held(1, 20)), directory("/b", code))
    found = await local_state(admin, Address("h", 1))
    assert (None if found is None else found.size_bytes) == size_bytes


async def test_F11_C9_thin_replicas_and_those_that_cannot_serve() -> None:
    thin, failed = replace(held(0, 10), warm_in_ms=1_500), replace(held(2, 30), is_out_of_service=True)
    there = directory("/a", ErrorCode.none, thin, held(1, 20), failed)
    admin: Any = Admin(there)
    found = await local_state(admin, Address("h", 1))
    assert found is not None
    assert found.warm_in_ms == {TopicPartition("t", 0): 1_500}
    assert found.out_of_service == {TopicPartition("t", 2)}
