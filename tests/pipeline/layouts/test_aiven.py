"""The layout of Aiven's plugin: real Kafka segments put into it, its documented encodings, and what may be wrong"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.log.core import CorruptFileError
from tierfetch.pipeline.access.stores import StoreRef, open_store
from tierfetch.pipeline.access.worker import WORKER
from tierfetch.pipeline.layouts.aiven_keys import KeyRing, decrypt_chunk
from tierfetch.pipeline.layouts.aiven_manifest import (
    MANIFEST_BYTES_MAX,
    SIZES_BYTES_MAX,
    Manifest,
    chunks_of,
    decode_manifest,
    metadata_of,
)
from tierfetch.pipeline.planning.tier_splits import PlannedSplit, TierError
from tierfetch.plugins.local import DirectoryObjectStore, LocalTieredStorage
from tierfetch.protocol.records import Record
from tierfetch.protocol.topics import TopicIdPartition, uuid_from_text
from tierfetch.remote import IndexType, RemoteStorageCorruptError, RemoteStorageError, index_bound
from tierfetch.remote.core import FindingKind, RemoteLogSegmentId, RemoteLogSegmentMetadata
from tierfetch.remote.survey import survey_partition
from tierfetch.tests import samples
from tierfetch.tests.fakes.aiven_tier import AivenWriter, packed_sizes, private_pem

from ..tables import options_of, plan, read, rows

ISOLATIONS = ("read_committed", "read_uncommitted")
TIERED = sorted({path.parent.name.rsplit("-0-", 1)[0] for path in samples.TIER.glob("*/*.log")})


async def kafkas_segments(topic: str) -> list[tuple[RemoteLogSegmentMetadata, bytes, dict[IndexType, bytes]]]:
    storage = LocalTieredStorage(LocalTieredStorage.Config(dir=samples.TIER.parent))
    (partition,) = [one async for one in storage.list_partitions() if one.topic == topic]
    found = []
    for metadata in (await survey_partition(storage, partition)).ledger.finished():
        kinds = [kind for kind in IndexType if kind is not IndexType.TRANSACTION or not metadata.txn_index_empty]
        indexes = {kind: await storage.fetch_index(metadata, kind) for kind in kinds}
        found.append((metadata, await storage.fetch_log_segment(metadata, 0, metadata.segment_size_in_bytes), indexes))
    await storage.close()
    return found


def written(root: Path, topic: str = "s-none", chunk_size: int = 5000, **how: object) -> list[Path]:
    """The objects' common beginnings, in the order of offsets."""
    writer = AivenWriter(root, chunk_size, **how)
    for segment in WORKER.run(kafkas_segments(topic)):
        writer.write(*segment)
    return writer.written


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("topic", TIERED)
@pytest.mark.parametrize(
    "how", [{}, {"compresses": True}, {"key_id": "Key-1"}, {"compresses": True, "key_id": "Key-1"}]
)
def test_P1_real_segments_in_this_layout(topic: str, isolation: str, how: dict[str, object], tmp_path: Path) -> None:
    written(tmp_path, topic, **how)
    options = {"topics": topic, "isolation": isolation, "logDirs": samples.BROKER, "splitBytes": 20_000}
    found = rows(tmp_path, ("offset", "value"), **options, **{"encryption.key-1": private_pem("Key-1")})
    digest = samples.digest(Record(row["offset"], 0, None, row["value"]) for row in found)
    assert digest == samples.expected()[topic][isolation]


def test_a_prefix_of_all_keys_is_part_of_the_location(tmp_path: Path) -> None:
    written(tmp_path, prefix="some/prefix/")
    found = rows(tmp_path / "some" / "prefix", ("offset",), topics="s-none", isolation="read_uncommitted")
    assert [row["offset"] for row in found][:3] == [0, 1, 2]


