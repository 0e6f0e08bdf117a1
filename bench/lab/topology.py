"""A network as a value: who has a link of which rate, in which rack, and the commands that make and remove it. Pure.

    node N: namespace PREFIX-N, eth0, SUBNET.N
      |  its link
    switch of its rack  --  the rack's uplink  --  switch "core"  --  PREFIX, SUBNET.254: this process, without a limit
                                                    |  its link
                                                   node without a rack: controllers, clients, the store

All switches are bridges in one namespace, PREFIX-net, so that packet filters of the machine have no part in it. What is
made in the machine's own namespace is one interface, PREFIX; a namespace that is removed takes everything in it away.

A link with a rate is shaped at both ends, so in both directions, by a token bucket (`tc tbf`: with one class to a link
HTB would do the same): nothing delays but queues, which hold `QUEUE_MS` of bytes and drop what is above.

Invariants: each end of a limited link has its rate, and the same one; each thing made is removed by name, or within a
namespace that is; between nodes of two racks are both uplinks, between nodes of one rack none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

SELF: Final = 254
"""The last part of this process's own address."""
BURST_BYTES: Final = 64_000
QUEUE_MS: Final = 100
QUEUE_BYTES_MIN: Final = 2 * BURST_BYTES
"""A queue that one packet of the kernel's (64 KiB, before it is cut) does not fill."""
NAME_MAX: Final = 15
"""Characters of an interface's name."""
CORE: Final = "core"
MACHINE: Final = ""
"""The machine's own namespace."""
_OURS: Final = re.compile(r"tf(\d+)n(\d+)-(?:net|\d+)")
Command = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Topology:
    """What is wanted. Rates in bytes for each second, each way; None: no limit. A node without a rack is at the core.
    `delay_s`: one way, between nodes of two racks.
    """

    links: Mapping[int, float | None]
    racks: Mapping[int, str] = field(default_factory=dict)
    uplinks: Mapping[str, float | None] = field(default_factory=dict)
    delay_s: float = 0.0

    def __post_init__(self) -> None:
        odd = [node for node in self.links if not 0 < node < SELF]
        assert not odd, f"nodes are numbered from 1 to {SELF - 1}: {odd}"
        assert self.racks.keys() <= self.links.keys(), f"racks of nodes that are not there: {self.racks}"
        assert self.uplinks.keys() <= set(self.racks.values()), f"uplinks of racks without a node: {self.uplinks}"

    @property
    def rack_names(self) -> tuple[str, ...]:
        return tuple(sorted(set(self.racks.values())))

    def delays_to(self, node: int) -> dict[int, float]:
        """Return the nodes that are some way from this one, and how far; those that are not there are near."""
        if node not in self.racks or not self.delay_s:
            return {}
        return {other: self.delay_s for other, rack in self.racks.items() if rack != self.racks[node]}


