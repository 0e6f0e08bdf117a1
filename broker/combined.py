"""One process with both roles (`process.roles=broker,controller`): a controller, and beside it a broker.

    QuorumNode, one for the node id --what is committed--> ControllerNode, QuorumClusterView
    listener CONTROLLER: the controller's         listener PLAINTEXT: the broker's

    start                                          stop, the other way round
    ---------------------------------------------  ---------------------------------------------------------
    metadata directory identified                  -
    controller: replica, listener, worker          leadership of the quorum handed over, metadata log closed
    broker: as in a process of its own             what it leads handed over, logs closed

The broker asks the active controller over the network as any other broker does, also where that is in the same process:
nothing is decided differently. What the two share is the replica of the metadata log, and the locks of directories.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..controller.service import ControllerService
from ..protocol.net.service import Service
from ..quorum import controller_config
from ..quorum.controller_config import ControllerConfig
from ..quorum.listener import QuorumListener
from ..quorum.storage.formatting import identify
from ..security.core.settings import is_security_key
from .config.broker_config import KEYS, BrokerConfig, parse
from .config.dynamic_configs import check_dynamic_configs
from .environment import NodeEnvironment
from .node import Broker, make_quorum_view
from .shared_lock import SharedLocks


@dataclass(frozen=True, slots=True)
class CombinedConfig:
    """What each role takes from one file."""

    controller: ControllerConfig
    broker: BrokerConfig


def parse_combined(properties: Mapping[str, str], source: str) -> tuple[CombinedConfig, list[str]]:
    """Each role takes its own keys; the warnings say which belong to neither. ConfigError."""
    only_controller = controller_config.KEYS - KEYS
    of_broker = {key: value for key, value in properties.items() if key not in only_controller}
    of_controller = {
        key: value for key, value in properties.items() if key in controller_config.KEYS or is_security_key(key)
    }
    found, warnings = parse(of_broker, source)
    return CombinedConfig(controller_config.parse(of_controller, source)[0], found), warnings


class CombinedNode(Service):
    """`async with CombinedNode(config) as node:` has both serving. StartError, and what a controller's start raises."""

    def __init__(
        self,
        config: CombinedConfig,
        make_environment: Callable[[], NodeEnvironment] = NodeEnvironment,
        *,
        listeners: Sequence[QuorumListener] = (),
    ) -> None:
        """Each role has an environment of its own, and closes its disk. `listeners` are told of the metadata log what
        both roles are told, after them.
        """
        super().__init__()
        self._config = config
        self._listeners = listeners
        self._make_environment = make_environment
        self.controller: ControllerService
        self.broker: Broker

    @property
    def failures(self) -> tuple[asyncio.Future[str] | None, ...]:
        """Done, with the reason, when one of the parts cannot go on."""
        return self.controller.node.failed, self.controller.controller.failed, self.broker.failed

    async def _start(self) -> None:
        config, machine = self._config.controller, self._make_environment()
        locks = SharedLocks(machine.lock_directory)
        self._stack.push_async_callback(machine.disk.close)
        found = await identify(machine.disk, config.metadata_directory, config.node_id, None)
        view = make_quorum_view(self._config.broker, machine, locks.lock, self.waits)
        view.share(found.cluster_id)
        self.controller = ControllerService(
            config,
            disk=machine.disk,
            rng=machine.rng,
            now_ms=machine.now_ms,
            lock=locks.lock,
            check_broker_configs=check_dynamic_configs,
            listeners=(view, *self._listeners),
        )
        await self._stack.enter_async_context(self.controller)
        view.attach(self.controller.node)
        environment = replace(self._make_environment(), lock_directory=locks.lock, cluster_view=view)
        self.broker = Broker(self._config.broker, environment, self.waits)
        self.broker.more_metrics = lambda: self.controller.node.metrics.families(self.controller.node)
        await self._stack.enter_async_context(self.broker)
