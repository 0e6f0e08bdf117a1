"""What the administrator was told must hold in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from tierfetch.broker.cluster.view import NO_LEADER, PartitionRegistration
from tierfetch.broker.replicas.failed_logs import FailedLog, obstacle
from tierfetch.controller.core.state import LOST_DIRECTORY
from tierfetch.controller.records import RemoveTopicRecord, TopicRecord
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.sim.judges.core.acknowledged_writes import FinalLog
from tierfetch.sim.judges.core.allowed_losses import AllowedLoss, AllowedLosses
from tierfetch.sim.judges.core.truth import ClusterTruth
from tierfetch.sim.scenarios.administrator import SIDE_VALUE_BYTES, Administrator, side_value
from tierfetch.tests.sim.test_truth import batch, truth

T = TopicIdPartition(UUID(int=1000), "t", 0)
GONE = TopicIdPartition(UUID(int=999), "t", 0)


async def administrator(there: ClusterTruth) -> Administrator:
    made = Administrator(there, dict, (), Random(1), side_configs={}, record=lambda *_: None)
    made._produced = {T: {0: (7, 10), 1: (8, 20)}, GONE: {5: (9, 10)}}
    return made


def test_what_a_side_topic_acknowledged_is_in_it_unless_it_is_excused_or_gone() -> None:
    made = asyncio.run(administrator(truth()))
    assert made.filled == [T]
    assert not made.lost_from(T, FinalLog("t-0", 0, 2, {0: 7, 1: 8}), AllowedLosses())
    (found,) = made.lost_from(T, FinalLog("t-0", 0, 2, {0: 7, 1: 9}), AllowedLosses())
    assert str(found).startswith("lost write: t-0: offsets [1] were acknowledged")
    lost = AllowedLosses([AllowedLoss(from_offset=1, end_offset=2, at_ms=30, until_ms=40)])
    assert not made.lost_from(T, FinalLog("t-0", 0, 1, {0: 7}), lost)
    assert made.lost_from(T, FinalLog("t-0", 0, 0, {}), lost)
    made._produced[T][2] = (9, 25)
    (above,) = made.lost_from(T, FinalLog("t-0", 0, 1, {0: 7}), lost)
    assert "offsets [2] were acknowledged" in str(above)
    made._produced[T] = {1: (10, 50)}
    assert made.lost_from(T, FinalLog("t-0", 0, 1, {0: 7}), lost)


def test_a_topic_that_was_created_or_deleted_stays_so() -> None:
    made = asyncio.run(administrator(truth()))
    made._settle("t", made._doubt("t"), exists=True)
    assert not made.anomalies()
    made._settle("t", made._doubt("t"), exists=False)
    made._settle("u", made._doubt("u"), exists=True)
    assert [str(each) for each in made.anomalies()] == [
        "lost decision: t: it was deleted",
        "lost decision: u: it was created",
    ]
    made._doubt("t")
    assert len(made.anomalies()) == 1


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_requests_that_overlap_nobody_knows_which_came_last(order: tuple[int, int]) -> None:
    made = asyncio.run(administrator(truth()))
    requests = [made._doubt("t"), made._doubt("t")]
    for number in order:
        made._settle("t", requests[number], exists=False)
    assert not made.anomalies()


LEADERLESS = PartitionRegistration(NO_LEADER, 2, 4, (2, 1), (1,), (None, LOST_DIRECTORY))


@pytest.mark.parametrize(
    ("isr", "lost_records", "asks"),
    [((), 0, True), ((1,), 4, True), ((1,), 0, False), ((1, 2), 4, False), ((7,), 4, False)],
    ids=["no member is left", "it has lost records", "it may come back whole", "another may lead", "it is not live"],
)
def test_a_partition_is_rescued_where_no_member_of_the_isr_will_lead_by_itself(
    isr: Sequence[int], lost_records: int, asks: bool
) -> None:
    failed = FailedLog(last_epoch=2, log_end_offset=5, high_watermark=3, append_bytes=1, lost_records=lost_records)
    reason = obstacle(failed, LEADERLESS, 1)
    failures = {1: {} if reason is None else {T.topic_partition: reason}, 2: {}, 7: {}}
    brokers: Any = {
        each: SimpleNamespace(hosted=SimpleNamespace(failures=reasons)) for each, reasons in failures.items()
    }
    made = asyncio.run(administrator(truth()))
    made._brokers = lambda: brokers
    assert made._asks_for_rescue(T, replace(LEADERLESS, isr=tuple(isr))) is asks


def test_each_incarnation_of_a_topic_is_sent_other_bytes() -> None:
    there = truth()
    made = asyncio.run(administrator(there))
    assert (made._incarnation_of("u"), made._incarnation_of("t")) == (0, 1), "no topic u is there yet"
    replaced = RemoveTopicRecord(topic_id=T.topic_id), TopicRecord(name="t", topic_id=UUID(int=1001))
    there.tap("controller-1").on_commit(batch(4, *replaced))
    there.judges.check()
    assert made._incarnation_of("t") == 2
    first, second = side_value(7, 1), side_value(7, 2)
    assert first != second
    assert first[:8] == second[:8] == (7).to_bytes(8, "big"), "what readers take for the record's number"
    assert len(first) == len(second) == 8 + SIDE_VALUE_BYTES, "segments are as long as ever"
