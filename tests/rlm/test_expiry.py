"""Single actions of the upkeep."""

from __future__ import annotations

import asyncio

import pytest

from tierfetch.remote.core import (
    Bounds,
    IllegalTransitionError,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    UsableSegments,
)
from tierfetch.rlm.core.plan import RollActive
from tierfetch.rlm.deadlines import MetadataWriter
from tierfetch.rlm.expiry import PartitionUpkeep, Proofs, RemoteSegmentDeleter
from tierfetch.rlm.metrics import RemoteLogCounters
from tierfetch.tests.fakes.disk import MemoryDisk
from tierfetch.tests.fakes.remote_metadata import InMemoryRemoteLogMetadataManager, SharedMetadata
from tierfetch.tests.fakes.remote_storage import MemoryRemoteStorage
from tierfetch.tests.log.logs import append, open_log
from tierfetch.tests.remote.builders import epochs_of

from .views import DELETING, FINISHED, PARTITION, STARTED, ledger_of, remote, segment_id

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def metadata() -> InMemoryRemoteLogMetadataManager:
    manager = InMemoryRemoteLogMetadataManager(SharedMetadata())
    await manager.start()
    await manager.assign([PARTITION])
    return manager


def writer_of(metadata: InMemoryRemoteLogMetadataManager) -> MetadataWriter:
    return MetadataWriter(metadata, broker_id=1, timeout_ms=1000, wall_clock_ms=lambda: 5)


def state_of(
    metadata: InMemoryRemoteLogMetadataManager, segment_id: RemoteLogSegmentId
) -> RemoteLogSegmentState | None:
    """None if the ledger does not name it."""
    ledger = metadata.ledger(PARTITION)
    assert ledger is not None
    segment = ledger.get(segment_id)
    return None if segment is None else segment.state


async def test_R3_deletions_keep_to_the_expiration_pool(metadata: InMemoryRemoteLogMetadataManager) -> None:
    """`remote.log.manager.expiration.thread.pool.size`, over all partitions that a deleter works for."""
    storage, running, most = MemoryRemoteStorage(), 0, 0
    delete = storage.delete_log_segment_data

    async def counted(segment: RemoteLogSegmentMetadata) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await delete(segment)
        running -= 1

    storage.delete_log_segment_data = counted
    writer = writer_of(metadata)
    segments = [remote(number, 10 * number, 10 * number + 10, state=STARTED) for number in range(1, 8)]
    for segment in segments:
        await writer.start_copy(segment)
    deleter = RemoteSegmentDeleter(storage, writer, 2)
    await asyncio.gather(deleter.delete_all(segments[:4]), deleter.delete_all(segments[4:]))
    assert (most, running) == (2, 0)
    assert all(state_of(metadata, segment.segment_id) is None for segment in segments)


@pytest.mark.parametrize("is_finished", [False, True])
async def test_R3_an_orphan_that_was_finished_after_all_is_kept(is_finished: bool) -> None:
    """Its FINISHED is in the metadata, and not read here yet: others may have let go of their local segments."""
    shared, storage = SharedMetadata(), MemoryRemoteStorage()
    here, elsewhere = (InMemoryRemoteLogMetadataManager(shared) for _ in range(2))
    for manager in (here, elsewhere):
        await manager.start()
        await manager.assign([PARTITION])
    orphan = remote(1, 0, 10, state=STARTED)
    await writer_of(here).start_copy(orphan)
    here.hold()
    if is_finished:
        await writer_of(elsewhere).update(orphan.segment_id, FINISHED)
    deleted: list[RemoteLogSegmentMetadata] = []

    async def delete(segment: RemoteLogSegmentMetadata) -> None:
        deleted.append(segment)

    storage.delete_log_segment_data = delete
    abandoning = asyncio.create_task(RemoteSegmentDeleter(storage, writer_of(here), 1).abandon(orphan))
    await asyncio.sleep(0.01)
    assert deleted == [], "nothing before it is known what was written"
    here.release()
    await abandoning
    assert (len(deleted), state_of(elsewhere, orphan.segment_id)) == ((0, FINISHED) if is_finished else (1, None))


@pytest.mark.parametrize("seen_as", [STARTED, FINISHED, DELETING])
async def test_R3_segment_that_is_gone_meanwhile_is_deleted(
    metadata: InMemoryRemoteLogMetadataManager, seen_as: RemoteLogSegmentState
) -> None:
    deleter = RemoteSegmentDeleter(MemoryRemoteStorage(), writer_of(metadata), 1)
    await deleter.delete(remote(1, 0, 10, state=seen_as))


@pytest.mark.parametrize("reached", [STARTED, FINISHED, DELETING])
async def test_R3_deletion_goes_on_from_any_state(
    metadata: InMemoryRemoteLogMetadataManager, reached: RemoteLogSegmentState
) -> None:
    writer = writer_of(metadata)
    await writer.start_copy(remote(1, 0, 10, state=STARTED))
    if reached is not STARTED:
        await writer.update(segment_id(1), reached)
    await RemoteSegmentDeleter(MemoryRemoteStorage(), writer, 1).delete(remote(1, 0, 10, state=reached))
    assert state_of(metadata, segment_id(1)) is None


async def test_R3_refusal_for_another_reason_is_told(metadata: InMemoryRemoteLogMetadataManager) -> None:
    """A ledger that says the deletion has not begun, to somebody who believes it has."""
    writer = writer_of(metadata)
    await writer.start_copy(remote(1, 0, 10, state=STARTED))
    with pytest.raises(IllegalTransitionError):
        await RemoteSegmentDeleter(MemoryRemoteStorage(), writer, 1).delete(remote(1, 0, 10, state=DELETING))


async def test_segment_that_was_rolled_meanwhile_is_not_rolled_again(
    metadata: InMemoryRemoteLogMetadataManager,
) -> None:
    log = await open_log(MemoryDisk())
    await append(log, 2)
    deleter = RemoteSegmentDeleter(MemoryRemoteStorage(), writer_of(metadata), 1)
    upkeep = PartitionUpkeep(PARTITION, log, deleter, RemoteLogCounters(), Proofs(UsableSegments(), 1.0))
    await upkeep.perform(RollActive(0), {})
    await append(log, 2)
    await upkeep.perform(RollActive(0), {})
    assert [segment.base_offset for segment in log.state.segments] == [0, 2]


def test_good_findings_go_with_the_local_segments_and_bad_ones_fade() -> None:
    """What is found missing does not count as usable as long as the finding holds."""
    tiered = [remote(number, 10 * number, 10 * number + 10) for number in (1, 2, 3)]
    usable = UsableSegments.of(ledger_of(*tiered), Bounds(epochs_of((0, 0)), 0, 100))
    proofs = Proofs(usable, disproven_for_s=10)
    for segment in tiered:
        proofs.prove(segment)
    proofs.disprove(segment_id(2), now_s=100)
    proofs.disprove(segment_id(3), now_s=101)
    assert (set(proofs.proven), set(proofs.disproven)) == ({segment_id(1)}, {segment_id(2), segment_id(3)})
    assert list(usable) == tiered[:1]
    proofs.forget_old(now_s=110)
    proofs.forget_below(19)
    assert (set(proofs.proven), set(proofs.disproven)) == ({segment_id(1)}, {segment_id(2), segment_id(3)})
    proofs.forget_old(now_s=111)
    proofs.forget_below(20)
    assert (set(proofs.proven), set(proofs.disproven)) == (set(), {segment_id(3)})
    assert list(usable) == tiered[:2]
