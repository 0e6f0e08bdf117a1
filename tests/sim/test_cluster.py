"""The cluster scenario looks at files and ledgers only when the cluster is at rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.sim.faults.schedule import Schedule
from tierfetch.sim.machine.world import World
from tierfetch.sim.scenarios.administrator import Administrator
from tierfetch.sim.scenarios.cluster import ClusterScenario
from tierfetch.sim.scenarios.cluster_options import ClusterOptions


@pytest.mark.slow
def test_a_leader_that_has_yet_to_read_the_remote_log_metadata_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been elected while the judge read, or was idle."""
    forgotten: list[int] = []

    def filled(_: Administrator) -> list[TopicIdPartition]:
        """Just before the files are looked at: every broker has to read all of it again."""
        for node_id, broker in run.nodes.brokers().items():
            tier: Any = None if broker is None else broker.tier
            for reader in tier.manager._metadata._readers.values():
                reader._begin_again()
                forgotten.append(node_id)
        return []

    monkeypatch.setattr(Administrator, "filled", property(filled))
    with World(3) as world:
        drawn = ClusterOptions.drawn(world.rng)
        options = replace(drawn, local_retention_ms=500, segment_bytes=3000, replication_factor=3)
        run = ClusterScenario(world, Schedule(4_000, ()), options)
        run.run()
        assert run.findings() == []
        assert set(forgotten) == {1, 2, 3}
