"""A broker under attack: the honest client does not wait for long and loses nothing; the broker stays small."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.protocol.records import Compression
from tierfetch.tests.abuse import attacks
from tierfetch.tests.bombs import batch_of, empty_records, header_bomb
from tierfetch.tests.process.clients import create_topic

pytestmark = pytest.mark.usefixtures("unharmed")

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("abuse"), (1,)) as cluster:
        servers = cluster.bootstrap_servers
        create_topic(servers, "t", replicas=1)
        create_topic(servers, "plain", replicas=1)
        create_topic(servers, "compacted", replicas=1, configs={"cleanup.policy": "compact"})
        create_topic(servers, "lz4", replicas=1, configs={"compression.type": "lz4"})
        yield cluster


REQUESTS: dict[str, Callable[[], bytes]] = {
    "produce 900,000": lambda: attacks.produce_nothing("unknown", 900_000),
    "produce 190,000": lambda: attacks.produce_nothing("unknown", 190_000),
    "produce 190,000 of a topic": lambda: attacks.produce_nothing("t", 190_000),
    "metadata of 999,000 empty names": lambda: attacks.metadata([""] * 999_000),
    "metadata of 49,000 empty names": lambda: attacks.metadata([""] * 49_000),
    "metadata of 49,000 names": lambda: attacks.metadata([f"n{number}" for number in range(49_000)]),
    "offsets of one partition 190,000 times": lambda: attacks.list_offsets("t", [struct.pack(">iq", 0, 1)] * 190_000),
    "offsets of 50,000 times": lambda: attacks.list_offsets("t", [struct.pack(">iq", 0, n) for n in range(50_000)]),
    "coordinators of 300,000": lambda: attacks.find_coordinator(300_000),
    "coordinators of 49,000": lambda: attacks.find_coordinator(49_000),
    "groups 49,000": lambda: attacks.describe_groups(49_000),
    "fetch 260,000": lambda: attacks.fetch("unknown", 260_000),
    "fetch 190,000": lambda: attacks.fetch("unknown", 190_000),
    "commit 49,000": lambda: attacks.offset_commit(49_000),
    "committed 49,000": lambda: attacks.offset_fetch(49_000),
    "epochs 190,000": lambda: attacks.offset_for_leader_epoch(190_000),
    "create 39,000": lambda: attacks.create_topics(39_000),
    "delete 49,000": lambda: attacks.delete_topics(49_000),
    "configs 49,000": lambda: attacks.describe_configs(49_000),
    "alter 24,000": lambda: attacks.alter_configs(24_000),
    "tagged fields 1,000,000": lambda: attacks.tagged_api_versions(1_000_000),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_one_large_request(cluster: LocalCluster, name: str) -> None:
    response = attacks.answer(cluster.port(1), REQUESTS[name]())
    assert response is None or len(response) > 8


def test_batches_that_hold_very_much(cluster: LocalCluster) -> None:
    """Headers and records by the million, in every codec, where keys are checked, recompressed, and looked for."""
    for codec in (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY):
        bombs = [
            header_bomb(8 * MIB, codec),
            header_bomb(60 * MIB, codec),
            batch_of(empty_records(900_000), 900_000, codec),
        ]
        for bomb in bombs:
            for topic in ("compacted", "plain", "lz4"):
                attacks.answer(cluster.port(1), attacks.produce_batch(topic, bomb))
    for _ in range(5):
        assert attacks.answer(cluster.port(1), attacks.list_offsets_by_time("plain", 0)) is not None


def test_a_batch_that_claims_two_billion_records(cluster: LocalCluster) -> None:
    request = attacks.produce_batch("plain", batch_of(b"", 2**31 - 1))
    response = attacks.answer(cluster.port(1), request)
    assert response is not None
    (error,) = struct.unpack_from(">h", response, 4 + 4 + 2 + len("plain") + 4 + 4)
    assert error == 2


def test_connections_that_announce_much_and_send_little(cluster: LocalCluster) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            connection = stack.enter_context(attacks.connect(cluster.port(1)))
            connection.sendall(struct.pack(">ihhih", 100 * MIB, 0, 9, 1, -1) + bytes(34))
        for _ in range(10):
            attacks.answer(cluster.port(1), attacks.metadata(["t"]))


def test_what_is_announced_takes_no_memory_of_its_size(cluster: LocalCluster) -> None:
    """A frame just below the size from which on its buffer is mapped."""
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            connection = stack.enter_context(attacks.connect(cluster.port(1)))
            connection.sendall(struct.pack(">ihhih", 16 * MIB - 1, 0, 9, 1, -1) + bytes(5_000))
        for _ in range(10):
            attacks.answer(cluster.port(1), attacks.metadata(["t"]))


def test_connections_that_fill_the_memory_with_halves(cluster: LocalCluster) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(60):
            connection = stack.enter_context(attacks.connect(cluster.port(1)))
            connection.settimeout(0.2)
            with contextlib.suppress(OSError):
                connection.sendall(struct.pack(">ihhih", 100 * MIB, 0, 9, 1, -1) + bytes(8 * MIB))
        for _ in range(10):
            attacks.answer(cluster.port(1), attacks.metadata(["t"]))


def test_pipelined_large_requests_whose_answers_are_never_read(cluster: LocalCluster) -> None:
    request = attacks.metadata([f"n{number}" for number in range(20_000)])
    with contextlib.ExitStack() as stack:
        for _ in range(30):
            connection = stack.enter_context(attacks.connect(cluster.port(1)))
            connection.settimeout(0.1)
            with contextlib.suppress(OSError):
                connection.sendall(request * 16)
        for _ in range(20):
            attacks.answer(cluster.port(1), attacks.metadata(["t"]))


def test_large_responses_that_are_never_read(cluster: LocalCluster) -> None:
    """Each holds its bytes, which are few beside the objects of its request, and not for long while others wait."""
    request = attacks.metadata([f"name-{number}" for number in range(49_000)])
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            connection = stack.enter_context(attacks.connect(cluster.port(1)))
            connection.settimeout(0.1)
            with contextlib.suppress(OSError):
                connection.sendall(request)
        for _ in range(50):
            time.sleep(0.1)
            attacks.answer(cluster.port(1), attacks.metadata(["t"]))


def test_silent_scrapers(cluster: LocalCluster) -> None:
    port = int(cluster.metrics_url(1).split(":")[2].split("/")[0])
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        with urllib.request.urlopen(cluster.metrics_url(1), timeout=5) as page:
            assert b"tierfetch_request_memory_bytes" in page.read()


def test_base_directory_is_small(cluster: LocalCluster, tmp_path: Path) -> None:
    """What was sent above is not kept as what it claims to be."""
    kept = 0
    for folder, _, names in os.walk(cluster.data_directory(1)):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # a broker at work renames and removes files
                kept += Path(folder, name).stat().st_blocks * 512
    assert kept < 1024 * MIB
