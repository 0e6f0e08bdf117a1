"""What Produce must not write: internal topics, transactions that no coordinator tracks, control batches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tierfetch.broker.core.write_rules import check_topic
from tierfetch.broker.handlers.produce import ProduceHandler
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.records import Record, build_batch
from tierfetch.protocol.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch
from tierfetch.protocol.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
from tierfetch.tests.broker.hosting import NOW_MS, Host, batch
from tierfetch.tests.broker.requests import context_of

CONTEXT = context_of(ApiKey.PRODUCE, 9)
OUR_MANAGER = replace(CONTEXT, client_id="tierfetch-broker-1")


def request(topic: str, records: bytes | bytearray | memoryview, transactional_id: str | None = None) -> ProduceRequest:
    topics = (ProduceTopic((ProducePartition(0, memoryview(bytearray(records))),), topic),)
    return ProduceRequest(acks=1, timeout_ms=5000, topics=topics, transactional_id=transactional_id)


async def error_of(handler: ProduceHandler, asked: ProduceRequest, context: object = CONTEXT) -> ErrorCode:
    response = await handler.produce(context, asked)  # type: ignore[arg-type]
    assert response is not None
    return response.topics[0].partitions[0].error_code


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state", "__share_group_state"])
@pytest.mark.parametrize("client_id", ["test", "__admin_client", "tierfetch-broker-1"])
async def test_internal_topics_are_closed_to_every_producer(host: Host, topic: str, client_id: str) -> None:
    partition = await host.topic(topic, 1)
    handler = ProduceHandler(host.hosted, broker_listener="PLAINTEXT")
    asked, context = request(topic, batch(b"a")), replace(CONTEXT, client_id=client_id)
    assert await error_of(handler, asked, context) is ErrorCode.invalid_topic_exception
    assert partition.log.state.log_end_offset == 0


async def test_remote_log_metadata_come_by_the_inter_broker_listener(host: Host) -> None:
    await host.topic("__remote_log_metadata", 1)
    handler = ProduceHandler(host.hosted, broker_listener="INTERNAL")
    asked = request("__remote_log_metadata", batch(b"a"))
    assert await error_of(handler, asked, OUR_MANAGER) is ErrorCode.topic_authorization_failed
    assert await error_of(handler, asked, replace(CONTEXT, listener="INTERNAL")) is ErrorCode.none


@pytest.mark.parametrize(
    ("client_id", "expected"),
    [
        ("tierfetch-broker-1", ErrorCode.none),
        ("__remote_log_metadata_client_2_producer", ErrorCode.none),
        ("__remote_log_metadata_client_2", ErrorCode.none),
        ("rdkafka", ErrorCode.topic_authorization_failed),
        ("my-tierfetch-broker-1", ErrorCode.topic_authorization_failed),
        (None, ErrorCode.topic_authorization_failed),
    ],
)
async def test_on_a_shared_listener_remote_log_metadata_need_a_brokers_client_id(
    host: Host, client_id: str | None, expected: ErrorCode
) -> None:
    await host.topic("__remote_log_metadata", 1)
    asked = request("__remote_log_metadata", batch(b"a"))
    assert await error_of(ProduceHandler(host.hosted), asked, replace(CONTEXT, client_id=client_id)) is expected


def test_the_quorums_own_log_is_no_topic_to_produce_to() -> None:
    with pytest.raises(KafkaError, match="__cluster_metadata is internal"):
        check_topic("__cluster_metadata", "test", is_from_broker=True)


TRANSACTIONAL = bytes(batch(b"a", producer_id=4242, sequence=0, transactional=True))


@pytest.mark.parametrize(
    ("transactional_id", "expected"),
    [(None, ErrorCode.transactional_id_authorization_failed), ("tx", ErrorCode.invalid_txn_state)],
)
async def test_a_forged_transactional_batch_does_not_hold_up_its_partition(
    host: Host, transactional_id: str | None, expected: ErrorCode
) -> None:
    partition = await host.topic("t", 1)
    handler = ProduceHandler(host.hosted)
    assert await error_of(handler, request("t", TRANSACTIONAL, transactional_id)) is expected
    assert await error_of(handler, request("t", batch(b"b"))) is ErrorCode.none
    assert (partition.log.state.log_end_offset, partition.log.state.offsets.last_stable_offset) == (1, 1)


async def test_a_transaction_that_its_coordinator_knows_is_appended(host: Host) -> None:
    partition = await host.topic("t", 1)
    handler = ProduceHandler(host.hosted, is_ongoing=lambda *given: given == ("tx", 4242, 0))
    assert await error_of(handler, request("t", TRANSACTIONAL, "tx")) is ErrorCode.none
    assert await error_of(handler, request("t", TRANSACTIONAL, "other")) is ErrorCode.invalid_txn_state
    assert (partition.log.state.log_end_offset, partition.log.state.offsets.last_stable_offset) == (1, 0)


async def test_control_batches_of_clients_are_refused(host: Host) -> None:
    partition = await host.topic("t", 1)
    handler = ProduceHandler(host.hosted, is_ongoing=lambda *_: True)
    marker = build_end_transaction_batch(
        EndTransactionMarker(ControlType.COMMIT, 0), base_offset=0, timestamp_ms=NOW_MS, producer_id=1, producer_epoch=0
    )
    assert await error_of(handler, request("t", marker, "tx")) is ErrorCode.invalid_record
    plain = build_batch([Record(0, NOW_MS, b"\0\0\0\1", b"\0\0", ())], base_offset=0, is_control=True)
    assert await error_of(handler, request("t", plain)) is ErrorCode.invalid_record
    assert partition.log.state.log_end_offset == 0
