"""The runs of alike offsets, against a dict of every offset."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tierfetch.broker.share.core.runs import DEADLINES_KEPT, Change, Lot, RecordState, Run, Runs

LOTS = [
    Lot(RecordState.AVAILABLE),
    Lot(RecordState.ACQUIRED, 1, "m", 5),
    Lot(RecordState.ACQUIRED, 1, "m", 7),
    Lot(RecordState.ACQUIRED, 1, "m", 5, Change(1, RecordState.ARCHIVED, 1)),
    Lot(RecordState.ARCHIVED),
]
LOT = st.sampled_from(LOTS)
OFFSET = st.integers(0, 30)


def check_sums(runs: Runs) -> None:
    """What is kept is what the runs add up to."""
    held, sums = list(runs), runs.sums
    unfinished = [run for run in held if not run.lot.is_finished]
    assert (sums.unfinished, sums.unfinished_runs) == (sum(run.size for run in unfinished), len(unfinished))
    assert sums.completed == sum(run.size for run in held if run.lot.will_be_finished)
    assert sums.available_runs == sum(run.lot.is_available for run in held)
    assert sums.busy_runs == sum(run.lot.state is RecordState.ACQUIRED or run.lot.change is not None for run in held)
    assert sums.next_deadline_ms() == min((run.lot.deadline_ms for run in held if run.lot.is_locked), default=None)


def checked(runs: Runs) -> dict[int, Lot]:
    """Return each offset's lot, once the runs are found to be as they must."""
    held = list(runs)
    edges = [runs.start, *(run.last + 1 for run in held)]
    assert [run.first for run in held] == edges[:-1]
    assert edges[-1] == runs.end
    assert all(run.first <= run.last for run in held)
    assert all(before.lot != after.lot for before, after in pairwise(held)), "alike, and not one"
    check_sums(runs)
    return {offset: run.lot for run in held for offset in range(run.first, run.last + 1)}


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("append"), OFFSET, OFFSET, LOT),
            st.tuples(st.just("replace"), OFFSET, OFFSET, LOT),
            st.tuples(st.just("drop"), OFFSET, OFFSET, LOT),
        ),
        max_size=30,
    )
)
def test_runs_are_what_a_dict_of_offsets_is(steps: list[tuple[str, int, int, Lot]]) -> None:
    runs, model, start = Runs(3), dict[int, Lot](), 3
    for step, first, last, lot in steps:
        if step == "append":
            model |= {offset: lot for offset in range(max(model, default=start - 1) + 1, last + 1)}
            runs.append(last, lot)
        elif step == "replace":
            model |= {offset: lot for offset in model if first <= offset <= last}
            runs.replace(first, last, lambda _, lot=lot: lot)  # type: ignore[misc]
        else:
            start = max(start, first)
            model = {offset: lot for offset, lot in model.items() if offset >= start}
            runs.drop_below(first)
        assert checked(runs) == model
        assert runs.start == start
        cut = {offset: run.lot for run in runs.within(first, last) for offset in range(run.first, run.last + 1)}
        assert cut == {offset: lot for offset, lot in model.items() if first <= offset <= last}


def test_deadlines_that_are_over_are_not_kept() -> None:
    runs = Runs(0)
    runs.append(0, LOTS[1])
    for deadline_ms in range(1_000):
        runs.replace(0, 0, lambda lot, ms=deadline_ms: lot._replace(deadline_ms=1_000 - ms))  # type: ignore[misc]
        assert runs.sums.next_deadline_ms() == 1_000 - deadline_ms
        assert len(runs.sums._heap) <= 2 + DEADLINES_KEPT


def test_a_run_knows_its_size() -> None:
    assert Run(3, 7, LOTS[0]).size == 5
