"""A controller's process on a simulated host: `tierfetch format` if it is new, then `tierfetch controller`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ...broker.config.dynamic_configs import check_dynamic_configs
from ...broker.environment import NodeEnvironment
from ...controller.service import ControllerService, open_controller
from ...protocol.net.service import Service
from ...quorum import QuorumListener, ReplicaKey
from ...quorum.controller_config import ControllerConfig, parse
from ...quorum.node import QuorumNode, open_replica
from ...quorum.service import QuorumService, open_quorum
from ...quorum.storage.formatting import FormatOrder, format_directories, new_directory_id

CONTROLLER_PORT: Final = 9093
CLUSTER_ID: Final = "c2ltdWxhdGVkLWNsdXN0ZQ"


def controller_host(node_id: int) -> str:
    return f"controller-{node_id}"


def controller_config(
    node_id: int, node_ids: Sequence[int], overrides: Mapping[str, str] | None = None
) -> ControllerConfig:
    """One of a static quorum of these; `overrides` by Kafka's keys."""
    voters = ",".join(f"{voter}@{controller_host(voter)}:{CONTROLLER_PORT}" for voter in node_ids)
    config, warnings = parse(
        {
            "node.id": str(node_id),
            "listeners": f"CONTROLLER://{controller_host(node_id)}:{CONTROLLER_PORT}",
            "controller.quorum.voters": voters,
            "log.dirs": "/metadata",
            **(overrides or {}),
        },
        "simulation",
    )
    assert not warnings, warnings
    return config


class QuorumProcess(Service):
    """A replica of the quorum alone, for `Host.start`. `service` is there once it has started; `failed` is done when
    the replica stops by itself.
    """

    service: QuorumService
    failed: asyncio.Future[str]

    def __init__(
        self, config: ControllerConfig, machine: NodeEnvironment, *, listeners: Sequence[QuorumListener] = ()
    ) -> None:
        super().__init__()
        self.config = config
        self._machine = machine
        self._listeners = listeners

    async def _start(self) -> None:
        await format_new(self.config, self._machine)
        self.service = await self._stack.enter_async_context(open_quorum(self.config, self._machine))
        await self.service.begin(self._listeners)
        self.failed = self.service.node.failed

    @property
    def replica(self) -> QuorumNode:
        return self.service.node


class ObserverProcess(Service):
    """A replica that nobody can ask for its vote, as that of a broker, for `Host.start`. `config` is a voter's."""

    replica: QuorumNode
    failed: asyncio.Future[str]

    def __init__(
        self, config: ControllerConfig, node_id: int, machine: NodeEnvironment, *, listeners: Sequence[QuorumListener]
    ) -> None:
        super().__init__()
        self._config = config.model_copy(update={"node_id": node_id})
        self._machine = machine
        self._listeners = listeners

    async def _start(self) -> None:
        await format_new(self._config, self._machine)
        config = self._config.replica_config(self._config.node_id, self._config.metadata_directory, ())
        self.replica = await self._stack.enter_async_context(open_replica(config, self._machine))
        self.replica.start(self._listeners)
        self.failed = self.replica.failed


class ControllerProcess(Service):
    """A whole controller, for `Host.start`; `service` and `failed` as above."""

    service: ControllerService
    failed: asyncio.Future[str]

    def __init__(
        self, config: ControllerConfig, machine: NodeEnvironment, *, listeners: Sequence[QuorumListener] = ()
    ) -> None:
        super().__init__()
        self.config = config
        self._machine = machine
        self._listeners = listeners

    async def _start(self) -> None:
        await format_new(self.config, self._machine)
        opening = open_controller(
            self.config, self._machine, check_broker_configs=check_dynamic_configs, listeners=self._listeners
        )
        self.service = await self._stack.enter_async_context(opening)
        self.failed = first_failure((self.service.node.failed, self.service.controller.failed))


def first_failure(failures: Iterable[asyncio.Future[str] | None]) -> asyncio.Future[str]:
    """Done when one of them is, with its reason. None: of a part that cannot fail."""
    first: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def part_failed(failed: asyncio.Future[str]) -> None:
        if not (failed.cancelled() or first.done()):
            first.set_result(failed.result())

    for failure in failures:
        if failure is not None:
            failure.add_done_callback(part_failed)
    return first


async def format_new(config: ControllerConfig, machine: NodeEnvironment) -> None:
    """Its directories, unless they have been."""
    order = FormatOrder(CLUSTER_ID, ReplicaKey(config.node_id, new_directory_id(machine.rng)), config.directories)
    await format_directories(machine.disk, order, ignore_formatted=True, rng=machine.rng, now_ms=machine.now_ms)
