"""The index of one epoch's segments against a plain list of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tierfetch.remote.core import RemoteLogSegmentMetadata
from tierfetch.remote.core.epoch_index import EpochSegments

from .builders import segment

LAST_OFFSET = 12
Range = tuple[int, int, RemoteLogSegmentMetadata]
Ranges = st.tuples(st.integers(0, LAST_OFFSET), st.integers(0, LAST_OFFSET)).map(sorted)


def last_reached(ranges: list[Range], offset: int) -> int | None:
    return max((last for first, last, _ in ranges if first <= offset <= last), default=None)


@given(added=st.lists(Ranges, max_size=14), removed=st.lists(st.integers(0, 13), max_size=20), data=st.data())
def test_the_segment_that_reaches_farthest_is_found_whatever_was_added_and_removed(
    added: list[list[int]], removed: list[int], data: st.DataObject
) -> None:
    index, model = EpochSegments(), list[Range]()
    takings = iter(removed)
    for number, (first, last) in enumerate(added):
        entry = (first, last, segment(number, first, last))
        index.add(*entry)
        model.append(entry)
        if data.draw(st.booleans()) and (taken := next(takings, None)) is not None:
            index.remove(*model.pop(taken % len(model)))
        for offset in range(LAST_OFFSET + 1):
            found = index.find(offset)
            assert (found.end_offset if found else None) == last_reached(model, offset), (offset, model)
    while model:
        index.remove(*model.pop(data.draw(st.integers(0, len(model) - 1))))
        for offset in range(LAST_OFFSET + 1):
            found = index.find(offset)
            assert (found.end_offset if found else None) == last_reached(model, offset), (offset, model)
            assert found is None or any(entry[2] is found for entry in model), "a removed segment is never found"
    assert not index
