"""Adopting a replica that was rebuilt from the tier: whatever fails, the old one is there or the new one."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from tierfetch.log.core import CorruptFileError, EpochEntry, LogConfig, ProducerStateManager
from tierfetch.log.core.checkpoints import RECOVERY_POINT_CHECKPOINT, REPLICATION_OFFSET_CHECKPOINT, decode_offsets
from tierfetch.log.core.file_names import THIN_FILE, adopt_directory
from tierfetch.log.keeper.manager import LogManager
from tierfetch.log.keeper.replace_replica import AdoptedState, adopt
from tierfetch.log.partition_log import PartitionLog
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.records import parse_header
from tierfetch.protocol.records.control import ControlType
from tierfetch.protocol.topics import TopicPartition
from tierfetch.tests.fakes.disk import DiskCrash, Effect, MemoryDisk, failures
from tierfetch.tests.log.logs import append, data_batch, marker_batch, offsets_of, read_bytes
from tierfetch.tests.log.nodes import LIVE, LOG_DIR, TOPIC_ID, TP, loaded

TIERED = LogConfig(segment_bytes=400, remote_storage_enable=True)
EPOCHS = (EpochEntry(0, 2), EpochEntry(1, 3), EpochEntry(2, 5))


def snapshot(end_offset: int = 6) -> bytes:
    """Producer 9 has written up to offset 5, in an open transaction from offset 4 on."""
    producers = ProducerStateManager()
    for i in range(end_offset):
        batch = data_batch(
            base_offset=i, epoch=0, producer_id=9, producer_epoch=0, base_sequence=i, is_transactional=i >= 4
        )
        producers.apply(parse_header(batch))
    return producers.snapshot()


STATE = AdoptedState(topic_id=TOPIC_ID, log_start_offset=2, start_offset=6, epochs=EPOCHS, producer_snapshot=snapshot())


async def node_with_old_replica(disk: MemoryDisk) -> LogManager:
    """Offsets 0 to 3, of an epoch that the adopted state does not know."""
    manager = await loaded(disk, config=TIERED)
    log = await manager.create(TP, TOPIC_ID)
    for _ in range(4):
        await append(log, epoch=7, value=bytes(50))
    log.update_high_watermark(3)
    await log.flush()
    await manager.upkeep.save_checkpoints()
    disk.settle()
    return manager


def is_new(log: PartitionLog) -> bool:
    """Whether this is the adopted replica; asserts that it is nothing in between."""
    if log.state.offsets.local_log_start_offset != 6:
        return False
    assert (log.state.log_start_offset, log.state.log_end_offset, log.state.high_watermark) == (2, 6, 6)
    assert log.state.log_start_known
    assert log.state.epochs.entries == EPOCHS
    assert log.state.topic_id == TOPIC_ID
    assert log.state.producers.entries[9].last_sequence == 5
    assert log.state.offsets.first_unstable_offset == 4
    return True


async def check_old(log: PartitionLog) -> None:
    assert (
        offsets_of(await read_bytes(log, log.state.offsets.local_log_start_offset))
        == [0, 1, 2, 3][log.state.offsets.local_log_start_offset :]
    )
    assert (
        log.state.log_end_offset,
        log.state.epochs.latest_epoch,
        log.state.offsets.local_log_start_offset in {0, 2},
    ) == (4, 7, True)
    assert not log.state.producers.entries


async def test_F6_F9_the_adopted_replica_is_in_place_and_goes_on() -> None:
    disk = MemoryDisk()
    manager = await node_with_old_replica(disk)
    old = manager.get(TP)
    assert old is not None
    log = await adopt(manager, TP, STATE)
    assert is_new(log)
    assert manager.get(TP) is log
    await log.append_as_follower(
        data_batch(base_offset=6, epoch=2) + data_batch(base_offset=7, epoch=3),
    )
    assert log.state.epochs.entries == (*EPOCHS, EpochEntry(3, 7))
    assert offsets_of(await read_bytes(log)) == [6, 7]
    with pytest.raises(KafkaError, match="it was closed") as raised:
        await old.append_as_follower(data_batch(base_offset=4, epoch=7))
    assert raised.value.code is ErrorCode.kafka_storage_error
    await manager.close()
    again = (await loaded(disk, config=TIERED)).get(TP)
    assert again is not None
    assert (again.state.log_start_offset, again.state.offsets.local_log_start_offset, again.state.log_end_offset) == (
        2,
        6,
        8,
    )


async def test_an_adoption_syncs_each_name_once_and_nothing_that_is_empty() -> None:
    """A broker that is replaced adopts thousands of replicas: what one costs the disk is known by number."""
    disk = MemoryDisk()
    manager = await node_with_old_replica(disk)
    disk.effects.clear()
    log = await adopt(manager, TP, STATE)
    files = Counter(effect.path.parent.name for effect in disk.effects if effect.operation == "write_file")
    syncs = Counter(effect.path.name for effect in disk.effects if effect.operation == "sync_directory")
    sibling = adopt_directory(LIVE)
    # partition.metadata, snapshot, adopted, .index, .timeindex, leader-epoch-checkpoint, .log; then the log starts.
    assert files == {sibling.name: 7, LOG_DIR.name: 1}
    # The names of all but the `.log`, and of that; the sibling's own name, and its parent's. The log starts', then one
    # for the old directory that goes, and one for the new one that comes.
    assert syncs == {sibling.name: 2, sibling.parent.name: 1, LOG_DIR.name: 1 + 1 + 2}
    disk.effects.clear()
    await log.confirm_adoption()
    assert disk.effects == [Effect("rename", LIVE / THIN_FILE), Effect("sync_directory", LIVE)]


async def test_no_offset_of_the_old_replica_is_left_in_a_checkpoint_above_those_of_the_new_one() -> None:
    """After a crash it would be the new one's, and its high watermark would pass records that are not committed."""
    disk = MemoryDisk()
    manager = await node_with_old_replica(disk)
    await adopt(manager, TP, AdoptedState(TOPIC_ID, 2, 2, (), None))
    disk = disk.restart()
    for name in (REPLICATION_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT):
        assert decode_offsets(disk.files()[LOG_DIR / name], name=name) == {TP: 2}
    log = (await loaded(disk, config=TIERED)).get(TP)
    assert log is not None
    await log.append_as_follower(data_batch(2, base_offset=2, epoch=9))
    again = (await loaded(disk.restart("kept"), config=TIERED)).get(TP)
    assert again is not None
    assert (again.state.high_watermark, again.state.log_end_offset) == (2, 4)


