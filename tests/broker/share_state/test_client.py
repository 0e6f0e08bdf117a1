"""What a broker asks of share coordinators: all brokers together, and within one deadline."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from tierfetch.broker.share_state import client as module
from tierfetch.broker.share_state.client import ShareStateClient
from tierfetch.broker.share_state.coordinator import ShareCoordinator
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.net.client import Address, KafkaClient

TOPIC = UUID(int=1)


class Brokers:
    """The coordinator of partition n is broker n; those in `silent` never answer, those in `busy` say "not now"."""

    def __init__(self, silent: set[int], busy: set[int]) -> None:
        self.silent, self.busy = silent, busy
        self.timeouts_s: list[float] = []

    async def find_broker(self, key: str) -> Any:
        return SimpleNamespace(host="broker", port=int(key.rpartition(":")[2]))

    async def send(self, address: Address, request: Any, *, timeout_s: float) -> Any:
        self.timeouts_s.append(timeout_s)
        if address.port in self.silent:
            await asyncio.sleep(timeout_s)
            raise ConnectionResetError("no answer")
        code = ErrorCode.coordinator_load_in_progress if address.port in self.busy else ErrorCode.none
        (topic,) = request.topics
        partitions = [
            SimpleNamespace(partition=each.partition, error_code=code, error_message=None) for each in topic.partitions
        ]
        return SimpleNamespace(results=[SimpleNamespace(topic_id=topic.topic_id, partitions=partitions)])


async def deleted(brokers: Brokers, numbers: range, timeout_s: float) -> dict[int, ErrorCode]:
    """Return what became of the partitions of the topic."""
    client = ShareStateClient(
        cast(ShareCoordinator, brokers), cast(KafkaClient, brokers), random.Random(1), timeout_s=timeout_s
    )
    answers = await client.delete("g", [(TOPIC, number) for number in numbers], 1)
    return {number: _code(answers[TOPIC, number]) for number in numbers}


def _code(error: KafkaError | None) -> ErrorCode:
    return ErrorCode.none if error is None else error.code


async def test_brokers_that_do_not_answer_are_waited_for_together_until_one_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CALL_S", 0.2)
    brokers, loop = Brokers(silent={0, 1, 2}, busy={3}), asyncio.get_running_loop()
    began_s = loop.time()
    async with asyncio.timeout(30):
        codes = await deleted(brokers, range(5), timeout_s=60)
    assert codes == {
        **dict.fromkeys(range(3), ErrorCode.coordinator_not_available),
        3: ErrorCode.coordinator_load_in_progress,
        4: ErrorCode.none,
    }
    assert 0.15 <= loop.time() - began_s < 10
    assert max(brokers.timeouts_s) <= 0.2


async def test_an_attempt_takes_its_own_timeout_and_what_is_missing_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CALL_S", 60)
    brokers = Brokers(silent={0}, busy=set())
    asked = asyncio.create_task(deleted(brokers, range(2), timeout_s=0.01))
    async with asyncio.timeout(30):
        while len(brokers.timeouts_s) < 4:  # noqa: ASYNC110 - until two more attempts are made
            await asyncio.sleep(0.005)
        brokers.silent.clear()
        assert await asked == {0: ErrorCode.none, 1: ErrorCode.none}
    assert set(brokers.timeouts_s) == {0.01}


async def test_only_so_many_brokers_are_asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CALL_S", 0.1)
    monkeypatch.setattr(module, "BROKERS_AT_ONCE", 2)
    brokers = Brokers(silent=set(range(5)), busy=set())
    await deleted(brokers, range(5), timeout_s=60)
    assert len(brokers.timeouts_s) == 2
