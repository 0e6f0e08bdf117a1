"""An internal error in a write: what is in memory may differ from the log, so the log is read again."""

from __future__ import annotations

import asyncio
import logging

import pytest

from tierfetch.broker.coordinator.log_writer import InTransaction
from tierfetch.broker.coordinator.roles import Coordinator
from tierfetch.broker.replicas.partition import Partition
from tierfetch.protocol import ErrorCode, KafkaError
from tierfetch.tests.broker.hosting import Host
from tierfetch.tests.protocol.wire_fakes import until

from .test_compacted_shard import Shard, Told


class BrokenShard(Shard):
    """It takes in no value "bug", where it was written; it is read all the same."""

    def _apply(self, record: Told, transaction: InTransaction | None, offset: int) -> None:
        if record.value == b"bug":
            raise ValueError("a bug")
        self._replay(record)


class Coordinating(Coordinator[Shard]):
    topic_name = "t"
    noun = "test"

    def __init__(self) -> None:
        self._shards, self._closing, self._upkeep = {}, set(), []

    def _make_shard(self, partition: Partition) -> Shard:
        return BrokenShard(partition)

    async def loaded(self) -> Shard:
        await until(lambda: self._shards[0].is_loaded)
        return self._shards[0]


async def code_of(write: asyncio.Future[None]) -> ErrorCode | None:
    try:
        await write
    except KafkaError as error:
        return error.code
    return None


async def test_what_waits_is_answered_and_the_log_is_read_again(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    coordinator = Coordinating()
    coordinator.led(await host.topic("t", 1))
    first = await coordinator.loaded()
    values = [b"1", b"bug", b"2"]
    writes = [first.submit([Told(b"a", b"0")])]
    await asyncio.sleep(0)  # the others wait for this one
    writes += [first.submit([Told(b"k%d" % at, value)]) for at, value in enumerate(values)]
    assert [await code_of(each) for each in writes] == [None, *[ErrorCode.not_coordinator] * 3]
    with pytest.raises(KafkaError, match="NOT_"):
        first.submit([Told(b"b", b"0")])
    second = await coordinator.loaded()
    assert second is not first
    assert second.replayed == [(b"a", b"0"), (b"k0", b"1"), (b"k1", b"bug"), (b"k2", b"2")]
    assert await code_of(second.submit([Told(b"c", b"3")])) is None
    (record,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert "internal error in the test of t-0" in record.getMessage()
    await coordinator.close()
