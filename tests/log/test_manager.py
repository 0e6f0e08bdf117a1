"""The logs of a node: start, end, checkpoints, create, delete, reopen, upkeep; faults in between."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from tierfetch.log.core import CorruptFileError, LogConfig, decode_offsets
from tierfetch.log.disk import LogDirectoryLockedError, OsDisk, lock_directory
from tierfetch.log.keeper.log_directory import LogServices
from tierfetch.log.keeper.manager import LogManager
from tierfetch.log.keeper.upkeep import EPOCHS_DELAY_S, UpkeepSettings
from tierfetch.log.partition_log import LogLocation, PartitionLog
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.topics import TopicPartition
from tierfetch.tests import samples
from tierfetch.tests.fakes.disk import DiskCrash, Effect, FailNth, MemoryDisk, failures
from tierfetch.tests.log.logs import append, offsets_of, open_log, read_bytes
from tierfetch.tests.log.nodes import CLUSTER_ID, LIVE, LOG_DIR, TOPIC_ID, TP, loaded, new_manager

pytestmark = pytest.mark.virtual_time

SMALL = LogConfig(segment_bytes=400)
TIERED = LogConfig(segment_bytes=400, remote_storage_enable=True)
OTHER_ID = UUID(int=43)


async def with_data(disk: MemoryDisk, **kwargs: object) -> tuple[LogManager, PartitionLog]:
    """Offsets 0 to 9, committed up to 7."""
    manager = await loaded(disk, **kwargs)
    log = await manager.create(TP, TOPIC_ID)
    for _ in range(10):
        await append(log, value=bytes(50))
    log.update_high_watermark(7)
    return manager, log


def checkpoint(disk: MemoryDisk, name: str, directory: Path = LOG_DIR) -> dict[str, int]:
    data = disk.files().get(directory / f"{name}-offset-checkpoint", b"")
    return {str(partition): offset for partition, offset in decode_offsets(data).items()}


def names_in(disk: MemoryDisk, directory: Path = LOG_DIR) -> set[str]:
    return {path.relative_to(directory).parts[0] for path in disk.files(directory)}


# Start and end.


async def test_a_clean_end_is_a_fast_start() -> None:
    disk = MemoryDisk()
    manager, log = await with_data(disk)
    await manager.close()
    assert LOG_DIR / ".kafka_cleanshutdown" in disk.files()
    manager = await loaded(disk)
    found = manager.get(TP)
    assert found is not None
    assert (found.state.log_end_offset, found.state.high_watermark, found.state.offsets.recovery_point) == (10, 7, 10)
    assert (found.recovery_report.scanned_segments, found.state.topic_id) == (0, TOPIC_ID)
    assert offsets_of(await read_bytes(found)) == list(range(10))
    assert LOG_DIR / ".kafka_cleanshutdown" not in disk.restart().files(), "gone, durably, before anything is appended"
    assert log is not found


async def test_after_kill_9_the_logs_are_scanned() -> None:
    disk = MemoryDisk()
    await with_data(disk)
    found = (await loaded(disk.restart("kept"))).get(TP)
    assert found is not None
    assert found.state.log_end_offset == 10
    assert found.recovery_report.scanned_segments > 0


async def test_an_unclean_end_of_one_log_leaves_no_marker() -> None:
    disk = MemoryDisk()
    manager, _ = await with_data(disk)
    other = await manager.create(TopicPartition("u", 1), OTHER_ID)
    disk.faults = FailNth(1, only=frozenset({"write"}))
    with pytest.raises(KafkaError):
        await append(other)
    disk.faults = None
    await manager.close()
    assert LOG_DIR / ".kafka_cleanshutdown" not in disk.files()
    assert {str(tp) for tp in (await loaded(disk)).logs} == {"t-0", "u-1"}


async def test_the_directory_is_identified() -> None:
    disk = MemoryDisk()
    manager = await loaded(disk)
    (directory_id,) = manager.directory_ids
    assert directory_id.version == 4
    await manager.close()
    assert (await loaded(disk, seed=2)).directory_ids == (directory_id,)
    for wrong in ({"cluster_id": "another"}, {"node_id": 2}):
        with pytest.raises(KafkaError, match=r"meta\.properties belongs to") as raised:
            await loaded(disk, **wrong)
        assert raised.value.code is ErrorCode.inconsistent_cluster_id


async def test_a_directory_of_an_older_kafka_gets_an_id() -> None:
    disk = MemoryDisk()
    disk.put(LOG_DIR / "meta.properties", f"version=1\ncluster.id={CLUSTER_ID}\nnode.id=1\n".encode())
    (directory_id,) = (await loaded(disk)).directory_ids
    assert (await loaded(disk, seed=9)).directory_ids == (directory_id,)


async def test_a_damaged_identity_of_the_directory_stops_the_start() -> None:
    disk = MemoryDisk()
    manager, _ = await with_data(disk)
    await manager.close()
    disk.put(LOG_DIR / "meta.properties", b"nonsense")
    with pytest.raises(CorruptFileError, match=r"meta\.properties"):
        await loaded(disk)


DAMAGES = [b"nonsense", b"0\n1\nt 0", b"0\n2\nt 0 7\n", bytes(24), b"7\n0\n"]
CHECKPOINTS = ["log-start", "recovery-point", "replication"]


@pytest.mark.parametrize("name", CHECKPOINTS)
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("is_clean", [True, False])
async def test_a_damaged_checkpoint_counts_as_absent_and_is_written_anew(
    name: str, damage: bytes, is_clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    disk = MemoryDisk()
    manager, _ = await with_data(disk)
    await manager.upkeep.save_checkpoints()
    if is_clean:
        await manager.close()
    disk = disk.restart("kept")
    path = LOG_DIR / f"{name}-offset-checkpoint"
    disk.put(path, damage)
    found = (await loaded(disk)).get(TP)
    assert found is not None
    assert offsets_of(await read_bytes(found)) == list(range(10))
    assert found.state.high_watermark == (0 if name == "replication" else 7)
    assert str(path) in caplog.text
    rewritten = {
        "log-start": {},
        "recovery-point": {"t-0": found.state.offsets.recovery_point},
        "replication": {"t-0": 0},
    }
    assert checkpoint(disk, name) == rewritten[name]


async def test_a_damaged_recovery_point_has_every_segment_looked_at() -> None:
    disk = MemoryDisk()
    manager, log = await with_data(disk)
    await log.flush()
    await manager.upkeep.save_checkpoints()
    disk = disk.restart("kept")
    path = LOG_DIR / "recovery-point-offset-checkpoint"
    intact = (await loaded(disk.restart("kept"))).get(TP)
    disk.put(path, b"nonsense")
    found = (await loaded(disk)).get(TP)
    assert found is not None
    assert intact is not None
    assert intact.recovery_report.scanned_segments < found.recovery_report.scanned_segments == len(found.state.segments)


async def test_bootstrap_rule_4_a_damaged_log_start_of_a_tiered_log_is_not_guessed() -> None:
    disk = MemoryDisk()
    manager, log = await with_data(disk, config=TIERED)
    await log.delete_local_segments(4)
    assert log.state.offsets.local_log_start_offset > 0
    await manager.close()
    disk.put(LOG_DIR / "log-start-offset-checkpoint", b"nonsense")
    found = (await loaded(disk, config=TIERED)).get(TP)
    assert found is not None
    assert (found.state.log_start_offset, found.state.log_start_known) == (0, False)
    assert checkpoint(disk, "log-start") == {}


@pytest.mark.slow
async def test_a_real_broker_directory_of_kafka_opens() -> None:
    disk = MemoryDisk()
    disk.put_tree(samples.BROKER, LOG_DIR)
    cluster_id = (samples.ROOT / "cluster.id").read_text().strip()

    def config_of(topic: str) -> LogConfig:
        policy = frozenset({"compact" if topic.startswith(("__", "s-compact")) else "delete"})
        is_tiered = topic.startswith("s-") and "compact" not in policy
        return LogConfig(segment_bytes=65536, remote_storage_enable=is_tiered, cleanup_policy=policy)

    manager = new_manager(disk, cluster_id=cluster_id, node_id=2)
    object.__setattr__(manager.services, "config_of", config_of)
    await manager.identify()
    await manager.load()
    assert not manager.failures
    expected = samples.expected()
    for topic in samples.TOPICS:
        log = manager.get(TopicPartition(topic, 0))
        assert log is not None
        assert (
            log.state.high_watermark == log.state.log_end_offset == expected[topic]["list_offsets_v11"]["-1"]["offset"]
        )
        assert log.state.log_start_offset == expected[topic]["list_offsets_v11"]["-2"]["offset"]
        assert log.state.offsets.local_log_start_offset == expected[topic]["list_offsets_v11"]["-4"]["offset"]
        assert log.recovery_report.scanned_segments == 0
    assert manager.get(TopicPartition("__cluster_metadata", 0)) is None
    await manager.close()
    assert "remote-log-index-cache" in names_in(disk) or not (samples.BROKER / "remote-log-index-cache").exists()


async def test_a_foreign_directory_is_told_of_and_the_cache_of_remote_indexes_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = MemoryDisk()
    first = await loaded(disk)
    for name in ("remote-log-index-cache", "lost+found"):
        await disk.make_directory(LOG_DIR / name)
    await first.close()
    await (await loaded(disk)).close()
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        f"{LOG_DIR / 'lost+found'} is not a partition directory and is left alone"
    ]


async def test_several_directories_share_the_partitions() -> None:
    disk = MemoryDisk()
    directories = (Path("/a"), Path("/b"))
    manager = await loaded(disk, log_dirs=directories)
    for i in range(6):
        await manager.create(TopicPartition("t", i), TOPIC_ID)
    assert [len(directory.logs) for directory in manager.directories] == [3, 3]
    assert len(set(manager.directory_ids)) == 2
    await manager.close()
    again = await loaded(disk, log_dirs=directories)
    assert len(again.logs) == 6
    await again.close()
    source = next(path for path in disk.files(Path("/a")) if path.name == "partition.metadata").parent
    disk.put(Path("/b") / source.name / "partition.metadata", disk.files()[source / "partition.metadata"])
    with pytest.raises(KafkaError, match="is in /a and in /b"):
        await loaded(disk, log_dirs=directories)


async def test_a_damaged_log_fails_alone() -> None:
    disk = MemoryDisk()
    manager, log = await with_data(disk)
    await manager.create(TopicPartition("u", 1), OTHER_ID)
    path = log.state.segments[0].path
    await log.flush()
    await manager.upkeep.save_checkpoints()
    after = disk.restart("kept")
    data = bytearray(after.files()[path])
    data[70] ^= 1
    after.put(path, bytes(data))
    after.put(LOG_DIR / "recovery-point-offset-checkpoint", b"0\n1\nt 0 1\n")
    manager = await loaded(after)
    assert {str(tp) for tp in manager.logs} == {"u-1"}
    assert {str(tp) for tp in manager.failures} == {"t-0"}
    assert not manager.may_open_again(TP)
    with pytest.raises(KafkaError, match=r"00000000000000000000\.log is damaged at byte 0") as raised:
        manager.get(TP)
    assert raised.value.code is ErrorCode.kafka_storage_error
    with pytest.raises(KafkaError, match="is damaged"):
        await manager.create(TP, TOPIC_ID)
    assert checkpoint(after, "replication") == {"t-0": 7, "u-1": 0}, "what is known of it is kept"
    # Another incarnation does not care about the damage; the damaged one is kept for a person to look at.
    fresh = await manager.create(TP, OTHER_ID)
    assert (fresh.state.log_end_offset, fresh.state.high_watermark) == (0, 0)
    assert any(name.startswith("t-0.") and name.endswith("-stray") for name in names_in(after))
    assert not manager.failures


async def test_a_damaged_log_is_looked_at_again_at_the_next_start() -> None:
    disk = MemoryDisk()
    manager, log = await with_data(disk)
    path = log.state.segments[0].path
    after = disk.restart("kept")
    data = bytearray(after.files()[path])
    data[70] ^= 1
    after.put(path, bytes(data))
    after.put(LOG_DIR / "recovery-point-offset-checkpoint", b"0\n1\nt 0 1\n")
    for _ in range(2):
        manager = await loaded(after)
        assert {str(tp) for tp in manager.failures} == {"t-0"}
        await manager.close()
        assert LOG_DIR / ".kafka_cleanshutdown" not in after.files()


# Create, delete.


async def test_create_is_idempotent_and_takes_new_configs() -> None:
    disk = MemoryDisk()
    manager, log = await with_data(disk)
    assert await manager.create(TP, TOPIC_ID) is log
    assert log.state.config == SMALL
    assert manager.get(TopicPartition("t", 1)) is None
    with pytest.raises(ValueError, match="is illegal"):
        await manager.create(TopicPartition("../x", 0), TOPIC_ID)


async def test_create_is_durable_when_it_returns() -> None:
    disk = MemoryDisk()
    manager = await loaded(disk)
    await manager.create(TP, TOPIC_ID)
    found = (await loaded(disk.restart())).get(TP)
    assert found is not None
    assert found.state.topic_id == TOPIC_ID


async def test_another_topic_id_is_another_incarnation() -> None:
    disk = MemoryDisk()
    manager, old = await with_data(disk)
    new = await manager.create(TP, OTHER_ID)
    assert (new.state.topic_id, new.state.log_end_offset, new.state.high_watermark) == (OTHER_ID, 0, 0)
    with pytest.raises(KafkaError, match="it was closed"):
        await append(old)
    await manager.close()
    again = await loaded(disk)
    found = again.get(TP)
    assert found is not None
    assert found.state.topic_id == OTHER_ID
    (stray,) = [name for name in names_in(disk) if name.endswith("-stray")]
    assert disk.files()[LOG_DIR / stray / "00000000000000000000.log"]


async def test_another_incarnation_does_not_begin_where_the_old_one_began() -> None:
    disk = MemoryDisk()
    manager, old = await with_data(disk)
    await old.increment_log_start_offset(7)
    new = await manager.create(TP, OTHER_ID)
    assert (new.state.log_start_offset, new.state.log_end_offset) == (0, 0)
    await append(new)
    await new.flush()
    found = (await loaded(disk.restart())).get(TP)
    assert found is not None
    assert (found.state.topic_id, found.state.log_start_offset, found.state.log_end_offset) == (OTHER_ID, 0, 1)


async def test_a_log_without_a_topic_id_gets_the_one_it_is_asked_for() -> None:
    disk = MemoryDisk()
    await (await open_log(disk, LIVE)).close()
    manager = await loaded(disk)
    assert (await manager.create(TP, TOPIC_ID)).state.topic_id == TOPIC_ID
    assert LIVE / "partition.metadata" in disk.restart().files()


async def test_C3_a_deleted_log_is_gone_at_once_and_its_files_later() -> None:
    disk = MemoryDisk()
    manager, log = await with_data(disk, config=LogConfig(segment_bytes=400, file_delete_delay_ms=0))
    await manager.upkeep.save_checkpoints()
    await manager.delete(TP)
    assert manager.get(TP) is None
    assert checkpoint(disk, "replication") == checkpoint(disk, "recovery-point") == {}
    assert (await loaded(disk.restart())).get(TP) is None
    assert any(name.endswith("-delete") for name in names_in(disk))
    await manager.upkeep.remove_due()
    assert not any(name.endswith("-delete") for name in names_in(disk))
    await manager.delete(TP)
    with pytest.raises(KafkaError, match="it was closed"):
        await append(log)


async def test_a_recreated_log_does_not_inherit_from_the_deleted_one() -> None:
    """A log start of the old incarnation would make the next start throw the new one's data away."""
    for fault in failures(crash=True):
        disk = MemoryDisk()
        manager, log = await with_data(disk)
        await log.increment_log_start_offset(7)
        await manager.upkeep.save_checkpoints()
        disk.settle()
        disk.faults = fault
        created = False
        try:
            await manager.delete(TP)
            log = await manager.create(TP, OTHER_ID)
            created = True
            await append(log)
            await log.flush()
        except DiskCrash:
            pass
        else:
            assert not fault.fired
        after = disk.restart(Random(fault.n))
        found = (await loaded(after)).get(TP)
        if found is not None and found.state.topic_id == OTHER_ID:
            assert (found.state.log_start_offset, found.state.high_watermark) == (0, 0)
        elif found is not None and found.state.topic_id == TOPIC_ID:
            assert found.state.log_start_offset == 7
        else:
            assert found is None or found.state.log_end_offset == 0
            assert not created or found is None or found.state.topic_id is not None


