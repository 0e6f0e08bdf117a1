"""Machines of their own for nodes of a cluster: network namespaces, each with a link to this one.

`@needs_namespaces` skips a test where the kernel, the user or the system refuses, and says why. A `Machine` can be cut
off, and its connections reset. A `FloatingAddress` is an address that whatever stands between two networks sends to one
machine or another, as a port map, a NAT or a balancer does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tierfetch.cli.local.cluster import CONTROLLER_ID, LocalCluster
from tierfetch.cli.local.nodes import LOOPBACK, TIERFETCH, LocalNodes
from tierfetch.cli.local.processes import poll
from tierfetch.cli.local.quorum import LocalQuorum
from tierfetch.tests.process.looks import image

AWAY: Final = 1
"""The broker on a machine of its own."""
BROKERS: Final = (1, 2, 3)
TIMEOUT_S: Final = 60.0
STEADY: Final = 2
"""The connections that a broker always has to the active controller."""
_PID: Final = os.getpid()


def ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


def why_not() -> str | None:
    """Return why no network namespace can be had here; None where it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None or shutil.which("ss") is None:
        return "no ip or ss command (Debian: apt-get install iproute2)"
    name = f"tierfetch-look-{_PID}"
    done = subprocess.run(["ip", "netns", "add", name], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        return f"no network namespaces: {done.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", name], check=False)
    return None


_WHY_NOT: Final = why_not()
needs_namespaces: Final = pytest.mark.skipif(_WHY_NOT is not None, reason=str(_WHY_NOT))


