"""Lineage: whole or straddling, coverage, and the answers to ListOffsets -5 and -6."""

from __future__ import annotations

import pytest

from tierfetch.remote.core import (
    Gap,
    OffsetAndEpoch,
    RemoteLogSegmentMetadata,
    covering,
    earliest_pending_upload,
    is_within_lineage,
    latest_tiered,
    with_max_timestamp,
    with_timestamp_from,
)
from tierfetch.remote.core.lineage import end_on_lineage, highest_whole_on_lineage

from .builders import DELETE_STARTED, STARTED, epochs_of, ledger_of, segment, segment_id, update

EPOCHS = epochs_of((0, 0), (2, 80))
LOG_END_OFFSET = 200
WHOLE = segment(1, 0, 59, (0, 0))
STRADDLING = segment(2, 60, 99, (0, 60))
ACROSS = segment(3, 60, 149, (0, 60), (2, 80))
LOST = segment(4, 100, 149, (1, 100))


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (WHOLE, True),
        (ACROSS, True),
        (STRADDLING, False),
        (LOST, False),
        (segment(5, 60, 79, (0, 60)), True),
        (segment(6, 60, 79, (0, 60), (1, 70)), False),
        (segment(7, 60, 149, (0, 60), (2, 90)), False),
        (segment(8, 60, 149, (0, 60), (1, 80), (2, 80)), True),
        (segment(9, 150, 199, (2, 150)), True),
        (segment(10, 150, 200, (2, 150)), False),
    ],
)
def test_bootstrap_rule_1_whole_on_the_lineage(metadata: RemoteLogSegmentMetadata, expected: bool) -> None:
    assert is_within_lineage(metadata, EPOCHS, LOG_END_OFFSET) is expected


def test_bootstrap_rule_1_epochs_below_the_log_start_are_not_compared() -> None:
    epochs = epochs_of((2, 100))
    assert is_within_lineage(segment(1, 60, 149, (0, 60), (2, 80)), epochs, LOG_END_OFFSET)
    assert not is_within_lineage(segment(2, 60, 149, (0, 60), (3, 80)), epochs, LOG_END_OFFSET)
    assert not is_within_lineage(segment(3, 60, 99, (0, 60), (2, 80)), epochs, LOG_END_OFFSET)
    assert not is_within_lineage(segment(4, 60, 99), epochs_of(), LOG_END_OFFSET)
    assert is_within_lineage(segment(5, 60, 100, (0, 60), (2, 80)), epochs, LOG_END_OFFSET), "one offset is left"


def test_bootstrap_rule_1_a_straddling_segment_covers_its_first_offsets_but_does_not_count_as_tiered() -> None:
    ledger = ledger_of(WHOLE, STRADDLING, LOST)
    assert ledger.find(0, 70) is not None
    assert highest_whole_on_lineage(ledger, EPOCHS, LOG_END_OFFSET) == ledger.get(segment_id(1))
    coverage = covering(ledger, EPOCHS, 0, 100)
    assert [metadata.segment_id.id.int for metadata in coverage.segments] == [1, 2]
    assert coverage.gap == Gap(80, 100)
    assert pending(ledger, EPOCHS, 0, 0, LOG_END_OFFSET) == OffsetAndEpoch(60, 0)


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (WHOLE, 60),
        (ACROSS, 150),
        (STRADDLING, 80),
        (LOST, 100),
        (segment(5, 60, 99, (0, 60), (1, 70)), 70),
        (segment(6, 60, 149, (0, 60), (2, 90)), 80),
        (segment(7, 60, 149, (1, 60), (2, 80)), 60),
        (segment(8, 150, 300, (2, 150)), 200),
        (segment(9, 40, 99, (0, 50)), 40),
    ],
)
def test_bootstrap_rule_1_the_part_on_the_lineage_ends_at_the_divergence(
    metadata: RemoteLogSegmentMetadata, expected: int
) -> None:
    assert end_on_lineage(metadata, EPOCHS, LOG_END_OFFSET) == expected