def test_a_split_is_one_ranged_get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, compresses=True)
    options = options_of(tmp_path, topics="s-none", splitBytes=20_000)
    splits = plan(options)
    gets = []
    original = DirectoryObjectStore.get

    async def get(self: DirectoryObjectStore, key: str, start: int, end: int) -> bytes:
        gets.append((key, start, end))
        return await original(self, key, start, end)

    monkeypatch.setattr(DirectoryObjectStore, "get", get)
    for number, split in enumerate(splits, start=1):
        read(options, split)
        assert len(gets) == number
    assert all(key.endswith(".log") for key, _, _ in gets)


# Encodings.


@given(st.lists(st.integers(0, 2**31 - 1), max_size=30))
def test_chunk_sizes_come_back(sizes: list[int]) -> None:
    assert manifest_with(variable(packed_sizes(sizes))).chunk_index.transformed_sizes() == sizes


@pytest.mark.parametrize(
    ("packed", "sizes"),
    [
        ("00000000", []),
        ("00000001000000d5", [213]),
        ("00000004 00000001 01 000102 7fffffff", [1, 2, 3, 2**31 - 1]),
        ("00000005 00000000 02 0000 03e8 0002 abe2 00000171", [0, 1000, 2, 44002, 369]),
    ],
)
def test_chunk_sizes_as_documented(packed: str, sizes: list[int]) -> None:
    """Count, base, width, distances from the base, the last in full."""
    assert packed_sizes(sizes) == bytes.fromhex(packed)
    assert manifest_with(variable(bytes.fromhex(packed))).chunk_index.transformed_sizes() == sizes


@pytest.mark.parametrize(
    "packed", ["", "0000", "ffffffff", "00000002 00000000", "00000002 00000000 05 0000000000 00000001"]
)
def test_chunk_sizes_that_cannot_be(packed: str) -> None:
    with pytest.raises(CorruptFileError, match="manifest: the list of chunk sizes: "):
        manifest_with(variable(bytes.fromhex(packed))).chunk_index.transformed_sizes()


def test_a_list_of_chunk_sizes_that_would_be_larger_than_any() -> None:
    with pytest.raises(CorruptFileError, match=r"the list of chunk sizes: \d+ bytes, at most \d+ are expected"):
        manifest_with(variable(bytes(SIZES_BYTES_MAX + 1))).chunk_index.transformed_sizes()


def test_a_chunk_larger_than_its_part_of_the_log_can_become_is_not_read() -> None:
    """What cannot be compressed grows by less than that."""
    chunk, grown = 4 << 20, (4 << 20) + (32 << 10) + 1024
    index: dict[str, object] = {
        "type": "fixed",
        "originalChunkSize": chunk,
        "originalFileSize": 2 * chunk,
        "transformedChunkSize": grown,
        "finalTransformedChunkSize": grown + 1,
    }
    assert chunks_of(manifest_with(index), 0, chunk).end == grown
    with pytest.raises(CorruptFileError, match=rf"a chunk of {grown + 1} bytes, where {chunk} of the log have {grown}"):
        chunks_of(manifest_with(index), chunk, chunk + 1)


@pytest.mark.parametrize(("size", "chunk"), [(2**60, 1), (2**31 - 1, 1), (2**31 - 1, 100), (2**31, 1 << 22)])
def test_more_chunks_than_a_segment_can_have(size: int, chunk: int) -> None:
    index = {"type": "fixed", "originalChunkSize": chunk, "originalFileSize": size}
    with pytest.raises(CorruptFileError, match="m: chunkIndex"):
        manifest_with({**index, "transformedChunkSize": 0, "finalTransformedChunkSize": 0})


