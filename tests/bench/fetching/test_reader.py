"""The reader counts what comes, whatever it is; the bare loops send what was asked for."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tierfetch.bench.fetching.bare import COPY_BYTES, PLACE, WAYS, accept, answer_all, bare_requests
from tierfetch.bench.fetching.cache import make_cold, make_warm
from tierfetch.bench.fetching.reader import (
    REPEATS_MAX,
    SIZE,
    Count,
    ReadingFailedError,
    fill,
    read_all,
    receive_answer,
)
from tierfetch.bench.fetching.requests import PARTITION_BYTES, PreparedRequest


@contextmanager
def serving(paths: Sequence[Path], way: str = "sendfile") -> Iterator[int]:
    """Run a bare server in this process; yields its port."""
    files = [os.open(path, os.O_RDONLY) for path in paths]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, args=(listener, files, WAYS[way]), daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    for file in files:
        os.close(file)


def written(path: Path, size: int) -> Path:
    path.write_bytes(os.urandom(size))
    return path


@pytest.mark.parametrize("way", WAYS)
def test_every_byte_of_every_file_is_received_and_counted(tmp_path: Path, way: str) -> None:
    sizes = [PARTITION_BYTES * 2 + 5, 1, PARTITION_BYTES]
    paths = [written(tmp_path / str(number), size) for number, size in enumerate(sizes)]
    shares = [bare_requests([size], number) for number, size in enumerate(sizes)]
    with serving(paths, way) as port:
        reading = read_all(port, [*shares, []])
    assert (reading.received_bytes, reading.repeats) == (sum(sizes), 0)
    assert 0 < reading.first_answer_s <= reading.wall_s


@pytest.mark.parametrize("way", WAYS)
def test_a_bare_loop_sends_the_bytes_of_the_place(tmp_path: Path, way: str) -> None:
    path = written(tmp_path / "a", COPY_BYTES * 3)
    file = os.open(path, os.O_RDONLY)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        its, _ = listener.accept()
    served = threading.Thread(target=answer_all, args=(its, [file], WAYS[way]))
    served.start()
    ours.sendall(SIZE.pack(PLACE.size) + PLACE.pack(0, 7, COPY_BYTES * 2))
    received = memoryview(bytearray(COPY_BYTES * 2))
    assert receive_answer(ours, received) == len(received)
    assert received == path.read_bytes()[7 : 7 + len(received)]
    ours.close()
    served.join()
    os.close(file)


def test_an_answer_that_came_short_is_asked_for_again() -> None:
    count = Count()
    assert not count.may_go_on(10, 4)
    assert count.may_go_on(10, 10)
    assert (count.received_bytes, count.repeats) == (10, 1)


def test_a_larger_answer_ends_the_reading() -> None:
    with pytest.raises(ReadingFailedError, match="11 bytes came where 10"):
        Count().may_go_on(10, 11)


def test_it_does_not_ask_again_for_ever() -> None:
    count = Count()
    for _ in range(REPEATS_MAX):
        assert not count.may_go_on(10, 4)
    with pytest.raises(ReadingFailedError, match="once too often"):
        count.may_go_on(10, 4)


def test_a_server_that_answers_short_fails_the_whole_reading(tmp_path: Path) -> None:
    paths = [written(tmp_path / "a", 100)]
    lacking = [PreparedRequest(request.frame, request.answer_bytes + 1) for request in bare_requests([100])]
    with serving(paths) as port, pytest.raises(ReadingFailedError, match="100 bytes came, and not 101"):
        read_all(port, [lacking])


def test_an_announced_size_beyond_the_buffer_is_not_read() -> None:
    ours, its = socket.socketpair()
    with ours, its:
        its.sendall(SIZE.pack(11) + bytes(11))
        with pytest.raises(ReadingFailedError, match="11 bytes was announced"):
            receive_answer(ours, memoryview(bytearray(10)))


def test_a_stream_that_ends_half_way_is_an_error() -> None:
    ours, its = socket.socketpair()
    with ours:
        its.sendall(b"abc")
        its.close()
        with pytest.raises(ConnectionResetError, match="after 3 of 4"):
            fill(ours, memoryview(bytearray(4)))


def test_a_cache_can_be_emptied_and_filled(tmp_path: Path) -> None:
    path = written(tmp_path / "a", 100_000)
    data = path.read_bytes()
    make_cold([path])
    make_warm([path])
    assert path.read_bytes() == data
