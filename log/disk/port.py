"""The `Disk` port: every effect on local files, and the seam at which a simulation takes their place.

Rules of an implementation:

* No call blocks the event loop. Calls on one file take effect in the order in which they were made, also when the
  caller did not await the earlier one; calls on different files are unordered.
* A write is durable only after `sync` of its file; a new, renamed or removed name only after `sync_directory` of its
  parent. Syncs of one file that wait at the same time are one fsync (group commit).
* `OSError` is the only error family, but for a file that is too large to be read whole.
* A failed `sync` is never retried on the same file (the kernel may have dropped the pages): the owner of the file must
  treat it as broken.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ...light_dataclass import dataclass
from ..core.file_sizes import check_bytes, file_bytes_max

if TYPE_CHECKING:
    import asyncio

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """One name in a directory; `size` in bytes, 0 for a directory."""

    name: str
    is_directory: bool
    size: int


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """The size of a filesystem, and the space that this process may still use, in bytes."""

    total_bytes: int
    usable_bytes: int


class DiskFile(Protocol):
    """An open file. Positions are explicit: there is no cursor. Offsets and counts in bytes."""

    @property
    def path(self) -> Path: ...

    async def size(self) -> int: ...

    async def write(self, offset: int, data: Buffer) -> None:
        """Write all of `data` at `offset`, or raise OSError (then the content from `offset` on is undefined)."""

    def begin_write(self, offset: int, data: Buffer) -> Awaitable[None]:
        """Write as `write` does, begun on return if the disk can, without a task. `data` is not empty."""

    async def read(self, offset: int, count: int) -> bytes:
        """Read up to `count` bytes; fewer only at the end of the file."""

    def read_at_once(self, offset: int, count: int) -> bytes | None:
        """Read as `read` does if the bytes are few, in memory, and no earlier call must end first; else return None."""

    async def send(self, offset: int, count: int, transport: asyncio.WriteTransport) -> None:
        """Send exactly `count` bytes to the transport without a copy where the platform can; OSError if the file is
        shorter.

        Nothing else may write to the transport meanwhile. On an error the caller closes the transport: the peer may
        have received a part.
        """

    async def sync(self) -> None: ...

    async def drop_cache(self) -> None:
        """Drop the synced bytes from the page cache, so that the next reads go to the device.

        Linux drops clean pages that are not mapped, locked or written back, and guarantees none of it
        (posix_fadvise(2), POSIX_FADV_DONTNEED); where pages stay, reads prove no more than before. tmpfs has no device.
        """

    async def truncate(self, size: int) -> None: ...

    async def close(self) -> None:
        """Close the file after the calls that are under way. Idempotent."""


def check_size(path: Path, size_bytes: int, size_max: int | None) -> None:
    """Raise CorruptFileError for a file that is larger than `size_max`, or else than any of its name."""
    check_bytes(str(path), size_bytes, file_bytes_max(path.name) if size_max is None else size_max)


class FilesystemSync(Protocol):
    """What is written to a filesystem from now on, to be made durable at once."""

    async def sync(self) -> None:
        """Make contents and names durable. OSError if any write since the beginning failed: believe none of them."""

    async def close(self) -> None:
        """Idempotent."""


class Disk(Protocol):
    """The files of one node."""

    def separate(self, directory: Path, *, hang_s: float | None) -> None:
        """Keep calls on what is below this directory from waiting for others, and others from waiting for them.

        A device that does not return from a call for `hang_s` is given up: all calls below the directory fail from then
        on. None: it never is.
        """

    def has_hung(self, directory: Path) -> bool:
        """Return whether the device of a separate directory was given up."""

    async def open(self, path: Path, *, create: bool = False) -> DiskFile:
        """Open for reading and writing; `create` also makes an absent file. FileNotFoundError otherwise."""

    async def read_file(self, path: Path, *, size_max: int | None = None) -> bytes:
        """Return the whole file. CorruptFileError, before it is read, for one that is larger than `size_max`, or else
        than any file of its name (`core.file_sizes`).
        """

    async def write_file(self, path: Path, data: Buffer, *, sync: bool = True, sync_name: bool = True) -> None:
        """Replace `path` atomically (temporary sibling, fsync, rename, fsync of the parent); without `sync` no
        fsyncs. Without `sync_name` a crash may bring the old file back until `sync_directory` of the parent.
        """

    async def write_directory(self, path: Path, files: Mapping[str, Buffer]) -> None:
        """Create a directory with these files, durably: contents, names, and its own name. Its parent is created where
        it is absent, whose name is the caller's to sync. A crash or an error leaves any part of this.
        """

    async def list_directory(self, path: Path) -> Sequence[DirectoryEntry]:
        """Return the entries, sorted by name."""

    async def exists(self, path: Path) -> bool: ...

    async def make_directory(self, path: Path) -> None:
        """Create a directory and its parents; no error if it exists."""

    async def rename(self, source: Path, target: Path) -> None:
        """Rename atomically; replace a file or an empty directory."""

    async def remove(self, path: Path) -> None:
        """Remove a file; no error if it is absent. Open handles stay readable."""

    async def remove_tree(self, path: Path) -> None: ...

    async def sync_directory(self, path: Path) -> None: ...

    async def filesystem_sync(self, path: Path) -> FilesystemSync | None:
        """Begin to write many small files of the filesystem of this directory, to sync them at once; None where the
        platform cannot: sync each of them.
        """

    async def space(self, path: Path) -> DiskSpace:
        """Return the space of the filesystem that holds a path."""
