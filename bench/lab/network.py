"""Network namespaces with shaped links: each node of a cluster in one of its own, on an interface with a rate.

    node N, namespace PREFIX-N, 10.77.X.N  <- veth, a rate each way ->  bridge PREFIX, 10.77.X.254: this process

Token buckets alone (`tc tbf`): nothing delays but queues, which hold `QUEUE_MS` of bytes and drop what is above. What
the process itself sends and gets has no rate. It needs root and a kernel that has all of that: `refusal` says why not.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from tierfetch.cli.local import LocalNodes
from tierfetch.protocol import OperatorError

BRIDGE: Final = 254
BURST_BYTES: Final = 64_000
QUEUE_MS: Final = 100
COMMAND_TIMEOUT_S: Final = 20.0
SUBNETS: Final = 250
PROBE_BYTES_PER_S: Final = 1e6


class NetworkRefusedError(OperatorError):
    """This machine makes no such network; the message says what it refused."""


class ShapedNetwork:
    """`with ShapedNetwork({1: 10e6, 2: 10e6, 100: None}) as network:` has namespaces for these nodes, each with its
    rate in bytes for each second, either way; None: no limit. NetworkRefusedError.
    """

    def __init__(self, rates: Mapping[int, float | None]) -> None:
        assert all(0 < node < BRIDGE for node in rates), rates
        self._rates = dict(rates)
        self._prefix = f"tf{os.getpid() % 100_000}"
        self._subnet = f"10.77.{os.getpid() % SUBNETS}"

    def address(self, node: int) -> str:
        return f"{self._subnet}.{node}"

    @property
    def own_address(self) -> str:
        return self.address(BRIDGE)

    def inside(self, node: int, command: Sequence[str]) -> list[str]:
        """Return what runs the command in the node's namespace."""
        return ["ip", "netns", "exec", self._name(node), *command]

    def __enter__(self) -> Self:
        try:
            _run("ip", "link", "add", self._prefix, "type", "bridge")
            _run("ip", "addr", "add", f"{self.own_address}/24", "dev", self._prefix)
            _run("ip", "link", "set", self._prefix, "up")
            for node, rate in self._rates.items():
                self._add(node, rate)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in self._rates:
            with suppress(NetworkRefusedError):
                _run("ip", "netns", "del", self._name(node))
            with suppress(NetworkRefusedError):  # at once: the kernel takes an interface away some time after its peer
                _run("ip", "link", "del", self._name(node))
        with suppress(NetworkRefusedError):
            _run("ip", "link", "del", self._prefix)

    def _add(self, node: int, rate: float | None) -> None:
        namespace = link = self._name(node)
        _run("ip", "netns", "add", namespace)
        _run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        _run("ip", "link", "set", link, "master", self._prefix, "up")
        _run("ip", "-n", namespace, "addr", "add", f"{self.address(node)}/24", "dev", "eth0")
        for interface in ("eth0", "lo"):
            _run("ip", "-n", namespace, "link", "set", interface, "up")
        if rate is not None:
            speed = ("rate", f"{round(rate * 8)}bit", "burst", str(BURST_BYTES), "latency", f"{QUEUE_MS}ms")
            shape = ("root", "tbf", *speed)
            _run("tc", "qdisc", "add", "dev", link, *shape)
            _run("tc", "-n", namespace, "qdisc", "add", "dev", "eth0", *shape)

    def _name(self, node: int) -> str:
        """Return what its namespace and this end of its link are called."""
        return f"{self._prefix}-{node}"


class InNamespaces(LocalNodes):
    """Nodes that run in the namespaces of `network`, if there is one."""

    network: ShapedNetwork | None = None

    def host(self, node: int) -> str:
        return super().host(node) if self.network is None else self.network.address(node)

    def command(self, node: int, config: Path) -> Sequence[str]:
        command = super().command(node, config)
        return command if self.network is None else self.network.inside(node, command)


def refusal() -> str:
    """Return why no shaped network can be made here; "" if one can."""
    missing = [name for name in ("ip", "tc") if shutil.which(name) is None]
    if missing:
        return f"there is no {' and no '.join(missing)} (iproute2)"
    try:
        with ShapedNetwork({1: PROBE_BYTES_PER_S}):
            return ""
    except NetworkRefusedError as error:
        return str(error)


def rates_of(brokers: Iterable[int], controller: int, links_mb_s: float) -> dict[int, float | None]:
    """Return the rates of brokers on equal links, and of a controller on none."""
    return {**dict.fromkeys(brokers, links_mb_s * 1e6), controller: None}


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NetworkRefusedError(f"{' '.join(command)}: {error}") from None
    if done.returncode != 0:
        raise NetworkRefusedError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