@given(st.integers(1, 50), st.integers(1, 400), st.data())
def test_a_range_of_the_log_is_within_its_chunks(size: int, total: int, data: st.DataObject) -> None:
    count = -(-total // size)
    sizes = data.draw(st.lists(st.integers(1, 60), min_size=count, max_size=count))
    start = data.draw(st.integers(0, total - 1))
    end = data.draw(st.integers(start + 1, total))
    index = {**variable(packed_sizes(sizes)), "originalChunkSize": size, "originalFileSize": total}
    chunks = chunks_of(manifest_with(index), start, end)
    assert chunks.original_start <= start < chunks.original_start + size
    assert end <= chunks.original_start + sum(chunks.original_sizes) < end + size
    assert chunks.end - chunks.start == sum(chunks.transformed_sizes)
    assert chunks.start == sum(sizes[: chunks.first_chunk])


def variable(packed: bytes) -> dict[str, object]:
    text = b64encode(zstandard.ZstdCompressor().compress(packed)).decode()
    return {"type": "variable", "originalChunkSize": 1, "originalFileSize": 1, "transformedChunks": text}


def manifest_with(chunk_index: dict[str, object]) -> Manifest:
    return decode_manifest(json.dumps({**DOCUMENT, "chunkIndex": chunk_index}).encode(), "m")


DOCUMENT = {
    "version": "1",
    "chunkIndex": {
        "type": "fixed",
        "originalChunkSize": 100,
        "originalFileSize": 1000,
        "transformedChunkSize": 110,
        "finalTransformedChunkSize": 110,
    },
    "segmentIndexes": {
        "offset": {"position": 0, "size": 1},
        "timestamp": {"position": 1, "size": 1},
        "producerSnapshot": {"position": 2, "size": 1},
        "leaderEpoch": {"position": 3, "size": 1},
        "transaction": None,
    },
    "compression": False,
    "remoteLogSegmentMetadata": {
        "remoteLogSegmentId": {
            "topicIdPartition": {
                "topicId": "lZ6vvmajTWKDBUTV6SQAtQ",
                "topicPartition": {"topic": "topic1", "partition": 42},
            },
            "id": "adh9f8BMS4anaUnD8KWfWg",
        },
        "startOffset": 100,
        "endOffset": 1000,
        "maxTimestampMs": 1_000_000_000,
        "brokerId": 2,
        "eventTimestampMs": 2_000_000_000,
        "segmentLeaderEpochs": {"0": 100, "1": 200, "2": 300},
        "added later": True,
    },
}
"""Of the documented form."""


def test_a_manifest_is_the_segments_metadata() -> None:
    raw = json.dumps(DOCUMENT).encode()
    partition = TopicIdPartition(uuid_from_text("lZ6vvmajTWKDBUTV6SQAtQ"), "topic1", 42)
    segment_id = RemoteLogSegmentId(partition, uuid_from_text("adh9f8BMS4anaUnD8KWfWg"))
    metadata = metadata_of(decode_manifest(raw, "m"), raw, segment_id, "m")
    assert metadata.segment_id == segment_id
    assert (metadata.start_offset, metadata.end_offset, metadata.segment_size_in_bytes) == (100, 1000, 1000)
    assert [(entry.epoch, entry.start_offset) for entry in metadata.segment_leader_epochs] == [
        (0, 100),
        (1, 200),
        (2, 300),
    ]
    assert metadata.txn_index_empty
    assert metadata.custom_metadata == raw
    other = RemoteLogSegmentId(partition, uuid_from_text("tqimKeZwStOEOwRzT3L5oQ"))
    with pytest.raises(CorruptFileError, match=r"m: describes topic1-42-.*:adh9f8BMS4anaUnD8KWfWg"):
        metadata_of(decode_manifest(raw, "m"), raw, other, "m")


@pytest.mark.parametrize(("epochs", "is_possible"), [({"0": 150, "1": 200}, True), ({"0": 1001}, False)])
def test_the_epochs_of_a_segment_in_which_the_log_start_lay_begin_there(
    epochs: dict[str, int], is_possible: bool
) -> None:
    described = dict[str, object](DOCUMENT["remoteLogSegmentMetadata"]) | {"segmentLeaderEpochs": epochs}
    raw = json.dumps(DOCUMENT | {"remoteLogSegmentMetadata": described}).encode()
    partition = TopicIdPartition(uuid_from_text("lZ6vvmajTWKDBUTV6SQAtQ"), "topic1", 42)
    segment_id = RemoteLogSegmentId(partition, uuid_from_text("adh9f8BMS4anaUnD8KWfWg"))
    if is_possible:
        assert metadata_of(decode_manifest(raw, "m"), raw, segment_id, "m").segment_leader_epochs[0].start_offset == 150
        return
    with pytest.raises(CorruptFileError, match="with the leader epochs"):
        metadata_of(decode_manifest(raw, "m"), raw, segment_id, "m")


# What may be wrong.


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": "2"}, "version: Input should be '1'"),
        ({"chunkIndex": {"type": "other"}}, "chunkIndex: Input tag 'other'"),
        ({"compression": None}, "compression: Input should be a valid boolean"),
        ({"remoteLogSegmentMetadata": None}, "remoteLogSegmentMetadata"),
    ],
)
def test_a_manifest_that_cannot_be_read_is_named(change: dict[str, object], said: str, tmp_path: Path) -> None:
    stem = written(tmp_path)[1]
    path = stem.with_suffix(".rsm-manifest")
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(TierError, match=rf"corrupt: .*{stem.name}.rsm-manifest: {said}"):
        rows(tmp_path, topics="s-none", isolation="read_uncommitted")


