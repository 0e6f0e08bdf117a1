"""The `Disk` of one simulated process: `SimFilesystem` behind latencies, queues and faults.

| call                    | takes effect                                                                    |
|-------------------------|---------------------------------------------------------------------------------|
| write, truncate         | after the file's earlier changes and a delay; not after a sync                  |
| read, size, send        | after the earlier changes that it overlaps; then mostly at once: the page cache |
| sync                    | covers what has taken effect when it starts; those that wait share the next one |
| calls that name a path  | after the earlier ones that name it, and a delay                                |

So calls on different files overtake each other at random. A call takes effect though its caller be cancelled, or its
process paused. A crash of the process cuts off its queues: what has not taken effect never does, except by chance the
calls next in line, which the kernel may have had already.

Faults (`DiskFaults`) are set from outside while it runs. A failed write leaves a part of its data, and what was queued
behind it fails undone. A failed sync is told to each handle that the file was open by, as Linux does: to the one whose
call it was at once, to the others by their own next sync; until then they take writes. A handle that has failed refuses
all changes, as `OsDisk` does; reopened the file can be synced again, which does not bring back what was given up
(`filesystem`).

With a `device` written bytes pass it one after the other at its rate, those of all files together; without one only
calls take time, however many bytes they write.

A fault may be that of one directory of several: each that the node has `separate`d stands for a device of its own. A
call on one that hangs ends after the limit that the node gave; then all calls on it fail, for this process, as with
`OsDisk`.
"""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from dataclasses import field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, TypeVar

from ...light_dataclass import dataclass
from ...log.core import LOG_SUFFIX, parse_directory
from ...log.disk import Buffer, DirectoryEntry, DiskSpace, check_size, send_copy, write_directory_stepwise
from ...protocol import CLUSTER_METADATA_TOPIC
from .chance import exponential
from .filesystem import Inode, SimFilesystem, os_error
from .pipe import Pipe

T = TypeVar("T")

WRITE_S: Final = 0.000_03
SYNC_S: Final = 0.001
NAME_S: Final = 0.000_05
READ_S: Final = 0.000_5
COLD_SHARE: Final = 1 / 50
"""The share of reads that miss the page cache, or that a thread must look up."""
ON_LOOP_BYTES_MAX: Final = 64 * 1024
AT_ONCE_BYTES_MAX: Final = 4096
"""Less than what a real file reads at once: the small logs of a simulation are sent as slices too."""

_EVERYTHING: Final = 2**63 - 1
READS: Final = frozenset({"read", "reopen", "size", "send", "read_file", "list_directory", "exists", "space"})
OPENING: Final = frozenset({"open", "reopen", "read_file", "write_file", "list_directory", "sync_directory"})
"""Calls that need a descriptor of their own."""


@dataclass(slots=True)
class DiskFaults:
    """The faults of one machine's disk. `slow_factor` multiplies every delay. Syncs that start before `stalled_until_s`
    end after it; before `hung_until_s` nothing ends that is not read from the page cache at once. Calls that change
    something fail with `error_share`, but syncs of open files with `sync_error_share`; `fail_calls` are numbers of such
    calls, from now on, that fail too (1 is the next). Syncs of partitions' logs fail also with `lost_page_share`: what
    they were to write has left the page cache by the time at which the file is opened again. What opens a file or a
    directory fails with `open_files_share`, without a descriptor left.
    """

    slow_factor: float = 1.0
    stalled_until_s: float = 0.0
    hung_until_s: float = 0.0
    error_share: float = 0.0
    sync_error_share: float = 0.0
    lost_page_share: float = 0.0
    open_files_share: float = 0.0
    error_number: int = errno.EIO
    fail_calls: set[int] = field(default_factory=set)
    failing: frozenset[Path] = frozenset()
    """The outermost directories of which every call fails that the page cache does not answer."""
    hung_directories_until_s: dict[Path, float] = field(default_factory=dict)
    """What `hung_until_s` is for all, for the paths in one outermost directory."""
    failed_at_s: dict[Path, float] = field(default_factory=dict)
    """When a call failed so last, by the outermost directory of its path: also one of a process of the past."""
    on_pages_given_up: Callable[[], None] = lambda: None
    """A sync has failed, and its pages are going to be lost."""
    on_pages_lost: Callable[[], None] = lambda: None
    """They are."""

    def heal(self) -> None:
        self.slow_factor, self.stalled_until_s, self.hung_until_s = 1.0, 0.0, 0.0
        self.error_share = self.sync_error_share = self.lost_page_share = self.open_files_share = 0.0
        self.fail_calls.clear()
        self.failing = frozenset()
        self.hung_directories_until_s.clear()


