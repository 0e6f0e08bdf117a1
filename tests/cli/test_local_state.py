"""What a broker tells of its disks, one of which may be offline."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tierfetch.cli.admin.local_state import local_state
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.net.client import Address
from tierfetch.protocol.topics import TopicPartition


def directory(name: str, code: ErrorCode, *sizes: int) -> SimpleNamespace:
    partitions = [SimpleNamespace(partition_index=index, partition_size=size) for index, size in enumerate(sizes)]
    topics = [SimpleNamespace(name="t", partitions=partitions)] if sizes else []
    return SimpleNamespace(log_dir=name, error_code=code, topics=topics)


class Admin:
    def __init__(self, *directories: SimpleNamespace) -> None:
        self._answer = SimpleNamespace(results=directories)

    async def ask_at(self, *_: Any) -> SimpleNamespace:
        return self._answer


@pytest.mark.parametrize(
    ("code", "size_bytes"),
    [(ErrorCode.none, 30), (ErrorCode.kafka_storage_error, 30), (ErrorCode.cluster_authorization_failed, None)],
)
async def test_an_offline_directory_hides_none_of_the_others(code: ErrorCode, size_bytes: int | None) -> None:
    admin: Any = Admin(directory("/a", ErrorCode.none, 10, 20), directory("/b", code))
    found = await local_state(admin, Address("h", 1))
    assert (None if found is None else found.size_bytes) == size_bytes


async def test_F11_C9_thin_replicas_and_those_that_cannot_serve() -> None:
    there = directory("/a", ErrorCode.none, 10, 20, 30)
    parts = there.topics[0].partitions
    parts[0].warm_in_ms, parts[1].warm_in_ms, parts[2].is_out_of_service = 1_500, -1, True
    admin: Any = Admin(there)
    found = await local_state(admin, Address("h", 1))
    assert found is not None
    assert found.warm_in_ms == {TopicPartition("t", 0): 1_500}
    assert found.out_of_service == {TopicPartition("t", 2)}
