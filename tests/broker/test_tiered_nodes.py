"""Whole brokers with a tier, in one event loop: what an empty follower begins with, and what a new leader can serve."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from dataclasses import replace as replace_fields
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

from tierfetch.broker import tier as tier_module
from tierfetch.broker.cluster.view import BrokerRegistration, ClusterImage, NewTopic
from tierfetch.broker.handlers.produce import ProduceHandler
from tierfetch.broker.share.persister import LeaderPersister
from tierfetch.broker.tier import manager_config
from tierfetch.fetcher.core.epoch_fetch import FetchIsolation
from tierfetch.fetcher.core.leader_offsets import EARLIEST_PENDING_UPLOAD_TIMESTAMP, special_offset
from tierfetch.log.core import AppendOrigin
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.fetch.messages import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tierfetch.protocol.net.client import KafkaClient
from tierfetch.protocol.records import iter_batches, iter_records
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.protocol.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
from tierfetch.remote.topic_reader import MetadataPartitionReader
from tierfetch.rlm.manager import RemoteLogManager
from tierfetch.rlm.rate_limit import RateLimit
from tierfetch.tests.broker.hosting import batch
from tierfetch.tests.broker.nodes import Nodes
from tierfetch.tests.broker.requests import context_of
from tierfetch.tests.broker.waiting import until
from tierfetch.tests.fakes.cluster_rules import assign_directory
from tierfetch.tests.fakes.cluster_view import FakeCluster, FakeClusterView

pytestmark = pytest.mark.slow
VALUE = b"x" * 100
TIERED = {"remote_storage_enable": "true", "internal_segment_bytes": "1000", "retention_ms": "-1"}
OPTION = "follower.fetch.last.tiered.offset.enable"


async def tiered_nodes(base: Path, plugin: dict[str, str], shares: LeaderPersister | None = None) -> Nodes:
    """Brokers 1 and 2, started; with share groups if something keeps their state."""
    configs = {
        "remote.log.storage.system.enable": "true",
        "remote.log.manager.task.interval.ms": "50",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "2",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
        "rlmm.config.remote.log.metadata.topic.min.isr": "1",
        OPTION: "true",
    }
    nodes = Nodes(base, {**configs, **plugin})
    nodes.share_persister = shares
    await nodes.start(1, 2)
    return nodes


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[Nodes]:
    local = {"remote.log.storage.manager.plugin": "local", "rsm.config.dir": str(tmp_path / "tier")}
    nodes = await tiered_nodes(tmp_path, local)
    yield nodes
    await nodes.close()


async def produce(nodes: Nodes, number: int, count: int, **fields: Any) -> None:
    partition = nodes.partition(number, "t")
    for index in range(count):
        extra = {"producer_id": 7, "sequence": fields["sequence"] + index} if fields else {}
        await partition.append(batch(VALUE, **extra), AppendOrigin.CLIENT, acks_all=False)


def pending(nodes: Nodes, number: int) -> int:
    """The leader's next offset to upload, -1 while it is unknown."""
    broker = nodes[number]
    assert broker.tier is not None
    partition = nodes.partition(number, "t")
    answer = special_offset(
        partition.leader().view_now(),
        broker.tier.manager.ledger(partition.partition),
        EARLIEST_PENDING_UPLOAD_TIMESTAMP,
        FetchIsolation.LOG_END,
        11,
    )
    offset: int = getattr(answer, "offset", -1)
    return offset


async def all_closed_segments_tiered(nodes: Nodes, number: int) -> int:
    log = nodes.partition(number, "t").log
    await until(lambda: pending(nodes, number) == log.state.segments.active.base_offset)
    return log.state.segments.active.base_offset


async def replace(nodes: Nodes, number: int) -> None:
    """Stop, wipe, start; returns once the newcomer is in sync everywhere."""
    await nodes.stop(number)
    shutil.rmtree(nodes.directory(number))
    await nodes.start(number)
    leader = 3 - number
    topics = nodes[leader].view.image.topics
    await until(lambda: all(number in nodes.registration(name).isr for name in topics))
    end = nodes.partition(leader, "t").log.state.log_end_offset
    await until(lambda: nodes.partition(number, "t").log.state.log_end_offset == end)