def test_a_copy_without_its_manifest_is_under_way(tmp_path: Path) -> None:
    stems = written(tmp_path)
    stems[-1].with_suffix(".rsm-manifest").unlink()
    found = rows(tmp_path, ("offset",), topics="s-none", isolation="read_uncommitted")
    assert found[-1]["offset"] < int(stems[-1].name[:20])


@pytest.mark.parametrize("suffix", [".log", ".indexes"])
def test_a_manifest_without_its_objects_is_damage(suffix: str, tmp_path: Path) -> None:
    written(tmp_path)[1].with_suffix(suffix).unlink()
    with pytest.raises(TierError, match=rf"missing: .*the manifest is there, {suffix} not"):
        rows(tmp_path, topics="s-none", isolation="read_uncommitted")


def test_a_key_that_is_not_given_is_named_when_planning(tmp_path: Path) -> None:
    written(tmp_path, key_id="key2")
    keys = {"encryption.key1": private_pem("key1")}
    with pytest.raises(
        TierError, match=r"encrypted with the key 'key2', which is not given \(given: key1\): set the option"
    ):
        plan(options_of(tmp_path, topics="s-none", **keys))


def test_a_key_that_is_another_one_is_named(tmp_path: Path) -> None:
    written(tmp_path, key_id="key2")
    with pytest.raises(TierError, match=r"with the private key that encryption\.key2 gives: give the one that belongs"):
        plan(options_of(tmp_path, topics="s-none", **{"encryption.key2": private_pem("key1")}))
    with pytest.raises(TierError, match=r"encryption\.key2: not a private RSA key in PEM"):
        plan(options_of(tmp_path, topics="s-none", **{"encryption.key2": "-----BEGIN NONSENSE-----"}))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"key_id": "key1"}, r"chunk 0: it was changed after encryption"),
        ({"compresses": True}, r"chunk 0: "),
    ],
)
def test_a_chunk_that_was_changed(how: dict[str, object], said: str, tmp_path: Path) -> None:
    log = written(tmp_path, **how)[0].with_suffix(".log")
    content = bytearray(log.read_bytes())
    content[30] ^= 0xFF
    log.write_bytes(content)
    with pytest.raises((TierError, RemoteStorageError), match=said):
        rows(tmp_path, topics="s-none", **{"encryption.key1": private_pem("key1")})


def test_a_chunk_that_would_be_larger_than_its_manifest_says(tmp_path: Path) -> None:
    stem = written(tmp_path, compresses=True, chunk_size=1_000_000)[0]
    bomb = zstandard.ZstdCompressor().compress(bytes(50_000_000))
    log = stem.with_suffix(".log")
    log.write_bytes(bomb + bytes(max(0, log.stat().st_size - len(bomb))))
    with pytest.raises(TierError, match=r"chunk 0: would be 50000000 bytes where the manifest says \d+"):
        rows(tmp_path, topics="s-none")


