"""A `Disk` in memory that loses what real disks lose, and fails where a test says.

Content and names each exist twice: as the running process sees them (page cache) and as a crash leaves them. What moves
from the first to the second:

| call                       | durable afterwards                                             |
|----------------------------|----------------------------------------------------------------|
| `DiskFile.sync`            | the file's content, not its name                               |
| `sync_directory`           | the names in that directory (created, renamed, removed)        |
| `write_file(sync=True)`    | content and name                                               |
| `FilesystemSync.sync`      | every content and name                                         |
| everything else            | nothing                                                        |

Use:

    disk = MemoryDisk(FailNth(7, crash=True))
    with pytest.raises(DiskCrash):
        await the_code_under_test(disk)
    after = disk.restart()        # only what was durable; restart("kept"): all; restart(Random(seed)): some of it

and over every effect of a run, each as a failure and as a crash:

    for fault in failures(crash=True):
        disk = MemoryDisk(fault)
        ...run, restart, check: the old state or the new, nothing else...

Rules:

* An effect takes place when it is called, in the order of the calls; then the call yields to the loop once.
* A failed write leaves half of its data. A failed sync makes no written byte durable, nor does any later one: only what
  is written again is. The handles that the file is open by are poisoned (later writes, truncations and syncs raise).
  Every other failed call has no effect. `write_file(sync=True)` is two effects: the
  replacement, and the sync of the directory, after whose failure the new content is there but may not survive a crash.
* A crash stops before the n-th effect (a write is torn in half, in the page cache). From then on every call raises
  DiskCrash, which is no Exception: clean-up code can change nothing any more, as in a machine without power.
* `restart(Random(seed))` keeps of each file a prefix of the unsynced writes, the last one torn, and of the unsynced
  changes to names a prefix over the whole disk, as a journalling file system does.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Literal

from tierfetch.log.disk import Buffer, DirectoryEntry, DiskSpace, check_size, write_directory_stepwise
from tierfetch.tests.fakes.faults import FailNth, failures

__all__ = ["DiskCrash", "Effect", "FailNth", "MemoryDisk", "MemoryFile", "Unsynced", "failures"]

FREE_BYTES = 2**40

Unsynced = Literal["lost", "kept"] | Random


class DiskCrash(BaseException):
    """The machine stopped. Not an Exception, so that no handler of errors takes it for one."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One change that was asked of the disk: `operation` is the method of `Disk` or `DiskFile`."""

    operation: str
    path: Path


@dataclass(slots=True, eq=False)
class _Inode:
    content: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    unsynced: list[tuple[int, bytes | None]] = field(default_factory=list)
    """(offset, data) written, or (size, None) for a truncation, since the last sync."""
    failed_syncs: int = 0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def write(self, offset: int, data: bytes) -> None:
        self.unsynced.append((offset, data))
        _apply(self.content, offset, data)

    def truncate(self, size: int) -> None:
        self.unsynced.append((size, None))
        _apply(self.content, size, None)

    def sync(self) -> None:
        self.durable = self._synced()
        self.unsynced.clear()

    def fail_sync(self) -> None:
        self.unsynced = [change for change in self.unsynced if change[1] is None]
        self.sync()
        self.failed_syncs += 1

    def _synced(self) -> bytes:
        content = bytearray(self.durable)
        for offset, data in self.unsynced:
            _apply(content, offset, data)
        return bytes(content)

    def after_crash(self, unsynced: Unsynced) -> bytes:
        if unsynced == "kept":
            return self._synced()
        content = bytearray(self.durable)
        if isinstance(unsynced, Random) and self.unsynced:
            kept = unsynced.randrange(len(self.unsynced) + 1)
            for offset, data in self.unsynced[:kept]:
                _apply(content, offset, data)
            if kept < len(self.unsynced) and (torn := self.unsynced[kept][1]):
                _apply(content, self.unsynced[kept][0], torn[: unsynced.randrange(len(torn))])
        return bytes(content)


@dataclass(slots=True, eq=False)
class _Directory:
    names: dict[str, _Node] = field(default_factory=dict)
    durable: dict[str, _Node] = field(default_factory=dict)


_Node = _Inode | _Directory
_Change = tuple[_Directory, str, _Node | None]


def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
    if len(content) < offset and data != b"":
        content.extend(bytes(offset - len(content)))
    if data is None:
        del content[offset:]
    elif data:
        content[offset : offset + len(data)] = data


