"""Listens, and serves the application until Ctrl-C, which ends it at once: no connection is waited for."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn
from starlette.types import ASGIApp

CONNECTIONS_MAX: Final = 200
KEEP_ALIVE_S: Final = 10
BACKLOG: Final = 64


def listener(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to the address; port 0 takes a free one. OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


def url_of(host: str, listening: socket.socket) -> str:
    """Return the address for a browser; `host` as the operator wrote it."""
    port = listening.getsockname()[1]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


class _Server(uvicorn.Server):
    """Leaves signals to the command: they cancel `serve`, and open connections are dropped."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _is_no_cancellation(record: logging.LogRecord) -> bool:
    """Whether a line of uvicorn's log says more than that a request was dropped at the end."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, asyncio.CancelledError)


async def serve(app: ASGIApp, listening: socket.socket) -> None:
    """Serve until cancelled."""
    config = uvicorn.Config(
        app,
        access_log=False,
        date_header=False,
        h11_max_incomplete_event_size=16 << 10,
        http="h11",
        lifespan="off",
        limit_concurrency=CONNECTIONS_MAX,
        log_config=None,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        ws="none",
    )
    logging.getLogger("uvicorn.error").addFilter(_is_no_cancellation)
    server = _Server(config)
    try:
        await server.serve(sockets=[listening])
    finally:
        for accepting in getattr(server, "servers", ()):  # a browser whose stream is cut off connects again at once
            accepting.close()
        for connection in tuple(server.server_state.connections):
            connection.transport.abort()