async def consume(nodes: Nodes, number: int) -> list[int]:
    """Offsets of all records from 0 on, as a consumer gets them from this broker."""
    client = KafkaClient(client_id="test", random=Random(1))
    partition = nodes.partition(number, "t")
    offsets: list[int] = []
    try:
        while len(offsets) < partition.log.state.high_watermark:
            wanted = FetchPartition(0, fetch_offset=len(offsets))
            topics = (FetchTopic((wanted,), "t", partition.partition.topic_id),)
            request = FetchRequest(max_wait_ms=100, min_bytes=1, topics=topics)
            response: FetchResponse = await client.send(nodes[number].address, request)
            answer = response.topics[0].partitions[0]
            assert answer.error_code is ErrorCode.none
            data: Any = answer.records
            for position, header in iter_batches(data):
                offsets += [record.offset for record in iter_records(data, position, header)]
    finally:
        await client.close()
    return offsets


async def test_F6_empty_follower_begins_at_the_next_upload_and_holds_the_leaders_bytes(nodes: Nodes) -> None:
    await nodes.topic("t", 1, 2, **TIERED)
    await produce(nodes, 1, 40)
    start = await all_closed_segments_tiered(nodes, 1)
    assert start > 20
    await replace(nodes, 2)
    log = nodes.partition(2, "t").log
    assert (log.state.log_start_offset, log.state.offsets.local_log_start_offset) == (0, start)
    assert nodes.log_bytes(1, "t").endswith(nodes.log_bytes(2, "t"))
    assert log.state.epochs.entries == nodes.partition(1, "t").log.state.epochs.entries


def has_all_ledgers(nodes: Nodes, number: int) -> bool:
    """Return whether the broker has read the metadata of all partitions of `many`."""
    tier, topic = nodes[number].tier, nodes[number].view.image.topics["many"]
    return tier is not None and all(
        tier.manager.ledger(topic.id_partition(each)) is not None for each in topic.partitions
    )