class MemoryFile:
    """A handle; several may be open on one file, and stay readable when its name is gone."""

    def __init__(self, disk: MemoryDisk, path: Path, inode: _Inode) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode
        self._closed = False
        self._failed_syncs = inode.failed_syncs

    @property
    def path(self) -> Path:
        return self._path

    async def size(self) -> int:
        async with self._inode.turn:
            await self._turn("size", is_read=True)
            size = len(self._inode.content)
        await asyncio.sleep(0)
        return size

    async def write(self, offset: int, data: Buffer) -> None:
        assert offset >= 0, (self._path, offset)
        written = bytes(data)

        def tear() -> None:
            self._inode.write(offset, written[: len(written) // 2])

        async with self._inode.turn:
            await self._turn("write", tear=tear)
            self._disk._check_space(self._path, max(0, offset + len(written) - len(self._inode.content)))
            self._inode.write(offset, written)
        await asyncio.sleep(0)

    def begin_write(self, offset: int, data: Buffer) -> Awaitable[None]:
        return self.write(offset, data)

    async def read(self, offset: int, count: int) -> bytes:
        assert offset >= 0, (self._path, offset)
        assert count >= 0, (self._path, count)
        async with self._inode.turn:
            await self._turn("read", is_read=True)
            data = bytes(self._inode.content[offset : offset + count])
        await asyncio.sleep(0)
        return data

    def read_at_once(self, offset: int, count: int) -> bytes | None:
        return None

    async def send(self, offset: int, count: int, transport: asyncio.WriteTransport) -> None:
        data = await self.read(offset, count)
        transport.write(data)
        if len(data) < count:
            raise OSError(errno.EIO, f"{len(data)} of {count} bytes at {offset}: the file is shorter", str(self._path))

    async def sync(self) -> None:
        async with self._inode.turn:
            await self._turn("sync", tear=self._inode.fail_sync)
            self._inode.sync()
        await asyncio.sleep(0)

    async def drop_cache(self) -> None:
        async with self._inode.turn:
            await self._turn("drop_cache", is_read=True)
            self._inode.content = bytearray(self._inode._synced())
        await asyncio.sleep(0)

    async def truncate(self, size: int) -> None:
        async with self._inode.turn:
            await self._turn("truncate")
            self._inode.truncate(size)
        await asyncio.sleep(0)

    async def close(self) -> None:
        async with self._inode.turn:
            self._closed = True

    async def _turn(self, operation: str, *, is_read: bool = False, tear: Callable[[], None] | None = None) -> None:
        if self._closed:
            raise OSError(errno.EBADF, "the file is closed", str(self._path))
        if self._inode.failed_syncs != self._failed_syncs and not is_read:
            raise OSError(errno.EIO, "an earlier sync failed", str(self._path))
        await self._disk._effect(operation, self._path, is_read=is_read, tear=tear)


class MemoryFilesystemSync:
    """Of all that the disk has."""

    def __init__(self, disk: MemoryDisk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self.is_closed = False

    async def sync(self) -> None:
        assert not self.is_closed
        await self._disk._effect("sync_filesystem", self._path)
        self._disk.settle()
        await asyncio.sleep(0)

    async def close(self) -> None:
        self.is_closed = True


class MemoryDisk:
    """One node's disk. The module's docstring has the rules.

    `faults` may be replaced while it runs. `before_effect` is awaited before each effect: hold a call there to let a
    disk stall; calls on the same file wait behind it. `effects` lists what was asked so far, the failed ones too.
    """

    def __init__(
        self,
        faults: FailNth | None = None,
        *,
        before_effect: Callable[[Effect], Awaitable[None]] | None = None,
        capacity_bytes: int | None = None,
    ) -> None:
        self.faults = faults
        self.before_effect = before_effect
        self.capacity_bytes = capacity_bytes
        self.effects: list[Effect] = []
        self.crashed = False
        self.hung: set[Path] = set()
        """Directories whose device is given up; the test says that they hang."""
        self._root = _Directory()
        self._journal: list[list[_Change]] = []

    def separate(self, directory: Path, *, hang_s: float | None) -> None:
        """All calls here are independent of each other anyhow."""

    def has_hung(self, directory: Path) -> bool:
        return directory in self.hung

    # What a test does to the disk: no effects, no faults.

    def put(self, path: Path, data: bytes) -> None:
        """A durable file, its directories made as needed."""
        parent = self._make_directories(path.parent)
        inode = _Inode()
        inode.write(0, data)
        parent.names[path.name] = inode
        self.settle()

    def put_tree(self, source: Path, target: Path) -> None:
        """A durable copy of a real directory."""
        self._make_directories(target)
        for path in sorted(source.rglob("*")):
            if path.is_dir():
                self._make_directories(target / path.relative_to(source))
            else:
                self.put(target / path.relative_to(source), path.read_bytes())
        self.settle()

    def files(self, directory: Path = Path("/")) -> dict[Path, bytes]:
        """Every file below `directory` as the running process sees it, sorted by path."""
        found = _walk(self._find_directory(directory), directory)
        return {path: bytes(inode.content) for path, inode in sorted(found, key=lambda each: each[0])}

    def settle(self) -> None:
        """Make everything durable, as if the machine had been idle for long."""
        self._journal.clear()
        pending = [self._root]
        while pending:
            directory = pending.pop()
            directory.durable = dict(directory.names)
            for node in directory.names.values():
                if isinstance(node, _Directory):
                    pending.append(node)
                else:
                    node.sync()

    def restart(self, unsynced: Unsynced = "lost") -> MemoryDisk:
        """The disk that a new process finds: "lost" after a power failure at its worst, "kept" after kill -9."""
        journalled: dict[_Directory, dict[str, _Node]] = {}
        if isinstance(unsynced, Random):
            for changes in self._journal[: unsynced.randrange(len(self._journal) + 1)]:
                for directory, name, node in changes:
                    _set_name(journalled.setdefault(directory, dict(directory.durable)), name, node)
        after = MemoryDisk(capacity_bytes=self.capacity_bytes)
        after._root = _survivor(self._root, journalled, unsynced)
        after.settle()
        return after

    # The port.

    async def open(self, path: Path, *, create: bool = False) -> MemoryFile:
        node = self._find(path)
        if isinstance(node, _Directory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if node is None and not create:
            raise _absent(path)
        if node is None:
            parent = self._find_directory(path.parent)
            await self._effect("open", path)
            node = _Inode()
            self._change((parent, path.name, node))
        else:
            await self._effect("open", path, is_read=True)
        await asyncio.sleep(0)
        return MemoryFile(self, path, node)

    async def read_file(self, path: Path, *, size_max: int | None = None) -> bytes:
        await self._effect("read_file", path, is_read=True)
        node = self._find(path)
        if not isinstance(node, _Inode):
            raise _absent(path)
        check_size(path, len(node.content), size_max)
        data = bytes(node.content)
        await asyncio.sleep(0)
        return data

    async def write_file(self, path: Path, data: Buffer, *, sync: bool = True, sync_name: bool = True) -> None:
        inode = _Inode()
        inode.write(0, bytes(data))
        await self._effect("write_file", path)
        parent = self._find_directory(path.parent)
        self._check_space(path, len(data))
        if sync:
            inode.sync()
        self._change((parent, path.name, inode))
        if sync and sync_name:
            await self._effect("sync_directory", path.parent)
            self._sync_names(parent)
        await asyncio.sleep(0)

    async def write_directory(self, path: Path, files: Mapping[str, Buffer]) -> None:
        await write_directory_stepwise(self, path, files)

    async def list_directory(self, path: Path) -> Sequence[DirectoryEntry]:
        await self._effect("list_directory", path, is_read=True)
        entries = [
            DirectoryEntry(name, isinstance(node, _Directory), 0 if isinstance(node, _Directory) else len(node.content))
            for name, node in sorted(self._find_directory(path).names.items())
        ]
        await asyncio.sleep(0)
        return entries

    async def exists(self, path: Path) -> bool:
        await self._effect("exists", path, is_read=True)
        found = self._find(path) is not None
        await asyncio.sleep(0)
        return found

    async def make_directory(self, path: Path) -> None:
        await self._effect("make_directory", path)
        self._make_directories(path, journal=True)
        await asyncio.sleep(0)

    async def rename(self, source: Path, target: Path) -> None:
        await self._effect("rename", target)
        node, replaced = self._find(source), self._find(target)
        if node is None:
            raise _absent(source)
        if isinstance(replaced, _Directory) and replaced is not node and replaced.names:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(target))
        self._change(
            (self._find_directory(source.parent), source.name, None),
            (self._find_directory(target.parent), target.name, node),
        )
        await asyncio.sleep(0)

    async def remove(self, path: Path) -> None:
        await self._effect("remove", path)
        node = self._find(path)
        if isinstance(node, _Directory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if node is not None:
            self._change((self._find_directory(path.parent), path.name, None))
        await asyncio.sleep(0)

    async def remove_tree(self, path: Path) -> None:
        await self._effect("remove_tree", path)
        if self._find(path) is not None:
            self._change((self._find_directory(path.parent), path.name, None))
        await asyncio.sleep(0)

    async def sync_directory(self, path: Path) -> None:
        await self._effect("sync_directory", path)
        self._sync_names(self._find_directory(path))
        await asyncio.sleep(0)

    async def filesystem_sync(self, path: Path) -> MemoryFilesystemSync:
        await self._effect("filesystem_sync", path, is_read=True)
        return MemoryFilesystemSync(self, path)

    async def space(self, path: Path) -> DiskSpace:
        await self._effect("space", path, is_read=True)
        if self.capacity_bytes is None:
            return DiskSpace(FREE_BYTES, FREE_BYTES)
        return DiskSpace(self.capacity_bytes, self.capacity_bytes - self._used_bytes())

    async def _effect(
        self, operation: str, path: Path, *, is_read: bool = False, tear: Callable[[], None] | None = None
    ) -> None:
        assert path.is_absolute(), path
        self._check_power()
        effect = Effect(operation, path)
        if not is_read:
            self.effects.append(effect)
            if self.before_effect is not None:
                await self.before_effect(effect)
                self._check_power()
        if self.faults is None or not self.faults.hits(operation, is_read=is_read):
            return
        if tear is not None:
            tear()
        if self.faults.crash:
            self.crashed = True
            self._check_power()
        number = self.faults.error_number
        raise OSError(number, f"{operation}: {os.strerror(number)} (injected at call {self.faults.calls})", str(path))

    def _check_power(self) -> None:
        if self.crashed:
            raise DiskCrash

    def _check_space(self, path: Path, more_bytes: int) -> None:
        if self.capacity_bytes is not None and self._used_bytes() + more_bytes > self.capacity_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    def _used_bytes(self) -> int:
        return sum(len(inode.content) for _, inode in _walk(self._root, Path("/")))

    def _find(self, path: Path) -> _Node | None:
        node: _Node | None = self._root
        for name in path.parts[1:]:
            node = node.names.get(name) if isinstance(node, _Directory) else None
        return node

    def _find_directory(self, path: Path) -> _Directory:
        node = self._find(path)
        if not isinstance(node, _Directory):
            raise _absent(path)
        return node

    def _make_directories(self, path: Path, *, journal: bool = False) -> _Directory:
        directory = self._root
        for name in path.parts[1:]:
            node = directory.names.get(name)
            if node is None:
                node = _Directory()
                if journal:
                    self._change((directory, name, node))
                else:
                    directory.names[name] = node
            if not isinstance(node, _Directory):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
            directory = node
        return directory

    def _change(self, *changes: _Change) -> None:
        for directory, name, node in changes:
            _set_name(directory.names, name, node)
        self._journal.append(list(changes))

    def _sync_names(self, directory: _Directory) -> None:
        directory.durable = dict(directory.names)
        for changes in self._journal:
            changes[:] = [change for change in changes if change[0] is not directory]


def _absent(path: Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def _set_name(names: dict[str, _Node], name: str, node: _Node | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


def _survivor(directory: _Directory, journalled: dict[_Directory, dict[str, _Node]], unsynced: Unsynced) -> _Directory:
    names = directory.names if unsynced == "kept" else journalled.get(directory, directory.durable)
    survivor = _Directory()
    for name, node in sorted(names.items()):
        if isinstance(node, _Directory):
            survivor.names[name] = _survivor(node, journalled, unsynced)
        else:
            inode = survivor.names[name] = _Inode()
            inode.write(0, node.after_crash(unsynced))
    return survivor


def _walk(directory: _Directory, path: Path) -> Iterator[tuple[Path, _Inode]]:
    for name, node in directory.names.items():
        if isinstance(node, _Directory):
            yield from _walk(node, path / name)
        else:
            yield path / name, node
