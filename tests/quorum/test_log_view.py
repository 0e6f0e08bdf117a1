"""What a core knows of its own log while effects are under way."""

from __future__ import annotations

import pytest

from tierfetch.quorum.core.effects import AppendRecords, DataBatch, Flush, InstallSnapshot, Truncate
from tierfetch.quorum.core.events import RecoveredState
from tierfetch.quorum.core.log_view import LogView
from tierfetch.quorum.core.state import OffsetAndEpoch
from tierfetch.tests.sim.planted.quorum_core_bugs import LOG_VIEW
from tierfetch.tests.sim.planted.registry import shown_by

from .cluster import voters_of


def log_view() -> LogView:
    return LogView(RecoveredState(voters=(voters_of((1, 2, 3)),)))


def append(log: LogView, count: int, epoch: int) -> tuple[AppendRecords, Flush]:
    base, end = log.end_offset, log.end_offset + count
    effect, flush = AppendRecords(base, end, epoch, (DataBatch(base, (b"x",) * count),)), Flush(end)
    log.append(effect)
    log.flush(flush)
    return effect, flush


def truncate_below_a_flush_under_way() -> int:
    """Five records are being flushed, the log is cut at 2 and grows to 4 again: what counts as flushed then."""
    log = log_view()
    first, first_flush = append(log, 5, 1)
    cut = Truncate(2)
    log.truncate(cut)
    second, _ = append(log, 2, 2)
    for effect in (first, first_flush, cut, second):
        log.complete(effect)
    assert log.end_offset == log.written_end_offset == 4
    return log.flushed_end_offset


def test_Q7_an_old_flush_does_not_count_for_records_that_came_after_a_truncation() -> None:
    assert truncate_below_a_flush_under_way() == 2


def test_Q7_a_truncated_tail_that_counted_as_flushed_would_be_noticed() -> None:
    def flushed_after_truncation() -> int:
        log = log_view()
        for effect in append(log, 5, 1):
            log.complete(effect)
        log.truncate(Truncate(2))
        append(log, 3, 2)
        return log.flushed_end_offset

    assert flushed_after_truncation() == 2
    with shown_by(LOG_VIEW)["a truncated tail still counts as flushed"]():
        assert flushed_after_truncation() == 5


def test_effects_are_completed_in_the_order_in_which_they_were_issued() -> None:
    log = log_view()
    _, flush = append(log, 1, 1)
    with pytest.raises(AssertionError, match="was completed before"):
        log.complete(flush)


def test_Q9_the_log_is_the_snapshot_once_it_is_installed_and_as_before_if_it_is_refused() -> None:
    snapshot_id = OffsetAndEpoch(7, 3)
    log = log_view()
    for effect in append(log, 2, 1):
        log.complete(effect)
    log.install(InstallSnapshot(snapshot_id))
    assert log.is_installing
    log.finish_install(snapshot_id, is_installed=False)
    assert log.last == OffsetAndEpoch(2, 1)
    log.install(InstallSnapshot(snapshot_id))
    log.finish_install(snapshot_id, is_installed=True)
    assert log.last == snapshot_id
    assert log.flushed_end_offset == 7
