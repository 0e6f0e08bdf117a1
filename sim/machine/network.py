"""The network between simulated hosts: names, listeners, connections, and what happens to them.

Every host has one address, its name. A connection belongs to the process that made or accepted it.

| dialled                                            | the caller gets                                      |
|----------------------------------------------------|------------------------------------------------------|
| a listener                                         | a connection after a round trip, also if the process |
|                                                    | behind it is paused: its kernel accepts              |
| a host that runs, without this listener            | ConnectionRefusedError after a round trip            |
| a host that is down, or behind a blocked link      | nothing: tried again after 1, 2, 4 ... s, and after  |
|                                                    | `CONNECT_TIMEOUT_S` ETIMEDOUT                        |
| a name that is no host                             | OSError, as from a failed look-up                    |
| a host in `flaky`                                  | in turn, for each pair of hosts: a refusal, and as   |
|                                                    | above; no task is refused twice in a row             |
| a host in `refusing`                               | ConnectionRefusedError after a round trip            |

`block` is one direction; a partition is all directions between two groups. Nothing is lost for good by a block, since
TCP sends again; what it does to connections is in `transport`. `reset_connections` ends those of a host, at both ends;
`reset_one_end` ends one, and its other end learns that when it sends something.

`shape` gives a host an interface, which all that it sends, and all that it gets, shares at a rate; without one only the
links have rates, each its own.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Collection
from contextvars import Context, copy_context
from random import Random
from typing import Any, Final

from .link import Link
from .loop import SimLoop
from .pipe import Pipe
from .process import Process, current_process
from .transport import RETRANSMISSION_BACKOFF_MAX_S, SimTransport

CONNECT_TIMEOUT_S: Final = 127.0
CONNECT_RETRY_S: Final = 1.0
EPHEMERAL_PORT_MIN: Final = 32_768
EPHEMERAL_PORTS: Final = 28_000
OUTSIDE: Final = "outside"
"""The host of code that belongs to no process."""

_OWN_NAMES: Final = frozenset({"127.0.0.1", "localhost", "0.0.0.0", "::", "", None})

ProtocolFactory = Callable[[], asyncio.BaseProtocol]


class _BoundSocket:
    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address

    def getsockname(self) -> tuple[str, int]:
        return self._address


class SimServer:
    """A listener: the part of `asyncio.Server` that a node uses."""

    def __init__(
        self, network: Network, factory: ProtocolFactory, process: Process | None, address: tuple[str, int]
    ) -> None:
        self.process = process
        self.sockets: tuple[_BoundSocket, ...] = (_BoundSocket(address),)
        self.context = copy_context()
        self.factory = factory
        self._network = network
        self._address = address
        self._is_serving = False

    async def start_serving(self) -> None:
        self._is_serving = True

    def is_serving(self) -> bool:
        return self._is_serving

    def close(self) -> None:
        self._is_serving = False
        self.sockets = ()
        if self._network.listeners.get(self._address) is self:
            del self._network.listeners[self._address]

    async def wait_closed(self) -> None:
        """Connections continue by themselves, as asyncio's did before 3.12."""

    def get_loop(self) -> SimLoop:
        return self._network.loop


