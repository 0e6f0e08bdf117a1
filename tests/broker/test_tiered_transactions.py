"""Readers of committed records over tier and local log, after a replica was replaced under each bootstrap policy, or
was truncated (KIP-98, KIP-405): they are given each transaction that was committed, whole, and nothing else.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tierfetch.log.core import AppendOrigin
from tierfetch.plugin_registry import BOOTSTRAP_POLICY
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.fetch.messages import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tierfetch.protocol.net.client import KafkaClient
from tierfetch.protocol.records import ControlType, iter_batches, iter_records
from tierfetch.protocol.records.control import EndTransactionMarker, build_end_transaction_batch, control_type
from tierfetch.tests.broker.hosting import NOW_MS, batch
from tierfetch.tests.broker.nodes import Nodes
from tierfetch.tests.broker.test_tiered_nodes import OPTION, TIERED, all_closed_segments_tiered, replace, tiered_nodes
from tierfetch.tests.broker.waiting import DEADLINE_S, POLL_S, until

pytestmark = pytest.mark.slow
READ_COMMITTED = 1
COMMIT, ABORT = ControlType.COMMIT, ControlType.ABORT
PLAIN = -1


@pytest.fixture(params=sorted(BOOTSTRAP_POLICY.built_in))
async def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Nodes]:
    plugin = {
        "remote.log.storage.manager.plugin": "local",
        "rsm.config.dir": str(tmp_path / "tier"),
        "bootstrap.policy": request.param,
        "bootstrap.bounded.local.bytes": "1500",
    }
    nodes = await tiered_nodes(tmp_path, plugin)
    assert nodes.configs[OPTION] == "true"
    yield nodes
    await nodes.close()


class History:
    """What is written to topic "t", and which of it readers of committed records must be given, in order."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.sequences: Counter[int] = Counter()
        self.written: list[tuple[int, int, bytes]] = []
        """Offset, producer, value."""
        self.ended: list[tuple[int, int, ControlType]] = []
        """Offset of the marker, producer, its kind."""

    async def write(self, broker: int, producer_id: int, count: int = 1) -> None:
        for _ in range(count):
            value = b"%d " % len(self.written) + b"x" * 90
            is_transactional = producer_id != PLAIN
            sequence = self.sequences[producer_id] if is_transactional else -1
            self.sequences[producer_id] += 1
            data = batch(value, producer_id=producer_id, sequence=sequence, transactional=is_transactional)
            appended = await self.nodes.partition(broker, "t").append(data, AppendOrigin.CLIENT, acks_all=False)
            self.written.append((appended.last_offset, producer_id, value))

    async def end(self, broker: int, producer_id: int, kind: ControlType) -> None:
        marker = build_end_transaction_batch(
            EndTransactionMarker(kind, 0), base_offset=0, timestamp_ms=NOW_MS, producer_id=producer_id, producer_epoch=0
        )
        partition = self.nodes.partition(broker, "t")
        appended = await partition.append(memoryview(bytearray(marker)), AppendOrigin.COORDINATOR, acks_all=False)
        self.ended.append((appended.last_offset, producer_id, kind))

    def forget_from(self, offset: int) -> None:
        """Truncation took away what is at `offset` and above; sequences go on where they were before."""
        lost = [each for each in self.written if each[0] >= offset]
        self.sequences.subtract(Counter(producer_id for _, producer_id, _ in lost))
        self.written = [each for each in self.written if each[0] < offset]
        self.ended = [each for each in self.ended if each[0] < offset]

    @property
    def stable_offset(self) -> int | None:
        """The first offset of the first transaction that is open."""
        found = [offset for offset, producer_id, _ in self.written if self._kind(offset, producer_id) is None]
        return min(found, default=None)

    @property
    def shown(self) -> list[tuple[int, bytes]]:
        stable = self.stable_offset
        return [
            (offset, value)
            for offset, producer_id, value in self.written
            if (stable is None or offset < stable)
            and (producer_id == PLAIN or self._kind(offset, producer_id) is COMMIT)
        ]

    def _kind(self, offset: int, producer_id: int) -> ControlType | None:
        if producer_id == PLAIN:
            return COMMIT
        return next((kind for at, ended, kind in self.ended if at > offset and ended == producer_id), None)


async def read_committed(nodes: Nodes, number: int) -> list[tuple[int, bytes]]:
    """Offset and value of what a consumer gives out up to the last stable offset, as Kafka's clients decide it."""
    client = KafkaClient(client_id="test", random=Random(1))
    partition = nodes.partition(number, "t")
    found: list[tuple[int, bytes]] = []
    position = 0
    try:
        async with asyncio.timeout(DEADLINE_S):
            while True:
                wanted = FetchPartition(0, fetch_offset=position)
                topics = (FetchTopic((wanted,), "t", partition.partition.topic_id),)
                request = FetchRequest(max_wait_ms=200, min_bytes=1, topics=topics, isolation_level=READ_COMMITTED)
                response: FetchResponse = await client.send(nodes[number].address, request)
                answer = response.topics[0].partitions[0]
                if answer.error_code is ErrorCode.kafka_storage_error:  # a new leader that has not read its ledger yet
                    await asyncio.sleep(POLL_S)
                    continue
                assert answer.error_code is ErrorCode.none
                if position >= answer.last_stable_offset:
                    return found
                position = take(bytes(answer.records or b""), answer.aborted_transactions or (), position, found)
    finally:
        await client.close()


