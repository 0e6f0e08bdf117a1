"""A log that moves to another log directory while it is used"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from random import Random
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tierfetch.log.cleaner.cleaning import Throttle
from tierfetch.log.core import LogConfig
from tierfetch.log.keeper.future_logs import advance, create_future, drop_future, pending_step, switch
from tierfetch.log.keeper.log_directory import LogDirectory
from tierfetch.log.keeper.manager import LogManager
from tierfetch.log.partition_log import PartitionLog
from tierfetch.protocol.errors import CorruptRecordError, KafkaError
from tierfetch.tests.fakes.disk import DiskCrash, MemoryDisk, failures
from tierfetch.tests.log.logs import append, epochs_of, offsets_of, read_bytes
from tierfetch.tests.log.nodes import TOPIC_ID, TP, loaded

LENGTH_LOW_BYTE = 11
"""Where a batch has the last byte of its length."""
A, B = Path("/a"), Path("/b")
CONFIG = LogConfig(segment_bytes=400)
TIERED = LogConfig(segment_bytes=400, remote_storage_enable=True)


class Node:
    """A node with two log directories, and what the controller has recorded of the replica's directory."""

    def __init__(self, disk: MemoryDisk, config: LogConfig = CONFIG) -> None:
        self.disk = disk
        self.config = config
        self.recorded: UUID | None = None
        self.manager: LogManager

    async def start(self) -> LogManager:
        self.manager = await loaded(
            self.disk, config=self.config, log_dirs=(A, B), directory_of=lambda _: self.recorded
        )
        return self.manager

    async def restart(self, unsynced: str | Random = "kept") -> LogManager:
        self.disk = self.disk.restart(unsynced)  # type: ignore[arg-type]
        return await self.start()

    @property
    def log(self) -> PartitionLog:
        log = self.manager.get(TP)
        assert log is not None
        return log

    @property
    def place(self) -> Path:
        (path,) = [directory.path for directory in self.manager.directories if TP in directory.logs]
        return path

    def other(self) -> LogDirectory:
        (directory,) = [directory for directory in self.manager.directories if directory.path != self.place]
        return directory


async def node_with_log(disk: MemoryDisk, *, config: LogConfig = CONFIG, count: int = 10) -> Node:
    """`count` records of epoch 0, of 70 bytes each or so, in /a."""
    node = Node(disk, config)
    await node.start()
    log = await node.manager.create(TP, TOPIC_ID)
    for i in range(count):
        await append(log, value=bytes(50), producer_id=9, producer_epoch=0, base_sequence=i)
    log.update_high_watermark(count)
    await log.flush()
    await node.manager.upkeep.save_checkpoints()
    assert node.place == A
    disk.settle()
    return node


async def copy_all(node: Node) -> PartitionLog:
    found = node.manager.future_of(TP)
    future = found[1] if found is not None else await create_future(node.manager, TP, node.other())
    for _ in range(200):
        if await advance(node.log, future) is None:
            return future
    raise AssertionError(f"no end: {pending_step(node.log, future)}, {node.log.copied}, {future.copied}")


async def move(node: Node) -> None:
    """As the broker does: the controller records the other directory before the switch."""
    await promise(node)
    assert await switch(node.manager, TP)


async def promise(node: Node) -> None:
    """The controller records the other directory."""
    await (await copy_all(node)).take_history(node.log)
    node.recorded = node.other().directory_id


async def names(disk: MemoryDisk, path: Path) -> list[str]:
    return [entry.name for entry in await disk.list_directory(path) if entry.is_directory]


async def test_D4_a_log_does_not_move_without_what_a_damaged_length_hides() -> None:
    node = await node_with_log(MemoryDisk())
    for segment in node.log.state.segments.as_tuple()[:-1]:
        with segment.pinned():
            await (await segment.file()).write(LENGTH_LOW_BYTE - 1, b"\x40")
    damaged = pytest.raises(CorruptRecordError, match=r"bytes are no complete batch \(batch at byte 0\)")
    with damaged:
        await copy_all(node)
    with damaged:
        await switch(node.manager, TP)
    assert node.place == A


