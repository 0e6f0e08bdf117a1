"""Network namespaces with shaped links: each node of a cluster in one of its own, racks with uplinks, distances.

`topology` says what is made, and how; here it is done, and undone: at the end of the `with` block, whatever ends it.
Signals wait until that is over. Of a process that was killed before it could, the next one removes what it has left. It
needs root and a kernel that has all of that: `refusal` says why not.

Kernels without netem delay nothing, so distances are relays (`relay`): a broker listens on its namespace's loopback
interface and advertises its address, where a relay of its own hands on what comes from other racks some ms later, and
back. Nothing else is delayed. A relay accepts for a broker that is dead, and closes: clients never see its host refuse.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, Self

from tierfetch.cli.local import LocalNodes, captured
from tierfetch.cli.local.nodes import LOOPBACK
from tierfetch.protocol import OperatorError

from .child import accepts, started
from .topology import (
    SELF,
    Command,
    Topology,
    address_in,
    namespace_of,
    owners,
    plan_of,
    prefix_of,
    removal_of,
)

COMMAND_TIMEOUT_S: Final = 20.0
NETS: Final = range(64, 128)
SUBNETS: Final = 250
NAMESPACES: Final = Path("/run/netns")
"""Where `ip netns` keeps the names."""
PROBE: Final = Topology({1: 1e6}, {1: "a"}, {"a": 1e6})
_serials: Final = itertools.count(1)
_HELD_BACK: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class NetworkRefusedError(OperatorError):
    """This machine makes no such network; the message says what it refused."""


class ShapedNetwork:
    """`with ShapedNetwork(topology) as network:` has a namespace for each node. NetworkRefusedError."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        serial = next(_serials)
        self._prefix = prefix_of(os.getpid(), serial)
        self._subnet = f"10.{NETS[serial % len(NETS)]}.{os.getpid() % SUBNETS}"
        self._plan = plan_of(topology, self._prefix, self._subnet)

    def address(self, node: int) -> str:
        return address_in(self._subnet, node)

    @property
    def own_address(self) -> str:
        return self.address(SELF)

    def inside(self, node: int, command: Sequence[str]) -> list[str]:
        """Return what runs the command in the node's namespace."""
        return ["ip", "netns", "exec", namespace_of(self._prefix, node), *command]

    def broker_configs(self, broker: int, port: int) -> dict[str, str]:
        """Return what a broker that listens on this port has to know of its place."""
        rack = self.topology.racks.get(broker)
        configs = {} if rack is None else {"broker.rack": rack}
        if self.topology.delays_to(broker):
            configs["listeners"] = f"PLAINTEXT://{LOOPBACK}:{port}"
            configs["advertised.listeners"] = f"PLAINTEXT://{self.address(broker)}:{port}"
        return configs

    @contextmanager
    def relays(self, ports: Mapping[int, int], base: Path) -> Iterator[None]:
        """Run the relays before these brokers, each on its port, as long as the block lasts; their output is below
        `base`.
        """
        with ExitStack() as stack:
            for broker, port in ports.items():
                if delays := self.topology.delays_to(broker):
                    of_address = {self.address(other): delay_s for other, delay_s in delays.items()}
                    stack.enter_context(self.relay(broker, port, (LOOPBACK, port), base, of_address=of_address))
            yield

    @contextmanager
    def relay(
        self,
        node: int,
        port: int,
        target: tuple[str, int],
        base: Path,
        delay_s: float = 0.0,
        of_address: Mapping[str, float] | None = None,
    ) -> Iterator[None]:
        """Run a relay at a port of the node's address, to `target` in its namespace, as long as the block lasts."""
        host, target_port = target
        where = self.address(node), port
        arguments = (*map(str, where), host, str(target_port), str(delay_s), json.dumps(of_address or {}))
        command = self.inside(node, [sys.executable, "-m", "tierfetch.bench.lab.relay", *arguments])
        base.mkdir(parents=True, exist_ok=True)
        name, log, is_ready = f"the relay before node {node}", base / f"relay-{node}.log", partial(accepts, *where)
        with started(name, command, log, is_ready, NetworkRefusedError):
            yield

    def __enter__(self) -> Self:
        remove_abandoned()
        try:
            for command in self._plan.setup():
                _run(*command)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        _run_all(self._plan.removal())


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
        with ShapedNetwork(PROBE):
            return ""
    except NetworkRefusedError as error:
        return str(error)


def remove_abandoned() -> None:
    """Remove the networks of processes that are dead."""
    names = sorted(os.listdir(NAMESPACES)) if NAMESPACES.is_dir() else []
    for (pid, serial), namespaces in owners(names).items():
        if not Path(f"/proc/{pid}").exists():
            _run_all(removal_of(prefix_of(pid, serial), namespaces))


def _run_all(commands: Iterable[Command]) -> None:
    """Run each of them, whatever becomes of the others; a signal waits, for the commands too."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD_BACK)
    try:
        for command in commands:
            with suppress(NetworkRefusedError):
                _run(*command)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run(*command: str) -> None:
    try:
        done = captured(command, timeout_s=COMMAND_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NetworkRefusedError(f"{' '.join(command)}: {error}") from None
    if done.returncode != 0:
        raise NetworkRefusedError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