class Network:
    """All hosts' sockets. `rng` draws delays, pieces and back-offs."""

    def __init__(self, loop: SimLoop, rng: Random) -> None:
        self.loop = loop
        self.rng = rng
        self.context: Context = copy_context()
        """The kernel's: no process."""
        self.listeners: dict[tuple[str, int], SimServer] = {}
        self.bytes_sent = 0
        self.connections_made = 0
        self.flaky: Collection[str] = frozenset()
        """Hosts of which something in between refuses every other connect."""
        self.refusing: Collection[str] = frozenset()
        """The hosts of which something in between refuses every connect."""
        self._refused: set[tuple[str, str]] = set()
        """Pairs of hosts whose last connect to a flaky host was refused."""
        self._refused_tasks: set[tuple[asyncio.Task[object] | None, str]] = set()
        """Connections by the host that dialled."""
        self._running: set[str] = {OUTSIDE}
        self._known: set[str] = {OUTSIDE}
        self._links: dict[tuple[str, str], Link[SimTransport]] = {}
        self._interfaces: dict[str, tuple[Pipe, Pipe]] = {}
        """What hosts get by, and send by, where they have been shaped."""
        self._transports: dict[Process | None, dict[SimTransport, None]] = {}
        self._silent: dict[str, dict[SimTransport, None]] = {}
        self._next_port = 0
        loop.sockets = self

    # Hosts.

    def machine_up(self, host: str) -> None:
        """It answers from now on; what it no longer knows, with resets."""
        self._known.add(host)
        self._running.add(host)
        for transport in self._silent.pop(host, {}):
            delay_s = self.rng.uniform(0, RETRANSMISSION_BACKOFF_MAX_S)
            self.loop.call_later(delay_s, transport.answer_with_reset, context=self.context)

    def process_died(self, process: Process) -> None:
        """Its kernel closes its listeners and connections."""
        self._close_listeners(process)
        for transport in self._transports.pop(process, {}):
            transport.kill(is_silent=False)

    def machine_died(self, host: str, process: Process | None) -> None:
        """Nothing leaves and nothing answers any longer, nor does what processes before this one left to the kernel."""
        self._running.discard(host)
        left = dict(self._transports.pop(process, {}) if process is not None else {})
        if process is not None:
            self._close_listeners(process)
        for link in self._links.values():
            left |= link.transports if link.source == host else {}
        for transport in left:
            transport.kill(is_silent=True)
            self.await_boot(transport)

    def is_running(self, host: str) -> bool:
        return host in self._running

    def await_boot(self, transport: SimTransport) -> None:
        """Its machine is down: it is silent until that runs again."""
        transport.is_silent = True
        self._silent.setdefault(transport.link.source, {})[transport] = None

    def reset_connections(self, host: str) -> None:
        """All that it has with others; no process ends."""
        for transports in list(self._transports.values()):
            for transport in list(transports):
                if host in (transport.link.source, transport.link.target):
                    transport.reset()

    def reset_one_end(self, host: str, rng: Random) -> None:
        """A connection of that host is gone for one of its ends."""
        ends = [
            transport
            for transports in self._transports.values()
            for transport in transports
            if host in (transport.link.source, transport.link.target) and not transport.is_closing()
        ]
        if ends:
            rng.choice(ends).reset()

    def forget(self, transport: SimTransport) -> None:
        """Called by a transport whose process has let go of it."""
        of_process = self._transports.get(transport.process)
        if of_process is not None:
            of_process.pop(transport, None)

    def close(self) -> None:
        """Let go of everything."""
        for held in (self.listeners, self._transports, self._silent, self._links, self._refused_tasks):
            held.clear()

    # Links.

    def link(self, source: str, target: str) -> Link[SimTransport]:
        found = self._links.get((source, target))
        if found is None:
            found = self._links[source, target] = Link(source, target)
            self._connect_interfaces(found)
        return found

    def shape(self, host: str, *, in_bytes_per_s: float, out_bytes_per_s: float) -> None:
        """From now on, to and from every other host."""
        self._interfaces[host] = Pipe(in_bytes_per_s), Pipe(out_bytes_per_s)
        for link in self._links.values():
            self._connect_interfaces(link)

    def _connect_interfaces(self, link: Link[SimTransport]) -> None:
        if link.source == link.target:
            return
        if link.source in self._interfaces:
            link.out_of = self._interfaces[link.source][1]
        if link.target in self._interfaces:
            link.into = self._interfaces[link.target][0]

    def is_blocked(self, source: str, target: str) -> bool:
        found = self._links.get((source, target))
        return found is not None and found.is_blocked

    def block(self, source: str, target: str) -> None:
        """Block everything from `source` to `target`."""
        link = self.link(source, target)
        if not link.is_blocked:
            link.is_blocked, link.blocked_at_s = True, self.loop.time()
            for transport in list(link.transports):
                transport.recall()

    def unblock(self, source: str, target: str) -> None:
        link = self.link(source, target)
        if link.is_blocked:
            link.is_blocked = False
            back_off_s = min(RETRANSMISSION_BACKOFF_MAX_S, self.loop.time() - link.blocked_at_s)
            for transport in list(link.transports):
                transport.link_is_back(self.rng.uniform(0, back_off_s))

    def partition(self, group: Collection[str], others: Collection[str]) -> None:
        """Block both directions between the two groups."""
        for one in sorted(group):
            for other in sorted(others):
                self.block(one, other)
                self.block(other, one)

    def heal(self) -> None:
        """Unblock everything, and make every link as fast as it was at first."""
        for (source, target), link in list(self._links.items()):
            link.slow_down(1)
            self.unblock(source, target)

    # What the loop passes on.

    async def create_server(self, factory: ProtocolFactory, host: Any, port: Any, *, start_serving: bool) -> SimServer:
        process = current_process.get()
        own = OUTSIDE if process is None else process.host
        if host != own and host not in _OWN_NAMES:
            raise OSError(errno.EADDRNOTAVAIL, f"{host} is not an address of host {own}")
        port = port or self._free_port()
        if (own, port) in self.listeners:
            raise OSError(errno.EADDRINUSE, f"{os.strerror(errno.EADDRINUSE)}: {own}:{port}")
        server = self.listeners[own, port] = SimServer(self, factory, process, (own, port))
        if start_serving:
            await server.start_serving()
        return server

    async def create_connection(
        self, factory: ProtocolFactory, host: str, port: int
    ) -> tuple[SimTransport, asyncio.BaseProtocol]:
        process = current_process.get()
        own = OUTSIDE if process is None else process.host
        target = own if host in _OWN_NAMES else host
        if target not in self._known:
            raise socket.gaierror(socket.EAI_NONAME, f"{host}: no such host")
        transport = await self._dial(own, target, port, process)
        try:
            await asyncio.sleep(self.link(target, own).delay_s(self.rng, 0))
            if transport.is_closing():
                raise ConnectionResetError(errno.ECONNRESET, f"{os.strerror(errno.ECONNRESET)}: {target}:{port}")
            protocol = factory()
            transport.set_protocol(protocol)
            protocol.connection_made(transport)
        except BaseException:
            transport.abort()
            raise
        return transport, protocol

    def addresses(self, host: str, port: int) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        """Resolve a name: hosts here have one address each, which is written like the name."""
        if host not in self._known and host not in _OWN_NAMES:
            raise socket.gaierror(socket.EAI_NONAME, f"{host}: no such host")
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]

    async def _dial(self, own: str, target: str, port: int, process: Process | None) -> SimTransport:
        """Until the target's kernel has answered."""
        deadline_s, retry_s = self.loop.time() + CONNECT_TIMEOUT_S, CONNECT_RETRY_S
        while True:
            await asyncio.sleep(self.link(own, target).delay_s(self.rng, 0))
            if self._reaches(own, target):
                break
            if self.loop.time() + retry_s > deadline_s:
                raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
            await asyncio.sleep(retry_s)
            retry_s *= 2
        server = self.listeners.get((target, port))
        if server is None or not server.is_serving() or self._is_refused(own, target):
            await asyncio.sleep(self.link(target, own).delay_s(self.rng, 0))
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"{os.strerror(errno.ECONNREFUSED)}: {target}:{port}")
        return self._connect((own, self._free_port()), (target, port), process, server)

    def _is_refused(self, own: str, target: str) -> bool:
        """Every other time; no task twice in a row, whatever others do meanwhile: that is proof that no process
        listens.
        """
        if target in self.refusing:
            return True
        if target not in self.flaky:
            return False
        self._refused ^= {(own, target)}
        caller = asyncio.current_task(), target
        if (own, target) not in self._refused or caller in self._refused_tasks:
            self._refused_tasks.discard(caller)
            return False
        self._refused_tasks.add(caller)
        return True

    def _reaches(self, own: str, target: str) -> bool:
        is_cut = self.is_blocked(own, target) or self.is_blocked(target, own)
        return target in self._running and not is_cut

    def _connect(
        self, dialler: tuple[str, int], listener: tuple[str, int], process: Process | None, server: SimServer
    ) -> SimTransport:
        """Both ends; the accepting process gets its own when it runs."""
        self.connections_made += 1
        there, back = self.link(dialler[0], listener[0]), self.link(listener[0], dialler[0])
        ours = SimTransport(self, there, process, copy_context(), (dialler, listener))
        theirs = SimTransport(self, back, server.process, server.context, (listener, dialler))
        ours.peer, theirs.peer = theirs, ours
        self._transports.setdefault(process, {})[ours] = None
        self._transports.setdefault(server.process, {})[theirs] = None
        self.loop.call_soon(_accept, server, theirs, context=server.context)
        return ours

    def _close_listeners(self, process: Process) -> None:
        for address, server in list(self.listeners.items()):
            if server.process is process:
                del self.listeners[address]

    def _free_port(self) -> int:
        self._next_port += 1
        return EPHEMERAL_PORT_MIN + self._next_port % EPHEMERAL_PORTS


def _accept(server: SimServer, transport: SimTransport) -> None:
    if transport.is_closing():
        return
    protocol = server.factory()
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
