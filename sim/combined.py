"""A process with both roles on a simulated host: `tierfetch format` if it is new, then `tierfetch server`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Self

from ..broker.combined import CombinedConfig, CombinedNode
from ..broker.environment import NodeEnvironment
from ..broker.node import Broker
from ..controller.service import ControllerService
from ..quorum.delivery import QuorumListener
from .controllers import format_new
from .host import Host


class CombinedProcess:
    """For `Host.start`. `service` is there, and told to `on_controller`, once the controller has started, which the
    broker needs to start; `failed` is done when one of them stops by itself.
    """

    broker: Broker
    failed: asyncio.Future[str]

    def __init__(
        self, config: CombinedConfig, host: Host, machine: NodeEnvironment, *, listeners: Sequence[QuorumListener] = ()
    ) -> None:
        """`machine` is the controller's environment; the broker has the same with a disk of its own."""
        self.config = config
        self.service: ControllerService | None = None
        self.process = host.process
        self.on_controller: Callable[[ControllerService], None] = lambda _: None
        self._has_begun = False
        self._host = host
        self._machine = machine
        self._node = CombinedNode(config, self._environment, listeners=listeners)

    async def __aenter__(self) -> Self:
        await format_new(self.config.controller, self._machine)
        await self._node.__aenter__()
        self.broker = self._node.broker
        self.failed = asyncio.get_running_loop().create_future()
        for failed in self._node.failures:
            if failed is not None:
                failed.add_done_callback(self._part_failed)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._node.__aexit__()

    def _environment(self) -> NodeEnvironment:
        """The controller's, then the broker's: by then the controller serves."""
        if not self._has_begun:
            self._has_begun = True
            return self._machine
        self.service = self._node.controller
        self.on_controller(self.service)
        return replace(self._machine, disk=self._host.open_disk())

    def _part_failed(self, failed: asyncio.Future[str]) -> None:
        if not (failed.cancelled() or self.failed.done()):
            self.failed.set_result(failed.result())


def broker_in(node: object) -> Broker | None:
    """The broker in what a host runs."""
    if isinstance(node, CombinedProcess):
        return node.broker
    return node if isinstance(node, Broker) else None
