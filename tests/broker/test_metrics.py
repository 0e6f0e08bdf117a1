"""What a scrape shows: of real partitions in their roles, and of fetchers and a tier that a test makes up."""

from __future__ import annotations

import asyncio
import random
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from tierfetch.broker.groups.coordinator import GroupCoordinator
from tierfetch.broker.groups.settings import CoordinatorSettings
from tierfetch.broker.kafka_names import KAFKA_NAMES, with_kafka_names
from tierfetch.broker.metrics import (
    PART_SAMPLES,
    Quantity,
    RequestTimes,
    _per_partition,
    copy_lag_metrics,
    fetcher_metrics,
    follower_metrics,
    group_metrics,
    hosting_metrics,
    log_metrics,
    partition_metrics,
    server_metrics,
    thin_metrics,
    tier_metrics,
)
from tierfetch.broker.metrics_endpoint import _text
from tierfetch.broker.node_process import process_metrics
from tierfetch.broker.replicas.thin_replicas import ThinReplicas, WarmingLimits
from tierfetch.broker.replicas.warmer import WarmingProgress
from tierfetch.fetcher.followed_replica import FollowedReplica, ReplicaProgress, ReplicaState
from tierfetch.log.core import AppendOrigin
from tierfetch.log.disk import OsDisk
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.net.dispatch import RequestContext
from tierfetch.protocol.net.server import Server
from tierfetch.protocol.topics import TopicIdPartition, TopicPartition
from tierfetch.rlm.metrics import CopyLag, RemoteLogCounters
from tierfetch.tests.broker.hosting import Host, batch
from tierfetch.tests.broker.requests import context_of
from tierfetch.tests.fakes.disk import MemoryDisk
from tierfetch.tests.log.nodes import new_manager

DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"


class Fetchers:
    """A pool that follows what a test says."""

    def __init__(self) -> None:
        self.followed: dict[TopicIdPartition, FollowedReplica] = {}

    def replicas(self) -> Iterator[tuple[TopicIdPartition, FollowedReplica]]:
        yield from self.followed.items()

    def follow(self, key: TopicIdPartition, state: ReplicaState, progress: ReplicaProgress) -> None:
        partition = SimpleNamespace(topic_id_partition=key, leader_epoch=0)
        self.followed[key] = FollowedReplica(partition, 0, progress, state)


class Tier:
    """A remote log manager's numbers."""

    def __init__(self) -> None:
        self.counters = RemoteLogCounters()
        self.lags: dict[TopicIdPartition, CopyLag] = {}
        self.unready = 0

    def partitions_without_ledger(self) -> int:
        return self.unready

    def copy_lag(self, key: TopicIdPartition) -> CopyLag:
        return self.lags.get(key, CopyLag())


class Scrape:
    """The samples of one scrape, through the text format."""

    def __init__(self, families: Callable[[], Iterator[Metric]]) -> None:
        class Families(Collector):
            def collect(self) -> Iterator[Metric]:
                return families()

        self.families = list(text_string_to_metric_families(generate_latest(Families()).decode()))

    def value(self, name: str, **labels: str) -> float | None:
        found = [
            sample.value
            for family in self.families
            for sample in family.samples
            if sample.name == name and sample.labels == labels
        ]
        assert len(found) < 2, f"{name} {labels} is there {len(found)} times"
        return found[0] if found else None


class Subject:
    def __init__(self, host: Host, disk: OsDisk, tier: Tier | None) -> None:
        self.fetchers = Fetchers()
        self.requests = RequestTimes()
        self.now_ms = 0
        self.thin = ThinReplicas(lambda: self.now_ms, host.hosted.partitions, WarmingLimits(1 << 20, 60_000))
        self.warming: dict[TopicPartition, WarmingProgress] = {}
        self._hosted, self._tier, self._disk = host.hosted, tier, disk
        self._groups = GroupCoordinator(host.view, CoordinatorSettings(), random.Random(1), lambda: 0)
        self._logs = new_manager(MemoryDisk())
        self._server = Server({}, listener_name="PLAINTEXT")

    def scrape(self) -> Scrape:
        return Scrape(self.families)

    def families(self) -> Iterator[Metric]:
        yield from hosting_metrics(self._hosted)
        yield from fetcher_metrics(self.fetchers)
        yield from partition_metrics(self._hosted)
        yield from follower_metrics(self.fetchers)
        if self._tier is not None:
            yield from thin_metrics(self.thin, self.warming)
            yield from tier_metrics(self._tier, self._hosted)
            yield from copy_lag_metrics(self._tier, self._hosted)
        yield from group_metrics(self._groups)
        yield from log_metrics(self._logs, self._disk)
        yield from server_metrics(self._server)
        yield from self.requests.histogram.collect()
        yield from process_metrics()


