"""What the simulator's speed is measured on does what it says."""

from __future__ import annotations

import pytest

from tierfetch.bench.simulation import BROKERS, CASES, CONTROLLERS, Load, run_steady
from tierfetch.sim.judges.core.partition import PartitionJudge, ReplicaStatus
from tierfetch.sim.machine.costs import Costs


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_steady_cluster_does_the_same_each_time_and_rests_when_idle(case: str) -> None:
    first = run_steady(1, CASES[case], virtual_s=5.0)
    again = run_steady(1, CASES[case], virtual_s=5.0, sampling=Costs())
    assert (first.events, first.virtual_s) == (again.events, again.virtual_s)
    assert first.events > 5 * 100
    assert (first.events < 5 * 300) == (not CASES[case].produces)


def test_every_replica_is_judged_while_it_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[int, int] = {}
    original = PartitionJudge.observe

    def observe(self: PartitionJudge, now: ReplicaStatus) -> None:
        seen[now.node_id] = max(now.high_watermark, seen.get(now.node_id, 0))
        original(self, now)

    monkeypatch.setattr(PartitionJudge, "observe", observe)
    run_steady(1, Load(produces=True), virtual_s=1.0)
    assert seen.keys() == {*CONTROLLERS.values(), *BROKERS.values()}
    assert all(high_watermark > 0 for high_watermark in seen.values())