class SimDisk:
    """One process's view of its machine's files. `faults` and `counters` are the machine's; `kernel` is the context in
    which calls take effect.
    """

    def __init__(
        self, files: SimFilesystem, faults: DiskFaults, rng: Random, counters: Counter[str], kernel: Context
    ) -> None:
        self.files = files
        self.faults = faults
        self.rng = rng
        self.device: Pipe | None = None
        self.queue_depth = 0
        self.operations = 0
        """Calls so far."""
        self.errors = 0
        """Calls that failed by a fault, or because there was no space."""
        self.queues: dict[Inode, FileQueue] = {}
        """The queues of the files that are open."""
        self._counters = counters
        self._kernel = kernel
        self._free_at_s: dict[Path, float] = {}
        """When the last call that names a path takes effect."""
        self._pending: dict[int, Callable[[], object]] = {}
        """What has not taken effect, in the order of the calls."""
        self._is_dead = False
        self._hang_s: dict[Path, float] = {}
        """The longest time for which a call may take, by directory."""
        self._waiting: dict[Path, dict[asyncio.Future[Any], None]] = {}
        """The calls on a directory that hangs."""
        self._condemned: set[Path] = set()

    def crash(self) -> None:
        """The process died: a few of the calls next in line may still happen, the others never do."""
        pending = list(self._pending.values())
        self._pending.clear()
        self._is_dead = True
        for effect in pending[: self.rng.randrange(len(pending) + 1)]:
            with suppress(OSError):
                effect()

    # The port.

    def separate(self, directory: Path, *, hang_s: float | None) -> None:
        """Calls on different files are independent of each other here. Hangs of a whole disk end before `hang_s`."""
        if hang_s is not None:
            self._hang_s[_outermost(directory)] = hang_s

    def has_hung(self, directory: Path) -> bool:
        return _outermost(directory) in self._condemned

    async def open(self, path: Path, *, create: bool = False) -> SimFile:
        is_new = create and self.files.find(path) is None
        call = "open" if is_new else "reopen"
        inode = await self._named(call, lambda: self._open(path, create=create), path)
        return SimFile(self, path, inode)

    def _open(self, path: Path, *, create: bool) -> Inode:
        inode = self.files.open(path, create=create)
        if inode.is_forgetful:
            inode.evict()
            self.faults.on_pages_lost()
        return inode

    async def read_file(self, path: Path, *, size_max: int | None = None) -> bytes:
        data = await self._named("read_file", lambda: self.files.inode(path).read(), path)
        check_size(path, len(data), size_max)
        return data

    async def write_file(self, path: Path, data: Buffer, *, sync: bool = True, sync_name: bool = True) -> None:
        content = bytes(data)
        delay_s = (1 + sync_name) * self.sync_delay_s() if sync else 0.0

        def replace() -> None:
            self.files.replace(path, content, sync=sync, sync_name=sync_name)

        await self._named("write_file", replace, path, delay_s=delay_s)

    async def write_directory(self, path: Path, files: Mapping[str, Buffer]) -> None:
        await write_directory_stepwise(self, path, files)

    async def list_directory(self, path: Path) -> Sequence[DirectoryEntry]:
        return await self._named("list_directory", lambda: self.files.entries(path), path)

    async def exists(self, path: Path) -> bool:
        return await self._named("exists", lambda: self.files.find(path) is not None, path)

    async def make_directory(self, path: Path) -> None:
        await self._named("make_directory", lambda: self.files.make_directory(path), path)

    async def rename(self, source: Path, target: Path) -> None:
        await self._named("rename", lambda: self.files.rename(source, target), source, target)

    async def remove(self, path: Path) -> None:
        await self._named("remove", lambda: self.files.remove(path), path)

    async def remove_tree(self, path: Path) -> None:
        await self._named("remove_tree", lambda: self.files.remove(path, tree=True), path)

    async def sync_directory(self, path: Path) -> None:
        await self._named("sync_directory", lambda: self.files.sync_names(path), path, delay_s=self.sync_delay_s())

    async def filesystem_sync(self, path: Path) -> None:
        """Each file is synced by itself."""

    async def space(self, path: Path) -> DiskSpace:
        return await self._named("space", lambda: self.files.space(path), path)

    async def close(self) -> None:
        """There is nothing to end."""

    # For its files.

    def delay_s(self, mean_s: float) -> float:
        return exponential(self.rng, mean_s) * self.faults.slow_factor

    def sync_delay_s(self) -> float:
        stalled_s = self.faults.stalled_until_s - asyncio.get_running_loop().time()
        return max(0.0, stalled_s) + self.delay_s(SYNC_S)

    def take_fault(self, call: str, path: Path) -> OSError | None:
        """The error that this call shall fail with."""
        faults = self.faults
        if (faults.failing or self._condemned) and (error := self._directory_error(call, path)) is not None:
            return error
        if faults.open_files_share and call in OPENING and self.rng.random() < faults.open_files_share:
            self._note_failure(call, path)
            return os_error(errno.EMFILE, path, f" (injected into {call})")
        share = self._sync_error_share(path) if call == "sync" else faults.error_share
        if not (share or faults.fail_calls) or call in READS:
            return None
        is_hit = 1 in faults.fail_calls
        faults.fail_calls = {number - 1 for number in faults.fail_calls if number > 1}
        if not is_hit and self.rng.random() >= share:
            return None
        self._note_failure(call, path)
        return os_error(faults.error_number, path, f" (injected into {call})")

    def _directory_error(self, call: str, path: Path) -> OSError | None:
        """The error of a directory that is ill as a whole; None if this one is not."""
        directory = _outermost(path)
        if directory in self._condemned:
            number = errno.ETIMEDOUT
        elif directory in self.faults.failing:
            number = errno.EIO
        else:
            return None
        self._note_failure(call, path)
        return os_error(number, path, f" (its directory is ill, {call})")

    def _note_failure(self, call: str, path: Path) -> None:
        self.errors += 1
        self.faults.failed_at_s[_outermost(path)] = asyncio.get_running_loop().time()
        self._counters[f"disk {call} failed"] += 1

    def _sync_error_share(self, path: Path) -> float:
        faults = self.faults
        if not faults.lost_page_share or not is_partition_log(path):
            return faults.sync_error_share
        return max(faults.sync_error_share, faults.lost_page_share)

    def schedule(
        self, at_s: float, effect: Callable[[], T], path: Path, *, is_change: bool = False
    ) -> asyncio.Future[T]:
        """Let the call take effect then; the future has its outcome. Nothing happens on behalf of a dead process."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        if self._is_dead:
            return future
        self.operations += 1
        self.queue_depth += 1
        number = self.operations
        if is_change:
            self._pending[number] = effect
        if at_s < self.faults.hung_until_s:
            at_s = self.faults.hung_until_s
        if self.faults.hung_directories_until_s:
            at_s = max(at_s, self._hangs_until(path, future))
        loop.call_at(at_s, self._take_effect, number, effect, future, context=self._kernel)
        return future

    def _take_effect(self, number: int, effect: Callable[[], Any], future: asyncio.Future[Any]) -> None:
        if self._is_dead:
            return
        self._pending.pop(number, None)
        self.queue_depth -= 1
        try:
            result = effect()
        except OSError as error:
            self.errors += error.errno == errno.ENOSPC
            if not future.done():
                future.set_exception(error)
        else:
            if not future.done():
                future.set_result(result)

    def _hangs_until(self, path: Path, future: asyncio.Future[Any]) -> float:
        """When a call on the path takes effect if its directory hangs. Its caller waits for as long as a call may take;
        what becomes of the call then is of no consequence to it.
        """
        directory, loop = _outermost(path), asyncio.get_running_loop()
        until_s, limit_s = self.faults.hung_directories_until_s.get(directory, 0.0), self._hang_s.get(directory)
        if limit_s is not None and until_s - loop.time() > limit_s:
            self._waiting.setdefault(directory, {})[future] = None
            loop.call_later(limit_s, self._condemn, directory, path, context=self._kernel)
        return until_s

    def _condemn(self, directory: Path, path: Path) -> None:
        """Fail every call that hangs there, and all to come."""
        waiting = [future for future in self._waiting.pop(directory, {}) if not future.done()]
        if self._is_dead or not waiting:
            return
        self._condemned.add(directory)
        self._note_failure("hung call", path)
        for future in waiting:
            future.set_exception(os_error(errno.ETIMEDOUT, path, ": the disk hangs"))

    def _named(self, call: str, effect: Callable[[], T], *paths: Path, delay_s: float = 0.0) -> asyncio.Future[T]:
        now_s = asyncio.get_running_loop().time()
        error = self.take_fault(call, paths[0])
        begin_s = max([now_s, *(self._free_at_s.get(path, 0.0) for path in paths)])
        at_s = begin_s + delay_s + self.delay_s(NAME_S)
        if len(self._free_at_s) > 4096:
            self._free_at_s = {path: free_s for path, free_s in self._free_at_s.items() if free_s > now_s}
        for path in paths:
            self._free_at_s[path] = at_s
        if error is not None:
            return self.schedule(at_s, lambda: _raise(error), paths[0])
        return self.schedule(at_s, effect, paths[0], is_change=call not in READS)


@dataclass(slots=True)
class _Sync:
    """An fsync that runs or waits; it makes the first `covered` changes of the file durable."""

    start_s: float
    end_s: float
    covered: int
    skipped_before: int
    handles: list[SimFile] = field(default_factory=list)
    """Through which it was asked for."""
    done: asyncio.Future[None] = field(init=False)


@dataclass(slots=True, eq=False)
class FileQueue:
    """The calls on one file, through whichever handle. Changes are numbered."""

    handles: int = 0
    changed_at_s: float = 0.0
    """When the last change takes effect."""
    busy_until_s: float = 0.0
    read_at_s: float = 0.0
    """When the last read takes place that waits, and the highest byte that such reads reach."""
    read_end: int = 0
    changes: dict[int, tuple[float, int]] = field(default_factory=dict)
    """Calls that have not taken effect: (when, the first byte that may change)."""
    cuts: dict[int, int] = field(default_factory=dict)
    """The truncations among them: what is written after one fills the bytes from there on."""
    last_change: int = 0
    skipped_up_to: int = 0
    """Changes up to this number were queued after one that failed."""
    last_sync: _Sync | None = None


class SimFile:
    """A handle."""

    def __init__(self, disk: SimDisk, path: Path, inode: Inode) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode
        self._queue = disk.queues.setdefault(inode, FileQueue())
        self._queue.handles += 1
        self._is_closed = False
        self._is_poisoned = False
        self._failed_before = inode.failed_syncs
        """When it was opened: a handle that is opened now gets no error that an earlier one got."""

    @property
    def path(self) -> Path:
        return self._path

    async def size(self) -> int:
        self._refuse_closed()
        settled_s = self._settled_s(_EVERYTHING)
        if settled_s:
            return await self._read_at(settled_s, _EVERYTHING, lambda: len(self._inode.content))
        return len(self._inode.content)

    async def write(self, offset: int, data: Buffer) -> None:
        assert offset >= 0, (self._path, offset)
        content = bytes(data)
        self._refuse_change()
        if content:
            await self._change("write", offset, content)

    def begin_write(self, offset: int, data: Buffer) -> Awaitable[None]:
        self._refuse_change()
        return self._change("write", offset, bytes(data))

    async def truncate(self, size: int) -> None:
        assert size >= 0, (self._path, size)
        self._refuse_change()
        await self._change("truncate", size, None)

    async def read(self, offset: int, count: int) -> bytes:
        assert offset >= 0, (self._path, offset)
        assert count >= 0, (self._path, count)
        self._refuse_closed()
        settled_s = self._settled_s(offset + count)
        found = None if settled_s else self.read_on_loop(offset, count)
        return found if found is not None else await self._read_later(settled_s, offset, count)

    def read_at_once(self, offset: int, count: int) -> bytes | None:
        if count > AT_ONCE_BYTES_MAX or self._is_closed or self._settled_s(offset + count):
            return None
        return self.read_on_loop(offset, count)

    async def send(self, offset: int, count: int, transport: asyncio.WriteTransport) -> None:
        self._refuse_closed()
        settled_s = self._settled_s(offset + count)
        if settled_s:
            await self._read_at(settled_s, offset + count, lambda: None)
        sent = await send_copy(self, offset, count, transport)
        if sent < count:
            raise os_error(errno.EIO, self._path, f": {sent} of {count} bytes at {offset}, the file is shorter")

    async def sync(self) -> None:
        self._refuse_change()
        disk, queue, now_s = self._disk, self._queue, asyncio.get_running_loop().time()
        covered = self._inode.changes + len(queue.changes)
        last = queue.last_sync
        if last is not None and last.start_s > now_s and last.start_s >= queue.changed_at_s:
            last.covered = covered
        else:
            start_s = max(now_s, queue.changed_at_s, last.end_s if last is not None else 0.0)
            end_s = start_s + disk.sync_delay_s()
            wanted = last = queue.last_sync = _Sync(start_s, end_s, covered, queue.skipped_up_to)
            error = disk.take_fault("sync", self._path)
            wanted.done = disk.schedule(end_s, lambda: self._sync(wanted, error), self._path, is_change=True)
            queue.busy_until_s = max(queue.busy_until_s, end_s)
        last.handles.append(self)
        await asyncio.shield(last.done)
        if self._is_poisoned:
            raise os_error(errno.EIO, self._path, ": an fsync through another handle failed before")

    async def drop_cache(self) -> None:
        self._refuse_closed()
        disk, inode = self._disk, self._inode
        settled_s = max(self._settled_s(_EVERYTHING), asyncio.get_running_loop().time())
        await self._read_at(settled_s + disk.delay_s(NAME_S), _EVERYTHING, inode.evict)

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        queue = self._queue
        if queue.busy_until_s > asyncio.get_running_loop().time():
            await self._disk.schedule(queue.busy_until_s, lambda: None, self._path)
        queue.handles -= 1
        if not queue.handles:
            self._disk.queues.pop(self._inode, None)

    # For `send_copy`.

    def read_on_loop(self, offset: int, count: int) -> bytes | None:
        disk = self._disk
        if count > ON_LOOP_BYTES_MAX or disk.rng.random() < COLD_SHARE:
            return None
        return self._inode.read(offset, offset + count)

    async def read_in_thread(self, offset: int, count: int) -> bytes:
        return await self._read_later(0.0, offset, count)

    # The order of calls.

    def _change(self, call: str, offset: int, data: bytes | None) -> asyncio.Future[None]:
        disk, queue, now_s = self._disk, self._queue, asyncio.get_running_loop().time()
        error = disk.take_fault(call, self._path)
        first = self._first_changed(offset)
        begin_s = now_s if now_s > queue.changed_at_s else queue.changed_at_s
        if first < queue.read_end and queue.read_at_s > begin_s:
            begin_s = queue.read_at_s
        at_s = begin_s + disk.delay_s(WRITE_S)
        if data and disk.device is not None:
            at_s = max(at_s, disk.device.passed_s(now_s, begin_s, len(data)))
        queue.changed_at_s = at_s
        if at_s > queue.busy_until_s:
            queue.busy_until_s = at_s
        number = queue.last_change = queue.last_change + 1
        queue.changes[number] = at_s, first
        if data is None:
            queue.cuts[number] = offset
        effect = partial(self._take_effect, number, offset, data, error)
        return disk.schedule(at_s, effect, self._path, is_change=True)

    def _first_changed(self, offset: int) -> int:
        """After a truncation, or past the end, the bytes from there on are filled."""
        first = len(self._inode.content)
        if offset < first:
            first = offset
        return min(first, *self._queue.cuts.values()) if self._queue.cuts else first

    def _take_effect(self, number: int, offset: int, data: bytes | None, error: OSError | None) -> None:
        inode, queue, files = self._inode, self._queue, self._disk.files
        del queue.changes[number]
        queue.cuts.pop(number, None)
        if number <= queue.skipped_up_to:
            raise self._skipped()
        try:
            if error is not None:
                raise error
            if files.is_limited and data is not None:
                files.check_space(self._path, max(0, offset + len(data) - len(inode.content)))
        except OSError:
            queue.skipped_up_to = queue.last_change
            if data is not None and len(data) > 1:
                inode.change(offset, data[: self._disk.rng.randrange(1, len(data))])
            raise
        inode.change(offset, data)

    def _sync(self, wanted: _Sync, error: OSError | None) -> None:
        if self._queue.skipped_up_to != wanted.skipped_before:
            raise self._skipped()
        inode, covered = self._inode, min(wanted.covered, self._inode.changes)
        if error is None:
            inode.sync(covered)
        else:
            inode.fail_sync(covered, self._disk.rng)
            if self._disk.faults.lost_page_share and inode.is_stale:
                inode.is_forgetful = True
                self._disk.faults.on_pages_given_up()
        for handle in wanted.handles:
            handle._is_poisoned = inode.failed_syncs > handle._failed_before
        if error is not None:
            raise error

    def _skipped(self) -> OSError:
        return os_error(errno.ECANCELED, self._path, ": skipped: an earlier write failed")

    def _settled_s(self, end: int) -> float:
        """When the last of the earlier changes below `end` takes effect; 0 if all have."""
        changes = self._queue.changes
        return max((at_s for at_s, first in changes.values() if first < end), default=0.0) if changes else 0.0

    async def _read_later(self, settled_s: float, offset: int, count: int) -> bytes:
        """The delay of a read by a thread, mostly from the page cache."""
        disk = self._disk
        error = disk.take_fault("read", self._path)
        if error is not None:
            raise error
        is_cold = disk.rng.random() < COLD_SHARE
        at_s = max(settled_s, asyncio.get_running_loop().time()) + disk.delay_s(READ_S if is_cold else WRITE_S)
        return await self._read_at(at_s, offset + count, lambda: self._inode.read(offset, offset + count))

    def _read_at(self, at_s: float, end: int, effect: Callable[[], T]) -> asyncio.Future[T]:
        """Later changes of what is read wait for it."""
        queue = self._queue
        if queue.read_at_s <= asyncio.get_running_loop().time():
            queue.read_end = 0
        queue.read_at_s, queue.read_end = max(queue.read_at_s, at_s), max(queue.read_end, end)
        queue.busy_until_s = max(queue.busy_until_s, at_s)
        return self._disk.schedule(at_s, effect, self._path)

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise os_error(errno.EBADF, self._path, ": the file is closed")

    def _refuse_change(self) -> None:
        self._refuse_closed()
        if self._is_poisoned:
            raise os_error(errno.EIO, self._path, ": rejected: an earlier fsync of this file failed")


def is_partition_log(path: Path) -> bool:
    """Of a partition that clients know, not of the metadata."""
    name = parse_directory(path.parent.name) if path.suffix == LOG_SUFFIX else None
    return name is not None and name.topic_partition.topic != CLUSTER_METADATA_TOPIC


def _outermost(path: Path) -> Path:
    return Path(*path.parts[:2])


def _raise(error: OSError) -> Any:
    raise error
