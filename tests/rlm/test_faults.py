"""The whole way of two segments into the tier and out of the local log, with a fault at every single step of it.

A step is the moment before or after one remote effect: a call of the store, or a write of remote log metadata. Whatever
happens there, in the end every batch is in a tier, each local segment was proven before it went, and nothing that no
ledger names is left in the store.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from itertools import count

import pytest

from tierfetch.remote import LogSegmentData, RemoteLogMetadataError, RemoteStorageError
from tierfetch.remote.core import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
)
from tierfetch.rlm.config import RemoteLogManagerConfig
from tierfetch.rlm.metrics import CopyLag
from tierfetch.tests.fakes.disk import DiskCrash
from tierfetch.tests.fakes.faults import FailNth, failures
from tierfetch.tests.fakes.remote_metadata import InMemoryRemoteLogMetadataManager, SharedMetadata
from tierfetch.tests.fakes.remote_storage import MemoryRemoteStorage
from tierfetch.tests.log.logs import read_bytes

from .brokers import PARTITION, QUICK, TIERED, Broker, check_tier, everything, until

SHRINKING = replace(TIERED, local_retention_bytes=1)
IMPATIENT = replace(QUICK, copy_timeout_ms=8, request_timeout_ms=8)
STEPS_MAX = 200


class Steps:
    """Counts steps and calls `at_nth` at the n-th, and at the `width - 1` behind it."""

    def __init__(self, n: int, at_nth: Callable[[], Awaitable[object]], width: int = 1) -> None:
        self.n = n
        self._width = width
        self.count = 0
        self._at_nth = at_nth

    @property
    def was_reached(self) -> bool:
        return self.count >= self.n

    @asynccontextmanager
    async def around(self) -> AsyncIterator[None]:
        await self._step()
        yield
        await self._step()

    async def _step(self) -> None:
        self.count += 1
        if self.n <= self.count < self.n + self._width:
            await self._at_nth()


class SteppedStorage(MemoryRemoteStorage):
    steps = Steps(STEPS_MAX, asyncio.Event().wait)

    async def copy_log_segment_data(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> bytes | None:
        async with self.steps.around():
            return await super().copy_log_segment_data(metadata, data)

    async def log_segment_size(self, metadata: RemoteLogSegmentMetadata) -> int | None:
        async with self.steps.around():
            return await super().log_segment_size(metadata)

    async def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        async with self.steps.around():
            await super().delete_log_segment_data(metadata)


class SteppedMetadata(InMemoryRemoteLogMetadataManager):
    steps = Steps(STEPS_MAX, asyncio.Event().wait)

    async def add_segment(self, metadata: RemoteLogSegmentMetadata) -> None:
        async with self.steps.around():
            await super().add_segment(metadata)

    async def update_segment(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        async with self.steps.around():
            await super().update_segment(update)

    async def put_partition_delete(self, event: RemotePartitionDeleteMetadata) -> None:
        async with self.steps.around():
            await super().put_partition_delete(event)


def stepped_broker(steps: Steps, shared: SharedMetadata, *, config: RemoteLogManagerConfig = IMPATIENT) -> Broker:
    storage = SteppedStorage()
    metadata = SteppedMetadata(shared)
    storage.steps = metadata.steps = steps
    return Broker(1, storage, shared, config=config, metadata=metadata)


def each_step(at_nth: Callable[[], Awaitable[object]], width: int = 1) -> Iterator[Steps]:
    for n in count(1):
        assert n < STEPS_MAX
        steps = Steps(n, at_nth, width)
        yield steps
        if not steps.was_reached:
            return


def is_done(broker: Broker) -> bool:
    ledger = broker.manager.ledger(PARTITION)
    return (
        broker.log.state.offsets.local_log_start_offset == broker.active_base_offset
        and ledger is not None
        and len(ledger) == len(ledger.finished()) > 0
    )


async def tier_two_segments(broker: Broker) -> bytes:
    """Returns what was produced."""
    await broker.open(SHRINKING)
    await broker.lead(0)
    await broker.fill(2)
    return await read_bytes(broker.log, 0)


async def check_outcome(broker: Broker, produced: bytes) -> None:
    await until(lambda: is_done(broker))
    check_tier(broker.storage, broker.ledger)
    assert await everything(broker) == produced


@pytest.mark.parametrize(
    "error", [RemoteStorageError("injected"), RemoteLogMetadataError("injected"), OSError(5, "EIO")]
)
async def test_R1_R3_failure_at_every_step(error: Exception) -> None:
    async def fail() -> None:
        raise error

    for steps in each_step(fail):
        broker = stepped_broker(steps, SharedMetadata())
        produced = await tier_two_segments(broker)
        await check_outcome(broker, produced)
        await broker.close()


async def test_R1_R3_hang_at_every_step() -> None:
    """The watchdog gives each call up, and the segment is copied under another id."""

    async def hang() -> None:
        await asyncio.Event().wait()

    for steps in each_step(hang):
        broker = stepped_broker(steps, SharedMetadata())
        produced = await tier_two_segments(broker)
        await check_outcome(broker, produced)
        await broker.close()


@pytest.mark.parametrize("after", [1, 2])
async def test_R1_R3_kill_between_any_two_effects_and_restart(after: int) -> None:
    """The process stops at the step for ever; broker `after` (the same one, or the other replica) goes on."""
    killed = asyncio.Event()

    async def stop_for_ever() -> None:
        killed.set()
        await asyncio.Event().wait()

    for steps in each_step(stop_for_ever, width=STEPS_MAX):
        killed.clear()
        shared = SharedMetadata()
        broker = stepped_broker(steps, shared)
        produced = await tier_two_segments(broker)
        await until(lambda broker=broker: killed.is_set() or is_done(broker))  # type: ignore[misc]
        calls, events = len(broker.storage.calls), len(shared.events(PARTITION))
        await broker.close()
        assert (len(broker.storage.calls), len(shared.events(PARTITION))) == (calls, events), (
            "a dead process does nothing"
        )

        successor = Broker(after, broker.storage, shared, config=IMPATIENT, disk=broker.disk.restart("kept"))
        successor.clock.now_ms += IMPATIENT.copy_deadline.of_size_ms(10_000) + 1
        broker.storage.steps = Steps(STEPS_MAX, asyncio.Event().wait)
        await successor.open(SHRINKING, high_watermark=broker.log.state.high_watermark)
        await successor.lead(1)
        await check_outcome(successor, produced)
        await successor.close()


async def test_R3_leader_that_was_swept_meanwhile_leaves_nothing() -> None:
    """The upload of a deposed leader ends after its successor gave it up: it takes back what it stored."""
    shared = SharedMetadata()
    release = asyncio.Event()
    upload_ends = Steps(4, release.wait)
    zombie = stepped_broker(upload_ends, shared, config=QUICK)
    await tier_two_segments(zombie)
    await until(lambda: upload_ends.was_reached)
    abandoned = zombie.ledger.segments()[0].segment_id
    successor = Broker(2, zombie.storage, shared, disk=zombie.disk.restart("kept"))
    successor.clock.now_ms += QUICK.copy_deadline.of_size_ms(10_000) + 1
    await successor.open(TIERED, high_watermark=zombie.log.state.high_watermark)
    await successor.lead(1)
    await until(lambda: successor.is_all_tiered() and len(successor.ledger) == 2)
    zombie.storage.objects[abandoned, None] = b"what arrived late"
    release.set()
    await until(
        lambda: {key[0] for key in zombie.storage.objects} == {s.segment_id for s in successor.ledger.segments()}
    )
    await until(lambda: zombie.manager.counters.errors["copy"] == 1)
    await zombie.close()
    await successor.close()


class MetadataReadAnew(InMemoryRemoteLogMetadataManager):
    """Learns, while the first FINISHED is on its way, that what it has read may be wrong. The event is there; what
    holds is not known before `release`.
    """

    async def update_segment(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        if self._next_index[PARTITION] > 1 or update.state is not RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
            await super().update_segment(update)
            return
        self.hold()
        self._next_index[PARTITION] = 0
        self._book.restart(PARTITION)
        self._metadata.append(update)
        raise RemoteLogMetadataError("not read back in time")


async def test_R3_what_a_ledger_that_is_read_anew_may_call_finished_is_not_taken_back() -> None:
    """Others may have let go of their local segments for it."""
    shared = SharedMetadata()
    metadata = MetadataReadAnew(shared)
    broker = Broker(1, MemoryRemoteStorage(), shared, metadata=metadata)
    produced = await tier_two_segments(broker)
    await until(lambda: broker.manager.counters.errors["copy"] == 1)
    metadata.release()
    await check_outcome(broker, produced)
    assert broker.manager.counters.disproven_segments == 0
    assert sum(operation == "delete_log_segment_data" for operation, _ in broker.storage.calls) == 0
    await broker.close()


@pytest.mark.parametrize("tampered", [lambda data: data[:-1], lambda data: b"", lambda data: data + b"!"])
async def test_R1_size_that_differs_at_every_look(tampered: Callable[[bytes], bytes]) -> None:
    """Whether after the copy or before the local segment goes: what is not proven is copied again."""
    for n in range(1, 5):
        broker = Broker(1, MemoryRemoteStorage(), SharedMetadata())
        looks = count(1)

        def tamper(operation: str, data: bytes, looks: count[int] = looks, n: int = n) -> bytes:
            return tampered(data) if operation == "log_segment_size" and next(looks) == n else data

        broker.storage.tamper = tamper
        produced = await tier_two_segments(broker)
        await check_outcome(broker, produced)
        assert broker.manager.counters.errors["copy"] + broker.manager.counters.disproven_segments == 1
        await broker.close()


@pytest.mark.parametrize("fail_after_effect", [False, True])
async def test_R1_storage_that_stays_away_blocks_no_producer_and_loses_nothing(fail_after_effect: bool) -> None:
    broker = Broker(1, MemoryRemoteStorage(FailNth(1, persistent=True)), SharedMetadata(), config=IMPATIENT)
    broker.storage.fail_after_effect = fail_after_effect
    produced = await tier_two_segments(broker)
    await until(lambda: broker.manager.counters.errors["copy"] > 3)
    assert broker.log.state.offsets.local_log_start_offset == 0
    broker.storage.faults = None
    await check_outcome(broker, produced)
    await broker.close()


async def test_R1_a_tier_that_goes_away_later_is_warned_of_once_for_each_outage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The attempts go on for hours, on every partition."""
    caplog.set_level(logging.INFO)

    def copies_failed() -> list[int]:
        return [record.levelno for record in caplog.records if ": copy failed, retrying in" in record.getMessage()]

    broker = Broker(1, MemoryRemoteStorage(), SharedMetadata(), config=IMPATIENT)
    produced = await tier_two_segments(broker)
    await check_outcome(broker, produced)
    for _ in range(2):
        caplog.clear()
        broker.storage.faults = FailNth(1, persistent=True)
        await broker.fill(1)
        await until(lambda: len(copies_failed()) >= 4)
        assert copies_failed().count(logging.WARNING) == 1
        assert list(broker.manager.errors()) == [PARTITION.topic_partition]
        assert "copy: " in broker.manager.errors()[PARTITION.topic_partition]
        broker.storage.faults = None
        await until(lambda: broker.manager.copy_lag(PARTITION).segments == 0)
        await until(lambda: not broker.manager.errors())
    await broker.close()


