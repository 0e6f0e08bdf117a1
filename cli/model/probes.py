"""What this machine does for one process: loopback, disk, checksums, a tier. Each probe moves real bytes.

    probe       moves                                            figure
    ----------  -----------------------------------------------  ----------------------------------------------------
    loopback    a buffer through one TCP connection, again and   bytes per second, of sending and receiving together
                again
    write       a new file, with one fsync at its end            bytes per second, the fsync included
    read        the same file, once the page cache dropped it    bytes per second
    fsync       a small append and its fsync, again and again    median seconds
    CRC-32C     a buffer, again and again                        bytes per second
    tier put    one segment with its indexes                     bytes per second
    tier get    the segment as a whole, then an index            bytes per second; median seconds of a small request

Figures are medians of `REPEATS`. A virtual machine's disk often answers from its host's memory: then reads look faster
than the device is.
"""

from __future__ import annotations

import os
import socket
import statistics
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final

from crc32c import crc32c

from ...light_dataclass import dataclass
from ...log.core import EpochEntry
from ...protocol import TopicIdPartition
from ...remote import IndexType, LogSegmentData, RemoteStorageManager, SegmentSource
from ...remote.core import RemoteLogSegmentId, RemoteLogSegmentMetadata

REPEATS: Final = 3
BUFFER_BYTES: Final = 1 << 20
FSYNCS: Final = 20
SMALL_REQUESTS: Final = 20
SMALL_BYTES: Final = 4 << 10


def median_rate(size_bytes: int, move: Callable[[], object]) -> float:
    """Bytes per second of a call that moves this many."""
    return size_bytes / statistics.median(_seconds(move) for _ in range(REPEATS))


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def loopback_bytes_per_s(size_bytes: int) -> float:
    return median_rate(size_bytes, lambda: _through_loopback(size_bytes))


def _through_loopback(size_bytes: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = threading.Thread(target=_send, args=(listener.getsockname(), size_bytes), name="loopback")
        sender.start()
        connection, _ = listener.accept()
        buffer, left = bytearray(BUFFER_BYTES), size_bytes
        with connection:
            while left > 0:
                received = connection.recv_into(buffer)
                assert received > 0, f"{left} of {size_bytes} bytes did not come"
                left -= received
        sender.join()


def _send(address: tuple[str, int], size_bytes: int) -> None:
    buffer, left = memoryview(bytes(BUFFER_BYTES)), size_bytes
    with socket.create_connection(address) as connection:
        while left > 0:
            left -= connection.send(buffer[:left])


@dataclass(frozen=True, slots=True)
class DiskFigures:
    write_bytes_per_s: float
    read_bytes_per_s: float
    fsync_s: float


def disk(directory: Path, size_bytes: int) -> DiskFigures:
    """Measure the file system below `directory`, and leave nothing there. OSError."""
    path = directory / f"tierfetch-probe-{uuid.uuid4().hex}"
    try:
        write = median_rate(size_bytes, lambda: _write(path, size_bytes))
        reads = []
        for _ in range(REPEATS):
            _forget(path)
            reads.append(_seconds(lambda: _read(path)))
        return DiskFigures(write, size_bytes / statistics.median(reads), _fsync_s(path))
    finally:
        path.unlink(missing_ok=True)


def _write(path: Path, size_bytes: int) -> None:
    buffer, left = memoryview(os.urandom(BUFFER_BYTES)), size_bytes
    with path.open("wb", buffering=0) as file:
        while left > 0:
            left -= file.write(buffer[:left])
        os.fsync(file.fileno())


def _forget(path: Path) -> None:
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _read(path: Path) -> None:
    buffer = bytearray(BUFFER_BYTES)
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def _fsync_s(path: Path) -> float:
    found = []
    with path.open("ab", buffering=0) as file:
        for _ in range(FSYNCS):
            file.write(bytes(SMALL_BYTES))
            found.append(_seconds(lambda: os.fsync(file.fileno())))
    return statistics.median(found)


def crc_bytes_per_s(size_bytes: int) -> float:
    buffer = os.urandom(BUFFER_BYTES)

    def check() -> None:
        for _ in range(max(1, size_bytes // BUFFER_BYTES)):
            crc32c(buffer)

    return median_rate(max(BUFFER_BYTES, size_bytes // BUFFER_BYTES * BUFFER_BYTES), check)


# --- the tier -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TierFigures:
    put_bytes_per_s: float
    get_bytes_per_s: float
    request_s: float


@dataclass(frozen=True, slots=True)
class _Buffer:
    """A `SegmentSource`."""

    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def path(self) -> Path | None:
        return None

    async def read(self, offset: int, count: int) -> bytes:
        return self.data[offset : offset + count]


async def tier(storage: RemoteStorageManager, segment_bytes: int) -> TierFigures:
    """Puts, gets and deletes a few segments of a topic that no cluster has. RemoteStorageError."""
    log = os.urandom(segment_bytes)
    partition = TopicIdPartition(uuid.uuid4(), "tierfetch-probe", 0)
    indexes: dict[IndexType, SegmentSource] = {
        kind: _Buffer(bytes(SMALL_BYTES)) for kind in IndexType if kind is not IndexType.TRANSACTION
    }
    puts, gets, requests = [], [], []
    for number in range(REPEATS):
        segment = _segment(partition, number, segment_bytes)
        try:
            began = time.perf_counter()
            await storage.copy_log_segment_data(segment, LogSegmentData(_Buffer(log), indexes))
            puts.append(time.perf_counter() - began)
            began = time.perf_counter()
            await storage.fetch_log_segment(segment, 0, segment_bytes)
            gets.append(time.perf_counter() - began)
            for _ in range(SMALL_REQUESTS // REPEATS):
                began = time.perf_counter()
                await storage.fetch_index(segment, IndexType.PRODUCER_SNAPSHOT)
                requests.append(time.perf_counter() - began)
        finally:
            await storage.delete_log_segment_data(segment)
    return TierFigures(
        segment_bytes / statistics.median(puts), segment_bytes / statistics.median(gets), statistics.median(requests)
    )


def _segment(partition: TopicIdPartition, number: int, size_bytes: int) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(partition, uuid.uuid4()),
        start_offset=number * 100,
        end_offset=number * 100 + 99,
        max_timestamp_ms=0,
        broker_id=0,
        event_timestamp_ms=0,
        segment_size_in_bytes=size_bytes,
        segment_leader_epochs=(EpochEntry(0, 0),),
    )
