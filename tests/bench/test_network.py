"""Shaped networks: what is asked of the kernel, and what is left of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierfetch.bench.lab import network
from tierfetch.bench.lab.network import NetworkRefusedError, ShapedNetwork, refusal, remove_abandoned
from tierfetch.bench.lab.topology import Topology
from tierfetch.cli.local import free_ports

TWO_RACKS = Topology({1: 1e6, 2: 1e6, 100: None}, {1: "a", 2: "b"}, {"a": 0.5e6, "b": None}, delay_s=0.25)
WAIT_S = 20.0


def said(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def left_of(prefix: str) -> str:
    """What the kernel still has of a network."""
    found = said("ip", "-o", "link", "show") + said("ip", "netns", "list")
    return "\n".join(line for line in found.splitlines() if prefix in line)


@pytest.fixture
def can_shape() -> None:
    if why := refusal():
        pytest.skip(f"no shaped networks here: {why}")


@pytest.fixture
def made(can_shape: None) -> Iterator[ShapedNetwork]:
    with ShapedNetwork(TWO_RACKS) as found:
        yield found


def test_what_the_machine_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network.shutil, "which", lambda name: None)
    assert refusal() == "there is no ip and no tc (iproute2)"


def test_what_the_kernel_refuses_is_said_and_nothing_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def run(*command: str) -> None:
        asked.append(command)
        if command[0] == "tc":
            raise NetworkRefusedError("Operation not permitted")

    monkeypatch.setattr(network, "_run", run)
    monkeypatch.setattr(network, "remove_abandoned", lambda: None)
    with pytest.raises(NetworkRefusedError, match="not permitted"), ShapedNetwork(TWO_RACKS):
        raise AssertionError("it was refused")
    added = {command[3] for command in asked if command[:3] == ("ip", "netns", "add")}
    assert {command[3] for command in asked if command[:3] == ("ip", "netns", "del")} == added
    monkeypatch.setattr(network.shutil, "which", lambda name: name)
    assert refusal() == "Operation not permitted"


def test_a_removal_that_fails_does_not_keep_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def run(*command: str) -> None:
        asked.append(command)
        if "del" in command:
            raise NetworkRefusedError("not there")

    monkeypatch.setattr(network, "_run", run)
    monkeypatch.setattr(network, "remove_abandoned", lambda: None)
    with ShapedNetwork(TWO_RACKS):
        asked.clear()
    assert len(asked) == 1 + len(TWO_RACKS.links) + 1


def test_nodes_have_their_rate_either_way_and_racks_too_until_the_end(can_shape: None) -> None:
    with ShapedNetwork(TWO_RACKS) as made:
        prefix = made._prefix
        net = f"{prefix}-net"
        assert f"{made.address(1)}/24" in said(*made.inside(1, ["ip", "addr", "show", "dev", "eth0"]))
        assert "rate 8Mbit" in said(*made.inside(1, ["tc", "qdisc", "show", "dev", "eth0"]))
        assert "rate 8Mbit" in said("tc", "-n", net, "qdisc", "show", "dev", "node1")
        assert "rate 4Mbit" in said("tc", "-n", net, "qdisc", "show", "dev", "rack0up")
        assert "rate 4Mbit" in said("tc", "-n", net, "qdisc", "show", "dev", "rack0down")
        assert "tbf" not in said(*made.inside(100, ["tc", "qdisc", "show", "dev", "eth0"]))
        assert left_of(prefix) != ""
    assert left_of(prefix) == ""


SENDING = """
import socket, sys, threading, time
here, there, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
listener = socket.create_server((here, 7001)) if there == "-" else None
if listener is not None:
    print("listening", flush=True)
    got, began = 0, None
    connection, _ = listener.accept()
    while piece := connection.recv(1 << 16):
        began = began or time.monotonic()
        got += len(piece)
    print(got / (time.monotonic() - began), flush=True)
else:
    with socket.create_connection((there, 7001)) as connection:
        connection.sendall(bytes(size))
"""


def test_bytes_between_racks_take_the_time_of_the_uplink(made: ShapedNetwork) -> None:
    """Half of what the links of both brokers could do."""
    python = [sys.executable, "-c", SENDING]
    receiving = subprocess.Popen(
        made.inside(2, [*python, made.address(2), "-", "0"]), stdout=subprocess.PIPE, text=True
    )
    assert receiving.stdout is not None
    try:
        assert receiving.stdout.readline() == "listening\n"
        subprocess.run(made.inside(1, [*python, made.address(1), made.address(2), "700000"]), check=True)
        assert 0.05e6 < float(receiving.stdout.readline()) < 0.7e6
    finally:
        receiving.kill()
        receiving.wait()
        receiving.stdout.close()


def test_a_broker_that_is_far_listens_behind_a_relay(made: ShapedNetwork, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    assert made.broker_configs(1, port) == {
        "broker.rack": "a",
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "advertised.listeners": f"PLAINTEXT://{made.address(1)}:{port}",
    }
    echo = f"import socket\nc, _ = socket.create_server(('127.0.0.1', {port})).accept()\nc.sendall(c.recv(9))"
    ask = (
        f"import socket, time\nc = socket.create_connection(('{made.address(1)}', {port}))\nbegan = time.monotonic()\n"
        "c.sendall(b'x')\nassert c.recv(9) == b'x'\nprint(time.monotonic() - began)"
    )
    with made.relays({1: port}, tmp_path):
        for node, is_far in ((2, True), (100, False)):
            answering = subprocess.Popen(made.inside(1, [sys.executable, "-c", echo]))
            try:
                deadline_s = time.monotonic() + WAIT_S
                while f"127.0.0.1:{port}" not in said(*made.inside(1, ["ss", "-Hltn"])):
                    assert time.monotonic() < deadline_s
                    time.sleep(0.02)
                took_s = float(said(*made.inside(node, [sys.executable, "-c", ask])))
                assert (took_s >= 0.5) == is_far
            finally:
                answering.kill()
                answering.wait()


def test_a_broker_that_is_near_needs_no_relay() -> None:
    near = ShapedNetwork(Topology({1: 1e6, 2: 1e6}, {1: "a", 2: "a"}, {"a": None}, delay_s=0.02))
    assert near.broker_configs(1, 9092) == {"broker.rack": "a"}
    assert ShapedNetwork(Topology({1: 1e6})).broker_configs(1, 9092) == {}


HOLDING = """
import sys, time
from tierfetch.bench.lab.network import ShapedNetwork
from tierfetch.bench.lab.topology import Topology
with ShapedNetwork(Topology({1: 1e6, 2: 1e6}, {1: "a", 2: "b"}, {"a": 1e6})) as made:
    print(made._prefix, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("ends", [signal.SIGINT, signal.SIGKILL])
def test_a_process_that_ends_leaves_nothing_or_the_next_one_removes_it(can_shape: None, ends: signal.Signals) -> None:
    holding = subprocess.Popen(
        [sys.executable, "-c", HOLDING], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert holding.stdout is not None
    try:
        prefix = holding.stdout.readline().strip()
        assert prefix.startswith(f"tf{holding.pid}n")
        assert left_of(prefix) != ""
        os.kill(holding.pid, ends)
        holding.wait(WAIT_S)
        if ends is signal.SIGKILL:
            assert left_of(prefix) != ""
            remove_abandoned()
        assert left_of(prefix) == ""
    finally:
        holding.kill()
        holding.wait()
        holding.stdout.close()
        remove_abandoned()
