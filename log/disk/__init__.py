"""The `Disk` port, its implementation on the operating system, and the lock of a directory.

port               declares every effect on local files. A simulation implements it too.
os_disk            implements the port on the operating system's files.
filesystem_sync    syncs a whole filesystem at once, where the platform can.
open_file          orders the calls on one open file.
threads            runs blocking calls on a disk's threads, and limits its queue.
sending            sends a slice of a file to a transport.
run_to_completion  finishes a change of several files although its caller was cancelled.
durable_directory  creates a directory whose name survives a crash, or one with its files.
directory_lock     takes the `.lock` file of a log directory, as Apache Kafka's broker does.
"""

from __future__ import annotations

from .directory_lock import LogDirectoryLockedError, lock_directory
from .durable_directory import make_directory_durably, write_directory_stepwise
from .os_disk import OsDisk
from .port import Buffer, DirectoryEntry, Disk, DiskFile, DiskSpace, FilesystemSync, check_size
from .sending import send_copy

__all__ = [
    "Buffer",
    "DirectoryEntry",
    "Disk",
    "DiskFile",
    "DiskSpace",
    "FilesystemSync",
    "LogDirectoryLockedError",
    "OsDisk",
    "check_size",
    "lock_directory",
    "make_directory_durably",
    "send_copy",
    "write_directory_stepwise",
]
