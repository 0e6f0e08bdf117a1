"""The metadata manager in memory: conformance, and its faults."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tierfetch.remote import RemoteLogMetadataError
from tierfetch.testing.remote_log_metadata import (
    FINISHED,
    PARTITION,
    Managers,
    RemoteLogMetadataConformance,
    copy,
    make_segment,
    make_update,
)
from tierfetch.tests.fakes.remote_metadata import InMemoryRemoteLogMetadataManager, SharedMetadata


class TestInMemory(RemoteLogMetadataConformance):
    @pytest.fixture
    async def managers(self) -> AsyncIterator[Managers]:
        metadata = SharedMetadata()
        first, second = InMemoryRemoteLogMetadataManager(metadata), InMemoryRemoteLogMetadataManager(metadata)
        for manager in (first, second):
            await manager.start()
        yield first, second
        for manager in (first, second):
            await manager.close()


@pytest.fixture
async def pair() -> AsyncIterator[tuple[InMemoryRemoteLogMetadataManager, InMemoryRemoteLogMetadataManager]]:
    metadata = SharedMetadata()
    first, second = InMemoryRemoteLogMetadataManager(metadata), InMemoryRemoteLogMetadataManager(metadata)
    for manager in (first, second):
        await manager.start()
    await first.assign([PARTITION])
    yield first, second
    for manager in (first, second):
        await manager.close()


async def test_held_manager_stays_behind_until_released(pair) -> None:
    first, second = pair
    second.hold()
    await second.assign([PARTITION])
    await copy(first, 0)
    assert second.ledger(PARTITION) is None
    second.release()
    assert second.ledger(PARTITION).find(0, 0) is not None
    second.hold()
    await copy(first, 1)
    assert second.ledger(PARTITION).find(0, 100) is None
    waiter = asyncio.create_task(second.wait_newer(PARTITION, 3))
    await asyncio.sleep(0)
    assert not waiter.done()
    second.release()
    assert (await waiter).find(0, 100) is not None


async def test_write_of_a_held_manager_waits(pair) -> None:
    first, second = pair
    await second.assign([PARTITION])
    first.hold()
    writer = asyncio.create_task(first.add_segment(make_segment(0)))
    await second.wait_newer(PARTITION, 0)
    assert not writer.done()
    first.release()
    await writer


async def test_failed_write_leaves_nothing_and_a_lost_answer_leaves_the_event(pair) -> None:
    first, second = pair
    await second.assign([PARTITION])
    first.fail_write(1)
    first.lose_answer_of_write(3)
    with pytest.raises(RemoteLogMetadataError, match="write 1"):
        await first.add_segment(make_segment(0))
    assert second.ledger(PARTITION).version == 0
    await first.add_segment(make_segment(0))
    with pytest.raises(RemoteLogMetadataError, match="answer to write 3"):
        await first.update_segment(make_update(0, FINISHED))
    assert second.ledger(PARTITION).find(0, 0) is not None
    await first.update_segment(make_update(0, FINISHED))
    assert first.write_count == 4
    assert second.ledger(PARTITION).version == 2
