"""What the coverage-guided fuzzer runs: functions of bytes that raise nothing but the errors of their contract.

The sender of the bytes may be hostile: a client (requests, batches), a leader or controller (answers, fetched batches),
the tier (indexes, metadata records, ledger snapshots), the disk (logs and checkpoints at opening). An input begins with
the bytes that choose among the variants of its target, such as the API and its version.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Final
from zlib import crc32

import crc32c

from tierfetch.log.core import LogConfig
from tierfetch.log.core.checkpoints import (
    decode_clean_shutdown,
    decode_leader_epochs,
    decode_meta_properties,
    decode_offsets,
    decode_partition_metadata,
)
from tierfetch.log.core.errors import CorruptFileError
from tierfetch.log.core.index import OffsetIndex, TimeIndex, TransactionIndex
from tierfetch.log.core.producer_snapshot import decode_snapshot
from tierfetch.log.core.validation import check_follower_batches, check_follower_order
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.codec import (
    UnsupportedVersionError,
    read_request_body,
    read_request_header,
    read_response,
)
from tierfetch.protocol.errors import CorruptRecordError, KafkaError
from tierfetch.protocol.records import BATCH_HEADER_SIZE, iter_batches, iter_records, skim_records
from tierfetch.protocol.wire.primitives import MalformedMessageError
from tierfetch.remote.core import MetadataRecordError, decode_event
from tierfetch.remote.core.snapshot import HEADER_SIZE, SnapshotError, SnapshotHeader, SnapshotLoader
from tierfetch.tests.fakes.disk import MemoryDisk
from tierfetch.tests.log.logs import DIRECTORY, data_batch, open_log

DECOMPRESSED_BYTES_MAX: Final = 1 << 20
Target = Callable[[bytes], None]


@cache
def versions() -> tuple[tuple[ApiKey, int], ...]:
    return tuple((api, version) for api in sorted(ApiKey) for version in range(api.min_version, api.max_version + 1))


def chosen(data: bytes) -> tuple[ApiKey, int]:
    """The API and version that the first two bytes choose."""
    return versions()[int.from_bytes(data[:2], "big") % len(versions())]


def request(data: bytes) -> None:
    api, version = chosen(data)
    start = struct.pack(">hhih", api, version, 1, -1)
    tags = b"\0" if api.is_flexible(version) else b""
    header, reader = read_request_header(memoryview(bytearray(start + tags + data[2:])))
    read_request_body(header, reader)


def any_request(data: bytes) -> None:
    header, reader = read_request_header(memoryview(bytearray(data)))
    read_request_body(header, reader)


def answer(data: bytes) -> None:
    api, version = chosen(data)
    read_response(api, version, memoryview(b"\0\0\0\1" + data[2:]))


def with_checksums(data: bytes) -> bytearray:
    """The bytes as batches of format 2 with right checksums, as far as their lengths go."""
    out, at = bytearray(data), 0
    while len(out) - at >= BATCH_HEADER_SIZE:
        size = 12 + int.from_bytes(out[at + 8 : at + 12], "big", signed=True)
        if not BATCH_HEADER_SIZE <= size <= len(out) - at:
            break
        out[at + 16] = 2
        struct.pack_into(">I", out, at + 17, crc32c.crc32c(bytes(out[at + 21 : at + size])))
        at += size
    return out


def batches(data: bytes) -> None:
    buffer = with_checksums(data)
    for position, header in iter_batches(buffer):
        for _ in iter_records(buffer, position, header, decompressed_bytes_max=DECOMPRESSED_BYTES_MAX):
            pass
        for _ in skim_records(buffer, position, header, decompressed_bytes_max=DECOMPRESSED_BYTES_MAX):
            pass


def fetched(data: bytes) -> None:
    """A hostile leader's batches: what a follower takes it still reads after a restart."""
    buffer = with_checksums(data)
    check_follower_order(check_follower_batches(buffer), 0, 0)
    asyncio.run(_append(bytes(buffer)))


