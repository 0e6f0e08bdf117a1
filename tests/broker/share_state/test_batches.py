"""Ranges of delivery states: disjoint, sorted, whole, and for each offset what ranks highest."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.broker.share_state.core.batches import ACKNOWLEDGED, ARCHIVED, AVAILABLE, Batch, check_batches, combined
from tierfetch.protocol import ErrorCode, KafkaError

batches = st.builds(
    lambda first, length, state, count: Batch(first, first + length, state, count),
    st.integers(0, 20),
    st.integers(0, 8),
    st.sampled_from([AVAILABLE, ACKNOWLEDGED, ARCHIVED]),
    st.integers(0, 3),
)


def by_offset(ranges: list[Batch], start_offset: int) -> dict[int, tuple[int, int]]:
    """Say it offset by offset."""
    ranks: dict[int, tuple[int, int]] = {}
    for batch in ranges:
        for offset in range(max(batch.first_offset, start_offset), batch.last_offset + 1):
            ranks[offset] = max(ranks.get(offset, (-1, -1)), batch.rank)
    return ranks


@given(st.lists(batches, max_size=8), st.integers(-1, 25))
def test_what_is_combined_says_of_each_offset_what_ranks_highest(ranges: list[Batch], start_offset: int) -> None:
    found = combined(ranges, start_offset)
    assert by_offset(list(found), -1) == by_offset(ranges, start_offset)
    for before, after in pairwise(found):
        assert before.last_offset < after.first_offset, "in order, without overlap"
        assert before.rank != after.rank or before.last_offset + 1 < after.first_offset, "neighbours differ"


@given(st.lists(batches, max_size=6), st.lists(batches, max_size=6), st.integers(-1, 25))
def test_the_order_of_writes_does_not_matter(first: list[Batch], second: list[Batch], start_offset: int) -> None:
    assert combined((*combined(first, -1), *second), start_offset) == combined((*second, *first), start_offset)


def test_a_new_count_takes_a_part_of_an_old_range() -> None:
    old, new = Batch(100, 109, AVAILABLE, 1), Batch(103, 105, ACKNOWLEDGED, 2)
    assert combined([old, new], 101) == (Batch(101, 102, 0, 1), new, Batch(106, 109, 0, 1))


@pytest.mark.parametrize(
    "batch", [Batch(-1, 3, 0, 1), Batch(4, 3, 0, 1), Batch(0, 3, 1, 1), Batch(0, 3, 9, 1), Batch(0, 3, 0, -1)]
)
def test_a_range_that_makes_no_sense_is_refused(batch: Batch) -> None:
    with pytest.raises(KafkaError) as refused:
        check_batches([batch])
    assert refused.value.code is ErrorCode.invalid_request
