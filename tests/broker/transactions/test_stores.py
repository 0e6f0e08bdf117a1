"""What becomes of a transactional id whose record is refused, or may be lost: nothing changes, or it is tried again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tierfetch.broker.coordinator import log_writer
from tierfetch.broker.transactions.active_shard import ActiveShard, ShardServices
from tierfetch.broker.transactions.core.events import AddPartitions, End, Init, Producer, Reply
from tierfetch.broker.transactions.core.states import EPOCH_BUMP_SINCE, PRODUCER_EPOCH_MAX, TransactionState
from tierfetch.broker.transactions.settings import TransactionSettings
from tierfetch.protocol import ErrorCode, KafkaError, TopicPartition
from tierfetch.tests.turns import turns

pytestmark = pytest.mark.virtual_time
NONE = ErrorCode.none


class Log:
    """A partition of `__transaction_state` that refuses the next appends with `refusals`."""

    def __init__(self) -> None:
        self.refusals: list[ErrorCode] = []
        self.records = 0
        self.partition = SimpleNamespace(topic_partition=TopicPartition("__transaction_state", 0))
        self.log = SimpleNamespace(state=SimpleNamespace(config=SimpleNamespace(max_message_bytes=1 << 20)))

    def leader(self) -> Any:
        return SimpleNamespace(leader_epoch=0)

    async def append(self, *_: object, **__: object) -> Any:
        if self.refusals:
            raise KafkaError(self.refusals.pop(0), "refused")
        self.records += 1
        return SimpleNamespace(last_offset=self.records - 1, leader_epoch=0)

    def committed(self, *_: object) -> None:
        return None


async def never(*_: object, **__: object) -> None:
    """The disk hangs."""
    await asyncio.get_running_loop().create_future()


class Markers:
    async def send(self, *_: object) -> None:
        """All of them are written at once."""


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
async def shard(log: Log) -> ActiveShard:
    async def next_id() -> int:
        return 7

    services = ShardServices(
        settings=TransactionSettings(),
        rng=Random(1),
        now_ms=lambda: 0,
        next_producer_id=next_id,
        transaction_version=lambda: 2,
        markers=cast(Any, Markers()),
    )
    made = ActiveShard(cast(Any, log), services)
    made.is_loaded = True
    return made


async def begin(shard: ActiveShard) -> Reply:
    return await shard.ask("tx", lambda token: Init(token=token, timeout_ms=1, expected=None, transaction_version=2))


async def ongoing(shard: ActiveShard) -> Producer:
    producer = (await begin(shard)).producer
    added = await shard.ask(
        "tx",
        lambda token: AddPartitions(
            token=token,
            producer=producer,
            partitions=frozenset({TopicPartition("t", 0)}),
            transaction_version=EPOCH_BUMP_SINCE,
        ),
    )
    assert added.error is NONE
    return producer


async def commit(shard: ActiveShard, producer: Producer) -> Reply:
    return await shard.ask(
        "tx",
        lambda token: End(token=token, producer=producer, is_commit=True, transaction_version=EPOCH_BUMP_SINCE),
        parks=False,
    )


def state_of(shard: ActiveShard) -> TransactionState:
    value = shard.shard.transactions["tx"].value
    assert value is not None
    return value.state


async def test_a_record_that_is_refused_changes_nothing(shard: ActiveShard, log: Log) -> None:
    log.refusals = [ErrorCode.not_enough_replicas]
    assert (await begin(shard)).error is ErrorCode.coordinator_not_available
    assert shard.shard.transactions == {}
    assert (await begin(shard)).error is NONE


async def test_a_transaction_that_took_too_long_in_the_last_epoch_is_aborted_once_there_is_a_producer_id(
    shard: ActiveShard,
) -> None:
    producer = await ongoing(shard)
    transaction = shard.shard.transactions["tx"]
    assert transaction.value is not None
    transaction.value = replace(transaction.value, producer_epoch=PRODUCER_EPOCH_MAX - 1)
    ids: list[int] = []

    async def next_id() -> int:
        if not ids:
            raise KafkaError(ErrorCode.request_timed_out, "no controller")
        return ids.pop()

    shard._services = replace(shard._services, next_producer_id=next_id, now_ms=lambda: 1)
    await shard.abort_timed_out()
    await turns()
    assert state_of(shard) is TransactionState.ONGOING
    ids.append(8)
    await shard.abort_timed_out()
    await turns()
    assert transaction.value == replace(
        transaction.value, state=TransactionState.COMPLETE_ABORT, producer_id=8, producer_epoch=0
    )
    assert transaction.value.previous_producer_id == producer.producer_id


async def test_a_record_that_finds_no_place_in_the_queue_changes_nothing(
    shard: ActiveShard, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(log_writer, "QUEUED_MAX", 0)
        assert (await begin(shard)).error is ErrorCode.coordinator_not_available
    assert (await begin(shard)).error is NONE


async def test_the_end_of_a_transaction_is_tried_again_until_it_is_written(shard: ActiveShard, log: Log) -> None:
    producer = await ongoing(shard)
    assert (await commit(shard, producer)).error is NONE
    log.refusals = [ErrorCode.not_enough_replicas] * 3
    await turns()
    assert state_of(shard) is TransactionState.PREPARE_COMMIT
    assert len(log.refusals) == 2, "it is not tried again at once"
    await asyncio.sleep(10)
    assert state_of(shard) is TransactionState.COMPLETE_COMMIT
    assert log.records == 4


@pytest.mark.parametrize("code", [ErrorCode.not_leader_or_follower, ErrorCode.kafka_storage_error])
async def test_a_record_that_may_be_lost_stays_under_way(shard: ActiveShard, log: Log, code: ErrorCode) -> None:
    producer = await ongoing(shard)
    log.refusals = [code]
    committing = asyncio.create_task(commit(shard, producer))
    await turns()
    assert not committing.done()
    assert (await commit(shard, producer)).error is ErrorCode.concurrent_transactions
    committing.cancel()


@pytest.mark.parametrize("is_refused", [True, False])
async def test_what_was_on_its_way_when_the_leadership_ended_says_nothing(
    shard: ActiveShard, log: Log, monkeypatch: pytest.MonkeyPatch, *, is_refused: bool
) -> None:
    producer = await ongoing(shard)
    assert (await commit(shard, producer)).error is NONE
    if is_refused:
        log.refusals = [ErrorCode.not_enough_replicas]
    else:
        monkeypatch.setattr(log, "append", never)
    await turns()
    stepped: list[object] = []
    monkeypatch.setattr(shard, "_step", lambda *step: stepped.append(step))
    await shard.close(KafkaError(ErrorCode.not_coordinator, "over"))
    await asyncio.sleep(10)
    assert (log.records, stepped, shard._timers) == (3, [], {})
    assert state_of(shard) is TransactionState.PREPARE_COMMIT
