"""Producers that nobody has, topics that vanish, and a coordinator's log that is compacted, cut or rotten."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from kio.schema.init_producer_id.v6 import InitProducerIdRequest as TwoPhaseInit

from tierfetch.broker.environment import wall_clock_ms
from tierfetch.broker.transactions.core.states import TransactionState
from tierfetch.broker.transactions.verifier import TransactionVerifier
from tierfetch.log.core import AppendOrigin
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.base import Message, Request
from tierfetch.protocol.messages.cluster import ApiVersionsRequest
from tierfetch.protocol.messages.groups import LeaveGroupRequest, MemberIdentity, SyncGroupRequest
from tierfetch.protocol.messages.producers import InitProducerIdRequest
from tierfetch.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tierfetch.protocol.net.client import KafkaClient
from tierfetch.protocol.records import Record, build_batch
from tierfetch.protocol.topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tierfetch.tests.broker.groups.conversation import ready
from tierfetch.tests.broker.nodes import Nodes
from tierfetch.tests.broker.transactions.test_brokers import CONFIGS, NONE, Producer, client, stable_and_end
from tierfetch.tests.broker.waiting import until
from tierfetch.tests.protocol.test_every_version import framed

__all__ = ["client"]

IDS = (0, -1, 2**63 - 1, -(2**63))
EPOCHS = (0, -1, 32_767, -32_768)
OFFSET = TxnOffsetCommitRequestPartition(
    partition_index=0, committed_offset=1, committed_leader_epoch=-1, committed_metadata=""
)


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[Nodes]:
    groups = {"offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "1"}
    nodes = Nodes(tmp_path, {**CONFIGS, **groups})
    yield nodes
    await nodes.close()


def forged(producer_id: int, epoch: int) -> Iterator[tuple[Request[Message], int | None]]:
    """Each request that names a producer, of the transactional id "tx"."""
    topics = (AddPartitionsToTxnTopic(name="t", partitions=(0,)),)
    who = {"transactional_id": "tx", "producer_id": producer_id, "producer_epoch": epoch}
    yield (
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="tx",
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=topics,
        ),
        3,
    )
    for verify_only in (True, False):
        transaction = AddPartitionsToTxnTransaction(**who, verify_only=verify_only, topics=topics)  # type: ignore[arg-type]
        yield AddPartitionsToTxnRequest(transactions=(transaction,)), 5
    yield AddOffsetsToTxnRequest(**who, group_id="g"), None  # type: ignore[arg-type]
    committed = TxnOffsetCommitRequestTopic(name="t", partitions=(OFFSET,))
    for version in (4, 5):
        yield TxnOffsetCommitRequest(**who, group_id="g", topics=(committed,)), version  # type: ignore[arg-type]
        for is_commit in (True, False):
            yield EndTxnRequest(**who, committed=is_commit), version  # type: ignore[arg-type]


def codes_in(answer: object) -> Iterator[ErrorCode]:
    """Return the error codes of the parts of an answer; of the whole where it has no parts."""
    names = getattr(answer, "__dataclass_fields__", {})
    parts = [part for name in names if isinstance(value := getattr(answer, name), tuple) for part in value]
    found = [code for part in parts for code in codes_in(part)]
    own = [value for name in names if isinstance(value := getattr(answer, name), ErrorCode)]
    yield from found or own


async def test_A2_a_producer_that_nobody_has_is_let_in_nowhere(nodes: Nodes, client: KafkaClient) -> None:
    """Ids and epochs of all extremes, and the real id in other epochs: the open transaction does not notice."""
    await nodes.start(1)
    await nodes.topic("t", 1)
    producer = Producer(nodes, client)
    await producer.init()
    assert await producer.produce("t") is NONE
    real = (producer.producer_id, producer.epoch)
    strangers = {*product((*IDS, producer.producer_id), EPOCHS), (producer.producer_id, producer.epoch + 1)} - {real}
    for producer_id, epoch in sorted(strangers):
        for request, version in forged(producer_id, epoch):
            codes = list(codes_in(await producer.send(1, request, version)))
            assert codes, request
            assert NONE not in codes, (request, codes)
        if producer_id >= 0 and epoch >= 0:
            producer.producer_id, producer.epoch = producer_id, epoch
            for version in (11, 13):
                assert await producer.produce("t", version) is not NONE, (producer_id, epoch)
            producer.producer_id, producer.epoch = real
    await producer.until_in(TransactionState.ONGOING)
    assert stable_and_end(nodes, 1, "t") == (0, 1)
    assert await producer.end() is NONE
    await producer.until_in(TransactionState.COMPLETE_COMMIT)
    assert stable_and_end(nodes, 1, "t") == (2, 2)


@pytest.mark.parametrize(("producer_id", "epoch"), [(1, -1), (-1, 1)])
async def test_A2_half_of_a_producer_is_invalid_also_without_a_transactional_id(
    nodes: Nodes, client: KafkaClient, producer_id: int, epoch: int
) -> None:
    await nodes.start(1)
    producer = Producer(nodes, client)
    await producer.init()
    for transactional_id in (None, "", "tx"):
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=1,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        answer = await producer.send(1, request)
        assert (answer.error_code, answer.producer_id) == (ErrorCode.invalid_request, -1)


async def test_A2_offsets_of_a_member_in_another_epoch_are_refused_with_a_code_that_producers_know(
    nodes: Nodes, client: KafkaClient
) -> None:
    """In an epoch before its own a member commits what it has had since, as outside a transaction (KIP-1251)."""
    await nodes.start(1)
    await nodes.topic("t", 1)
    one = await ready(nodes, 1)
    await one.beat(group="g")
    await one.beat("n", group="g")
    assert (await one.beat("m", 1, group="g")).member_epoch == 2
    producer = Producer(nodes, client)
    await producer.init()

    async def commit(member: str, epoch: int) -> ErrorCode:
        request = TxnOffsetCommitRequest(
            transactional_id="tx",
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            group_id="g",
            member_id=member,
            generation_id=epoch,
            topics=(TxnOffsetCommitRequestTopic(name="t", partitions=(OFFSET,)),),
        )
        (code,) = codes_in(await producer.send(1, request, 5))
        return code

    assert await commit("m", 3) is ErrorCode.illegal_generation
    assert await commit("m", 0) is ErrorCode.illegal_generation
    assert await commit("n", 1) is ErrorCode.illegal_generation, "it has nothing"
    assert await commit("x", 1) is ErrorCode.unknown_member_id
    assert await commit("m", 1) is NONE
    assert await commit("m", 2) is NONE
    assert await producer.end() is NONE
    await producer.until_in(TransactionState.COMPLETE_COMMIT)
    assert await one.committed("g") == {"t-0": 1}


async def test_A2_a_member_of_a_generation_without_an_assignment_yet_commits_in_a_transaction(
    nodes: Nodes, client: KafkaClient
) -> None:
    """As with Kafka: REBALANCE_IN_PROGRESS would end a producer."""
    await nodes.start(1)
    await nodes.topic("t", 1)
    one = await ready(nodes, 1)
    member = (await one.enter("g")).member_id
    assert await one.commit(1, "g", member=member, generation=1) is ErrorCode.rebalance_in_progress
    producer = Producer(nodes, client)
    await producer.init()
    assert list(codes_in(await producer.send(1, offset_of(producer, member, 1), 5))) == [NONE]
    assert list(codes_in(await producer.send(1, offset_of(producer, member, 0), 5))) == [ErrorCode.illegal_generation]


def verified_late(monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, asyncio.Event]:
    """Let verifications return once the second event is set; the first one says that one is under way."""
    asked, may_return, verify = asyncio.Event(), asyncio.Event(), TransactionVerifier.verify

    async def late(*args: Any, **options: Any) -> object:
        guard = await verify(*args, **options)
        asked.set()
        await may_return.wait()
        return guard

    monkeypatch.setattr(TransactionVerifier, "verify", late)
    return asked, may_return


def offset_of(producer: Producer, member: str, generation: int) -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        transactional_id="tx",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id="g",
        member_id=member,
        generation_id=generation,
        topics=(TxnOffsetCommitRequestTopic(name="t", partitions=(OFFSET,)),),
    )


async def test_A2_a_member_that_is_gone_once_its_transaction_is_verified_commits_no_offset(
    nodes: Nodes, client: KafkaClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another member may have read the offsets meanwhile, and found no transaction that may change them (KIP-447)."""
    await nodes.start(1)
    await nodes.topic("t", 1)
    one = await ready(nodes, 1)
    member = (await one.enter("g")).member_id
    synced = SyncGroupRequest(
        group_id="g", generation_id=1, member_id=member, protocol_type="consumer", protocol_name="range", assignments=()
    )
    assert (await one.ask(synced)).error_code is NONE
    producer = Producer(nodes, client)
    await producer.init()
    asked, verified = verified_late(monkeypatch)
    committing = asyncio.create_task(producer.send(1, offset_of(producer, member, 1), 5))
    await asked.wait()
    left = await one.ask(LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id=member),)))
    assert left.error_code is NONE
    verified.set()
    assert list(codes_in(await committing)) == [ErrorCode.unknown_member_id]
    assert await producer.end() is NONE
    await producer.until_in(TransactionState.COMPLETE_COMMIT)
    assert await one.committed("g") == {}


