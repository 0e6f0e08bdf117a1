"""Produce on real logs: acknowledgements, ISR, errors, order."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from tierfetch.broker.handlers.produce import ProduceHandler
from tierfetch.broker.replicas.partition import Partition
from tierfetch.fetcher.core.leader_replicas import FollowerFetch
from tierfetch.log.core import AppendOrigin, LogConfig
from tierfetch.log.partition_log import LogAppendInfo
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.wire.leader_hints import LeaderIdAndEpoch
from tierfetch.protocol.wire.produce import ProducePartition, ProducePartitionResponse, ProduceRequest, ProduceTopic
from tierfetch.tests.broker.hosting import Host, batch
from tierfetch.tests.broker.requests import context_of
from tierfetch.tests.broker.waiting import until
from tierfetch.tests.turns import turns

CONTEXT = context_of(ApiKey.PRODUCE, 9)


def request(
    topic: str, records: Any, acks: int = -1, partition: int = 0, timeout_ms: int = 5000, topic_id: UUID | None = None
) -> ProduceRequest:
    topics = (ProduceTopic((ProducePartition(partition, records),), topic, topic_id),)
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topics=topics)


async def produce(host: Host, asked: ProduceRequest) -> ProducePartitionResponse:
    response = await ProduceHandler(host.hosted).produce(CONTEXT, asked)
    assert response is not None
    return response.topics[0].partitions[0]


async def follow(partition: Partition, offset: int, replica: int = 2) -> None:
    partition.leader().record_fetch(replica, FollowerFetch(offset, log_start_offset=0))


async def test_what_was_produced_is_counted_and_what_was_refused_is_not(host: Host) -> None:
    await host.topic("t", 1)
    records = batch(b"a", b"b", b"c")
    size = len(records)
    assert (await produce(host, request("t", records, 1))).error_code is ErrorCode.none
    assert (await produce(host, request("other", batch(b"a"), 1))).error_code is not ErrorCode.none
    assert (host.hosted.traffic.produced_bytes, host.hosted.traffic.produced_records) == (size, 3)


async def test_single_replica_commits_at_once(host: Host) -> None:
    await host.topic("t", 1)
    answers = [await produce(host, request("t", batch(b"a", b"b"), acks)) for acks in (-1, 1)]
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [
        (ErrorCode.none, 0),
        (ErrorCode.none, 2),
    ]
    assert (answers[0].log_append_time_ms, answers[0].log_start_offset) == (-1, 0)


@pytest.mark.parametrize("acks", [-1, 1])
async def test_an_almost_full_disk_refuses_clients_alone(host: Host, acks: int) -> None:
    partition = await host.topic("t", 1)
    host.keeper.accepts_clients = False
    refused = await produce(host, request("t", batch(b"a"), acks))
    assert refused.error_code is ErrorCode.kafka_storage_error
    assert "log.dir.free.bytes.min" in (refused.error_message or "")
    info = await partition.append(memoryview(batch(b"b")), AppendOrigin.COORDINATOR, acks_all=False)
    assert info.first_offset == 0
    host.keeper.accepts_clients = True
    assert (await produce(host, request("t", batch(b"a"), acks))).base_offset == 1


async def test_C7_acks_all_waits_for_the_isr_and_acks_1_does_not(host: Host) -> None:
    partition = await host.topic("t", 1, 2)
    first = await produce(host, request("t", batch(b"a"), acks=1))
    assert (first.base_offset, partition.log.state.high_watermark) == (0, 0)
    waiting = asyncio.create_task(produce(host, request("t", batch(b"b"))))
    await until(lambda: partition.log.state.log_end_offset == 2)
    await follow(partition, 1)
    await asyncio.sleep(0)
    assert not waiting.done()
    await follow(partition, 2)
    assert (await waiting).error_code is ErrorCode.none
    assert partition.log.state.high_watermark == 2


async def test_not_committed_in_time(host: Host) -> None:
    partition = await host.topic("t", 1, 2)
    answer = await produce(host, request("t", batch(b"a"), timeout_ms=10))
    assert answer.error_code is ErrorCode.request_timed_out
    assert partition.log.state.log_end_offset == 1


async def test_C7_too_small_an_isr_refuses_acks_all_only(host: Host) -> None:
    partition = await host.topic("t", 1, 2, config=LogConfig(min_insync_replicas=2))
    await host.view.alter_partition(partition.partition, leader_epoch=0, partition_epoch=0, isr=[1])
    partition.note_registration(host.view.image.topics["t"].partitions[0])
    refused = await produce(host, request("t", batch(b"a")))
    assert refused.error_code is ErrorCode.not_enough_replicas
    assert "min.insync.replicas is 2" in (refused.error_message or "")
    assert (await produce(host, request("t", batch(b"a"), acks=1))).error_code is ErrorCode.none
    assert partition.log.state.high_watermark == 0


async def test_leadership_lost_while_waiting(host: Host) -> None:
    partition = await host.topic("t", 1, 2)
    waiting = asyncio.create_task(produce(host, request("t", batch(b"a"))))
    await until(lambda: partition.log.state.log_end_offset == 1)
    await host.view.elect_leader(partition.partition, 2)
    await partition.step_down(host.view.image.topics["t"].partitions[0])
    answer = await waiting
    assert answer.error_code is ErrorCode.not_leader_or_follower
    assert answer.current_leader == LeaderIdAndEpoch(2, 1)


async def test_C9_append_that_waits_for_its_turn_is_refused_when_leadership_moved(host: Host) -> None:
    partition = await host.topic("t", 1, 2)
    async with partition.log.state.gate:
        waiting = asyncio.create_task(produce(host, request("t", batch(b"a"), acks=1)))
        await turns()
        await host.view.elect_leader(partition.partition, 2)
        await partition.step_down(host.view.image.topics["t"].partitions[0])
    assert (await waiting).error_code is ErrorCode.not_leader_or_follower
    assert partition.log.state.log_end_offset == 0


async def test_C9_append_of_an_earlier_epoch_is_never_acknowledged_by_a_later_one(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the append and the look at the high watermark, another leader's record took its place."""
    partition = await host.topic("t", 1, 2)
    append = Partition.append

    async def overtaken(self: Partition, *args: Any, **kwargs: Any) -> LogAppendInfo:
        appended = await append(self, *args, **kwargs)
        await host.view.elect_leader(partition.partition, 2)
        await partition.step_down(host.view.image.topics["t"].partitions[0])
        await partition.log.truncate_to(0)
        await host.view.elect_leader(partition.partition, 1)
        await partition.lead(host.view.image.topics["t"].partitions[0])
        await append(self, batch(b"another"), AppendOrigin.CLIENT, acks_all=False)
        partition.log.update_high_watermark(1)
        return appended

    monkeypatch.setattr(Partition, "append", overtaken)
    answer = await produce(host, request("t", batch(b"lost")))
    assert answer.error_code is ErrorCode.not_leader_or_follower
    assert "leader epoch 0" in (answer.error_message or "")
    assert answer.current_leader == LeaderIdAndEpoch(1, 2)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (request("absent", batch(b"a")), ErrorCode.unknown_topic_or_partition),
        (request("t", batch(b"a"), partition=1), ErrorCode.unknown_topic_or_partition),
        (request("", batch(b"a"), topic_id=UUID(int=3)), ErrorCode.unknown_topic_id),
        (request("followed", batch(b"a")), ErrorCode.not_leader_or_follower),
        (request("t", batch(b"a"), acks=2), ErrorCode.invalid_required_acks),
        (request("t", None), ErrorCode.invalid_record),
        (request("t", memoryview(b"")), ErrorCode.invalid_record),
        (request("t", memoryview(bytearray(b"\xff" * 70))), ErrorCode.corrupt_message),
        (request("t", batch(b"x" * 2000)), ErrorCode.message_too_large),
    ],
)
async def test_refusals(host: Host, asked: ProduceRequest, code: ErrorCode) -> None:
    await host.topic("t", 1, config=LogConfig(max_message_bytes=1000))
    await host.topic("followed", 2, 1)
    assert (await produce(host, asked)).error_code is code


