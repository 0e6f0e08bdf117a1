"""A port of loopback that is known before anything listens on it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

LOOPBACK: Final = "127.0.0.1"


@contextmanager
def reserved_port() -> Iterator[int]:
    """Yield a port that the kernel gives to no other socket, and that a node of this machine can listen on."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as reservation:
        reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reservation.bind((LOOPBACK, 0))
        yield reservation.getsockname()[1]