@pytest.mark.parametrize("compresses", [False, True])
@pytest.mark.parametrize(
    ("nth", "said"), [(0, "cannot be read below offset"), (2, "are in no segment"), (-1, "cannot be read from offset")]
)
def test_an_object_that_is_too_short_is_said_when_it_is_planned(
    tmp_path: Path, nth: int, said: str, compresses: bool
) -> None:
    log = written(tmp_path, compresses=compresses)[nth].with_suffix(".log")
    log.write_bytes(log.read_bytes()[:-1])
    with pytest.raises(TierError, match=rf"{said}.*wrong size: .* has \d+ bytes where its manifest says \d+"):
        plan(options_of(tmp_path, topics="s-none"))


def test_an_object_that_became_too_short(tmp_path: Path) -> None:
    log = written(tmp_path)[0].with_suffix(".log")
    options = options_of(tmp_path, topics="s-none")
    first, *_ = plan(options)
    log.write_bytes(log.read_bytes()[:-1])
    with pytest.raises(TierError, match=r"came back as \d+ bytes: the object is shorter than its manifest says"):
        read(options, first)


def test_a_plugin_that_keeps_its_objects_to_itself_cannot_have_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tierfetch.pipeline.access.options.load_remote_storage", lambda *_, **__: object())
    with pytest.raises(RemoteStorageError, match="does not give its objects by key"):
        open_store(options_of(tmp_path, topics="t"), StoreRef(str(tmp_path), "aiven"))


def test_the_split_needs_no_other_look_at_the_manifest(tmp_path: Path) -> None:
    stems = written(tmp_path, compresses=True)
    options = options_of(tmp_path, topics="s-none")
    splits = plan(options)
    for stem in stems:
        stem.with_suffix(".rsm-manifest").unlink()
    assert all(isinstance(split, PlannedSplit) for split in splits)
    assert sum(len(read(options, split, ("offset",))) for split in splits) > 1000


def test_a_data_key_and_a_chunk_that_java_encrypted() -> None:
    """By the names that the plugin gives to Java: Bouncy Castle's OAEPWithSHA3-512AndMGF1Padding, AES/GCM/NoPadding."""
    made = json.loads((samples.TESTDATA / "aiven" / "encrypted.json").read_text())
    keys = KeyRing({"KEY1": (samples.TESTDATA / "aiven" / "private-key.pem").read_text()})
    chunk, aad = b64decode(made["chunk"]), b64decode(made["aad"])
    assert decrypt_chunk(chunk, keys.data_key(made["data_key"]), aad, "chunk") == made["plain"].encode()


@pytest.mark.parametrize("size", [0, MANIFEST_BYTES_MAX + 1])
def test_a_manifest_of_an_impossible_size_is_not_read(tmp_path: Path, size: int) -> None:
    written(tmp_path)
    first = min(tmp_path.rglob("*.rsm-manifest"))
    with first.open("wb") as file:
        file.truncate(size)
    store = open_store(options_of(tmp_path, topics="s-none"), StoreRef(str(tmp_path), "aiven"))
    (partition,) = WORKER.run(store.partitions(lambda _: True))
    (finding,) = WORKER.run(store.sight(partition)).findings
    WORKER.run(store.close())
    assert finding.kind is FindingKind.CORRUPT
    assert f"{first.name}: a manifest of {size} bytes" in finding.message


def test_an_index_larger_than_its_segment_can_have_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its size is only a claim of the manifest."""
    written(tmp_path)
    store = open_store(options_of(tmp_path, topics="s-none"), StoreRef(str(tmp_path), "aiven"))
    (partition,) = WORKER.run(store.partitions(lambda _: True))
    metadata = WORKER.run(store.sight(partition)).described[0]
    monkeypatch.setattr(index_bound, "LEADER_EPOCH_BYTES_MAX", 3)
    with pytest.raises(RemoteStorageCorruptError, match=r"leader_epoch_checkpoint of .* has at most 3"):
        WORKER.run(store.fetch_index(metadata, IndexType.LEADER_EPOCH))
    WORKER.run(store.close())
