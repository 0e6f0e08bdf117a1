"""No offset is in neither tier, at no moment."""

from __future__ import annotations

from uuid import UUID

import pytest

from tierfetch.log.core import EpochEntry
from tierfetch.plugins.layout import partition_directory
from tierfetch.protocol.records import Record, build_batch
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.sim.judges.core.coverage import CoverageJudge
from tierfetch.sim.judges.core.events import LocalStartMoved
from tierfetch.sim.judges.core.partition import InvariantViolationError, ReplicaStatus

NAME = TopicIdPartition(UUID(int=1), "t", 0)
OTHER = TopicIdPartition(UUID(int=2), "t", 0)


def segment(base_offset: int, count: int) -> bytes:
    return build_batch([Record(base_offset + each, 0, None, b"v") for each in range(count)], base_offset=base_offset)


def key(base_offset: int, name: TopicIdPartition = NAME, suffix: str = "log") -> str:
    return f"{partition_directory(name)}/{base_offset:020}-AAAAAAAAAAAAAAAAAAAAAA.{suffix}"


def begins_at(local_start: int, objects: dict[str, bytes], log_start: int = 0) -> None:
    now = ReplicaStatus(
        node_id=1,
        incarnation=1,
        leader_epoch=0,
        leads_epoch=0,
        log_start_offset=log_start,
        local_log_start_offset=local_start,
        high_watermark=20,
        log_end_offset=20,
        epochs=(EpochEntry(0, 0),),
    )
    CoverageJudge(objects).on(LocalStartMoved(NAME, now))


def test_what_is_not_local_any_more_is_in_the_store() -> None:
    objects = {key(0): segment(0, 4), key(4): segment(4, 4)}
    begins_at(8, objects)
    begins_at(5, objects)
    begins_at(8, {key(4): objects[key(4)]}, log_start=4)
    begins_at(8, {}, log_start=8)


@pytest.mark.parametrize(
    ("objects", "missing"),
    [
        ({key(0): segment(0, 4)}, 4),
        ({key(4): segment(4, 4)}, 0),
        ({key(0): segment(0, 3), key(4): segment(4, 4)}, 3),
        ({key(0): segment(0, 4), key(4): segment(4, 4)[:-1]}, 4),
        ({key(0): segment(0, 4), key(4, OTHER): segment(4, 4), key(4, suffix="index"): segment(4, 4)}, 4),
    ],
)
def test_an_offset_in_neither_tier(objects: dict[str, bytes], missing: int) -> None:
    with pytest.raises(InvariantViolationError, match=f"some tier: t-0: offset {missing} is in no object"):
        begins_at(8, objects)


def test_an_object_that_is_replaced_is_read_again() -> None:
    objects = {key(0): segment(0, 4)}
    judge = CoverageJudge(objects)
    assert list(judge._tiered(NAME)) == [(0, 4)]
    objects[key(0)] = segment(0, 8)
    assert list(judge._tiered(NAME)) == [(0, 8)]


def test_who_is_not_in_the_isr_may_not_have_heard_what_expired() -> None:
    now = ReplicaStatus(2, 1, 0, None, 0, 8, 20, 20, (EpochEntry(0, 0),))
    objects = {key(4): segment(4, 4)}
    CoverageJudge(objects, lambda *_: 4).on(LocalStartMoved(NAME, now))
    with pytest.raises(InvariantViolationError, match="offset 3 is in no object"):
        CoverageJudge(objects, lambda *_: 3).on(LocalStartMoved(NAME, now))
