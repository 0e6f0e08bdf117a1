"""Proofs of the demo: a replica's bytes equal the leader's, and a consumer reads back exactly what was produced."""

from __future__ import annotations

import hashlib
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from ...light_dataclass import dataclass
from ...protocol.records import iter_batches

if TYPE_CHECKING:
    from hashlib import _Hash

SILENCE_MAX_S = 30.0
POLL_RECORDS = 10_000


@dataclass(slots=True)
class Checksum:
    """SHA-256 over the values of one partition in offset order: 4-byte big-endian length, then the bytes."""

    records: int = 0
    _hash: _Hash = field(default_factory=hashlib.sha256)

    def add(self, value: bytes) -> None:
        self.records += 1
        self._hash.update(struct.pack(">i", len(value)))
        self._hash.update(value)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Checksum)
            and self.records == other.records
            and self._hash.digest() == other._hash.digest()
        )

    __hash__ = None  # type: ignore[assignment]


def local_start_offset(directory: Path) -> int:
    """Base offset of the first segment of a partition's directory."""
    return min(int(path.stem) for path in directory.glob("*.log"))


def batches(directory: Path) -> Iterator[tuple[int, bytes]]:
    """(base offset, bytes) of every batch of a partition's directory, in order."""
    for path in sorted(directory.glob("*.log")):
        content = path.read_bytes()
        for position, header in iter_batches(content):
            yield header.base_offset, content[position : position + header.size_bytes]


def replicas_equal(leader: Path, follower: Path) -> bool:
    """Whether both directories hold the same bytes, batch by batch, from the later of the two local starts to the
    end.
    """
    start = max(local_start_offset(leader), local_start_offset(follower))
    ours = (batch for offset, batch in batches(follower) if offset >= start)
    theirs = (batch for offset, batch in batches(leader) if offset >= start)
    compared = 0
    for our, their in zip_both(ours, theirs):
        if our != their:
            return False
        compared += 1
    return compared > 0


def zip_both(left: Iterator[bytes], right: Iterator[bytes]) -> Iterator[tuple[bytes | None, bytes | None]]:
    while True:
        pair = next(left, None), next(right, None)
        if pair == (None, None):
            return
        yield pair


def consume_all(
    connection: Mapping[str, str], topic: str, expected: dict[int, Checksum], progress: Callable[[int], None]
) -> bool:
    """Read every partition from offset 0 with librdkafka; True if counts and checksums are as expected. `connection` is
    what librdkafka needs to connect.
    """
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            **connection,
            "group.id": "tierfetch-demo",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.message.max.bytes": 8 << 20,
            "check.crcs": True,
            "log_level": 2,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in expected])
    found = {partition: Checksum() for partition in expected}
    missing = sum(checksum.records for checksum in expected.values())
    heard = time.monotonic()
    while missing > 0 and time.monotonic() - heard < SILENCE_MAX_S:
        for message in consumer.consume(POLL_RECORDS, 0.5):
            value, partition = message.value(), message.partition()
            if message.error() is not None or value is None or partition is None:
                consumer.close()
                return False
            found[partition].add(value)
            progress(len(value))
            missing -= 1
            heard = time.monotonic()
    consumer.close()
    return found == expected