def test_bootstrap_rule_1_nothing_below_the_first_known_epoch_is_on_the_lineage() -> None:
    epochs = epochs_of((2, 100))
    assert end_on_lineage(segment(1, 60, 99, (0, 60)), epochs, LOG_END_OFFSET) == 60
    assert end_on_lineage(segment(2, 60, 149, (2, 60)), epochs, 120) == 120
    assert end_on_lineage(segment(3, 60, 149, (2, 60)), epochs_of(), LOG_END_OFFSET) == 60


def test_bootstrap_rule_2_covering_takes_the_fewest_segments() -> None:
    ledger = ledger_of(
        segment(1, 0, 9), segment(2, 0, 49), segment(3, 20, 59), segment(4, 30, 99), segment(5, 100, 119)
    )
    coverage = covering(ledger, epochs_of((0, 0)), 5, 120)
    assert [metadata.segment_id.id.int for metadata in coverage.segments] == [2, 4, 5]
    assert coverage.gap is None


def test_bootstrap_rule_2_covering_names_the_first_gap() -> None:
    ledger = ledger_of(segment(1, 0, 9), segment(2, 20, 29), segment(3, 40, 49))
    epochs = epochs_of((0, 0))
    assert covering(ledger, epochs, 0, 50).gap == Gap(10, 20)
    assert covering(ledger, epochs, 20, 50).gap == Gap(30, 40)
    assert covering(ledger, epochs, 25, 30).gap is None
    assert covering(ledger, epochs, 60, 70).gap == Gap(60, 70)
    assert covering(ledger, epochs, 60, 60) == covering(ledger, epochs, 70, 60)
    assert str(Gap(10, 20)) == "[10, 20)"


def test_bootstrap_rule_2_a_segment_within_another_does_not_lead_back() -> None:
    ledger = ledger_of(segment(1, 0, 9), segment(2, 2, 5), segment(3, 15, 19))
    assert covering(ledger, epochs_of((0, 0)), 0, 20).gap == Gap(10, 15)


def test_bootstrap_rule_2_unfinished_and_deleted_segments_cover_nothing() -> None:
    ledger = ledger_of(segment(1, 0, 9), segment(2, 10, 19))
    ledger.apply(segment(3, 20, 29))
    ledger.apply(update(2, DELETE_STARTED))
    assert ledger.segments(STARTED)
    assert covering(ledger, epochs_of((0, 0)), 0, 30).gap == Gap(10, 30)


def test_bootstrap_rule_10_segments_by_time_are_those_of_the_lineage() -> None:
    ledger = ledger_of(
        segment(1, 0, 9, max_timestamp_ms=100),
        segment(2, 10, 19, (1, 10), max_timestamp_ms=900),
        segment(3, 10, 19, max_timestamp_ms=50),
        segment(4, 20, 29, max_timestamp_ms=200),
        segment(5, 30, 39, max_timestamp_ms=200),
    )
    epochs = epochs_of((0, 0))

    def numbers(start_offset: int, timestamp_ms: int) -> list[int]:
        found = with_timestamp_from(ledger, epochs, 40, start_offset, timestamp_ms)
        return [metadata.segment_id.id.int for metadata in found]

    assert numbers(0, 0) == [1, 3, 4, 5]
    assert numbers(0, 100) == [1, 4, 5]
    assert numbers(10, 100) == [4, 5]
    assert numbers(29, 200) == [4, 5]
    assert numbers(0, 201) == []
    assert with_max_timestamp(ledger, epochs, 40, 0) == ledger.get(segment_id(4))
    assert with_max_timestamp(ledger, epochs, 40, 30) == ledger.get(segment_id(5))
    assert with_max_timestamp(ledger, epochs, 40, 40) is None


