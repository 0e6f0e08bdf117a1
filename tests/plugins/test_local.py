"""The `local` plugin: Kafka's own layout both ways, faults of a directory, short objects."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from tierfetch.log.core import EpochEntry
from tierfetch.plugins.layout import describe_object, partition_directory, partition_of, segment_key
from tierfetch.plugins.local import LocalTieredStorage
from tierfetch.protocol.topics import TopicIdPartition, uuid_from_text
from tierfetch.remote import IndexType, RemoteStorageCorruptError, RemoteStorageError
from tierfetch.remote.core import RemoteLogSegmentId, RemoteLogSegmentMetadata
from tierfetch.testing.remote_storage import PARTITION, listed, make_data, make_metadata

SAMPLE_TIER = Path(__file__).parents[1] / "testdata" / "kafka-samples" / "tier"


def storage_at(directory: Path) -> LocalTieredStorage:
    return LocalTieredStorage(LocalTieredStorage.Config(dir=directory))


async def test_files_are_named_as_kafka_names_them(tmp_path: Path) -> None:
    metadata = make_metadata(3)
    await storage_at(tmp_path).copy_log_segment_data(metadata, make_data(b"abc", transactions=b"t"))
    directory = tmp_path / "kafka-tiered-storage" / "conformance-3-AAAAAAAAAAAAAAAAAABe7Q"
    stem = "00000000000000000100-AAAAAAAAAAAAAAAAAAAAAQ"
    assert sorted(path.name for path in directory.iterdir()) == [
        f"{stem}.{suffix}"
        for suffix in ("index", "leader_epoch_checkpoint", "log", "snapshot", "timeindex", "txnindex")
    ]


@pytest.mark.parametrize("topic", ["s-none", "s-trim"])
async def test_reads_what_kafka_wrote(topic: str) -> None:
    (directory,) = (SAMPLE_TIER / "kafka-tiered-storage").glob(f"{topic}-0-*")
    partition = TopicIdPartition(uuid_from_text(directory.name.removeprefix(f"{topic}-0-")), topic, 0)
    storage = storage_at(SAMPLE_TIER)
    entries = await listed(storage, partition)
    assert {entry.size for entry in entries} == {path.stat().st_size for path in directory.iterdir()}
    logs = [entry for entry in entries if entry.is_log]
    assert len(logs) > 3
    for entry in logs:
        assert entry.segment_id is not None
        path = directory / entry.key.rpartition("/")[2]
        metadata = metadata_of(path, entry.segment_id, entry.size)
        assert await storage.fetch_log_segment(metadata, 0, entry.size) == path.read_bytes()
        assert await storage.fetch_index(metadata, IndexType.OFFSET) == path.with_suffix(".index").read_bytes()


class SegmentFile:
    """A segment's file, which may have lost its name, and whose stated size may be wrong."""

    def __init__(self, path: Path, content: bytes, size: int | None = None) -> None:
        self.path = path
        self.size = len(content) if size is None else size
        self._content = content
        self.reads = 0

    async def read(self, offset: int, count: int) -> bytes:
        self.reads += 1
        return self._content[offset : offset + count]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the bytes go through the process")
