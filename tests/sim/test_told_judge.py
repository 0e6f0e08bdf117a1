"""What clients are told beside records: where a log starts, what is committed, that a sequence is wrong."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from tierfetch.protocol.topics import TopicIdPartition, TopicPartition
from tierfetch.sim.excuses import Excuse, Excuses
from tierfetch.sim.history import ACKS_ALL, History, Send
from tierfetch.sim.invariants import InvariantViolationError
from tierfetch.sim.told_judge import ToldJudge

T = TopicPartition("t", 0)
NAME = TopicIdPartition(UUID(int=1), "t", 0)
LOST = Excuse(from_offset=0, end_offset=9, at_ms=0)


def judge(*sends: Send, highest_start: int = 0, excuses: tuple[Excuse, ...] = ()) -> ToldJudge:
    losses: Any = SimpleNamespace(excuses_of=lambda _: Excuses(excuses))
    return ToldJudge(History(list(sends)), losses, lambda _: NAME, lambda _: highest_start)


def sent(sequence: int, at: int = -1, *, producer_id: int = 7, acks: int = ACKS_ALL) -> Send:
    send = Send("p", str(T), (1, 2), acks, 0, producer_id=producer_id, sequence=sequence)
    if at >= 0:
        send.ok(at, 0, 0)
    return send


def test_a_log_starts_where_a_leader_had_it() -> None:
    judge(highest_start=5).begins(T, 5, "r")
    with pytest.raises(
        InvariantViolationError, match=r"told start: t-0: r was told that it starts at 6, leaders had 5"
    ):
        judge(highest_start=5).begins(T, 6, "r")


def test_a_producer_that_has_lost_nothing_is_known() -> None:
    with pytest.raises(InvariantViolationError, match=r"known producers: .*'s batch of sequence 2 was refused"):
        judge(sent(0, at=4)).refused(T, sent(2))
    with pytest.raises(InvariantViolationError, match="known producers"):
        judge(sent(0, at=4, producer_id=8)).refused(T, sent(0))


def test_who_has_lost_something_may_be_refused() -> None:
    judge(sent(0, at=4), excuses=(LOST,)).refused(T, sent(2))
    judge(sent(0, at=4), highest_start=6).refused(T, sent(2))
    judge(sent(0, at=4, acks=1)).refused(T, sent(2, acks=1))
    with pytest.raises(InvariantViolationError, match="known producers"):
        judge(sent(0, at=4), highest_start=5).refused(T, sent(2))
