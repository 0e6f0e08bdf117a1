"""A network as a value: every limited link is shaped at both ends, and whatever is made is removed."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from tierfetch.bench.lab.topology import (
    BURST_BYTES,
    CORE,
    MACHINE,
    NAME_MAX,
    QUEUE_MS,
    End,
    Link,
    NetworkPlan,
    Topology,
    namespace_of,
    owners,
    plan_of,
    prefix_of,
    removal_of,
)

PREFIX, SUBNET = prefix_of(4_194_303, 99), "10.77.9"
RATES = st.none() | st.integers(1, 2000).map(lambda each: each * 1e5)


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    nodes = draw(st.lists(st.integers(1, 253), min_size=1, max_size=12, unique=True))
    racks = {node: draw(st.sampled_from("abc")) for node in nodes if draw(st.booleans())}
    return Topology(
        links={node: draw(RATES) for node in nodes},
        racks=racks,
        uplinks={rack: draw(RATES) for rack in sorted(set(racks.values()))},
        delay_s=draw(st.sampled_from([0.0, 0.005])),
    )


def planned(topology: Topology) -> NetworkPlan:
    return plan_of(topology, PREFIX, SUBNET)


def shaped(plan: NetworkPlan) -> list[tuple[str, str, str]]:
    """Namespace, interface and rate of each that is shaped."""
    return [
        (found[2] if found[1] == "-n" else MACHINE, found[found.index("dev") + 1], found[found.index("rate") + 1])
        for found in plan.setup()
        if found[0] == "tc"
    ]


@given(topologies())
def test_the_rate_of_a_link_is_set_at_both_ends(topology: Topology) -> None:
    plan = planned(topology)
    wanted = [
        (end.namespace, end.name, f"{round(link.bytes_per_s * 8)}bit")
        for link in plan.links
        if link.bytes_per_s is not None
        for end in link.ends
    ]
    assert sorted(shaped(plan)) == sorted(wanted)
    limited = [rate for rate in (*topology.links.values(), *topology.uplinks.values()) if rate is not None]
    assert len(wanted) == 2 * len(limited)


@given(topologies())
def test_whatever_is_made_is_removed(topology: Topology) -> None:
    """By its name, or with the namespace that it is in."""
    plan = planned(topology)
    made: set[tuple[str, str]] = set()
    for command in plan.setup():
        namespace = command[2] if command[1] == "-n" else MACHINE
        if command[:3] == ("ip", "netns", "add"):
            made.add(("namespace", command[3]))
        elif command[0] == "ip" and "type" in command:
            made.add((namespace, command[command.index("add") + 1]))
            if "peer" in command:
                made.add((command[-1], command[command.index("name") + 1]))
    removed = set(plan.removal())
    namespaces = {name for kind, name in made if kind == "namespace"}
    assert namespaces == set(plan.namespaces)
    for where, name in made:
        if where == "namespace":
            assert ("ip", "netns", "del", name) in removed
        elif where == MACHINE:
            assert ("ip", "link", "del", name) in removed
        else:
            assert where in namespaces
    assert len(removed) == len(namespaces) + 1, "nothing of the machine's own"


@given(topologies())
def test_a_dead_process_leaves_names_that_are_enough_to_remove_all(topology: Topology) -> None:
    plan = planned(topology)
    found = owners([*plan.namespaces, "tf-net", "tfx1-net", "other", "tf12n1", "xtf12n1-net"])
    assert found == {(4_194_303, 99): list(plan.namespaces)}
    assert set(removal_of(PREFIX, plan.namespaces)) == set(plan.removal())


@given(topologies())
def test_names_fit_the_kernel_and_are_there_once(topology: Topology) -> None:
    plan = planned(topology)
    ends = [end for link in plan.links for end in link.ends]
    interfaces = [(end.namespace, end.name) for end in ends] + [(each.namespace, each.name) for each in plan.bridges]
    assert len(set(interfaces)) == len(interfaces)
    assert all(len(name) <= NAME_MAX for _, name in interfaces)
    addresses = [end.address for end in ends if end.address is not None]
    assert len(set(addresses)) == len(addresses)


def between(plan: NetworkPlan, one: int, other: int) -> list[Link]:
    """The links on the way from one node to another: there is only one way."""
    places = {
        end: ("switch", end.bridge) if end.bridge else ("namespace", end.namespace)
        for link in plan.links
        for end in link.ends
    }
    goal = ("namespace", namespace_of(PREFIX, other))
    queue: deque[tuple[tuple[str, str], list[Link]]] = deque([(("namespace", namespace_of(PREFIX, one)), [])])
    while queue:
        place, way = queue.popleft()
        if place == goal:
            return way
        for link in plan.links:
            ends = [places[end] for end in link.ends]
            if place in ends and link not in way:
                queue.append((ends[1 - ends.index(place)], [*way, link]))
    raise AssertionError(f"no way from {one} to {other}")


@given(topologies())
def test_two_racks_are_an_uplink_each_apart_and_one_rack_none(topology: Topology) -> None:
    plan = planned(topology)
    one, other = min(topology.links), max(topology.links)
    if one == other:
        return
    rates = [link.bytes_per_s for link in between(plan, one, other)]
    racks = [topology.racks.get(each) for each in (one, other)]
    crossed = [topology.uplinks[rack] for rack in racks if rack is not None] if racks[0] != racks[1] else []
    assert rates == [topology.links[one], *crossed, topology.links[other]]


def test_a_link_as_commands() -> None:
    plan = planned(Topology({7: 1e6}, {7: "a"}, {"a": None}))
    net, namespace = f"{PREFIX}-net", f"{PREFIX}-7"
    shape = ("root", "tbf", "rate", "8000000bit", "burst", str(BURST_BYTES), "limit", str(2 * BURST_BYTES))
    assert list(plan.setup())[-7:] == [
        ("ip", "-n", net, "link", "add", "node7", "type", "veth", "peer", "name", "eth0", "netns", namespace),
        ("ip", "-n", net, "link", "set", "node7", "master", "rack0"),
        ("ip", "-n", net, "link", "set", "node7", "up"),
        ("tc", "-n", net, "qdisc", "add", "dev", "node7", *shape),
        ("ip", "-n", namespace, "addr", "add", f"{SUBNET}.7/24", "dev", "eth0"),
        ("ip", "-n", namespace, "link", "set", "eth0", "up"),
        ("tc", "-n", namespace, "qdisc", "add", "dev", "eth0", *shape),
    ]
    assert plan.links[0].ends == (
        End(net, "self", bridge=CORE),
        End(MACHINE, PREFIX, address=f"{SUBNET}.254"),
    )


def test_a_queue_holds_some_time_of_its_link() -> None:
    (limit, _) = (found[found.index("limit") + 1] for found in planned(Topology({7: 10e6})).setup() if found[0] == "tc")
    assert int(limit) == 10e6 * QUEUE_MS / 1000


@given(topologies())
def test_only_nodes_of_other_racks_are_far(topology: Topology) -> None:
    for node in topology.links:
        delays = topology.delays_to(node)
        assert all(topology.delays_to(other)[node] == delay_s for other, delay_s in delays.items())
        for other in topology.links:
            racks = {topology.racks.get(node), topology.racks.get(other)}
            is_far = len(racks) == 2 and None not in racks and topology.delay_s > 0
            assert (other in delays) == is_far
