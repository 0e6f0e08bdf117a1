"""The files of one machine as values: what the running process sees, and what a crash of the machine leaves.

| call                 | page cache | durable                                                         |
|----------------------|------------|-----------------------------------------------------------------|
| write, truncate      | at once    | with `sync` of the file, or by chance when the machine crashes  |
| create, rename, ...  | at once    | with `sync_directory` of the parent, or by chance               |
| sync                 | -          | the file's content up to then, not its name                     |

A crash of the machine keeps of each file's unsynced writes what chance decides: none, all, the first ones with the next
one torn, or any of them, the last one torn. Of the unsynced changes to names it keeps the first ones, over the whole
machine, as a journalling file system does. A process crash keeps everything.

A failed sync does what Linux does: pages that could not be written are clean from then on. They are read as they were
written until they leave the page cache (`evict`), no later sync writes them, and each open handle gets one error.

Bits that rot are an overlay: reads (`Inode.read`) see them, until what is there is written again or they are healed.

Knows no time and no loop; `disk` calls it when an operation takes effect.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from random import Random
from typing import Final

from ...light_dataclass import dataclass
from ...log.disk import DirectoryEntry, DiskSpace

UNLIMITED_BYTES: Final = 2**40
LOG_DIRECTORIES: Final = (Path("/data"), Path("/data-2"))
"""Where simulated brokers keep their logs: some in the first only."""


@dataclass(slots=True, eq=False)
class Inode:
    """A file. `unsynced` are the changes since the last sync: (offset, data), or (size, None) for a truncation."""

    content: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    unsynced: list[tuple[int, bytes | None]] = field(default_factory=list)
    changes: int = 0
    """How many there were so far."""
    failed_syncs: int = 0
    """How many have failed so far: a handle that was open before gets the error at its own next one."""
    is_stale: bool = False
    """The page cache has bytes that no sync will ever write."""
    is_forgetful: bool = False
    """It will have lost them by the time at which the file is opened again."""
    corrupted: dict[int, int] = field(default_factory=dict)
    """Bits that read wrong, by the place of their byte."""

    def read(self, start: int = 0, end: int | None = None) -> bytes:
        """As a reader sees it."""
        found = self.content[start:end]
        if self.corrupted:
            for place, bits in self.corrupted.items():
                if start <= place < start + len(found):
                    found[place - start] ^= bits
        return bytes(found)

    def change(self, offset: int, data: bytes | None) -> None:
        self.unsynced.append((offset, data))
        self.changes += 1
        if self.corrupted:
            end = None if data is None else offset + len(data)
            self.corrupted = {
                at: bit for at, bit in self.corrupted.items() if at < offset or (end is not None and at >= end)
            }
        _apply(self.content, offset, data)

    def sync(self, up_to: int) -> None:
        """Make the first `up_to` of all changes durable."""
        covered = len(self.unsynced) - (self.changes - up_to)
        if covered <= 0:
            return
        for offset, data in self.unsynced[:covered]:
            _apply(self.durable, offset, data)
        del self.unsynced[:covered]

    def fail_sync(self, up_to: int, rng: Random) -> None:
        """The first `up_to` of all changes were to be made durable: some of their pages are, the others never will."""
        self.failed_syncs += 1
        covered = max(0, len(self.unsynced) - (self.changes - up_to))
        for offset, data in self.unsynced[:covered]:
            if data is None or rng.random() < 0.5:
                _apply(self.durable, offset, data)
            else:
                self.is_stale = True
        del self.unsynced[:covered]

    def evict(self) -> None:
        """Its clean pages leave the page cache."""
        self.content = bytearray(self.durable)
        for offset, data in self.unsynced:
            _apply(self.content, offset, data)
        self.is_stale = self.is_forgetful = False

    def lose_power(self, rng: Random) -> int:
        """Keep what is durable and what chance adds; returns how many changes were at risk."""
        unsynced, self.unsynced = self.unsynced, []
        for offset, data in _survivors(unsynced, rng) if unsynced else ():
            _apply(self.durable, offset, data)
        self.content = bytearray(self.durable)
        self.is_stale = self.is_forgetful = False
        return len(unsynced)


@dataclass(slots=True, eq=False)
class Directory:
    """Names, as they are and as they are durable."""

    names: dict[str, Node] = field(default_factory=dict)
    durable: dict[str, Node] = field(default_factory=dict)


Node = Inode | Directory
_NameChange = tuple[Directory, str, Node | None]


class SimFilesystem:
    """One machine's. OSErrors are those of the real calls, and name the path."""

    def __init__(self) -> None:
        self.capacity_bytes: int | None = None
        self.full: frozenset[Path] = frozenset()
        """The outermost directories that have no room, each as a disk of its own."""
        self._root = Directory()
        self._journal: list[list[_NameChange]] = []
        """Changes to names that are not durable, in their order; each entry survives whole or not at all."""

    # For checkers and faults.

    def walk(self, directory: Path = Path("/")) -> Iterator[tuple[Path, Inode]]:
        """Every file below, sorted by path, as the process sees it."""
        node = self.find(directory)
        if isinstance(node, Directory):
            yield from _walk(node, directory)

    def log_at(self, directory: Path) -> Path:
        """Return where the log is that should be in this directory: there, or in another log directory."""
        if directory.parent not in LOG_DIRECTORIES or self.find(directory) is not None:
            return directory
        places = (other / directory.name for other in LOG_DIRECTORIES)
        return next((place for place in places if self.find(place) is not None), directory)

    def durable_files(self, directory: Path) -> dict[str, Inode]:
        """The files right in this directory whose names would survive a crash now; none if its own would not."""
        node: Node | None = self._root
        for name in directory.parts[1:]:
            node = node.durable.get(name) if isinstance(node, Directory) else None
        names = node.durable if isinstance(node, Directory) else {}
        return {name: each for name, each in names.items() if isinstance(each, Inode)}

    def used_bytes(self) -> int:
        return sum(len(inode.content) for _, inode in self.walk())

    def lose_power(self, rng: Random) -> int:
        """The machine crashed; returns how many changes of content and names were at risk."""
        at_risk = len(self._journal)
        kept = rng.choice((0, at_risk, rng.randrange(at_risk + 1)))
        for changes in self._journal[:kept]:
            for directory, name, node in changes:
                _set_name(directory.durable, name, node)
        self._journal.clear()
        return at_risk + _lose_power(self._root, rng)

    def wipe(self) -> None:
        """An empty disk in its place."""
        self._root = Directory()
        self._journal.clear()

    def replace_directory(self, path: Path) -> None:
        """Put an empty disk in the place of the one that is mounted there."""
        parent, empty = self.directory(path.parent), Directory()
        parent.names[path.name] = parent.durable[path.name] = empty
        for changes in self._journal:
            changes[:] = [change for change in changes if (change[0], change[1]) != (parent, path.name)]

    def evict(self, rng: Random) -> bool:
        """Files whose pages were given up by failed syncs are read from the disk again, by chance; whether any was."""
        stale = [inode for _, inode in self.walk() if inode.is_stale and rng.random() < 0.5]
        for inode in stale:
            inode.evict()
        return bool(stale)

    def corrupt(self, path: Path, rng: Random) -> int | None:
        """One bit of a file reads wrong; returns the place of its byte, None for an empty file."""
        inode = self.inode(path)
        if not inode.content:
            return None
        place = rng.randrange(len(inode.content))
        inode.corrupted[place] = 1 << rng.randrange(8)
        return place

    @property
    def is_corrupt(self) -> bool:
        return any(inode.corrupted for _, inode in self.walk())

    def heal(self) -> None:
        """Heal all corrupted bits."""
        for _, inode in self.walk():
            inode.corrupted.clear()

    # Effects.

    def find(self, path: Path) -> Node | None:
        assert path.is_absolute(), path
        node: Node | None = self._root
        for name in path.parts[1:]:
            node = node.names.get(name) if isinstance(node, Directory) else None
        return node

    def inode(self, path: Path) -> Inode:
        node = self.find(path)
        if node is None:
            raise os_error(errno.ENOENT, path)
        if isinstance(node, Directory):
            raise os_error(errno.EISDIR, path)
        return node

    def directory(self, path: Path) -> Directory:
        node = self.find(path)
        if node is None:
            raise os_error(errno.ENOENT, path)
        if isinstance(node, Inode):
            raise os_error(errno.ENOTDIR, path)
        return node

    def open(self, path: Path, *, create: bool) -> Inode:
        if not create or self.find(path) is not None:
            return self.inode(path)
        made = Inode()
        self._change((self.directory(path.parent), path.name, made))
        return made

    def replace(self, path: Path, data: bytes, *, sync: bool, sync_name: bool = True) -> None:
        self.check_space(path, len(data))
        made = Inode()
        made.change(0, data)
        parent = self.directory(path.parent)
        if sync:
            made.sync(made.changes)
        self._change((parent, path.name, made))
        if sync and sync_name:
            self.sync_names(path.parent)

    def entries(self, path: Path) -> list[DirectoryEntry]:
        return [
            DirectoryEntry(name, isinstance(node, Directory), 0 if isinstance(node, Directory) else len(node.content))
            for name, node in sorted(self.directory(path).names.items())
        ]

    def make_directory(self, path: Path) -> None:
        directory = self._root
        for name in path.parts[1:]:
            node = directory.names.get(name)
            if node is None:
                node = Directory()
                self._change((directory, name, node))
            if isinstance(node, Inode):
                raise os_error(errno.EEXIST, path)
            directory = node

    def rename(self, source: Path, target: Path) -> None:
        node, replaced = self.find(source), self.find(target)
        if node is None:
            raise os_error(errno.ENOENT, source)
        if isinstance(replaced, Directory) and replaced is not node and replaced.names:
            raise os_error(errno.ENOTEMPTY, target)
        self._change(
            (self.directory(source.parent), source.name, None), (self.directory(target.parent), target.name, node)
        )

    def remove(self, path: Path, *, tree: bool = False) -> None:
        node = self.find(path)
        if isinstance(node, Directory) and not tree:
            raise os_error(errno.EISDIR, path)
        if node is not None:
            self._change((self.directory(path.parent), path.name, None))

    def sync_names(self, path: Path) -> None:
        directory = self.directory(path)
        directory.durable = dict(directory.names)
        for changes in self._journal:
            changes[:] = [change for change in changes if change[0] is not directory]
        self._journal = [changes for changes in self._journal if changes]

    @property
    def is_limited(self) -> bool:
        """Whether a write may find no room."""
        return self.capacity_bytes is not None or bool(self.full)

    def space(self, path: Path) -> DiskSpace:
        if self._is_full(path):
            return DiskSpace(UNLIMITED_BYTES, 0)
        if self.capacity_bytes is None:
            return DiskSpace(UNLIMITED_BYTES, UNLIMITED_BYTES)
        return DiskSpace(self.capacity_bytes, max(0, self.capacity_bytes - self.used_bytes()))

    def check_space(self, path: Path, more_bytes: int) -> None:
        if more_bytes and self._is_full(path):
            raise os_error(errno.ENOSPC, path)
        if self.capacity_bytes is not None and self.used_bytes() + more_bytes > self.capacity_bytes:
            raise os_error(errno.ENOSPC, path)

    def _is_full(self, path: Path) -> bool:
        return bool(self.full) and Path(*path.parts[:2]) in self.full

    def _change(self, *changes: _NameChange) -> None:
        for directory, name, node in changes:
            _set_name(directory.names, name, node)
        self._journal.append(list(changes))