async def test_R4_local_disk_that_fails_at_any_read_of_an_upload_costs_one_attempt() -> None:
    for fault in failures(reads=True):
        fault.only = frozenset({"read", "read_file"})
        broker = Broker(1, MemoryRemoteStorage(), SharedMetadata(), config=IMPATIENT)
        produced = await tier_two_segments(broker)
        broker.disk.faults = fault
        await until(lambda broker=broker: is_done(broker))  # type: ignore[misc]
        broker.disk.faults = None
        await check_outcome(broker, produced)
        await broker.close()


async def test_R4_a_damaged_segment_is_tried_once_said_and_copied_once_it_was_mended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shared = SharedMetadata()
    broker = Broker(1, MemoryRemoteStorage(), shared)
    await broker.open(SHRINKING)
    await broker.lead(0)
    await broker.fill(3, commit=False)
    produced = await read_bytes(broker.log, 0)
    damaged = broker.log.state.segments[1]
    with damaged.pinned():
        file = await damaged.file()
        (byte,) = await file.read(70, 1)
        await file.write(70, bytes([byte ^ 1]))
        broker.log.update_high_watermark(broker.log.state.log_end_offset)
        await until(lambda: broker.manager.counters.errors["copy"] > 3)
        lag = broker.manager.copy_lag(PARTITION)
        assert (lag.segments, lag.is_held_up, broker.tiered_to()) == (2, True, damaged.base_offset)
        await until(lambda: len(broker.ledger) == 1)
        assert sum(operation == "copy_log_segment_data" for operation, _ in broker.storage.calls) == 2
        assert f"the segment is damaged, and is not copied to the tier: '{damaged.path}'" in caplog.text
        await file.write(70, bytes([byte]))
    await check_outcome(broker, produced)
    await until(lambda: broker.manager.copy_lag(PARTITION) == CopyLag())
    await broker.close()