async def test_F10_a_duplicate_of_a_batch_that_lies_in_the_tier_only_is_still_refused() -> None:
    manager = await node_with_old_replica(MemoryDisk())
    log = await adopt(manager, TP, STATE)
    await log.assign_epoch(8)
    info = await append(log, epoch=8, producer_id=9, producer_epoch=0, base_sequence=5, is_transactional=True)
    assert (info.duplicate, info.first_offset, info.last_offset) == (True, 5, 5)
    assert log.state.log_end_offset == 6


async def test_bootstrap_rule_6_a_transaction_that_began_in_the_tier_stays_open_until_its_marker() -> None:
    manager = await node_with_old_replica(MemoryDisk())
    log = await adopt(manager, TP, STATE)
    assert await log.expire_producers() == 0
    assert log.state.offsets.last_stable_offset == 4
    await log.append_as_follower(marker_batch(ControlType.ABORT, base_offset=6, epoch=3, producer_id=9))
    log.update_high_watermark(7)
    assert log.state.offsets.last_stable_offset == 7
    (aborted,) = await log.aborted_transactions(6, 7)
    assert (aborted.first_offset, aborted.last_offset) == (4, 6)


async def test_bootstrap_rule_5_the_high_watermark_is_the_start() -> None:
    manager = await node_with_old_replica(MemoryDisk())
    assert (await adopt(manager, TP, STATE)).state.high_watermark == 6


