"""One Kafka log for a program of one's own, without a broker: open, append, read, verify.

It is a log directory with one log, kept by the same `LogManager` as a broker's:

    open_log -> owner checked -> locked -> recovered -> [ append -> flushed -> readable ]* -> closed cleanly

* What `append` has returned is flushed to the device, unless the caller chose `fsync=False`; readers see nothing else.
* Nothing is deleted by itself: there is no retention by time or size, only `delete_before`. `tierfetch.rlm.tier_log`
  tiers a log, and applies its retention.
* A directory of a broker, or with foreign files, is refused before anything in it is touched; `verify_log` reads it.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import SystemRandom
from typing import Final
from uuid import UUID

from ..light_dataclass import dataclass
from ..protocol import CorruptRecordError, OperatorError, TopicPartition
from ..protocol.records import Record, build_batch, check_batch, iter_batches, iter_records
from .core.checkpoints import META_PROPERTIES, decode_meta_properties
from .core.config import LogConfig
from .core.file_names import LOG_SUFFIX, parse_offset_file
from .disk.directory_lock import LOCK_FILE
from .disk.os_disk import OsDisk
from .disk.port import Disk
from .keeper.log_directory import LogServices
from .keeper.manager import LogManager
from .partition_log import PartitionLog
from .segment.batch_scan import BatchScan
from .segment.scan import CorruptLogError

OWNER: Final = "tierfetch-embedded-log"
"""The cluster id in `meta.properties`: every broker refuses the directory, as `open_log` refuses a broker's."""
PARTITION: Final = TopicPartition("log", 0)
LEADER_EPOCH: Final = 0
READ_BYTES: Final = 1024 * 1024


class EmbeddedLog:
    """An open log; `open_log` makes it. Any number of tasks of one event loop may append and read at the same time."""

    def __init__(self, log: PartitionLog, fsync: bool, now_ms: Callable[[], int]) -> None:
        self._log = log
        self._fsync = fsync
        self._now_ms = now_ms

    @property
    def start_offset(self) -> int:
        """The offset of the first record that may be read."""
        return self._log.state.log_start_offset

    @property
    def end_offset(self) -> int:
        """The offset after the last record that may be read."""
        return self._log.state.high_watermark

    async def append(self, value: bytes | None, *more: bytes | None, key: bytes | None = None) -> int:
        """Append one batch with a record for each value; return the offset of the first.

        They are durable when this returns; the records of one call are kept or lost together. After a cancellation,
        or an OSError, they may be in the log or not. MESSAGE_TOO_LARGE above `max.message.bytes` (1,048,588 bytes
        unless configured). OSError from the disk; KAFKA_STORAGE_ERROR (KafkaError) ever after: open the log again.

            offset = await log.append(b"one", b"two", key=b"k")
        """
        now_ms = self._now_ms()
        records = [Record(offset, now_ms, key, each) for offset, each in enumerate((value, *more))]
        batch = bytearray(build_batch(records, base_offset=0))
        appended = await self._log.append_as_leader(batch, leader_epoch=LEADER_EPOCH, now_ms=now_ms)
        if self._fsync:
            await self._log.flush()
        self._log.update_high_watermark(appended.last_offset + 1)
        return appended.first_offset

    async def read(self, offset: int | None = None) -> AsyncIterator[Record]:
        """Yield the records from `offset` on, or from the first, to what is the end when the reading begins.

        OFFSET_OUT_OF_RANGE (KafkaError) outside `[start_offset, end_offset]`, also if `delete_before` overtakes the
        reader. CorruptRecordError if the bytes have changed on the disk. OSError from the disk.

            async for record in log.read():
                print(record.offset, record.value)
        """
        position = self.start_offset if offset is None else offset
        async for record in records_from(self._log, position, self.end_offset):
            yield record

    async def delete_before(self, offset: int) -> None:
        """Delete the records below `offset`: they cannot be read any longer, and whole segments of them free their
        disk space. OFFSET_OUT_OF_RANGE (KafkaError) above `end_offset`. OSError from the disk.

            await log.delete_before(log.end_offset)
        """
        await self._log.increment_log_start_offset(offset)
        await self._log.delete_old_segments_by_log_start()