async def test_the_metadata_of_all_that_a_broker_hosts_are_read_in_one_pass(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many passes as partitions, each over all metadata, would cost a broker the square of what it hosts."""
    await nodes.topic("t", 1, 2, **TIERED)
    many = NewTopic("many", -1, -1, ((1, 2),) * 12, {"remote.storage.enable": "true"})
    await nodes.operator.create_topic(many)
    await until(lambda: nodes.registration("many").isr == (1, 2))
    await until(lambda: has_all_ledgers(nodes, 1))
    passes: list[int] = []
    begin_join = MetadataPartitionReader._begin_join

    async def noted(reader: MetadataPartitionReader, cursor: Any) -> None:
        passes.append(len(cursor.partitions))
        await begin_join(reader, cursor)

    monkeypatch.setattr(MetadataPartitionReader, "_begin_join", noted)
    await replace(nodes, 2)
    await until(lambda: has_all_ledgers(nodes, 2))
    assert set(passes) == {13}, "a pass may be made again, where its leader is not there yet"


async def test_bootstrap_rule_7_replica_that_restarts_before_it_was_in_the_isr_counts_as_empty(nodes: Nodes) -> None:
    await nodes.topic("t", 1, 2, **TIERED)
    await produce(nodes, 1, 40)
    await all_closed_segments_tiered(nodes, 1)
    await replace(nodes, 2)
    marker = nodes.directory(2) / "t-0" / "adopted"
    await until(lambda: not marker.exists())
    assert not nodes.partition(2, "t").is_never_in_isr
    await nodes.stop(2)
    marker.write_bytes(b"")  # as if it had stopped before it joined
    await produce(nodes, 1, 40)
    await until(lambda: nodes.registration("t").isr == (1,))
    tiered_to = await all_closed_segments_tiered(nodes, 1)
    await nodes.start(2)
    await until(lambda: nodes.registration("t").isr == (1, 2))
    assert nodes.partition(2, "t").log.state.offsets.local_log_start_offset == tiered_to
    await until(lambda: not marker.exists())


async def test_R4_proof_that_a_segment_needs_no_transaction_index_keeps_to_the_quota_of_reads(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Metadata of Kafka before 4.0 do not deny the index: the log is read."""
    await nodes.topic("t", 1, **TIERED)
    await produce(nodes, 1, 20)
    await all_closed_segments_tiered(nodes, 1)
    tier = nodes[1].tier
    assert tier is not None
    ledger = tier.manager.ledger(nodes.partition(1, "t").partition)
    assert ledger is not None
    segment = replace_fields(ledger.finished()[0], txn_index_empty=False)
    waited_for: list[int] = []

    async def acquire(self: RateLimit, count: int) -> None:
        waited_for.append(count)

    monkeypatch.setattr(RateLimit, "acquire", acquire)
    assert (await tier.reads._indexes.transaction_index(segment)).size_bytes == 0
    assert waited_for == [segment.segment_size_in_bytes]


class LateView(FakeClusterView):
    """Sees what its metadata log held once, an old image, until the broker is registered."""

    def __init__(self, cluster: FakeCluster, old: ClusterImage) -> None:
        super().__init__(cluster)
        self._old: ClusterImage | None = old

    @property
    def image(self) -> ClusterImage:
        return self._old or self.cluster.image

    async def register(self, broker: BrokerRegistration) -> None:
        self._old = None
        await super().register(broker)


@pytest.mark.parametrize("is_topic_known", [False, True])
async def test_bootstrap_rule_4_a_broker_whose_metadata_log_lost_its_end_forgets_nothing_that_the_tier_holds(
    nodes: Nodes, is_topic_known: bool
) -> None:
    await nodes.topic("t", 1, 2, **TIERED)
    await produce(nodes, 1, 40)
    begin = await all_closed_segments_tiered(nodes, 1)
    await replace(nodes, 2)
    now = nodes.cluster.image
    untiered = {"t": replace_fields(now.topics["t"], configs={})}
    old = replace_fields(now, topics=untiered if is_topic_known else {})
    for number in (2, 1):
        await nodes.stop(number)
    nodes.views[2] = LateView(nodes.cluster, old)
    await nodes.start(2)
    log = nodes.partition(2, "t").log
    assert (log.state.log_start_offset, log.state.log_start_known, log.state.offsets.local_log_start_offset) == (
        0,
        True,
        begin,
    )
    assert log.state.config.remote_storage_enable


@pytest.mark.parametrize("scheme", ["memory", "file"])
async def test_R5_a_filesystem_of_fsspec_carries_a_bootstrap(tmp_path: Path, scheme: str) -> None:
    url = f"{scheme}://{tmp_path}/fsspec"
    nodes = await tiered_nodes(tmp_path, {"remote.log.storage.manager.plugin": "fsspec", "rsm.config.url": url})
    await nodes.topic("t", 1, 2, **TIERED)
    await produce(nodes, 1, 40)
    start = await all_closed_segments_tiered(nodes, 1)
    await replace(nodes, 2)
    assert nodes.partition(2, "t").log.state.offsets.local_log_start_offset == start
    assert nodes.log_bytes(1, "t").endswith(nodes.log_bytes(2, "t"))
    assert await consume(nodes, 1) == list(range(40))
    await nodes.close()


async def test_F1_option_off_copies_all_that_is_local(nodes: Nodes) -> None:
    await nodes.topic("t", 1, 2, **TIERED)
    await produce(nodes, 1, 40)
    await all_closed_segments_tiered(nodes, 1)
    await nodes.operator.alter_broker_configs("default", {OPTION: "false"})
    await replace(nodes, 2)
    assert nodes.partition(2, "t").log.state.offsets.local_log_start_offset == 0
    assert nodes.log_bytes(1, "t") == nodes.log_bytes(2, "t")


@pytest.mark.parametrize("policy", ["earliest-pending-upload", "local-log-start", "log-start"])
async def test_F3_where_all_is_local_only_tier_first_asks_before_it_fetches(nodes: Nodes, policy: str) -> None:
    """The first fetch, at the log start, is served: as KIP-1023 is written, everything is copied."""
    await nodes.operator.alter_broker_configs("default", {"bootstrap.policy": policy})
    await nodes.topic("t", 1, 2, **TIERED)
    await produce(nodes, 1, 40)
    assert await all_closed_segments_tiered(nodes, 1) > 20
    await replace(nodes, 2)
    assert nodes.partition(2, "t").log.state.offsets.local_log_start_offset == 0
    assert nodes.log_bytes(1, "t") == nodes.log_bytes(2, "t")


async def test_F3_replica_that_restarts_with_its_log_goes_on_where_it_was(nodes: Nodes) -> None:
    await nodes.topic("t", 1, 2, **TIERED)
    await produce(nodes, 1, 40)
    await all_closed_segments_tiered(nodes, 1)
    await until(lambda: nodes.partition(2, "t").log.state.log_end_offset == 40)
    await nodes.stop(2)
    await produce(nodes, 1, 40)
    await nodes.start(2)
    await until(
        lambda: nodes.registration("t").isr == (1, 2) and nodes.partition(2, "t").log.state.log_end_offset == 80
    )
    assert nodes.partition(2, "t").log.state.offsets.local_log_start_offset == 0
    assert nodes.log_bytes(1, "t") == nodes.log_bytes(2, "t")


async def test_F8_tiering_off_and_on_again_leaves_a_newcomer_the_local_log(nodes: Nodes) -> None:
    await nodes.topic("t", 1, 2, **TIERED, local_retention_bytes="2000")
    await produce(nodes, 1, 40)
    leader = nodes.partition(1, "t").log
    await until(lambda: leader.state.offsets.local_log_start_offset > 10)
    off = {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}
    await nodes.operator.alter_topic_configs("t", off)
    await until(lambda: leader.state.log_start_offset == leader.state.offsets.local_log_start_offset > 0)
    await until(lambda: not list((nodes.base / "tier").rglob("*.log")))
    await nodes.operator.alter_topic_configs(
        "t", {"remote.storage.enable": "true", "remote.log.copy.disable": "true", "local.retention.bytes": None}
    )
    await until(lambda: leader.state.config.remote_storage_enable)
    start = leader.state.log_start_offset
    assert pending(nodes, 1) == start
    await replace(nodes, 2)
    log = nodes.partition(2, "t").log
    assert (log.state.log_start_offset, log.state.offsets.local_log_start_offset) == (start, start)
    assert nodes.log_bytes(1, "t").endswith(nodes.log_bytes(2, "t"))
    assert log.state.log_end_offset == 40


async def test_F5_option_off_and_moved_to_the_tier_begins_at_the_local_log_start(nodes: Nodes) -> None:
    await nodes.topic("t", 1, 2, **TIERED, local_retention_bytes="2000")
    await produce(nodes, 1, 40)
    await all_closed_segments_tiered(nodes, 1)
    leader = nodes.partition(1, "t").log
    await until(lambda: leader.state.offsets.local_log_start_offset > 0 and leader.state.segments.size_bytes < 3000)
    await nodes.operator.alter_broker_configs("default", {OPTION: "false"})
    local_start = leader.state.offsets.local_log_start_offset
    await replace(nodes, 2)
    log = nodes.partition(2, "t").log
    assert (log.state.log_start_offset, log.state.offsets.local_log_start_offset) == (0, local_start)


async def test_idle_partition_that_is_wholly_tiered_gets_its_replica_back(nodes: Nodes) -> None:
    """Where Apache Kafka waits until somebody produces."""
    await nodes.topic("t", 1, 2, **TIERED)
    await produce(nodes, 1, 10)
    leader = nodes.partition(1, "t").log
    await leader.roll()
    await until(lambda: pending(nodes, 1) == 10)
    await replace(nodes, 2)
    log = nodes.partition(2, "t").log
    assert (log.state.log_start_offset, log.state.offsets.local_log_start_offset, log.state.log_end_offset) == (
        0,
        10,
        10,
    )


async def test_R1_new_leader_goes_on_uploading_and_serves_what_it_never_had(nodes: Nodes) -> None:
    topic = await nodes.topic("t", 1, 2, **TIERED)
    await produce(nodes, 1, 40)
    start = await all_closed_segments_tiered(nodes, 1)
    await replace(nodes, 2)
    await nodes[1].view.elect_leader(topic.id_partition(0), 2)
    await until(lambda: nodes.partition(2, "t").leadership is not None)
    assert nodes.partition(2, "t").log.state.offsets.local_log_start_offset == start
    await produce(nodes, 2, 40)
    assert await all_closed_segments_tiered(nodes, 2) > start
    await until(lambda: nodes.partition(2, "t").log.state.high_watermark == 80)
    assert await consume(nodes, 2) == list(range(80))


async def test_F10_duplicate_of_a_batch_that_is_in_the_tier_only_is_refused_by_the_new_leader(nodes: Nodes) -> None:
    topic = await nodes.topic("t", 1, 2, **TIERED)
    await produce(nodes, 1, 5, sequence=0)
    await nodes.partition(1, "t").log.roll()
    await until(lambda: pending(nodes, 1) == 5)
    await replace(nodes, 2)
    await nodes[1].view.elect_leader(topic.id_partition(0), 2)
    await until(lambda: nodes.partition(2, "t").leadership is not None)
    assert nodes.partition(2, "t").log.state.offsets.local_log_start_offset == 5
    handler = ProduceHandler(nodes[2].hosted)
    answers = []
    for sequence in (4, 7, 5):
        records = batch(VALUE, producer_id=7, sequence=sequence)
        request = ProduceRequest(acks=1, timeout_ms=1000, topics=(ProduceTopic((ProducePartition(0, records),), "t"),))
        response = await handler.produce(context_of(ApiKey.PRODUCE, 9), request)
        assert response is not None
        answer = response.topics[0].partitions[0]
        answers.append((answer.error_code, answer.base_offset))
    assert answers == [(ErrorCode.none, 4), (ErrorCode.out_of_order_sequence_number, -1), (ErrorCode.none, 5)]
    assert nodes.partition(2, "t").log.state.log_end_offset == 6


async def test_C3_deleted_topic_leaves_nothing_in_the_tier(nodes: Nodes) -> None:
    topic = await nodes.topic("t", 1, 2, **TIERED)
    await produce(nodes, 1, 40)
    await all_closed_segments_tiered(nodes, 1)
    directory = nodes.base / "tier"
    assert list(directory.rglob("*.log"))
    await nodes.operator.delete_topic("t")
    await until(lambda: not nodes.hosts(1, "t") and not nodes.hosts(2, "t"))
    await until(lambda: not list(directory.rglob("*.log")))
    assert topic.name not in nodes[1].view.image.topics


async def test_C3_topic_that_is_deleted_while_its_leader_is_down_leaves_nothing_in_the_tier(nodes: Nodes) -> None:
    await nodes.topic("t", 1, 2, **TIERED)
    await produce(nodes, 1, 40)
    await all_closed_segments_tiered(nodes, 1)
    directory = nodes.base / "tier"
    await nodes.stop(1)
    await nodes.operator.delete_topic("t")
    await until(lambda: not nodes.hosts(2, "t"))
    assert list(directory.rglob("*.log"))
    await nodes.start(1)
    await until(lambda: not list(directory.rglob("*.log")))


@pytest.fixture
def orphans_deleted_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        tier_module,
        "manager_config",
        lambda config: replace_fields(manager_config(config), orphaned_deletion_delay_ms=20),
    )