@pytest.fixture
def tier() -> Tier:
    return Tier()


@pytest.fixture
def subject(host: Host, disk: OsDisk, tier: Tier) -> Subject:
    return Subject(host, disk, tier)


async def test_offsets_and_role_of_a_partition(subject: Subject, host: Host) -> None:
    partition = await host.topic("t", 1)
    await partition.append(batch(b"a", b"b"), AppendOrigin.CLIENT, acks_all=False)
    scrape = subject.scrape()
    values = {
        name: scrape.value(f"tierfetch_{name}", topic="t", partition="0")
        for name in (
            "log_start_offset",
            "local_log_start_offset",
            "log_end_offset",
            "high_watermark",
            "last_stable_offset",
            "log_size_bytes",
            "leader_epoch",
            "is_leader",
        )
    }
    assert values == {
        "log_start_offset": 0,
        "local_log_start_offset": 0,
        "log_end_offset": 2,
        "high_watermark": 2,
        "last_stable_offset": 2,
        "log_size_bytes": partition.log.state.segments.size_bytes,
        "leader_epoch": 0,
        "is_leader": 1,
    }


async def test_only_a_leader_tells_of_the_isr(subject: Subject, host: Host) -> None:
    led = await host.topic("led", 1, 2)
    await host.topic("followed", 2, 1)
    assert led.leadership is not None
    led.leadership.replicas.commit_isr([1], partition_epoch=1)
    led.leadership.replicas.min_insync_replicas = 2
    scrape = subject.scrape()
    for name, expected in (("isr_size", 1), ("under_replicated", 1), ("under_min_isr", 1)):
        assert scrape.value(f"tierfetch_{name}", topic="led", partition="0") == expected, name
        assert scrape.value(f"tierfetch_{name}", topic="followed", partition="0") is None, name
    assert scrape.value("tierfetch_is_leader", topic="followed", partition="0") == 0


async def test_totals_over_all_partitions(subject: Subject, host: Host, tier: Tier) -> None:
    led = await host.topic("led", 1, 2)
    other = await host.topic("other", 1)
    await host.topic("followed", 2, 1)
    await other.append(batch(b"a", b"b"), AppendOrigin.CLIENT, acks_all=False)
    assert led.leadership is not None
    led.leadership.replicas.commit_isr([1], partition_epoch=1)
    led.leadership.replicas.min_insync_replicas = 2
    scrape = subject.scrape()
    values = {
        name: scrape.value(f"tierfetch_{name}")
        for name in ("partitions", "leaders", "under_replicated_partitions", "under_min_isr_partitions")
    }
    assert values == {
        "partitions": 3,
        "leaders": 2,
        "under_replicated_partitions": 1,
        "under_min_isr_partitions": 1,
    }
    assert scrape.value("tierfetch_local_log_bytes") == other.log.state.segments.size_bytes


async def test_replicas_that_cannot_serve(subject: Subject, host: Host) -> None:
    await host.topic("t", 1)
    assert subject.scrape().value("tierfetch_offline_replicas") == 0
    host.hosted.failures[TopicPartition("damaged", 3)] = "its first segment is corrupt"
    host.hosted.log_failures.count, host.hosted.log_failures.lost_records = 2, 30
    scrape = subject.scrape()
    assert scrape.value("tierfetch_offline_replicas") == 1
    assert scrape.value("tierfetch_log_failed", topic="damaged", partition="3") == 1
    assert scrape.value("tierfetch_log_failed", topic="t", partition="0") is None
    assert scrape.value("tierfetch_log_failures_total") == 2
    assert scrape.value("tierfetch_log_lost_records_total") == 30


