"""A broker on a machine of its own (a network namespace): its network is cut, its connections are reset, another
process takes its name, or its process dies.

To a controller a dead process refuses a connect, a network that is cut says nothing: the first is fenced on proof, the
second when its session ends. A live one whose advertised address refuses the controller (NAT, port maps) is neither.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from tierfetch.cli.local.cluster import CONTROLLER_ID, LocalCluster
from tierfetch.cli.local.nodes import TIERFETCH, LocalNodes
from tierfetch.cli.local.processes import free_ports, poll
from tierfetch.cli.local.quorum import LocalQuorum
from tierfetch.tests.process.looks import image

AWAY: Final = 1
"""The broker in the namespace."""
BROKERS: Final = (1, 2, 3)
TIMEOUT_S: Final = 60.0
RESETS: Final = 5
"""After one reset a live broker was once fenced within 31 ms."""
STOPPED_S: Final = 1.0
_NETWORK: Final = f"10.77.{os.getpid() % 256}.", os.getpid() // 256 % 64 * 4
HERE, THERE = (f"{_NETWORK[0]}{_NETWORK[1] + number}" for number in (1, 2))
"""A network of four addresses of this process alone."""


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def why_not() -> str | None:
    """Return why no network namespace can be had here; None where it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "no ip command (Debian: apt-get install iproute2)"
    name = f"tierfetch-look-{os.getpid()}"
    done = subprocess.run(["ip", "netns", "add", name], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        return f"no network namespaces: {done.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", name], check=False)
    return None


pytestmark = [pytest.mark.faults, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]


class Machine:
    """A network namespace, and the link to it."""

    def __init__(self) -> None:
        self.name = f"tierfetch-{os.getpid()}"
        self._link, self._far = f"tf{os.getpid() % 100_000}a", f"tf{os.getpid() % 100_000}b"

    def __enter__(self) -> Machine:
        ip("netns", "add", self.name)
        ip("link", "add", self._link, "type", "veth", "peer", "name", self._far, "netns", self.name)
        ip("addr", "add", f"{HERE}/30", "dev", self._link)
        ip("link", "set", self._link, "up")
        ip("-n", self.name, "addr", "add", f"{THERE}/30", "dev", self._far)
        ip("-n", self.name, "link", "set", "lo", "up")
        ip("-n", self.name, "link", "set", self._far, "up")
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["ip", "link", "del", self._link], check=False)
        subprocess.run(["ip", "netns", "del", self.name], check=False)

    def cut(self) -> None:
        ip("link", "set", self._link, "down")

    def mend(self) -> None:
        ip("link", "set", self._link, "up")

    def run(self, *command: str) -> list[str]:
        """Run it there; returns the lines that it has printed."""
        there = ["ip", "netns", "exec", self.name, *command]
        return subprocess.run(there, check=True, capture_output=True, text=True).stdout.splitlines()

    def connections_to(self, port: int) -> set[str]:
        """Its own ends of the established connections to that port, each as ADDRESS:PORT."""
        lines = self.run("ss", "-Htn", "state", "established", f"( dport = :{port} )")
        return {line.split()[2] for line in lines}

    def reset_connections_to(self, port: int) -> None:
        """Reset them at both ends, as a firewall does; skips where the kernel cannot (CONFIG_INET_DIAG_DESTROY)."""
        before = self.connections_to(port)
        assert before, f"no connection to {port}"
        self.run("ss", "-HKtn", "state", "established", f"( dport = :{port} )")
        if before & self.connections_to(port):
            pytest.skip("this kernel does not reset connections (ss -K)")


class _Quorum(LocalQuorum):
    def properties(self, node: int) -> dict[str, str]:
        return {key: value.replace("127.0.0.1", HERE) for key, value in super().properties(node).items()}

    def wait_serving(self, node: int) -> None:
        """The brokers wait for it."""


