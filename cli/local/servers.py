"""Processes on loopback that are broker and controller at once (`tierfetch server`), voters of one quorum."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ...quorum import parse_controller_config
from ..format import format_order, run_format
from .cluster import LocalCluster, TierSettings
from .processes import free_ports
from .quorum import LoopbackControllers
from .security import LocalSecurity


class LocalServers(LocalCluster, LoopbackControllers):
    """`with LocalServers(base, (1, 2, 3)) as cluster:` has them serving, as brokers and as controllers."""

    kind = "server"

    def __init__(
        self,
        base: Path,
        node_ids: Iterable[int] = (1,),
        *,
        tier: TierSettings | None = None,
        configs: Mapping[str, str] | None = None,
        ports: Sequence[int] | None = None,
        controller_ports: Sequence[int] | None = None,
        metrics_ports: Sequence[int] | None = None,
        security: LocalSecurity | None = None,
    ) -> None:
        nodes = tuple(node_ids)
        self.controller_ports = dict(zip(nodes, controller_ports or free_ports(len(nodes)), strict=True))
        controllers = self.bootstrap_controllers
        super().__init__(
            base,
            nodes,
            tier=tier,
            configs=configs,
            controllers=controllers,
            ports=ports,
            metrics_ports=metrics_ports,
            security=security,
        )

    def prepare(self, node: int) -> None:
        config, _ = parse_controller_config(self.properties(node), str(self.base))
        order = format_order(config, self.cluster_id, standalone=False, initial=None, without=False)
        if self.security is not None:
            order = order.with_records(self.security.first_records())
        asyncio.run(run_format(order, ignore_formatted=True))

    def properties(self, node: int) -> dict[str, str]:
        properties = super().properties(node)
        return properties | {
            "process.roles": "broker,controller",
            "listeners": f"{properties['listeners']},CONTROLLER://{self.host(node)}:{self.controller_ports[node]}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": self.voters,
            "controlled.shutdown.timeout.ms": "5000",  # the last to stop find no majority of controllers
        }
