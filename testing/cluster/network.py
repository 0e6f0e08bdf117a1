"""A network of one node that can be cut: an event loop whose sockets and selector obey a switch.

| state   | existing connections         | new ones, in                     | new ones, out              |
|---------|------------------------------|----------------------------------|----------------------------|
| OPEN    | work                         | are accepted                     | are made                   |
| STALLED | stay; no byte moves          | wait in the kernel's backlog     | wait                       |
| REFUSED | were shut down, as by resets | are closed as soon as they come  | ConnectionRefusedError     |
| DEAD    | were shut down               | are refused by the kernel        | ConnectionRefusedError     |

DEAD has no way back: it is what remains of a killed process. A cable that was pulled is STALLED: peers notice by
timeouts only.

A transport writes to its socket directly before it asks the selector, so both are needed: a `_Socket` refuses to send,
and the `_Selector` reports nothing that a level-triggered poll would report again and again.
"""

from __future__ import annotations

import asyncio
import selectors
import socket
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, SupportsIndex
from weakref import WeakSet

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike, ReadableBuffer


class Network(Enum):
    """See the module's table."""

    OPEN = auto()
    STALLED = auto()
    REFUSED = auto()
    DEAD = auto()


class _Switch:
    """What the sockets of one node look at."""

    def __init__(self) -> None:
        self.state = Network.OPEN
        self.sockets: WeakSet[_Socket] = WeakSet()


class _Socket(socket.socket):
    """A TCP socket of the node."""

    _switch: _Switch | None = None

    def of(self, switch: _Switch) -> _Socket:
        self._switch = switch
        switch.sockets.add(self)
        return self

    def _check(self) -> None:
        if self._switch is not None and self._switch.state is not Network.OPEN:
            raise BlockingIOError("the network of this node is cut")

    def send(self, data: ReadableBuffer, flags: int = 0, /) -> int:
        self._check()
        return super().send(data, flags)

    def sendmsg(self, buffers: Any, *rest: Any) -> int:
        self._check()
        return super().sendmsg(buffers, *rest)

    def accept(self) -> tuple[socket.socket, Any]:
        """Return a socket that obeys the same switch. BlockingIOError for one that is closed at once."""
        assert self._switch is not None
        if self._switch.state is Network.DEAD:
            raise BlockingIOError("dead")
        descriptor, address = self._accept()  # type: ignore[attr-defined]  # as socket.accept does
        accepted = _Socket(self.family, self.type, self.proto, fileno=descriptor)
        if self._switch.state is Network.REFUSED:
            accepted.close()
            raise BlockingIOError("refused")
        return accepted.of(self._switch), address

    def is_listening(self) -> bool:
        return bool(self.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))

    def cut(self, state: Network) -> None:
        """Shut the connection down; a listener only for good. Closed sockets are left alone."""
        with suppress(OSError):
            if state is Network.DEAD or not self.is_listening():
                self.shutdown(socket.SHUT_RDWR)

    def __hash__(self) -> int:
        return id(self)


def _descriptor(fileobj: FileDescriptorLike) -> int:
    return fileobj if isinstance(fileobj, int) else fileobj.fileno()


class _Selector(selectors.DefaultSelector):
    """While held, only what is not a `_Socket` is reported: the loop's own wake-ups."""

    def __init__(self) -> None:
        super().__init__()
        self._held: dict[int, selectors.SelectorKey] | None = None
        self.sockets: set[int] = set()
        """The descriptors that are held while the network is stalled."""

    def register(self, fileobj: FileDescriptorLike, events: int, data: Any = None) -> selectors.SelectorKey:
        descriptor = _descriptor(fileobj)
        if self._held is None or descriptor not in self.sockets:
            return super().register(fileobj, events, data)
        key = self._held[descriptor] = selectors.SelectorKey(fileobj, descriptor, events, data)
        return key

    def unregister(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        descriptor = _descriptor(fileobj)
        if self._held is not None and descriptor in self._held:
            return self._held.pop(descriptor)
        return super().unregister(fileobj)

    def modify(self, fileobj: FileDescriptorLike, events: int, data: Any = None) -> selectors.SelectorKey:
        descriptor = _descriptor(fileobj)
        if self._held is not None and descriptor in self._held:
            key = self._held[descriptor] = selectors.SelectorKey(fileobj, descriptor, events, data)
            return key
        return super().modify(fileobj, events, data)

    def get_key(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        descriptor = _descriptor(fileobj)
        if self._held is not None and descriptor in self._held:
            return self._held[descriptor]
        return super().get_key(fileobj)

    def get_map(self) -> Mapping[FileDescriptorLike, selectors.SelectorKey]:
        known: Mapping[FileDescriptorLike, selectors.SelectorKey] = super().get_map()
        if not self._held:
            return known
        every: dict[FileDescriptorLike, selectors.SelectorKey] = {key.fd: key for key in known.values()}
        every |= {key.fd: key for key in self._held.values()}
        return every

    def hold(self) -> None:
        if self._held is None:
            self._held = {}
            for key in [key for key in super().get_map().values() if key.fd in self.sockets]:
                super().unregister(key.fileobj)
                self._held[key.fd] = key

    def release(self) -> None:
        held, self._held = self._held or {}, None
        for key in held.values():
            super().register(key.fileobj, key.events, key.data)


class NodeLoop(asyncio.SelectorEventLoop):
    """The event loop of one node. `set_network` is called on its thread."""

    def __init__(self) -> None:
        self._selector_of_node = _Selector()
        super().__init__(self._selector_of_node)
        self._switch = _Switch()

    @property
    def network(self) -> Network:
        return self._switch.state

    def set_network(self, state: Network) -> None:
        if self._switch.state is Network.DEAD:
            return
        self._switch.state = state
        if state is Network.STALLED:
            self._selector_of_node.sockets = {each.fileno() for each in self._switch.sockets if each.fileno() >= 0}
            self._selector_of_node.hold()
            return
        self._selector_of_node.release()
        if state is not Network.OPEN:
            for each in list(self._switch.sockets):
                each.cut(state)

    def _socket(self) -> _Socket:
        created = _Socket(socket.AF_INET, socket.SOCK_STREAM).of(self._switch)
        created.setblocking(False)
        return created

    def close(self) -> None:
        """Close every socket too, as the end of a process does: a killed node is cancelled before it closes its own."""
        super().close()
        for each in list(self._switch.sockets):
            each.close()

    async def create_connection(  # the forms that the product uses
        self, protocol_factory: Any, host: str | None = None, port: int | None = None, **options: Any
    ) -> tuple[Any, Any]:
        """Connect as the base class does, by a socket that can be cut. Stalled: wait until the network is back."""
        while self._switch.state is Network.STALLED:  # noqa: ASYNC110 - a switch that another thread turns
            await asyncio.sleep(0.01)
        if self._switch.state is not Network.OPEN:
            raise ConnectionRefusedError(f"{host}:{port}: the network of this node is cut")
        sock = self._socket()
        try:
            await self.sock_connect(sock, (host, port))
            return await super().create_connection(protocol_factory, sock=sock, **options)
        except BaseException:
            sock.close()
            raise

    async def create_server(  # type: ignore[override]  # the forms that the product uses
        self, protocol_factory: Any, host: str | None = None, port: SupportsIndex = 0, **options: Any
    ) -> asyncio.Server:
        """Listen as the base class does, on a socket that can be cut."""
        sock = self._socket()
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host or "127.0.0.1", int(port)))
            return await super().create_server(protocol_factory, sock=sock, **options)
        except BaseException:
            sock.close()
            raise
