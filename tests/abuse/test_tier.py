"""A hostile tier: a whole broker reads objects that somebody else wrote over, and its clients notice nothing.

Each kind of object is replaced in every segment by content of each kind. Then records and offsets by time are read.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tierfetch.cli.local.cluster import LocalCluster, TierSettings
from tierfetch.cli.local.processes import poll
from tierfetch.protocol.fetch.messages import FetchPartition, FetchRequest, FetchTopic
from tierfetch.protocol.records import Compression
from tierfetch.tests.abuse import attacks
from tierfetch.tests.abuse.peers import ask
from tierfetch.tests.bombs import batch_of, empty_records, header_bomb
from tierfetch.tests.process.clients import CLIENTS, create_topic

pytestmark = pytest.mark.usefixtures("unharmed")

TOPIC: Final = "tiered"
MIB: Final = 1024 * 1024
WAIT_S: Final = 120.0
VALUES: Final = [b"%06d" % number + bytes(1000) for number in range(6_000)]
BY_NAME: Final = 12
CONFIGS: Final = {"remote.storage.enable": "true", "segment.bytes": str(MIB), "local.retention.bytes": "1"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    base = tmp_path_factory.mktemp("abuse")
    with LocalCluster(base, (1,), tier=TierSettings("local", {"dir": str(base / "tier")})) as cluster:
        create_topic(cluster.bootstrap_servers, "t", replicas=1)
        create_topic(cluster.bootstrap_servers, TOPIC, replicas=1, configs=CONFIGS)
        CLIENTS["confluent-kafka"].produce(cluster.bootstrap_servers, TOPIC, VALUES, "none")
        for _ in poll(WAIT_S, "segments to be in the tier alone", 0.2):
            local = list(cluster.data_directory(1).glob(f"{TOPIC}-0/*.log"))
            if len(objects(base, ".log")) >= 4 and len(local) == 1:
                break
        yield cluster


def objects(base: Path, suffix: str) -> list[Path]:
    """Those of the topic, of one kind."""
    return [path for path in sorted((base / "tier").rglob(f"*{suffix}")) if TOPIC in str(path)]


def tiled(unit: bytes, size: int) -> bytes:
    return (unit * (size // len(unit) + 1))[:size]


CONTENTS: Final[dict[str, Callable[[int, Random], bytes]]] = {
    "nothing": lambda size, rng: b"",
    "zeros": lambda size, rng: bytes(size),
    "ones": lambda size, rng: b"\xff" * size,
    "random": lambda size, rng: rng.randbytes(size),
    "header bombs": lambda size, rng: tiled(header_bomb(8 * MIB), size),
    "records without end": lambda size, rng: tiled(batch_of(empty_records(300_000), 300_000, Compression.LZ4), size),
    "two billion records": lambda size, rng: tiled(batch_of(b"", 2**31 - 1), size),
    "a batch of 2 GB": lambda size, rng: struct.pack(">qi", 0, 2**31 - 1) + bytes(size),
    "entries beyond all": lambda size, rng: struct.pack(">ii", 2**31 - 1, 2**31 - 1) * max(size // 8, 8),
    "64 MiB": lambda size, rng: rng.randbytes(MIB) * 64,
}
SUFFIXES: Final = (".log", ".index", ".timeindex", ".snapshot", ".txnindex", "leader_epoch_checkpoint")


@pytest.mark.parametrize("content", CONTENTS)
def test_objects_that_somebody_else_wrote(cluster: LocalCluster, content: str) -> None:
    rng = Random(1)
    make = CONTENTS[content]
    for suffix in SUFFIXES:
        kept = {path: path.read_bytes() for path in objects(cluster.base, suffix)}
        try:
            for path, data in kept.items():
                path.write_bytes(make(len(data), rng))
            read(cluster)
        finally:
            for path, data in kept.items():
                path.write_bytes(data)


def read(cluster: LocalCluster) -> None:
    """Ask for records here and there, and for offsets by time, all of which are in the tier."""
    port, now_ms = cluster.port(1), int(time.time() * 1000)
    for offset in (0, 1, len(VALUES) // 3, len(VALUES) // 2):
        wanted = FetchPartition(0, fetch_offset=offset, partition_max_bytes=MIB)
        topics = (FetchTopic((wanted,), TOPIC),)
        ask(port, FetchRequest(max_wait_ms=2_000, min_bytes=1, topics=topics, isolation_level=offset % 2), BY_NAME)
    for timestamp_ms in (0, now_ms - 60_000, now_ms):
        attacks.answer(port, attacks.list_offsets_by_time(TOPIC, timestamp_ms))


def test_everything_is_there_afterwards(cluster: LocalCluster) -> None:
    assert CLIENTS["confluent-kafka"].consume(cluster.bootstrap_servers, TOPIC, len(VALUES)) == VALUES