class _Cluster(LocalCluster):
    """As `LocalCluster`, with one broker in a namespace and all others beside the controller."""

    def __init__(self, base: Path, machine: Machine) -> None:
        super().__init__(base, BROKERS)
        assert self.quorum is not None
        self.quorum = _Quorum(base, 1, configs=self.quorum.configs, first_id=CONTROLLER_ID, ports=[self.quorum_port])
        self._machine = machine

    @property
    def quorum_port(self) -> int:
        return int(self._controllers.rpartition(":")[2])

    def properties(self, node: int) -> dict[str, str]:
        found = {key: value.replace("127.0.0.1", HERE) for key, value in super().properties(node).items()}
        own = THERE if node == AWAY else HERE
        return found | {"listeners": found["listeners"].replace(HERE, own)}

    def command(self, node: int, config: Path) -> Sequence[str]:
        command = LocalNodes.command(self, node, config)
        return ["ip", "netns", "exec", self._machine.name, *command] if node == AWAY else command

    def wait_serving(self, node: int) -> None:
        self.wait_live({node})

    def wait_live(self, there: set[int] | frozenset[int] = frozenset(), gone: frozenset[int] = frozenset()) -> None:
        """Until these are not fenced, or are."""
        for _ in poll(TIMEOUT_S, f"brokers {set(there)} to serve and {set(gone)} to be fenced"):
            live = {number for number, broker in image(self).brokers.items() if not broker.fenced}
            if there <= live and not gone & live:
                return

    def reset_and_reconnect(self, times: int) -> None:
        """Reset the heartbeats' connection of the broker in the namespace, and wait until it has another, again and
        again.
        """
        port = self.quorum_port
        for _ in range(times):
            before = self._machine.connections_to(port)
            self._machine.reset_connections_to(port)
            for _ in poll(TIMEOUT_S, f"broker {AWAY} to connect again"):
                if self._machine.connections_to(port) - before:
                    break

    def is_fenced_on_proof(self) -> bool:
        assert self.quorum is not None
        return f"broker {AWAY} is dead: " in self.quorum.log_file(CONTROLLER_ID).read_text()


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        yield machine


@pytest.fixture
def cluster(tmp_path: Path, machine: Machine) -> Iterator[_Cluster]:
    with _Cluster(tmp_path, machine) as cluster:
        yield cluster


@pytest.fixture
def mapped(tmp_path: Path, machine: Machine) -> Iterator[_Cluster]:
    """The broker in the namespace advertises an address that refuses the controller."""
    cluster = _Cluster(tmp_path, machine)
    cluster.broker_configs[AWAY] = {"advertised.listeners": f"PLAINTEXT://{HERE}:{free_ports(1)[0]}"}
    with cluster:
        yield cluster


def test_C1_a_live_broker_behind_a_port_map_is_not_fenced(mapped: _Cluster, machine: Machine) -> None:
    mapped.reset_and_reconnect(RESETS)
    process = mapped.process(AWAY)
    process.send_signal(signal.SIGSTOP)  # it cannot say that it lives, for less than its session
    machine.reset_connections_to(mapped.quorum_port)
    time.sleep(STOPPED_S)
    process.send_signal(signal.SIGCONT)
    mapped.wait_live(set(BROKERS))
    assert not mapped.is_fenced_on_proof()


def test_C1_a_second_process_with_the_same_id_and_address_replaces_no_live_broker(
    cluster: _Cluster, machine: Machine, tmp_path: Path
) -> None:
    before_epoch, own = image(cluster).brokers[AWAY].epoch, cluster.port(AWAY)
    config = tmp_path / "second.properties"
    changes = {
        "log.dirs": str(tmp_path / "second"),
        "listeners": f"PLAINTEXT://{THERE}:0",
        "advertised.listeners": f"PLAINTEXT://{THERE}:{own}",
        "metrics.port": "0",
        "initial.broker.registration.timeout.ms": "4000",
    }
    properties = cluster.properties(AWAY) | changes
    config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    command = ["ip", "netns", "exec", machine.name, *TIERFETCH, "broker", "--config", str(config)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as second:
        assert second.stderr is not None
        said = "".join(iter_until(second.stderr, "not registered yet"))
        cluster.reset_and_reconnect(RESETS)
        said += second.stderr.read()
    assert second.returncode == 1, said
    assert f"broker {AWAY} is registered by another process that is alive" in said
    cluster.wait_live(set(BROKERS))
    assert image(cluster).brokers[AWAY].epoch == before_epoch, "nobody else was registered"
    assert not cluster.is_fenced_on_proof()


def iter_until(lines: Iterable[str], text: str) -> Iterator[str]:
    """Yield lines up to the one that has the text."""
    for line in lines:
        yield line
        if text in line:
            return


def test_C1_a_network_that_is_cut_is_no_death(cluster: _Cluster, machine: Machine) -> None:
    machine.cut()
    cluster.wait_live(gone=frozenset({AWAY}))
    assert not cluster.is_fenced_on_proof(), "its session had to end"
    machine.mend()
    cluster.wait_live(set(BROKERS))
    assert not cluster.is_fenced_on_proof()


def test_C1_a_process_that_dies_on_another_machine_is_fenced_on_proof(cluster: _Cluster) -> None:
    cluster.kill(AWAY)
    cluster.wait_live(gone=frozenset({AWAY}))
    assert cluster.is_fenced_on_proof()
    cluster.start(AWAY)
    cluster.wait_live(set(BROKERS))