async def test_D4_a_log_moves_and_is_the_same_log_afterwards() -> None:
    node = await node_with_log(MemoryDisk())
    log = node.log
    before, offsets, bases = (
        await read_bytes(log),
        log.state.offsets,
        [segment.base_offset for segment in log.state.segments],
    )
    assert len(bases) > 2
    await move(node)
    assert node.log is log, "whoever has the log open notices nothing"
    assert node.place == B
    assert await read_bytes(log) == before
    assert log.state.offsets == offsets._replace(recovery_point=10)
    assert [segment.base_offset for segment in log.state.segments] == bases
    assert log.state.directory == B / str(TP)
    assert log.state.segments.active.open_file.path.parent == B / str(TP)
    await append(log, value=b"more", producer_id=9, producer_epoch=0, base_sequence=10)
    again = await node.restart()
    assert node.place == B
    assert offsets_of(await read_bytes(node.log)) == list(range(11))
    assert node.log.state.producers.entries[9].last_sequence == 10
    assert node.log.state.topic_id == TOPIC_ID
    assert node.log.state.high_watermark == 10
    assert await names(node.disk, A) in ([], [name for name in await names(node.disk, A) if "-delete" in name])
    assert not again.failures


async def test_D4_files_of_the_moved_log_are_read_written_and_removed_under_the_new_name() -> None:
    node = await node_with_log(MemoryDisk(), config=LogConfig(segment_bytes=400, retention_bytes=400))
    await move(node)
    await node.log.delete_old_segments()
    assert node.log.state.log_start_offset > 0
    await node.log.truncate_to(9)
    await append(node.log, epoch=1)
    assert offsets_of(await read_bytes(node.log))[-1] == 9
    await node.manager.close()
    await node.restart("lost")
    assert node.place == B
    assert epochs_of(node.log)[-1] == (1, 9)


async def test_D4_a_reader_keeps_the_bytes_that_it_holds_over_the_switch() -> None:
    node = await node_with_log(MemoryDisk())
    first = node.log.state.segments[0]
    expected = await read_bytes(node.log, 0, first.next_offset)
    with await node.log.read(0, max_bytes=1 << 20, max_offset=first.next_offset) as piece:
        await move(node)
        node.log.update_high_watermark(10)
        assert await piece.read() == expected
    await node.log.reap()
    assert not node.log.state.has_readers


async def test_D4_the_future_log_follows_truncations_epochs_and_the_log_start() -> None:
    node = await node_with_log(MemoryDisk())
    log = node.log
    await copy_all(node)
    await log.truncate_to(7)
    await append(log, epoch=4, value=b"other")
    await log.increment_log_start_offset(6)
    await log.delete_old_segments_by_log_start()
    await log.assign_epoch(6)
    expected = await read_bytes(log)
    await move(node)
    assert await read_bytes(log) == expected
    assert epochs_of(log) == [(0, 6), (4, 7), (6, 8)]
    await node.restart("lost")
    assert await read_bytes(node.log) == expected
    assert epochs_of(node.log) == [(0, 6), (4, 7)], "as after any crash: no batch has epoch 6"
    assert node.log.state.log_start_offset == 6


async def test_D4_a_tiered_log_keeps_its_log_start_and_the_epochs_below_its_local_start() -> None:
    node = await node_with_log(MemoryDisk(), config=TIERED, count=4)
    log = node.log
    await log.assign_epoch(3)
    for _ in range(6):
        await append(log, epoch=3, value=bytes(50))
    log.update_high_watermark(10)
    await log.delete_local_segments(6)
    local = log.state.offsets.local_log_start_offset
    assert 0 < local <= 6
    await move(node)
    await node.restart("lost")
    assert node.place == B
    assert (node.log.state.log_start_offset, node.log.state.offsets.local_log_start_offset) == (0, local)
    assert epochs_of(node.log) == [(0, 0), (3, 4)]
    assert node.log.state.log_start_known


