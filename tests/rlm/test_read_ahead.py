"""How long a run is, and when the next one is asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.rlm.core.read_ahead import GOOD_RUNS, RESERVED_CHUNKS, RUN_CHUNKS_MAX, RunLimit, next_run, run_chunks


@pytest.mark.parametrize(
    ("read_bytes", "chunks_max", "expected"),
    [(0, 4, 1), (19, 4, 1), (20, 4, 2), (39, 4, 2), (40, 4, 4), (10**9, 4, 4), (10**9, 3, 2), (10**9, 1, 1)],
)
def test_a_run_is_as_long_as_what_was_read_in_sequence(read_bytes: int, chunks_max: int, expected: int) -> None:
    assert run_chunks(read_bytes, 10, chunks_max) == expected


@pytest.mark.parametrize(
    ("there", "run", "room", "expected"),
    [
        (0, 1, 9, 1),
        (1, 1, 9, 1),
        (2, 1, 9, 0),
        (4, 4, 9, 4),
        (5, 4, 9, 0),
        (3, 4, 5, 0),
        (2, 4, 5, 2),
        (0, 4, 3, 1),
        (0, 4, 2, 1),
        (1, 4, 2, 0),
        (0, 4, 1, 1),
        (0, 1, 0, 0),
    ],
)
def test_two_runs_are_ahead_as_far_as_there_is_room(there: int, run: int, room: int, expected: int) -> None:
    assert next_run(there, run, room, 2) == expected


def test_nothing_is_ahead_where_nothing_shall_be() -> None:
    assert {next_run(there, 4, room, 0) for there in range(3) for room in (-1, 0, 9)} == {0}


@given(st.lists(st.integers(1, 25), max_size=60), st.integers(1, 40))
def test_what_one_that_stops_has_fetched_for_nothing_is_bounded_by_what_it_has_read(
    reads: list[int], memory: int
) -> None:
    """In tenths of a chunk; the store is quick, and asked after each read."""
    position = asked = 0
    for size in reads:
        position += size
        needed = -(-position // 10)
        asked = max(asked, needed)
        run = run_chunks(position, 10, RUN_CHUNKS_MAX)
        while count := next_run(asked - needed, run, memory - (asked - needed), 2):
            asked += count
        ahead = asked - needed
        assert ahead >= 1, "what follows is on its way"
        assert ahead <= max(2, 2 * position // 10)
        assert ahead <= 2 * RUN_CHUNKS_MAX
        assert ahead <= max(1, memory - RESERVED_CHUNKS)


def test_a_run_that_broke_off_is_followed_by_single_chunks_and_longer_ones_again() -> None:
    limit = RunLimit(4)
    limit.ended()
    assert limit.chunks == 4
    limit.failed()
    seen = []
    for _ in range(3 * GOOD_RUNS):
        seen.append(limit.chunks)
        limit.ended()
    assert seen == [1] * GOOD_RUNS + [2] * GOOD_RUNS + [4] * GOOD_RUNS
    limit.failed()
    for _ in range(GOOD_RUNS - 1):
        limit.ended()
    limit.failed()
    limit.ended()
    assert limit.chunks == 1, "counted again from the last that broke off"
