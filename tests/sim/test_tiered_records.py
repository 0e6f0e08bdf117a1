"""Only what is stable goes to the tier."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest

from tierfetch.plugins.layout import partition_directory
from tierfetch.protocol.records import Record, build_batch
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.sim.judges.core.partition import InvariantViolationError
from tierfetch.sim.judges.core.tiered_records import TieredRecordsJudge

NAME = TopicIdPartition(UUID(int=1), "t", 0)
LOG = f"{partition_directory(NAME)}/00000000000000000004-AAAAAAAAAAAAAAAAAAAAAA.log"
DATA = build_batch([Record(4 + index, 0, None, b"v") for index in range(3)], base_offset=4)


def judged(stable_end: int | None, key: str = LOG, *, finished: Sequence[str] = ()) -> TieredRecordsJudge:
    judge = TieredRecordsJudge(lambda *_: stable_end, lambda *_: finished, {LOG})
    ends = judge.begins("broker-1", key)
    if ends is not None:
        ends(DATA)
    return judge


@pytest.mark.parametrize("stable_end", [7, 8, None])
def test_up_to_the_last_stable_offset(stable_end: int | None) -> None:
    judged(stable_end).check()


def test_beyond_it_is_a_violation() -> None:
    with pytest.raises(InvariantViolationError, match=r"stable tier: .*ends at 7; its last stable offset was 6"):
        judged(6).check()


def test_other_objects_hold_no_records() -> None:
    judged(0, LOG.replace(".log", ".index")).check()
    judged(0, "foreign").check()


def test_what_is_finished_was_there_once() -> None:
    judged(7, finished=[LOG]).check()
    with pytest.raises(InvariantViolationError, match="whole tier"):
        judged(7, finished=[LOG, LOG.replace("4-", "5-")]).check()
