"""The metadata topic over real connections: to broker 1, which leads it for real, and to peers that a test scripts."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tierfetch.broker import metadata_topic
from tierfetch.broker.cluster.view import BrokerRegistration
from tierfetch.broker.config.broker_config import BrokerConfig
from tierfetch.broker.groups.coordinator import GroupCoordinator
from tierfetch.broker.groups.settings import CoordinatorSettings
from tierfetch.broker.handlers.log_dirs import LogDirHandler
from tierfetch.broker.handlers.table import HandlerServices, handler_table
from tierfetch.broker.handlers.txn_markers import TransactionMarkerHandler
from tierfetch.broker.metadata_topic import BrokerMetadataTopic
from tierfetch.broker.peers import address_of
from tierfetch.broker.share_state.coordinator import ShareCoordinator
from tierfetch.broker.share_state.settings import ShareStateSettings
from tierfetch.broker.transactions.parts import Brokers, Transactions
from tierfetch.broker.transactions.settings import TransactionSettings
from tierfetch.log.core import AppendOrigin
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.fetch.messages import FetchResponse
from tierfetch.protocol.net.client import KafkaClient
from tierfetch.protocol.net.server import Server
from tierfetch.protocol.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch
from tierfetch.protocol.topics import REMOTE_LOG_METADATA_TOPIC
from tierfetch.protocol.wire.produce import (
    ProducePartitionResponse,
    ProduceResponse,
    ProduceTopicResponse,
)
from tierfetch.remote import RemoteLogMetadataError
from tierfetch.remote.metadata_topic import MetadataTopicSettings
from tierfetch.tests.broker.hosting import NOW_MS, Host, batch
from tierfetch.tests.broker.waiting import until
from tierfetch.tests.fakes.cluster_view import FakeClusterView
from tierfetch.tests.protocol.wire_fakes import HOST, serving

SETTINGS = MetadataTopicSettings(num_partitions=4, replication_factor=2, min_insync_replicas=1, retention_ms=-1)


@pytest.fixture
async def topic(view: FakeClusterView) -> AsyncIterator[BrokerMetadataTopic]:
    def make_client() -> KafkaClient:
        return KafkaClient(client_id="tierfetch-broker-9", random=random.Random(3))

    questions = make_client()
    topic = BrokerMetadataTopic(view, questions, make_client, lambda: NOW_MS, timeout_s=5.0)
    try:
        yield topic
    finally:
        await topic.close()
        await questions.close()


async def announce(view: FakeClusterView, broker_id: int, server: Server) -> None:
    directories = view.image.brokers[broker_id].directory_ids
    await view.register(BrokerRegistration(broker_id, HOST, server.port, None, directories))


@pytest.fixture
async def leader(view: FakeClusterView, host: Host, config: BrokerConfig) -> AsyncIterator[Server]:
    """Broker 1 as it answers on the wire."""
    groups = GroupCoordinator(view, CoordinatorSettings(), random.Random(6), lambda: NOW_MS)
    markers = TransactionMarkerHandler(host.hosted, groups, lambda: NOW_MS)
    client = KafkaClient(client_id="tierfetch-broker-1", random=random.Random(8))
    services = HandlerServices(
        config=config,
        view=view,
        hosted=host.hosted,
        rng=random.Random(5),
        now_ms=lambda: NOW_MS,
        groups=groups,
        transactions=Transactions(
            view,
            TransactionSettings(),
            Brokers(1, client, lambda: client, address_of),
            markers.write,
            random.Random(7),
            lambda: NOW_MS,
        ),
        shares=ShareCoordinator(view, ShareStateSettings(), random.Random(9), lambda: NOW_MS),
        markers=markers,
        remote_reads=None,
        remote_offsets=None,
        controllers=None,
        log_dirs=LogDirHandler(SimpleNamespace(directories=()), disk=None),
        throttles=SimpleNamespace(leader=None),
    )
    async with serving(handler_table(services)) as server:
        await announce(view, 1, server)
        yield server
    await client.close()


async def test_the_topic_is_created_once_by_any_number_of_brokers(
    topic: BrokerMetadataTopic, view: FakeClusterView
) -> None:
    counts = await asyncio.gather(topic.ensure(SETTINGS), topic.ensure(SETTINGS))
    assert set(counts) == {4}
    created = view.image.topics[REMOTE_LOG_METADATA_TOPIC]
    assert [len(partition.replicas) for partition in created.partitions.values()] == [2, 2, 2, 2]
    assert created.configs == {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "min.insync.replicas": "1",
        "remote.storage.enable": "false",
        "flush.messages": "1",
    }
    other = MetadataTopicSettings(num_partitions=9, replication_factor=1, min_insync_replicas=1, retention_ms=5)
    assert await topic.ensure(other) == 4


async def test_a_topic_that_cannot_be_created_yet(topic: BrokerMetadataTopic) -> None:
    too_many = MetadataTopicSettings(num_partitions=1, replication_factor=9, min_insync_replicas=1, retention_ms=-1)
    with pytest.raises(KafkaError, match="INVALID_REPLICATION_FACTOR"):
        await topic.ensure(too_many)


async def test_the_topic_is_not_created_before_its_brokers_are_there(
    topic: BrokerMetadataTopic, view: FakeClusterView
) -> None:
    """Of brokers that start together none is left out, because it was the last to register."""
    settings = replace(SETTINGS, brokers_min=len(view.image.brokers) + 2)
    await view.register(BrokerRegistration(8, HOST, 1, fenced=True))
    await view.register(BrokerRegistration(9, HOST, 2))
    with pytest.raises(RemoteLogMetadataError, match=r"created once \d+ brokers are alive"):
        await topic.ensure(settings)
    assert REMOTE_LOG_METADATA_TOPIC not in view.image.topics
    await view.register(BrokerRegistration(8, HOST, 1))
    assert await topic.ensure(settings) == 4
    assert await topic.ensure(replace(settings, brokers_min=99)) == 4, "it is there"


async def test_what_was_appended_is_read_back(topic: BrokerMetadataTopic, host: Host, leader: Server) -> None:
    await host.topic(REMOTE_LOG_METADATA_TOPIC, 1)
    assert await topic.bounds(0) == (0, 0)
    assert [await topic.append(0, value) for value in (b"a", b"b", b"c")] == [0, 1, 2]
    assert await topic.bounds(0) == (0, 3)
    read = await topic.read(0, 1)
    assert list(read.records) == [(1, b"b"), (2, b"c")]
    assert read.next_offset == 3


async def test_a_read_begins_within_a_batch_and_passes_control_records(
    topic: BrokerMetadataTopic, host: Host, leader: Server
) -> None:
    partition = await host.topic(REMOTE_LOG_METADATA_TOPIC, 1)
    await partition.append(
        batch(b"a", b"b", producer_id=7, sequence=0, transactional=True), AppendOrigin.CLIENT, acks_all=False
    )
    marker = build_end_transaction_batch(
        EndTransactionMarker(ControlType.COMMIT, 0), base_offset=0, timestamp_ms=NOW_MS, producer_id=7, producer_epoch=0
    )
    await partition.append(memoryview(bytearray(marker)), AppendOrigin.COORDINATOR, acks_all=False)
    read = await topic.read(0, 1)
    assert list(read.records) == [(1, b"b")]
    assert read.next_offset == 3


async def test_a_read_waits_for_the_next_record(topic: BrokerMetadataTopic, host: Host, leader: Server) -> None:
    await host.topic(REMOTE_LOG_METADATA_TOPIC, 1)
    reading = asyncio.create_task(topic.read(0, 0))
    await until(lambda: len(leader.connections) == 1)
    await topic.append(0, b"a")
    assert list((await reading).records) == [(0, b"a")]


async def test_a_read_ends_empty_after_a_while(
    topic: BrokerMetadataTopic, host: Host, leader: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_topic, "READ_WAIT_MS", 20)
    await host.topic(REMOTE_LOG_METADATA_TOPIC, 1)
    read = await topic.read(0, 0)
    assert (list(read.records), read.next_offset) == ([], 0)


async def test_a_read_that_waits_holds_up_neither_reads_nor_appends(
    topic: BrokerMetadataTopic, host: Host, leader: Server
) -> None:
    await host.topic(REMOTE_LOG_METADATA_TOPIC, 1)
    await topic.append(0, b"a")
    waiting = asyncio.create_task(topic.read(0, 1))
    await until(lambda: len(leader.connections) == 2)
    async with asyncio.timeout(1.0):
        assert list((await topic.read(0, 0)).records) == [(0, b"a")]
        assert await topic.bounds(0) == (0, 1)
    assert not waiting.done()
    await topic.append(0, b"b")
    assert list((await waiting).records) == [(1, b"b")]


async def test_an_append_that_waits_for_followers_holds_up_no_question(
    topic: BrokerMetadataTopic, host: Host, leader: Server
) -> None:
    partition = await host.topic(REMOTE_LOG_METADATA_TOPIC, 1, 2)
    waiting = asyncio.create_task(topic.append(0, b"a"))
    await until(lambda: partition.log.state.log_end_offset == 1)
    async with asyncio.timeout(1.0):
        assert await topic.bounds(0) == (0, 0)
    assert not waiting.done()
    waiting.cancel()
    await asyncio.wait([waiting])


async def test_after_a_cancelled_read_the_next_one_need_not_wait_for_its_answer(
    topic: BrokerMetadataTopic, host: Host, leader: Server
) -> None:
    await host.topic(REMOTE_LOG_METADATA_TOPIC, 1)
    await topic.append(0, b"a")
    waiting = asyncio.create_task(topic.read(0, 1))
    await until(lambda: len(leader.connections) == 2)
    waiting.cancel()
    await asyncio.wait([waiting])
    async with asyncio.timeout(1.0):
        assert list((await topic.read(0, 0)).records) == [(0, b"a")]
    assert len(leader.connections) == 2


async def test_connections_are_used_again(topic: BrokerMetadataTopic, host: Host, leader: Server) -> None:
    await host.topic(REMOTE_LOG_METADATA_TOPIC, 1)
    for number in range(5):
        await topic.append(0, b"a")
        await topic.read(0, number)
    assert len(leader.connections) == 2


async def test_bootstrap_rule_11_nothing_that_is_not_committed_is_read(
    topic: BrokerMetadataTopic, host: Host, leader: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_topic, "READ_WAIT_MS", 20)
    partition = await host.topic(REMOTE_LOG_METADATA_TOPIC, 1, 2)
    waiting = asyncio.create_task(topic.append(0, b"a"))
    await until(lambda: partition.log.state.log_end_offset == 1)
    assert list((await topic.read(0, 0)).records) == []
    assert await topic.bounds(0) == (0, 0)
    waiting.cancel()
    await asyncio.wait([waiting])


async def test_an_offset_that_the_log_does_not_have(topic: BrokerMetadataTopic, host: Host, leader: Server) -> None:
    await host.topic(REMOTE_LOG_METADATA_TOPIC, 1)
    with pytest.raises(KafkaError) as raised:
        await topic.read(0, 5)
    assert raised.value.code is ErrorCode.offset_out_of_range


async def test_another_record_before_the_offset_than_was_read(
    topic: BrokerMetadataTopic, host: Host, leader: Server
) -> None:
    partition = await host.topic(REMOTE_LOG_METADATA_TOPIC, 1)
    for value in (b"a", b"b", b"c"):
        await topic.append(0, value)
    read = await topic.read(0, 0)
    assert read.last_epoch == partition.log.state.epochs.latest_epoch
    assert list((await topic.read(0, 2, read.last_epoch)).records) == [(2, b"c")]
    partition.log.state.epochs.assign(read.last_epoch + 2, 1)
    for lost_epoch in (read.last_epoch, read.last_epoch + 1, read.last_epoch + 3):
        with pytest.raises(KafkaError) as raised:
            await topic.read(0, 2, lost_epoch)
        assert raised.value.code is ErrorCode.offset_out_of_range


async def test_each_call_asks_who_leads_now(
    topic: BrokerMetadataTopic, view: FakeClusterView, host: Host, leader: Server
) -> None:
    partition = await host.topic(REMOTE_LOG_METADATA_TOPIC, 1, 2)
    await topic.bounds(0)
    answer = ProducePartitionResponse(0, base_offset=41)

    async def produce(_: object, request: Any) -> ProduceResponse:
        return ProduceResponse(
            topics=(ProduceTopicResponse((answer,), request.topics[0].topic, request.topics[0].topic_id),)
        )

    async with serving({ApiKey.PRODUCE: produce}) as other:
        await announce(view, 2, other)
        await view.elect_leader(partition.partition, 2)
        assert await topic.append(0, b"a") == 41


async def test_a_broker_that_leads_no_more_says_so(topic: BrokerMetadataTopic, host: Host, leader: Server) -> None:
    partition = await host.topic(REMOTE_LOG_METADATA_TOPIC, 1, 2)
    await partition.step_down(None)
    calls = (topic.append(0, b"a"), topic.read(0, 0), topic.bounds(0))
    failures = await asyncio.gather(*calls, return_exceptions=True)
    assert [getattr(failure, "code", failure) for failure in failures] == [ErrorCode.not_leader_or_follower] * 3


async def test_without_topic_leader_or_connection_every_call_fails_as_retriable(
    topic: BrokerMetadataTopic, view: FakeClusterView, host: Host
) -> None:
    for call in (topic.append(0, b"a"), topic.read(0, 0), topic.bounds(0)):
        with pytest.raises(RemoteLogMetadataError, match=r"there is no topic|has no leader"):
            await call
    await host.topic(REMOTE_LOG_METADATA_TOPIC, 1)
    for call in (topic.append(0, b"a"), topic.read(0, 0), topic.bounds(0)):
        with pytest.raises(OSError, match="cannot be reached"):
            await call
    with pytest.raises(RemoteLogMetadataError, match="has no leader now"):
        await topic.read(1, 0)


async def test_who_waits_for_another_leader_is_told_as_the_cluster_knows_it(
    topic: BrokerMetadataTopic, view: FakeClusterView, host: Host
) -> None:
    assert topic.leader(0) is None
    waiting = asyncio.create_task(topic.another_leader(0, None))
    await host.topic(REMOTE_LOG_METADATA_TOPIC, 1, 2)
    partition = view.image.topics[REMOTE_LOG_METADATA_TOPIC].id_partition(0)
    async with asyncio.timeout(5):
        await waiting
        asked = topic.leader(0)
        waiting = asyncio.create_task(topic.another_leader(0, asked))
        await view.alter_topic_configs(REMOTE_LOG_METADATA_TOPIC, {"min.insync.replicas": "1"})
        await asyncio.sleep(0)
        assert not waiting.done()
        await view.elect_leader(partition, 2)
        await waiting
        await topic.another_leader(0, asked)


async def test_an_answer_to_another_question_is_refused(
    topic: BrokerMetadataTopic, view: FakeClusterView, host: Host
) -> None:
    await host.topic(REMOTE_LOG_METADATA_TOPIC, 1)
    answers = [FetchResponse(topics=()), FetchResponse(topics=(), error_code=ErrorCode.unknown_server_error)]

    async def fetch(_: object, __: object) -> FetchResponse:
        return answers.pop(0)

    async with serving({ApiKey.FETCH: fetch}) as server:
        await announce(view, 1, server)
        with pytest.raises(RemoteLogMetadataError, match="answers for 0 partitions"):
            await topic.read(0, 0)
        with pytest.raises(KafkaError, match="UNKNOWN_SERVER_ERROR"):
            await topic.read(0, 0)
