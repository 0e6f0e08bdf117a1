"""Offsets are looked up by time, and judged against the incarnation of the topic that the answer is of."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from tierfetch.protocol.topics import TopicIdPartition, TopicPartition
from tierfetch.sim.judges.core.partition import InvariantViolationError
from tierfetch.sim.scenarios.administrator import Administrator
from tierfetch.sim.scenarios.client import AttemptFailedError
from tierfetch.sim.scenarios.operations.side_loads import SideLoads, wrong_largest
from tierfetch.tests.sim.test_truth import truth

NOW = TopicIdPartition(UUID(int=1000), "t", 0)
BEFORE = TopicIdPartition(UUID(int=999), "t", 0)


class Answers:
    """A client whose leader, a broker by its host, says the same of every time; then `after` happens."""

    def __init__(self, host: str, brokers: dict[int, Any], after: dict[int, Any] | None = None) -> None:
        self.leader_host = host
        self._brokers = brokers
        self._after = after

    async def list_offset(self, partition: TopicPartition, timestamp: int) -> int:
        assert (partition, timestamp > 0) == (NOW.topic_partition, True)
        self._brokers.update(self._after or {})
        return 5


def having(partition: TopicIdPartition) -> Any:
    hosted = SimpleNamespace(partition=partition)
    return SimpleNamespace(hosted=SimpleNamespace(partitions={partition.topic_partition: hosted}))


async def found(brokers: dict[int, Any], host: str, after: dict[int, Any] | None = None) -> int:
    there = truth()
    administrator = Administrator(there, lambda: brokers, (), Random(1), side_configs={}, record=lambda *_: None)
    administrator._produced = {NOW: {0: (9, 10)}}
    never = {"deleted_end": lambda _: 0, "has_lost": lambda _: False}
    loads = SideLoads(administrator, there, (), Random(1), **never)
    loads._client = Answers(host, brokers, after)
    lowest: Any = SimpleNamespace(choice=min, randint=min)
    await loads._find(NOW, lowest)
    return loads.found


def test_what_the_leader_of_this_incarnation_answers_is_judged() -> None:
    with pytest.raises(InvariantViolationError, match=r"first at that time: t-0: .* is said to be 5, 0 is at 9"):
        asyncio.run(found({1: having(NOW), 2: None, 3: having(BEFORE)}, "broker-1"))


@pytest.mark.parametrize(
    ("brokers", "after"),
    [
        ({1: having(BEFORE)}, {}),
        ({1: having(BEFORE)}, {1: having(NOW)}),
        ({1: having(NOW)}, {1: having(BEFORE)}),
        ({1: None}, {1: having(NOW)}),
    ],
    ids=["an older one", "it came meanwhile", "it went meanwhile", "it was started meanwhile"],
)
def test_what_may_be_of_another_incarnation_is_not(brokers: dict[int, Any], after: dict[int, Any]) -> None:
    assert asyncio.run(found(brokers, "broker-1", after)) == 0


@pytest.mark.parametrize(
    ("offset", "is_right"), [(2, True), (7, True), (0, False), (1, False), (-1, False), (None, False)]
)
def test_no_acknowledged_record_has_a_larger_timestamp_than_the_largest(offset: int | None, is_right: bool) -> None:
    known = {0: 5, 1: 8, 2: 9}
    assert [each.kind for each in wrong_largest("t-0", offset, known)] == ([] if is_right else ["largest timestamp"])


class Unsteady:
    """A client that has no answer at first."""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    async def list_offset(self, partition: TopicPartition, timestamp: int) -> int:
        assert (partition, timestamp) == (NOW.topic_partition, -3)
        self.failures -= 1
        if self.failures >= 0:
            raise AttemptFailedError("no answer")
        return 0


@pytest.mark.parametrize(
    ("failures", "has_lost", "deleted_end", "wrong"),
    [(0, False, 0, True), (1, False, 0, True), (0, True, 0, False), (0, False, 1, False), (0, False, 2, False)],
)
def test_what_is_left_of_a_side_topic_is_asked_for_its_largest_timestamp(
    monkeypatch: pytest.MonkeyPatch, failures: int, has_lost: bool, deleted_end: int, wrong: bool
) -> None:
    monkeypatch.setattr("tierfetch.sim.scenarios.operations.side_loads.GAP_S", 0)
    there = truth()
    administrator = Administrator(there, dict, (), Random(1), side_configs={}, record=lambda *_: None)
    administrator._produced = {NOW: {0: (8, 10), 1: (9, 10)}}
    loads = SideLoads(
        administrator, there, (), Random(1), deleted_end=lambda _: deleted_end, has_lost=lambda _: has_lost
    )
    loads._client = Unsteady(failures)
    assert bool(asyncio.run(loads.wrong_largest())) is wrong