@pytest.mark.usefixtures("orphans_deleted_soon")
async def test_C3_topic_whose_leader_never_returns_leaves_nothing_in_the_tier(nodes: Nodes) -> None:
    """Whoever would have led it after that one hears of that and of the topic's end at once, or of the end alone."""
    await nodes.topic("t", 1, 2, **TIERED)
    await produce(nodes, 1, 40)
    await all_closed_segments_tiered(nodes, 1)
    await nodes.stop(1)
    directory = nodes.base / "tier"
    assert list(directory.rglob("*.log"))
    await nodes.operator.delete_topic("t")
    await nodes.operator.fence_broker(1)  # it may lead the remote log metadata, too
    await until(lambda: not nodes.hosts(2, "t"))
    await until(lambda: not list(directory.rglob("*.log")))


async def test_C3_topic_that_was_made_anew_while_its_only_broker_was_down_leaves_nothing_in_the_tier(
    nodes: Nodes,
) -> None:
    await nodes.topic("t", 1, **TIERED)
    await produce(nodes, 1, 40)
    await all_closed_segments_tiered(nodes, 1)
    await nodes.stop(1)
    directory = nodes.base / "tier"
    await nodes.operator.delete_topic("t")
    await nodes.operator.create_topic(NewTopic("t", -1, -1, ((1,),)))
    assert list(directory.rglob("*.log"))
    await nodes.start(1)
    assert nodes.partition(1, "t").log.state.log_end_offset == 0
    await until(lambda: not list(directory.rglob("*.log")))


