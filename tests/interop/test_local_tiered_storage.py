"""Kafka's own `LocalTieredStorage` and our `local` plugin on one directory."""

from __future__ import annotations

import hashlib
import uuid
from pathlib import Path

import pytest

from tierfetch.log.core import EpochEntry
from tierfetch.plugins.local import STORAGE_DIRECTORY, LocalConfig, LocalTieredStorage
from tierfetch.protocol.topics import TopicIdPartition, uuid_to_text
from tierfetch.remote import IndexType, RemoteResourceNotFoundError
from tierfetch.remote.core import RemoteLogSegmentId, RemoteLogSegmentMetadata
from tierfetch.testing.remote_storage import BytesSource, LogSegmentData, listed, pattern
from tierfetch.tests.interop.java import run_jshell

PARTITION = TopicIdPartition(uuid.UUID("7d8a1be5-4f0c-4d9e-b2ad-e52c5f0e9d11"), "orders.eu_west-1", 12)
LOG = pattern(3 * 1024 * 1024 + 17)
INDEXES = {kind: pattern(100 + 12 * number, seed=number) for number, kind in enumerate(IndexType)}

pytestmark = pytest.mark.usefixtures("jshell")


def metadata(segment: uuid.UUID) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(PARTITION, segment),
        start_offset=4_294_967_296,
        end_offset=4_294_968_000,
        max_timestamp_ms=1_700_000_000_000,
        broker_id=1,
        event_timestamp_ms=1_700_000_000_001,
        segment_size_in_bytes=len(LOG),
        segment_leader_epochs=(EpochEntry(3, 4_294_967_296),),
    )


def java_storage(directory: Path, segment: uuid.UUID) -> str:
    """`storage` and `metadata` as Kafka's classes have them."""
    ours = metadata(segment)
    return f"""
    var storage = new LocalTieredStorage();
    storage.configure(Map.of("dir", "{directory}", "broker.id", 1));
    var partition = new TopicPartition("{PARTITION.topic}", {PARTITION.partition});
    var owner = new TopicIdPartition(Uuid.fromString("{uuid_to_text(PARTITION.topic_id)}"), partition);
    var id = new RemoteLogSegmentId(owner, Uuid.fromString("{uuid_to_text(segment)}"));
    var metadata = new RemoteLogSegmentMetadata(id, {ours.start_offset}L, {ours.end_offset}L, 0L, 1, 0L, {len(LOG)},
        Map.of(3, {ours.start_offset}L));
    String digest(java.io.InputStream stream) throws Exception {{
        var hash = java.security.MessageDigest.getInstance("SHA-256").digest(stream.readAllBytes());
        return HexFormat.of().formatHex(hash);
    }}
    """


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def test_java_reads_and_deletes_what_we_stored(tmp_path: Path) -> None:
    segment, other = uuid.uuid4(), uuid.uuid4()
    storage = LocalTieredStorage(LocalConfig(dir=tmp_path))
    data = LogSegmentData(BytesSource(LOG), {kind: BytesSource(content) for kind, content in INDEXES.items()})
    for each in (segment, other):
        await storage.copy_log_segment_data(metadata(each), data)
    printed = run_jshell(
        java_storage(tmp_path, segment)
        + """
        System.out.println(digest(storage.fetchLogSegment(metadata, 0)));
        System.out.println(digest(storage.fetchLogSegment(metadata, 1000)));
        for (var kind : IndexType.values()) System.out.println(kind + " " + digest(storage.fetchIndex(metadata, kind)));
        storage.deleteLogSegmentData(metadata);
        storage.close();
        """
    )
    assert printed[:2] == [sha256(LOG), sha256(LOG[1000:])]
    assert sorted(printed[2:]) == sorted(f"{kind.name} {sha256(content)}" for kind, content in INDEXES.items())
    assert {entry.segment_id for entry in await listed(storage, PARTITION)} == {metadata(other).segment_id}
    await storage.close()


@pytest.mark.parametrize("has_transaction_index", [True, False])
async def test_we_read_and_delete_what_java_stored(tmp_path: Path, has_transaction_index: bool) -> None:
    segment = uuid.uuid4()
    paths = {"log": tmp_path / "log"} | {kind.name: tmp_path / kind.name for kind in IndexType}
    paths["log"].write_bytes(LOG)
    for kind, content in INDEXES.items():
        paths[kind.name].write_bytes(content)
    transactions = f'Optional.of(Path.of("{paths["TRANSACTION"]}"))' if has_transaction_index else "Optional.empty()"
    run_jshell(
        java_storage(tmp_path / "tier", segment)
        + f"""
        var epochs = ByteBuffer.wrap(Files.readAllBytes(Path.of("{paths["LEADER_EPOCH"]}")));
        var data = new LogSegmentData(Path.of("{paths["log"]}"), Path.of("{paths["OFFSET"]}"),
            Path.of("{paths["TIMESTAMP"]}"), {transactions}, Path.of("{paths["PRODUCER_SNAPSHOT"]}"), epochs);
        System.out.println(storage.copyLogSegmentData(metadata, data).isPresent());
        storage.close();
        """
    )
    storage = LocalTieredStorage(LocalConfig(dir=tmp_path / "tier"))
    wanted = metadata(segment)
    assert await storage.fetch_log_segment(wanted, 0, len(LOG)) == LOG
    assert await storage.log_segment_size(wanted) == len(LOG)
    for kind, content in INDEXES.items():
        if kind is IndexType.TRANSACTION and not has_transaction_index:
            with pytest.raises(RemoteResourceNotFoundError):
                await storage.fetch_index(wanted, kind)
        else:
            assert await storage.fetch_index(wanted, kind) == content
    assert {entry.segment_id for entry in await listed(storage, PARTITION)} == {wanted.segment_id}
    await storage.delete_log_segment_data(wanted)
    assert [path for path in (tmp_path / "tier" / STORAGE_DIRECTORY).rglob("*") if path.is_file()] == []
    await storage.close()
