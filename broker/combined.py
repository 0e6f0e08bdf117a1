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
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from itertools import chain

from ..controller import NEW_CLUSTER_LEVELS, ControllerService, controller_families, open_controller
from ..light_dataclass import dataclass
from ..plugin_registry import REPLICA_PLACEMENT
from ..protocol import StartWaits
from ..quorum import CONTROLLER_KEYS, ControllerConfig, QuorumListener, parse_controller_config
from ..quorum.storage import identify
from ..security.core import is_security_key
from .config.broker_config import KEYS, BrokerConfig, parse_broker_config
from .config.dynamic_configs import check_dynamic_configs
from .environment import NodeEnvironment
from .node import Broker, make_quorum_view, no_broker, open_broker
from .shared_lock import SharedLocks


@dataclass(frozen=True, slots=True)
class CombinedConfig:
    """What each role takes from one file."""

    controller: ControllerConfig
    broker: BrokerConfig


def only_of_controllers(properties: Iterable[str]) -> set[str]:
    """Return those of these keys that controllers alone obey."""
    only_controller = CONTROLLER_KEYS - KEYS
    return {key for key in properties if key in only_controller or key.startswith(REPLICA_PLACEMENT.prefix)}


def parse_combined(properties: Mapping[str, str], source: str) -> tuple[CombinedConfig, list[str]]:
    """Return what each role takes, and warnings for keys that belong to neither. Raise ConfigError."""
    only_controller = only_of_controllers(properties)
    of_broker = {key: value for key, value in properties.items() if key not in only_controller}
    of_controller = {
        key: value
        for key, value in properties.items()
        if key in CONTROLLER_KEYS | only_controller or is_security_key(key)
    }
    broker, warnings = parse_broker_config(of_broker, source)
    return CombinedConfig(parse_controller_config(of_controller, source)[0], broker), warnings


@dataclass(frozen=True, eq=False)
class CombinedNode:
    """A process whose controller and broker both serve."""

    controller: ControllerService
    broker: Broker

    @property
    def failures(self) -> tuple[asyncio.Future[str] | None, ...]:
        """Done, with the reason, when one of the parts must stop."""
        return self.controller.node.failed, self.controller.controller.failed, self.broker.failed


def no_observer(_: ControllerService) -> None:
    """Do nothing about the controller, which serves now."""


@asynccontextmanager
async def open_combined(
    config: CombinedConfig,
    make_environment: Callable[[], NodeEnvironment] = NodeEnvironment,
    *,
    waits: StartWaits | None = None,
    listeners: Sequence[QuorumListener] = (),
    on_controller: Callable[[ControllerService], None] = no_observer,
    on_hosting: Callable[[Broker], None] = no_broker,
    first_levels: Mapping[str, int] = NEW_CLUSTER_LEVELS,
) -> AsyncIterator[CombinedNode]:
    """Run both roles. Raise StartError, and what a controller's start raises.

    Each role has an environment of its own, and closes its disk. `listeners` follow the metadata log after both roles.
    `on_controller` is called before the broker starts: a broker waits for a quorum, which may need other processes.
    `on_hosting`: see `open_broker`; `first_levels`: see `open_controller`.
    """
    waits = waits or StartWaits()
    async with AsyncExitStack() as stack:
        machine = make_environment()
        locks = SharedLocks(machine.lock_directory)
        stack.push_async_callback(machine.disk.close)
        formatted = await identify(machine.disk, config.controller.metadata_directory, config.controller.node_id, None)
        view = make_quorum_view(config.broker, replace(machine, lock_directory=locks.lock), waits)
        view.share(formatted.cluster_id)
        controller = await stack.enter_async_context(
            open_controller(
                config.controller,
                replace(machine, lock_directory=locks.lock),
                check_broker_configs=check_dynamic_configs,
                listeners=(view, *listeners),
                first_levels=first_levels,
            )
        )
        view.attach(controller.node)
        on_controller(controller)
        environment = replace(make_environment(), lock_directory=locks.lock, cluster_view=view)
        metrics = controller.node.metrics
        broker = await stack.enter_async_context(
            open_broker(
                config.broker,
                environment,
                waits=waits,
                more_metrics=lambda: chain(
                    metrics.families(controller.node), controller_families(controller.controller)
                ),
                on_hosting=on_hosting,
            )
        )
        yield CombinedNode(controller, broker)