async def test_a_recreated_log_does_not_inherit_from_a_checkpoint_whose_write_failed_and_is_there() -> None:
    for fault in failures():
        disk = MemoryDisk()
        manager, log = await with_data(disk)
        disk.faults = fault
        with suppress(OSError):
            await log.increment_log_start_offset(7)
        disk.faults = None
        await manager.delete(TP)
        await append(await manager.create(TP, OTHER_ID))
        disk.settle()
        found = (await loaded(disk.restart())).get(TP)
        assert found is not None
        assert (found.state.log_start_offset, found.state.log_end_offset) == (0, 1)


async def test_deletions_of_an_earlier_process_are_finished_at_the_start() -> None:
    disk = MemoryDisk()
    manager, _ = await with_data(disk)
    await manager.delete(TP)
    assert any(name.endswith("-delete") for name in names_in(disk))
    after = disk.restart("kept")
    await loaded(after)
    assert not any(name.endswith("-delete") for name in names_in(after))


async def test_a_deletion_that_fails_leaves_a_failed_partition_that_can_be_opened_again() -> None:
    disk = MemoryDisk()
    manager, _ = await with_data(disk)
    disk.faults = FailNth(1, only=frozenset({"rename"}))
    with pytest.raises(OSError, match="injected"):
        await manager.delete(TP)
    with pytest.raises(KafkaError, match="could not be moved"):
        manager.get(TP)
    assert (await manager.reopen(TP)).state.log_end_offset == 10
    assert not manager.failures