async def test_wrong_broker_is_told_the_right_one(host: Host) -> None:
    await host.topic("followed", 2, 1)
    response = await ProduceHandler(host.hosted).produce(CONTEXT, request("followed", batch(b"a")))
    assert response is not None
    assert response.topics[0].partitions[0].current_leader == LeaderIdAndEpoch(2, 0)
    assert [(node.node_id, node.port) for node in response.node_endpoints] == [(2, 9002)]


async def test_topic_by_id(host: Host) -> None:
    partition = await host.topic("t", 1)
    answer = await produce(host, request("", batch(b"a"), topic_id=partition.partition.topic_id))
    assert answer.error_code is ErrorCode.none


async def test_acks_0_is_not_answered_and_its_refusal_closes_the_connection(host: Host) -> None:
    partition = await host.topic("t", 1)
    handler = ProduceHandler(host.hosted)
    assert await handler.produce(CONTEXT, request("t", batch(b"a"), acks=0)) is None
    assert partition.log.state.log_end_offset == 1
    with pytest.raises(KafkaError, match="absent-0: there is no partition"):
        await handler.produce(CONTEXT, request("absent", batch(b"a"), acks=0))


async def test_idempotent_duplicates_get_the_first_offsets(host: Host) -> None:
    partition = await host.topic("t", 1)
    answers = [
        await produce(host, request("t", batch(b"a", b"b", producer_id=5, sequence=0))),
        await produce(host, request("t", batch(b"a", b"b", producer_id=5, sequence=0))),
        await produce(host, request("t", batch(b"c", producer_id=5, sequence=3))),
        await produce(host, request("t", batch(b"c", producer_id=5, sequence=2))),
    ]
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [
        (ErrorCode.none, 0),
        (ErrorCode.none, 0),
        (ErrorCode.out_of_order_sequence_number, -1),
        (ErrorCode.none, 2),
    ]
    assert partition.log.state.log_end_offset == 3