@pytest.mark.parametrize("is_named", [True, False], ids=["named", "unlinked"])
async def test_a_segment_is_copied_from_its_file_or_from_who_holds_it_open(tmp_path: Path, *, is_named: bool) -> None:
    content = os.urandom(700_001)
    path = tmp_path / "00000000000000000000.log"
    if is_named:
        path.write_bytes(content)
    source = SegmentFile(path, content)
    metadata = make_metadata(len(content))
    storage = storage_at(tmp_path / "tier")
    await storage.copy_log_segment_data(metadata, replace(make_data(b"abc"), log=source))
    assert await storage.fetch_log_segment(metadata, 0, len(content)) == content
    assert (source.reads == 0) == is_named
    assert not list((tmp_path / "tier" / ".unfinished").iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the bytes go through the process")
async def test_a_file_that_is_shorter_than_stated_is_not_stored(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"abc")
    storage = storage_at(tmp_path / "tier")
    with pytest.raises(RemoteStorageError, match="ends at byte 3 of 5"):
        await storage.copy_log_segment_data(make_metadata(3), replace(make_data(b"abc"), log=SegmentFile(path, b"", 5)))
    assert not list((tmp_path / "tier").rglob("*.log*"))


def metadata_of(path: Path, segment_id: RemoteLogSegmentId, size: int) -> RemoteLogSegmentMetadata:
    start = int(path.name[:20])
    return RemoteLogSegmentMetadata(
        segment_id, start, start, -1, 1, 0, size, segment_leader_epochs=(EpochEntry(0, start),)
    )


async def test_a_short_object_is_corrupt_not_short(tmp_path: Path) -> None:
    storage = storage_at(tmp_path)
    metadata = make_metadata(6)
    await storage.copy_log_segment_data(metadata, make_data(b"abcdef"))
    (tmp_path / "kafka-tiered-storage" / segment_key(metadata, None)).write_bytes(b"abc")
    with pytest.raises(RemoteStorageCorruptError, match=r"\[2, 6\) came back as 1 bytes"):
        await storage.fetch_log_segment(metadata, 2, 6)


async def test_a_copy_is_durable_up_to_the_configured_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names that lead to the object are synced too, after the object itself."""
    synced = []

    def fsync(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))

    monkeypatch.setattr(os, "fsync", fsync)
    metadata = make_metadata(3)
    await storage_at(tmp_path).copy_log_segment_data(metadata, make_data(b"abc"))
    root = tmp_path / "kafka-tiered-storage"
    directory = root / segment_key(metadata, None).partition("/")[0]
    assert synced[-4].parent == tmp_path / ".unfinished"
    assert synced[-3:] == [directory, root, tmp_path]
    long = make_metadata(3, partition=TopicIdPartition(PARTITION.topic_id, "t" * 249, 0))
    await storage_at(tmp_path).copy_log_segment_data(long, make_data(b"abc"))
    first, second, _ = segment_key(long, None).split("/")
    assert synced[-4:] == [root / first / second, root / first, root, tmp_path]


async def test_a_directory_that_hangs_takes_the_threads_of_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, metadata, go_on = storage_at(tmp_path), make_metadata(3), threading.Event()

    def hang(*_: object) -> bytes:
        go_on.wait(10)
        return b"abc"

    monkeypatch.setattr("tierfetch.plugins.local._content", hang)
    asked = [asyncio.create_task(storage.fetch_log_segment(metadata, 0, 3)) for _ in range(100)]
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        assert await asyncio.to_thread(lambda: 1) == 1
    go_on.set()
    assert set(await asyncio.gather(*asked)) == {b"abc"}
    await storage.close()


async def test_a_tier_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "kafka-tiered-storage").write_text("a file where the directory should be")
    with pytest.raises(RemoteStorageError, match=r"conformance-3.*(Not a directory|File exists)"):
        await storage_at(tmp_path).copy_log_segment_data(make_metadata(3), make_data(b"abc"))


def test_illegal_topic_names_never_become_paths() -> None:
    partition = TopicIdPartition(uuid.UUID(int=1), "../../etc", 0)
    with pytest.raises(ValueError, match="illegal"):
        segment_key(make_metadata(1, partition=partition), None)


@pytest.mark.parametrize(
    "name",
    ["README", "00000000000000000100-short.log", "00000000000000000100-AAAAAAAAAAAAAAAAAAAAAQ.exe", "100-x.log"],
)
def test_foreign_names_are_foreign(name: str) -> None:
    assert describe_object(f"dir/{name}", 5, PARTITION).segment_id is None


@pytest.mark.parametrize(
    "topic", ["t", "a-1", "-.7_", "t-0-AAAAAAAAAAAAAAAAAAAAAQ", *("x" * n for n in (229, 230, 249))]
)
def test_a_partition_is_found_again_by_its_directory(topic: str) -> None:
    partition = TopicIdPartition(uuid.UUID(int=2**128 - 2), topic, 12)
    directory = partition_directory(partition)
    assert partition_of(directory) == partition
    assert all(len(part) <= 255 for part in directory.split("/"))
    assert ("/" in directory) == (len(topic) > 229), "the layout of LocalTieredStorage wherever that works"


@pytest.mark.parametrize(
    "name",
    ["README", ".unfinished", "t-1", "t-01-AAAAAAAAAAAAAAAAAAAAAQ", "t-1-AAAAAAAAAAAAAAAAAAAAAR", "a b-1-" + 22 * "A"],
)
def test_other_directories_are_no_partitions(name: str) -> None:
    assert partition_of(name) is None
