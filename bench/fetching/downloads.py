"""A process that reads objects of an S3 server by ranges through boto3, as a program without any broker would.

Each connection has a thread, which asks for one range after another and throws away what comes: what a reader of a
broker is compared with.
"""

from __future__ import annotations

import multiprocessing.connection
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .reader import Reading, ReadingFailedError, answer_all, asked, reading_process
from .requests import pieces

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

READ_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Range:
    """A part of an object: bytes [offset, offset + count)."""

    key: str
    offset: int
    count: int


def ranges_by_partition(sizes: Mapping[str, int], range_bytes: int) -> list[list[Range]]:
    """Return the ranges that read these objects, by size and key; those below one directory in the order of offsets."""
    found: dict[str, list[Range]] = {}
    for key in sorted(sizes):
        directory, _, _ = key.rpartition("/")
        found.setdefault(directory, []).extend(Range(key, *each) for each in pieces(sizes[key], range_bytes))
    return list(found.values())


def download_all(client: S3Client, bucket: str, shares: Sequence[Sequence[Range]]) -> Reading:
    """Read each share on a thread of its own, all at the same time. ReadingFailedError if anything is missing."""
    shares = [share for share in shares if share]
    firsts_at: list[float] = []
    failures: list[str] = []

    def read(share: Sequence[Range]) -> None:
        try:
            for number, wanted in enumerate(share):
                _read(client, bucket, wanted)
                if number == 0:
                    firsts_at.append(time.perf_counter())
        except Exception as error:  # noqa: BLE001 - a thread's error ends the reading, whatever it is
            failures.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=read, args=(share,), daemon=True) for share in shares]
    began, cpu_s = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu_s
    if failures:
        raise ReadingFailedError(failures[0])
    received = sum(wanted.count for share in shares for wanted in share)
    return Reading(received, wall_s, cpu_s, min(firsts_at) - began, 0)


def _read(client: S3Client, bucket: str, wanted: Range) -> None:
    stated = f"bytes={wanted.offset}-{wanted.offset + wanted.count - 1}"
    body = client.get_object(Bucket=bucket, Key=wanted.key, Range=stated)["Body"]
    left = wanted.count
    while piece := body.read(READ_BYTES):
        left -= len(piece)
    if left:
        raise ReadingFailedError(f"{wanted.key}: {wanted.count - left} of {wanted.count} bytes came")


class Downloader:
    """The process, as the measuring one has it."""

    def __init__(self, pipe: multiprocessing.connection.Connection, pid: int) -> None:
        self._pipe = pipe
        self.pid = pid

    def read(self, shares: Sequence[Sequence[Range]]) -> Reading:
        """Read all shares. ReadingFailedError as `download_all`."""
        return asked(self._pipe, [list(share) for share in shares])


@contextmanager
def downloader_process(port: int, bucket: str, connections: int) -> Iterator[Downloader]:
    """Run the process as long as the block lasts. Its client has a connection for each thread."""
    with reading_process(_serve, port, bucket, connections) as (pipe, pid):
        yield Downloader(pipe, pid)


def _serve(pipe: multiprocessing.connection.Connection, port: int, bucket: str, connections: int) -> None:
    from ..lab.s3 import client_of

    client = client_of(port, connections)
    answer_all(pipe, lambda shares: download_all(client, bucket, shares))
