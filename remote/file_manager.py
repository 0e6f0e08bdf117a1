"""The `RemoteLogMetadataManager` on files of a directory: for programs and brokers of one machine, without a topic.

Each partition has a file of its own, `<topic id>-<partition>.events`: record batches v2, as in a segment of a log, each
with one record whose value is an event as in `__remote_log_metadata`. Every process that follows the partition reads
the same file in the same order; `flock` on it, which a crash releases, puts writers one after another.

    add_segment ... -> check against the own ledger -> lock, append, fsync, unlock -> read back -> ledger, wait_newer
    poll            -> the file has grown -> lock (shared), read on, unlock -> ledger

A write, step by step, and what a failure leaves:

| step                                  | if it fails there                                                            |
|---------------------------------------|------------------------------------------------------------------------------|
| `ledger.check`: refused, or known     | nothing written: IllegalTransitionError, or success                          |
| lock                                  | nothing written: RemoteLogMetadataError after `request.timeout.ms`           |
| append                                | unknown; what is incomplete at the end is cut off by the next writer         |
| fsync                                 | cut off again: not written, unless that fails too                            |
| read back                             | written; if another process's event came first and forbids it, all skip it,  |
|                                       | and the writer gets IllegalTransitionError                                   |

A reader holds the shared lock, and syncs what it has read before it applies it: its writer may have died before its
fsync. A batch that is damaged, with a whole one after it, is
RemoteLogMetadataError: the ledger does not get ready, or stays as it was, the log says so, and nothing is written. A
file grows by about 200 bytes an event and is never cut, as the topic with `retention.ms=-1`. Network file systems do
not serve.

Blocking calls run on threads of the manager's own, at most `THREADS_MAX`; a call that waits for a lock is on one.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import ClassVar, Final, TypeVar

from pydantic import Field

from ..light_dataclass import dataclass
from ..limited_log import LimitedLog
from ..plugin_options import PluginConfig
from ..protocol import CorruptRecordError, TopicIdPartition, uuid_to_text
from ..protocol.net import cancelled
from ..protocol.records import (
    BATCH_HEADER_SIZE,
    Record,
    build_batch,
    check_batch,
    iter_batches,
    iter_records,
    parse_header,
)
from .core.records import MetadataRecordError, decode_event, encode_event
from .core.segment import RemoteLogEvent
from .ledger_book import BookedMetadataManager, partition_of
from .metadata import RemoteLogMetadataError
from .metadata_topic import RemoteLogMetadataContext

T = TypeVar("T")

THREADS_MAX: Final = 4
READ_BYTES: Final = 1 << 20
EVENT_BYTES_MAX: Final = 1 << 20
"""A batch that claims more is damage."""
LOCK_INTERVAL_S: Final = 0.005

_log = logging.getLogger(__name__)
_of_peers = LimitedLog(_log)


class FileMetadataConfig(PluginConfig):
    """`rlmm.config.*` of the `file` plugin."""

    dir: Path = Field(description="Directory of the files; made if absent. Every process must see the same one.")
    poll_ms: int = Field(200, gt=0, description="How often files are looked at for events of other processes.")
    request_timeout_ms: int = Field(30_000, gt=0, description="Deadline of a write, and of a wait for a lock.")


@dataclass(slots=True)
class _Followed:
    """A file that is followed: how far it has been read. `turn` is held by the read that is under way."""

    path: Path
    position: int = 0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True, slots=True)
class _Read:
    events: list[bytes]
    position: int


class FileRemoteLogMetadataManager(BookedMetadataManager):
    """Remote log metadata in files of a directory, which all processes of one machine share."""

    Config: ClassVar = FileMetadataConfig

    def __init__(self, config: FileMetadataConfig, context: RemoteLogMetadataContext | None = None) -> None:
        """Make a manager. Nothing of a `context` is needed."""
        super().__init__()
        self._config = config
        self._directory = config.dir.absolute()
        self._followed: dict[TopicIdPartition, _Followed] = {}
        self._woken = asyncio.Event()
        self._polling: asyncio.Task[None] | None = None
        self._threads = ThreadPoolExecutor(THREADS_MAX, "tierfetch-metadata")
        self._is_closed = False

    async def start(self) -> None:
        """Make the directory, and begin to look at its files. RemoteLogMetadataError."""
        await self._call(self._make_directory)
        self._polling = asyncio.create_task(self._poll(), name="remote-log-metadata-files")

    def _make_directory(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        _sync_directory(self._directory.parent)

    async def close(self) -> None:
        """Stop following. A write that is under way may still be written; one that waits for its turn fails."""
        self._is_closed = True
        if self._polling is not None:
            await cancelled(self._polling)
        self._followed.clear()
        self._book.close()
        self._threads.shutdown(wait=False)  # what waits for a thread finds it closed; cancelled, its callers would be

    async def assign(self, partitions: Collection[TopicIdPartition]) -> None:
        for partition in sorted(set(partitions)):
            if partition not in self._book:
                self._book.add(partition)
                name = f"{uuid_to_text(partition.topic_id)}-{partition.partition}.events"
                self._followed[partition] = _Followed(self._directory / name)
        self._woken.set()

    async def unassign(self, partitions: Collection[TopicIdPartition]) -> None:
        for partition in sorted(set(partitions)):
            self._followed.pop(partition, None)
            self._book.remove(partition)

    async def _write(self, event: RemoteLogEvent, *, also_if_known: bool = False) -> None:
        partition, timeout_s = partition_of(event), self._config.request_timeout_ms / 1000

        async def append(_: asyncio.Future[None]) -> None:
            followed = self._followed[partition]
            value = encode_event(event)
            await self._call(lambda: _append(followed.path, followed.position, value, timeout_s))
            await self._read_on(partition, followed)

        try:
            async with asyncio.timeout(timeout_s):
                await self._book.write(event, append, also_if_known=also_if_known)
        except TimeoutError as error:
            raise RemoteLogMetadataError(f"{partition}: no write within {timeout_s:g} s") from error

    async def _poll(self) -> None:
        """Read on what has grown, every `poll_ms`, and at once what was assigned."""
        failing: set[TopicIdPartition] = set()
        while True:
            self._woken.clear()
            for partition, followed in list(self._followed.items()):
                try:
                    await self._read_on(partition, followed)
                    failing.discard(partition)
                except RemoteLogMetadataError as error:
                    level = logging.DEBUG if partition in failing else logging.WARNING
                    _log.log(level, "%s: cannot read its remote log metadata, trying again: %s", partition, error)
                    failing.add(partition)
            failing &= self._followed.keys()
            try:
                async with asyncio.timeout(self._config.poll_ms / 1000):
                    await self._woken.wait()
            except TimeoutError:
                continue

    async def _read_on(self, partition: TopicIdPartition, followed: _Followed) -> None:
        """Apply what is in the file beyond what was read. RemoteLogMetadataError."""
        timeout_s = self._config.request_timeout_ms / 1000
        async with followed.turn:
            while self._followed.get(partition) is followed:
                read = await self._call(lambda: _read(followed.path, followed.position, timeout_s))
                if self._followed.get(partition) is not followed:
                    return
                for value in read.events:
                    self._apply(partition, followed, value)
                followed.position = read.position
                if not read.events:
                    if self._book.ledger(partition) is None:
                        self._book.mark_ready(partition)
                    return

    def _apply(self, partition: TopicIdPartition, followed: _Followed, value: bytes) -> None:
        try:
            event = decode_event(value)
        except MetadataRecordError as error:
            _of_peers.warning(str(followed.path), "%s: skipped a record that is no event: %s", followed.path, error)
            return
        if partition_of(event) == partition:
            self._book.apply(event)

    async def _call(self, call: Callable[[], T]) -> T:
        """Run a blocking call on a thread. RemoteLogMetadataError for what goes wrong on the disk."""

        def unless_closed() -> T:
            if self._is_closed:
                raise OSError("closed")
            return call()

        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, unless_closed)
        except (OSError, CorruptRecordError) as error:
            raise RemoteLogMetadataError(f"{self._directory}: {error}") from error
        except RuntimeError as error:  # the threads were shut down by `close`
            raise RemoteLogMetadataError(f"{self._directory}: {error}") from error


@contextmanager
def _locked(path: Path, flags: int, lock: int, timeout_s: float) -> Iterator[int]:
    """Open a file and hold a lock on it. OSError, TimeoutError among them; FileNotFoundError without O_CREAT."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)
    try:
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                fcntl.flock(descriptor, lock | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline_s:
                    raise OSError(f"{path} is locked by another process for {timeout_s:g} s") from None
                time.sleep(LOCK_INTERVAL_S)
        yield descriptor
    finally:
        os.close(descriptor)


def _append(path: Path, position: int, value: bytes, timeout_s: float) -> None:
    """Append an event after the last whole batch. What is before `position` has been read. OSError."""
    with _locked(path, os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX, timeout_s) as descriptor:
        while (read := _whole(descriptor, path, position)).events:
            position = read.position
        if os.fstat(descriptor).st_size < position:
            raise OSError(f"{path} is shorter than the {position} bytes that were read of it: restore it")
        os.ftruncate(descriptor, position)
        timestamp_ms = time.time_ns() // 1_000_000
        batch = build_batch([Record(position, timestamp_ms, None, value)], base_offset=position)
        written = os.pwrite(descriptor, batch, position)
        if written != len(batch):
            raise OSError(f"{path}: {written} of {len(batch)} bytes were written")
        try:
            _sync(descriptor, path, position)
        except OSError:
            os.ftruncate(descriptor, position)  # a later fsync would succeed, and say nothing of what this one lost
            raise


def _sync(descriptor: int, path: Path, position: int) -> None:
    """Make what is in the file from `position` on durable; its name, too, with its first event."""
    os.fsync(descriptor)
    if position == 0:
        _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(path: Path, position: int, timeout_s: float) -> _Read:
    """Return some events from `position` on; none at the end, or without a file. OSError, CorruptRecordError."""
    try:
        if os.stat(path).st_size <= position:
            return _Read([], position)
        with _locked(path, os.O_RDONLY, fcntl.LOCK_SH, timeout_s) as descriptor:
            read = _whole(descriptor, path, position)
            if read.events:  # their writer may have died before its fsync
                _sync(descriptor, path, position)
            return read
    except FileNotFoundError:
        return _Read([], position)


def _whole(descriptor: int, path: Path, position: int) -> _Read:
    """Return the events of whole batches from `position` on, up to about READ_BYTES; none at the end of the file, with
    or without what a crash left of a write there. CorruptRecordError for damage before that.
    """
    data = os.pread(descriptor, READ_BYTES + EVENT_BYTES_MAX, position)
    events: list[bytes] = []
    read, reason = 0, "a batch is not whole"
    try:
        for at, header in iter_batches(data):
            check_batch(data, at, header)
            events += [record.value or b"" for record in iter_records(data, at, header)]
            read = at + header.size_bytes
    except CorruptRecordError as error:
        reason = error.reason
    if data and not events and (len(data) > EVENT_BYTES_MAX or _has_batch(data, position)):
        raise CorruptRecordError(f"{path} is damaged: {reason}", position)
    return _Read(events, position + read)


def _has_batch(tail: bytes, position: int) -> bool:
    """Return whether a whole batch begins within `tail`, which is at `position` of the file: then what comes before it
    was whole once. A batch is found by its base offset, which is where it begins.
    """
    for at in range(1, len(tail) - BATCH_HEADER_SIZE):
        if int.from_bytes(tail[at : at + 8], "big") == position + at:
            try:
                check_batch(tail, at, parse_header(tail, at))
            except CorruptRecordError:
                continue
            return True
    return False
