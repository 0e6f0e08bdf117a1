"""The remote log manager over real logs on fake disks: copying, retention, leadership, disabling."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tierfetch.log.core import LeaderEpochCache, LogConfig, decode_leader_epochs
from tierfetch.protocol.records.control import ControlType
from tierfetch.remote import IndexType, LogSegmentData
from tierfetch.remote.core import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteState,
    earliest_pending_upload,
)
from tierfetch.rlm.pending_deletions import PENDING_DELETIONS_FILE
from tierfetch.tests.fakes.disk import Effect
from tierfetch.tests.fakes.remote_metadata import SharedMetadata
from tierfetch.tests.fakes.remote_storage import MemoryRemoteStorage
from tierfetch.tests.log.logs import DIRECTORY, NOW_MS, append, end_transaction, read_bytes

from .brokers import PARTITION, QUICK, TIERED, WAIT_S_MAX, Broker, check_tier, everything, until

pytestmark = pytest.mark.virtual_time
OTHER = replace(PARTITION, partition=PARTITION.partition + 1)


@pytest.fixture
def storage() -> MemoryRemoteStorage:
    return MemoryRemoteStorage()


@pytest.fixture
def shared() -> SharedMetadata:
    return SharedMetadata()


@pytest.fixture
async def leader(storage: MemoryRemoteStorage, shared: SharedMetadata) -> AsyncIterator[Broker]:
    broker = Broker(1, storage, shared)
    await broker.open()
    await broker.lead(0)
    yield broker
    await broker.close()


@pytest.fixture
async def follower(storage: MemoryRemoteStorage, shared: SharedMetadata) -> AsyncIterator[Broker]:
    broker = Broker(2, storage, shared)
    await broker.open()
    broker.follow()
    yield broker
    await broker.close()


class TestExpecting:
    async def test_metadata_of_expected_partitions_are_followed_before_they_are_hosted(self, leader: Broker) -> None:
        await leader.fill(1)
        await until(leader.is_all_tiered)
        newcomer = Broker(2, leader.storage, leader.shared)
        await newcomer.open()
        async with newcomer.manager.expecting([PARTITION, OTHER]):
            ledger = newcomer.ledger
            assert ledger.finished() == leader.ledger.finished()
            newcomer.follow()
        assert newcomer.ledger is ledger
        assert newcomer.manager.ledger(OTHER) is None, "it was not hosted after all"
        await newcomer.manager.stop(PARTITION)
        assert newcomer.manager.ledger(PARTITION) is None
        await newcomer.close()

    async def test_what_is_hosted_already_stays_as_it_is(self, leader: Broker) -> None:
        ledger = leader.ledger
        async with leader.manager.expecting([PARTITION]):
            assert leader.ledger is ledger
        assert leader.ledger is ledger

    async def test_what_is_being_deleted_is_not_forgotten(self, leader: Broker) -> None:
        leader.storage.hang_on.add("delete_log_segment_data")
        await leader.fill(1)
        await until(leader.is_all_tiered)
        ledger = leader.ledger
        await leader.manager.stop(PARTITION)
        async with leader.manager.expecting([PARTITION]):
            await leader.manager.delete_remote_partition(PARTITION)
        assert leader.manager.ledger(PARTITION) is not None
        assert leader.manager.ledger(PARTITION) is not ledger


class TestCopy:
    async def test_R1_leader_copies_closed_segments_with_all_their_parts(self, leader: Broker) -> None:
        await leader.fill(3)
        await until(leader.is_all_tiered)
        check_tier(leader.storage, leader.ledger)
        assert [(s.start_offset, s.end_offset) for s in leader.ledger.finished()] == [(0, 5), (6, 11), (12, 17)]
        first = leader.ledger.finished()[0].segment_id
        assert leader.storage.objects[first, IndexType.LEADER_EPOCH] == b"0\n1\n0 0\n"
        assert leader.storage.objects[first, IndexType.PRODUCER_SNAPSHOT] == await leader.log.producer_snapshot_at(6)

    async def test_R1_copy_is_woken_by_a_roll_and_by_the_high_watermark(self, leader: Broker) -> None:
        slow = Broker(3, leader.storage, SharedMetadata(), config=replace(QUICK, task_interval_ms=3_600_000))
        await slow.open()
        await slow.lead(0)
        await slow.fill(1, commit=False)
        await asyncio.sleep(0.01)
        assert slow.tiered_to() == 0
        slow.log.update_high_watermark(6)
        await until(lambda: slow.tiered_to() == 6)
        await slow.fill(1)
        await until(lambda: slow.tiered_to() == slow.active_base_offset)
        await slow.close()

    async def test_R1_follower_never_copies(self, leader: Broker, follower: Broker) -> None:
        await leader.manager.stop(PARTITION)
        await leader.fill(2)
        await follower.replicate_from(leader)
        await asyncio.sleep(0.05)
        assert leader.storage.calls == []

    async def test_R1_new_leader_goes_on_where_the_old_one_stopped(self, leader: Broker, follower: Broker) -> None:
        await leader.fill(2)
        await until(leader.is_all_tiered)
        tiered = leader.ledger.finished()
        await leader.fill(1)
        await leader.manager.stop(PARTITION)
        await follower.replicate_from(leader)
        await follower.lead(1)
        await follower.fill(1)
        await until(follower.is_all_tiered)
        check_tier(follower.storage, follower.ledger)
        assert set(tiered) <= set(follower.ledger.finished())
        assert await everything(follower) == await read_bytes(follower.log, 0)

    async def test_R1_copy_of_an_old_leadership_ends_at_once_and_is_swept(
        self, leader: Broker, follower: Broker
    ) -> None:
        leader.storage.hang_on.add("copy_log_segment_data")
        await leader.fill(1)
        await until(lambda: leader.storage.calls)
        (started,) = leader.ledger.segments()
        leader.follow()
        await follower.replicate_from(leader)
        leader.storage.hang_on.clear()
        follower.clock.now_ms += QUICK.copy_deadline.of_size_ms(started.segment_size_in_bytes) + 1
        await follower.lead(1)
        await until(lambda: follower.is_all_tiered() and len(follower.ledger) == len(follower.ledger.finished()))
        check_tier(follower.storage, follower.ledger)
        assert started.segment_id not in {segment.segment_id for segment in follower.ledger.segments()}

    async def test_leader_again_under_a_new_epoch_sweeps_its_own_attempt_at_once(self, leader: Broker) -> None:
        leader.storage.hang_on.add("copy_log_segment_data")
        await leader.fill(1)
        await until(lambda: leader.storage.calls)
        (started,) = leader.ledger.segments()
        leader.storage.hang_on.clear()
        leader.follow()
        await leader.lead(1)
        await until(lambda: leader.is_all_tiered() and leader.ledger.get(started.segment_id) is None)
        check_tier(leader.storage, leader.ledger)

    async def test_copies_of_all_partitions_share_the_slots(self, leader: Broker) -> None:
        await leader.manager.stop(PARTITION)
        narrow = Broker(4, leader.storage, SharedMetadata(), config=replace(QUICK, copier_thread_pool_size=1))
        await narrow.open()
        other = replace(PARTITION, partition=1)
        leader.storage.hang_on.add("copy_log_segment_data")
        await narrow.lead(0)
        narrow.manager.lead(other, narrow.log, 0, lambda: 0)
        await narrow.fill(1)
        await until(lambda: leader.storage.calls)
        await asyncio.sleep(0.02)
        assert len(leader.storage.calls) == 1
        assert narrow.manager.copy_lag(PARTITION).segments == narrow.manager.copy_lag(other).segments == 1
        await narrow.close()

    async def test_lag_and_counters(self, leader: Broker) -> None:
        leader.storage.hang_on.add("copy_log_segment_data")
        await leader.fill(2)
        await until(lambda: leader.manager.copy_lag(PARTITION).segments == 2)
        size = leader.log.state.segments[0].size_bytes
        assert leader.manager.copy_lag(PARTITION).bytes == 2 * size
        leader.storage.hang_on.clear()
        leader.follow()
        await leader.lead(1)
        await until(lambda: leader.manager.counters.copied_segments == 2)
        assert leader.manager.counters.copied_bytes == 2 * size
        await until(lambda: leader.manager.copy_lag(PARTITION).segments == 0)

    async def test_copies_keep_to_their_quota(self, leader: Broker) -> None:
        """The first copy leaves a debt of more than a second to the next one."""
        slow = Broker(6, leader.storage, SharedMetadata(), config=replace(QUICK, copy_max_bytes_per_second=100))
        await slow.open()
        await slow.lead(0)
        await slow.fill(2)
        await until(lambda: slow.tiered_to() == 6)
        await asyncio.sleep(0.03)
        assert len(slow.ledger.segments()) == 1
        await slow.close()

    async def test_custom_metadata_of_the_plugin_comes_back_and_has_a_limit(
        self, leader: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        custom = bytes(QUICK.custom_metadata_max_bytes + 1)
        store = MemoryRemoteStorage.copy_log_segment_data

        async def copy(metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> bytes:
            await store(leader.storage, metadata, data)
            return custom

        monkeypatch.setattr(leader.storage, "copy_log_segment_data", copy)
        await leader.fill(1)
        await until(lambda: leader.manager.counters.errors["copy"] > 1)
        assert leader.tiered_to() == 0
        custom = custom[:-1]
        await until(leader.is_all_tiered)
        assert leader.ledger.finished()[0].custom_metadata == custom

    @pytest.mark.parametrize("raised_to", [1, 3, 6])
    async def test_R1_a_log_start_raised_as_a_copy_begins_is_in_the_metadata_and_the_epoch_index(
        self, leader: Broker, monkeypatch: pytest.MonkeyPatch, raised_to: int
    ) -> None:
        """The index would else begin above what the metadata state, and no follower adopt the segment."""
        take_snapshot = leader.log.producer_snapshot_at

        async def raise_log_start(offset: int) -> bytes | None:
            await leader.log.increment_log_start_offset(raised_to)
            return await take_snapshot(offset)

        await append(leader.log, 2)
        await leader.lead(1)
        await append(leader.log, 4, epoch=1)
        await leader.log.roll()
        await append(leader.log, 2, epoch=1)
        await leader.log.roll()
        monkeypatch.setattr(leader.log, "producer_snapshot_at", raise_log_start)
        leader.log.update_high_watermark(leader.log.state.log_end_offset)
        await until(lambda: leader.tiered_to() == 8)
        for segment in leader.ledger.finished():
            index = decode_leader_epochs(leader.storage.objects[segment.segment_id, IndexType.LEADER_EPOCH])
            assert LeaderEpochCache(index).range(segment.start_offset, 8)[:1] == segment.segment_leader_epochs[:1]

    async def test_R1_transaction_index_is_uploaded_only_where_something_was_aborted(self, leader: Broker) -> None:
        transaction = {"producer_id": 1, "producer_epoch": 0, "is_transactional": True}
        await append(leader.log, 2, base_sequence=0, **transaction)
        await leader.log.roll()
        await end_transaction(leader.log, ControlType.ABORT, 1)
        await leader.fill(0)
        await leader.log.roll()
        await leader.fill(0)
        await until(leader.is_all_tiered)
        check_tier(leader.storage, leader.ledger)
        assert [segment.txn_index_empty for segment in leader.ledger.finished()] == [True, False]

    async def test_R1_open_transaction_holds_its_segment_back(self, leader: Broker) -> None:
        await append(leader.log, 2)
        await leader.log.roll()
        await append(leader.log, 2, producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
        await leader.log.roll()
        await leader.fill(0)
        await until(lambda: leader.tiered_to() == 2)
        await asyncio.sleep(0.05)
        assert leader.tiered_to() == 2
        await end_transaction(leader.log, ControlType.COMMIT, 1)
        leader.log.update_high_watermark(leader.log.state.log_end_offset)
        await until(leader.is_all_tiered)


class TestRetention:
    async def test_R4_local_segments_go_once_they_are_proven(self, leader: Broker) -> None:
        leader.log.update_config(replace(TIERED, local_retention_bytes=1))
        await leader.fill(3)
        before = await read_bytes(leader.log, 0)
        await until(lambda: leader.log.state.offsets.local_log_start_offset == leader.active_base_offset == 18)
        assert leader.log.state.log_start_offset == 0
        assert await everything(leader) == before
        sizes = [call for call in leader.storage.calls if call[0] == "log_segment_size"]
        assert len(sizes) == 6, "each once after its copy, once before the local segment goes"

    async def test_R4_idle_partition_ends_up_wholly_in_the_tier(self, leader: Broker) -> None:
        leader.log.update_config(replace(TIERED, local_retention_ms=0))
        leader.clock.now_ms = NOW_MS + 1_000_000
        await leader.fill(1)
        await until(lambda: leader.log.state.offsets.local_log_start_offset == leader.log.state.log_end_offset == 7)
        check_tier(leader.storage, leader.ledger)

    async def test_R2_bootstrap_rule_9_follower_deletes_what_is_tiered_on_its_own_lineage(
        self, leader: Broker, follower: Broker
    ) -> None:
        follower.log.update_config(replace(TIERED, local_retention_bytes=1))
        await leader.fill(2)
        await follower.replicate_from(leader)
        await until(lambda: follower.log.state.offsets.local_log_start_offset == 12)
        assert follower.log.state.log_start_offset == 0
        assert follower.tiered_to() == 12, "the follower knows the highest tiered offset"

    async def test_retention_counts_no_batch_that_is_still_being_written(self, leader: Broker) -> None:
        await leader.fill(2)
        await until(leader.is_all_tiered)
        behind_bytes = sum(segment.size_bytes for segment in leader.log.state.segments[1:])
        leader.log.update_config(replace(TIERED, retention_bytes=behind_bytes + 1))
        is_held, may_go_on = asyncio.Event(), asyncio.Event()

        async def hold(effect: Effect) -> None:
            if effect.path == leader.log.state.segments.active.path and effect.operation == "write":
                is_held.set()
                await may_go_on.wait()

        leader.disk.before_effect = hold
        writing = asyncio.create_task(append(leader.log, 1, epoch=leader.epoch))
        await is_held.wait()
        leader.manager.config_changed(PARTITION)
        await asyncio.sleep(0.05)
        assert leader.log.state.log_start_offset == 0
        may_go_on.set()
        await writing
        await until(lambda: leader.log.state.log_start_offset == 6)

    async def test_R4_bootstrap_rule_8_remote_retention_waits_until_the_isr_has_the_log_start(
        self, leader: Broker
    ) -> None:
        in_sync = 0
        leader.isr_log_start = lambda: in_sync
        await leader.fill(3)
        await until(leader.is_all_tiered)
        leader.log.update_config(replace(TIERED, retention_bytes=1))
        leader.manager.config_changed(PARTITION)
        await until(lambda: leader.log.state.log_start_offset == 18)
        await asyncio.sleep(0.05)
        assert len(leader.ledger.finished()) == 3
        in_sync = 12
        await until(lambda: len(leader.ledger.segments()) == 1)
        in_sync = 18
        leader.manager.wake(PARTITION)
        await until(lambda: not leader.ledger.segments())
        assert leader.storage.objects == {}

    @pytest.mark.parametrize("lost", [1, 2, 3])
    async def test_bootstrap_rule_8_remote_metadata_that_lost_its_beginning_raises_no_log_start(
        self, leader: Broker, shared: SharedMetadata, lost: int
    ) -> None:
        """The objects are still there, and so is what the log start promises, for whoever mends the metadata."""
        await leader.fill(3)
        leader.log.update_config(replace(TIERED, local_retention_bytes=1))
        leader.manager.config_changed(PARTITION)
        await until(lambda: leader.log.state.offsets.local_log_start_offset == 18)
        objects = dict(leader.storage.objects)
        await leader.manager.stop(PARTITION)
        first = next(e.segment_id for e in shared.events(PARTITION))
        kept = [event for event in shared.events(PARTITION) if event.segment_id != first]
        shared.events(PARTITION)[:] = kept[lost - 1 :]
        again = Broker(1, leader.storage, shared, disk=leader.disk)
        await again.metadata.start()
        again.log = leader.log
        await again.lead(5)
        await until(lambda: again.manager.ledger(PARTITION))
        for _ in range(200):
            await asyncio.sleep(0)
        assert leader.log.state.log_start_offset == 0
        assert leader.storage.objects == objects
        await again.close()

    async def test_local_segment_without_its_object_stays_and_is_copied_again(self, leader: Broker) -> None:
        await leader.fill(2)
        await until(leader.is_all_tiered)
        lost = leader.ledger.finished()[0]
        for key in [key for key in leader.storage.objects if key[0] == lost.segment_id]:
            del leader.storage.objects[key]
        before = await read_bytes(leader.log, 0)
        leader.log.update_config(replace(TIERED, local_retention_bytes=1))
        leader.manager.config_changed(PARTITION)
        await until(lambda: leader.log.state.offsets.local_log_start_offset == 12)
        await until(lambda: leader.ledger.get(lost.segment_id) is None)
        assert leader.manager.counters.disproven_segments
        assert await everything(leader) == before
        check_tier(leader.storage, leader.ledger)

    async def test_copy_of_what_went_missing_may_take_longer_than_the_finding_is_remembered(
        self, leader: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await leader.fill(1)
        await until(leader.is_all_tiered)
        (lost,) = leader.ledger.finished()
        leader.storage.objects.clear()
        proofs = leader.manager._hosted[PARTITION].task._proofs
        proofs._disproven_for_s = 1000
        copy, look = leader.storage.copy_log_segment_data, leader.storage.log_segment_size
        uploads, looks = 0, 0

        async def look_once(metadata: RemoteLogSegmentMetadata) -> int | None:
            nonlocal looks
            looks += metadata.segment_id == lost.segment_id
            if looks > 1 and metadata.segment_id == lost.segment_id:
                await asyncio.Event().wait()
            return await look(metadata)

        async def slow(metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> bytes | None:
            nonlocal uploads
            uploads += 1
            proofs._disproven_for_s = 0  # the time is over
            await asyncio.sleep(QUICK.task_interval_ms / 1000)
            return await copy(metadata, data)

        monkeypatch.setattr(leader.storage, "copy_log_segment_data", slow)
        monkeypatch.setattr(leader.storage, "log_segment_size", look_once)
        leader.log.update_config(replace(TIERED, local_retention_bytes=1))
        leader.manager.config_changed(PARTITION)
        await until(lambda: len(leader.ledger.finished()) == 2)
        assert uploads == 1

    async def test_log_that_lost_its_start_takes_it_from_the_ledger(
        self, leader: Broker, shared: SharedMetadata
    ) -> None:
        leader.log.update_config(replace(TIERED, local_retention_bytes=1))
        await leader.fill(2)
        await until(lambda: leader.log.state.offsets.local_log_start_offset == 12)
        await leader.log.increment_log_start_offset(6)
        await leader.log.close()
        await leader.close()
        await until(lambda: True)
        again = Broker(1, leader.storage, shared, disk=leader.disk)
        await again.open(log_start_offset=None)
        assert not again.log.state.log_start_known
        again.follow()
        await until(lambda: again.log.state.log_start_known)
        assert again.log.state.log_start_offset in {0, 6}
        await again.close()

    async def test_follower_looks_again_at_an_object_that_was_missing(self, leader: Broker, follower: Broker) -> None:
        await leader.fill(1)
        await until(leader.is_all_tiered)
        hidden, leader.storage.objects = leader.storage.objects, {}
        follower.log.update_config(replace(TIERED, local_retention_bytes=1))
        await follower.replicate_from(leader)
        follower.manager.wake(PARTITION)
        await until(lambda: follower.manager.counters.disproven_segments)
        assert follower.log.state.offsets.local_log_start_offset == 0
        leader.storage.objects = hidden
        await until(lambda: follower.log.state.offsets.local_log_start_offset == 6)

    async def test_action_without_effect_is_not_repeated_at_once(
        self, leader: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        attempts = 0

        async def delete(up_to_offset: int) -> int:
            nonlocal attempts
            attempts += 1
            return 0

        monkeypatch.setattr(leader.log, "delete_local_segments", delete)
        leader.log.update_config(replace(TIERED, local_retention_bytes=1))
        await leader.fill(1)
        await until(lambda: attempts)
        await asyncio.sleep(3 * QUICK.task_interval_ms / 1000)
        assert attempts <= 8


class TestDisable:
    async def test_R6_copy_disable_stops_copies_and_cancels_the_one_under_way(self, leader: Broker) -> None:
        await leader.fill(1)
        await until(leader.is_all_tiered)
        leader.storage.hang_on.add("copy_log_segment_data")
        calls = len(leader.storage.calls)
        await leader.fill(1)
        await until(lambda: len(leader.storage.calls) > calls)
        leader.storage.hang_on.clear()
        leader.log.update_config(replace(TIERED, remote_log_copy_disable=True))
        leader.manager.config_changed(PARTITION)
        await until(lambda: len(leader.ledger.segments()) == 1)
        await leader.fill(1)
        await asyncio.sleep(0.05)
        assert leader.tiered_to() == 6
        leader.log.update_config(TIERED)
        leader.manager.config_changed(PARTITION)
        await until(leader.is_all_tiered)

    async def test_R6_disable_with_delete_empties_the_tier_and_enable_begins_at_the_log_start(
        self, leader: Broker
    ) -> None:
        leader.log.update_config(replace(TIERED, local_retention_bytes=1))
        await leader.fill(2)
        await until(lambda: leader.log.state.offsets.local_log_start_offset == 12)
        leader.log.update_config(LogConfig(remote_log_delete_on_disable=True))
        leader.manager.config_changed(PARTITION)
        await until(lambda: leader.storage.objects == {} and not leader.ledger.segments())
        assert leader.log.state.log_start_offset == leader.log.state.offsets.local_log_start_offset == 12
        await leader.fill(1)
        leader.log.update_config(TIERED)
        leader.manager.config_changed(PARTITION)
        await until(lambda: leader.ledger.finished() and leader.is_all_tiered())
        assert leader.ledger.finished()[0].start_offset == 12

    async def test_R6_untiered_topic_costs_nothing_until_it_is_tiered(self, storage: MemoryRemoteStorage) -> None:
        broker = Broker(5, storage, SharedMetadata())
        await broker.open(LogConfig())
        await broker.lead(0)
        await broker.fill(1)
        await asyncio.sleep(0.01)
        assert broker.manager.ledger(PARTITION) is None
        broker.log.update_config(TIERED)
        broker.manager.config_changed(PARTITION)
        await until(broker.is_all_tiered)
        for config in (LogConfig(), TIERED, LogConfig()):
            broker.log.update_config(config)
            broker.manager.config_changed(PARTITION)
        await until(lambda: broker.manager.ledger(PARTITION) is None)
        await broker.close()


class TestTurns:
    """A plugin may need a while to end an upload that was cancelled."""

    @pytest.fixture
    async def slow_to_end(self, leader: Broker) -> asyncio.Event:
        """The upload under way ends, without an effect, once this is set."""
        entered, release = asyncio.Event(), asyncio.Event()

        async def copy(metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> None:
            entered.set()
            try:
                await asyncio.Event().wait()
            finally:
                await release.wait()

        leader.storage.copy_log_segment_data = copy  # type: ignore[method-assign]
        await leader.fill(1)
        await entered.wait()
        del leader.storage.copy_log_segment_data
        return release

    async def test_next_task_begins_when_the_one_before_has_ended(
        self, leader: Broker, slow_to_end: asyncio.Event
    ) -> None:
        started = leader.ledger.segments()
        for epoch in (1, 2, 3):
            leader.follow()
            await leader.lead(epoch)
        await asyncio.sleep(0.03)
        assert leader.ledger.segments() == started
        slow_to_end.set()
        await until(lambda: leader.is_all_tiered() and len(leader.ledger) == 1)

    async def test_stop_waits_for_the_end(self, leader: Broker, slow_to_end: asyncio.Event) -> None:
        stopping = asyncio.create_task(leader.manager.stop(PARTITION))
        await asyncio.sleep(0.01)
        assert not stopping.done()
        slow_to_end.set()
        await stopping
        assert leader.manager.ledger(PARTITION) is None


class TestDeletedTopic:
    async def test_stop_leaves_the_deletion_its_ledger(self, leader: Broker) -> None:
        await leader.fill(2)
        await until(leader.is_all_tiered)
        await leader.manager.delete_remote_partition(PARTITION)
        await until(lambda: leader.ledger.delete_state is not None)
        await leader.manager.stop(PARTITION)
        await until(lambda: leader.storage.objects == {} and leader.manager.ledger(PARTITION) is None)
        assert leader.manager.counters.errors == {}

    async def test_R3_remote_partition_goes_through_its_delete_states(
        self, leader: Broker, shared: SharedMetadata
    ) -> None:
        await leader.fill(2)
        await until(leader.is_all_tiered)
        leader.metadata.fail_write(leader.metadata.write_count + 3)
        await leader.manager.delete_remote_partition(PARTITION)
        await leader.manager.stop(PARTITION)
        await until(lambda: leader.storage.objects == {} and leader.manager.ledger(PARTITION) is None)
        events = shared.events(PARTITION)
        states = [event.state for event in events if isinstance(event.state, RemotePartitionDeleteState)]
        assert states == list(RemotePartitionDeleteState)
        deleted = [event for event in events if event.state is RemoteLogSegmentState.DELETE_SEGMENT_FINISHED]
        assert len(deleted) == 2

    async def test_an_outage_during_a_deletion_is_one_warning(
        self, leader: Broker, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO")
        await leader.fill(2)
        await until(leader.is_all_tiered)
        first = leader.metadata.write_count + 1
        leader.metadata.fail_write(first, first + 1, first + 2)
        await leader.manager.delete_remote_partition(PARTITION)
        await leader.manager.stop(PARTITION)
        await until(lambda: leader.storage.objects == {} and leader.manager.ledger(PARTITION) is None)
        failed = [line.levelname for line in caplog.records if "deletion from the tier failed" in line.message]
        assert failed == ["WARNING", "INFO", "INFO"]

    async def test_C3_deletion_goes_on_after_a_restart(self, leader: Broker, shared: SharedMetadata) -> None:
        await leader.fill(3)
        await until(leader.is_all_tiered)
        leader.storage.hang_on.add("delete_log_segment_data")
        await leader.manager.delete_remote_partition(PARTITION)
        await leader.manager.stop(PARTITION)
        await until(lambda: any(operation.startswith("delete") for operation, _ in leader.storage.calls))
        await leader.close()
        leader.storage.hang_on.clear()
        again = Broker(1, leader.storage, shared, disk=leader.disk.restart())
        await again.open()
        await until(lambda: again.storage.objects == {} and again.manager.ledger(PARTITION) is None)
        assert shared.events(PARTITION)[-1].state is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED
        await again.close()
        events = len(shared.events(PARTITION))
        once_more = Broker(1, leader.storage, shared, disk=again.disk.restart())
        await once_more.open()
        assert await once_more.disk.read_file(DIRECTORY.parent / PENDING_DELETIONS_FILE) == b"0\n0\n"
        assert len(shared.events(PARTITION)) == events
        await once_more.close()

    async def test_C3_nothing_is_written_about_a_partition_that_was_never_tiered(
        self, leader: Broker, shared: SharedMetadata
    ) -> None:
        await leader.manager.delete_remote_partition(PARTITION)
        await leader.manager.stop(PARTITION)
        await until(lambda: leader.manager.ledger(PARTITION) is None)
        assert shared.events(PARTITION) == []

    async def test_C3_two_brokers_delete_the_same_partition(
        self, leader: Broker, follower: Broker, shared: SharedMetadata
    ) -> None:
        await leader.fill(4)
        await until(leader.is_all_tiered)
        for broker in (leader, follower):
            await broker.manager.stop(PARTITION)
        await asyncio.gather(*(broker.manager.delete_remote_partition(PARTITION) for broker in (leader, follower)))
        await until(lambda: all(broker.manager.ledger(PARTITION) is None for broker in (leader, follower)))
        assert leader.storage.objects == {}
        assert shared.events(PARTITION)[-1].state is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED

    async def test_C3_who_did_not_lead_deletes_later_what_is_left(self, leader: Broker, shared: SharedMetadata) -> None:
        """Also after a restart; and finds nothing to do where the leader lived to do it."""
        soon = replace(QUICK, orphaned_deletion_delay_ms=20)
        await leader.fill(3)
        await until(leader.is_all_tiered)
        other = Broker(2, leader.storage, shared, config=replace(QUICK, orphaned_deletion_delay_ms=3_600_000))
        await other.open()
        await other.manager.delete_remote_partition(PARTITION, is_leader=False)
        await leader.close()
        await asyncio.sleep(0.02)
        assert leader.storage.objects
        await other.close()
        again = Broker(2, leader.storage, shared, config=soon, disk=other.disk.restart())
        await again.open()
        await until(lambda: again.storage.objects == {} and again.manager.ledger(PARTITION) is None)
        events = len(shared.events(PARTITION))
        third = Broker(3, leader.storage, shared, config=soon)
        await third.open()
        await third.manager.delete_remote_partition(PARTITION, is_leader=False)
        pending = DIRECTORY.parent / PENDING_DELETIONS_FILE
        async with asyncio.timeout(WAIT_S_MAX):
            while await third.disk.read_file(pending) != b"0\n0\n":  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(0.005)
        assert len(shared.events(PARTITION)) == events
        for broker in (again, third):
            await broker.close()


async def test_R2_ledger_that_is_not_ready_holds_everything_up(
    storage: MemoryRemoteStorage, shared: SharedMetadata
) -> None:
    broker = Broker(1, storage, shared)
    broker.metadata.hold()
    await broker.open()
    await broker.lead(0)
    await broker.fill(1)
    await asyncio.sleep(0.02)
    assert broker.manager.ledger(PARTITION) is None
    assert broker.manager.partitions_without_ledger() == 1
    assert storage.calls == []
    broker.metadata.release()
    await until(broker.is_all_tiered)
    assert broker.manager.partitions_without_ledger() == 0
    await broker.close()


async def test_fault_of_ours_in_one_partition_ends_no_other(
    leader: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("broken")

    monkeypatch.setattr("tierfetch.rlm.partition_task.plan_upkeep", fail)
    await leader.fill(1)
    await until(leader.is_all_tiered)
    await until(lambda: leader.manager.counters.errors["upkeep"] > 1)
    assert "internal error in" in caplog.text


@pytest.mark.parametrize("topic", ["__remote_log_metadata", "__consumer_offsets", "__transaction_state"])
async def test_bootstrap_rule_11_internal_topics_are_never_tiered(
    storage: MemoryRemoteStorage, shared: SharedMetadata, topic: str
) -> None:
    """Whatever their configuration says."""
    broker = Broker(1, storage, shared)
    await broker.open()
    internal = replace(PARTITION, topic=topic)
    await broker.log.assign_epoch(0)
    broker.epoch = 0
    broker.manager.lead(internal, broker.log, 0, lambda: 0)
    broker.log.update_config(replace(TIERED, local_retention_bytes=1, retention_bytes=1))
    broker.manager.config_changed(internal)
    await broker.fill(3)
    await asyncio.sleep(0.03)
    assert storage.calls == []
    assert shared.events(internal) == []
    assert broker.manager.ledger(internal) is None
    assert broker.log.state.offsets.local_log_start_offset == 0
    await broker.close()


async def test_bootstrap_rule_11_nothing_counts_as_tiered_before_finished_is_committed(
    leader: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All objects are there; only the event is still under way."""
    update, committing, may_commit = leader.metadata.update_segment, asyncio.Event(), asyncio.Event()

    async def held(event: RemoteLogSegmentMetadataUpdate) -> None:
        if event.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
            committing.set()
            await may_commit.wait()
        await update(event)

    monkeypatch.setattr(leader.metadata, "update_segment", held)
    leader.log.update_config(replace(TIERED, local_retention_bytes=1))
    await leader.fill(1)
    await committing.wait()
    assert {kind for _, kind in leader.storage.objects} >= {None, IndexType.OFFSET}
    await asyncio.sleep(0.03)
    pending = earliest_pending_upload(
        leader.ledger, leader.log.state.epochs, log_start_offset=0, local_log_start_offset=0, log_end_offset=7
    )
    assert pending is not None
    assert (pending.offset, leader.ledger.finished()) == (0, [])
    assert leader.log.state.offsets.local_log_start_offset == 0
    may_commit.set()
    await until(lambda: leader.log.state.offsets.local_log_start_offset == 6)
    assert leader.ledger.finished()[-1].end_offset == 5