async def _append(data: bytes) -> None:
    disk = MemoryDisk()
    config = LogConfig(cleanup_policy=frozenset({"compact"}))
    log = await open_log(disk, config=config)
    await log.append_as_follower(data)
    await log.flush()
    again = await open_log(disk.restart("kept"), config=config)
    assert again.state.log_end_offset == log.state.log_end_offset
    assert again.recovery_report.cut_bytes == 0


def indexes(data: bytes) -> None:
    kind, content = data[:1], data[1:]
    match int.from_bytes(kind, "big") % 3:
        case 0:
            offsets = OffsetIndex.decode(content, 0)
            offsets.check(name="index", first=0, end=len(offsets))
        case 1:
            times = TimeIndex.decode(content, 0)
            times.check(name="index", first=0, end=len(times))
        case _:
            transactions = TransactionIndex.unchecked(content, name="index")
            transactions.check(name="index", first=0, end=len(transactions))


def remote_metadata(data: bytes) -> None:
    decode_event(data)


def ledger_snapshot(data: bytes) -> None:
    """The header, or with an odd first byte the sections, their checksums made right."""
    if not data[:1] or data[0] % 2 == 0:
        SnapshotHeader.decode(data[1 : 1 + HEADER_SIZE])
        return
    loader, at = SnapshotLoader(None), 1
    while at + 2 <= len(data):
        size = int.from_bytes(data[at : at + 2], "big")
        body = data[at + 2 : at + 2 + size]
        if not body or loader.take(body, crc32(body)):
            return
        at += 2 + size


def checkpoints(data: bytes) -> None:
    decoders: tuple[Callable[[bytes], object], ...] = (
        *(decode_leader_epochs, decode_offsets, decode_partition_metadata, decode_meta_properties),
        *(decode_clean_shutdown, decode_snapshot),
    )
    decoders[int.from_bytes(data[:1], "big") % len(decoders)](data[1:])


LOG_FILES: Final = (
    *("00000000000000000000.log", "00000000000000000000.index", "00000000000000000000.timeindex"),
    *(
        "00000000000000000000.txnindex",
        "00000000000000000002.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ),
)


def log_directory(data: bytes) -> None:
    """One file of a log is these bytes; with an odd second byte the log was not closed in order."""
    asyncio.run(_open(data))


async def _open(data: bytes) -> None:
    name = LOG_FILES[int.from_bytes(data[:1], "big") % len(LOG_FILES)]
    content = bytes(with_checksums(data[2:])) if name.endswith(".log") else data[2:]
    disk = MemoryDisk()
    disk.put(DIRECTORY / LOG_FILES[0], bytes(data_batch(2, epoch=0)))
    disk.put(DIRECTORY / name, content)
    log = await open_log(disk, is_clean=not (data[1:2] or b"\0")[0] % 2)
    assert log.state.log_end_offset >= 0


TARGETS: Final[Mapping[str, tuple[Target, tuple[type[Exception], ...]]]] = {
    "request": (request, (MalformedMessageError, UnsupportedVersionError)),
    "any_request": (any_request, (MalformedMessageError, UnsupportedVersionError)),
    "answer": (answer, (MalformedMessageError,)),
    "batches": (batches, (CorruptRecordError,)),
    "fetched": (fetched, (CorruptRecordError, KafkaError)),
    "indexes": (indexes, (CorruptFileError,)),
    "remote_metadata": (remote_metadata, (MetadataRecordError,)),
    "ledger_snapshot": (ledger_snapshot, (SnapshotError,)),
    "checkpoints": (checkpoints, (CorruptFileError,)),
    "log_directory": (log_directory, (CorruptFileError, KafkaError)),
}


def run(name: str, data: bytes) -> None:
    """Give the bytes to a target. What it raises beyond its contract is the finding."""
    target, expected = TARGETS[name]
    with suppress(*expected):
        target(data)
