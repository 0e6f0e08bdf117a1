"""The epoch history against a naive model, and row by row as Kafka behaves (KIP-101, KIP-279)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.log.core import EpochEnd, EpochEntry, LeaderEpochCache


def cache(*entries: tuple[int, int]) -> LeaderEpochCache:
    return LeaderEpochCache(EpochEntry(epoch, start) for epoch, start in entries)


def pairs(history: LeaderEpochCache | tuple[EpochEntry, ...]) -> list[tuple[int, int]]:
    entries = history.entries if isinstance(history, LeaderEpochCache) else history
    return [(entry.epoch, entry.start_offset) for entry in entries]


@pytest.mark.parametrize(
    ("epoch", "start", "expected"),
    [
        (5, 30, [(1, 0), (3, 10), (5, 20)]),  # the same epoch again keeps its first offset
        (5, 20, [(1, 0), (3, 10), (5, 20)]),
        (5, 15, [(1, 0), (3, 10), (5, 15)]),
        (5, 10, [(1, 0), (5, 10)]),
        (6, 25, [(1, 0), (3, 10), (5, 20), (6, 25)]),
        (6, 20, [(1, 0), (3, 10), (6, 20)]),  # epoch 5's leader wrote nothing
        (6, 5, [(1, 0), (6, 5)]),
        (6, 0, [(6, 0)]),
        (3, 25, [(1, 0), (3, 25)]),  # an older leader's data in the place of what followed it
        (2, 12, [(1, 0), (2, 12)]),
        (0, 0, [(0, 0)]),
    ],
)
def test_E1_assign_drops_what_conflicts(epoch, start, expected):
    history = cache((1, 0), (3, 10), (5, 20))
    before = history.version
    changed = history.assign(epoch, start)
    assert pairs(history) == expected
    assert changed == (expected != [(1, 0), (3, 10), (5, 20)])
    assert history.version == before + changed


def test_E1_an_empty_history_knows_nothing():
    history = cache()
    assert history.latest_epoch == -1
    assert history.latest_entry is None
    assert history.earliest_entry is None
    assert history.epoch_for_offset(0) is None
    assert {history.end_offset_for(epoch, 10) for epoch in (-(2**31), -2, -1, 0)} == {EpochEnd(-1, -1)}
    history.truncate_from_end(0)
    history.truncate_from_start(5)
    history.clear()
    assert history.version == 0


@pytest.mark.parametrize(("epoch", "start"), [(-1, 0), (0, -1)])
def test_undefined_epochs_and_offsets_are_never_recorded(epoch, start):
    with pytest.raises(AssertionError, match="-1"):
        cache().assign(epoch, start)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (-2, (-2, 5)),
        (-1, (-1, -1)),
        (0, (0, 5)),  # below all: the asked epoch, the first start
        (1, (1, 5)),
        (2, (2, 10)),
        (3, (2, 10)),  # a gap: the largest epoch below
        (4, (4, 20)),
        (7, (7, 100)),  # the latest ends at the log end
        (8, (-1, -1)),  # above all
    ],
)
def test_E2_end_offset_of_the_largest_epoch_at_or_below(asked, expected):
    assert cache((2, 5), (4, 10), (7, 20)).end_offset_for(asked, 100) == EpochEnd(*expected)


@pytest.mark.parametrize(
    ("end", "expected"),
    [(21, [(2, 5), (4, 10), (7, 20)]), (20, [(2, 5), (4, 10)]), (11, [(2, 5), (4, 10)]), (5, []), (0, [])],
)
def test_E1_truncation_of_the_log_drops_epochs_that_began_above(end, expected):
    history = cache((2, 5), (4, 10), (7, 20))
    history.truncate_from_end(end)
    assert pairs(history) == expected
    assert history.version == (len(expected) < 3)


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (3, [(2, 5), (4, 10), (7, 20)]),
        (5, [(2, 5), (4, 10), (7, 20)]),
        (7, [(2, 7), (4, 10), (7, 20)]),
        (10, [(4, 10), (7, 20)]),
        (300, [(7, 300)]),
    ],
)
def test_E1_moving_the_start_keeps_the_entry_that_covers_it(start, expected):
    history = cache((2, 5), (4, 10), (7, 20))
    history.truncate_from_start(start)
    assert pairs(history) == expected


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 100, [(2, 5), (4, 10), (7, 20)]),
        (6, 20, [(2, 6), (4, 10)]),
        (6, 8, [(2, 6)]),
        (8, 8, []),
        (25, 30, [(7, 25)]),
        (0, 5, []),
    ],
)
def test_range_is_the_history_of_those_offsets_alone(start, end, expected):
    history = cache((2, 5), (4, 10), (7, 20))
    assert pairs(history.range(start, end)) == expected
    assert pairs(history) == [(2, 5), (4, 10), (7, 20)]


def test_previous_epoch():
    history = cache((2, 5), (4, 10))
    assert [history.previous_epoch(epoch) for epoch in (2, 3, 4, 9)] == [None, 2, 2, 4]


def test_a_checkpoint_with_conflicting_lines_loads_as_its_last_lines_say():
    history = cache((1, 0), (2, 10), (3, 10), (5, 8))
    assert pairs(history) == [(1, 0), (5, 8)]
    assert history.version == 0


LogRun = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=12)


@given(runs=LogRun, cut=st.integers(0, 50), start=st.integers(0, 50), asked=st.integers(-3, 40))
def test_E2_agrees_with_a_list_of_offsets_and_epochs(runs, cut, start, asked):
    """`runs` is a log as a leader writes it: (epoch step, records); the model holds one epoch for each offset."""
    history, model, epoch = cache(), [], 0
    for step, count in runs:
        epoch += step
        for _ in range(count):
            history.assign(epoch, len(model))
            model.append(epoch)
    history.truncate_from_end(cut)
    del model[cut:]
    history.truncate_from_start(min(start, len(model)))
    first = min(start, len(model))
    for offset in range(first, len(model)):
        assert history.epoch_for_offset(offset) == model[offset]
    known = sorted(set(model[first:]))
    if known:
        at_or_below = [each for each in known if each <= asked]
        if asked in (-1, *range(known[-1] + 1, 41)):
            expected = EpochEnd(-1, -1)
        elif at_or_below:
            epoch_end = max(at for at in range(first, len(model)) if model[at] <= asked) + 1
            expected = EpochEnd(at_or_below[-1], epoch_end)
        else:
            expected = EpochEnd(asked, first)
        assert history.end_offset_for(asked, len(model)) == expected


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30)), max_size=20))
def test_E1_epochs_and_starts_increase_strictly_whatever_is_assigned(assignments):
    history = cache()
    for epoch, start in assignments:
        before = pairs(history)
        if history.assign(epoch, start):
            assert pairs(history) == [(old, offset) for old, offset in before if old < epoch and offset < start] + [
                (epoch, start)
            ]
        entries = pairs(history)
        assert all(low[0] < high[0] and low[1] < high[1] for low, high in pairwise(entries))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30)), max_size=20))
def test_a_checkpoint_loads_as_its_lines_are_assigned(lines):
    history = cache()
    for epoch, start in lines:
        history.assign(epoch, start)
    assert cache(*lines).entries == history.entries


def test_a_long_checkpoint_loads_at_once_and_is_shown_by_its_ends():
    """With a copy of what came before for each line, this takes longer than the test may."""
    history = LeaderEpochCache(EpochEntry(epoch, 2 * epoch) for epoch in range(300_000))
    assert history.end_offset_for(7, 600_000) == EpochEnd(7, 16)
    assert repr(history).startswith("LeaderEpochCache(0@0 1@2 ")
    assert repr(history).endswith(" 15@30 and 299984 more up to 299999@599998)")


def test_older_entries_go_in_front_and_change_nothing_that_is_there():
    history = cache((4, 10), (6, 20))
    history.prepend([EpochEntry(0, 0), EpochEntry(3, 7), EpochEntry(4, 8), EpochEntry(5, 10), EpochEntry(2, 12)])
    assert pairs(history) == [(0, 0), (3, 7), (4, 10), (6, 20)]
    version = history.version
    history.prepend([EpochEntry(4, 10), EpochEntry(7, 30)])
    assert (pairs(history), history.version) == ([(0, 0), (3, 7), (4, 10), (6, 20)], version)
    empty = cache()
    empty.prepend(history.entries)
    assert empty.entries == history.entries
