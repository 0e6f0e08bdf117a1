"""What every `RemoteLogMetadataManager` must do (`tierfetch.remote.metadata`). Ships with the wheel.

    from tierfetch.testing import RemoteLogMetadataConformance

    class TestMyMetadata(RemoteLogMetadataConformance):
        @pytest.fixture
        async def managers(self):
            first, second = MyManager(...), MyManager(...)   # two brokers, one metadata store, empty
            await first.start()
            await second.start()
            yield first, second
            await first.close()
            await second.close()

pytest-asyncio in auto mode is expected.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from tierfetch.log.core import EpochEntry
from tierfetch.protocol import TopicIdPartition
from tierfetch.remote import RemoteLogMetadataError, RemoteLogMetadataManager
from tierfetch.remote.core import (
    IllegalTransitionError,
    RemoteLogLedger,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
)

PARTITION = TopicIdPartition(UUID(int=0x5EED), "conformance", 3)
OTHER = TopicIdPartition(UUID(int=0x5EED), "conformance", 4)
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
DELETE_STARTED = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
DELETE_FINISHED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED

Managers = tuple[RemoteLogMetadataManager, RemoteLogMetadataManager]


def make_segment(number: int, partition: TopicIdPartition = PARTITION) -> RemoteLogSegmentMetadata:
    """Offsets [100 * number, 100 * number + 99] of epoch 0."""
    return RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(partition, UUID(int=number + 1)),
        start_offset=100 * number,
        end_offset=100 * number + 99,
        max_timestamp_ms=1_700_000_000_000,
        broker_id=1,
        event_timestamp_ms=1_700_000_000_001,
        segment_size_in_bytes=1_000,
        segment_leader_epochs=(EpochEntry(0, 100 * number),),
    )


def make_update(
    number: int, state: RemoteLogSegmentState, partition: TopicIdPartition = PARTITION, broker_id: int = 1
) -> RemoteLogSegmentMetadataUpdate:
    segment_id = RemoteLogSegmentId(partition, UUID(int=number + 1))
    return RemoteLogSegmentMetadataUpdate(segment_id, state, 1_700_000_000_002, broker_id, b"custom")


async def ready(manager: RemoteLogMetadataManager, partition: TopicIdPartition = PARTITION) -> RemoteLogLedger:
    return await manager.wait_newer(partition, -1)


async def follow(managers: Managers) -> None:
    for manager in managers:
        await manager.assign([PARTITION])
        await ready(manager)


async def copy(manager: RemoteLogMetadataManager, number: int, partition: TopicIdPartition = PARTITION) -> None:
    await manager.add_segment(make_segment(number, partition))
    await manager.update_segment(make_update(number, FINISHED, partition))


class RemoteLogMetadataConformance:
    """Override the `managers` fixture: two started managers over one empty store."""

    deadline_s = 10.0

    @pytest.fixture
    async def managers(self) -> Managers:
        raise NotImplementedError("give two managers over one store")

    @pytest.fixture(autouse=True)
    async def within_deadline(self) -> AsyncIterator[None]:
        async with asyncio.timeout(self.deadline_s):
            yield

    async def test_no_ledger_before_it_is_assigned(self, managers: Managers) -> None:
        first, _ = managers
        assert first.ledger(PARTITION) is None
        with pytest.raises(RemoteLogMetadataError):
            await first.wait_newer(PARTITION, -1)

    async def test_empty_partition_gets_ready(self, managers: Managers) -> None:
        first, _ = managers
        await first.assign([PARTITION])
        ledger = await ready(first)
        assert ledger is first.ledger(PARTITION)
        assert (len(ledger), ledger.version, ledger.partition) == (0, 0, PARTITION)

    async def test_a_write_is_in_the_own_ledger_when_it_returns(self, managers: Managers) -> None:
        first, _ = managers
        await follow(managers)
        ledger = await ready(first)
        await first.add_segment(make_segment(0))
        assert ledger.get(make_segment(0).segment_id) == make_segment(0)
        await first.update_segment(make_update(0, FINISHED))
        found = ledger.find(0, 50)
        assert found is not None
        assert found.custom_metadata == b"custom"

    async def test_the_other_broker_learns_of_it(self, managers: Managers) -> None:
        first, second = managers
        await follow(managers)
        await copy(first, 0)
        ledger = await second.wait_newer(PARTITION, 1)
        assert ledger.find(0, 50) == (await ready(first)).find(0, 50)

    async def test_each_broker_may_go_on_where_the_other_stopped(self, managers: Managers) -> None:
        first, second = managers
        await follow(managers)
        await first.add_segment(make_segment(0))
        await second.wait_newer(PARTITION, 0)
        await second.update_segment(make_update(0, DELETE_STARTED, broker_id=2))
        await first.wait_newer(PARTITION, 1)
        await first.update_segment(make_update(0, DELETE_FINISHED))
        ledger = await second.wait_newer(PARTITION, 2)
        assert len(ledger) == 0

    async def test_a_late_comer_reads_all_that_was_committed_before_it_is_ready(self, managers: Managers) -> None:
        first, second = managers
        await first.assign([PARTITION])
        for number in range(20):
            await copy(first, number)
        await second.assign([PARTITION])
        ledger = await ready(second)
        assert [metadata.start_offset for metadata in ledger.finished()] == [100 * number for number in range(20)]

    async def test_an_illegal_event_is_refused_and_not_written(self, managers: Managers) -> None:
        first, second = managers
        await follow(managers)
        await first.add_segment(make_segment(0))
        with pytest.raises(IllegalTransitionError):
            await first.update_segment(make_update(0, DELETE_FINISHED))
        with pytest.raises(IllegalTransitionError):
            await first.update_segment(make_update(7, FINISHED))
        await first.update_segment(make_update(0, FINISHED))
        ledger = await second.wait_newer(PARTITION, 1)
        assert (ledger.version, len(ledger)) == (2, 1)

    async def test_a_known_id_with_other_content_is_refused(self, managers: Managers) -> None:
        first, _ = managers
        await follow(managers)
        await first.add_segment(make_segment(0))
        await first.update_segment(make_update(0, FINISHED))
        with pytest.raises(IllegalTransitionError):
            await first.add_segment(make_segment(0))

    async def test_a_repeated_write_is_idempotent(self, managers: Managers) -> None:
        first, second = managers
        await follow(managers)
        for _ in range(2):
            await first.add_segment(make_segment(0))
        for _ in range(2):
            await first.update_segment(make_update(0, FINISHED))
        ledger = await second.wait_newer(PARTITION, 1)
        assert ledger.version == (await ready(first)).version == 2

    async def test_competing_brokers_end_with_the_same_ledger(self, managers: Managers) -> None:
        first, second = managers
        await follow(managers)
        await copy(first, 0)
        await second.wait_newer(PARTITION, 1)
        await asyncio.gather(
            first.update_segment(make_update(0, DELETE_STARTED)),
            second.update_segment(make_update(0, DELETE_STARTED, broker_id=2)),
            copy(first, 1),
            copy(second, 2),
        )
        await copy(first, 3)
        version = (await ready(first)).version
        ledger = await second.wait_newer(PARTITION, version - 1)
        assert ledger.segments() == (await ready(first)).segments()

    async def test_all_waiters_are_woken_and_none_too_early(self, managers: Managers) -> None:
        first, second = managers
        await follow(managers)
        waiters = [asyncio.create_task(second.wait_newer(PARTITION, version)) for version in (-1, 0, 0, 1, 1, 2)]
        await asyncio.sleep(0)
        await copy(first, 0)
        await asyncio.gather(*waiters[:5])
        assert not waiters[5].done()
        waiters[5].cancel()

    async def test_waiting_can_begin_before_the_ledger_is_ready(self, managers: Managers) -> None:
        first, second = managers
        await first.assign([PARTITION])
        await copy(first, 0)
        await second.assign([PARTITION])
        ledger = await second.wait_newer(PARTITION, 1)
        assert ledger.find(0, 0) is not None

    async def test_partitions_do_not_mix(self, managers: Managers) -> None:
        first, _ = managers
        await first.assign([PARTITION, OTHER])
        await copy(first, 0)
        await copy(first, 1, OTHER)
        assert [metadata.start_offset for metadata in (await ready(first)).segments()] == [0]
        assert [metadata.start_offset for metadata in (await ready(first, OTHER)).segments()] == [100]

    async def test_assigning_more_partitions_keeps_the_others_going(self, managers: Managers) -> None:
        first, second = managers
        await follow(managers)
        await first.assign([OTHER])
        await asyncio.gather(copy(first, 0), copy(first, 1), copy(first, 2, OTHER))
        await second.assign([PARTITION, OTHER])
        await second.wait_newer(PARTITION, 3)
        await second.wait_newer(OTHER, 1)
        for partition in (PARTITION, OTHER):
            assert (await ready(first, partition)).segments() == (await ready(second, partition)).segments()

    async def test_partition_deletion_is_recorded(self, managers: Managers) -> None:
        first, second = managers
        await follow(managers)
        for state in RemotePartitionDeleteState:
            await first.put_partition_delete(RemotePartitionDeleteMetadata(PARTITION, state, 1, 1))
        ledger = await second.wait_newer(PARTITION, 2)
        assert ledger.delete_state is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED

    async def test_unassigned_partition_is_forgotten_and_its_waiters_are_told(self, managers: Managers) -> None:
        first, _ = managers
        await follow(managers)
        waiter = asyncio.create_task(first.wait_newer(PARTITION, 5))
        await asyncio.sleep(0)
        await first.unassign([PARTITION, OTHER])
        with pytest.raises(RemoteLogMetadataError):
            await waiter
        assert first.ledger(PARTITION) is None
        with pytest.raises(RemoteLogMetadataError):
            await first.add_segment(make_segment(0))

    async def test_assigned_again_after_it_was_unassigned(self, managers: Managers) -> None:
        first, second = managers
        await follow(managers)
        await copy(first, 0)
        await first.unassign([PARTITION])
        await copy(second, 1)
        await first.assign([PARTITION])
        assert len((await ready(first)).finished()) == 2

    async def test_assign_twice_is_once(self, managers: Managers) -> None:
        first, _ = managers
        await follow(managers)
        await copy(first, 0)
        ledger = await ready(first)
        await first.assign([PARTITION])
        assert first.ledger(PARTITION) is ledger

    async def test_close_tells_the_waiters(self, managers: Managers) -> None:
        first, _ = managers
        await follow(managers)
        waiter = asyncio.create_task(first.wait_newer(PARTITION, 5))
        await asyncio.sleep(0)
        await first.close()
        with pytest.raises(RemoteLogMetadataError):
            await waiter
        assert first.ledger(PARTITION) is None
