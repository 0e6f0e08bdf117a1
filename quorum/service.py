"""A replica of the quorum with its listener: a controller process without what the records mean.

    start                                          stop, in this order
    ---------------------------------------------  ------------------------------------------------------
    listener bound: its port is known              leadership handed over, while the listener still serves
    replica opened and recovered (see `node`)      log flushed and closed
    `begin`: replica started, listener accepts     no new requests; the others end, at most `CLOSE_DEADLINE_S`

`open_quorum` returns both, open but silent; `begin` names the appliers of the log, and the handlers of the other
requests that the same port serves.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Final

from ..light_dataclass import dataclass
from ..protocol import ApiKey
from ..protocol.authorization import TopicName, guarded
from ..protocol.net import Handler, Server, ServerLimits
from ..security import Authorizer, open_client, open_listener
from ..security.core import ScramCredentials
from .controller_config import ControllerConfig
from .environment import Machine
from .handlers import QuorumHandlers, api_versions_handler
from .listener import QuorumListener
from .node import QuorumNode, open_replica

CLOSE_DEADLINE_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class QuorumGate:
    """Which requests the listener allows; all of them without an `authorizer`."""

    authorizer: Authorizer | None = None
    topic_name: TopicName = lambda _: None


OPEN_GATE: Final = QuorumGate()


@dataclass(frozen=True, slots=True, eq=False)
class QuorumService:
    """A replica that is open, and a listener that is bound."""

    node: QuorumNode
    server: Server

    async def begin(
        self,
        listeners: Sequence[QuorumListener] = (),
        *,
        handlers: Mapping[int, Handler] | None = None,
        gate: QuorumGate = OPEN_GATE,
    ) -> None:
        """Take part in the quorum and accept requests; deliver committed records to `listeners`. To be called once.

        `handlers` answer requests beside the quorum's own.
        """
        table = self.server.handlers
        table[ApiKey.API_VERSIONS] = api_versions_handler(lambda: frozenset(table))
        table |= QuorumHandlers(self.node).table()
        table |= handlers or {}
        table |= guarded(table, gate.authorizer, gate.topic_name, is_controller=True)
        self.node.start(listeners)
        await self.server.serve()


@asynccontextmanager
async def open_quorum(
    config: ControllerConfig, machine: Machine, *, credentials: Callable[[], ScramCredentials] = ScramCredentials
) -> AsyncIterator[QuorumService]:
    """Bind the listener and open the replica of one controller; both stop with the block.

    The listener authenticates users with `credentials`. Raise QuorumStartError, and the OSError of the listener.
    """
    async with AsyncExitStack() as stack:
        server = await _bind(config, credentials, stack)
        endpoint = replace(config.endpoint, port=config.endpoint.port or server.port)
        replica = config.replica_config(config.node_id, config.metadata_directory, (endpoint,))
        identity = open_client(config.security.to_controllers)
        yield QuorumService(await stack.enter_async_context(open_replica(replica, machine, identity=identity)), server)


async def _bind(config: ControllerConfig, credentials: Callable[[], ScramCredentials], stack: AsyncExitStack) -> Server:
    """Return the listener on its port, which accepts nothing yet; `stack` closes it."""
    listener = config.listener
    limits = ServerLimits(
        connections_max=config.max_connections,
        connections_per_ip_max=config.max_connections_per_ip,
        connection_rate_max=config.max_connection_creation_rate,
        request_size_max=config.socket_request_max_bytes,
    )
    settings = config.security.listeners[listener.name]
    identity = await open_listener(settings, credentials, listener.host)
    server = Server({}, listener_name=listener.name, limits=limits, identity=identity)
    stack.push_async_callback(server.close, deadline_s=CLOSE_DEADLINE_S)
    await server.bind(listener.host, listener.port)
    return server
