"""Three brokers write, assign and unassign under random faults: every ledger ends as a replay of the topic does."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from random import Random

import pytest

from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.remote import RemoteLogMetadataError
from tierfetch.remote.core import IllegalTransitionError, RemoteLogLedger, decode_event
from tierfetch.remote.ledger_book import partition_of
from tierfetch.remote.metadata_topic import metadata_partition
from tierfetch.remote.topic_manager import TopicBasedRemoteLogMetadataManager
from tierfetch.testing.remote_log_metadata import (
    DELETE_FINISHED,
    DELETE_STARTED,
    FINISHED,
    make_segment,
    make_update,
    ready,
)
from tierfetch.tests.fakes.metadata_topic import FakeMetadataTopic, MetadataLog

from .builders import PARTITION
from .test_topic_manager import started

PARTITIONS = [TopicIdPartition(PARTITION.topic_id, "chaos", number) for number in range(4)]
METADATA_PARTITIONS = 2
STEPS = 60


class FaultyTopic(FakeMetadataTopic):
    """A tenth of all calls fail, and a tenth of the appends that succeed say that they did not."""

    def __init__(self, log: MetadataLog, random: Random) -> None:
        super().__init__(log)
        self._random = random
        self.is_healed = False

    async def _begin(self, name: str) -> int:
        for _ in range(self._random.randrange(4)):
            await asyncio.sleep(0)
        number = self.calls[name] + 1
        if not self.is_healed and self._random.random() < 0.1:
            self.fail(name, number)
        elif not self.is_healed and self._random.random() < 0.1:
            self.lose_answer(number)
        return await super()._begin(name)


async def act(manager: TopicBasedRemoteLogMetadataManager, broker_id: int, random: Random) -> None:
    for _ in range(STEPS):
        partition, number = random.choice(PARTITIONS), random.randrange(6)
        try:
            match random.randrange(12):
                case 0:
                    await manager.unassign([partition])
                case 1 | 2 | 3 | 4 | 5:
                    await manager.add_segment(make_segment(number, partition))
                case action:
                    state = (FINISHED, DELETE_STARTED, DELETE_FINISHED)[action % 3]
                    await manager.update_segment(make_update(number, state, partition, broker_id))
        except (RemoteLogMetadataError, IllegalTransitionError):
            await manager.assign(random.sample(PARTITIONS, 3))


def replay(log: MetadataLog, partition: TopicIdPartition) -> RemoteLogLedger:
    ledger = RemoteLogLedger(partition)
    for value in log.values.get(metadata_partition(partition, METADATA_PARTITIONS), []):
        event = decode_event(value)
        if partition_of(event) == partition:
            try:
                ledger.apply(event)
            except IllegalTransitionError:
                continue
    return ledger


@pytest.mark.parametrize("seed", range(8))
async def test_ledgers_equal_a_replay_of_the_topic(seed: int) -> None:
    random = Random(seed)
    log = MetadataLog(partition_count=METADATA_PARTITIONS)
    topics = [FaultyTopic(log, random) for _ in range(3)]
    async with AsyncExitStack() as stack:
        managers = [await stack.enter_async_context(started(topic, retry_backoff_max_ms=1)) for topic in topics]
        await asyncio.gather(*(act(manager, number, random) for number, manager in enumerate(managers)))
        for topic in topics:
            topic.is_healed = True
        for manager in managers:
            await manager.assign(PARTITIONS)
        for partition in PARTITIONS:
            expected = replay(log, partition)
            for manager in managers:
                ledger = await ready(manager, partition)
                ledger = await manager.wait_newer(partition, max(ledger.version, expected.version) - 1)
                assert (ledger.version, ledger.segments()) == (expected.version, expected.segments())