async def grown(fault: FailNth | None) -> Broker:
    """A broker that has tiered two segments on a disk that fails so; what it produced is in `broker.produced`."""
    broker = Broker(1, MemoryRemoteStorage(), SharedMetadata(), config=IMPATIENT)
    broker.produced = await tier_two_segments(broker)
    broker.disk.settle()
    broker.disk.faults = fault
    return broker


@pytest.mark.parametrize("persistent", [False, True])
async def test_R4_local_disk_that_fails_at_any_effect_loses_nothing(persistent: bool) -> None:
    """Copy, proof, local deletion: what cannot be removed is removed once the disk works, after a restart at worst."""
    for fault in failures(persistent=persistent, error_number=errno.ENOSPC):
        broker = await grown(fault)
        await until(lambda: is_done(broker) or broker.disk.faults.fired)  # noqa: B023
        for _ in range(20):
            await asyncio.sleep(0)
        broker.disk.faults = None
        if broker.log.state.failure is not None:
            await broker.close()
            again = Broker(1, broker.storage, broker.shared, config=IMPATIENT, disk=broker.disk.restart("kept"))
            await again.open(SHRINKING, high_watermark=broker.log.state.high_watermark)
            await again.lead(1)
            again.produced = broker.produced
            broker = again
        await check_outcome(broker, broker.produced)
        await broker.close()


