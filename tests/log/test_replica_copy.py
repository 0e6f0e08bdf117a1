"""How a future log follows the log that it will replace"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.log.core import EpochEntry, LeaderEpochCache, Restart
from tierfetch.log.core.replica_copy import (
    CaughtUp,
    Copied,
    CopyFrom,
    FollowLogStart,
    Step,
    TrimTo,
    TruncateTo,
    agreed_end,
    epoch_span,
    next_step,
)


def copied(
    start: int, end: int, *epochs: tuple[int, int], log_start: int | None = None, roll: int | None = None
) -> Copied:
    cache = LeaderEpochCache(EpochEntry(*entry) for entry in epochs)
    return Copied(start if log_start is None else log_start, start, end, cache, roll)


CURRENT = copied(10, 100, (3, 10), (5, 60))


@pytest.mark.parametrize(
    ("current", "future", "step"),
    [
        (CURRENT, copied(10, 100, (3, 10), (5, 60)), CaughtUp()),
        (CURRENT, copied(10, 70, (3, 10), (5, 60)), CopyFrom(70)),
        (CURRENT, copied(0, 9, (3, 0)), Restart()),
        (CURRENT, copied(10, 80, (3, 10), (4, 50)), TruncateTo(50)),
        (CURRENT, copied(10, 80, (3, 10)), TruncateTo(60)),
        (CURRENT, copied(10, 110, (3, 10), (5, 60)), TruncateTo(100)),
        (CURRENT, copied(10, 80, (2, 10)), Restart()),
        (CURRENT, copied(5, 80, (3, 5), (5, 60)), FollowLogStart(10)),
        (CURRENT, copied(10, 80, (3, 10), (5, 60), roll=10), TrimTo(10)),
        (CURRENT, copied(10, 80, (3, 10), (5, 60), roll=11), CopyFrom(80)),
        (CURRENT, copied(40, 100, (3, 40), (5, 60), log_start=10), Restart()),
        (copied(10, 10), copied(0, 0), Restart()),
        (copied(10, 10), copied(10, 10), CaughtUp()),
        (copied(10, 10, (7, 10)), copied(10, 10), CaughtUp()),
        (copied(50, 50), copied(0, 80, (3, 0)), TruncateTo(50)),
    ],
)
def test_D4_what_the_future_log_needs_next(current: Copied, future: Copied, step: Step) -> None:
    assert next_step(current, future) == step


def test_D4_an_epoch_without_batches_is_compared_where_the_next_one_begins() -> None:
    current = copied(0, 100, (1, 0), (2, 40), (3, 40))
    assert agreed_end(current, copied(0, 50, (1, 0), (3, 40))) == 50


def test_D4_the_epoch_of_the_next_batches_and_where_it_ends() -> None:
    epochs = CURRENT.epochs
    assert epoch_span(epochs, 10, 100) == (EpochEntry(3, 10), 60)
    assert epoch_span(epochs, 60, 100) == (EpochEntry(5, 60), 100)
    assert epoch_span(epochs, 5, 100) == (None, 10)
    assert epoch_span(epochs, 20, 30) == (EpochEntry(3, 10), 30)


histories = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 30)), max_size=5)


@given(st.integers(0, 10), st.integers(0, 20), histories, st.integers(0, 10), st.integers(0, 20), histories)
def test_D4_below_the_agreed_end_every_offset_has_the_same_epoch_and_at_it_it_has_not(
    start: int,
    size: int,
    epochs: list[tuple[int, int]],
    other_start: int,
    other_size: int,
    others: list[tuple[int, int]],
) -> None:
    current, future = copied(start, start + size, *epochs), copied(other_start, other_start + other_size, *others)
    end = agreed_end(current, future)
    common = range(max(start, other_start), min(current.log_end_offset, future.log_end_offset))
    differs = [o for o in common if current.epochs.epoch_for_offset(o) != future.epochs.epoch_for_offset(o)]
    assert end == (differs[0] if differs else min(current.log_end_offset, future.log_end_offset))
