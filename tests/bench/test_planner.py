"""Plans of the benchmark's own clusters are near the bound, each of them: `python -m bench planner`."""

from __future__ import annotations

import pytest

from tierfetch.bench.planner import PARTITIONS, cases, made_up
from tierfetch.planning import plan_replicas

NEAR = 1.035


@pytest.mark.slow
@pytest.mark.parametrize("case", cases())
def test_S2_a_plan_copies_hardly_more_than_any_plan_needs(case: str) -> None:
    brokers, empty, goal = cases()[case]
    found = plan_replicas(made_up(PARTITIONS, brokers, empty), goal).bound
    assert found.bytes <= NEAR * found.bytes_min
    assert found.moves <= NEAR * found.moves_min
