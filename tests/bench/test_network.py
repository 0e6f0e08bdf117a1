"""Shaped networks: what is asked of the kernel, and what is left of it."""

from __future__ import annotations

import subprocess

import pytest

from tierfetch.bench.lab import network
from tierfetch.bench.lab.network import NetworkRefusedError, ShapedNetwork, rates_of, refusal


def said(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def test_brokers_have_links_and_the_controller_none() -> None:
    assert rates_of([1, 2], 100, 12.5) == {1: 12.5e6, 2: 12.5e6, 100: None}


def test_what_the_machine_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network.shutil, "which", lambda name: None)
    assert refusal() == "there is no ip and no tc (iproute2)"


def test_what_the_kernel_refuses_is_said_and_nothing_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def run(*command: str) -> None:
        asked.append(" ".join(command))
        if command[:3] == ("ip", "netns", "add"):
            raise NetworkRefusedError("Operation not permitted")

    monkeypatch.setattr(network, "_run", run)
    with pytest.raises(NetworkRefusedError, match="not permitted"), ShapedNetwork({1: 1e6}):
        raise AssertionError("it was refused")
    assert [each for each in asked if " del " in each] != []
    monkeypatch.setattr(network.shutil, "which", lambda name: name)
    assert refusal() == "Operation not permitted"


def test_each_node_has_an_address_and_a_rate_either_way_until_the_end() -> None:
    if why := refusal():
        pytest.skip(f"no shaped networks here: {why}")
    with ShapedNetwork({1: 1e6, 2: None}) as made:
        assert f"{made.address(1)}/24" in said(*made.inside(1, ["ip", "addr", "show", "dev", "eth0"]))
        assert "rate 8Mbit" in said(*made.inside(1, ["tc", "qdisc", "show", "dev", "eth0"]))
        assert "rate 8Mbit" in said("tc", "qdisc", "show", "dev", made._name(1))
        assert "tbf" not in said(*made.inside(2, ["tc", "qdisc", "show", "dev", "eth0"]))
        reached = made.inside(1, ["ip", "route", "get", made.own_address])
        assert "dev eth0" in said(*reached)
    assert made._prefix not in said("ip", "link", "show")
    assert made._prefix not in said("ip", "netns", "list")
