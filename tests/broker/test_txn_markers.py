"""WriteTxnMarkers: transactions end here by markers that somebody else decides on."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from tierfetch.broker.groups.coordinator import GroupCoordinator
from tierfetch.broker.groups.settings import CoordinatorSettings
from tierfetch.broker.handlers.txn_markers import TransactionMarkerHandler
from tierfetch.broker.transactions.markers import MARKERS_MAX
from tierfetch.log.core import AbortedTransaction, AppendOrigin
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.producers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tierfetch.protocol.net.slicing import answered
from tierfetch.tests.broker.hosting import NOW_MS, Host, batch
from tierfetch.tests.broker.requests import all_versions, ask_message, context_of
from tierfetch.tests.broker.waiting import until

PRODUCER_ID = 5


async def write(
    host: Host, *topics: str, commit: bool, version: int = 1, producer_epoch: int = 0, coordinator_epoch: int = 0
) -> dict[str, ErrorCode]:
    marker = WritableTxnMarker(
        producer_id=PRODUCER_ID,
        producer_epoch=producer_epoch,
        transaction_result=commit,
        topics=tuple(WritableTxnMarkerTopic(name=name, partition_indexes=(0,)) for name in topics),
        coordinator_epoch=coordinator_epoch,
    )
    groups = GroupCoordinator(host.view, CoordinatorSettings(), random.Random(1), lambda: NOW_MS)
    handler = TransactionMarkerHandler(host.hosted, groups, lambda: NOW_MS)
    response = await ask_message(handler.write_txn_markers, WriteTxnMarkersRequest(markers=(marker,)), version)
    (written,) = response.markers
    assert written.producer_id == PRODUCER_ID
    return {topic.name: topic.partitions[0].error_code for topic in written.topics}


async def begin(host: Host, name: str) -> Any:
    partition = await host.topic(name, 1)
    data = batch(b"a", producer_id=PRODUCER_ID, sequence=0, transactional=True)
    await partition.append(data, AppendOrigin.CLIENT, acks_all=False)
    assert partition.log.state.offsets.last_stable_offset == 0
    return partition


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", all_versions(ApiKey.WRITE_TXN_MARKERS))
async def test_marker_ends_the_transaction(host: Host, version: int, commit: bool) -> None:
    partition = await begin(host, "t")
    assert await write(host, "t", commit=commit, version=version) == {"t": ErrorCode.none}
    assert partition.log.state.offsets.last_stable_offset == 2
    aborted = await partition.log.aborted_transactions(0, 2)
    assert aborted == ([] if commit else [AbortedTransaction(PRODUCER_ID, 0, 1, 2)])


async def test_each_partition_has_its_own_answer(host: Host) -> None:
    await begin(host, "t")
    await host.topic("followed", 2, 1)
    assert await write(host, "t", "absent", "followed", commit=True) == {
        "t": ErrorCode.none,
        "absent": ErrorCode.unknown_topic_or_partition,
        "followed": ErrorCode.not_leader_or_follower,
    }


async def test_zombie_coordinator_is_fenced(host: Host) -> None:
    await begin(host, "t")
    assert await write(host, "t", commit=True, coordinator_epoch=3) == {"t": ErrorCode.none}
    assert await write(host, "t", commit=False, coordinator_epoch=2) == {"t": ErrorCode.transaction_coordinator_fenced}


async def test_A2_a_partition_that_is_named_twice_is_marked_once(host: Host) -> None:
    partition = await begin(host, "t")
    assert await write(host, "t", "t", commit=True) == {"t": ErrorCode.none}
    assert partition.log.state.offsets.log_end_offset == 2


async def test_D4_a_marker_that_waits_for_a_replica_holds_up_none_beside_it(host: Host) -> None:
    slow, quick = await host.topic("slow", 1, 2), await host.topic("quick", 1)
    groups = GroupCoordinator(host.view, CoordinatorSettings(), random.Random(1), lambda: NOW_MS)
    handler = TransactionMarkerHandler(host.hosted, groups, lambda: NOW_MS)
    request = WriteTxnMarkersRequest(
        markers=tuple(
            WritableTxnMarker(
                producer_id=number,
                producer_epoch=0,
                transaction_result=True,
                topics=(WritableTxnMarkerTopic(name="quick" if number else "slow", partition_indexes=(0,)),),
                coordinator_epoch=0,
            )
            for number in range(MARKERS_MAX)
        )
    )
    context = context_of(ApiKey.WRITE_TXN_MARKERS, 1)
    written = asyncio.create_task(answered(handler.write_txn_markers, context, request, elements=3 * MARKERS_MAX))
    await until(lambda: quick.log.state.log_end_offset == MARKERS_MAX - 1)
    assert not written.done()
    assert slow.log.state.log_end_offset == 1
    written.cancel()
