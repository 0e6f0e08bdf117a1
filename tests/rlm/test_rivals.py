"""Two brokers that both believe to lead: of their copies of the same offsets one is finished, and one alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import pairwise

import pytest

from tierfetch.remote import LogSegmentData
from tierfetch.remote.core import RemoteLogSegmentMetadata, RemoteLogSegmentState, RemotePartitionDeleteState
from tierfetch.tests.fakes.remote_metadata import SharedMetadata
from tierfetch.tests.fakes.remote_storage import MemoryRemoteStorage

from .brokers import PARTITION, QUICK, Broker, check_tier, until

pytestmark = pytest.mark.virtual_time

FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED


class GatedStorage(MemoryRemoteStorage):
    """One broker's way to a store that several share. While `gate` is shut, a copy stops behind its effect."""

    def __init__(self, shared: MemoryRemoteStorage) -> None:
        super().__init__()
        self.objects = shared.objects
        self.gate = asyncio.Event()
        self.gate.set()
        self.waiting = 0

    async def copy_log_segment_data(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> bytes | None:
        answer = await super().copy_log_segment_data(metadata, data)
        self.waiting += 1
        await self.gate.wait()
        self.waiting -= 1
        return answer

    @property
    def copies(self) -> int:
        return sum(operation == "copy_log_segment_data" for operation, _ in self.calls)


@pytest.fixture
def shared() -> SharedMetadata:
    return SharedMetadata()


@pytest.fixture
async def old(shared: SharedMetadata) -> AsyncIterator[Broker]:
    broker = Broker(1, GatedStorage(MemoryRemoteStorage()), shared)
    await broker.open()
    await broker.lead(0)
    yield broker
    await broker.close()


@pytest.fixture
async def new(old: Broker, shared: SharedMetadata) -> AsyncIterator[Broker]:
    broker = Broker(2, GatedStorage(old.storage), shared)
    await broker.open()
    broker.follow()
    yield broker
    await broker.close()


def started(broker: Broker) -> list[RemoteLogSegmentMetadata]:
    return [segment for segment in broker.ledger.segments() if segment.state is STARTED]


async def uploading(broker: Broker) -> None:
    """Until its upload waits at the gate."""
    await until(lambda: broker.storage.waiting)


def held_before_the_upload(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, asyncio.Event]:
    """Hold its copies where they wait for the quota. Return what is set when one is there, and what lets them go on."""
    asked, admitted = asyncio.Event(), asyncio.Event()

    async def admit(size_bytes: int) -> None:
        asked.set()
        await admitted.wait()

    monkeypatch.setattr(broker.manager._services.copier, "admit", admit)
    return asked, admitted


def check_no_twins(shared: SharedMetadata) -> None:
    """No two copies of overlapping offsets were ever finished."""
    first_events = {e.segment_id: e for e in shared.events(PARTITION) if isinstance(e, RemoteLogSegmentMetadata)}
    finished = sorted(
        (first_events[event.segment_id] for event in shared.events(PARTITION) if event.state is FINISHED),
        key=lambda segment: segment.start_offset,
    )
    for one, another in pairwise(finished):
        assert one.end_offset < another.start_offset, (one, another)


async def test_R1_deposed_leader_does_not_finish_what_its_successor_copies(
    old: Broker, new: Broker, shared: SharedMetadata
) -> None:
    """The old leader does not know yet that it leads no more, and its upload ends after the new one has begun."""
    old.storage.gate.clear()
    await old.fill(1)
    await uploading(old)
    await new.replicate_from(old)
    new.storage.gate.clear()
    await new.lead(1)
    await uploading(new)
    old.storage.gate.set()
    await until(lambda: len(started(new)) == 1)
    new.storage.gate.set()
    await until(new.is_all_tiered)
    check_no_twins(shared)
    assert {segment.broker_id for segment in new.ledger.finished()} == {2}
    old.follow()
    await until(lambda: len(new.ledger) == len(new.ledger.finished()))
    check_tier(new.storage, new.ledger)


async def test_R1_deposed_leader_that_gave_way_does_not_try_again_while_its_successor_copies(
    old: Broker, new: Broker, shared: SharedMetadata
) -> None:
    """A second attempt would be later than the successor's, which would give way to it in its turn."""
    old.storage.gate.clear()
    await old.fill(1)
    await uploading(old)
    await new.replicate_from(old)
    new.storage.gate.clear()
    await new.lead(1)
    await uploading(new)
    old.storage.gate.set()
    await until(lambda: old.manager.counters.errors["copy"])
    await asyncio.sleep(10 * QUICK.task_interval_ms / 1000)
    events = [event for event in shared.events(PARTITION) if isinstance(event, RemoteLogSegmentMetadata)]
    attempts = {event.segment_id: event.broker_id for event in events}  # an orphan's start is written once more
    assert list(attempts.values()) == [1, 2]
    new.storage.gate.set()
    await until(new.is_all_tiered)
    assert {segment.broker_id for segment in new.ledger.finished()} == {2}
    assert new.storage.copies == 1


async def test_R1_deposed_leader_copies_again_once_its_successor_is_given_up(
    old: Broker, new: Broker, shared: SharedMetadata
) -> None:
    old.storage.gate.clear()
    await old.fill(1)
    await uploading(old)
    await new.replicate_from(old)
    new.storage.gate.clear()
    await new.lead(1)
    await uploading(new)
    old.storage.gate.set()
    await until(lambda: old.manager.counters.errors["copy"])
    await new.manager.close()
    old.clock.now_ms += replace(QUICK).copy_deadline.of_size_ms(1 << 20)
    await until(old.is_all_tiered)
    assert {segment.broker_id for segment in old.ledger.finished()} == {1}
    check_no_twins(shared)


async def test_R1_new_leader_gives_way_to_a_copy_that_was_finished_meanwhile(
    old: Broker, new: Broker, shared: SharedMetadata
) -> None:
    """Its ledger was behind when it looked: what it reads together with its own event is not uploaded again."""
    old.storage.gate.clear()
    await old.fill(1)
    await uploading(old)
    await new.replicate_from(old)
    new.metadata.hold()
    old.storage.gate.set()
    await until(old.is_all_tiered)
    await new.lead(1)
    await until(lambda: sum(isinstance(event, RemoteLogSegmentMetadata) for event in shared.events(PARTITION)) == 2)
    new.metadata.release()
    await until(lambda: len(new.ledger) == len(new.ledger.finished()) == 1)
    assert new.storage.copies == 0
    check_no_twins(shared)
    check_tier(new.storage, new.ledger)


async def test_R1_copy_that_waited_for_the_quota_looks_again_before_it_starts(
    old: Broker, new: Broker, shared: SharedMetadata, monkeypatch: pytest.MonkeyPatch
) -> None:
    old.storage.gate.clear()
    await old.fill(1)
    await uploading(old)
    await new.replicate_from(old)
    asked, admitted = held_before_the_upload(new, monkeypatch)
    await new.lead(1)
    await asked.wait()
    old.storage.gate.set()
    await until(old.is_all_tiered)
    admitted.set()
    await new.fill(1)
    await until(new.is_all_tiered)
    assert [segment.broker_id for segment in new.ledger.finished()] == [1, 2]
    assert sum(isinstance(event, RemoteLogSegmentMetadata) for event in shared.events(PARTITION)) == 2
    check_no_twins(shared)


async def test_R1_deposed_leader_that_begins_late_stops_neither_its_successor_nor_uploads_itself(
    old: Broker, new: Broker, shared: SharedMetadata, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its disk hung, say: its started event comes after that of its successor, which is at its upload."""
    asked, admitted = held_before_the_upload(old, monkeypatch)
    await old.fill(1)
    await asked.wait()
    await new.replicate_from(old)
    new.storage.gate.clear()
    await new.lead(1)
    await uploading(new)
    admitted.set()
    await until(lambda: [segment.broker_id for segment in new.ledger.started()] == [2, 1])
    new.storage.gate.set()
    await until(new.is_all_tiered)
    assert (new.storage.copies, old.storage.copies) == (1, 0)
    assert {segment.broker_id for segment in new.ledger.finished()} == {2}
    check_no_twins(shared)
    old.follow()
    new.clock.now_ms += replace(QUICK).copy_deadline.of_size_ms(1 << 20)
    await until(lambda: len(new.ledger) == len(new.ledger.finished()))
    check_tier(new.storage, new.ledger)


async def test_R1_leader_waits_for_no_copy_of_a_deposed_one_that_died_at_it(
    old: Broker, new: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deposed leader ends between its started event, which comes late, and its upload."""
    asked, admitted = held_before_the_upload(old, monkeypatch)
    await old.fill(1)
    await asked.wait()
    await new.replicate_from(old)
    new.storage.gate.clear()
    await new.lead(1)
    await uploading(new)
    old.metadata.hold()
    admitted.set()
    await until(lambda: len(new.ledger.started()) == 2)
    await old.manager.close()
    new.storage.gate.set()
    await until(new.is_all_tiered)
    assert (new.storage.copies, new.manager.counters.errors["copy"]) == (1, 0)


async def test_R1_both_uploads_end_at_the_same_moment(old: Broker, new: Broker, shared: SharedMetadata) -> None:
    old.storage.gate.clear()
    new.storage.gate.clear()
    await old.fill(1)
    await uploading(old)
    await new.replicate_from(old)
    await new.lead(1)
    await uploading(new)
    old.storage.gate.set()
    new.storage.gate.set()
    await until(new.is_all_tiered)
    check_no_twins(shared)


async def test_C3_leader_that_has_not_heard_that_the_topic_was_deleted_leaves_nothing_in_the_tier(
    old: Broker, new: Broker
) -> None:
    await old.fill(1)
    await until(lambda: old.is_all_tiered())
    old.storage.gate.clear()
    await old.fill(1)
    await uploading(old)
    await new.manager.stop(PARTITION)
    await new.manager.delete_remote_partition(PARTITION)
    await until(lambda: old.ledger.delete_state is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED)
    old.storage.gate.set()
    await until(lambda: old.manager.counters.errors["copy"])
    await old.fill(2)
    await asyncio.sleep(3 * QUICK.task_interval_ms / 1000)
    assert (old.storage.objects, len(old.ledger), old.storage.copies) == ({}, 0, 2)


async def test_R1_leadership_that_moves_to_and_fro_copies_every_offset_once(shared: SharedMetadata) -> None:
    """Each believes to lead while the other does; both have all records."""
    store = MemoryRemoteStorage()
    one, two = Broker(1, GatedStorage(store), shared), Broker(2, GatedStorage(store), shared)
    for broker in (one, two):
        await broker.open()
    await one.lead(0)
    one.storage.gate.clear()
    await one.fill(4)
    await two.replicate_from(one)
    for epoch, broker, other in ((1, two, one), (2, one, two), (3, two, one)):
        await uploading(other)
        broker.storage.gate.clear()
        await broker.lead(epoch)
        await uploading(broker)
        other.storage.gate.set()
    one.follow()
    two.storage.gate.set()
    two.clock.now_ms += replace(QUICK).copy_deadline.of_size_ms(1 << 20)
    await until(lambda: two.is_all_tiered() and len(two.ledger) == len(two.ledger.finished()))
    check_no_twins(shared)
    check_tier(two.storage, two.ledger)
    for broker in (one, two):
        await broker.close()
