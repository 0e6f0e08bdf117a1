"""Real Apache Kafka files for tests (see testdata/README.md), and the digest their expected contents are stated in."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tierfetch.protocol.records import Record, iter_batches

TESTDATA = Path(__file__).parent / "testdata"
ROOT = Path(os.environ.get("TIERFETCH_KAFKA_SAMPLES", TESTDATA / "kafka-samples"))
BROKER = ROOT / "broker-2"
CONTROLLER = ROOT / "controller"
TIER = ROOT / "tier" / "kafka-tiered-storage"
DUMPS = ROOT / "dumps"
JAVA_LZ4_BATCH = TESTDATA / "batches" / "java-lz4.bin"


@functools.cache
def expected() -> dict[str, dict[str, Any]]:
    """By topic: `read_uncommitted` and `read_committed` (see `digest`), `list_offsets_v11`, `leader_at_end`."""
    return json.loads((ROOT / "expected.json").read_text())["expected"]


TOPICS = tuple(sorted(expected()))


@functools.cache
def segments() -> dict[str, dict[str, Any]]:
    """By directory (`broker-2/s-none-0`): what an independent parser saw in each segment."""
    return json.loads((ROOT / "segments.json").read_text())


def partition_directory(topic: str, partition: int = 0) -> Path:
    return BROKER / f"{topic}-{partition}"


def tier_directory(topic: str, partition: int = 0) -> Path:
    (directory,) = TIER.glob(f"{topic}-{partition}-*")
    return directory


def log_files(topic: str) -> list[Path]:
    """One `.log` file for each base offset, in order; from the tier where the broker has none."""
    found = {}
    for path in [*TIER.glob(f"{topic}-0-*/*.log"), *partition_directory(topic).glob("*.log")]:
        found[int(path.name[:20])] = path
    return [found[base_offset] for base_offset in sorted(found)]


def batches(topic: str) -> list[bytes]:
    """All batches of a topic in order, each on its own."""
    out = []
    for path in log_files(topic):
        data = path.read_bytes()
        out += [data[position : position + header.size_bytes] for position, header in iter_batches(data)]
    return out


def copy_partition(topic: str, log_directory: Path) -> Path:
    """A writable copy of a partition's directory inside `log_directory`."""
    source = partition_directory(topic)
    return Path(shutil.copytree(source, log_directory / source.name))


def digest(records: Iterable[Record]) -> dict[str, Any]:
    """Data records in offset order, in the shape of `expected()[topic]["read_uncommitted"]`."""
    values, offsets = hashlib.sha256(), hashlib.sha256()
    seen: list[int] = []
    null_values = 0
    for record in records:
        seen.append(record.offset)
        offsets.update(struct.pack(">q", record.offset))
        if record.value is None:
            null_values += 1
            values.update(b"\xff\xff\xff\xff")
        else:
            values.update(struct.pack(">I", len(record.value)) + record.value)
    return {
        "records": len(seen),
        "null_values": null_values,
        "first": seen[0] if seen else None,
        "last": seen[-1] if seen else None,
        "sha256_values": values.hexdigest(),
        "sha256_offsets": offsets.hexdigest(),
        "complete": True,
    }
