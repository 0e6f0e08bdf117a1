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
from tierfetch.sim.machine.store_events import Uploaded, UploadStarted

NAME = TopicIdPartition(UUID(int=1), "t", 0)
LOG = f"{partition_directory(NAME)}/00000000000000000004-AAAAAAAAAAAAAAAAAAAAAA.log"
DATA = build_batch([Record(4 + index, 0, None, b"v") for index in range(3)], base_offset=4)


def judged(stable_end: int | None, key: str = LOG, *, finished: Sequence[str] = ()) -> None:
    judge = TieredRecordsJudge(lambda *_: stable_end, lambda *_: finished, {LOG})
    judge.on(UploadStarted(1, "broker-1", key))
    judge.on(Uploaded(1, "broker-1", key, DATA))


@pytest.mark.parametrize("stable_end", [7, 8, None])
def test_up_to_the_last_stable_offset(stable_end: int | None) -> None:
    judged(stable_end)


def test_beyond_it_is_a_violation() -> None:
    with pytest.raises(InvariantViolationError, match=r"stable tier: .*ends at 7; its last stable offset was 6"):
        judged(6)


def test_other_objects_hold_no_records() -> None:
    judged(0, LOG.replace(".log", ".index"))
    judged(0, "foreign")


def test_what_is_finished_was_there_once() -> None:
    judged(7, finished=[LOG])
    with pytest.raises(InvariantViolationError, match="whole tier"):
        judged(7, finished=[LOG, LOG.replace("4-", "5-")])
