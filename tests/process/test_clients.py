"""Real clients against real brokers: every codec, idempotent, replicated, read from the log and from the tier."""

from __future__ import annotations

import random

import pytest

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.cli.offsets import list_offset
from tierfetch.fetcher.core.leader_offsets import EARLIEST_LOCAL_TIMESTAMP
from tierfetch.tests.process.clients import CLIENTS, create_topics
from tierfetch.tests.process.looks import leader_of

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:kafka")

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
VALUES = [b"%06d " % number + random.Random(number).randbytes(200) for number in range(400)]
"""Nothing that compresses well: the size of segments is told in compressed bytes."""


TIERED = {"remote.storage.enable": "true", "internal.segment.bytes": "24000", "local.retention.bytes": "1"}
CASES = [(name, codec) for name in CLIENTS for codec in CODECS]


@pytest.fixture(scope="module")
def plain(shared_cluster: LocalCluster) -> LocalCluster:
    """With a topic for each case."""
    create_topics(shared_cluster.bootstrap_servers, [f"plain-{name}-{codec}" for name, codec in CASES])
    return shared_cluster


@pytest.fixture(scope="module")
def tiered(shared_cluster: LocalCluster) -> LocalCluster:
    """With a topic for each case, filled by the client that it is about: while the last ones are, the first go to the
    tier.
    """
    servers = shared_cluster.bootstrap_servers
    create_topics(servers, [f"tiered-{name}-{codec}" for name, codec in CASES], configs=TIERED)
    for name, codec in CASES:
        for start in range(0, len(VALUES), 100):
            CLIENTS[name].produce(servers, f"tiered-{name}-{codec}", VALUES[start : start + 100], codec)
    return shared_cluster


@pytest.mark.parametrize(("name", "codec"), CASES)
def test_produce_idempotently_and_consume(plain: LocalCluster, name: str, codec: str) -> None:
    topic = f"plain-{name}-{codec}"
    CLIENTS[name].produce(plain.bootstrap_servers, topic, VALUES, codec)
    assert CLIENTS[name].consume(plain.bootstrap_servers, topic, len(VALUES)) == VALUES


@pytest.mark.parametrize(("name", "codec"), CASES)
def test_R4_read_from_the_tier(tiered: LocalCluster, name: str, codec: str) -> None:
    """At least half of it has left the local log."""
    topic = f"tiered-{name}-{codec}"
    port = tiered.port(leader_of(tiered, topic))
    for _ in poll(30, f"{topic} to leave the local log"):
        local_start = list_offset(port, topic, 0, EARLIEST_LOCAL_TIMESTAMP).offset
        if local_start >= 200:
            break
    assert CLIENTS[name].consume(tiered.bootstrap_servers, topic, len(VALUES)) == VALUES
