"""A file system that fails, hangs, fills or forgets on command: FUSE over a directory, in a process of its own.

    with SickDisk(base) as disk:          # a process; `disk.path` is mounted
        disk.fail("*.log", "write", errno.EIO)
        ...
        disk.heal()

| command                       | what the programs on it see                                                       |
|-------------------------------|-----------------------------------------------------------------------------------|
| `fail(glob, operation, code)` | the error, at each such call on a file whose path matches                         |
| `hang(glob, operation)`       | no answer before `heal`                                                           |
| `forget(glob)`                | a failed fsync, and what was written since the last good one is gone              |
| `limit(bytes)`                | ENOSPC beyond so many bytes in all files; `statvfs` tells it                      |
| `lose_unsynced()`             | every file as of its last good fsync: the device lost power, the program did not  |
| `heal()`                      | the rules are gone, calls that hang go on; what was lost stays lost               |

Globs are of the path below the mount; `*` crosses slashes. Operations are those of `OPERATIONS`. Nothing is kept in
the kernel's page cache (direct I/O): what is read is what the device has.

Needs root or fusermount3, /dev/fuse, and libfuse3 from the system's packages: `why_not()` says what is missing.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import functools
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar, cast

from tierfetch.cli.local.processes import poll

OPERATIONS: Final = frozenset(
    {"open", "create", "read", "write", "fsync", "truncate", "rename", "unlink", "mkdir", "rmdir", "readdir", "getattr"}
)
Operation = TypeVar("Operation", bound=Callable[..., Any])

READY_S: Final = 10.0
BLOCK: Final = 4096


def why_not() -> str | None:
    """Return why no such disk can be had here; None where it can."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "no access to /dev/fuse"
    if shutil.which("fusermount3") is None and os.geteuid() != 0:
        return "no fusermount3, and not root"
    try:
        import mfusepy  # noqa: F401 - finds libfuse when imported
    except (ImportError, OSError) as error:
        return f"{error} (Debian: apt-get install fuse3 libfuse3-3)"
    return None


class SickDisk:
    """The disk, as a test sees it. It is well at first."""

    def __init__(self, base: Path) -> None:
        self.path = base / "mounted"
        self.device = base / "device"
        """Where the files are, whatever the disk says of them."""
        self._control = base / "control"

    def __enter__(self) -> SickDisk:
        self.path.mkdir(parents=True)
        self.device.mkdir()
        arguments = [str(self.device), str(self.path), str(self._control)]
        self._process = subprocess.Popen([sys.executable, "-m", __name__, *arguments])
        for _ in poll(READY_S, "the sick disk to be mounted"):
            assert self._process.poll() is None, "the sick disk has ended"
            if os.path.ismount(self.path):
                break
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self.heal()
        tool = ["fusermount3", "-u", "-z"] if shutil.which("fusermount3") else ["umount", "-l"]
        subprocess.run([*tool, str(self.path)], check=False)
        self._process.terminate()
        self._process.wait(READY_S)

    def fail(self, glob: str, operation: str, code: int) -> None:
        self._tell(rule={"glob": glob, "operation": operation, "errno": code})

    def hang(self, glob: str, operation: str) -> None:
        self._tell(rule={"glob": glob, "operation": operation, "errno": None})

    def forget(self, glob: str) -> None:
        self._tell(rule={"glob": glob, "operation": "fsync", "errno": errno.EIO, "forgets": True})

    def limit(self, size: int | None) -> None:
        self._tell(limit=size)

    def lose_unsynced(self) -> None:
        self._tell(lose=True)

    def used_bytes(self) -> int:
        return used_bytes(str(self.device))

    def heal(self) -> None:
        self._tell(heal=True)

    def _tell(self, **command: object) -> None:
        with socket.socket(socket.AF_UNIX) as to:
            to.settimeout(READY_S)
            to.connect(str(self._control))
            to.sendall(json.dumps(command).encode() + b"\n")
            assert to.recv(16) == b"done\n", command