@pytest.mark.parametrize("local_records", [4, 0])
async def test_D4_a_crash_before_the_switch_keeps_the_epochs_of_what_only_the_tier_has(local_records: int) -> None:
    """Seed 1009 of the simulation: the controller counted on a copy that began with its first batch's epoch."""
    node = await node_with_log(MemoryDisk(), config=TIERED, count=4)
    log = node.log
    await log.assign_epoch(3)
    for _ in range(6):
        await append(log, epoch=3, value=bytes(50))
    log.update_high_watermark(10)
    if not local_records:
        await log.roll()
    await log.delete_local_segments(10 - local_records)
    local = log.state.offsets.local_log_start_offset
    assert (0 < local <= 6) if local_records else local == 10
    await log.flush()
    await promise(node)
    await node.restart("lost")
    assert (node.place, node.log.state.offsets.local_log_start_offset) == (B, local)
    assert epochs_of(node.log) == [(0, 0), (3, 4)]
    await append(node.log, epoch=3, value=b"next")
    await node.log.assign_epoch(4)
    assert epochs_of(node.log) == [(0, 0), (3, 4), (4, 11)]


@pytest.mark.parametrize("mark", ["is_adopted", "is_thin"])
async def test_D4_a_crash_before_the_switch_keeps_the_marks_of_a_replica(mark: str) -> None:
    node = await node_with_log(MemoryDisk(), config=TIERED)
    setattr(node.log.state, mark, True)
    await promise(node)
    await node.restart("lost")
    assert (node.place, getattr(node.log.state, mark)) == (B, True)


async def test_D4_a_copy_that_is_emptied_or_marked_anew_has_to_take_the_history_again() -> None:
    node = await node_with_log(MemoryDisk(), config=TIERED)
    future = await copy_all(node)
    assert not future.has_history(node.log)
    await future.take_history(node.log)
    assert future.has_history(node.log)
    node.log.state.is_thin = True
    assert not future.has_history(node.log)
    await future.take_history(node.log)
    assert future.has_history(node.log)
    await future.truncate_fully_and_start_at(0)
    assert not future.has_history(node.log)


async def test_D4_a_log_start_in_the_middle_of_a_batch() -> None:
    node = await node_with_log(MemoryDisk(), count=1)
    log = node.log
    await append(log, 5, value=b"five")
    log.update_high_watermark(6)
    await log.increment_log_start_offset(3)
    await move(node)
    assert (log.state.log_start_offset, log.state.log_end_offset, log.state.segments[0].base_offset) == (
        3,
        6,
        1,
    )
    assert offsets_of(await read_bytes(log, 3)) == [1, 2, 3, 4, 5]


async def test_D4_a_log_that_retention_has_emptied_while_it_moved() -> None:
    node = await node_with_log(MemoryDisk())
    await copy_all(node)
    log = node.log
    await log.truncate_fully_and_start_at(50)
    await move(node)
    assert (log.state.log_start_offset, log.state.log_end_offset) == (50, 50)
    await append(log)
    assert offsets_of(await read_bytes(log)) == [50]


async def test_D4_a_compacted_log_is_compacted_while_it_moves() -> None:
    node = await node_with_log(MemoryDisk(), config=LogConfig(segment_bytes=400, cleanup_policy=frozenset({"compact"})))
    log = node.log
    future = await create_future(node.manager, TP, node.other())
    await log.roll()
    await log.flush()
    await log.clean(1 << 20, Throttle(1e9))
    compacted = await read_bytes(log)
    assert len(offsets_of(compacted)) < 10, "all records have one key"
    while await advance(log, future) is not None:
        pass
    await append(log)
    await move(node)
    assert offsets_of(await read_bytes(log))[-2:] == [9, 10]
    assert log.state.clean_end_offset == 0, "the copy began before the compaction, and has what that has removed"
    await log.roll()
    await log.flush()
    log.update_high_watermark(11)
    await log.clean(1 << 20, Throttle(1e9))
    assert offsets_of(await read_bytes(log)) == [10]


async def test_D4_a_log_whose_end_compaction_has_emptied() -> None:
    node = await node_with_log(MemoryDisk(), count=3)
    log = node.log
    future = await copy_all(node)
    await log.skip_to(9)
    while await advance(log, future) is not None:
        pass
    assert (future.state.log_end_offset, future.state.segments.active.base_offset) == (9, 9)
    await move(node)
    await append(log)
    assert offsets_of(await read_bytes(log)) == [0, 1, 2, 9]