async def test_C3_a_tier_that_cannot_be_told_of_the_earlier_topic_is_no_loss_of_the_log(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tierfetch.broker.replicas.manager.TICK_S_MAX", 0.02)
    await nodes.topic("t", 1, **TIERED)
    await produce(nodes, 1, 40)
    await all_closed_segments_tiered(nodes, 1)
    (directory_id,) = nodes[1].logs.directory_ids
    await nodes.stop(1)
    await nodes.operator.delete_topic("t")
    key = (await nodes.operator.create_topic(NewTopic("t", -1, -1, ((1,),)))).id_partition(0)
    nodes.cluster.change(lambda image: assign_directory(image, key, 1, directory_id))
    told: list[UUID] = []
    monkeypatch.setattr(FakeClusterView, "assign_directory", lambda _, __, directory_id: told.append(directory_id))
    delete, refusals = RemoteLogManager.delete_remote_partition, iter([TimeoutError(), TimeoutError()])

    async def reached_at_last(manager: RemoteLogManager, partition: TopicIdPartition) -> None:
        for refusal in refusals:
            raise refusal
        await delete(manager, partition)

    monkeypatch.setattr(RemoteLogManager, "delete_remote_partition", reached_at_last)
    await nodes.start(1)
    await until(lambda: nodes.hosts(1, "t"))
    assert next(refusals, None) is None
    assert told == []


async def test_R6_tiering_is_switched_off_and_on_again(nodes: Nodes) -> None:
    await nodes.topic("t", 1, 2, **TIERED)
    await produce(nodes, 1, 20)
    first = await all_closed_segments_tiered(nodes, 1)
    await nodes.operator.alter_topic_configs("t", {"remote.log.copy.disable": "true"})
    await until(lambda: nodes.partition(1, "t").log.state.config.remote_log_copy_disable)
    await produce(nodes, 1, 20)
    assert pending(nodes, 1) == first
    await nodes.operator.alter_topic_configs("t", {"remote.log.copy.disable": None})
    assert await all_closed_segments_tiered(nodes, 1) > first
    assert await consume(nodes, 1) == list(range(40))


async def test_F11_a_thin_replica_is_thin_also_after_a_restart_until_it_has_warmed(nodes: Nodes) -> None:
    await nodes.topic("t", 1, 2, **TIERED)
    await produce(nodes, 1, 40)
    begin = await all_closed_segments_tiered(nodes, 1)
    await replace(nodes, 2)
    await until(lambda: nodes.partition(2, "t").log.state.is_thin)
    await nodes.stop(2)
    await nodes.start(2)
    (report,) = nodes[2].thin.report()
    assert (report.local_start_offset, report.partition_index) == (begin, 0)
    await nodes.stop(2)
    await nodes.start(2, thin_replica_warm_ms="1")
    await until(lambda: not nodes.partition(2, "t").log.state.is_thin)
    await nodes.stop(2)
    await nodes.start(2)
    assert nodes[2].thin.report() == []


async def test_F11_the_warmer_fills_a_thin_replica_from_the_tier_until_it_is_full(nodes: Nodes) -> None:
    await nodes.topic("t", 1, 2, **TIERED)
    await produce(nodes, 1, 40)
    begin = await all_closed_segments_tiered(nodes, 1)
    await replace(nodes, 2)
    replica, thin = nodes.partition(2, "t"), nodes[2].thin
    await until(lambda: thin.local_start_of(replica) == begin and not replica.log.state.is_adopted)
    (report,) = thin.report()
    assert (report.local_start_offset, replica.log.state.offsets.local_log_start_offset) == (begin, begin)
    await nodes.operator.alter_broker_configs("2", {"thin.replica.warmer.enable": "true"})
    await until(lambda: replica.log.state.offsets.local_log_start_offset == 0)
    await until(lambda: (thin.local_start_of(replica), thin.report()) == (None, []))
    assert nodes.log_bytes(2, "t") == nodes.log_bytes(1, "t")
    assert await consume(nodes, 2) == list(range(replica.log.state.high_watermark))
