"""The runs of alike offsets, against a dict of every offset."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tierfetch.broker.share.core.runs import Lot, RecordState, Run, Runs

LOTS = [Lot(RecordState.AVAILABLE), Lot(RecordState.ACQUIRED, 1, "m", 5), Lot(RecordState.ARCHIVED)]
LOT = st.sampled_from(LOTS)
OFFSET = st.integers(0, 30)


def checked(runs: Runs) -> dict[int, Lot]:
    """Return each offset's lot, once the runs are found to be as they must."""
    held = list(runs)
    edges = [runs.start, *(run.last + 1 for run in held)]
    assert [run.first for run in held] == edges[:-1]
    assert edges[-1] == runs.end
    assert all(run.first <= run.last for run in held)
    assert all(before.lot != after.lot for before, after in pairwise(held)), "alike, and not one"
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


def test_a_run_knows_its_size() -> None:
    assert Run(3, 7, LOTS[0]).size == 5