class Machine:
    """A network namespace, and the link to it: two addresses of a network of this process and number alone."""

    def __init__(self, number: int = 0, hosts: str | None = None) -> None:
        """`hosts`: what it has for /etc/hosts, if not that of this machine."""
        self.name = f"tierfetch-{_PID}-{number}"
        network, first = f"10.{77 + number}.{_PID % 256}.", _PID // 256 % 64 * 4
        self.here, self.there = f"{network}{first + 1}", f"{network}{first + 2}"
        self.link, self._far = (f"tf{_PID % 100_000}{number}{end}" for end in "ab")
        self._hosts = hosts
        self._names = Path("/etc/netns") / self.name

    def __enter__(self) -> Machine:
        try:
            self._set_up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _set_up(self) -> None:
        if self._hosts is not None:
            self._names.mkdir(parents=True)
            (self._names / "hosts").write_text(self._hosts)
        ip("netns", "add", self.name)
        ip("link", "add", self.link, "type", "veth", "peer", "name", self._far, "netns", self.name)
        ip("addr", "add", f"{self.here}/30", "dev", self.link)
        ip("link", "set", self.link, "up")
        ip("-n", self.name, "addr", "add", f"{self.there}/30", "dev", self._far)
        ip("-n", self.name, "link", "set", "lo", "up")
        ip("-n", self.name, "link", "set", self._far, "up")
        ip("-n", self.name, "route", "add", "default", "via", self.here)

    def __exit__(self, *_: object) -> None:
        subprocess.run(["ip", "link", "del", self.link], check=False)
        subprocess.run(["ip", "netns", "del", self.name], check=False)
        shutil.rmtree(self._names, ignore_errors=True)

    def cut(self) -> None:
        ip("link", "set", self.link, "down")

    def mend(self) -> None:
        ip("link", "set", self.link, "up")

    def runs(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs this one there."""
        return ["ip", "netns", "exec", self.name, *command]

    def connections_to(self, port: int) -> set[str]:
        """Return the local ends of what it has connected to this port."""
        return self._sockets("-tnH", "state", "established", "dport", "=", f":{port}")

    def reset_connections_to(self, port: int) -> None:
        """Both ends see them reset, as by a NAT that was restarted; wait until its broker has connected again, for its
        heartbeats and for the metadata log.
        """
        old = self.connections_to(port)
        self.kill_connections_to(port)
        for _ in poll(TIMEOUT_S, f"{STEADY} new connections in place of {sorted(old)}"):
            if len(self.connections_to(port) - old) >= STEADY:
                return

    def kill_connections_to(self, port: int) -> None:
        """As `reset_connections_to`, of a process that makes no new ones."""
        self._sockets("-K", "-tnH", "state", "established", "dport", "=", f":{port}")

    def _sockets(self, *arguments: str) -> set[str]:
        done = subprocess.run(self.runs(["ss", *arguments]), check=False, capture_output=True, text=True)
        return {line.split()[-2] for line in done.stdout.splitlines() if line.strip()}


class FloatingAddress:
    """An address that two machines have; what this machine sends there goes to the one that it was last `sent_to`."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self.address = f"10.76.{_PID % 256}.{_PID // 256 % 256}"
        for machine in machines:
            ip("-n", machine.name, "addr", "add", f"{self.address}/32", "dev", "lo")

    def send_to(self, machine: Machine) -> None:
        """The route goes when the machine's link does."""
        ip("route", "replace", f"{self.address}/32", "via", machine.there, "dev", machine.link)


class _Quorum(LocalQuorum):
    """Its controller serves at `here`."""

    here = LOOPBACK

    def host(self, node: int) -> str:
        return self.here

    def wait_serving(self, node: int) -> None:
        """The brokers wait for it."""


class WatchedCluster(LocalCluster):
    """A cluster that is looked at by the log of its controller's metadata, wherever its nodes are."""

    def wait_serving(self, node: int) -> None:
        self.wait_live({node})

    def wait_live(self, there: set[int] | frozenset[int] = frozenset(), gone: frozenset[int] = frozenset()) -> None:
        """Until these are not fenced, or are."""
        for _ in poll(TIMEOUT_S, f"brokers {set(there)} to serve and {set(gone)} to be fenced"):
            live = {number for number, broker in image(self).brokers.items() if not broker.fenced}
            if there <= live and not gone & live:
                return

    def wait_reached(self) -> None:
        """Until the controller has reached the listeners of the broker AWAY."""
        for _ in poll(TIMEOUT_S, f"broker {AWAY} to be reached"):
            if f"broker {AWAY}: its listeners are reached" in self._controller_log():
                return

    def is_fenced_on_proof(self) -> bool:
        return f"broker {AWAY} is dead: " in self._controller_log()

    def _controller_log(self) -> str:
        assert self.quorum is not None
        return self.quorum.log_file(CONTROLLER_ID).read_text()


class InsideCluster(WatchedCluster):
    """All of it on another machine, where `localhost` may be what it is on others."""

    def __init__(self, base: Path, machine: Machine, session_timeout_ms: int) -> None:
        super().__init__(base, BROKERS)
        assert self.quorum is not None
        configs = {"broker.session.timeout.ms": str(session_timeout_ms)}
        self.controller_port = int(self._controllers.rpartition(":")[2])
        self.quorum = _Quorum(
            base,
            1,
            configs=configs,
            command=lambda _, config: machine.runs([*TIERFETCH, "controller", "--config", str(config)]),
            first_id=CONTROLLER_ID,
            ports=[self.controller_port],
        )
        self._machine = machine

    def command(self, node: int, config: Path) -> Sequence[str]:
        return self._machine.runs(LocalNodes.command(self, node, config))


class SplitCluster(WatchedCluster):
    """As `LocalCluster`, with one broker on a machine of its own and all others beside the controller."""

    def __init__(self, base: Path, machine: Machine, session_timeout_ms: int = 3000) -> None:
        super().__init__(base, BROKERS)
        assert self.quorum is not None
        configs = {"broker.session.timeout.ms": str(session_timeout_ms)}
        self.controller_port = int(self._controllers.rpartition(":")[2])
        quorum = _Quorum(base, 1, configs=configs, first_id=CONTROLLER_ID, ports=[self.controller_port])
        quorum.here = machine.here
        self.quorum = quorum
        self._controllers = quorum.bootstrap_controllers
        self.machine = machine

    def host(self, node: int) -> str:
        return self.machine.there if node == AWAY else self.machine.here

    def properties(self, node: int) -> dict[str, str]:
        return super().properties(node) | {"metrics.host": LOOPBACK}

    def command(self, node: int, config: Path) -> Sequence[str]:
        command = LocalNodes.command(self, node, config)
        return self.machine.runs(command) if node == AWAY else command
