"""What is larger than any file of its name is not read."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from tierfetch.log.core import CorruptFileError, ProducerStateEntry, encode_snapshot
from tierfetch.log.core.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSET_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    MetaProperties,
    encode_clean_shutdown,
    encode_meta_properties,
    encode_offsets,
    encode_partition_metadata,
)
from tierfetch.log.core.file_sizes import PREALLOCATED_BYTES, check_bytes, file_bytes_max, index_bytes_max
from tierfetch.log.core.producer_state import BatchMetadata
from tierfetch.log.core.producers import PRODUCERS_MAX
from tierfetch.log.disk import OsDisk
from tierfetch.protocol import TopicIdPartition, TopicPartition
from tierfetch.protocol.records import BATCH_HEADER_SIZE
from tierfetch.quorum.storage.bootstrap_file import BOOTSTRAP_FILE
from tierfetch.quorum.storage.election_file import QUORUM_STATE, ElectionFile
from tierfetch.rlm.pending_deletions import PENDING_DELETIONS_FILE, encode_partitions
from tierfetch.tests.fakes.disk import MemoryDisk


@pytest.mark.parametrize(
    ("name", "kibibytes"),
    [
        (LEADER_EPOCH_CHECKPOINT, 4 << 10),
        ("00000000000000000007.snapshot", 64 << 10),
        (REPLICATION_OFFSET_CHECKPOINT, 64 << 10),
        (RECOVERY_POINT_CHECKPOINT, 64 << 10),
        (LOG_START_OFFSET_CHECKPOINT, 64 << 10),
        (CLEANER_OFFSET_CHECKPOINT, 64 << 10),
        (PENDING_DELETIONS_FILE, 64 << 10),
        (BOOTSTRAP_FILE, 16 << 10),
        (PARTITION_METADATA, 4),
        (META_PROPERTIES, 64),
        (QUORUM_STATE, 64),
        (CLEAN_SHUTDOWN, 4),
        ("another", 1 << 10),
    ],
)
async def test_each_kind_of_file_has_its_limit(name: str, kibibytes: int, tmp_path: Path) -> None:
    assert file_bytes_max(name) == kibibytes << 10
    path, disk = tmp_path / name, OsDisk()
    with path.open("wb") as file:
        file.truncate((kibibytes << 10) + 1)
    with pytest.raises(CorruptFileError, match=f"{path}: .* where a file of this name has at most {kibibytes << 10}"):
        await disk.read_file(path)
    with path.open("wb") as file:
        file.truncate(kibibytes << 10)
    assert len(await disk.read_file(path)) == kibibytes << 10
    await disk.close()


def test_what_is_written_at_the_most_is_read() -> None:
    """Whatever the limits: a file that is refused is lost."""
    topics = [f"{number:06d}{'t' * 243}" for number in range(200_000)]
    assert all(len(topic) == 249 for topic in topics[:3]), "the longest names"
    offsets = encode_offsets({TopicPartition(topic, 9): 2**63 - 1 for topic in topics})
    assert len(offsets) < file_bytes_max(REPLICATION_OFFSET_CHECKPOINT)
    deleted = encode_partitions([TopicIdPartition(UUID(int=2**127), topic, 9) for topic in topics])
    assert len(deleted) < file_bytes_max(PENDING_DELETIONS_FILE)
    producers = ProducerStateEntry(2**62, 0, batches=(BatchMetadata(0, 9, 0, 0),))
    row_bytes = len(encode_snapshot([producers])) - len(encode_snapshot([]))
    assert PRODUCERS_MAX * row_bytes < file_bytes_max("00000000000000000007.snapshot") / 2
    node = MetaProperties("c" * 22, 2**31 - 1, UUID(int=2**127))
    properties = encode_meta_properties(node, written_at=datetime(2026, 1, 1, tzinfo=UTC))
    assert len(properties) < file_bytes_max(META_PROPERTIES) / 100
    assert len(encode_partition_metadata(UUID(int=2**127))) < file_bytes_max(PARTITION_METADATA) / 50
    assert len(encode_clean_shutdown(2**63 - 1)) < file_bytes_max(CLEAN_SHUTDOWN) / 50


@pytest.mark.parametrize("name", [META_PROPERTIES, BOOTSTRAP_FILE])
def test_what_no_node_makes_again_says_what_to_do(name: str) -> None:
    with pytest.raises(CorruptFileError, match=rf"^/data/{name}: \d+ bytes, where .* at most 7: restore "):
        check_bytes(f"/data/{name}", 8, 7)


async def test_a_quorum_state_that_is_too_large_says_what_to_do() -> None:
    disk, path = MemoryDisk(), Path("/data") / QUORUM_STATE
    await disk.make_directory(path.parent)
    await disk.write_file(path, bytes(1 << 20))
    with pytest.raises(CorruptFileError, match=r"1048576 bytes, .* at most 65536. Remove the file, and leave the log"):
        await ElectionFile(disk, path.parent).read(None)


@pytest.mark.parametrize(("suffix", "entry_bytes"), [(".index", 8), (".timeindex", 12), (".txnindex", 34)])
def test_an_index_has_an_entry_for_each_batch_at_most(suffix: str, entry_bytes: int) -> None:
    segment_bytes = 1 << 30
    assert index_bytes_max(suffix, segment_bytes) == entry_bytes * (segment_bytes // BATCH_HEADER_SIZE + 1)
    assert index_bytes_max(suffix, 0) == PREALLOCATED_BYTES, "as Kafka leaves it"
    assert file_bytes_max(f"00000000000000000000{suffix}") < entry_bytes * 2**31 / 60
