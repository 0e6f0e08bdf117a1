"""How a node dials: to an address that another node has named, which may be none; and over TLS.

dialled -> handshake, where there is TLS -> the connection's protocol
    |           | fails: the peer gets TLS's alert, then the connection is closed
    | what is no address at all (a name that IDNA cannot encode, a port out of range) is an OSError like any other
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import TypeVar

from ...security import tls_failure
from .tls_transport import AlertingTls

ProtocolT = TypeVar("ProtocolT", bound=asyncio.BaseProtocol)


async def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host's name. OSError."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (ValueError, OverflowError) as error:
        raise _no_address(host, port, error) from None
    return [str(address[0]) for *_, address in found]


async def connect(make: Callable[[], ProtocolT], host: str, port: int) -> tuple[asyncio.Transport, ProtocolT]:
    """Return a TCP connection's transport and its protocol. OSError."""
    try:
        return await asyncio.get_running_loop().create_connection(make, host, port)
    except (ValueError, OverflowError) as error:
        raise _no_address(host, port, error) from None


async def dial(make: Callable[[], ProtocolT], host: str, port: int, context: ssl.SSLContext | None) -> ProtocolT:
    """Return a connected protocol, over TLS if there is a `context`. OSError, also if the handshake fails."""
    if context is None:
        _, plain = await connect(make, host, port)
        return plain
    transport, _ = await connect(asyncio.Protocol, host, port)
    loop = asyncio.get_running_loop()
    protocol, done = make(), loop.create_future()
    try:
        tls = AlertingTls(loop, protocol, context, done, server_side=False, server_hostname=host)
        transport.set_protocol(tls)
        tls.connection_made(transport)
        await done
    except (OSError, ValueError) as error:
        transport.close()
        raise ConnectionError(f"TLS handshake failed: {tls_failure(error)}") from error
    except BaseException:
        transport.abort()
        raise
    return protocol


def _no_address(host: str, port: int, error: Exception) -> OSError:
    return OSError(f"{host[:300]!r} with port {port} is no address ({error})")
