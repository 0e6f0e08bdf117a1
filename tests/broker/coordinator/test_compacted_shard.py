"""A shard of a compacted topic: what it has replayed once it is loaded, and what loading costs the loop."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from tierfetch.broker.coordinator.compacted_shard import REPLAY_WEIGHT, TAKE_WEIGHT, CompactedShard
from tierfetch.broker.coordinator.core.last_records import LastRecords, Rejected
from tierfetch.broker.replicas.partition import Partition
from tierfetch.log.core import AppendOrigin
from tierfetch.protocol import CorruptRecordError, ErrorCode, KafkaError
from tierfetch.protocol.net import SLICE_ELEMENTS
from tierfetch.protocol.net.pacing import ELEMENTS_PER_ITERATION
from tierfetch.protocol.records import BatchHeader, Record, SkimmedRecord, build_batch
from tierfetch.tests.broker.hosting import NOW_MS, Host

Pairs = Sequence[tuple[bytes, bytes | None]]


@dataclass(frozen=True)
class Told:
    key: bytes
    value: bytes | None

    def encoded(self) -> tuple[bytes, bytes | None]:
        return self.key, self.value


class Shard(CompactedShard[Told]):
    kind = "test"

    def __init__(self, partition: Partition) -> None:
        super().__init__(partition, random.Random(7), lambda: NOW_MS)
        self.replayed: list[tuple[bytes, bytes | None]] = []
        self.decoded = 0
        self.prepared_at = -1
        self.records = -1
        self.iteration = 0
        self.replayed_in: Counter[int] = Counter()

    def _clear(self) -> None:
        self.replayed.clear()

    def _decode(self, key: bytes, value: bytes | None) -> Told | None:
        self.decoded += 1
        if value == b"bad":
            raise CorruptRecordError("bad")
        return None if key == b"other" else Told(key, value)

    def _replay(self, record: Told) -> None:
        self.replayed.append(record.encoded())
        self.replayed_in[self.iteration] += 1

    async def _prepare(self) -> None:
        assert not self.is_loaded
        self.prepared_at = len(self.replayed)

    async def _resume(self, records: int) -> None:
        self.records = records

    async def load(self) -> None:
        """Load to the end, counting iterations of the loop."""
        self.begin()
        while self.records < 0:
            await asyncio.sleep(0)
            self.iteration += 1
        await self.close(KafkaError(ErrorCode.not_coordinator, "over"))


async def written(host: Host, *batches: Pairs) -> Partition:
    partition = await host.topic("t", 1)
    for pairs in batches:
        records = [Record(at, NOW_MS, key, value) for at, (key, value) in enumerate(pairs)]
        batch = memoryview(bytearray(build_batch(records, base_offset=0)))
        await partition.append(batch, AppendOrigin.COORDINATOR, acks_all=True)
    return partition


async def test_the_last_record_of_each_key_is_decoded(host: Host) -> None:
    partition = await written(
        host, [(b"a", b"1"), (b"b", b"1"), (b"c", b"1")], [(b"a", b"2"), (b"b", None), (b"other", b"1")]
    )
    shard = Shard(partition)
    await shard.load()
    assert shard.replayed == [(b"c", b"1"), (b"a", b"2")]
    assert (shard.decoded, shard.records, shard.prepared_at) == (3, 6, 2)


async def test_what_a_record_that_cannot_be_decoded_replaced_holds(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    partition = await written(host, [(b"a", b"1"), (b"b", b"1")], [(b"b", b"2"), (b"a", b"bad")])
    shard = Shard(partition)
    with caplog.at_level(logging.ERROR):
        await shard.load()
    assert shard.replayed == [(b"a", b"1"), (b"b", b"2")]
    assert "t-0: offset 3 is passed over" in caplog.text


async def test_an_iteration_of_the_loop_decodes_a_bounded_number_of_records(host: Host) -> None:
    many = 4 * ELEMENTS_PER_ITERATION // REPLAY_WEIGHT
    shard = Shard(await written(host, [(b"%d" % number, b"1") for number in range(many)]))
    await shard.load()
    assert len(shard.replayed) == many
    assert max(shard.replayed_in.values()) <= (ELEMENTS_PER_ITERATION + SLICE_ELEMENTS) // REPLAY_WEIGHT


async def test_an_iteration_of_the_loop_takes_in_a_bounded_number_of_small_batches(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, batches = 100, int(3 * ELEMENTS_PER_ITERATION / TAKE_WEIGHT) // 100
    shard = Shard(await written(host, *[[(b"%d" % number, b"1") for number in range(small)]] * batches))
    taken_in: Counter[int] = Counter()
    take = LastRecords.take

    def counting(last: LastRecords, header: BatchHeader, records: Sequence[SkimmedRecord]) -> list[Rejected]:
        taken_in[shard.iteration] += len(records)
        return take(last, header, records)

    monkeypatch.setattr(LastRecords, "take", counting)
    await shard.load()
    assert sum(taken_in.values()) == shard.records == small * batches
    assert max(taken_in.values()) >= SLICE_ELEMENTS, "a small batch costs what it holds, not a slice"
    assert max(taken_in.values()) <= int((ELEMENTS_PER_ITERATION + SLICE_ELEMENTS) / TAKE_WEIGHT)