def os_error(number: int, path: Path, detail: str = "") -> OSError:
    return OSError(number, os.strerror(number) + detail, str(path))


def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
    if len(content) < offset and data != b"":
        content.extend(bytes(offset - len(content)))
    if data is None:
        del content[offset:]
    else:
        content[offset : offset + len(data)] = data


def _survivors(unsynced: list[tuple[int, bytes | None]], rng: Random) -> list[tuple[int, bytes | None]]:
    draw = rng.random()
    if draw < 0.3:
        return []
    if draw < 0.4:
        return unsynced
    if draw < 0.8:
        cut = rng.randrange(len(unsynced))
        kept, torn = unsynced[:cut], unsynced[cut]
    else:
        kept, torn = [change for change in unsynced[:-1] if rng.random() < 0.5], unsynced[-1]
    offset, data = torn
    if data:
        kept = [*kept, (offset, data[: rng.randrange(len(data))])]
    return kept


def _set_name(names: dict[str, Node], name: str, node: Node | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


def _walk(directory: Directory, path: Path) -> Iterator[tuple[Path, Inode]]:
    for name, node in sorted(directory.names.items()):
        if isinstance(node, Directory):
            yield from _walk(node, path / name)
        else:
            yield path / name, node


def _lose_power(directory: Directory, rng: Random) -> int:
    directory.names = dict(directory.durable)
    at_risk = 0
    for _, node in sorted(directory.names.items()):
        at_risk += _lose_power(node, rng) if isinstance(node, Directory) else node.lose_power(rng)
    return at_risk
