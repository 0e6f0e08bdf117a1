"""A process with both roles on a simulated host: `tierfetch format` if it is new, then `tierfetch server`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...broker import Broker, CombinedConfig, NodeEnvironment, open_combined
from ...controller import ControllerService
from ...protocol.net import Service
from ...quorum import QuorumListener, VoterSet
from ..machine.host import Host
from .controllers import FIRST_LEVELS, first_failure, format_new


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
        on_hosting: Callable[[Broker], None],
        first: VoterSet | None = None,
        first_records: Sequence[bytes] = (),
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
        self._listeners = listeners
        self._on_hosting = on_hosting
        self._first = first
        self._first_records = first_records

    async def _start(self) -> None:
        await format_new(self.config.controller, self._machine, self._first, first_records=self._first_records)
        opening = open_combined(
            self.config,
            self._environment,
            listeners=self._listeners,
            on_controller=self._controller_serves,
            on_hosting=self._on_hosting,
            first_levels=FIRST_LEVELS,
        )
        node = await self._stack.enter_async_context(opening)
        self.broker = node.broker
        self.failed = first_failure(node.failures)

    def _controller_serves(self, service: ControllerService) -> None:
        self.service = service
        self._on_controller(service)

    def _environment(self) -> NodeEnvironment:
        """The controller's, then the broker's: by then the controller serves."""
        if not self._has_begun:
            self._has_begun = True
            return self._machine
        return replace(self._machine, disk=self._host.open_disk())


def broker_in(node: object) -> Broker | None:
    """The broker in what a host runs."""
    if isinstance(node, CombinedProcess):
        return node.broker
    return node if isinstance(node, Broker) else None