async def test_D4_a_log_that_grows_too_fast_is_not_switched() -> None:
    node = await node_with_log(MemoryDisk())
    future = await create_future(node.manager, TP, node.other())
    await future.truncate_to(0)
    for _ in range(12):
        await append(node.log, value=bytes(300))
    assert not await switch(node.manager, TP), "more segments than are copied under the gate"
    assert node.place == A
    await append(node.log)
    await move(node)
    assert offsets_of(await read_bytes(node.log)) == list(range(23))


async def test_D4_only_what_the_future_log_has_counts_while_the_controller_may_count_on_it() -> None:
    node = await node_with_log(MemoryDisk())
    log = node.log
    await copy_all(node)
    log.hold_at(10)
    await append(log)
    assert log.state.offsets.settled_end_offset == 10
    stored = asyncio.ensure_future(log.stored(11))
    await asyncio.sleep(0)
    assert not stored.done()
    log.hold_at(11)
    await stored
    assert log.state.offsets.settled_end_offset == 11
    await log.truncate_to(5)
    await append(log, epoch=1)
    assert log.state.offsets.settled_end_offset == 5, "the future log has other records there"
    log.hold_at(None)
    assert log.state.offsets.settled_end_offset == 6


async def test_D4_a_move_that_is_given_up_leaves_nothing() -> None:
    node = await node_with_log(MemoryDisk())
    await copy_all(node)
    await drop_future(node.manager, TP)
    assert node.manager.future_of(TP) is None
    await node.restart("lost")
    assert node.place == A
    assert await names(node.disk, B) == []


async def test_D4_a_deleted_partition_takes_its_future_log_along() -> None:
    node = await node_with_log(MemoryDisk())
    await copy_all(node)
    await node.manager.delete(TP)
    await node.restart("lost")
    assert (await names(node.disk, A), await names(node.disk, B)) == ([], [])


async def test_D4_a_future_log_continues_after_a_restart() -> None:
    node = await node_with_log(MemoryDisk())
    future = await copy_all(node)
    path = future.state.directory
    assert path.name.startswith("t-0.")
    assert path.name.endswith("-future")
    for clean in (False, True):
        if clean:
            await node.manager.close()
        await append(node.log) if not clean else None
        await node.restart()
        found = node.manager.future_of(TP)
        assert found is not None
        assert found[1].state.directory == path
        assert node.place == A
    await move(node)
    assert offsets_of(await read_bytes(node.log)) == list(range(node.log.state.log_end_offset))


async def test_D4_a_future_log_without_its_current_log_is_no_replica() -> None:
    node = await node_with_log(MemoryDisk())
    await copy_all(node)
    await node.disk.remove_tree(A / str(TP))
    await node.restart()
    assert node.manager.get(TP) is None
    assert node.manager.future_of(TP) is None
    (aside,) = await names(node.disk, B)
    assert aside.endswith("-stray")


async def test_D4_a_partition_that_is_requested_in_a_directory_is_created_there() -> None:
    node = Node(MemoryDisk())
    manager = await node.start()
    manager.prefer(TP, manager.directories[1])
    await manager.create(TP, TOPIC_ID)
    assert node.place == B


@pytest.mark.parametrize("config", [CONFIG, TIERED], ids=["local", "tiered"])
@pytest.mark.parametrize("unsynced", ["lost", "kept", "some"])
async def test_D4_a_crash_at_any_effect_of_a_move_loses_nothing(unsynced: str, config: LogConfig) -> None:
    ends = set()
    for number, fault in enumerate(failures(crash=True)):
        node = await node_with_log(MemoryDisk(), config=config)
        expected = await read_bytes(node.log)
        node.disk.faults = fault
        with contextlib.suppress(DiskCrash):
            await move(node)
        await node.restart(Random(number) if unsynced == "some" else unsynced)
        assert await read_bytes(node.log) == expected
        assert (node.log.state.log_start_offset, node.log.state.high_watermark <= 10) == (0, True)
        assert node.log.state.producers.entries[9].last_sequence == 9
        if node.recorded is not None and node.place == B:
            assert node.manager.future_of(TP) is None
        ends.add((node.place, node.manager.future_of(TP) is not None, node.recorded is not None))
        # Whatever was left, the move can be made.
        node.recorded = None
        if node.place == A:
            await move(node)
        assert await read_bytes(node.log) == expected
    assert ends >= {(A, False, False), (A, True, False), (B, False, True)}
    assert not any(place == A and is_recorded for place, _, is_recorded in ends), "the controller would count on /b"