def take(data: bytes, aborted: Any, position: int, found: list[tuple[int, bytes]]) -> int:
    """Note the records of a fetch that count, and return where the next one begins."""
    waiting = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    ongoing: set[int] = set()
    for at, header in iter_batches(data):
        while waiting and waiting[-1].first_offset <= header.last_offset:
            ongoing.add(waiting.pop().producer_id)
        position = max(position, header.next_offset)
        records = list(iter_records(data, at, header))
        if header.is_control:
            if control_type(records[0]) is ABORT:
                ongoing.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in ongoing):
            found += [(record.offset, record.value or b"") for record in records]
    return position


async def lead(nodes: Nodes, number: int, *, unclean: bool = False) -> None:
    partition = nodes[number].view.image.topics["t"].id_partition(0)
    await nodes.operator.elect_leader(partition, number, unclean=unclean)
    await until(lambda: nodes.partition(number, "t").leadership is not None)


async def in_sync(nodes: Nodes) -> None:
    """Both brokers have the same, committed."""
    await until(lambda: set(nodes.registration("t").isr) == {1, 2})
    states = [nodes.partition(number, "t").log.state for number in (1, 2)]
    await until(lambda: len({each.log_end_offset for each in states} | {each.high_watermark for each in states}) == 1)


async def write_history(history: History) -> None:
    """Transactions of four producers that overlap, end within a segment and after several, and one that stays open."""
    for commits, aborts in ((1, 2), (3, 4)):
        await history.write(1, commits, 2)
        await history.write(1, PLAIN, 3)
        await history.write(1, aborts, 4)
        await history.write(1, commits, 6)
        await history.end(1, commits, COMMIT)
        await history.write(1, aborts, 5)
        await history.end(1, aborts, ABORT)
        await history.write(1, aborts, 2)
        await history.end(1, aborts, COMMIT)
    await history.write(1, 4, 2)
    await history.write(1, 3, 1)
    await history.nodes.partition(1, "t").log.roll()
    # The state at the end of the tier has these open: whoever begins there learns their ends from the leader.
    await history.write(1, PLAIN)
    await history.end(1, 4, ABORT)
    await history.end(1, 3, COMMIT)
    await history.write(1, PLAIN)


async def test_T3_readers_of_committed_records_are_given_the_same_by_a_replica_that_was_replaced(
    nodes: Nodes,
) -> None:
    await nodes.topic("t", 1, 2, **TIERED, local_retention_bytes="2500")
    history = History(nodes)
    await write_history(history)
    await in_sync(nodes)
    tiered_to = await all_closed_segments_tiered(nodes, 1)
    leader = nodes.partition(1, "t").log
    await until(lambda: leader.state.offsets.local_log_start_offset > 0)
    await history.write(1, 5, 2)
    await in_sync(nodes)
    assert len(history.shown) > 20
    assert await read_committed(nodes, 1) == history.shown

    await replace(nodes, 2)
    await in_sync(nodes)
    replica = nodes.partition(2, "t").log
    assert replica.state.offsets.local_log_start_offset in range(tiered_to + 1)
    await lead(nodes, 2)
    assert replica.state.last_stable_offset == history.stable_offset
    assert await read_committed(nodes, 2) == history.shown
    await history.write(2, 5, 1)
    await history.end(2, 5, COMMIT)
    await history.write(2, PLAIN)
    await in_sync(nodes)
    assert history.stable_offset is None
    assert await read_committed(nodes, 2) == history.shown
    await lead(nodes, 1)
    assert await read_committed(nodes, 1) == history.shown


async def test_T3_what_truncation_takes_from_a_replaced_replica_is_of_no_transaction(
    nodes: Nodes,
) -> None:
    await nodes.topic("t", 1, 2, **TIERED, local_retention_bytes="2500")
    history = History(nodes)
    await write_history(history)
    await history.write(1, 5, 2)
    await in_sync(nodes)
    await all_closed_segments_tiered(nodes, 1)
    await replace(nodes, 2)
    await in_sync(nodes)
    await lead(nodes, 2)
    await nodes.stop(1)
    agreed = nodes.partition(2, "t").log.state.log_end_offset
    # What only the replaced one has: the end of a transaction that is open, one more, and the begin of a third.
    await history.write(2, 5)
    await history.end(2, 5, COMMIT)
    await history.write(2, 6, 2)
    await history.end(2, 6, ABORT)
    await history.write(2, 7)
    await nodes.stop(2)
    history.forget_from(agreed)

    await nodes.start(1)
    await lead(nodes, 1, unclean=True)
    await history.write(1, PLAIN, 2)
    await history.end(1, 5, ABORT)
    await history.write(1, 6)
    await nodes.start(2)
    await in_sync(nodes)
    assert history.stable_offset == nodes.partition(2, "t").log.state.log_end_offset - 1
    await lead(nodes, 2)
    assert nodes.partition(2, "t").log.state.last_stable_offset == history.stable_offset
    assert await read_committed(nodes, 2) == history.shown
    await history.end(2, 6, COMMIT)
    await in_sync(nodes)
    assert await read_committed(nodes, 2) == history.shown
