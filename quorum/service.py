"""A replica of the quorum with its listener: what a controller process consists of, below what the records mean.

    start                                          stop, the other way round
    ---------------------------------------------  ------------------------------------------------------
    listener bound: its port is known              what is under way is answered, at most `CLOSE_DEADLINE_S`
    replica started (see `node`)                   leadership handed over, log flushed and closed
    listener accepts                               no new connections

Who applies the log hands in a `QuorumListener` and the handlers of its own requests, which the same port then serves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final

from ..log.disk.directory_lock import lock_directory
from ..log.disk.port import Disk
from ..log.keeper.log_directory import HeldLock
from ..protocol.api import ApiKey
from ..protocol.authorization.access import TopicName
from ..protocol.authorization.gate import guarded
from ..protocol.net.dispatch import Handler
from ..protocol.net.server import Server, ServerLimits
from ..protocol.net.service import Service
from ..security.authorizer import Authorizer
from ..security.client import open_client
from ..security.credentials import ScramCredentials
from ..security.listener import open_listener
from .controller_config import ControllerConfig
from .handlers import QuorumHandlers, api_versions_handler
from .listener import QuorumListener
from .node import QuorumNode

CLOSE_DEADLINE_S: Final = 2.0

HandlersOf = Callable[[QuorumNode, Mapping[int, Handler]], Mapping[int, Handler]]


class QuorumService(Service):
    """`async with QuorumService(config, ...) as service:` has it serving. QuorumStartError, OSError of the listener."""

    def __init__(
        self,
        config: ControllerConfig,
        *,
        disk: Disk,
        rng: Random,
        now_ms: Callable[[], int],
        lock: Callable[[Path], HeldLock] = lock_directory,
        listeners: Sequence[QuorumListener] = (),
        handlers_of: HandlersOf | None = None,
        credentials: Callable[[], ScramCredentials] = ScramCredentials,
        authorizer: Authorizer | None = None,
        topic_name: TopicName = lambda _: None,
    ) -> None:
        """`credentials` are those that the listener authenticates users with."""
        super().__init__()
        self.config = config
        self._disk = disk
        self._rng = rng
        self._now_ms = now_ms
        self._lock = lock
        self._listeners = listeners
        self._handlers_of = handlers_of
        self._credentials = credentials
        self._authorizer = authorizer
        self._topic_name = topic_name
        self.node: QuorumNode
        self.server: Server

    async def _start(self) -> None:
        config, listener = self.config, self.config.listener
        table: dict[int, Handler] = {}
        limits = ServerLimits(
            connections_max=config.max_connections,
            connections_per_ip_max=config.max_connections_per_ip,
            connection_rate_max=config.max_connection_creation_rate,
            request_size_max=config.socket_request_max_bytes,
        )
        settings = config.security.listeners[listener.name]
        identity = await open_listener(settings, self._credentials, listener.host)
        self.server = Server(table, listener_name=listener.name, limits=limits, identity=identity)
        self._stack.push_async_callback(self.server.close, deadline_s=CLOSE_DEADLINE_S)
        await self.server.bind(listener.host, listener.port)
        endpoint = replace(config.endpoint, port=config.endpoint.port or self.server.port)
        self.node = QuorumNode(
            config.raft_config(config.node_id, (endpoint,)),
            log_dir=config.metadata_directory,
            disk=self._disk,
            rng=self._rng,
            now_ms=self._now_ms,
            static_voters=config.static_voters,
            log_config=config.log_config,
            lock=self._lock,
            identity=open_client(config.security.to_controllers),
        )
        for applied_by in self._listeners:
            self.node.add_listener(applied_by)
        handlers = self.server.handlers
        handlers[ApiKey.API_VERSIONS] = api_versions_handler(lambda: frozenset(handlers))
        handlers |= QuorumHandlers(self.node).table()
        if self._handlers_of is not None:
            handlers |= self._handlers_of(self.node, dict(handlers))
        handlers |= guarded(handlers, self._authorizer, self._topic_name, is_controller=True)
        self._stack.push_async_callback(self.node.stop)
        await self.node.start()
        await self.server.serve()