@dataclass(frozen=True, slots=True)
class Bridge:
    """A switch."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class End:
    """One end of a link: on a switch, or with an address of its own."""

    namespace: str
    name: str
    bridge: str | None = None
    address: str | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """A pair of interfaces; what either of them sends has this rate."""

    ends: tuple[End, End]
    bytes_per_s: float | None


@dataclass(frozen=True, slots=True)
class NetworkPlan:
    """All that is made of a topology, in order."""

    namespaces: tuple[str, ...]
    bridges: tuple[Bridge, ...]
    links: tuple[Link, ...]

    def setup(self) -> Iterator[Command]:
        """The commands that make it; whatever of them has been carried out, `removal` takes it away."""
        for namespace in self.namespaces:
            yield "ip", "netns", "add", namespace
            yield "ip", "-n", namespace, "link", "set", "lo", "up"
        for bridge in self.bridges:
            yield *_ip(bridge.namespace), "link", "add", bridge.name, "type", "bridge"
            yield *_ip(bridge.namespace), "link", "set", bridge.name, "up"
        for link in self.links:
            yield from _made(link)

    def removal(self) -> Iterator[Command]:
        """The commands that remove it; those for what is not there fail, and the others have to be tried all the same.

        Interfaces of the machine come first: the kernel takes them away some time after their namespace's end.
        """
        for link in self.links:
            for end in link.ends:
                if end.namespace == MACHINE:
                    yield "ip", "link", "del", end.name
        for namespace in self.namespaces:
            yield "ip", "netns", "del", namespace


def plan_of(topology: Topology, prefix: str, subnet: str) -> NetworkPlan:
    """Return what is made for it, under names that begin with `prefix` and addresses that begin with `subnet`."""
    assert len(prefix) <= NAME_MAX, prefix
    net = f"{prefix}-net"
    switches = {rack: f"rack{number}" for number, rack in enumerate(topology.rack_names)}
    own = Link((End(net, "self", bridge=CORE), End(MACHINE, prefix, address=address_in(subnet, SELF))), None)
    uplinks = [Link(_uplink(net, switch), topology.uplinks.get(rack)) for rack, switch in switches.items()]
    links = [
        Link(
            (
                End(net, f"node{node}", bridge=switches[topology.racks[node]] if node in topology.racks else CORE),
                End(namespace_of(prefix, node), "eth0", address=address_in(subnet, node)),
            ),
            rate,
        )
        for node, rate in topology.links.items()
    ]
    return NetworkPlan(
        (net, *(namespace_of(prefix, node) for node in topology.links)),
        tuple(Bridge(net, name) for name in (CORE, *switches.values())),
        (own, *uplinks, *links),
    )


def _uplink(net: str, switch: str) -> tuple[End, End]:
    return End(net, f"{switch}up", bridge=switch), End(net, f"{switch}down", bridge=CORE)


def namespace_of(prefix: str, node: int) -> str:
    return f"{prefix}-{node}"


def address_in(subnet: str, node: int) -> str:
    return f"{subnet}.{node}"


def _made(link: Link) -> Iterator[Command]:
    near, far = sorted(link.ends, key=lambda end: end.namespace != MACHINE)  # which has no name to send an end to
    peer = ("peer", "name", far.name, "netns", far.namespace)
    yield *_ip(near.namespace), "link", "add", near.name, "type", "veth", *peer
    for end in link.ends:
        if end.bridge is not None:
            yield *_ip(end.namespace), "link", "set", end.name, "master", end.bridge
        if end.address is not None:
            yield *_ip(end.namespace), "addr", "add", f"{end.address}/24", "dev", end.name
        yield *_ip(end.namespace), "link", "set", end.name, "up"
        if link.bytes_per_s is not None:
            yield _shaped(end, link.bytes_per_s)


def _shaped(end: End, bytes_per_s: float) -> Command:
    tool = ("tc",) if end.namespace == MACHINE else ("tc", "-n", end.namespace)
    rate = f"{round(bytes_per_s * 8)}bit"
    queue = str(max(QUEUE_BYTES_MIN, round(bytes_per_s * QUEUE_MS / 1000)))
    shape = ("tbf", "rate", rate, "burst", str(BURST_BYTES), "limit", queue)
    return *tool, "qdisc", "add", "dev", end.name, "root", *shape


def _ip(namespace: str) -> Command:
    return ("ip",) if namespace == MACHINE else ("ip", "-n", namespace)


# --- what earlier processes have left ---------------------------------------------------------------------------------


def prefix_of(pid: int, serial: int) -> str:
    """Return what the names of a process's network begin with: no two networks share it."""
    return f"tf{pid}n{serial}"


def owners(namespaces: Iterable[str]) -> dict[tuple[int, int], list[str]]:
    """Return the networks that these namespaces belong to, by process and serial; others are none of ours."""
    found: dict[tuple[int, int], list[str]] = {}
    for name in namespaces:
        if (match := _OURS.fullmatch(name)) is not None:
            found.setdefault((int(match[1]), int(match[2])), []).append(name)
    return found


def removal_of(prefix: str, namespaces: Iterable[str]) -> Iterator[Command]:
    """The commands that remove what a process was killed too soon to remove."""
    yield "ip", "link", "del", prefix
    for name in namespaces:
        yield "ip", "netns", "del", name