async def test_what_followed_replicas_cost(subject: Subject, host: Host) -> None:
    new = (await host.topic("new", 2, 1)).partition
    old = (await host.topic("old", 2, 1)).partition
    subject.fetchers.follow(new, ReplicaState.BOOTSTRAPPING, ReplicaProgress(added_at=5.0))
    subject.fetchers.followed[new].is_tier_outage_reported = True
    progress = ReplicaProgress(
        5.0, 7.5, 8.25, bytes_from_leader=100, bytes_from_tier=30, tier_s=0.5, held_back_s=2.5, append_s=0.125
    )
    subject.fetchers.follow(old, ReplicaState.FETCHING, progress)
    scrape = subject.scrape()
    labels = {"topic": "old", "partition": "0"}
    assert scrape.value("tierfetch_replica_fetch_bytes_total", source="leader", **labels) == 100
    assert scrape.value("tierfetch_replica_fetch_bytes_total", source="tier", **labels) == 30
    for reason, seconds in (("tier", 0.5), ("throttle", 2.5), ("append", 0.125)):
        assert scrape.value("tierfetch_replica_wait_seconds_total", reason=reason, **labels) == seconds
    assert scrape.value("tierfetch_replica_bootstrap_end_timestamp_seconds", **labels) == 7.5
    assert scrape.value("tierfetch_replica_first_fetch_timestamp_seconds", **labels) == 8.25
    assert scrape.value("tierfetch_replica_first_fetch_timestamp_seconds", topic="new", partition="0") is None
    assert scrape.value("tierfetch_replicas", state="bootstrapping") == 1
    assert scrape.value("tierfetch_replicas", state="fetching") == 1
    assert scrape.value("tierfetch_replicas", state="failed") == 0
    assert scrape.value("tierfetch_bootstraps_waiting") == 1


async def test_the_tier(subject: Subject, host: Host, tier: Tier) -> None:
    led = await host.topic("led", 1)
    await host.topic("followed", 2, 1)
    tier.lags[led.partition] = CopyLag(
        segments=2, bytes=2048, is_held_up=True, transaction_ms=2500, is_transaction_hanging=True
    )
    tier.counters.copied_bytes = 512
    tier.counters.errors["copy"] += 3
    tier.unready = 4
    scrape = subject.scrape()
    assert scrape.value("tierfetch_remote_copy_lag_segments", topic="led", partition="0") == 2
    assert scrape.value("tierfetch_remote_copy_lag_bytes", topic="led", partition="0") == 2048
    assert scrape.value("tierfetch_remote_copy_lag_bytes", topic="followed", partition="0") is None
    assert scrape.value("tierfetch_remote_copy_held_up", topic="led", partition="0") == 1
    assert scrape.value("tierfetch_remote_copy_transaction_seconds", topic="led", partition="0") == 2.5
    assert scrape.value("tierfetch_remote_copy_hanging_transactions") == 1
    assert scrape.value("tierfetch_remote_copied_bytes_total") == 512
    assert scrape.value("tierfetch_remote_errors_total", work="copy") == 3
    assert scrape.value("tierfetch_remote_log_metadata_unready") == 4


async def test_thin_and_warming_replicas(subject: Subject, host: Host) -> None:
    names = ("thin_replicas", "thin_seconds_left", "warming_replicas", "warming_bytes_left")
    assert [subject.scrape().value(f"tierfetch_{name}") for name in names] == [0, 0, 0, 0]
    thin = await host.topic("thin", 2, 1)
    await thin.log.truncate_fully_and_start_at(100, log_start_offset=0)
    subject.thin.joined(thin)
    subject.now_ms = 15_000
    subject.warming[thin.partition.topic_partition] = WarmingProgress(10, 30, 5)
    assert [subject.scrape().value(f"tierfetch_{name}") for name in names] == [1, 45, 1, 30]