async def test_a_crash_leaves_no_log_that_begins_below_what_is_known_of_it() -> None:
    """A follower that goes on where its leader's log starts: its log start never lies where it has neither records nor
    epochs, and no segment in the tier.
    """
    outcomes = set()
    for fault in failures(crash=True):
        disk = MemoryDisk()
        manager, log = await with_data(disk, config=TIERED)
        await manager.upkeep.save_checkpoints()
        disk.faults = fault
        with suppress(DiskCrash):
            await log.truncate_fully_and_start_at(20)
        for unsynced in ("lost", "kept"):
            after = (await loaded(disk.restart(unsynced), config=TIERED)).get(TP)
            assert after is not None
            outcomes.add((after.state.log_start_offset, after.state.offsets.local_log_start_offset))
    assert outcomes == {(0, 0), (20, 20)}


async def test_a_log_whose_deletion_failed_serves_its_incarnation_again() -> None:
    manager, _ = await with_data(disk := MemoryDisk())
    disk.faults = FailNth(1, only=frozenset({"rename"}))
    with pytest.raises(OSError, match="injected"):
        await manager.delete(TP)
    assert manager.may_open_again(TP)
    await manager.reopen(TP)
    assert (await manager.create(TP, TOPIC_ID)).state.log_end_offset == 10