@pytest.mark.parametrize("unsynced", ["lost", "kept", "some"])
async def test_bootstrap_rule_4_a_crash_at_every_effect_leaves_the_old_replica_or_the_new(unsynced: str) -> None:
    outcomes = []
    for fault in failures(crash=True):
        disk = MemoryDisk()
        manager = await node_with_old_replica(disk)
        disk.faults = fault
        try:
            await adopt(manager, TP, STATE)
        except DiskCrash:
            pass
        else:
            assert not fault.fired
        after = disk.restart(Random(fault.n) if unsynced == "some" else unsynced)  # type: ignore[arg-type]
        again = await loaded(after, config=TIERED)
        log = again.get(TP)
        assert log is not None, fault.n
        if not is_new(log):
            await check_old(log)
        outcomes.append(is_new(log))
        assert [path.name for path in (await directories(after))] == [str(TP)]
        await again.close()
        once_more = (await loaded(after, config=TIERED)).get(TP)
        assert once_more is not None
        assert is_new(once_more) == outcomes[-1]
    assert outcomes == sorted(outcomes), "once it is the new one, it stays the new one"
    assert {outcomes[0], outcomes[-1]} == {False, True}


async def directories(disk: MemoryDisk) -> list[Path]:
    return [LOG_DIR / entry.name for entry in await disk.list_directory(LOG_DIR) if entry.is_directory]


async def test_bootstrap_rule_4_a_crash_without_an_old_replica_leaves_none_or_the_new() -> None:
    outcomes = []
    for fault in failures(crash=True):
        disk = MemoryDisk()
        manager = await loaded(disk, config=TIERED)
        disk.settle()
        disk.faults = fault
        with suppress(DiskCrash):
            await adopt(manager, TP, STATE)
        log = (await loaded(disk.restart(Random(fault.n)), config=TIERED)).get(TP)
        outcomes.append(log is not None and is_new(log))
        assert log is None or outcomes[-1]
    assert {outcomes[0], outcomes[-1]} == {False, True}


@pytest.mark.parametrize("persistent", [False, True])
async def test_bootstrap_rule_4_a_failure_at_every_effect_leaves_the_old_replica_or_the_new(persistent: bool) -> None:
    for fault in failures(persistent=persistent):
        disk = MemoryDisk()
        manager = await node_with_old_replica(disk)
        disk.faults = fault
        failed = False
        try:
            await adopt(manager, TP, STATE)
        except OSError:
            failed = True
        disk.faults = None
        assert failed or not fault.fired or TP not in manager.failures
        log = await manager.reopen(TP) if TP in manager.failures else manager.get(TP)
        assert log is not None, fault.n
        if not is_new(log):
            assert failed
            await check_old(log)
            assert is_new(await adopt(manager, TP, STATE))
        await manager.close()
        again = (await loaded(disk, config=TIERED)).get(TP)
        assert again is not None
        assert is_new(again)


async def test_nothing_happens_before_the_state_is_seen_to_be_whole() -> None:
    disk = MemoryDisk()
    manager = await node_with_old_replica(disk)
    before = disk.files()
    broken = AdoptedState(TOPIC_ID, 2, 6, EPOCHS, b"no snapshot")
    with pytest.raises(CorruptFileError):
        await adopt(manager, TP, broken)
    other = AdoptedState(UUID(int=99), 2, 6, EPOCHS, None)
    with pytest.raises(KafkaError) as raised:
        await adopt(manager, TP, other)
    assert raised.value.code is ErrorCode.inconsistent_topic_id
    for wrong in (
        AdoptedState(TOPIC_ID, 7, 6, EPOCHS, None),
        AdoptedState(TOPIC_ID, 2, 5, EPOCHS, None),
    ):
        with pytest.raises(AssertionError):
            await adopt(manager, TP, wrong)
    assert disk.files() == before
    old = manager.get(TP)
    assert old is not None
    await check_old(old)


