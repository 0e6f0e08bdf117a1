"""What is larger than any file of its name is not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tierfetch.log.core import CorruptFileError
from tierfetch.log.core.file_sizes import PREALLOCATED_BYTES, file_bytes_max, index_bytes_max
from tierfetch.log.disk import OsDisk
from tierfetch.protocol.records import BATCH_HEADER_SIZE


@pytest.mark.parametrize(
    ("name", "mebibytes"),
    [
        ("leader-epoch-checkpoint", 4),
        ("00000000000000000007.snapshot", 64),
        ("replication-offset-checkpoint", 64),
        ("recovery-point-offset-checkpoint", 64),
        ("log-start-offset-checkpoint", 64),
        ("cleaner-offset-checkpoint", 64),
        ("bootstrap.checkpoint", 16),
        ("partition.metadata", 1),
        ("meta.properties", 1),
        ("quorum-state", 1),
        (".kafka_cleanshutdown", 1),
    ],
)
async def test_each_kind_of_file_has_its_limit(name: str, mebibytes: int, tmp_path: Path) -> None:
    assert file_bytes_max(name) == mebibytes << 20
    path, disk = tmp_path / name, OsDisk()
    with path.open("wb") as file:
        file.truncate((mebibytes << 20) + 1)
    with pytest.raises(CorruptFileError, match=f"{path}: .* where a file of this name has at most {mebibytes << 20}"):
        await disk.read_file(path)
    with path.open("wb") as file:
        file.truncate(mebibytes << 20)
    assert len(await disk.read_file(path)) == mebibytes << 20
    await disk.close()


@pytest.mark.parametrize(("suffix", "entry_bytes"), [(".index", 8), (".timeindex", 12), (".txnindex", 34)])
def test_an_index_has_an_entry_for_each_batch_at_most(suffix: str, entry_bytes: int) -> None:
    segment_bytes = 1 << 30
    assert index_bytes_max(suffix, segment_bytes) == entry_bytes * (segment_bytes // BATCH_HEADER_SIZE + 1)
    assert index_bytes_max(suffix, 0) == PREALLOCATED_BYTES, "as Kafka leaves it"
    assert file_bytes_max(f"00000000000000000000{suffix}") < entry_bytes * 2**31 / 60
