"""Real clients against real brokers: every codec, idempotent, replicated, read from the log and from the tier."""

from __future__ import annotations

import random

import pytest

from tierfetch.cli.local_cluster import LocalCluster
from tierfetch.cli.offsets import list_offset
from tierfetch.cli.processes import poll
from tierfetch.fetcher.leader_offsets import EARLIEST_LOCAL_TIMESTAMP
from tierfetch.tests.process.clients import CLIENTS, create_topic
from tierfetch.tests.process.looks import leader_of

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:kafka")

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
VALUES = [b"%06d " % number + random.Random(number).randbytes(200) for number in range(400)]
"""Nothing that compresses well: the size of segments is told in compressed bytes."""


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", CLIENTS)
def test_produce_idempotently_and_consume(shared_cluster: LocalCluster, name: str, codec: str) -> None:
    topic = f"plain-{name}-{codec}"
    create_topic(shared_cluster.bootstrap_servers, topic)
    CLIENTS[name].produce(shared_cluster.bootstrap_servers, topic, VALUES, codec)
    assert CLIENTS[name].consume(shared_cluster.bootstrap_servers, topic, len(VALUES)) == VALUES


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", CLIENTS)
def test_R4_read_from_the_tier(shared_cluster: LocalCluster, name: str, codec: str) -> None:
    """At least half of it has left the local log."""
    servers, topic = shared_cluster.bootstrap_servers, f"tiered-{name}-{codec}"
    configs = {"remote.storage.enable": "true", "internal.segment.bytes": "24000", "local.retention.bytes": "1"}
    create_topic(servers, topic, configs=configs)
    for start in range(0, len(VALUES), 100):
        CLIENTS[name].produce(servers, topic, VALUES[start : start + 100], codec)
    port = shared_cluster.port(leader_of(shared_cluster, topic))
    for _ in poll(30, f"{topic} to leave the local log"):
        local_start = list_offset(port, topic, 0, EARLIEST_LOCAL_TIMESTAMP).offset
        if local_start >= 200:
            break
    assert CLIENTS[name].consume(servers, topic, len(VALUES)) == VALUES
