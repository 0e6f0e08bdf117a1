"""Tiers made without a broker, as fast as the disk takes them: one batch, again and again at rising offsets.

The CRC does not cover the base offset, so a batch that was built once is right at any offset.
"""

from __future__ import annotations

import random
import struct
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tierfetch.log.core import EpochEntry, OffsetIndex, TimeIndex, encode_snapshot
from tierfetch.log.core.checkpoints import encode_leader_epochs
from tierfetch.protocol import TopicIdPartition, uuid_to_text
from tierfetch.protocol.records import Compression, Record, build_batch

TOPIC: Final = "bench"
START_MS: Final = 1_700_000_000_000
INDEX_INTERVAL_BYTES: Final = 4096
KEY: Final = b"0123456789abcdef"
WORDS: Final = b"leader follower offset epoch segment record batch tier fetch commit abort "
_BASE_OFFSET: Final = struct.Struct(">q")


def value(size: int, number: int) -> bytes:
    """What a codec makes about half of: noise, other for each number, and words."""
    noise = random.Random(number).randbytes(size // 2)
    return (noise + WORDS * (size // len(WORDS) + 1))[:size]


def batch(records: int, record_bytes: int, compression: Compression = Compression.NONE) -> bytearray:
    """Return a batch of records of about this size each, keys and the format's own bytes included."""
    payload = max(1, record_bytes - len(KEY) - 10)
    made = [Record(offset, START_MS + offset, KEY, value(payload, offset)) for offset in range(records)]
    return bytearray(build_batch(made, base_offset=0, partition_leader_epoch=0, compression=compression))


def repeated(one: bytearray, records: int, total_bytes: int, first_offset: int = 0) -> Iterator[tuple[int, bytes]]:
    """(base offset, the batch there), of at least `total_bytes`."""
    offset = first_offset
    for _ in range(-(-total_bytes // len(one))):
        _BASE_OFFSET.pack_into(one, 0, offset)
        yield offset, bytes(one)
        offset += records


class TierWriter:
    """Write consecutive segments of one partition in the layout of LocalTieredStorage."""

    def __init__(self, root: Path, topic: str = TOPIC) -> None:
        self.partition = TopicIdPartition(uuid.uuid4(), topic, 0)
        self._directory = root / "kafka-tiered-storage" / str(self.partition)
        self._directory.mkdir(parents=True)
        self.next_offset = 0
        self.size_bytes = 0

    def segment(self, one: bytearray, records: int, total_bytes: int) -> None:
        start = self.next_offset
        stem = self._directory / f"{start:020d}-{uuid_to_text(uuid.uuid4())}"
        offsets, position, indexed = OffsetIndex(start), 0, 0
        with open(stem.with_suffix(".log"), "wb") as log:
            for base, data in repeated(one, records, total_bytes, start):
                if position - indexed > INDEX_INTERVAL_BYTES:
                    offsets.append(base + records - 1, position)
                    indexed = position
                log.write(data)
                position += len(data)
                self.next_offset = base + records
        times = TimeIndex(start)
        times.maybe_append(START_MS + records, self.next_offset - 1)
        stem.with_suffix(".index").write_bytes(offsets.encode())
        stem.with_suffix(".timeindex").write_bytes(times.encode())
        stem.with_suffix(".snapshot").write_bytes(encode_snapshot([]))
        stem.with_suffix(".leader_epoch_checkpoint").write_bytes(encode_leader_epochs([EpochEntry(0, 0)]))
        self.size_bytes += position
