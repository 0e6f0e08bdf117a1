"""Whatever goes through all transactional ids, or all partitions of one, does so in steps: the loop is free between
them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tierfetch.broker.handlers import transaction_admin
from tierfetch.broker.handlers.transaction_admin import DESCRIBE_COST, TransactionAdminHandlers
from tierfetch.broker.transactions.active_shard import STEP_WEIGHT, STEPS_FREE, ActiveShard
from tierfetch.broker.transactions.core.events import Expire
from tierfetch.broker.transactions.core.shard import Shard
from tierfetch.broker.transactions.core.states import TransactionState, TransactionValue
from tierfetch.broker.transactions.core.transaction import Transaction
from tierfetch.protocol import ApiKey, ErrorCode, KafkaError, TopicPartition
from tierfetch.protocol.messages.transactions import DescribeTransactionsRequest, ListTransactionsRequest
from tierfetch.protocol.net.pacing import ELEMENTS_PER_ITERATION, SLICE_ELEMENTS
from tierfetch.tests.broker.requests import context_of

ELEMENTS_MAX = ELEMENTS_PER_ITERATION + SLICE_ELEMENTS
"""What one iteration performs at most, beside what is free."""


class Iterations:
    """Notes in which iteration of the loop something is done."""

    def __init__(self) -> None:
        self.now = 0
        self.notes: list[int] = []
        self._tick()

    def _tick(self) -> None:
        self.now += 1
        asyncio.get_running_loop().call_soon(self._tick)

    def note(self) -> None:
        self.notes.append(self.now)

    @property
    def most(self) -> int:
        return max(self.notes.count(each) for each in set(self.notes))


def value(partitions: int = 0) -> TransactionValue:
    return TransactionValue(
        producer_id=1,
        producer_epoch=0,
        timeout_ms=1,
        state=TransactionState.ONGOING if partitions else TransactionState.EMPTY,
        last_update_ms=0,
        partitions=frozenset(TopicPartition("t", number) for number in range(partitions)),
    )


async def test_D10_transactions_of_many_partitions_are_described_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    iterations, state_of = Iterations(), transaction_admin._state_of

    def noted(*args: Any) -> Any:
        iterations.note()
        return state_of(*args)

    monkeypatch.setattr(transaction_admin, "_state_of", noted)
    coordinator = SimpleNamespace(described=lambda name: Transaction(name, value(500)))
    handlers = TransactionAdminHandlers(cast(Any, None), cast(Any, coordinator), lambda: 0)
    names = tuple(f"tx{number}" for number in range(100))
    request = DescribeTransactionsRequest(transactional_ids=names)
    answer = await handlers.describe_transactions(context_of(ApiKey.DESCRIBE_TRANSACTIONS, 0), request)
    assert [each.transactional_id for each in answer.transaction_states] == list(names)
    assert {len(each.topics[0].partitions) for each in answer.transaction_states} == {500}
    assert iterations.most <= ELEMENTS_MAX // (500 + DESCRIBE_COST)


async def test_D10_a_transactional_id_that_comes_while_others_are_matched_costs_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a match costs at most is known before the first one."""
    shards = [Shard({f"tx{number}": Transaction(f"tx{number}", value()) for number in range(100)}), Shard({})]
    matched: list[int] = []

    def fullmatch(name: str) -> bool:
        shards[1].transactions["x" * 30_000] = Transaction("x" * 30_000, value())
        matched.append(len(name))
        return True

    pattern = SimpleNamespace(programsize=10_000, fullmatch=fullmatch)
    monkeypatch.setattr(transaction_admin, "compiled", lambda _: pattern)
    coordinator = SimpleNamespace(shards=[SimpleNamespace(shard=each, is_loaded=True) for each in shards])
    handlers = TransactionAdminHandlers(cast(Any, None), cast(Any, coordinator), lambda: 0)
    request = ListTransactionsRequest(transactional_id_pattern=".*")
    answer = await handlers.list_transactions(context_of(ApiKey.LIST_TRANSACTIONS, 2), request)
    assert len(answer.transaction_states) == len(matched) == 100
    assert max(matched) == 4


@pytest.mark.parametrize("are_due", [True, False])
async def test_D10_many_transactional_ids_are_looked_at_in_steps(
    are_due: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, steps, stepped = Iterations(), Iterations(), deque[str]()
    is_unused = Transaction.is_unused

    def looked_at(transaction: Transaction, now_ms: int, retention_ms: int) -> bool:
        looks.note()
        return is_unused(transaction, now_ms, retention_ms)

    def step(transactional_id: str, event: Expire) -> None:
        steps.note()
        stepped.append(transactional_id)

    monkeypatch.setattr(Transaction, "is_unused", looked_at)
    active = ActiveShard.__new__(ActiveShard)
    active.shard = Shard({f"tx{number}": Transaction(f"tx{number}", value()) for number in range(5_000)})
    settings = SimpleNamespace(retention_ms=1)
    active._services = cast(Any, SimpleNamespace(settings=settings, now_ms=lambda: int(are_due)))
    active._end = None
    monkeypatch.setattr(active, "_step", step)
    await active.expire()
    assert len(looks.notes) == 5_000
    assert looks.most <= ELEMENTS_MAX
    assert list(stepped) == (list(active.shard.transactions) if are_due else [])
    if are_due:
        assert steps.most <= ELEMENTS_MAX // STEP_WEIGHT + STEPS_FREE
    stepped.clear()
    active._end = KafkaError(ErrorCode.not_coordinator, "its leadership has ended")
    await active.expire()
    assert not stepped
