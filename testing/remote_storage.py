"""What every `RemoteStorageManager` must do (rules of `tierfetch.remote.storage`). Ships with the wheel.

    from tierfetch.testing import RemoteStorageConformance

    class TestMyStorage(RemoteStorageConformance):
        @pytest.fixture
        async def storage(self):
            storage = MyStorage(MyStorage.Config(...))   # empty
            yield storage
            await storage.close()

pytest-asyncio in auto mode is expected. A store whose listing is eventually consistent sets `lists_at_once = False`.
"""

from __future__ import annotations

import asyncio
import uuid
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from tierfetch.log.core import EpochEntry
from tierfetch.protocol import TopicIdPartition
from tierfetch.remote import (
    IndexType,
    ListsFromOffset,
    ListsPartitions,
    LogSegmentData,
    ObjectRange,
    ReadsObjects,
    RemoteObject,
    RemoteResourceNotFoundError,
    RemoteStorageCorruptError,
    RemoteStorageError,
    RemoteStorageManager,
    StreamsSegments,
    index_size_max,
)
from tierfetch.remote.core import RemoteLogSegmentId, RemoteLogSegmentMetadata
from tierfetch.testing.blocking import watched

PARTITION = TopicIdPartition(uuid.UUID(int=0x5EED), "conformance", 3)


class BytesSource:
    """A `SegmentSource` over a buffer. `fails_at`: reading this byte or a later one raises OSError."""

    def __init__(self, data: bytes, *, fails_at: int | None = None, hangs_at: int | None = None) -> None:
        self._data = data
        self._fails_at = fails_at
        self._hangs_at = hangs_at
        self.hanging = asyncio.Event()

    @property
    def size(self) -> int:
        return len(self._data)

    @property
    def path(self) -> Path | None:
        return None

    async def read(self, offset: int, count: int) -> bytes:
        if self._hangs_at is not None and offset + count > self._hangs_at:
            self.hanging.set()
            await asyncio.Event().wait()
        if self._fails_at is not None and offset + count > self._fails_at:
            raise OSError(5, "Input/output error")
        return self._data[offset : offset + count]


def make_metadata(
    size: int, *, start_offset: int = 100, number: int = 1, partition: TopicIdPartition = PARTITION
) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(partition, uuid.UUID(int=number)),
        start_offset=start_offset,
        end_offset=start_offset + 99,
        max_timestamp_ms=1_700_000_000_000,
        broker_id=1,
        event_timestamp_ms=1_700_000_000_001,
        segment_size_in_bytes=size,
        segment_leader_epochs=(EpochEntry(0, start_offset),),
    )


def make_data(log: bytes, *, transactions: bytes | None = None) -> LogSegmentData:
    indexes = {
        IndexType.OFFSET: BytesSource(b"\0\0\0\1\0\0\0\2"),
        IndexType.TIMESTAMP: BytesSource(b"t" * 12),
        IndexType.PRODUCER_SNAPSHOT: BytesSource(b"\0\1snapshot"),
        IndexType.LEADER_EPOCH: BytesSource(b"0\n1\n0 100\n"),
    }
    if transactions is not None:
        indexes[IndexType.TRANSACTION] = BytesSource(transactions)
    return LogSegmentData(BytesSource(log), indexes)


