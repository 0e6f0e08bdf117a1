"""What operators do to single nodes: restart one, or all brokers in turn, or those whose disk is well again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from ..faults.injector import FaultInjector
from ..faults.schedule import DIRECTORY_KINDS, HARDWARE_KINDS
from ..judges.core.events import NodeStopped
from ..judges.core.truth import ClusterTruth
from ..machine.world import World
from .cluster_nodes import ClusterNodes
from .cluster_options import BROKERS

CHECK_S: Final = 0.25
ROLL_CHECKS: Final = 24
"""How often it is looked whether a broker that was restarted serves, before the next one is restarted all the same."""
TEND_S: Final = 1.0
OF_DISKS: Final = DIRECTORY_KINDS | HARDWARE_KINDS


class Upkeep:
    """Restarts nodes; their keepers start them again, as long as there are some."""

    def __init__(
        self,
        world: World,
        nodes: ClusterNodes,
        injector: FaultInjector,
        truth: ClusterTruth,
        publish: Callable[[NodeStopped], None],
    ) -> None:
        self._world = world
        self._nodes = nodes
        self._injector = injector
        self._truth = truth
        self._publish = publish

    async def restart(self, name: str) -> None:
        """Have a node shut down in order. One that stops already took longer than is known here: who asked first says
        how long (seed 1040).
        """
        host, began_s = self._world.host(name), self._world.now_s
        is_first = not host.is_stopping
        if host.node is not None and await host.stop() and is_first:
            self._publish(NodeStopped(name, self._world.now_s - began_s))

    async def move(self, name: str) -> None:
        """Restart a controller, at another port."""
        if self._world.host(name).node is not None:
            self._nodes.listen_elsewhere(name)
            await self.restart(name)

    async def roll(self, rng: Random) -> None:
        """Restart the brokers one after the other, each once the one before it serves, or does not for a while."""
        for name in rng.sample(list(BROKERS), len(BROKERS)):
            await self.restart(name)
            for _ in range(ROLL_CHECKS):
                await asyncio.sleep(CHECK_S)
                broker = self._truth.image.brokers.get(BROKERS[name])
                if self._world.host(name).node is not None and broker is not None and not broker.fenced:
                    break

    async def renew(self, name: str) -> None:
        """Restart a node, and return once it is up again."""
        await self.restart(name)
        await self._nodes.start(name)

    async def renew_brokers(self) -> None:
        """Restart the brokers that are no controllers, one after the other."""
        for name in BROKERS:
            if name not in self._nodes.controller_ids:
                await self.renew(name)

    async def tend_disks(self) -> None:
        """Restart, as an operator does, each broker with a log directory that is offline though its disk is well."""
        hosts = {node_id: name for name, node_id in BROKERS.items()}
        while True:
            await asyncio.sleep(TEND_S)
            for node_id, broker in self._nodes.brokers().items():
                host = hosts[node_id]
                is_ill = any(fault.kind in OF_DISKS and host in fault.targets for fault in self._injector.active)
                if broker is None or is_ill or self._world.host(host).is_paused:
                    continue
                if any(directory.offline is not None for directory in broker.logs.directories):
                    await self.restart(host)