async def test_a_broker_without_a_tier_says_nothing_of_it(host: Host, disk: OsDisk) -> None:
    families = Subject(host, disk, None).scrape().families
    assert not [family.name for family in families if family.name.startswith("tierfetch_remote")]


async def test_requests_are_timed_whatever_becomes_of_them(subject: Subject) -> None:
    async def answer(_: RequestContext, request: Any) -> Any:
        if request == "bad":
            raise OSError(request)
        return request

    handlers = subject.requests.timed({ApiKey.PRODUCE: answer})
    assert await handlers[ApiKey.PRODUCE](context_of(ApiKey.PRODUCE, 9), "good") == "good"
    with pytest.raises(OSError, match="bad"):
        await handlers[ApiKey.PRODUCE](context_of(ApiKey.PRODUCE, 9), "bad")
    assert subject.scrape().value("tierfetch_request_seconds_count", api="produce") == 2
    values = [
        subject.scrape().value("tierfetch_request_seconds_bucket", api="produce", le=le) for le in ("10.0", "+Inf")
    ]
    assert values == [2, 2]


async def test_what_clients_send_and_are_sent(subject: Subject, host: Host) -> None:
    traffic = host.hosted.traffic
    traffic.produced_bytes, traffic.produced_records, traffic.consumed_bytes, traffic.replicated_bytes = 1, 2, 3, 4
    scrape = subject.scrape()
    names = ("produced_bytes", "produced_records", "consumed_bytes", "replicated_bytes")
    assert [scrape.value(f"tierfetch_{name}_total") for name in names] == [1, 2, 3, 4]


async def test_every_metric_is_documented(subject: Subject, host: Host) -> None:
    subject.requests.timed({})
    documented = DOCUMENT.read_text(encoding="utf-8")
    names = {family.name for family in subject.scrape().families}
    assert len(names) > 20
    assert not {name for name in names if f"`{name}" not in documented}


def test_a_family_of_many_partitions_comes_in_parts() -> None:
    keys = [TopicIdPartition(UUID(int=1), "t", number) for number in range(2 * PART_SAMPLES + 1)]
    quantity: Quantity[int] = Quantity("tierfetch_size", "How large.", float)
    parts = list(_per_partition(quantity, ((key, key.partition) for key in keys), lambda _, number: number))
    assert [len(part.samples) for part in parts] == [PART_SAMPLES, PART_SAMPLES, 1]
    assert [sample.value for part in parts for sample in part.samples] == list(range(len(keys)))
    assert [part.samples for part in _per_partition(quantity, (), lambda _, number: number)] == [[]]


def test_every_total_that_kafka_has_too_is_documented_with_both_names() -> None:
    documented = DOCUMENT.read_text(encoding="utf-8")
    missing = [
        (ours, kafkas)
        for ours, kafkas in KAFKA_NAMES.items()
        if not ours.startswith("tierfetch_raft_")
        and not re.search(rf"\| `{ours}(_total)?`.*`{kafkas}(_total)?`", documented)
    ]
    assert missing == []


def complaints(promtool: str, text: bytes) -> str:
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, timeout=30, check=False)
    return f"{done.stdout.decode()}{done.stderr.decode()}{done.returncode or ''}"


async def test_promtool_finds_nothing_wrong_with_a_scrape(subject: Subject, host: Host) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (apt-get install prometheus)")
    await host.topic("t", 1)
    text = await _text(with_kafka_names(subject.families()))
    assert await asyncio.to_thread(complaints, promtool, text) == ""


def test_kafkas_name_repeats_type_and_samples_of_a_family() -> None:
    families = list(
        with_kafka_names(
            [
                CounterMetricFamily("tierfetch_produced_bytes", "Bytes.", value=7),
                GaugeMetricFamily("tierfetch_connections", "Connections.", value=1),
            ]
        )
    )
    assert [family.name for family in families] == [
        "tierfetch_produced_bytes",
        "kafka_server_brokertopicmetrics_bytesin",
        "tierfetch_connections",
    ]
    assert [(sample.name, sample.value) for sample in families[1].samples] == [
        ("kafka_server_brokertopicmetrics_bytesin_total", 7)
    ]
    assert families[1].type == "counter"
