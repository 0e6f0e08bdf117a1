"""What the machine itself allows: one process sends files, another receives, checks and writes them. No broker at all.

The sender sends one way of `fetching/bare.py`; the receiver fills one buffer, sums each quarter of a megabyte (CRC-32C,
as of a batch) and writes it to a new file. Replication over a socket does at least this.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import resource
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from crc32c import crc32c

from .fetching.bare import COPY_BYTES, WAYS
from .measure import Elapsed

BUFFER_BYTES: Final = 1 << 20
SUMMED_BYTES: Final = 1 << 18


def bare_copy(sources: Sequence[Path], target: Path, way: str) -> Elapsed:
    """Wall seconds, and CPU seconds of both ends, for all of these files."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        context = multiprocessing.get_context("spawn")
        ends, sender_cpu_s = context.Pipe(duplex=False)
        sender = context.Process(target=_send, args=(listener.getsockname()[1], list(sources), way, sender_cpu_s))
        sender.start()
        connection, _ = listener.accept()
        with connection, open(target, "wb", buffering=0) as file:
            connection.recv(1)
            began, cpu_s = time.perf_counter(), _cpu_seconds()
            _receive(connection, file.fileno())
            copied = Elapsed(time.perf_counter() - began, _cpu_seconds() - cpu_s + ends.recv())
        sender.join()
        target.unlink()
        return copied


def _send(port: int, sources: list[Path], way: str, cpu_s: multiprocessing.connection.Connection) -> None:
    buffer = memoryview(bytearray(COPY_BYTES))
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.send(b"!")
        began_cpu_s = _cpu_seconds()
        for path in sources:
            with open(path, "rb") as file:
                WAYS[way](file.fileno(), 0, os.fstat(file.fileno()).st_size, connection.fileno(), buffer)
        cpu_s.send(_cpu_seconds() - began_cpu_s)


def _receive(connection: socket.socket, target: int) -> None:
    buffer = memoryview(bytearray(BUFFER_BYTES))
    position = filled = 0
    while True:
        count = connection.recv_into(buffer[filled:])
        filled += count
        if filled == BUFFER_BYTES or not count:
            for start in range(0, filled, SUMMED_BYTES):
                crc32c(buffer[start : min(start + SUMMED_BYTES, filled)])
            position += os.pwrite(target, buffer[:filled], position)
            filled = 0
        if not count:
            return


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