async def test_a_cancelled_adoption_is_finished_first() -> None:
    manager = await node_with_old_replica(MemoryDisk())
    task = asyncio.create_task(adopt(manager, TP, STATE))
    for _ in range(10):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    log = manager.get(TP)
    assert log is not None
    assert is_new(log)


async def test_readers_of_the_old_replica_keep_what_they_hold() -> None:
    manager = await node_with_old_replica(MemoryDisk())
    old = manager.get(TP)
    assert old is not None
    with await old.read(0, max_bytes=10_000, max_offset=4) as piece:
        await adopt(manager, TP, STATE)
        assert offsets_of(await piece.read()) == [0, 1, 2]
    await manager.upkeep.remove_due()
    assert not old.state.has_readers


async def test_a_replica_without_producers_is_adopted_too() -> None:
    disk = MemoryDisk()
    manager = await node_with_old_replica(disk)
    log = await adopt(manager, TP, AdoptedState(TOPIC_ID, 6, 6, (), None))
    assert (log.state.log_start_offset, log.state.log_end_offset, log.state.epochs.entries) == (6, 6, ())
    names = sorted(path.name for path in disk.files(LIVE))
    assert names == [
        "00000000000000000006.index",
        "00000000000000000006.log",
        "00000000000000000006.timeindex",
        "adopted",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]


async def test_bootstrap_rule_7_adoption_is_remembered_until_it_is_confirmed() -> None:
    """So that a replica which restarts before it was in the ISR counts as empty still."""
    disk = MemoryDisk()
    manager = await node_with_old_replica(disk)
    old = manager.get(TP)
    assert old is not None
    assert not old.state.is_adopted
    log = await adopt(manager, TP, STATE)
    assert log.state.is_adopted
    again = (await loaded(disk.restart(), config=TIERED)).get(TP)
    assert again is not None
    assert again.state.is_adopted
    assert not again.recovery_report.messages
    await log.confirm_adoption()
    assert not log.state.is_adopted
    confirmed = (await loaded(disk.restart(), config=TIERED)).get(TP)
    assert confirmed is not None
    assert not confirmed.state.is_adopted


async def test_F11_a_replica_that_was_in_sync_is_thin_until_it_is_said_to_have_warmed() -> None:
    disk = MemoryDisk()
    log = await adopt(await node_with_old_replica(disk), TP, STATE)
    assert not log.state.is_thin
    await log.confirm_adoption()
    assert log.state.is_thin
    disk = disk.restart()
    again = (await loaded(disk, config=TIERED)).get(TP)
    assert again is not None
    assert (again.state.is_adopted, again.state.is_thin) == (False, True)
    assert not again.recovery_report.messages
    await again.confirm_warmed()
    assert not again.state.is_thin
    full = (await loaded(disk.restart(), config=TIERED)).get(TP)
    assert full is not None
    assert not full.state.is_thin


async def test_F11_a_replica_that_lacks_nothing_is_never_thin() -> None:
    disk = MemoryDisk()
    log = await adopt(await node_with_old_replica(disk), TP, AdoptedState(TOPIC_ID, 6, 6, (), None))
    await log.confirm_adoption()
    assert not log.state.is_thin


async def test_confirmation_that_fails_is_made_up_for() -> None:
    disk = MemoryDisk()
    log = await adopt(await node_with_old_replica(disk), TP, STATE)
    for fault in failures():
        disk.faults = fault
        try:
            await log.confirm_adoption()
        except OSError:
            assert log.state.is_adopted
    disk.faults = None
    await log.confirm_adoption()
    assert not log.state.is_adopted
    for fault in failures():
        disk.faults = fault
        try:
            await log.confirm_warmed()
        except OSError:
            assert log.state.is_thin
    disk.faults = None
    await log.confirm_warmed()
    assert not log.state.is_thin


