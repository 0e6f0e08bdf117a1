"""What the simulator's speed is measured on does what it says."""

from __future__ import annotations

import pytest

from tierfetch.bench.simulation import CASES, run_steady
from tierfetch.sim.costs import Costs


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_steady_cluster_does_the_same_each_time_and_rests_when_idle(case: str) -> None:
    first = run_steady(1, CASES[case], virtual_s=5.0)
    again = run_steady(1, CASES[case], virtual_s=5.0, sampling=Costs())
    assert (first.events, first.virtual_s) == (again.events, again.virtual_s)
    assert first.events > 5 * 100
    assert (first.events < 5 * 300) == (not CASES[case].produces)
