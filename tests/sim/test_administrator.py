"""What the administrator was told must hold in the end."""

from __future__ import annotations

import asyncio
from random import Random
from uuid import UUID

import pytest

from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.sim.judges.core.acknowledged_writes import FinalLog
from tierfetch.sim.judges.core.allowed_losses import AllowedLoss, AllowedLosses
from tierfetch.sim.judges.core.truth import ClusterTruth
from tierfetch.sim.scenarios.administrator import Administrator
from tierfetch.tests.sim.test_truth import truth

T = TopicIdPartition(UUID(int=1000), "t", 0)
GONE = TopicIdPartition(UUID(int=999), "t", 0)


async def administrator(there: ClusterTruth) -> Administrator:
    made = Administrator(there, dict, (), Random(1), side_configs={}, pace_s=1.0, record=lambda *_: None)
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
