"""A process with both roles on a simulated host: `tierfetch format` if it is new, then `tierfetch server`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...broker.combined import CombinedConfig, CombinedNode
from ...broker.config.broker_config import BrokerConfig
from ...broker.environment import NodeEnvironment
from ...broker.node import Broker
from ...controller.service import ControllerService
from ...protocol.net.service import Service
from ...protocol.start_waits import StartWaits
from ...quorum.listener import QuorumListener
from ..machine.host import Host
from .controllers import first_failure, format_new


class CombinedProcess(Service):
    """A node for `Host.start`. `service` is there, and given to `on_controller`, once the controller has started, which
    the broker needs to start; `failed` is done when one of them stops by itself.
    """

    broker: Broker
    failed: asyncio.Future[str]

    def __init__(
        self,
        config: CombinedConfig,
        host: Host,
        machine: NodeEnvironment,
        *,
        listeners: Sequence[QuorumListener],
        on_controller: Callable[[ControllerService], None],
        make_broker: Callable[[BrokerConfig, NodeEnvironment, StartWaits], Broker],
    ) -> None:
        """`machine` is the controller's environment; the broker has the same with a disk of its own."""
        super().__init__()
        self.config = config
        self.service: ControllerService | None = None
        self.process = host.process
        self._on_controller = on_controller
        self._has_begun = False
        self._host = host
        self._machine = machine
        self._node = CombinedNode(config, self._environment, make_broker, listeners=listeners)

    async def _start(self) -> None:
        await format_new(self.config.controller, self._machine)
        await self._stack.enter_async_context(self._node)
        self.broker = self._node.broker
        self.failed = first_failure(self._node.failures)

    def _environment(self) -> NodeEnvironment:
        """The controller's, then the broker's: by then the controller serves."""
        if not self._has_begun:
            self._has_begun = True
            return self._machine
        self.service = self._node.controller
        self._on_controller(self.service)
        return replace(self._machine, disk=self._host.open_disk())


def broker_in(node: object) -> Broker | None:
    """The broker in what a host runs."""
    if isinstance(node, CombinedProcess):
        return node.broker
    return node if isinstance(node, Broker) else None
