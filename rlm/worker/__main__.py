"""The worker: copies and deletes what its broker says, at the lowest priority, until the broker's socket ends.

Its standard input is that socket. It reads `Open` first, builds the plugin, and runs the calls beside one another; the
broker has the limits. Nothing is left to be done at the end: a copy that is cut off is swept by the next leader, as
after a broker that died. So it exits at once, whatever a thread of the plugin still waits for.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from typing import Final

from ...log.segment import BytesSource
from ...plugin_options import PluginError
from ...protocol import OUTSIDE
from ...remote import IndexType, LogSegmentData, RemoteStorageError, RemoteStorageManager, load_remote_storage
from ..checked_source import copy_checked
from .core.messages import OPEN_CALL, Cancel, Copy, Delete, Done, LogLine, Message, Open, Opened, encode
from .failures import failure_of
from .process import receive

NICE: Final = 19
"""Among the threads of a control group it yields to all others. It is in a session of its own too: where the kernel
schedules by sessions (autogroups), what it computes is then not taken from its broker's share. There its share is that
of any other session, and not less: what a thread holds in the file system while it has no CPU (a place in the journal)
the broker waits for.
"""
UNSENT_BYTES_MAX: Final = 1 << 20
"""A log line is dropped while so much waits for a broker that does not read."""

logger = logging.getLogger(__package__)


class ToBroker(logging.Handler):
    """Sends messages, and log lines from any thread."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        super().__init__()
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def send(self, message: Message) -> None:
        if not self._writer.is_closing():
            self._writer.write(encode(message))

    def emit(self, record: logging.LogRecord) -> None:
        line = LogLine(record.name, record.levelno, self.format(record))
        if threading.get_ident() == self._thread:
            self._send_line(line)
        else:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._send_line, line)

    def _send_line(self, line: LogLine) -> None:
        if self._writer.transport.get_write_buffer_size() < UNSENT_BYTES_MAX:
            self.send(line)


class OpenedLog:
    """The log of a segment, opened by its path: a file that no longer changes."""

    def __init__(self, path: Path, size: int) -> None:
        self.path: Final = path
        self.size: Final = size
        # An object, which closes itself where a call is cancelled while a thread opens it.
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - the copy closes it

    async def read(self, offset: int, count: int) -> bytes:
        return await asyncio.to_thread(os.pread, self._file.fileno(), min(count, max(0, self.size - offset)), offset)

    def close(self) -> None:
        self._file.close()


class Worker:
    """The calls under way, on one storage."""

    def __init__(self, storage: RemoteStorageManager, broker: ToBroker) -> None:
        self._storage = storage
        self._broker = broker
        self._calls: dict[int, asyncio.Task[None]] = {}

    def take(self, message: Message) -> None:
        match message:
            case Copy(call):
                self._begin(call, self._copy(message))
            case Delete(call, metadata):
                self._begin(call, self._storage.delete_log_segment_data(metadata))
            case Cancel(call) if call in self._calls:
                self._calls[call].cancel()

    def _begin(self, call: int, work: Awaitable[bytes | None]) -> None:
        self._calls[call] = asyncio.create_task(self._run(call, work))

    async def _run(self, call: int, work: Awaitable[bytes | None]) -> None:
        try:
            answer: Message = Done(call, await work)
        except (*OUTSIDE, asyncio.CancelledError) as error:
            answer = failure_of(call, error)
        except Exception as error:
            logger.exception("internal error in the storage plugin")
            answer = failure_of(call, error)
        del self._calls[call]
        self._broker.send(answer)

    async def _copy(self, order: Copy) -> bytes | None:
        log = await asyncio.to_thread(OpenedLog, Path(order.path), order.size)
        try:
            indexes = {IndexType(kind): BytesSource(content) for kind, content in order.indexes.items()}
            data = LogSegmentData(log, indexes)
            if order.is_checked:
                return await copy_checked(self._storage, order.metadata, data)
            return await self._storage.copy_log_segment_data(order.metadata, data)
        finally:
            log.close()


async def serve(channel: socket.socket) -> None:
    """Serve until the broker ends."""
    reader, writer = await asyncio.open_unix_connection(sock=channel)
    broker = ToBroker(writer)
    logging.basicConfig(level=logging.INFO, handlers=[broker], format="%(message)s")
    order = await receive(reader)
    assert isinstance(order, Open), order
    try:
        storage = load_remote_storage(order.plugin, order.options, key_prefix=order.key_prefix)
    except (PluginError, RemoteStorageError) as error:
        broker.send(failure_of(OPEN_CALL, RemoteStorageError(str(error))))
        await writer.drain()
        return
    broker.send(Opened())
    worker = Worker(storage, broker)
    with suppress(asyncio.IncompleteReadError):
        while True:
            worker.take(await receive(reader))


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # a terminal's and a service manager's, for all
        signal.signal(number, signal.SIG_IGN)
    os.nice(NICE)
    channel = socket.socket(fileno=os.dup(0))
    channel.setblocking(False)
    loop = asyncio.new_event_loop()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # a program that a plugin starts must not keep the socket open
    try:
        loop.run_until_complete(serve(channel))  # `asyncio.run` would wait for the calls, and for threads
    finally:
        os._exit(0)


main()
