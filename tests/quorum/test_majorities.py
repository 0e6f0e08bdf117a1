"""Majority arithmetic and voter sets, as tables."""

from __future__ import annotations

import pytest

from tierfetch.quorum.core.high_watermark import advanced_high_watermark, majority_reached
from tierfetch.quorum.core.state import NO_DIRECTORY_ID, ReplicaKey
from tierfetch.quorum.core.voters import VoterHistory, VotersAt, VoterSet

from .cluster import key_of, voter_of, voters_of


@pytest.mark.parametrize(
    ("values", "majority", "expected"),
    [([5], 1, 5), ([5, 3], 2, 3), ([5, 3, 4], 2, 4), ([9, -1, -1], 2, -1), ([1, 2, 3, 4, 5], 3, 3)],
)
def test_Q6_majority_reached(values: list[int], majority: int, expected: int) -> None:
    assert majority_reached(values, majority) == expected


@pytest.mark.parametrize(
    ("high_watermark", "ends", "epoch_start", "expected"),
    [
        (0, [5, 5, 0], 5, 0),  # a majority has all of the old epochs, and nothing of this one
        (0, [6, 5, 0], 5, 0),
        (0, [6, 6, 0], 5, 6),
        (6, [9, 5, 5], 4, 6),  # never back
    ],
)
def test_Q6_advanced_high_watermark(high_watermark: int, ends: list[int], epoch_start: int, expected: int) -> None:
    assert advanced_high_watermark(high_watermark, ends, 2, epoch_start) == expected


@pytest.mark.parametrize(("voters", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_Q2_majority(voters: int, majority: int) -> None:
    assert voters_of(range(1, voters + 1)).voters.majority == majority


def test_Q15_a_directory_id_counts_where_the_set_knows_it() -> None:
    voters = VoterSet.of([voter_of(1)])
    assert voters.contains(key_of(1))
    assert not voters.contains(ReplicaKey(1, NO_DIRECTORY_ID))
    assert not voters.contains(key_of(1, 7))
    assert not voters.contains(key_of(2))
    static = voters_of([1], kraft_version=0).voters
    assert static.contains(key_of(1, 7))
    assert not static.contains(key_of(2))


def test_Q15_a_truncation_brings_back_the_voters_of_before() -> None:
    three, two, one = (
        VotersAt(offset, voters_of(ids).voters, 1) for offset, ids in ((-1, (1, 2, 3)), (4, (1, 2)), (9, (1,)))
    )
    history = VoterHistory((three,)).appended(two).appended(one)
    assert history.latest == one
    assert history.truncated(9).latest == two
    assert history.truncated(4).latest == three
    assert history.committed(5).entries == (two, one)
    assert history.committed(4).entries == (three, two, one)
