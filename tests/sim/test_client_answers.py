"""What clients are told beside records: where a log starts, what is committed, that a sequence is wrong."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from uuid import UUID

import pytest

from tierfetch.protocol.records import Record, build_batch
from tierfetch.protocol.topics import TopicIdPartition, TopicPartition
from tierfetch.sim.judges.core.allowed_losses import AllowedLoss, AllowedLosses
from tierfetch.sim.judges.core.client_answers import ClientAnswersJudge
from tierfetch.sim.judges.core.events import (
    CommitReported,
    LogStartReported,
    OffsetRefused,
    ReplicaChanged,
    ReplicaLeft,
    SequenceRefused,
)
from tierfetch.sim.judges.core.history import ACKS_ALL, History, Send
from tierfetch.sim.judges.core.partition import InvariantViolationError, ReplicaStatus
from tierfetch.sim.judges.observer import ReplicaObserver

T = TopicPartition("t", 0)
NAME = TopicIdPartition(UUID(int=1), "t", 0)
LOST = AllowedLoss(from_offset=0, end_offset=9, at_ms=0)


def judge(
    *sends: Send,
    highest_start: int = 0,
    allowed: tuple[AllowedLoss, ...] = (),
    segments: tuple[tuple[int, bytes], ...] = (),
) -> ClientAnswersJudge:
    observer = ReplicaObserver(lambda _: None, lambda *_: None, lambda _: None)
    return ClientAnswersJudge(
        History(list(sends)),
        lambda _: AllowedLosses(allowed),
        observer,
        {1: "b"},
        lambda _: NAME,
        lambda _: highest_start,
        lambda _: segments,
    )


def test_a_client_is_told_of_nothing_that_no_leader_reported() -> None:
    there = judge()
    there._replicas.of(NAME).committed_end = 10
    there.on(CommitReported(T, 10, "a reader", 0))
    with pytest.raises(InvariantViolationError, match="committed before it is told: t-0: a reader was told of 11"):
        there.on(CommitReported(T, 11, "a reader", 0))


def sent(sequence: int, at: int = -1, *, producer_id: int = 7, acks: int = ACKS_ALL) -> Send:
    send = Send("p", str(T), (1, 2), acks, 0, producer_id=producer_id, sequence=sequence)
    if at >= 0:
        send.ok(at, 0, 0)
    return send


def test_a_log_starts_where_a_leader_had_it() -> None:
    judge(highest_start=5).on(LogStartReported(T, 5, "r"))
    with pytest.raises(
        InvariantViolationError, match=r"told start: t-0: r was told that it starts at 6, leaders had 5"
    ):
        judge(highest_start=5).on(LogStartReported(T, 6, "r"))


LED = ReplicaStatus(1, 1, 3, 3, 5, 5, 9, 9, ())


def out_of_range(offset: int, before: ReplicaStatus | None, now: ReplicaStatus | None) -> None:
    there, asked = judge(), {} if before is None else {"b": before}
    if now is not None:
        there._replicas._statuses[1, NAME] = now
    there.on(OffsetRefused(T, offset, "b", asked))


@pytest.mark.parametrize("offset", [5, 9])
def test_what_is_in_the_leaders_log_is_in_range(offset: int) -> None:
    with pytest.raises(InvariantViolationError, match=rf"out of range: t-0: b refuses {offset}"):
        out_of_range(offset, LED, LED)


@pytest.mark.parametrize(
    ("offset", "before", "now"),
    [
        (4, LED, LED),
        (10, LED, LED),
        (8, replace(LED, log_end_offset=7), LED),
        (6, LED, replace(LED, log_start_offset=7)),
        (6, LED, replace(LED, incarnation=2)),
        (6, LED, replace(LED, leads_epoch=4)),
        (6, replace(LED, leads_epoch=None), replace(LED, leads_epoch=None)),
        (6, None, LED),
        (6, LED, None),
    ],
    ids=["below", "above", "above then", "below now", "new process", "new epoch", "follower", "was down", "is down"],
)
def test_what_may_not_have_been_in_its_log_may_be_out_of_range(
    offset: int, before: ReplicaStatus | None, now: ReplicaStatus | None
) -> None:
    out_of_range(offset, before, now)


def test_a_producer_that_has_lost_nothing_is_known() -> None:
    with pytest.raises(InvariantViolationError, match=r"known producers: .*'s batch of sequence 2 was refused"):
        judge(sent(0, at=4)).on(SequenceRefused(T, sent(2)))
    with pytest.raises(InvariantViolationError, match="known producers"):
        judge(sent(0, at=4, producer_id=8)).on(SequenceRefused(T, sent(0)))


def test_who_has_lost_something_may_be_refused() -> None:
    judge(sent(0, at=4), allowed=(LOST,)).on(SequenceRefused(T, sent(2)))
    judge(sent(0, at=4), highest_start=6).on(SequenceRefused(T, sent(2)))
    judge(sent(0, at=4, acks=1)).on(SequenceRefused(T, sent(2, acks=1)))
    with pytest.raises(InvariantViolationError, match="known producers"):
        judge(sent(0, at=4), highest_start=5).on(SequenceRefused(T, sent(2)))


@pytest.mark.parametrize(
    ("borders", "is_known"), [((4,), True), ((4, 6), True), ((4, 8), False)], ids=["none", "at it", "behind the next"]
)
def test_a_snapshot_knows_only_the_last_batch_of_a_producer(borders: tuple[int, ...], is_known: bool) -> None:
    """Where segments begin: what was sent twice may be refused if the one behind it is below one of these, too."""
    batches = {4: batch(4, sequence=2), 6: batch(6, sequence=4), 8: batch(8, sequence=6)}
    segments = tuple(
        (border, b"".join(data for offset, data in batches.items() if border <= offset < end))
        for border, end in pairwise((*borders, 10))
    )
    there = judge(sent(0, at=2), segments=segments)
    if is_known:
        with pytest.raises(InvariantViolationError, match="known producers"):
            there.on(SequenceRefused(T, sent(2)))
    else:
        there.on(SequenceRefused(T, sent(2)))


@pytest.mark.parametrize(("end_offset", "is_known"), [(6, True), (8, False)], ids=["at the next", "behind the next"])
def test_a_log_that_is_closed_in_order_has_a_snapshot_at_its_end(end_offset: int, is_known: bool) -> None:
    """The simulation's seeds 32 of workers and 39 of the cluster: brokers were restarted with batches in flight."""
    whole = b"".join(batch(offset, sequence=offset - 2) for offset in (4, 6, 8))
    there = judge(sent(0, at=2), segments=((4, whole),))
    there.on(ReplicaChanged(NAME, ReplicaStatus(1, 1, 0, 0, 0, 0, 4, end_offset, ())))
    there.on(ReplicaLeft(1, NAME))
    if is_known:
        with pytest.raises(InvariantViolationError, match="known producers"):
            there.on(SequenceRefused(T, sent(2)))
    else:
        there.on(SequenceRefused(T, sent(2)))


def batch(base_offset: int, sequence: int) -> bytes:
    records = [Record(base_offset + index, 0, None, b"") for index in range(2)]
    return build_batch(records, base_offset=base_offset, producer_id=7, producer_epoch=0, base_sequence=sequence)
