"""Where the console may listen, and which Host headers may ask it.

The console has no users and no passwords: who reaches its port sees topics, groups and addresses. So it listens on
loopback alone, unless the operator says otherwise. A page of another site must not read it through a name that it has
resolve to loopback (DNS rebinding): a request whose Host header names neither the listener nor a host that the operator
allowed is refused.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection

from ...errors import OperatorError


class ListenRefusedError(OperatorError):
    """The address is not loopback, and the operator did not say that this is meant."""


def check_listen(host: str, *, is_remote_allowed: bool) -> None:
    """Raise ListenRefusedError if others than this machine could reach the console without having been allowed to."""
    if is_loopback(host) or is_remote_allowed:
        return
    raise ListenRefusedError(
        f"{host} is not loopback: the console has no passwords, so everybody who reaches the port would see topics,"
        " groups and addresses. Use an SSH tunnel (ssh -L), or give --allow-remote if a proxy in front of it decides"
        " who may enter"
    )


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the host; a name other than localhost may resolve to anything."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def allowed_hosts(host: str, extra: Collection[str] = ()) -> frozenset[str]:
    """Return the names that a Host header may have, in lower case and without a port."""
    own = {"localhost", "127.0.0.1", "::1"} if is_loopback(host) else set()
    return frozenset(name.lower().strip("[]") for name in (*own, host, *extra))


def host_name(header: str) -> str:
    """Return the name in a Host header, in lower case and without the port; "" for what is none."""
    text = header.strip().lower()
    if text.startswith("["):
        name, bracket, port = text[1:].partition("]")
        return name if bracket and (not port or _is_port(port)) else ""
    name, colon, port = text.partition(":")
    return name if not colon or _is_port(f":{port}") else ""


def _is_port(text: str) -> bool:
    return text.startswith(":") and text[1:].isascii() and text[1:].isdigit()