async def test_a_leader_that_no_controller_answers_gives_no_final_verdict_on_sequences(host: Host) -> None:
    """Another broker may lead by now, and have the batches that are missing here."""
    partition = await host.topic("t", 1)
    await produce(host, request("t", batch(b"a", producer_id=5, sequence=0)))
    late = request("t", batch(b"c", producer_id=5, sequence=2))
    host.view.is_heard = False
    assert (await produce(host, late)).error_code is ErrorCode.not_leader_or_follower
    assert (await produce(host, request("t", batch(b"b", producer_id=5, sequence=1)))).error_code is ErrorCode.none
    assert (await produce(host, late)).error_code is ErrorCode.none
    host.view.is_heard = True
    gap = await produce(host, request("t", batch(b"e", producer_id=5, sequence=4)))
    assert gap.error_code is ErrorCode.out_of_order_sequence_number
    assert partition.log.state.log_end_offset == 3


async def test_requests_of_one_connection_keep_their_order(host: Host) -> None:
    """Also where a request for several partitions is followed by one for one of them."""
    handler = ProduceHandler(host.hosted)
    for name in ("t", "u"):
        await host.topic(name, 1)
    both = ProduceRequest(
        acks=-1,
        timeout_ms=5000,
        topics=tuple(
            ProduceTopic((ProducePartition(0, batch(b"a", producer_id=5, sequence=0)),), name) for name in ("t", "u")
        ),
    )
    rest = [request("u", batch(b"b", producer_id=5, sequence=n)) for n in range(1, 4)]
    tasks = [asyncio.create_task(handler.produce(CONTEXT, each)) for each in (both, *rest)]
    answers = [answer for task in tasks if (answer := await task) is not None]
    offsets = [[each.base_offset for topic in answer.topics for each in topic.partitions] for answer in answers]
    assert offsets == [[0, 0], [1], [2], [3]]
