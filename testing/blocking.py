"""Detects calls that block the event loop: by what they do on its thread, and by how long it is kept.

| evidence                                                       | how it is seen                                    |
|----------------------------------------------------------------|---------------------------------------------------|
| time.sleep, a file opened, listed, renamed or removed, SQLite  | Python's audit events on the loop's thread, while |
| opened, a process started, urllib                              | the watch is on                                   |
| SQL of an open SQLite database, an open file read or written,  | calls of C functions on the loop's thread, which  |
| synced or looked up, a blocking socket                         | `sys.setprofile` reports                          |
| anything else that takes longer than `blocks_max_s`            | a thread that waits for the loop's heartbeat      |

The first two need no clock, so a loaded machine changes nothing, and no call is too quick to be seen. An audit hook
cannot be removed: there is one, which does nothing without a watch.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import FrameType
from typing import Any, Final, SupportsIndex

BLOCKING_EVENTS: Final = frozenset(
    {
        "open",
        "os.listdir",
        "os.mkdir",
        "os.remove",
        "os.rename",
        "os.rmdir",
        "os.scandir",
        "sqlite3.connect",
        "subprocess.Popen",
        "urllib.Request",
    }
)
_FILE: Final = frozenset({"read", "readinto", "readinto1", "read1", "readall", "write", "writelines", "flush"})
_SQL: Final = frozenset({"execute", "executemany", "executescript", "commit", "rollback", "fetchone", "fetchall"})
BLOCKING_METHODS: Final[dict[str, frozenset[str]]] = {
    "_io.BufferedRandom": _FILE,
    "_io.BufferedReader": _FILE,
    "_io.BufferedWriter": _FILE,
    "_io.FileIO": _FILE,
    "sqlite3.Connection": _SQL,
    "sqlite3.Cursor": _SQL,
}
"""The methods in C that wait for a disk, by their type."""
BLOCKING_FUNCTIONS: Final = frozenset(
    {"copy_file_range", "fdatasync", "fsync", "lstat", "pread", "preadv", "pwrite", "pwritev", "stat", "truncate"}
)
"""The functions of the module `os` that do."""
SOCKET_CALLS: Final = frozenset({"accept", "connect", "recv", "recv_into", "send", "sendall"})
FRAMES_SHOWN: Final = 6

_watches: dict[int, _Watch] = {}
"""The running watches by thread."""
_hooked: list[bool] = []


class _Watch:
    """What was seen on one loop's thread."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def note(self, what: str, frame: FrameType | None) -> None:
        self.seen.append(f"{what} on the event loop's thread:\n{_stack(frame)}")


def _stack(frame: FrameType | None) -> str:
    """Return the innermost frames, without their source: reading it would open files, which is what is watched."""
    lines: list[str] = []
    while frame is not None and len(lines) < FRAMES_SHOWN:
        lines.append(f"  {frame.f_code.co_filename}:{frame.f_lineno}, in {frame.f_code.co_qualname}\n")
        frame = frame.f_back
    return "".join(lines)


def _hook(
    event: str,
    _: object,
    # A hook stays until the interpreter ends, when this module's names are gone.
    events: frozenset[str] = BLOCKING_EVENTS,
    watches: Mapping[int, _Watch] = _watches,
    get_ident: Callable[[], int] = threading.get_ident,
) -> None:
    if event in events and (watch := watches.get(get_ident())) is not None:
        watch.note(event, sys._getframe(1))


def _blocks(function: Any, frame: FrameType | None) -> str | None:
    """Return the name of a C function that may wait for a disk or a peer; None for any other."""
    owner: Any = getattr(function, "__self__", None)
    name = function.__name__
    if getattr(function, "__module__", None) == "posix":
        is_of_an_import = frame is not None and frame.f_code.co_filename.startswith("<frozen")
        return f"os.{name}" if name in BLOCKING_FUNCTIONS and not is_of_an_import else None
    for kind in type(owner).__mro__:
        known = f"{kind.__module__}.{kind.__qualname__}"
        if name in BLOCKING_METHODS.get(known, ()):
            return f"{known}.{name}"
        if known == "_socket.socket":
            return f"socket.{name}, which blocks," if name in SOCKET_CALLS and owner.gettimeout() != 0 else None
    return None


@asynccontextmanager
async def watched(blocks_max_s: float) -> AsyncIterator[list[str]]:
    """Yield a list to which every blocking call of the block is added, with its stack."""
    if not _hooked:
        sys.addaudithook(_hook)
        _hooked.append(True)
    loop, ident = asyncio.get_running_loop(), threading.get_ident()
    watch, ended = _Watch(), threading.Event()

    def look() -> None:
        while not ended.is_set():
            beat = threading.Event()
            loop.call_soon_threadsafe(beat.set)
            if not beat.wait(blocks_max_s) and not ended.is_set():
                watch.note(f"more than {blocks_max_s:g} s", sys._current_frames().get(ident))
                while not beat.wait(blocks_max_s) and not ended.is_set():
                    pass  # still blocked, or the loop has ended without another step
            ended.wait(blocks_max_s / 10)

    thread = threading.Thread(target=look, name="tierfetch-blocking", daemon=True)
    _watches[ident] = watch
    thread.start()
    sleep = time.sleep

    def sleep_noted(seconds: float | SupportsIndex, /) -> None:
        if threading.get_ident() == ident:
            watch.note("time.sleep", sys._getframe(1))
        sleep(seconds)

    profile = sys.getprofile()

    def profiled(frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and (what := _blocks(function, frame)) is not None:
            watch.note(what, frame)

    sys.setprofile(profiled)  # of this thread
    time.sleep = sleep_noted  # an audit event of its own since Python 3.13 only
    try:
        yield watch.seen
    finally:
        sys.setprofile(profile)
        time.sleep = sleep
        del _watches[ident]
        ended.set()
        await asyncio.to_thread(thread.join)