def pattern(size: int, seed: int = 7) -> bytes:
    block = bytes((seed + 31 * i + (i >> 8)) & 0xFF for i in range(4099))
    return (block * (size // len(block) + 1))[:size]


async def listed(storage: RemoteStorageManager, partition: TopicIdPartition = PARTITION) -> list[RemoteObject]:
    return [entry async for entry in storage.list_objects(partition)]


class RemoteStorageConformance:
    """Override the `storage` fixture; `large_bytes` should need more than one request of the store."""

    large_bytes = 3 << 20
    lists_at_once = True
    blocks_max_s = 0.5
    """How long a call may keep the event loop, beside what is never allowed there (`tierfetch.testing.blocking`)."""

    @pytest.fixture
    async def storage(self) -> RemoteStorageManager:
        raise NotImplementedError("give an empty storage")

    async def test_copy_then_fetch_whole(self, storage: RemoteStorageManager) -> None:
        log = pattern(10_000)
        metadata = make_metadata(len(log))
        await storage.copy_log_segment_data(metadata, make_data(log))
        assert await storage.fetch_log_segment(metadata, 0, len(log)) == log
        assert await storage.log_segment_size(metadata) == len(log)

    async def test_copy_of_a_large_segment(self, storage: RemoteStorageManager) -> None:
        log = pattern(self.large_bytes + 17)
        metadata = make_metadata(len(log))
        await storage.copy_log_segment_data(metadata, make_data(log))
        assert await storage.log_segment_size(metadata) == len(log)
        middle = self.large_bytes // 2
        assert await storage.fetch_log_segment(metadata, middle, middle + 100_001) == log[middle : middle + 100_001]
        assert await storage.fetch_log_segment(metadata, len(log) - 5, len(log)) == log[-5:]

    @pytest.mark.parametrize(("start", "end"), [(0, 1), (0, 0), (499, 500), (1, 499), (250, 10_000), (500, 600)])
    async def test_ranges_are_half_open_and_cut_at_the_end(
        self, storage: RemoteStorageManager, start: int, end: int
    ) -> None:
        log = pattern(500)
        metadata = make_metadata(len(log))
        await storage.copy_log_segment_data(metadata, make_data(log))
        assert await storage.fetch_log_segment(metadata, start, end) == log[start:end]

    async def test_every_index_comes_back(self, storage: RemoteStorageManager) -> None:
        metadata = make_metadata(3)
        data = make_data(b"abc", transactions=b"x" * 34)
        await storage.copy_log_segment_data(metadata, data)
        for kind, source in data.indexes.items():
            assert await storage.fetch_index(metadata, kind) == await source.read(0, source.size), kind

    async def test_an_index_larger_than_its_segment_can_have_is_refused(self, storage: RemoteStorageManager) -> None:
        """Whatever lies there: nobody's memory is filled with it, and its reader goes on as for a lost index."""
        metadata = make_metadata(3)
        data = make_data(b"abc", transactions=b"")
        size = index_size_max(metadata, IndexType.LEADER_EPOCH) + 1
        indexes = {**data.indexes, IndexType.LEADER_EPOCH: BytesSource(bytes(size))}
        await storage.copy_log_segment_data(metadata, LogSegmentData(data.log, indexes))
        expected = f"leader_epoch_checkpoint of segment .*: {size} bytes, where .* has at most {size - 1}"
        with pytest.raises(RemoteStorageCorruptError, match=expected):
            await storage.fetch_index(metadata, IndexType.LEADER_EPOCH)
        assert await storage.fetch_index(metadata, IndexType.TRANSACTION) == b""

    async def test_absent_transaction_index_is_not_found(self, storage: RemoteStorageManager) -> None:
        metadata = make_metadata(3)
        await storage.copy_log_segment_data(metadata, make_data(b"abc"))
        with pytest.raises(RemoteResourceNotFoundError):
            await storage.fetch_index(metadata, IndexType.TRANSACTION)

    async def test_what_was_never_copied_is_not_found(self, storage: RemoteStorageManager) -> None:
        metadata = make_metadata(3)
        with pytest.raises(RemoteResourceNotFoundError):
            await storage.fetch_log_segment(metadata, 0, 3)
        assert await storage.log_segment_size(metadata) is None

    async def test_no_call_blocks_the_event_loop(self, storage: RemoteStorageManager) -> None:
        """One broker's loop serves all its clients: a call that blocks belongs on a thread (asyncio.to_thread)."""

        async def use(number: int) -> None:
            metadata = make_metadata(3, number=number)
            await storage.copy_log_segment_data(metadata, make_data(b"abc"))
            await storage.fetch_log_segment(metadata, 0, 3)
            if isinstance(storage, StreamsSegments):
                assert [piece async for piece in storage.stream_log_segment(metadata, 0, 3, 2)] == [b"ab", b"c"]
            await storage.fetch_index(metadata, IndexType.OFFSET)
            await storage.log_segment_size(metadata)
            await listed(storage)
            await storage.delete_log_segment_data(metadata)

        await use(1)  # imports are not the store's calls
        async with watched(self.blocks_max_s) as seen:
            await use(2)
        if seen:
            pytest.fail(
                f"the storage blocks the event loop: run blocking calls on a thread\n\n{seen[0]}", pytrace=False
            )

    async def test_copy_is_idempotent(self, storage: RemoteStorageManager) -> None:
        log = pattern(2_000)
        metadata = make_metadata(len(log))
        for _ in range(3):
            await storage.copy_log_segment_data(metadata, make_data(log))
        assert await storage.fetch_log_segment(metadata, 0, len(log)) == log

    async def test_delete_removes_all_and_is_idempotent(self, storage: RemoteStorageManager) -> None:
        metadata = make_metadata(3)
        await storage.copy_log_segment_data(metadata, make_data(b"abc", transactions=b"y" * 34))
        for _ in range(2):
            await storage.delete_log_segment_data(metadata)
        with pytest.raises(RemoteResourceNotFoundError):
            await storage.fetch_log_segment(metadata, 0, 3)
        with pytest.raises(RemoteResourceNotFoundError):
            await storage.fetch_index(metadata, IndexType.OFFSET)
        if self.lists_at_once:
            assert await listed(storage) == []

    async def test_delete_leaves_neighbours_alone(self, storage: RemoteStorageManager) -> None:
        kept, dropped = make_metadata(3, number=1), make_metadata(3, number=2)
        for metadata in (kept, dropped):
            await storage.copy_log_segment_data(metadata, make_data(b"abc"))
        await storage.delete_log_segment_data(dropped)
        assert await storage.fetch_log_segment(kept, 0, 3) == b"abc"

    async def test_list_names_every_object(self, storage: RemoteStorageManager) -> None:
        metadata = make_metadata(4)
        data = make_data(b"abcd", transactions=b"z" * 34)
        await storage.copy_log_segment_data(metadata, data)
        other = TopicIdPartition(PARTITION.topic_id, PARTITION.topic, 33)
        await storage.copy_log_segment_data(make_metadata(3, number=9, partition=other), make_data(b"abc"))
        found = await listed(storage)
        assert {entry.segment_id for entry in found} == {metadata.segment_id}
        assert {entry.kind for entry in found if not entry.is_log} == set(data.indexes)
        assert [entry.size for entry in found if entry.is_log] == [4]
        assert {entry.start_offset for entry in found} <= {metadata.start_offset, None}

    async def test_list_partitions(self, storage: RemoteStorageManager) -> None:
        """Optional: `ListsPartitions`."""
        if not isinstance(storage, ListsPartitions):
            pytest.skip("does not list partitions")
        assert [partition async for partition in storage.list_partitions()] == []
        partitions = [
            TopicIdPartition(PARTITION.topic_id, topic, number)
            for topic, number in (
                ("a", 0),
                ("a-1", 0),
                ("a", 10),
                ("-.7_", 2_147_483_647),
                ("t" * 249, 0),
                ("t" * 249, 1),
                ("t" * 248 + "-", 1),
            )
        ]
        for number, partition in enumerate(partitions, start=1):
            await storage.copy_log_segment_data(make_metadata(3, number=number, partition=partition), make_data(b"abc"))
        assert sorted([partition async for partition in storage.list_partitions()]) == sorted(partitions)

    async def test_list_objects_from(self, storage: RemoteStorageManager) -> None:
        """Optional: `ListsFromOffset`."""
        if not isinstance(storage, ListsFromOffset):
            pytest.skip("does not list from an offset")
        for number, start in enumerate((0, 5, 12), start=1):
            metadata = make_metadata(3, number=number)
            await storage.copy_log_segment_data(replace(metadata, start_offset=start, end_offset=99), make_data(b"abc"))
        for start_offset, expected in ((0, {0, 5, 12}), (5, {5, 12}), (6, {12}), (13, set())):
            found = [entry async for entry in storage.list_objects_from(PARTITION, start_offset)]
            assert {entry.start_offset for entry in found} == expected

    async def test_stream_log_segment(self, storage: RemoteStorageManager) -> None:
        """Optional: `StreamsSegments`."""
        if not isinstance(storage, StreamsSegments):
            pytest.skip("does not stream")
        log = pattern(self.large_bytes + 17)
        metadata = make_metadata(len(log))
        with pytest.raises(RemoteResourceNotFoundError):
            await anext(storage.stream_log_segment(metadata, 0, len(log), 1000))
        await storage.copy_log_segment_data(metadata, make_data(log))
        for start, end, size in (
            (0, len(log) + 1, 1 << 20),
            (self.large_bytes // 2, len(log), 1_000_003),
            (5, 1_000_005, 250_000),
            (5, 8, 1),
            (len(log) - 3, len(log), 9),
            (7, 7, 1),
            (len(log), len(log) + 5, 2),
        ):
            pieces = [piece async for piece in storage.stream_log_segment(metadata, start, end, size)]
            cut = min(end, len(log))
            assert [len(piece) for piece in pieces] == [min(size, cut - at) for at in range(start, cut, size)]
            assert b"".join(pieces) == log[start:cut]

    async def test_a_stream_can_be_left_at_any_piece(self, storage: RemoteStorageManager) -> None:
        """Optional: `StreamsSegments`."""
        if not isinstance(storage, StreamsSegments):
            pytest.skip("does not stream")
        log = pattern(self.large_bytes)
        metadata = make_metadata(len(log))
        await storage.copy_log_segment_data(metadata, make_data(log))
        for count in range(3):
            async with aclosing(storage.stream_log_segment(metadata, 0, len(log), 1 << 20)) as pieces:
                for number in range(count):
                    assert await anext(pieces) == log[number << 20 : number + 1 << 20]
        assert await storage.fetch_log_segment(metadata, 1, 4) == log[1:4]
        await storage.delete_log_segment_data(metadata)
        with pytest.raises(RemoteResourceNotFoundError):
            await anext(storage.stream_log_segment(metadata, 0, 3, 3))

    async def test_a_stream_of_less_than_its_metadata_state_is_corrupt(self, storage: RemoteStorageManager) -> None:
        """Optional: `StreamsSegments`. What has come before is right."""
        if not isinstance(storage, StreamsSegments):
            pytest.skip("does not stream")
        log = pattern(1000)
        await storage.copy_log_segment_data(make_metadata(len(log)), make_data(log))
        pieces = storage.stream_log_segment(make_metadata(len(log) + 100), 0, 1100, 400)
        assert await anext(pieces) == log[:400]
        assert await anext(pieces) == log[400:800]
        with pytest.raises(RemoteStorageCorruptError):
            await anext(pieces)

    async def test_read_objects(self, storage: RemoteStorageManager) -> None:
        """Optional: `ReadsObjects`."""
        if not isinstance(storage, ReadsObjects):
            pytest.skip("does not give its objects by key")
        assert [name async for name in storage.list_directories("")] == []
        await storage.copy_log_segment_data(make_metadata(3), make_data(b"abc"))
        (directory,) = [name async for name in storage.list_directories("") if not name.startswith(".")]
        keys = {key: size async for key, size in storage.list_keys(f"{directory}/")}
        log = max(keys, key=lambda key: key.endswith(".log"))
        assert keys[log] == 3
        assert await storage.read_object(log, 0, 99) == b"abc"
        assert await storage.read_object(log, 1, 2) == b"b"
        assert {key async for key, _ in storage.list_keys(f"{directory}/", log)} == {key for key in keys if key > log}
        with pytest.raises(RemoteResourceNotFoundError):
            await storage.read_object(f"{directory}/absent", 0, 1)
        assert await storage.read_whole(log, 3) == b"abc"
        with pytest.raises(RemoteStorageCorruptError):
            await storage.read_whole(log, 2)
        some = [log, f"{directory}/absent", *sorted(keys)]
        found = await storage.read_objects([ObjectRange(key, 0, 1 << 20) for key in some])
        assert found[:2] == [b"abc", None]
        assert [len(data or b"") for data in found[2:]] == [keys[key] for key in sorted(keys)]
        assert await storage.read_objects([ObjectRange(log, 1, 3), ObjectRange(log, 0, 2)]) == [b"bc", b"ab"]
        assert await storage.read_objects([]) == []

    @pytest.mark.parametrize("length", [230, 231, 249])
    @pytest.mark.parametrize("number", [3, 2_147_483_647])
    async def test_a_long_topic_name(self, storage: RemoteStorageManager, length: int, number: int) -> None:
        """A topic's name may have 249 characters; a name of a file system, 255 bytes."""
        partition = TopicIdPartition(PARTITION.topic_id, "t" * length, number)
        metadata = make_metadata(3, partition=partition)
        await storage.copy_log_segment_data(metadata, make_data(b"abc", transactions=b"x" * 34))
        assert await storage.fetch_log_segment(metadata, 0, 3) == b"abc"
        assert {entry.segment_id for entry in await listed(storage, partition)} == {metadata.segment_id}
        await storage.delete_log_segment_data(metadata)
        assert await storage.log_segment_size(metadata) is None
        assert await listed(storage, partition) == []

    async def test_a_copy_whose_source_fails_shows_no_segment(self, storage: RemoteStorageManager) -> None:
        log = pattern(self.large_bytes + 5)
        metadata = make_metadata(len(log))
        data = LogSegmentData(BytesSource(log, fails_at=len(log) - 1), make_data(b"").indexes)
        with pytest.raises((OSError, RemoteStorageError)):
            await storage.copy_log_segment_data(metadata, data)
        assert await storage.log_segment_size(metadata) is None
        await storage.delete_log_segment_data(metadata)
        assert await listed(storage) == []

    async def test_a_cancelled_copy_shows_no_segment(self, storage: RemoteStorageManager) -> None:
        log = pattern(self.large_bytes + 5)
        metadata = make_metadata(len(log))
        source = BytesSource(log, hangs_at=len(log) - 1)
        task = asyncio.create_task(
            storage.copy_log_segment_data(metadata, LogSegmentData(source, make_data(b"").indexes))
        )
        await source.hanging.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await storage.log_segment_size(metadata) is None
        await storage.delete_log_segment_data(metadata)
        assert await listed(storage) == []

    async def test_concurrent_copies_and_reads(self, storage: RemoteStorageManager) -> None:
        logs = {number: pattern(50_000 + number, seed=number) for number in range(1, 9)}

        async def one(number: int, log: bytes) -> None:
            metadata = make_metadata(len(log), number=number, start_offset=number * 100)
            await storage.copy_log_segment_data(metadata, make_data(log))
            assert await storage.fetch_log_segment(metadata, 0, len(log)) == log

        async with asyncio.TaskGroup() as group:
            for number, log in logs.items():
                group.create_task(one(number, log))