async def test_D4_an_error_at_any_effect_of_a_move_leaves_a_log_that_serves() -> None:
    for fault in failures():
        node = await node_with_log(MemoryDisk())
        expected = await read_bytes(node.log)
        node.disk.faults = fault
        log = node.log
        try:
            await move(node)
        except (OSError, KafkaError):
            assert log.state.failure is None, "only the copy may fail"
        was_reached, node.disk.faults = fault.fired, None
        assert await read_bytes(log) == expected
        await append(log, value=b"next", producer_id=9, producer_epoch=0, base_sequence=10)
        assert offsets_of(await read_bytes(log)) == list(range(11))
        await log.flush()
        if node.place == A:
            node.recorded = None
        await node.restart("lost")
        assert offsets_of(await read_bytes(node.log)) == list(range(11))
        if not was_reached:
            break


class Interleaving:
    """A log with random things done to it while it moves between /a and /b."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.epoch = 0
        self.node: Node

    async def run(self, steps: list[str]) -> None:
        self.node = await node_with_log(MemoryDisk(), count=6)
        for step in [*steps, "switch"]:
            await getattr(self, step)()

    async def append(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            count, value = self.random.randint(1, 3), self.random.randbytes(40)
            await append(self.node.log, count, epoch=self.epoch, value=value)

    async def assign_epoch(self) -> None:
        self.epoch += self.random.randint(1, 2)
        await self.node.log.assign_epoch(self.epoch)

    async def truncate(self) -> None:
        log, self.epoch = self.node.log, self.epoch + 1
        await log.truncate_to(self.random.randint(log.state.log_start_offset, log.state.log_end_offset))

    async def start_higher(self) -> None:
        self.epoch += 1
        await self.node.log.truncate_fully_and_start_at(self.node.log.state.log_end_offset + self.random.randint(0, 3))

    async def roll(self) -> None:
        await self.node.log.roll()

    async def delete_records(self) -> None:
        log = self.node.log
        log.update_high_watermark(log.state.log_end_offset)
        await log.increment_log_start_offset(self.random.randint(log.state.log_start_offset, log.state.log_end_offset))

    async def retain(self) -> None:
        await self.node.log.delete_old_segments_by_log_start()

    async def copy(self) -> None:
        found = self.node.manager.future_of(TP)
        future = found[1] if found else await create_future(self.node.manager, TP, self.node.other())
        for _ in range(self.random.randint(0, 3)):
            await advance(self.node.log, future)

    async def crash(self) -> None:
        await self.node.log.flush()
        await self.node.manager.upkeep.save_checkpoints()
        log_start_offset = self.node.log.state.log_start_offset
        await self.node.restart(self.random)
        assert self.node.log.state.log_start_offset == log_start_offset, "what was deleted does not come back"
        self.node.recorded = None

    async def switch(self) -> None:
        log = self.node.log
        expected = await read_bytes(log), epochs_of(log), log.state.log_start_offset, log.state.log_end_offset
        await move(self.node)
        assert (await read_bytes(log), epochs_of(log), log.state.log_start_offset, log.state.log_end_offset) == expected


steps_of = st.lists(
    st.sampled_from([name for name in vars(Interleaving) if not name.startswith("_") and name != "run"]), max_size=20
)
BEGINS_WITHIN_A_BATCH = (
    "retain assign_epoch copy truncate assign_epoch truncate append truncate assign_epoch roll append delete_records"
)


@example(["append", "append", "assign_epoch", "append", "assign_epoch", "delete_records", "append", "truncate"], 47534)
@example(["roll", "delete_records", "delete_records", "crash", "retain", "crash"], 2)
@example(BEGINS_WITHIN_A_BATCH.split(), 354)
@settings(max_examples=100, deadline=None)
@given(steps_of, st.integers(0, 1 << 16))
def test_D4_whatever_happens_to_a_log_while_it_moves_it_has_the_same_batches(steps: list[str], seed: int) -> None:
    asyncio.run(Interleaving(seed).run(steps))
