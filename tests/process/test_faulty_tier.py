"""A tier that fails while brokers use it: an error or a retry, never wrong records, and it heals."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from tierfetch.cli.local.cluster import LocalCluster, TierSettings
from tierfetch.cli.local.processes import poll
from tierfetch.cli.offsets import list_offset
from tierfetch.cli.tier.report import Verification
from tierfetch.fetcher.core.leader_offsets import EARLIEST_LOCAL_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP
from tierfetch.tests.process import connecting
from tierfetch.tests.process.clients import Librdkafka, create_topic
from tierfetch.tests.process.faulty_storage import install
from tierfetch.tests.process.looks import leader_of, log_bytes, registration
from tierfetch.tests.process.operating import (
    check_same_logs,
    check_tier,
    delete_topic,
    elect,
    run_tier,
    wait_in_sync,
    wait_tier_empty,
)

TIMEOUT_S = 60.0
PATIENCE_S = 2.0
VALUES = [b"%06d " % number + b"x" * 1000 for number in range(4000)]
TIERED = {"remote.storage.enable": "true", "segment.bytes": "1048576", "local.retention.bytes": "1"}
CONFIGS = {
    "remote.log.manager.copy.timeout.ms": "500",
    "request.timeout.ms": "5000",
    "remote.log.manager.task.retry.backoff.ms": "100",
    "remote.log.manager.task.retry.backoff.max.ms": "300",
    "log.retention.check.interval.ms": "200",
}


@pytest.fixture
def tier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TierSettings:
    """The faulty plugin."""
    site = tmp_path / "site"
    install(site)
    monkeypatch.setenv("PYTHONPATH", str(site))
    return TierSettings("faulty", {"dir": str(tmp_path / "tier"), "fault": str(tmp_path / "fault")})


@pytest.fixture
def cluster(tmp_path: Path, tier: TierSettings) -> Iterator[LocalCluster]:
    """One broker."""
    with LocalCluster(tmp_path, (1,), tier=tier, configs=CONFIGS) as cluster:
        create_topic(cluster.bootstrap_servers, "t", replicas=1, configs=TIERED)
        yield cluster


def set_fault(cluster: LocalCluster, fault: str) -> None:
    """In force at once; "" for none."""
    path = cluster.base / "fault"
    if fault:
        new = path.with_suffix(".new")
        new.write_text(fault)
        new.rename(path)
    else:
        path.unlink()


def wait_faulty_calls(cluster: LocalCluster, count: int) -> None:
    calls = cluster.base / "fault.calls"
    for _ in poll(TIMEOUT_S, f"{count} calls that fail"):
        if calls.exists() and len(calls.read_text().splitlines()) >= count:
            return


def wait_offset(cluster: LocalCluster, timestamp: int, offset: int) -> None:
    for _ in poll(TIMEOUT_S, f"ListOffsets {timestamp} to answer {offset} or more"):
        if list_offset(cluster.port(1), "t", 0, timestamp).offset >= offset:
            return


def wait_tier_only(cluster: LocalCluster) -> None:
    """Until most of the topic has no local copy any more."""
    wait_offset(cluster, EARLIEST_LOCAL_TIMESTAMP, 2000)


def consumed_within(cluster: LocalCluster, patience_s: float) -> tuple[list[bytes], list[str]]:
    """Values and errors that a consumer from offset 0 on gets in this time."""
    consumer = confluent_kafka.Consumer(
        {
            **connecting.librdkafka(cluster.bootstrap_servers),
            "group.id": "test",
            "enable.auto.commit": False,
            "log_level": 0,
            "check.crcs": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition("t", 0, 0)])
    values: list[bytes] = []
    errors: list[str] = []
    deadline = time.monotonic() + patience_s
    with contextlib.closing(consumer):
        while (left := deadline - time.monotonic()) > 0 and len(values) < len(VALUES):
            message = consumer.poll(left)
            if message is not None and message.error():
                errors.append(str(message.error()))
            elif message is not None:
                values.append(message.value() or b"")
    return values, errors


@pytest.mark.parametrize("fault", ["raise", "crash", "hang", "short"])
def test_R1_copies_that_fail_are_tried_again_and_leave_nothing(cluster: LocalCluster, fault: str) -> None:
    set_fault(cluster, f"copy {fault}")
    Librdkafka().produce(cluster.bootstrap_servers, "t", VALUES, "none")
    wait_faulty_calls(cluster, 3)
    assert list_offset(cluster.port(1), "t", 0, EARLIEST_LOCAL_TIMESTAMP).offset == 0
    assert Librdkafka().consume(cluster.bootstrap_servers, "t", len(VALUES)) == VALUES
    set_fault(cluster, "")
    wait_tier_only(cluster)
    assert Librdkafka().consume(cluster.bootstrap_servers, "t", len(VALUES)) == VALUES
    check_tier(cluster, "t")


@pytest.mark.parametrize("fault", ["raise", "crash", "hang", "short", "wrong"])
def test_R4_reads_that_fail_give_nothing_wrong_and_go_on_afterwards(cluster: LocalCluster, fault: str) -> None:
    Librdkafka().produce(cluster.bootstrap_servers, "t", VALUES, "none")
    wait_tier_only(cluster)
    set_fault(cluster, f"fetch {fault}")
    values, _ = consumed_within(cluster, PATIENCE_S)
    assert values == []
    wait_faulty_calls(cluster, 1)
    Librdkafka().produce(cluster.bootstrap_servers, "t", [b"meanwhile"], "none")
    set_fault(cluster, "")
    assert Librdkafka().consume(cluster.bootstrap_servers, "t", len(VALUES) + 1) == [*VALUES, b"meanwhile"]


def test_R4_an_object_that_is_gone_is_an_error_and_verify_names_it(cluster: LocalCluster) -> None:
    Librdkafka().produce(cluster.bootstrap_servers, "t", VALUES, "none")
    wait_tier_only(cluster)
    gone = sorted((cluster.base / "tier").glob("kafka-tiered-storage/t-0-*/*.log"))[0]
    content = gone.read_bytes()
    gone.unlink()
    values, _ = consumed_within(cluster, PATIENCE_S)
    assert values == []
    assert gone.stem in cluster.log_file(1).read_text()
    found = run_tier(cluster, "verify", "t")
    assert found.returncode == 1
    (partition,) = Verification.model_validate_json(found.stdout).partitions
    (finding,) = partition.findings
    assert finding.kind == "missing"
    assert gone.stem[21:] in finding.subject
    gone.write_bytes(content)
    assert Librdkafka().consume(cluster.bootstrap_servers, "t", len(VALUES)) == VALUES
    wait_offset(cluster, EARLIEST_PENDING_UPLOAD_TIMESTAMP, 3000)


@pytest.mark.parametrize("fault", ["raise", "hang", "short", "wrong"])
def test_bootstrap_rule_2_a_newcomer_that_cannot_read_the_tier_stays_out_of_the_isr(
    tmp_path: Path, tier: TierSettings, fault: str
) -> None:
    configs = {
        **CONFIGS,
        "request.timeout.ms": "1000",
        "follower.fetch.last.tiered.offset.enable": "true",
        "replica.fetch.backoff.ms": "100",
    }
    with LocalCluster(tmp_path, (1, 2), tier=tier, configs=configs) as cluster:
        create_topic(cluster.bootstrap_servers, "t", configs=TIERED)
        if leader_of(cluster, "t") == 2:
            elect(cluster, "t", 1)
        Librdkafka().produce(cluster.bootstrap_servers, "t", VALUES, "none")
        wait_tier_only(cluster)
        wait_in_sync(cluster, "t")
        cluster.kill(2)
        cluster.wipe(2)
        set_fault(cluster, f"fetch {fault}")
        cluster.start(2)
        wait_faulty_calls(cluster, 2)
        assert registration(cluster, "t").isr == (1,)
        set_fault(cluster, "")
        wait_in_sync(cluster, "t")
        check_same_logs(cluster, "t")
        assert min(log_bytes(cluster, 2, "t")) > 2000


def test_C3_a_topic_that_is_deleted_before_its_leader_is_killed_leaves_nothing_in_the_tier(
    cluster: LocalCluster,
) -> None:
    """The store hangs, so that the process dies in the middle of the deletion at the latest."""
    Librdkafka().produce(cluster.bootstrap_servers, "t", VALUES, "none")
    wait_tier_only(cluster)
    set_fault(cluster, "delete hang")
    delete_topic(cluster, "t")
    wait_faulty_calls(cluster, 1)
    cluster.kill(1)
    set_fault(cluster, "")
    assert list((cluster.base / "tier").glob("kafka-tiered-storage/t-0-*/*.log"))
    cluster.start(1)
    cluster.wait_serving(1)
    wait_tier_empty(cluster, "t")
