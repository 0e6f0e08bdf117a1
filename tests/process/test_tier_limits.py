"""The rates of the tier are dynamic, as Kafka's are: what waits for a low one goes on when it is raised."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.cli.offsets import list_offset
from tierfetch.fetcher.core.leader_offsets import EARLIEST_PENDING_UPLOAD_TIMESTAMP
from tierfetch.tests.process.clients import Librdkafka, create_topic
from tierfetch.tests.process.conftest import local_tier
from tierfetch.tests.process.looks import log_bytes

TIMEOUT_S = 60.0
VALUES = [b"%06d " % number + b"x" * 1000 for number in range(4000)]
TIERED = {"remote.storage.enable": "true", "segment.bytes": "1048576", "local.retention.bytes": "1"}
COPY_RATE = "remote.log.manager.copy.max.bytes.per.second"
FETCH_RATE = "remote.log.manager.fetch.max.bytes.per.second"


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    base = tmp_path_factory.mktemp("limits")
    with LocalCluster(base, (1,), tier=local_tier(base)) as cluster:
        yield cluster


def pending_upload(cluster: LocalCluster) -> int:
    return list_offset(cluster.port(1), "t", 0, EARLIEST_PENDING_UPLOAD_TIMESTAMP).offset


def alter(cluster: LocalCluster, key: str, rate: int) -> None:
    assert cluster.quorum is not None
    servers = cluster.bootstrap_servers
    cluster.quorum.tool("configs", "alter", "--bootstrap", servers, "--broker", "default", "--set", f"{key}={rate}")


def test_copies_and_reads_follow_a_rate_that_is_raised(cluster: LocalCluster) -> None:
    """At a byte a second the second segment would wait for twelve days, and so would the second chunk."""
    servers = cluster.bootstrap_servers
    for key in (COPY_RATE, FETCH_RATE):
        alter(cluster, key, 1)
    create_topic(servers, "t", replicas=1, configs=TIERED)
    Librdkafka().produce(servers, "t", VALUES, "none")
    last = max(log_bytes(cluster, 1, "t"))
    for _ in poll(TIMEOUT_S, "the first segment to be copied"):
        if pending_upload(cluster) > 0:
            break
    assert pending_upload(cluster) < last
    alter(cluster, COPY_RATE, 2**40)
    for _ in poll(TIMEOUT_S, "all closed segments to be copied and deleted here"):
        if min(log_bytes(cluster, 1, "t")) == last:
            break
    with ThreadPoolExecutor(1) as pool:
        consumed = pool.submit(Librdkafka().consume, servers, "t", len(VALUES))
        alter(cluster, FETCH_RATE, 2**40)
        assert consumed.result() == VALUES