async def test_a_log_that_was_moved_though_not_durably_is_in_nobodys_way() -> None:
    manager, _ = await with_data(disk := MemoryDisk())
    disk.faults = FailNth(1, only=frozenset({"sync_directory"}))
    with pytest.raises(OSError, match="injected"):
        await manager.delete(TP)
    again = await manager.create(TP, OTHER_ID)
    assert (again.state.topic_id, again.state.log_end_offset) == (OTHER_ID, 0)


async def test_a_log_that_cannot_be_closed_in_order_to_be_deleted_is_not_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its directory would be taken for that of the next topic of that name."""
    manager, log = await with_data(MemoryDisk())

    async def fail() -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(log, "abandon", fail)
        with pytest.raises(OSError, match="Input/output"):
            await manager.delete(TP)
    assert TP in manager.known_partitions
    again = await manager.create(TP, OTHER_ID)
    assert (again.state.topic_id, again.state.log_end_offset) == (OTHER_ID, 0)
    await manager.close()


async def test_files_of_a_deleted_log_are_let_go_of_whatever_its_end_has_waited_for() -> None:
    manager, log = await with_data(MemoryDisk())
    log_slice = await log.read(0, max_bytes=1000, max_offset=10)
    async with log.state.flush_lock:
        deleted = asyncio.create_task(manager.delete(TP))
        while TP in manager.logs:  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0)
        await manager.upkeep.remove_due()
    await deleted
    assert log.state.has_readers
    log_slice.release()
    await manager.upkeep.remove_due()
    assert not log.state.has_readers
    await manager.close()


async def test_a_log_that_a_full_disk_kept_closed_may_be_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryDisk()
    await with_data(disk)

    async def full(location: LogLocation) -> PartitionLog:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(PartitionLog, "open", full)
        manager = await loaded(disk.restart("kept"))
    with pytest.raises(KafkaError, match="No space left"):
        manager.get(TP)
    assert manager.may_open_again(TP)
    assert (await manager.reopen(TP)).state.log_end_offset == 10
    assert not manager.may_open_again(TP)


async def test_a_failed_log_is_opened_anew() -> None:
    disk = MemoryDisk()
    manager, log = await with_data(disk)
    disk.faults = FailNth(1, persistent=True, error_number=28, only=frozenset({"write"}))
    with pytest.raises(KafkaError, match="No space left"):
        await append(log)
    with pytest.raises(KafkaError):
        await append(log)
    disk.faults = None
    again = await manager.reopen(TP)
    assert manager.get(TP) is again
    assert offsets_of(await read_bytes(again)) == list(range(10))
    assert (await append(again)).first_offset == 10


async def test_D2_a_trial_append_that_the_disk_refuses_leaves_the_log_as_it_was() -> None:
    disk = MemoryDisk()
    manager, log = await with_data(disk)
    await log.flush()
    await log.roll()  # it would do so for the trial
    before = disk.files()
    disk.capacity_bytes = sum(map(len, before.values())) + 8000
    with pytest.raises(OSError, match="No space left"):
        await manager.try_append(TP, 8001)
    assert disk.files() == before
    assert log.state.failure is None
    disk.capacity_bytes = None
    await manager.try_append(TP, 8001)
    assert disk.files() == before
    assert (await append(log)).first_offset == 10
    assert offsets_of(await read_bytes(log)) == list(range(11))


async def test_D2_a_log_whose_trial_append_cannot_be_flushed_has_failed() -> None:
    disk = MemoryDisk()
    manager, log = await with_data(disk)
    disk.faults = FailNth(1, persistent=True, error_number=5, only=frozenset({"sync"}))
    with pytest.raises(KafkaError, match="Input/output error"):
        await manager.try_append(TP, 1)
    assert log.state.failure is not None


async def test_D2_a_crash_in_a_trial_append_leaves_what_the_next_start_cuts() -> None:
    disk = MemoryDisk()
    manager, _ = await with_data(disk)
    disk.faults = FailNth(1, persistent=True, crash=True, only=frozenset({"truncate"}))
    with pytest.raises(DiskCrash):
        await manager.try_append(TP, 100)
    manager = await loaded(disk.restart("kept"))
    log = manager.get(TP)
    assert log is not None
    assert offsets_of(await read_bytes(log)) == list(range(10))


async def test_D5_a_full_disk_is_freed_by_retention() -> None:
    disk = MemoryDisk(capacity_bytes=8_000)
    config = LogConfig(segment_bytes=1000, retention_bytes=3000)
    manager = await loaded(disk, config=config)
    log = await manager.create(TP, TOPIC_ID)

    async def fill() -> None:
        while True:
            log.update_high_watermark((await append(log, value=bytes(100))).last_offset + 1)

    with pytest.raises((KafkaError, OSError), match="No space left"):
        await fill()
    written = log.state.high_watermark
    log = await manager.reopen(TP)
    log.update_high_watermark(written)
    await manager.upkeep.clean_up()
    assert log.state.log_start_offset > 0
    assert (await append(log)).first_offset == written
    assert offsets_of(await read_bytes(log)) == list(range(log.state.segments[0].base_offset, written + 1))
    await manager.close()


async def test_D5_a_full_disk_is_freed_of_what_the_tier_has() -> None:
    """Whatever else there is to be written: where this log begins is on the disk already."""
    disk = MemoryDisk()
    manager = await loaded(disk, config=TIERED)
    log, other = await manager.create(TP, TOPIC_ID), await manager.create(TopicPartition("u", 1), OTHER_ID)
    for each in (log, other):
        for _ in range(10):
            each.update_high_watermark((await append(each, value=bytes(100))).last_offset + 1)
    await log.flush()
    await manager.upkeep.save_checkpoints()
    for _ in range(10):
        log.update_high_watermark((await append(log, value=bytes(100))).last_offset + 1)
    disk.capacity_bytes = sum(map(len, disk.files().values()))
    for raised in (other.increment_log_start_offset(9), log.increment_log_start_offset(1)):
        with pytest.raises(OSError, match="No space left"):
            await raised
    assert await log.delete_local_segments(20) == 9
    assert (log.state.log_start_offset, log.state.offsets.local_log_start_offset) == (0, 18)
    assert checkpoint(disk, "log-start") == {"t-0": 0, "u-1": 0}
    await manager.close()
    again = (await loaded(disk, config=TIERED)).get(TP)
    assert again is not None
    assert (again.state.log_start_offset, offsets_of(await read_bytes(again, 18))) == (0, [18, 19])


async def test_a_log_start_that_may_not_be_on_the_disk_is_written_before_segments_go() -> None:
    disk = MemoryDisk()
    manager, log = await with_data(disk, config=TIERED)
    await log.flush()
    for operation in ("sync_directory", "write_file"):
        disk.faults = FailNth(1, only=frozenset({operation}))
        with pytest.raises(OSError, match=operation):
            await log.delete_local_segments(7)
    disk.faults = None
    assert log.state.offsets.local_log_start_offset == 0
    assert await log.delete_local_segments(7) > 0
    assert checkpoint(disk, "log-start") == {"t-0": 0}
    await manager.close()


# Checkpoints.


async def test_checkpoints_say_where_logs_begin_are_flushed_and_committed() -> None:
    disk = MemoryDisk()
    manager, log = await with_data(disk)
    tiered = await manager.create(TopicPartition("u", 1), OTHER_ID)
    tiered.update_config(TIERED)
    await log.flush()
    await manager.upkeep.save_checkpoints()
    assert checkpoint(disk, "replication") == {"t-0": 7, "u-1": 0}
    assert checkpoint(disk, "recovery-point") == {"t-0": 10, "u-1": 0}
    assert checkpoint(disk, "log-start") == {"u-1": 0}
    await log.increment_log_start_offset(5)
    assert checkpoint(disk.restart(), "log-start") == {"t-0": 5, "u-1": 0}
    await log.truncate_to(6)
    assert checkpoint(disk.restart(), "recovery-point") == {"t-0": 6, "u-1": 0}
    assert checkpoint(disk.restart(), "replication") == {"t-0": 6, "u-1": 0}


async def test_checkpoints_asked_for_together_are_written_once() -> None:
    disk = MemoryDisk()
    manager = await loaded(disk)
    logs = [await manager.create(TopicPartition("t", i), TOPIC_ID) for i in range(8)]
    for log in logs:
        await append(log, 5)
        log.update_high_watermark(5)
    before = len(disk.effects)
    await asyncio.gather(*(log.increment_log_start_offset(3) for log in logs))
    writes = [effect for effect in disk.effects[before:] if effect.path.name == "log-start-offset-checkpoint"]
    assert len(writes) <= 2
    assert set(checkpoint(disk.restart(), "log-start").values()) == {3}


async def test_a_checkpoint_that_fails_fails_all_who_asked_for_it() -> None:
    disk = MemoryDisk()
    manager = await loaded(disk)
    logs = [await manager.create(TopicPartition("t", i), TOPIC_ID) for i in range(3)]
    for log in logs:
        await append(log, 5)
        log.update_high_watermark(5)
    disk.faults = FailNth(1, persistent=True)
    outcomes = await asyncio.gather(*(log.increment_log_start_offset(3) for log in logs), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [OSError] * 3
    assert [(log.state.log_start_offset, log.state.failure) for log in logs] == [(0, None)] * 3
    disk.faults = None
    assert await asyncio.gather(*(log.increment_log_start_offset(3) for log in logs)) == [True] * 3
    assert set(checkpoint(disk, "log-start").values()) == {3}


async def test_a_node_that_could_not_start_leaves_its_directories_as_they_were() -> None:
    disk = MemoryDisk()
    manager, log = await with_data(disk)
    await log.increment_log_start_offset(5)
    await manager.close()
    before = disk.files()
    manager = new_manager(disk, cluster_id="another")
    with pytest.raises(KafkaError, match="INCONSISTENT_CLUSTER_ID"):
        await manager.identify()
    await manager.close()
    assert disk.files() == before


async def test_a_node_that_opened_no_log_leaves_its_directories_as_they_were() -> None:
    """It could not be registered, say: neither its checkpoints nor the clean-shutdown marker are of this run."""
    disk = MemoryDisk()
    manager, log = await with_data(disk)
    await log.increment_log_start_offset(5)
    manager.broker_epoch = 17
    await manager.close()
    before = disk.files()
    manager = new_manager(disk)
    await manager.identify()
    assert manager.previous_broker_epoch == 17
    await manager.close()
    assert disk.files() == before


# UpkeepSettings.


async def test_upkeep_flushes_closed_segments_and_cleans_up() -> None:
    disk = MemoryDisk()
    upkeep = UpkeepSettings(
        checkpoint_interval_ms=1,
        retention_check_interval_ms=1,
        look_interval_ms=1,
        producer_expiration_check_interval_ms=1,
    )
    config = LogConfig(segment_bytes=400, retention_bytes=500)
    manager, log = await with_data(disk, config=config, upkeep=upkeep)
    log.update_high_watermark(10)
    assert log.state.has_unflushed_segments
    running = asyncio.create_task(manager.upkeep.run())
    for _ in range(5000):
        if (
            log.state.log_start_offset
            and not log.state.has_unflushed_segments
            and not log.state.has_unsaved_epochs
            and checkpoint(disk, "replication") == {"t-0": 10}
        ):
            break
        await asyncio.sleep(0.001)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert log.state.log_start_offset > 0
    assert not log.state.has_unflushed_segments
    assert not log.state.has_unsaved_epochs
    assert log.state.segments.size_bytes <= 900
    assert checkpoint(disk, "replication") == {"t-0": 10}


@pytest.mark.parametrize("place", ["has_unsaved_epochs", "has_trouble"])
async def test_an_internal_error_in_a_look_is_logged_and_the_looks_continue(
    place: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    manager, log = await with_data(
        MemoryDisk(), config=LogConfig(segment_bytes=400), upkeep=UpkeepSettings(look_interval_ms=1)
    )
    looks = list[None]()

    def broken(*_: object) -> bool:
        looks.append(None)
        raise RuntimeError("a mistake")

    with monkeypatch.context() as patch:
        if place == "has_trouble":
            patch.setattr(manager.directories[0], place, broken)
        else:
            patch.setattr(type(log.state), place, property(broken))
        running = asyncio.create_task(manager.upkeep.run())
        for _ in range(5000):
            if len(looks) >= 30:
                break
            await asyncio.sleep(0.001)
    assert len(looks) >= 30
    for _ in range(5000):
        if not (log.state.has_unsaved_epochs or log.state.has_unflushed_segments):
            break
        await asyncio.sleep(0.001)
    assert not log.state.has_unsaved_epochs
    assert not log.state.has_unflushed_segments
    assert not running.done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await manager.close()
    lines = [record for record in caplog.records if "internal error in" in record.message]
    assert len(lines) == 1, "one of each log within ten seconds"


async def test_files_go_however_often_segments_are_rolled() -> None:
    disk = MemoryDisk()
    config = LogConfig(segment_bytes=400, file_delete_delay_ms=0)
    manager, _ = await with_data(disk, config=config, upkeep=UpkeepSettings(look_interval_ms=1))
    busy = await manager.create(TopicPartition("u", 1), OTHER_ID)
    await manager.delete(TP)
    upkeep = asyncio.create_task(manager.upkeep.run())
    async with asyncio.timeout(10):
        while any(name.endswith("-delete") for name in names_in(disk)):
            await append(busy, value=bytes(400 - 100))
    upkeep.cancel()
    await asyncio.gather(upkeep, return_exceptions=True)
    await manager.close()


async def test_flush_ms_flushes_the_active_segment_too() -> None:
    disk = MemoryDisk()
    manager, log = await with_data(disk, config=LogConfig(flush_ms=0))
    assert log.state.offsets.recovery_point == 0
    await manager.upkeep.flush_due()
    assert log.state.offsets.recovery_point == 10
    found = (await loaded(disk.restart(), config=LogConfig(flush_ms=0))).get(TP)
    assert found is not None
    assert found.state.log_end_offset == 10


async def test_epochs_are_saved_together_a_while_after_the_first_has_changed() -> None:
    disk, saved = MemoryDisk(), list[str]()
    manager, log = await with_data(disk)
    other = await manager.create(TopicPartition("u", 1), OTHER_ID)
    await manager.upkeep.save_epochs()

    async def noted(effect: Effect) -> None:
        if effect.path.name == "leader-epoch-checkpoint":
            saved.append(effect.path.parent.name)

    disk.before_effect = noted
    await manager.upkeep.flush_due()
    saved.clear()
    upkeep = asyncio.create_task(manager.upkeep.run())
    await log.assign_epoch(3)
    await asyncio.sleep(EPOCHS_DELAY_S - 1)
    await other.assign_epoch(3)
    assert saved == []
    await asyncio.sleep(2.5)
    assert set(saved) == {"t-0", "u-1"}
    saved.clear()
    await asyncio.sleep(2 * EPOCHS_DELAY_S)
    assert saved == []
    upkeep.cancel()
    await asyncio.gather(upkeep, return_exceptions=True)
    await manager.close()


async def test_upkeep_saves_the_epochs_that_have_changed_and_no_others() -> None:
    disk, saved = MemoryDisk(), list[str]()
    manager, log = await with_data(disk)
    other = await manager.create(TopicPartition("u", 1), OTHER_ID)
    for each in (log, other):
        await each.assign_epoch(3)
    await manager.upkeep.save_epochs()

    async def noted(effect: Effect) -> None:
        if effect.path.name == "leader-epoch-checkpoint":
            saved.append(effect.path.parent.name)

    disk.before_effect = noted
    await manager.upkeep.save_epochs()
    assert saved == []
    await other.assign_epoch(4)
    await manager.upkeep.save_epochs()
    assert set(saved) == {"u-1"}
    assert disk.restart().files()[LOG_DIR / "u-1" / "leader-epoch-checkpoint"] == b"0\n1\n4 0\n"


async def test_a_log_start_whose_write_has_failed_half_way_is_taken_back_on_the_disk_too() -> None:
    disk = MemoryDisk()
    manager, log = await with_data(disk)
    disk.faults = FailNth(1, only=frozenset({"sync_directory"}))
    with pytest.raises(OSError, match="sync_directory"):
        await log.increment_log_start_offset(5)
    disk.faults = None
    assert (log.state.log_start_offset, checkpoint(disk, "log-start")) == (0, {"t-0": 5})
    await manager.upkeep.save_checkpoints()
    assert checkpoint(disk, "log-start") == {}
    await manager.close()


async def test_a_failing_log_does_not_stop_the_upkeep_of_others() -> None:
    disk = MemoryDisk()
    manager, log = await with_data(disk)
    other = await manager.create(TopicPartition("u", 1), OTHER_ID)
    for _ in range(10):
        await append(other, value=bytes(50))
    disk.faults = FailNth(1, only=frozenset({"sync"}))
    await manager.upkeep.flush_due()
    assert log.state.failure is not None
    assert (other.state.failure, other.state.has_unflushed_segments) == (None, False)
    await manager.upkeep.clean_up()
    await manager.upkeep.save_checkpoints()
    await manager.upkeep.remove_due()


async def test_a_fault_of_ours_in_one_log_does_not_stop_the_upkeep_of_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    manager, log = await with_data(MemoryDisk())
    other = await manager.create(TopicPartition("u", 1), OTHER_ID)
    for _ in range(10):
        await append(other, value=bytes(50))

    async def fail() -> None:
        raise AssertionError("impossible")

    monkeypatch.setattr(log, "flush", fail)
    await manager.upkeep.flush_due()
    assert not other.state.has_unflushed_segments
    assert "internal error in the upkeep of the log of t-0" in caplog.text
    await manager.close()


async def test_a_log_that_is_deleted_while_others_are_cleaned_up_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    manager, _ = await with_data(MemoryDisk())
    other = await manager.create(TopicPartition("u", 1), OTHER_ID)
    cleaned: list[TopicPartition] = []

    async def delete_the_other(log: PartitionLog) -> None:
        cleaned.append(log.state.topic_partition)
        if log.state.topic_partition == TP:
            await manager.delete(other.state.topic_partition)

    monkeypatch.setattr(PartitionLog, "delete_old_segments", delete_the_other)
    await manager.upkeep.clean_up()
    assert cleaned == [TP]
    await manager.close()


# On a real disk.

LOCK_AND_WAIT = """
import fcntl, sys
file = open(sys.argv[1], "a")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.mark.virtual_time(False)
async def test_a_directory_that_another_process_uses_is_refused(tmp_path: Path) -> None:
    disk = OsDisk()
    manager = LogManager(
        [tmp_path],
        LogServices(disk=disk, rng=Random(1), now_ms=lambda: 1, config_of=lambda topic: SMALL),
        cluster_id=CLUSTER_ID,
        node_id=1,
    )
    other = await asyncio.create_subprocess_exec(
        sys.executable,
        "-S",
        "-c",
        LOCK_AND_WAIT,
        str(tmp_path / ".lock"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert other.stdout is not None
    assert other.stdin is not None
    assert await other.stdout.readline() == b"locked\n"
    with pytest.raises(LogDirectoryLockedError, match="is in use by another process"):
        await manager.identify()
    other.stdin.close()
    assert await other.wait() == 0
    await manager.identify()
    await manager.load()
    log = await manager.create(TP, TOPIC_ID)
    await append(log)
    await manager.close()
    lock_directory(tmp_path).release()
    assert {path.name for path in tmp_path.iterdir()} >= {"t-0", "meta.properties", ".kafka_cleanshutdown", ".lock"}
    await disk.close()