@pytest.mark.parametrize("is_crash", [True, False])
@pytest.mark.parametrize("partition", [0, 99_999])
async def test_topic_with_the_longest_name_is_adopted(partition: int, is_crash: bool) -> None:
    """No name on the way is longer than a file system takes, and a crash anywhere leaves one of the two."""
    name = TopicPartition("t" * 249, partition)
    for fault in failures(crash=is_crash):
        disk = MemoryDisk()
        manager = await loaded(disk, config=TIERED)
        log = await manager.create(name, TOPIC_ID)
        for _ in range(4):
            await append(log, epoch=0)
        disk.settle()
        disk.faults = fault
        with suppress(DiskCrash, OSError):
            await adopt(manager, name, STATE)
        disk.faults = None
        assert all(len(part) <= 255 for path in disk.files() for part in path.parts), disk.files()
        again = await loaded(disk.restart(Random(fault.n)), config=TIERED)
        assert set(again.logs) == {name}
        assert again.logs[name].state.log_end_offset in (4, 6)
        assert fault.fired or again.logs[name].state.log_end_offset == 6


@pytest.mark.parametrize("damage", [None, b"nonsense"])
async def test_bootstrap_rule_5_the_high_watermark_is_the_start_after_a_crash_too(damage: bytes | None) -> None:
    """Whether its checkpoint survived or not: what is in the tier is committed."""
    disk = MemoryDisk()
    await adopt(await node_with_old_replica(disk), TP, STATE)
    disk = disk.restart()
    if damage is not None:
        disk.put(LOG_DIR / "replication-offset-checkpoint", damage)
    log = (await loaded(disk, config=TIERED)).get(TP)
    assert log is not None
    assert (log.state.high_watermark, log.state.offsets.last_stable_offset) == (6, 4)


async def test_bootstrap_rule_5_an_open_transaction_below_the_local_start_is_never_looked_up_here() -> None:
    """Its first offset lies in the tier: what a read_committed consumer may see ends below every local file."""
    log = await adopt(await node_with_old_replica(MemoryDisk()), TP, STATE)
    await log.append_as_follower(data_batch(2, base_offset=6, epoch=2))
    log.update_high_watermark(8)
    assert log.state.offsets.last_stable_offset == 4 < log.state.offsets.local_log_start_offset
    with await log.read(6, max_bytes=1 << 20, max_offset=log.state.offsets.last_stable_offset) as nothing:
        assert nothing.size == 0
    assert await log.aborted_transactions(6, 8) == []


async def test_bootstrap_rule_6_neither_a_restart_nor_an_expired_producer_ends_an_adopted_transaction() -> None:
    disk = MemoryDisk()
    manager = await node_with_old_replica(disk)
    log = await adopt(manager, TP, STATE)
    log.state.producers.expire(2**62)
    await log.append_as_follower(data_batch(base_offset=6, epoch=3))
    log.update_high_watermark(7)
    assert log.state.offsets.last_stable_offset == 4
    await manager.close()
    again = (await loaded(disk.restart(), config=TIERED)).get(TP)
    assert again is not None
    assert (again.state.high_watermark, again.state.offsets.last_stable_offset) == (7, 4)
    await again.append_as_follower(marker_batch(ControlType.COMMIT, base_offset=7, epoch=3, producer_id=9))
    again.update_high_watermark(8)
    assert again.state.offsets.last_stable_offset == 8


async def test_bootstrap_rule_6_a_marker_that_is_cut_off_again_leaves_the_transaction_open() -> None:
    log = await adopt(await node_with_old_replica(MemoryDisk()), TP, STATE)
    await log.append_as_follower(data_batch(base_offset=6, epoch=3))
    await log.append_as_follower(marker_batch(ControlType.ABORT, base_offset=7, epoch=3, producer_id=9))
    await log.truncate_to(7)
    assert log.state.offsets.first_unstable_offset == 4
    assert log.state.offsets.last_stable_offset == 4