def pending(ledger, epochs, log_start: int, local_log_start: int, log_end: int) -> OffsetAndEpoch | None:
    return earliest_pending_upload(
        ledger,
        epochs,
        log_start_offset=log_start,
        local_log_start_offset=local_log_start,
        log_end_offset=log_end,
    )


UP_TO_4499 = segment(1, 0, 4499)
UP_TO_5535 = segment(2, 4500, 5535)
UP_TO_6009 = segment(3, 5536, 6009)


@pytest.mark.parametrize(
    ("segments", "local_log_start", "log_end", "latest", "earliest_pending"),
    [
        pytest.param([], 0, 4500, None, 0, id="nothing uploaded"),
        pytest.param([UP_TO_4499], 4500, 4500, 4499, 4500, id="all uploaded, deleted locally"),
        pytest.param([UP_TO_4499], 4500, 4510, 4499, 4500, id="then 10 more"),
        pytest.param([UP_TO_4499, UP_TO_5535], 5536, 6010, 5535, 5536, id="partly uploaded"),
        pytest.param([UP_TO_4499, UP_TO_5535, UP_TO_6009], 5536, 6010, 6009, 6010, id="all uploaded, local lags"),
    ],
)
def test_F2_latest_tiered_and_earliest_pending_upload(
    segments: list[RemoteLogSegmentMetadata],
    local_log_start: int,
    log_end: int,
    latest: int | None,
    earliest_pending: int,
) -> None:
    """The states and answers observed on Apache Kafka 4.3.0, with our answer where it gives none."""
    ledger, epochs = ledger_of(*segments), epochs_of((0, 0))
    assert latest_tiered(ledger, epochs, log_end) == (None if latest is None else OffsetAndEpoch(latest, 0))
    assert pending(ledger, epochs, 0, local_log_start, log_end) == OffsetAndEpoch(earliest_pending, 0)


def test_F2_unknown_until_the_remote_metadata_has_been_read() -> None:
    epochs = epochs_of((0, 0))
    assert pending(None, epochs, 0, 0, 100) is None
    assert latest_tiered(None, epochs, 100) is None


def test_F2_at_the_log_end_the_epoch_is_the_leaders_latest() -> None:
    ledger, epochs = ledger_of(segment(1, 0, 99)), epochs_of((0, 0), (3, 100))
    assert pending(ledger, epochs, 0, 100, 100) == OffsetAndEpoch(100, 3)
    assert latest_tiered(ledger, epochs, 100) == OffsetAndEpoch(99, 0)


def test_F2_pending_upload_is_never_below_what_the_leader_serves() -> None:
    ledger, epochs = ledger_of(segment(1, 0, 99)), epochs_of((0, 150))
    assert pending(ledger, epochs, 150, 150, 200) == OffsetAndEpoch(150, 0)
    assert pending(ledger, epochs_of((0, 0)), 0, 120, 200) == OffsetAndEpoch(120, 0)


def test_F7_unknown_where_the_tier_says_nothing_about_offsets_that_are_not_local() -> None:
    assert pending(ledger_of(), epochs_of((0, 0)), 0, 50, 100) is None
    assert pending(ledger_of(), epochs_of((0, 50)), 50, 50, 100) == OffsetAndEpoch(50, 0)


def test_F9_worked_scenario() -> None:
    """Segments 0-2 and 3-5 tiered, epochs (0,0)(1,3)(2,5)(3,7): the follower resumes at 6 in epoch 2."""
    ledger = ledger_of(segment(1, 0, 2, (0, 0)), segment(2, 3, 5, (1, 3), (2, 5)))
    epochs = epochs_of((0, 0), (1, 3), (2, 5), (3, 7))
    assert pending(ledger, epochs, 0, 6, 10) == OffsetAndEpoch(6, 2)
    assert ledger.find(2, 5) == highest_whole_on_lineage(ledger, epochs, 10) == ledger.get(segment_id(2))
    assert covering(ledger, epochs, 0, 6).gap is None