async def test_A2_a_group_that_is_loaded_again_while_a_transaction_is_verified_does_not_judge_as_it_was(
    nodes: Nodes, client: KafkaClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The member may have come to be meanwhile: it asks again, and is not told that it is unknown."""
    await nodes.start(1)
    await nodes.topic("t", 1)
    one = await ready(nodes, 1)
    await one.commit(1, "g")
    producer = Producer(nodes, client)
    await producer.init()
    asked, verified = verified_late(monkeypatch)
    committing = asyncio.create_task(producer.send(1, offset_of(producer, "later", 1), 5))
    await asked.wait()
    nodes[1].groups.led(nodes.partition(1, GROUP_METADATA_TOPIC))
    await until(lambda: all(active.is_loaded for active in nodes[1].groups.shards))
    verified.set()
    assert list(codes_in(await committing)) == [ErrorCode.not_coordinator]


async def test_A2_offsets_of_no_transaction_are_refused_with_codes_that_the_client_knows(
    nodes: Nodes, client: KafkaClient
) -> None:
    await nodes.start(1)
    await nodes.topic("t", 1)
    await ready(nodes, 1)
    producer = Producer(nodes, client)
    await producer.init()
    offset = offset_of(producer, "", -1)

    async def commit(transactional_id: str, version: int) -> ErrorCode:
        request = replace(offset, transactional_id=transactional_id)
        (code,) = codes_in(await producer.send(1, request, version))
        return code

    assert [await commit("tx", version) for version in (3, 4)] == [
        ErrorCode.invalid_txn_state,
        ErrorCode.transaction_abortable,
    ]
    assert {await commit("", version) for version in (3, 4, 5)} == {ErrorCode.invalid_request}


async def test_A2_a_topic_that_takes_the_name_of_another_while_a_transaction_is_verified_gets_no_offset_of_it(
    nodes: Nodes, client: KafkaClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The marker would put the old topic's offset in place of what is committed for the new one meanwhile."""
    await nodes.start(1)
    await nodes.topic("t", 1)
    await nodes.topic("u", 1)
    one = await ready(nodes, 1)
    producer = Producer(nodes, client)
    await producer.init()
    asked, verified = verified_late(monkeypatch)
    topics = tuple(TxnOffsetCommitRequestTopic(name=name, partitions=(OFFSET,)) for name in ("t", "u"))
    committing = asyncio.create_task(producer.send(1, replace(offset_of(producer, "", -1), topics=topics), 5))
    await asked.wait()
    await nodes.operator.delete_topic("t")
    await nodes.topic("t", 1)
    assert await one.commit(7, "g") is NONE
    verified.set()
    assert list(codes_in(await committing)) == [ErrorCode.unknown_topic_or_partition, NONE]
    assert await producer.end() is NONE
    await producer.until_in(TransactionState.COMPLETE_COMMIT)
    (active,) = nodes[1].groups.shards
    await until(lambda: not active.shard.undecided)
    assert await one.committed("g") == {"t-0": 7, "u-0": 1}


@pytest.mark.parametrize("commit", [True, False])
async def test_A2_an_end_without_a_beginning_changes_nothing(nodes: Nodes, client: KafkaClient, commit: bool) -> None:
    await nodes.start(1)
    producer = Producer(nodes, client, version=0)
    await producer.init()
    log = nodes.partition(1, TRANSACTION_STATE_TOPIC).log
    end_offset = log.state.log_end_offset
    assert await producer.end(commit=commit) is ErrorCode.invalid_txn_state
    nameless = EndTxnRequest(transactional_id="", producer_id=0, producer_epoch=0, committed=commit)
    assert (await producer.send(1, nameless)).error_code is ErrorCode.invalid_request
    await producer.until_in(TransactionState.EMPTY)
    assert log.state.log_end_offset == end_offset


async def test_A2_partitions_that_are_not_there_are_not_added_nor_are_those_beside_them(
    nodes: Nodes, client: KafkaClient
) -> None:
    await nodes.start(1)
    await nodes.topic("t", 1)
    producer = Producer(nodes, client, version=0)
    await producer.init()
    assert await producer.add("vanished", "t") is ErrorCode.unknown_topic_or_partition
    assert await producer.add("t", "vanished") is ErrorCode.operation_not_attempted
    await producer.until_in(TransactionState.EMPTY)


@pytest.mark.parametrize("topic", [GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, "__remote_log_metadata"])
async def test_A2_a_client_adds_no_internal_topic_whose_records_a_marker_would_come_among(
    nodes: Nodes, client: KafkaClient, topic: str
) -> None:
    await nodes.start(1)
    await nodes.topic("t", 1)
    producer = Producer(nodes, client, version=1)
    await producer.init()
    if topic not in nodes[1].view.image.topics:
        await nodes.topic(topic, 1)
    assert await producer.add(topic, "t") is ErrorCode.topic_authorization_failed
    assert await producer.add("t", topic) is ErrorCode.operation_not_attempted
    await producer.until_in(TransactionState.EMPTY)
    assert await producer.add("t") is NONE


@pytest.mark.parametrize("version", [0, 2])
async def test_A2_a_topic_that_vanishes_holds_up_no_transaction(
    nodes: Nodes, client: KafkaClient, version: int
) -> None:
    """Neither the end of the one that it is in, nor the next one with the topic that has its name then."""
    await nodes.start(1)
    await nodes.topic("t", 1)
    await nodes.topic("vanishing", 1)
    producer = Producer(nodes, client, version=version)
    await producer.init()
    for _ in range(2):
        if version == 0:
            assert await producer.add("t", "vanishing") is NONE
        assert await producer.produce("t") is NONE
        assert await producer.produce("vanishing") is NONE
        await nodes.operator.delete_topic("vanishing")
        assert await producer.end() is NONE
        await producer.until_in(TransactionState.COMPLETE_COMMIT)
        await nodes.topic("vanishing", 1)
        producer.sequences.pop("vanishing", None)
    assert stable_and_end(nodes, 1, "t") == (4, 4)
    assert stable_and_end(nodes, 1, "vanishing") == (0, 0)


# The coordinator's log.


async def test_D1_a_compacted_log_has_what_is_under_way(nodes: Nodes, client: KafkaClient) -> None:
    await nodes.start(1)
    await nodes.topic("t", 1)
    producer = Producer(nodes, client)
    await producer.init()
    for number in range(40):
        assert await producer.produce("t") is NONE
        assert await producer.end(commit=number % 2 == 0) is NONE
        await producer.until_in(TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
    assert await producer.produce("t") is NONE
    log = nodes.partition(1, TRANSACTION_STATE_TOPIC).log
    await log.roll()
    await log.flush()
    size = log.state.segments.size_bytes
    assert await nodes[1].logs.upkeep.cleaner.clean_dirtiest()
    assert log.state.segments.size_bytes < size / 20
    await nodes.stop(1)
    await nodes.start(1)
    await producer.until_in(TransactionState.ONGOING)
    assert await producer.produce("t") is NONE
    assert await producer.end() is NONE
    await producer.until_in(TransactionState.COMPLETE_COMMIT)


ROT = (
    (b"", b""),
    (b"\0\0", b"\0\0"),
    (b"\0\0\0\2t", b"\0\0"),
    (b"\0\0\0\2tx", b"\0\1" + bytes(3)),
    (b"\0\0\0\2tx", b"\0\x63" + bytes(60)),
    (b"\0\x63\0\2tx", bytes(80)),
    (b"\xff" * 40, b"\xff" * 80),
)
"""Keys and values that are cut, of unknown versions, or nothing at all."""


async def test_A1_records_that_are_rotten_are_passed_over_and_said(
    nodes: Nodes, client: KafkaClient, caplog: pytest.LogCaptureFixture
) -> None:
    await nodes.start(1)
    await nodes.topic("t", 1)
    producer = Producer(nodes, client)
    await producer.init()
    assert await producer.produce("t") is NONE
    partition = nodes.partition(1, TRANSACTION_STATE_TOPIC)
    for key, value in ROT:
        data = build_batch([Record(0, wall_clock_ms(), key, value)], base_offset=0)
        await partition.append(memoryview(bytearray(data)), AppendOrigin.COORDINATOR, acks_all=True)
    await nodes.stop(1)
    await nodes.start(1)
    await producer.until_in(TransactionState.ONGOING)
    assert f"{TRANSACTION_STATE_TOPIC}-0" in caplog.text
    assert await producer.end() is NONE
    await producer.until_in(TransactionState.COMPLETE_COMMIT)
    assert stable_and_end(nodes, 1, "t") == (2, 2)


async def test_A1_a_log_that_was_cut_leaves_what_it_still_has(nodes: Nodes, client: KafkaClient) -> None:
    """As after an unclean election of the coordinator: what it no longer knows of is fenced, not taken up by halves."""
    await nodes.start(1)
    await nodes.topic("t", 1)
    producer = Producer(nodes, client)
    await producer.init()
    log = nodes.partition(1, TRANSACTION_STATE_TOPIC).log
    before = log.state.log_end_offset
    assert await producer.produce("t") is NONE
    assert log.state.log_end_offset > before
    await log.truncate_to(before)
    await log.flush()
    await nodes.stop(1)
    await nodes.start(1)
    await producer.until_in(TransactionState.EMPTY)
    late = await producer.end()
    assert late is ErrorCode.invalid_txn_state
    other = Producer(nodes, client)
    await other.init()
    assert other.epoch > producer.epoch
    assert await other.produce("t") is NONE
    assert await other.end() is NONE
    await other.until_in(TransactionState.COMPLETE_COMMIT)
    assert stable_and_end(nodes, 1, "t") == (3, 3)


async def test_A2_two_phase_commit_is_not_offered_and_a_request_for_it_closes_its_connection(
    nodes: Nodes, client: KafkaClient, caplog: pytest.LogCaptureFixture
) -> None:
    """KIP-939: InitProducerId of version 6 would leave a transaction open without a timeout."""
    await nodes.start(1)
    address = nodes[1].address
    offered = await client.send(address, ApiVersionsRequest(client_software_name="a", client_software_version="1"))
    (init,) = [api for api in offered.api_keys if api.api_key == ApiKey.INIT_PRODUCER_ID]
    assert init.max_version == 5
    two_phases = TwoPhaseInit(
        transactional_id="tx",  # type: ignore[arg-type]
        transaction_timeout=timedelta(minutes=1),  # type: ignore[arg-type]
        enable2_pc=True,
        keep_prepared_txn=False,
    )
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        writer.write(framed(struct.pack(">hhihB", ApiKey.INIT_PRODUCER_ID, 6, 1, -1, 0), two_phases))
        async with asyncio.timeout(10):
            assert await reader.read() == b""
    finally:
        writer.close()
    assert "INIT_PRODUCER_ID version 6" in caplog.text
    producer = Producer(nodes, client)
    await producer.init()
    assert producer.epoch == 0, "the request before it left nothing"