@pytest.mark.parametrize("unsynced", ["lost", "kept"])
async def test_R1_R4_machine_that_stops_at_any_effect_on_its_disk_loses_nothing(unsynced: str) -> None:
    for fault in failures(crash=True):
        broker = await grown(fault)
        with suppress(BaseExceptionGroup, DiskCrash):
            await until(lambda: is_done(broker) or broker.disk.crashed)  # noqa: B023
        with suppress(BaseExceptionGroup, DiskCrash):
            await broker.close()
        again = Broker(1, broker.storage, broker.shared, config=IMPATIENT, disk=broker.disk.restart(unsynced))
        await again.open(SHRINKING, high_watermark=broker.log.state.high_watermark)
        assert again.log.state.log_end_offset == broker.log.state.log_end_offset
        await again.lead(1)
        await check_outcome(again, broker.produced)
        await again.close()


async def empty_of_tier(broker: Broker) -> None:
    await until(lambda: broker.storage.objects == {} and broker.manager.ledger(PARTITION) is None)
    events = broker.shared.events(PARTITION)
    assert events[-1].state is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED


async def test_C3_failure_at_every_step_of_the_deletion_of_a_partition() -> None:
    async def fail() -> None:
        raise RemoteStorageError("injected")

    for steps in each_step(fail):
        broker = stepped_broker(Steps(STEPS_MAX, fail), SharedMetadata())
        await check_outcome(broker, await tier_two_segments(broker))
        broker.storage.steps = broker.metadata.steps = steps
        await broker.manager.delete_remote_partition(PARTITION)
        await broker.manager.stop(PARTITION)
        await empty_of_tier(broker)
        await broker.close()


async def test_C3_kill_at_every_step_of_the_deletion_of_a_partition() -> None:
    killed = asyncio.Event()

    async def stop_for_ever() -> None:
        killed.set()
        await asyncio.Event().wait()

    for steps in each_step(stop_for_ever, width=STEPS_MAX):
        killed.clear()
        broker = stepped_broker(Steps(STEPS_MAX, stop_for_ever), SharedMetadata(), config=QUICK)
        await check_outcome(broker, await tier_two_segments(broker))
        broker.storage.steps = broker.metadata.steps = steps
        await broker.manager.delete_remote_partition(PARTITION)
        await broker.manager.stop(PARTITION)
        await until(lambda: killed.is_set() or broker.storage.objects == {})  # noqa: B023
        await broker.close()
        broker.storage.steps = Steps(STEPS_MAX, stop_for_ever)
        again = Broker(1, broker.storage, broker.shared, config=QUICK, disk=broker.disk.restart())
        await again.open()
        await empty_of_tier(again)
        await again.close()


@pytest.mark.parametrize("distance", [1, 2, 3, 5])
async def test_R1_R3_clean_up_after_a_failure_fails_too(distance: int) -> None:
    async def fail() -> None:
        raise RemoteStorageError("injected")

    for steps in each_step(fail, width=distance):
        broker = stepped_broker(steps, SharedMetadata())
        produced = await tier_two_segments(broker)
        await check_outcome(broker, produced)
        await broker.close()


@pytest.mark.parametrize("operation", ["copy_log_segment_data", "log_segment_size", "delete_log_segment_data"])
async def test_plugin_that_answers_a_cancellation_with_an_error_keeps_nothing_alive(operation: str) -> None:
    broker = Broker(1, MemoryRemoteStorage(), SharedMetadata())
    entered = asyncio.Event()
    looks = count(1)

    async def call(metadata: RemoteLogSegmentMetadata, *_: object) -> int:
        if operation == "log_segment_size" and next(looks) == 1:
            return metadata.segment_size_in_bytes
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise RemoteStorageError("connection lost") from None
        raise AssertionError

    setattr(broker.storage, operation, call)
    await tier_two_segments(broker)
    if operation == "delete_log_segment_data":
        await until(lambda: broker.tiered_to() == 12)
        broker.log.update_config(replace(SHRINKING, retention_bytes=1))
        broker.manager.config_changed(PARTITION)
    await entered.wait()
    async with asyncio.timeout(1):
        await broker.manager.stop(PARTITION)
    await broker.close()
