"""Clients that mean no good, or are broken, at a broker that runs: it stays up, within its memory, serves the rest"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.protocol.api import ApiKey
from tierfetch.tests.process.clients import Librdkafka, create_topic

pytestmark = pytest.mark.plaintext

TIMEOUT_S = 10.0
MIB = 1024 * 1024
GROWTH_BYTES_MAX = 64 * MIB


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One broker with a topic."""
    with LocalCluster(tmp_path_factory.mktemp("hostile"), (1,)) as cluster:
        create_topic(cluster.bootstrap_servers, "t", replicas=1)
        Librdkafka().produce(cluster.bootstrap_servers, "t", [b"before"], "none")
        yield cluster


def resident_bytes(cluster: LocalCluster) -> int:
    pages = Path(f"/proc/{cluster.process(1).pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(autouse=True)
def unharmed(cluster: LocalCluster) -> Iterator[None]:
    """After each attack: the same process, hardly larger, serves a real client."""
    before = resident_bytes(cluster)
    yield
    assert cluster.process(1).poll() is None, cluster.log_tail(1)
    assert Librdkafka().consume(cluster.bootstrap_servers, "t", 1) == [b"before"]
    assert resident_bytes(cluster) - before < GROWTH_BYTES_MAX
    assert "Traceback" not in cluster.log_file(1).read_text()


def connect(cluster: LocalCluster, port: int | None = None) -> socket.socket:
    """To the broker, unless a port is given."""
    return socket.create_connection(("127.0.0.1", port or cluster.port(1)), TIMEOUT_S)


def frame(key: int, version: int, body: bytes) -> bytes:
    """A request with the header of version 1: correlation id 7, client id "x"."""
    content = struct.pack(">hhih", key, version, 7, 1) + b"x" + body
    return struct.pack(">i", len(content)) + content


def everything_answered(connection: socket.socket) -> bytes:
    """What the broker says until it closes the connection."""
    said = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := connection.recv(65536):
            said += chunk
    return said


def test_random_bytes_close_their_connection_only(cluster: LocalCluster) -> None:
    rng = random.Random(1)
    for _ in range(100):
        with connect(cluster) as connection:
            connection.sendall(rng.randbytes(rng.randrange(1, 2000)))
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
            everything_answered(connection)


def test_random_bodies_of_every_api_and_version(cluster: LocalCluster) -> None:
    """Whatever the handler thinks of it, it answers or closes."""
    rng = random.Random(2)
    for key in ApiKey:
        for version in range(key.min_version, key.max_version + 1):
            with connect(cluster) as connection:
                connection.sendall(frame(key, version, rng.choice((b"", bytes(200), rng.randbytes(200)))))
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_WR)
                everything_answered(connection)


@pytest.mark.parametrize(("key", "version"), [(0, 99), (1, -1), (1, 32767), (999, 0), (-1, 0)])
def test_unknown_apis_and_versions_close_the_connection(cluster: LocalCluster, key: int, version: int) -> None:
    with connect(cluster) as connection:
        connection.sendall(frame(key, version, b"\0"))
        assert everything_answered(connection) == b""


def test_an_unknown_version_of_api_versions_is_told_the_known_ones(cluster: LocalCluster) -> None:
    with connect(cluster) as connection:
        connection.sendall(frame(ApiKey.API_VERSIONS, 99, b"\0"))
        answer = connection.recv(65536)
    _, correlation_id, error, apis = struct.unpack_from(">iihi", answer)
    assert (correlation_id, error) == (7, 35)
    assert apis > 10


@pytest.mark.parametrize("size", [-1, -(2**31), 100 * MIB + 1, 2**31 - 1])
def test_sizes_beyond_the_limit_are_refused_at_once(cluster: LocalCluster, size: int) -> None:
    with connect(cluster) as connection:
        connection.sendall(struct.pack(">i", size) + bytes(12))
        assert everything_answered(connection) == b""


def test_claimed_sizes_take_no_memory_until_the_bytes_come(cluster: LocalCluster) -> None:
    """60 times 99 MiB are announced as Produce, and a little of each is sent."""
    with contextlib.ExitStack() as stack:
        for _ in range(60):
            connection = stack.enter_context(connect(cluster))
            connection.sendall(struct.pack(">ihhih", 99 * MIB, 0, 9, 1, -1) + bytes(1000))
        assert Librdkafka().consume(cluster.bootstrap_servers, "t", 1) == [b"before"]
        assert resident_bytes(cluster) < 250 * MIB


def test_half_a_request_and_gone(cluster: LocalCluster) -> None:
    whole = frame(3, 1, struct.pack(">ih", 1, 1) + b"t")
    for length in range(len(whole)):
        with connect(cluster) as connection:
            connection.sendall(whole[:length])


def test_counts_that_promise_more_than_there_is(cluster: LocalCluster) -> None:
    for key, version in ((0, 7), (1, 4), (2, 1), (3, 1), (19, 2), (23, 2)):
        for count in (2**31 - 1, 10**6, -2):
            with connect(cluster) as connection:
                connection.sendall(frame(key, version, struct.pack(">i", count) * 8))
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_WR)
                everything_answered(connection)


def test_many_idle_connections_and_requests_without_readers(cluster: LocalCluster) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(500):
            stack.enter_context(connect(cluster))
        for _ in range(20):
            connection = stack.enter_context(connect(cluster))
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    connection.send(frame(3, 1, struct.pack(">i", -1)) * 200)
        assert Librdkafka().consume(cluster.bootstrap_servers, "t", 1) == [b"before"]


def test_a_controller_refuses_what_is_too_large_and_random_bytes_too(cluster: LocalCluster) -> None:
    """It says in its log what it refused and why, and goes on governing."""
    quorum = cluster.quorum
    assert quorum is not None
    (node,) = quorum.nodes
    plain = frame(ApiKey.DELETE_TOPICS, 1, struct.pack(">i", 60_000) + bytes(2 * 60_000))
    for data in (struct.pack(">i", 100 * MIB + 1), struct.pack(">i", -1), plain):
        with connect(cluster, quorum.port(node)) as connection:
            with contextlib.suppress(ConnectionError):
                connection.sendall(data)
            assert everything_answered(connection) == b""
    rng = random.Random(3)
    for key in ApiKey:
        with connect(cluster, quorum.port(node)) as connection:
            connection.sendall(frame(key, key.max_version, rng.choice((b"", bytes(200), rng.randbytes(200)))))
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
            everything_answered(connection)
    said = quorum.log_file(node).read_text()
    assert "more than 50000 array elements in one message" in said
    assert "a frame of 104857601 bytes is announced" in said
    assert "Traceback" not in said
    create_topic(cluster.bootstrap_servers, "afterwards", replicas=1)