async def records_from(log: PartitionLog, offset: int, end_offset: int) -> AsyncIterator[Record]:
    """Yield the records of the local log in [offset, end_offset). Errors as of `EmbeddedLog.read`."""
    position = offset
    while True:
        with await log.read(position, max_bytes=READ_BYTES, max_offset=end_offset) as piece:
            data = await piece.read() if piece.size else b""
        if not data:
            return
        begin = position
        for at, header in iter_batches(data):
            check_batch(data, at, header)
            for record in iter_records(data, at, header):
                if record.offset >= position:
                    yield record
            position = header.next_offset
        if position == begin:
            raise CorruptRecordError(f"no complete batch at offset {position}")


def partition_log_of(log: EmbeddedLog) -> PartitionLog:
    """Return the log inside, for what is built on it: `tierfetch.rlm`, `tierfetch.fetcher`."""
    return log._log


@asynccontextmanager
async def open_log(
    directory: str | os.PathLike[str], *, create: bool = True, fsync: bool = True, config: LogConfig | None = None
) -> AsyncIterator[EmbeddedLog]:
    """Open the log in a directory of its own, and close it at the block's end, also when that is cancelled (Ctrl-C).

    With `create` an absent or empty directory becomes a log; its parent must exist. `fsync=False` leaves flushing to
    the kernel: a crash of the process then loses nothing, one of the machine may. `config` has Kafka's topic
    configuration; retention is not applied.

    Raise OperatorError for a path that is no such log (a broker's, foreign files, absent), and its subclass
    LogDirectoryLockedError if it is open already. Raise KAFKA_STORAGE_ERROR (KafkaError) for damage that no crash
    explains, OSError from the disk.

        async with tierfetch.log.open_log("events") as log:
            await log.append(b"one")
    """
    path = Path(directory).absolute()
    disk = OsDisk()
    try:
        await check_owner(disk, path, OWNER, "open_log", create=create)
        services = LogServices(disk=disk, rng=SystemRandom(), now_ms=_now_ms, config_of=lambda _: config or LogConfig())
        async with open_log_with(services, path, fsync=fsync) as log:
            yield log
    finally:
        await disk.close()


@asynccontextmanager
async def open_log_with(services: LogServices, directory: Path, *, fsync: bool = True) -> AsyncIterator[EmbeddedLog]:
    """As `open_log`, on the disk, by the chance and the clock of `services`; whose the directory is was checked."""
    manager = LogManager([directory], services, cluster_id=OWNER, node_id=0)
    try:
        await manager.identify()
        await manager.load()
        topic_id = UUID(int=services.rng.getrandbits(128), version=4)
        log = manager.get(PARTITION) or await manager.create(PARTITION, topic_id)
        # What a killed process had written counts from now on, so it must not be lost afterwards.
        await log.flush()
        log.update_high_watermark(log.state.log_end_offset)
        yield EmbeddedLog(log, fsync, services.now_ms)
    finally:
        await manager.close()


async def check_owner(disk: Disk, path: Path, cluster_id: str, call: str, *, create: bool = True) -> None:
    """Raise OperatorError unless `path` is a log directory of this owner, or may become one. Nothing is written.

    `call` is what the owner is made by; `cluster_id` is what it has written to `meta.properties`.
    """
    if not path.is_dir():
        if path.exists():
            raise OperatorError(f"{path} is a file: expected the directory of a log")
        if not create:
            raise OperatorError(f"{path} does not exist: correct the path, or open it with create=True")
        if not path.parent.is_dir():
            raise OperatorError(f"{path.parent} does not exist: correct the path, or make this directory")
        return
    entries = await disk.list_directory(path)
    names = {entry.name for entry in entries}
    if META_PROPERTIES in names:
        owner = decode_meta_properties(await disk.read_file(path / META_PROPERTIES), name=str(path / META_PROPERTIES))
        if owner.cluster_id != cluster_id:
            raise OperatorError(
                f"{path} is a log directory of node {owner.node_id} in cluster {owner.cluster_id}: {call} needs a "
                "directory of its own; verify_log reads a broker's partition"
            )
        return
    # A first opening that was interrupted leaves these two.
    foreign = sorted(names - {LOCK_FILE, f"{META_PROPERTIES}.tmp"})
    if foreign:
        raise OperatorError(
            f"{path} holds {foreign[0]!r} and is no log that {call} made: name an absent or empty directory; "
            "verify_log reads a broker's partition"
        )
    if not create:
        raise OperatorError(f"{path} is empty: correct the path, or open it with create=True")


