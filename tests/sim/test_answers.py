"""A request that is not answered in time is a finding, unless a fault has touched one of its two hosts."""

from __future__ import annotations

import pytest

from tierfetch.sim.judges.core.clients.answers import LINGER_MS, AnswersJudge
from tierfetch.sim.judges.core.events import AnswerMissing, FaultsChanged, MomentPassed, NodeStopped, ProcessEnded
from tierfetch.sim.judges.core.partition import InvariantViolationError


class Clock:
    """Time, and who is touched by a fault."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.troubled: set[str] = set()
        self.judge = AnswersJudge(lambda: self.troubled, lambda: self.now_ms)

    def trouble(self, *hosts: str, until_ms: int) -> None:
        self.troubled = set(hosts)
        self.judge.on(FaultsChanged())
        self.now_ms = until_ms
        self.judge.on(MomentPassed())
        self.troubled = set()

    def miss(self, api: str = "PRODUCE") -> None:
        self.judge.on(AnswerMissing("p", "producers", "broker-1", api, self.now_ms - 4_000))


def test_without_a_fault_every_request_is_answered() -> None:
    clock = Clock()
    clock.now_ms = 4_000
    with pytest.raises(InvariantViolationError, match="answered in time: p sent PRODUCE to broker-1 at 0 ms"):
        clock.miss()
    clock.miss("INIT_PRODUCER_ID")


@pytest.mark.parametrize("host", ["broker-1", "producers"])
def test_a_fault_of_either_host_excuses_for_a_while(host: str) -> None:
    clock = Clock()
    clock.trouble(host, until_ms=1_000)
    clock.now_ms = 1_000 + 4_000 + LINGER_MS
    clock.miss()
    clock.now_ms += 1
    with pytest.raises(InvariantViolationError, match="answered in time"):
        clock.miss()


def test_a_fault_of_another_host_excuses_nothing() -> None:
    clock = Clock()
    clock.trouble("broker-2", "readers", until_ms=6_000)
    with pytest.raises(InvariantViolationError, match="answered in time"):
        clock.miss()


@pytest.mark.parametrize("event", [ProcessEnded("broker-1"), NodeStopped("broker-1", 0.5)])
def test_a_process_that_ends_answers_nothing(event: ProcessEnded | NodeStopped) -> None:
    clock = Clock()
    clock.now_ms = 5_000
    clock.judge.on(event)
    clock.now_ms = 6_000
    clock.miss()
