"""Every remote call ends in time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tierfetch.remote import IndexType, RemoteLogMetadataError, RemoteStorageCorruptError, RemoteStorageTimeoutError
from tierfetch.remote.core import RemoteLogSegmentMetadata, RemoteLogSegmentState, RemotePartitionDeleteState
from tierfetch.rlm.core.view import CopyDeadline
from tierfetch.rlm.deadlines import MetadataWriter, WatchedStorage, WatchedStreams
from tierfetch.rlm.deadlines import watched as watched_storage
from tierfetch.testing.remote_storage import RemoteStorageConformance, make_data
from tierfetch.tests.fakes.remote_metadata import InMemoryRemoteLogMetadataManager, SharedMetadata
from tierfetch.tests.fakes.remote_storage import MemoryRemoteStorage, MemoryStreams

from .views import PARTITION, STARTED, remote, segment_id

SEGMENT = remote(1, 0, 10)


class NeverListing(MemoryRemoteStorage):
    async def list_objects(self, partition):
        await asyncio.Event().wait()
        yield


def watched(storage: MemoryRemoteStorage) -> WatchedStorage:
    return WatchedStorage(storage, copy_deadline=CopyDeadline(5, 1 << 20), request_timeout_ms=5)


async def listing(storage: WatchedStorage) -> list[Any]:
    return [listed async for listed in storage.list_objects(PARTITION)]


@pytest.mark.parametrize(
    "call",
    [
        lambda storage: storage.copy_log_segment_data(SEGMENT, make_data(bytes(100))),
        lambda storage: storage.fetch_log_segment(SEGMENT, 0, 10),
        lambda storage: storage.fetch_index(SEGMENT, IndexType.OFFSET),
        lambda storage: storage.log_segment_size(SEGMENT),
        lambda storage: storage.delete_log_segment_data(SEGMENT),
        listing,
    ],
    ids=["copy", "fetch", "index", "size", "delete", "list"],
)
async def test_call_of_a_plugin_that_hangs_is_abandoned(call: Callable[[WatchedStorage], Awaitable[object]]) -> None:
    storage = NeverListing()
    storage.hang_on |= {
        "copy_log_segment_data",
        "fetch_log_segment",
        "fetch_index",
        "log_segment_size",
        "delete_log_segment_data",
    }
    with pytest.raises(RemoteStorageTimeoutError, match=r"did not end within 5 ms and was abandoned"):
        await call(watched(storage))


def test_deadline_of_an_upload_grows_with_its_size() -> None:
    deadline = CopyDeadline(base_ms=30_000, min_bytes_per_second=1 << 20)
    assert deadline.of_size_ms(0) == 30_000
    assert deadline.of_size_ms(1 << 30) == 30_000 + 1024 * 1000


class Unbounded(MemoryRemoteStorage):
    """A plugin that takes whatever lies there."""

    async def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        return bytes((4 << 20) + 1)


async def test_an_index_too_large_for_its_segment_is_not_passed_on() -> None:
    with pytest.raises(
        RemoteStorageCorruptError, match=r"leader_epoch_checkpoint of .*: 4194305 bytes, .* at most 4194304"
    ):
        await watched(Unbounded()).fetch_index(SEGMENT, IndexType.LEADER_EPOCH)


class TestWatchedStorage(RemoteStorageConformance):
    """The watchdog changes nothing for a plugin that works."""

    @pytest.fixture
    async def storage(self):
        return WatchedStorage(
            MemoryRemoteStorage(), copy_deadline=CopyDeadline(10_000, 1 << 20), request_timeout_ms=10_000
        )


class TestWatchedStreams(RemoteStorageConformance):
    """As that of a storage that streams."""

    @pytest.fixture
    async def storage(self):
        return watched_storage(MemoryStreams(), copy_deadline=CopyDeadline(10_000, 1 << 20), request_timeout_ms=10_000)


@pytest.mark.virtual_time
async def test_each_piece_of_a_stream_has_the_deadline_of_a_fetch() -> None:
    storage = MemoryStreams()
    storage.put(SEGMENT, bytes(SEGMENT.segment_size_in_bytes), {})
    waits_s = iter([0.004, 0.004, 0.004, 10.0])
    storage.before_piece = lambda _: asyncio.sleep(next(waits_s))
    streams = watched_storage(storage, copy_deadline=CopyDeadline(5, 1 << 20), request_timeout_ms=5)
    assert isinstance(streams, WatchedStreams)
    pieces = streams.stream_log_segment(SEGMENT, 0, 100, 20)
    for _ in range(3):
        assert await anext(pieces) == bytes(20)
    with pytest.raises(RemoteStorageTimeoutError, match=r"in pieces did not end within 5 ms"):
        await anext(pieces)


def test_a_storage_that_does_not_stream_does_not_when_it_is_watched() -> None:
    watched = watched_storage(MemoryRemoteStorage(), copy_deadline=CopyDeadline(5, 1 << 20), request_timeout_ms=5)
    assert not isinstance(watched, WatchedStreams)


async def test_metadata_that_is_not_committed_in_time_is_an_error() -> None:
    metadata = InMemoryRemoteLogMetadataManager(SharedMetadata())
    await metadata.start()
    metadata.hold()
    await metadata.assign([PARTITION])
    writer = MetadataWriter(metadata, broker_id=1, timeout_ms=5, wall_clock_ms=lambda: 77)
    finished = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
    for write in (
        writer.start_copy(remote(1, 0, 10, state=STARTED)),
        writer.update(segment_id(1), finished),
        writer.update_partition(PARTITION, RemotePartitionDeleteState.DELETE_PARTITION_MARKED),
    ):
        with pytest.raises(RemoteLogMetadataError, match="was not committed within 5 ms"):
            await write
    assert not writer.is_given_up(segment_id(1)), "its ledger is not known"
    metadata.release()
    assert writer.is_given_up(segment_id(1))


async def test_writer_signs_its_events() -> None:
    shared = SharedMetadata()
    metadata = InMemoryRemoteLogMetadataManager(shared)
    await metadata.start()
    await metadata.assign([PARTITION])
    writer = MetadataWriter(metadata, broker_id=8, timeout_ms=1000, wall_clock_ms=lambda: 77)
    await writer.start_copy(remote(1, 0, 10, state=STARTED))
    await writer.update(segment_id(1), RemoteLogSegmentState.COPY_SEGMENT_FINISHED, b"custom")
    event = shared.events(PARTITION)[-1]
    assert (event.broker_id, event.event_timestamp_ms) == (8, 77)
    assert not writer.is_given_up(segment_id(1))
    ledger = metadata.ledger(PARTITION)
    assert ledger is not None
    assert ledger.finished()[0].custom_metadata == b"custom"