@dataclass(frozen=True, slots=True)
class LogSummary:
    """The contents of a log that `verify_log` has read: all its batches are whole, and their checksums hold."""

    segments: int
    batches: int
    records: int
    """The number of records that the batches declare, control records included."""
    size_bytes: int
    start_offset: int
    """The base offset of the first segment."""
    end_offset: int
    """The offset after the last record."""


async def verify_log(directory: str | os.PathLike[str]) -> LogSummary:
    """Read every batch in the directory of one partition, Apache Kafka's too, and check its CRC-32C and that offsets
    rise. Nothing is written or locked. Below a directory of `open_log`'s the partition is `log-0`.

    Raise OperatorError if there is no log, CorruptLogError (a KafkaError) at the first damage, with `path` and
    `position` in bytes; OSError from the disk. Stop a broker first: a batch that it is writing looks incomplete.

        summary = await tierfetch.log.verify_log("/var/lib/kafka/orders-0")
    """
    path = Path(directory).absolute()
    if not path.is_dir():
        raise OperatorError(f"{path} is no directory: expected that of a partition, such as orders-0")
    disk = OsDisk()
    try:
        return await verify_log_on(disk, path)
    finally:
        await disk.close()


async def verify_log_on(disk: Disk, path: Path) -> LogSummary:
    """As `verify_log`, of a directory of this disk."""
    parsed = [parse_offset_file(entry.name) for entry in await disk.list_directory(path)]
    bases = sorted(found[0] for found in parsed if found is not None and found[1] == LOG_SUFFIX)
    if not bases:
        raise OperatorError(f"{path} holds no segment (*.log): expected the directory of a partition")
    summary = LogSummary(0, 0, 0, 0, bases[0], bases[0])
    for base_offset in bases:
        summary = await _verify_segment(disk, path / f"{base_offset:020d}{LOG_SUFFIX}", base_offset, summary)
    return summary


async def _verify_segment(disk: Disk, path: Path, base_offset: int, before: LogSummary) -> LogSummary:
    """Return the summary with one more segment. Raise CorruptLogError if it is damaged or begins too early."""
    if base_offset < before.end_offset:
        raise CorruptLogError(
            f"{path}: begins at offset {base_offset}, expected at least {before.end_offset}", path=path, position=0
        )
    file = await disk.open(path)
    try:
        size = await file.size()
        scan = BatchScan(file, 0, size, check_crc=True)
        batches, records, end_offset = before.batches, before.records, base_offset
        async for chunk in scan:
            for position, header in chunk.batches:
                if header.base_offset < end_offset:
                    reason = f"batch at offset {header.base_offset}, expected at least {end_offset}"
                    raise CorruptLogError(f"{path}: byte {position}: {reason}", path=path, position=position)
                batches, records, end_offset = batches + 1, records + header.record_count, header.next_offset
        if scan.position < size:
            reason = f"{size - scan.position} bytes that are not a complete batch"
            raise CorruptLogError(f"{path}: byte {scan.position}: {reason}", path=path, position=scan.position)
    except CorruptRecordError as error:
        raise CorruptLogError(
            f"{path}: byte {error.position}: {error.reason}", path=path, position=error.position
        ) from error
    finally:
        await file.close()
    return LogSummary(before.segments + 1, batches, records, before.size_bytes + size, before.start_offset, end_offset)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