class Rules:
    """What is wrong at the moment. Several threads of the file system look at it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._rules: list[Mapping[str, Any]] = []
        self.limit: int | None = None

    def add(self, rule: Mapping[str, Any]) -> None:
        assert rule["operation"] in OPERATIONS, rule
        with self._changed:
            self._rules.append(rule)

    def heal(self) -> None:
        with self._changed:
            self._rules.clear()
            self.limit = None
            self._changed.notify_all()

    def look(self, path: str, operation: str) -> Mapping[str, Any] | None:
        """Return the rule for this call, the newest first. One that hangs is waited for."""
        with self._changed:
            while (rule := self._find(path, operation)) is not None and rule["errno"] is None:
                self._changed.wait()
            return rule

    def _find(self, path: str, operation: str) -> Mapping[str, Any] | None:
        name = path.lstrip("/")
        for rule in reversed(self._rules):
            if rule["operation"] == operation and fnmatch.fnmatchcase(name, rule["glob"]):
                return rule
        return None


class Unsynced:
    """What each file held before the writes since its last good fsync, newest last: (offset, bytes, size of file)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._before: dict[str, list[tuple[int, bytes, int]]] = {}

    def note(self, path: str, file: int, offset: int, size: int) -> None:
        with self._lock:
            before = os.pread(file, size, offset)
            self._before.setdefault(path, []).append((offset, before, os.fstat(file).st_size))

    def synced(self, path: str) -> None:
        with self._lock:
            self._before.pop(path, None)

    def renamed(self, old: str, new: str) -> None:
        with self._lock:
            self._before.pop(new, None)
            if old in self._before:
                self._before[new] = self._before.pop(old)

    def paths(self) -> Sequence[str]:
        return list(self._before)

    def forget(self, path: str, device: str) -> None:
        """Give the file what it had when it was last synced."""
        with self._lock:
            changes = self._before.pop(path, [])
            if not changes or not os.path.exists(device):
                return
            with open(device, "r+b") as file:
                for offset, before, size in reversed(changes):
                    file.seek(offset)
                    file.write(before)
                    file.truncate(size)


def ruled(operation: Operation) -> Operation:
    """Look at the rules before the call."""

    @functools.wraps(operation)
    def looked(device: _Device, path: str, *arguments: Any, **more: Any) -> Any:
        rule = device.rules.look(path, operation.__name__)
        if rule is None:
            return operation(device, path, *arguments, **more)
        if rule.get("forgets"):
            device.unsynced.forget(path, device.place(path))
        raise OSError(rule["errno"], os.strerror(rule["errno"]))

    return cast("Operation", looked)


