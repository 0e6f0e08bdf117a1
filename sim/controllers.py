"""A controller's process on a simulated host: `tierfetch format` if it is new, then `tierfetch controller`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, Self

from ..broker.environment import NodeEnvironment
from ..quorum.controller_config import ControllerConfig, parse
from ..quorum.delivery import QuorumListener
from ..quorum.formatting import FormatOrder, format_directories, new_directory_id
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


class ControllerProcess:
    """For `Host.start`. `service` is there once it has started; `failed` is done when the replica stops by itself."""

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
        config, machine = self.config, self._machine
        key = ReplicaKey(config.node_id, new_directory_id(machine.rng))
        order = FormatOrder(CLUSTER_ID, key, config.directories)
        await format_directories(machine.disk, order, ignore_formatted=True, rng=machine.rng, now_ms=machine.now_ms)
        self.service = QuorumService(
            config,
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
