"""Plans are the same on all machines: nothing is left to how a processor sorts equals."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.planning.choice import lowest
from tierfetch.tests.distribution import ROOT

UNSTABLE = re.compile(r"\bargpartition\(|\bargsort\((?!.*(?:kind=\"stable\"|# no two are equal))")


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(0, 70))
def test_no_place_is_left_that_is_lower_than_a_chosen_one(values: list[int], count: int) -> None:
    found = lowest(np.array(values, dtype=float), count).tolist()
    assert found == sorted(set(found))
    assert sorted(values[place] for place in found) == sorted(values)[:count]


def test_no_order_of_equals_is_left_to_the_processor() -> None:
    lines = {(path.name, line.strip()) for path in (ROOT / "planning").glob("*.py") for line in path.open()}
    assert [found for found in sorted(lines) if UNSTABLE.search(found[1])] == []
