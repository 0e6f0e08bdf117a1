"""Which broker counts as running."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

from tierfetch.sim.machine.process import Process
from tierfetch.sim.scenarios.cluster_nodes import ClusterNodes
from tierfetch.sim.scenarios.cluster_options import PORT


async def test_a_broker_that_has_closed_its_listener_runs_no_more() -> None:
    """It may wait for its disk for a while yet; whoever asks it is refused."""
    host, listeners = SimpleNamespace(is_up=True, start=AsyncMock()), {("broker-1", PORT): object()}
    world: Any = SimpleNamespace(host=lambda _: host, now_s=3.0, network=SimpleNamespace(listeners=listeners))
    options: Any = SimpleNamespace(controllers={}, broker_config=lambda _: None, changing_voters=False)
    nodes = ClusterNodes(world, options, lambda _: AsyncMock(), lambda _: None)
    await nodes.start("broker-1")
    assert nodes.up_since_s("broker-1") == 3.0
    listeners.clear()
    assert nodes.up_since_s("broker-1") is None


async def test_a_broker_is_looked_at_from_when_it_hosts_partitions() -> None:
    """It leads and serves while its start still waits to hear that it is unfenced."""
    process, at_start = Process("broker-1", 1), list[Any]()
    broker: Any = SimpleNamespace()

    async def start(_: Any) -> None:
        at_start.append(nodes.broker_of(process))
        nodes._hosts("broker-1")(broker)

    world: Any = SimpleNamespace(host=lambda _: SimpleNamespace(process=process, start=start), now_s=3.0)
    options: Any = SimpleNamespace(controllers={}, broker_config=lambda _: None, changing_voters=False)
    nodes = ClusterNodes(world, options, lambda _: AsyncMock(), lambda _: None)
    await nodes.start("broker-1")
    assert at_start == [None]
    assert nodes.broker_of(process) is broker
    assert nodes.broker_of(Process("broker-1", 2)) is None
