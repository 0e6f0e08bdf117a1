"""A cluster of real broker processes on loopback: for the demo, benchmarks, tests and `tierfetch cluster up`.

Under controllers that run elsewhere (`quorum`), or under one of its own, which notices soon that a broker is
gone.

Everything lives below one base directory. Brokers are children of this process, stopped by `stop`, `kill` or the end of
the `with` block; `wipe` removes what a stopped broker kept, so that its next start is a replacement.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Final, Self

from ...light_dataclass import dataclass
from ...protocol import metadata_of
from ...protocol.net import Address
from ..command_config import make_client
from .nodes import LOOPBACK, START_TIMEOUT_S, LocalNodes, NodeFailedError
from .processes import free_ports
from .quorum import LocalQuorum
from .security import LocalSecurity

CONTROLLER_ID: Final = 100
SESSION: Final = {"broker.session.timeout.ms": "3000"}
HEARTBEATS: Final = {"broker.heartbeat.interval.ms": "500"}


class BrokerFailedError(NodeFailedError):
    """A broker process ended or did not come up; the message has the end of its log."""


@dataclass(frozen=True, slots=True)
class TierSettings:
    """Storage plugin of every broker, by entry point, and its `rsm.config.*`."""

    plugin: str
    options: Mapping[str, str] = field(repr=False)


class LocalCluster(LocalNodes):
    """`with LocalCluster(base) as cluster:` has its brokers serving."""

    kind = "broker"
    failure = BrokerFailedError

    def __init__(
        self,
        base: Path,
        broker_ids: Iterable[int] = (1, 2),
        *,
        tier: TierSettings | None = None,
        configs: Mapping[str, str] | None = None,
        controllers: str | None = None,
        controller_configs: Mapping[str, str] = SESSION,
        ports: Sequence[int] | None = None,
        metrics_ports: Sequence[int] | None = None,
        security: LocalSecurity | None = None,
    ) -> None:
        """`controllers`: HOST:PORT of each, separated by commas; None: one of its own, with `controller_configs`."""
        brokers = tuple(broker_ids)
        free = free_ports(3 * len(brokers) + 1)
        super().__init__(base, brokers, ports or free[: len(brokers)], security)
        self.quorum: LocalQuorum | None = None
        if controllers is None:
            self.quorum = LocalQuorum(
                base, 1, configs=controller_configs, first_id=CONTROLLER_ID, ports=free[-1:], security=security
            )
        self._controllers = controllers or f"{LOOPBACK}:{free[-1]}"
        self.tier = tier
        self.configs = dict(configs or {})
        self.broker_configs: dict[int, dict[str, str]] = {}
        self._metrics_ports = dict(zip(brokers, metrics_ports or free[len(brokers) : 2 * len(brokers)], strict=True))
        self._brokers_ports = dict(zip(brokers, free[2 * len(brokers) : -1], strict=True))

    def __enter__(self) -> Self:
        if self.quorum is not None:
            self.quorum.__enter__()
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        if self.quorum is not None:
            self.quorum.__exit__()

    @property
    def broker_ids(self) -> tuple[int, ...]:
        return self.nodes

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{self.host(broker)}:{self.port(broker)}" for broker in self.broker_ids)

    def metrics_url(self, broker: int) -> str:
        return f"http://{self.host(broker)}:{self._metrics_ports[broker]}/metrics"

    def properties(self, node: int) -> dict[str, str]:
        properties = {
            "node.id": str(node),
            "process.roles": "broker",
            "listeners": f"PLAINTEXT://{self.host(node)}:{self.port(node)}",
            "log.dirs": str(self.data_directory(node)),
            "controller.quorum.bootstrap.servers": self._controllers,
            "metrics.host": self.host(node),
            "metrics.port": str(self._metrics_ports[node]),
            "offsets.topic.num.partitions": "5",
            "offsets.topic.replication.factor": str(min(3, len(self.broker_ids))),
            "transaction.state.log.num.partitions": "5",
            "transaction.state.log.replication.factor": str(min(3, len(self.broker_ids))),
            "transaction.state.log.min.isr": str(min(2, len(self.broker_ids))),
            "share.coordinator.state.topic.num.partitions": "5",
            "share.coordinator.state.topic.replication.factor": str(min(3, len(self.broker_ids))),
            "share.coordinator.state.topic.min.isr": str(min(2, len(self.broker_ids))),
            "group.initial.rebalance.delay.ms": "0",
        }
        if self.quorum is not None:
            properties |= HEARTBEATS
        if self.tier is not None:
            replication = str(min(2, len(self.broker_ids)))
            properties |= {
                "remote.log.storage.system.enable": "true",
                "remote.log.storage.manager.plugin": self.tier.plugin,
                "remote.log.manager.task.interval.ms": "1000",
                "rlmm.config.remote.log.metadata.topic.replication.factor": replication,
                "rlmm.config.remote.log.metadata.topic.num.partitions": "5",
                "rlmm.config.remote.log.metadata.topic.min.isr": "1",
            }
            properties |= {f"rsm.config.{name}": value for name, value in self.tier.options.items()}
        if self.security is not None:
            properties |= self.security.of_broker(node, self.port(node), self._brokers_ports[node])
        return properties | self.configs | self.broker_configs.get(node, {})

    def wait_serving(self, node: int) -> None:
        """Until the cluster counts on the broker: one that was just started is fenced, and no client finds it."""
        super().wait_serving(node)
        for _ in self._until(node, "to be unfenced"):
            with contextlib.suppress(OSError):
                if asyncio.run(self._knows_itself(node)):
                    return

    async def _knows_itself(self, node: int) -> bool:
        client = make_client("local-cluster", None if self.security is None else self.security.client())
        address = Address(self.host(node), self.port(node))
        try:
            answer = await client.send(address, metadata_of(()), timeout_s=START_TIMEOUT_S)
        finally:
            await client.close()
        return any(broker.node_id == node for broker in answer.brokers)

    def wipe(self, broker: int) -> None:
        """Remove everything a stopped broker kept."""
        assert broker not in self._processes, f"broker {broker} runs"
        shutil.rmtree(self.data_directory(broker))
