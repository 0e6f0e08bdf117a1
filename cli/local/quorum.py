"""Real controller processes on loopback that make one quorum: for benchmarks and tests.

`with LocalQuorum(base) as quorum:` has them formatted and running; they are children of this process, ended by `stop`,
`kill`, or the end of the block.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from ...log.core import META_PROPERTIES, decode_meta_properties
from ...protocol.net import Address
from ...quorum import load_controller_config
from ..format import format_order, run_format
from ..quorum.admin import QuorumAdmin
from ..quorum.report import status
from ..random_uuid import new_id
from .nodes import TIERFETCH, LocalNodes, NodeFailedError
from .processes import captured, free_ports
from .security import LocalSecurity

COMMAND_TIMEOUT_S: Final = 30.0


class ControllerFailedError(NodeFailedError):
    """A controller process ended, or a command failed; the message has what it said."""


def cluster_id_of(directories: Iterable[Path]) -> str:
    """That of the first of these log directories which is formatted; a new one where none is. CorruptFileError."""
    for directory in directories:
        path = directory / META_PROPERTIES
        if path.exists():
            return decode_meta_properties(path.read_bytes(), name=str(path)).cluster_id
    return new_id()


class LoopbackControllers(LocalNodes):
    """Nodes that are controllers, each on its port of `controller_ports`; whatever else they are."""

    controller_ports: Mapping[int, int]

    @property
    def bootstrap_controllers(self) -> str:
        return ",".join(f"{self.host(node)}:{port}" for node, port in self.controller_ports.items())

    @property
    def voters(self) -> str:
        """All of them, as `controller.quorum.voters` has them."""
        return ",".join(f"{node}@{self.host(node)}:{port}" for node, port in self.controller_ports.items())

    @cached_property
    def cluster_id(self) -> str:
        """Drawn when the first node is formatted, and kept in its directory."""
        return cluster_id_of(map(self.data_directory, self.nodes))


class LocalQuorum(LoopbackControllers):
    """Controllers `first_id` and following, with static voters; with `dynamic` ones the first is the first voter alone.

    `command(node, config file)` runs one; `tierfetch controller` by default.
    """

    kind = "controller"
    failure = ControllerFailedError

    def __init__(
        self,
        base: Path,
        controllers: int = 3,
        *,
        dynamic: bool = False,
        configs: Mapping[str, str] | None = None,
        command: Callable[[int, Path], Sequence[str]] | None = None,
        first_id: int = 1,
        ports: Sequence[int] | None = None,
        metrics_ports: Sequence[int] | None = None,
        security: LocalSecurity | None = None,
    ) -> None:
        super().__init__(base, range(first_id, first_id + controllers), ports or free_ports(controllers), security)
        self.controller_ports = self._ports
        self._command = command
        self.dynamic = dynamic
        self.configs = dict(configs or {})
        self._metrics_ports = dict(zip(self.nodes, metrics_ports or (), strict=bool(metrics_ports)))

    def metrics_url(self, node: int) -> str:
        """Where its metrics are; "" without `metrics_ports`."""
        return f"http://127.0.0.1:{self._metrics_ports[node]}/metrics" if self._metrics_ports else ""

    def command(self, node: int, config: Path) -> Sequence[str]:
        return super().command(node, config) if self._command is None else self._command(node, config)

    def prepare(self, node: int) -> None:
        self.format(node)

    def metadata_directory(self, node: int) -> Path:
        return self.data_directory(node) / "__cluster_metadata-0"

    def properties(self, node: int) -> dict[str, str]:
        quorum = {"controller.quorum.voters": self.voters}
        if self.dynamic:
            quorum = {"controller.quorum.bootstrap.servers": self.bootstrap_controllers}
        return {
            "node.id": str(node),
            "process.roles": "controller",
            "listeners": f"CONTROLLER://{self.host(node)}:{self.port(node)}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data_directory(node)),
            **quorum,
            **({"metrics.port": str(self._metrics_ports[node])} if self._metrics_ports else {}),
            **({} if self.security is None else self.security.of_controller(node)),
            **self.configs,
        }

    def format(self, node: int) -> None:
        """As `tierfetch format --ignore-formatted` does it."""
        config, _ = load_controller_config(self.config_file(node))
        is_first = node == self.nodes[0]
        order = format_order(
            config,
            self.cluster_id,
            standalone=self.dynamic and is_first,
            initial=None,
            without=self.dynamic and not is_first,
        )
        if self.security is not None:
            order = order.with_records(self.security.first_records())
        asyncio.run(run_format(order, ignore_formatted=True))

    def running(self) -> Iterable[int]:
        return [node for node in self.nodes if node in self._processes]

    def status(self) -> dict[str, Any]:
        """What `quorum describe --status` says, asked of those that run. NoLeaderError, OSError."""

        async def ask() -> dict[str, Any]:
            addresses = [Address(self.host(node), self.port(node)) for node in self.running()]
            identity = None if self.security is None else self.security.client_of_controllers()
            async with QuorumAdmin(addresses, identity) as admin:
                return status((await admin.cluster()).cluster_id, await admin.describe())

        return asyncio.run(ask())

    def leader(self) -> int:
        """The node that leads."""
        leader: int = self.status()["LeaderId"]
        return leader

    def tool(self, *arguments: str) -> str:
        """Run `tierfetch ...`; ControllerFailedError with what it said unless it succeeds."""
        environment = None if self.security is None else self.security.environment(arguments)
        done = captured([*TIERFETCH, *arguments], env=environment, timeout_s=COMMAND_TIMEOUT_S)
        if done.returncode != 0:
            raise ControllerFailedError(f"tierfetch {' '.join(arguments)}: {done.stderr or done.stdout}")
        return done.stdout
