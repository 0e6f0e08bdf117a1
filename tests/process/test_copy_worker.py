"""A broker process copies to the tier by a worker, which dies and ends without harm."""

from __future__ import annotations

from pathlib import Path

import psutil

from tierfetch.cli.local.cluster import LocalCluster, TierSettings
from tierfetch.cli.local.processes import poll
from tierfetch.cli.offsets import list_offset
from tierfetch.fetcher.core.leader_offsets import EARLIEST_PENDING_UPLOAD_TIMESTAMP
from tierfetch.tests.process.clients import Librdkafka, create_topic

TIMEOUT_S = 60.0
VALUES = [b"%06d " % number + b"x" * 1000 for number in range(2000)]
TIERED = {"remote.storage.enable": "true", "segment.bytes": "1048576"}
CONFIGS = {"remote.log.manager.task.retry.backoff.ms": "100"}


def wait_copied(cluster: LocalCluster, offset: int) -> None:
    for _ in poll(TIMEOUT_S, f"the offsets before {offset} to be in the tier"):
        if list_offset(cluster.port(1), "t", 0, EARLIEST_PENDING_UPLOAD_TIMESTAMP).offset >= offset:
            return


def produce_and_wait(cluster: LocalCluster, end: int) -> None:
    """Append `VALUES`; the last segment, which is active, stays."""
    Librdkafka().produce(cluster.bootstrap_servers, "t", VALUES, "none")
    wait_copied(cluster, end - 1500)


def test_R1_a_broker_copies_by_a_worker_that_may_die_and_ends_with_it(tmp_path: Path) -> None:
    tier = TierSettings("local", {"dir": str(tmp_path / "tier")})
    with LocalCluster(tmp_path, (1,), tier=tier, configs=CONFIGS) as cluster:
        broker = psutil.Process(cluster.process(1).pid)
        create_topic(cluster.bootstrap_servers, "t", replicas=1, configs=TIERED)
        assert broker.children() == []
        produce_and_wait(cluster, 2000)
        (first,) = broker.children()
        assert (first.nice(), broker.nice()) == (19, psutil.Process().nice())
        first.kill()
        produce_and_wait(cluster, 4000)
        (second,) = broker.children()
        assert second != first
        assert Librdkafka().consume(cluster.bootstrap_servers, "t", 4000) == VALUES * 2
        cluster.kill(1)
        for _ in poll(TIMEOUT_S, "the worker to end with its broker"):
            if not second.is_running() or second.status() == psutil.STATUS_ZOMBIE:
                return


def test_R1_a_broker_that_is_told_so_copies_by_itself(tmp_path: Path) -> None:
    tier = TierSettings("local", {"dir": str(tmp_path / "tier")})
    configs = CONFIGS | {"remote.log.manager.copy.worker.enable": "false"}
    with LocalCluster(tmp_path, (1,), tier=tier, configs=configs) as cluster:
        create_topic(cluster.bootstrap_servers, "t", replicas=1, configs=TIERED)
        produce_and_wait(cluster, 2000)
        assert psutil.Process(cluster.process(1).pid).children() == []
