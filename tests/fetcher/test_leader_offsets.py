"""ListOffsets: every special timestamp, the states that were measured on Apache Kafka 4.3.0, and versions."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from tierfetch.fetcher.core.epoch_fetch import FetchIsolation, LeaderView, Refuse
from tierfetch.fetcher.core.leader_offsets import special_offset
from tierfetch.protocol.errors import ErrorCode
from tierfetch.remote.core import OffsetAndEpoch, RemoteLogLedger
from tierfetch.tests.fetcher.model_log import epochs_of
from tierfetch.tests.fetcher.model_tier import ledger_of, segment

LATEST_VERSION = 11


def view_of(*, end: int, local_start: int = 0, start: int = 0) -> LeaderView:
    return LeaderView(
        leader_epoch=4,
        epochs=epochs_of((0, 0), (4, 4000)),
        log_start_offset=start,
        local_log_start_offset=local_start,
        last_stable_offset=end,
        high_watermark=end,
        log_end_offset=end,
        epoch_start_offset=0,
    )


def tiered_up_to(end: int | None) -> RemoteLogLedger:
    """Everything below `end` in segments of the lineage of `view_of`."""
    if end is None:
        return ledger_of()
    return ledger_of(segment(0, 3999), segment(4000, end - 1, (4, 4000)))


@dataclass(frozen=True)
class Measured:
    """A leader's state, and its answers to -2, -4, -5, -6."""

    end: int
    local_start: int
    tiered_end: int | None
    answers: tuple[int, int, int, int]


MEASURED = {
    "nothing uploaded": Measured(4500, 0, None, (0, 0, -1, 0)),
    "all uploaded, deleted locally": Measured(4500, 4500, 4500, (0, 4500, 4499, 4500)),
    "then 10 more": Measured(4510, 4500, 4500, (0, 4500, 4499, 4500)),
    "partly uploaded": Measured(6010, 5536, 5536, (0, 5536, 5535, 5536)),
    "all uploaded, local lags": Measured(6010, 5536, 6010, (0, 5536, 6009, 6010)),
}


@pytest.mark.parametrize("state", MEASURED)
def test_F2_the_measured_states(state: str) -> None:
    measured = MEASURED[state]
    view = view_of(end=measured.end, local_start=measured.local_start)
    ledger = tiered_up_to(measured.tiered_end)
    answers = [special_offset(view, ledger, ts, FetchIsolation.LOG_END, LATEST_VERSION) for ts in (-2, -4, -5, -6)]
    assert tuple(answer.offset for answer in answers if isinstance(answer, OffsetAndEpoch)) == measured.answers


@pytest.mark.parametrize(("timestamp", "minimum"), [(-1, 1), (-2, 1), (-4, 8), (-5, 9), (-6, 11)])
def test_F2_each_from_its_right_version(timestamp: int, minimum: int) -> None:
    view = view_of(end=10)
    below = special_offset(view, ledger_of(), timestamp, FetchIsolation.LOG_END, minimum - 1)
    assert isinstance(below, Refuse)
    assert below.error is ErrorCode.unsupported_version
    assert isinstance(special_offset(view, ledger_of(), timestamp, FetchIsolation.LOG_END, minimum), OffsetAndEpoch)


@pytest.mark.parametrize(
    ("isolation", "offset"),
    [(FetchIsolation.LOG_END, 100), (FetchIsolation.HIGH_WATERMARK, 90), (FetchIsolation.TXN_COMMITTED, 80)],
)
def test_F2_latest_by_reader(isolation: FetchIsolation, offset: int) -> None:
    view = replace(view_of(end=100), high_watermark=90, last_stable_offset=80)
    assert special_offset(view, None, -1, isolation, LATEST_VERSION) == OffsetAndEpoch(offset, 4)


def test_F2_latest_is_not_available_while_the_high_watermark_is_below_the_epoch() -> None:
    view = replace(view_of(end=100), high_watermark=90, epoch_start_offset=95)
    by_version = {version: special_offset(view, None, -1, FetchIsolation.HIGH_WATERMARK, version) for version in (4, 5)}
    assert {version: answer.error for version, answer in by_version.items() if isinstance(answer, Refuse)} == {
        4: ErrorCode.leader_not_available,
        5: ErrorCode.offset_not_available,
    }
    assert special_offset(view, None, -1, FetchIsolation.LOG_END, 5) == OffsetAndEpoch(100, 4)
    reached = replace(view, high_watermark=95, last_stable_offset=95)
    assert special_offset(reached, None, -1, FetchIsolation.HIGH_WATERMARK, 5) == OffsetAndEpoch(95, 4)


@pytest.mark.parametrize("timestamp", [-5, -6])
def test_F2_a_leader_that_has_not_read_the_remote_metadata_says_unknown(timestamp: int) -> None:
    answer = special_offset(view_of(end=100), None, timestamp, FetchIsolation.LOG_END, LATEST_VERSION)
    assert answer == OffsetAndEpoch(-1, -1)


def test_bootstrap_rule_1_the_answer_is_at_least_the_log_start() -> None:
    view = replace(view_of(end=6000, start=5000, local_start=5000), epochs=epochs_of((4, 5000)))
    for ledger in (ledger_of(), tiered_up_to(4200)):
        answer = special_offset(view, ledger, -6, FetchIsolation.LOG_END, LATEST_VERSION)
        assert answer == OffsetAndEpoch(5000, 4)


def test_bootstrap_rule_1_at_the_log_end_its_epoch_is_the_leaders_latest() -> None:
    view = replace(view_of(end=4500, local_start=4500), epochs=epochs_of((0, 0), (4, 4000), (9, 4500)))
    answers = [special_offset(view, tiered_up_to(4500), ts, FetchIsolation.LOG_END, LATEST_VERSION) for ts in (-5, -6)]
    assert answers == [OffsetAndEpoch(4499, 4), OffsetAndEpoch(4500, 9)]


def test_bootstrap_rule_1_a_segment_that_straddles_a_divergence_is_not_counted() -> None:
    straddling = segment(4000, 4600, (3, 4000))
    ledger = ledger_of(segment(0, 3999), straddling)
    answer = special_offset(view_of(end=5000), ledger, -6, FetchIsolation.LOG_END, LATEST_VERSION)
    assert answer == OffsetAndEpoch(4000, 4)