class _Device:
    """Passes every call on to a directory, unless a rule says otherwise. As `mfusepy.Operations` has them."""

    use_ns = True
    """Times are whole nanoseconds."""

    def __init__(self, device: str) -> None:
        self.rules = Rules()
        self.unsynced = Unsynced()
        self._device = device

    def obey(self, command: Mapping[str, Any]) -> None:
        if "rule" in command:
            self.rules.add(command["rule"])
        if "limit" in command:
            self.rules.limit = command["limit"]
        if "lose" in command:
            for path in self.unsynced.paths():
                self.unsynced.forget(path, self.place(path))
        if "heal" in command:
            self.rules.heal()

    def place(self, path: str) -> str:
        return self._device + path

    def _take_room(self, size: int) -> None:
        if self.rules.limit is not None and used_bytes(self._device) + size > self.rules.limit:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    @ruled
    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        found = os.lstat(self.place(path))
        fields = ("st_mode", "st_nlink", "st_size", "st_uid", "st_gid")
        times = {f"st_{each}time": getattr(found, f"st_{each}time_ns") for each in ("a", "m", "c")}
        return {field: getattr(found, field) for field in fields} | times

    @ruled
    def readdir(self, path: str, fh: int) -> list[str]:
        return [".", "..", *os.listdir(self.place(path))]

    @ruled
    def open(self, path: str, flags: int) -> int:
        return os.open(self.place(path), flags & ~os.O_DIRECT)

    @ruled
    def create(self, path: str, mode: int, fi: Any = None) -> int:
        self._take_room(0)
        return os.open(self.place(path), os.O_RDWR | os.O_CREAT | os.O_TRUNC, mode)

    @ruled
    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return os.pread(fh, size, offset)

    @ruled
    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        with self._readable(path) as file:
            self._take_room(max(0, offset + len(data) - os.fstat(file).st_size))
            self.unsynced.note(path, file, offset, len(data))
        return os.pwrite(fh, data, offset)

    @ruled
    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        with self._readable(path) as file:
            size = os.fstat(file).st_size
            self.unsynced.note(path, file, min(length, size), max(0, size - length))
        os.truncate(self.place(path), length)
        return 0

    @contextlib.contextmanager
    def _readable(self, path: str) -> Iterator[int]:
        file = os.open(self.place(path), os.O_RDONLY)
        try:
            yield file
        finally:
            os.close(file)

    @ruled
    def fsync(self, path: str, datasync: int, fh: int) -> int:
        os.fsync(fh)
        self.unsynced.synced(path)
        return 0

    def fsyncdir(self, path: str, datasync: int, fh: int) -> int:
        return 0

    def release(self, path: str, fh: int) -> int:
        os.close(fh)
        return 0

    @ruled
    def rename(self, old: str, new: str, *flags: Any) -> int:
        os.rename(self.place(old), self.place(new))
        self.unsynced.renamed(old, new)
        return 0

    @ruled
    def unlink(self, path: str) -> int:
        os.unlink(self.place(path))
        self.unsynced.synced(path)
        return 0

    @ruled
    def mkdir(self, path: str, mode: int) -> int:
        os.mkdir(self.place(path), mode)
        return 0

    @ruled
    def rmdir(self, path: str) -> int:
        os.rmdir(self.place(path))
        return 0

    def link(self, target: str, source: str) -> int:
        os.link(self.place(source), self.place(target))
        return 0

    def chmod(self, path: str, mode: int) -> int:
        os.chmod(self.place(path), mode)
        return 0

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        os.utime(self.place(path), ns=times)
        return 0

    def statfs(self, path: str) -> dict[str, int]:
        found, limit = os.statvfs(self._device), self.rules.limit
        total = found.f_bavail * found.f_frsize if limit is None else limit
        left = total if limit is None else max(0, limit - used_bytes(self._device))
        return {
            "f_bsize": BLOCK,
            "f_frsize": BLOCK,
            "f_blocks": total // BLOCK,
            "f_bfree": left // BLOCK,
            "f_bavail": left // BLOCK,
            "f_namemax": 255,
        }


def used_bytes(directory: str) -> int:
    """Return the bytes of all files below it, while others write, rename and delete there."""
    return sum(_size(os.path.join(at, name)) for at, _, names in os.walk(directory) for name in names)


def _size(path: str) -> int:
    """Return its bytes; 0 if another call renamed or deleted it in the meantime."""
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


def serve(directory: str, mount: str, control: str) -> None:
    """Mount, and serve until unmounted."""
    import mfusepy

    class Files(_Device, mfusepy.Operations):  # type: ignore[misc]  # mfusepy is untyped
        """The device, with mfusepy's answers to what it does not have."""

    device = Files(directory)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(control)
    listener.listen()
    threading.Thread(target=_listen, args=(listener, device), daemon=True).start()
    uncached = {"direct_io": True, "attr_timeout": 0, "entry_timeout": 0, "negative_timeout": 0}
    mfusepy.FUSE(device, mount, foreground=True, max_threads=32, max_idle_threads=32, **uncached)


def _listen(listener: socket.socket, device: _Device) -> None:
    while True:
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as lines:
            device.obey(json.loads(lines.readline()))
            connection.sendall(b"done\n")


if __name__ == "__main__":
    serve(*sys.argv[1:])
