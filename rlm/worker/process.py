"""The broker's end of a worker: one process, one socket, the calls under way.

    starting -> open -> ending -> ended
       |                  ^
       +------------------+   also: the worker dies, says what makes no sense, or does not end a cancelled call

| what happens                      | then                                                                        |
|-----------------------------------|-----------------------------------------------------------------------------|
| a call's caller leaves            | Cancel; a worker that does not end the call within `CANCEL_S_MAX` is killed |
| the worker dies, or is killed     | every call ends by RemoteStorageError; what it left is deleted as after     |
|                                   | any copy that failed                                                        |
| the broker dies, kill -9 as well  | the worker reads the end of its socket, and exits at once                   |

Options, with their secrets, pass through the socket: no command line, environment or file has them. The worker's log
lines come the same way, and appear under the logger that wrote them.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Final, Self

from ...light_dataclass import dataclass
from ...remote import RemoteStorageError
from ...remote.core import RemoteLogSegmentMetadata
from .core.messages import (
    OPEN_CALL,
    SIZES,
    Cancel,
    Copy,
    Delete,
    Done,
    Failed,
    LogLine,
    MalformedFrameError,
    Message,
    Open,
    Opened,
    decode,
    encode,
    sizes,
)
from .failures import error_of

START_S_MAX: Final = 60.0
"""A worker of the lowest priority on a busy machine takes its time for its imports."""
CANCEL_S_MAX: Final = 15.0
"""Longer than a plugin may clean up after a call that was cancelled."""
LOOK_S: Final = 0.02
"""Between two looks whether a process that was killed has ended."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StorageRecipe:
    """What builds a storage plugin once more, in another process."""

    plugin: str
    options: Mapping[str, str]
    key_prefix: str

    def __repr__(self) -> str:
        return f"StorageRecipe({self.plugin!r})"


class WorkerStartError(RemoteStorageError):
    """There is no worker: the process cannot be started, or cannot build the plugin."""


async def receive(reader: asyncio.StreamReader) -> Message:
    """Return the next message. IncompleteReadError at the end; MalformedFrameError, OSError."""
    header, body = sizes(await reader.readexactly(SIZES.size))
    return decode(await reader.readexactly(header), await reader.readexactly(body))


class CopyWorker:
    """See the module's docstring."""

    def __init__(
        self, process: subprocess.Popen[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._numbers = itertools.count(OPEN_CALL)
        self._calls: dict[int, asyncio.Future[bytes | None]] = {}
        self._failure: str | None = None
        self._listening = asyncio.create_task(self._listen(), name=f"copy worker {process.pid}")

    @classmethod
    async def start(cls, recipe: StorageRecipe) -> Self:
        """Return a worker that has built the plugin. WorkerStartError."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            process = await asyncio.to_thread(_spawn, theirs)
            worker = cls(process, *await asyncio.open_unix_connection(sock=ours))
        except OSError as error:
            ours.close()
            raise WorkerStartError(f"no worker process can be started: {error}") from error
        except asyncio.CancelledError:
            ours.close()  # by which a process that starts all the same ends
            raise
        try:
            async with asyncio.timeout(START_S_MAX):
                await worker._call(lambda _: Open(recipe.plugin, recipe.options, recipe.key_prefix))
        except TimeoutError as error:
            await worker.close()
            raise WorkerStartError(f"worker process {process.pid} was not ready within {START_S_MAX:g} s") from error
        except RemoteStorageError as error:
            await worker.close()
            raise WorkerStartError(f"worker process {process.pid}: {error}") from error
        except BaseException:
            await worker.close()
            raise
        return worker

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_open(self) -> bool:
        """Whether it takes calls. False does not mean that the process has ended: `ended` waits for that."""
        return self._failure is None

    async def copy(
        self,
        metadata: RemoteLogSegmentMetadata,
        path: str,
        size: int,
        indexes: Mapping[str, bytes],
        *,
        is_checked: bool,
    ) -> bytes | None:
        """Raise what the plugin raises; RemoteStorageError if the worker dies."""
        return await self._call(lambda call: Copy(call, metadata, path, size, indexes, is_checked))

    async def delete(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Raise what the plugin raises; RemoteStorageError if the worker dies."""
        await self._call(lambda call: Delete(call, metadata))

    async def _call(self, request: Callable[[int], Message]) -> bytes | None:
        if self._failure is not None:
            raise RemoteStorageError(self._failure)
        call = next(self._numbers)
        future = self._calls[call] = asyncio.get_running_loop().create_future()
        self._writer.write(encode(request(call)))
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await self._cancel(call, future)
            raise

    async def _cancel(self, call: int, future: asyncio.Future[bytes | None]) -> None:
        """Return once the call has ended: nothing of it becomes visible any longer, except what a delete removes."""
        if future.done():
            return
        self._writer.write(encode(Cancel(call)))
        late = f"worker process {self.pid} did not end a cancelled call within {CANCEL_S_MAX:g} s and was killed"
        timer = asyncio.get_running_loop().call_later(CANCEL_S_MAX, self._fail, late)
        future.add_done_callback(lambda _: timer.cancel())
        await asyncio.wait([future])

    async def _listen(self) -> None:
        failure = f"worker process {self.pid} has ended"
        try:
            while True:
                self._take(await receive(self._reader))
        except asyncio.IncompleteReadError:
            pass
        except (MalformedFrameError, OSError) as error:
            failure = f"worker process {self.pid} is no longer understood: {error}"
        finally:
            self._fail(failure)

    def _take(self, message: Message) -> None:
        match message:
            case LogLine(name, level, text):
                logging.getLogger(name).log(level, "copy worker: %s", text)
            case Opened():
                self._end_call(OPEN_CALL, None)
            case Done(call, custom_metadata):
                self._end_call(call, custom_metadata)
            case Failed():
                self._end_call(message.call, error_of(message))
            case _:
                raise MalformedFrameError(f"{type(message).__name__} from a worker")

    def _end_call(self, call: int, outcome: bytes | Exception | None) -> None:
        future = self._calls.pop(call, None)
        if future is None:
            raise MalformedFrameError(f"the end of call {call}, which is not under way")
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
            future.exception()  # it is no news where the caller has left
        else:
            future.set_result(outcome)

    def _fail(self, failure: str) -> None:
        if self._failure is not None:
            return
        self._failure = failure
        self._process.kill()
        self._writer.close()
        for call in list(self._calls):
            self._end_call(call, RemoteStorageError(failure))

    async def ended(self) -> None:
        """Return once the process has ended; one that hangs in the kernel may never do so."""
        while self._process.poll() is None:  # noqa: ASYNC110 - a process of which the loop is not notified
            await asyncio.sleep(LOOK_S)

    def stop(self, reason: str) -> None:
        """Kill the worker. What it still did is deleted as after any copy that failed."""
        self._fail(f"worker process {self.pid} {reason}")

    async def close(self) -> None:
        """Kill the worker, and listen to it no longer."""
        self.stop("was stopped with its broker")
        self._listening.cancel()
        await asyncio.wait([self._listening])


def _spawn(channel: socket.socket) -> subprocess.Popen[bytes]:
    """Start the process, and close our copy of its end of the socket. Run on a thread."""
    with channel:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", __package__],
            stdin=channel.fileno(),
            stdout=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,
        )
