"""A controller's process on a simulated host: `tierfetch format` if it is new, then `tierfetch controller`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, Self

from ..broker.dynamic_configs import check_dynamic_configs
from ..broker.environment import NodeEnvironment
from ..controller.service import ControllerService
from ..quorum.controller_config import ControllerConfig, parse
from ..quorum.delivery import QuorumListener
from ..quorum.formatting import FormatOrder, format_directories, new_directory_id
from ..quorum.node import QuorumNode
from ..quorum.service import HandlersOf, QuorumService
from ..quorum.state import ReplicaKey

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


class QuorumProcess:
    """A replica of the quorum alone, for `Host.start`. `service` is there once it has started; `failed` is done when
    the replica stops by itself.
    """

    service: QuorumService
    failed: asyncio.Future[str]

    def __init__(
        self,
        config: ControllerConfig,
        machine: NodeEnvironment,
        *,
        listeners: Sequence[QuorumListener] = (),
        handlers_of: HandlersOf | None = None,
    ) -> None:
        self.config = config
        self._machine = machine
        self._listeners = listeners
        self._handlers_of = handlers_of

    async def __aenter__(self) -> Self:
        machine = self._machine
        await format_new(self.config, machine)
        self.service = QuorumService(
            self.config,
            disk=machine.disk,
            rng=machine.rng,
            now_ms=machine.now_ms,
            lock=machine.lock_directory,
            listeners=self._listeners,
            handlers_of=self._handlers_of,
        )
        await self.service.__aenter__()
        self.failed = self.service.node.failed
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.service.__aexit__(None, None, None)

    @property
    def replica(self) -> QuorumNode:
        return self.service.node


class ObserverProcess:
    """A replica that nobody can ask for its vote, as that of a broker, for `Host.start`. `config` is a voter's."""

    failed: asyncio.Future[str]

    def __init__(
        self, config: ControllerConfig, node_id: int, machine: NodeEnvironment, *, listeners: Sequence[QuorumListener]
    ) -> None:
        self.replica = QuorumNode(
            config.raft_config(node_id, ()),
            log_dir=config.metadata_directory,
            disk=machine.disk,
            rng=machine.rng,
            now_ms=machine.now_ms,
            static_voters=config.static_voters,
            log_config=config.log_config,
            lock=machine.lock_directory,
        )
        for listener in listeners:
            self.replica.add_listener(listener)
        self._config = config.model_copy(update={"node_id": node_id})
        self._machine = machine

    async def __aenter__(self) -> Self:
        await format_new(self._config, self._machine)
        await self.replica.start()
        self.failed = self.replica.failed
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.replica.stop()


class ControllerProcess:
    """A whole controller, for `Host.start`; `service` and `failed` as above."""

    service: ControllerService
    failed: asyncio.Future[str]

    def __init__(
        self, config: ControllerConfig, machine: NodeEnvironment, *, listeners: Sequence[QuorumListener] = ()
    ) -> None:
        self.config = config
        self._machine = machine
        self._listeners = listeners

    async def __aenter__(self) -> Self:
        machine = self._machine
        await format_new(self.config, machine)
        self.service = ControllerService(
            self.config,
            disk=machine.disk,
            rng=machine.rng,
            now_ms=machine.now_ms,
            lock=machine.lock_directory,
            check_broker_configs=check_dynamic_configs,
            listeners=self._listeners,
        )
        await self.service.__aenter__()
        self.failed = asyncio.get_running_loop().create_future()
        for part in (self.service.node, self.service.controller):
            part.failed.add_done_callback(self._part_failed)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.service.__aexit__(None, None, None)

    def _part_failed(self, failed: asyncio.Future[str]) -> None:
        if not (failed.cancelled() or self.failed.done()):
            self.failed.set_result(failed.result())


async def format_new(config: ControllerConfig, machine: NodeEnvironment) -> None:
    """Its directories, unless they have been."""
    order = FormatOrder(CLUSTER_ID, ReplicaKey(config.node_id, new_directory_id(machine.rng)), config.directories)
    await format_directories(machine.disk, order, ignore_formatted=True, rng=machine.rng, now_ms=machine.now_ms)
