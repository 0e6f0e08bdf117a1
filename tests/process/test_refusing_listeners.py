"""Fast failover at its edges, on machines of their own (network namespaces): what refuses a controller is not dead yet.

| what stands between | the controller sees | so |
|---|---|---|
| a port map or NAT that refuses the controller | refusals by an address never reached | the session decides |
| the same, from some time on | refusals by an address once reached | a live broker beats at once |
| a name with two addresses | an answer, maybe by one of the two; then refusals | proof of a death |
| another process with the same id and address | one of the two, as routes lead | no ISR is left empty |
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import confluent_kafka.admin
import pytest

from tierfetch.broker.cluster.lifecycle import REGISTRATION_RETRY_S
from tierfetch.cli.local.nodes import TIERFETCH
from tierfetch.cli.local.processes import Processes, poll
from tierfetch.tests.process.looks import image
from tierfetch.tests.process.namespaces import (
    AWAY,
    BROKERS,
    TIMEOUT_S,
    FloatingAddress,
    InsideCluster,
    Machine,
    SplitCluster,
    needs_namespaces,
)

pytestmark = [pytest.mark.faults, needs_namespaces]

RESETS: Final = 5
LONG_SESSION_MS: Final = 10 * int(TIMEOUT_S) * 1000
"""Far beyond what the tests wait for: what happens before is for another reason."""
ASKED_OFTEN_S: Final = 20 * REGISTRATION_RETRY_S
ALONE, TOGETHER = "alone", "together"
"""A topic whose only replica is the broker AWAY, and one that all brokers have."""


class Wide(NamedTuple):
    """A broker behind an address that leads to its own machine or to another one."""

    machine: Machine
    other: Machine
    address: FloatingAddress

    def cluster(self, base: Path, session_timeout_ms: int = 3000) -> SplitCluster:
        cluster = SplitCluster(base, self.machine, session_timeout_ms)
        port = cluster.port(AWAY)
        cluster.broker_configs[AWAY] = {
            "listeners": f"PLAINTEXT://0.0.0.0:{port}",
            "advertised.listeners": f"PLAINTEXT://{self.address.address}:{port}",
        }
        return cluster


@pytest.fixture
def wide() -> Iterator[Wide]:
    with Machine(0) as machine, Machine(1) as other:
        yield Wide(machine, other, FloatingAddress([machine, other]))


def create(cluster: SplitCluster, topic: str, brokers: list[int]) -> None:
    """By one of the brokers beside the controller, and with its decision: the log has what it decided before."""
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": f"{cluster.machine.here}:{cluster.port(2)}"})
    new = confluent_kafka.admin.NewTopic(topic, 1, replica_assignment=[brokers])
    admin.create_topics([new], request_timeout=TIMEOUT_S)[topic].result(TIMEOUT_S)


def state(cluster: SplitCluster) -> dict[str, tuple[int, tuple[int, ...], int]]:
    """Leader, ISR and partition epoch, which grows with each change of the two."""
    partitions = {topic: image(cluster).topics[topic].partitions[0] for topic in (ALONE, TOGETHER)}
    return {topic: (each.leader, tuple(each.isr), each.partition_epoch) for topic, each in partitions.items()}


@pytest.mark.parametrize("is_reached_first", [False, True], ids=["never", "at first"])
def test_C1_a_live_broker_that_refuses_the_controller_is_never_fenced(
    is_reached_first: bool, wide: Wide, tmp_path: Path
) -> None:
    wide.address.send_to(wide.machine if is_reached_first else wide.other)
    with wide.cluster(tmp_path, LONG_SESSION_MS) as cluster:
        if is_reached_first:
            cluster.wait_reached()
        create(cluster, ALONE, [AWAY])
        create(cluster, TOGETHER, [AWAY])
        before = state(cluster)
        wide.address.send_to(wide.other)
        for _ in range(RESETS):
            wide.machine.reset_connections_to(cluster.controller_port)
        create(cluster, "after", [2])
        assert state(cluster) == before
        assert not cluster.is_fenced_on_proof()


@pytest.mark.parametrize("is_reached_first", [False, True], ids=["never", "at first"])
def test_C1_a_refusal_is_proof_by_an_address_that_was_reached_only(
    is_reached_first: bool, wide: Wide, tmp_path: Path
) -> None:
    """A broker that cannot beat at once, because it is frozen."""
    wide.address.send_to(wide.machine if is_reached_first else wide.other)
    with wide.cluster(tmp_path) as cluster:
        if is_reached_first:
            cluster.wait_reached()
        wide.address.send_to(wide.other)
        cluster.process(AWAY).send_signal(signal.SIGSTOP)
        wide.machine.kill_connections_to(cluster.controller_port)
        cluster.wait_live(gone=frozenset({AWAY}))
        assert cluster.is_fenced_on_proof() == is_reached_first
        cluster.process(AWAY).send_signal(signal.SIGCONT)
        cluster.wait_live(set(BROKERS))


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="the kernel has no IPv6")
@pytest.mark.parametrize("bound", ["localhost", "127.0.0.1"])
def test_C1_a_dead_broker_with_two_addresses_is_fenced_on_proof(bound: str, tmp_path: Path) -> None:
    """`localhost` with both families, of which the broker serves both or one: the other has always refused."""
    with Machine(hosts="127.0.0.1 localhost\n::1 localhost\n") as machine:
        look = "import socket; print(*{found[4][0] for found in socket.getaddrinfo('localhost', 1)})"
        found = subprocess.run(machine.runs([TIERFETCH[0], "-c", look]), check=True, capture_output=True, text=True)
        assert set(found.stdout.split()) == {"127.0.0.1", "::1"}
        cluster = InsideCluster(tmp_path, machine, LONG_SESSION_MS)
        for broker in BROKERS:
            port = cluster.port(broker)
            cluster.broker_configs[broker] = {
                "listeners": f"PLAINTEXT://{bound}:{port}",
                "advertised.listeners": f"PLAINTEXT://localhost:{port}",
            }
        with cluster:
            cluster.wait_reached()
            cluster.kill(AWAY)
            cluster.wait_live(gone=frozenset({AWAY}))
            assert cluster.is_fenced_on_proof()
            cluster.start(AWAY)
            cluster.wait_live(set(BROKERS))


@pytest.fixture
def processes() -> Iterator[Processes]:
    processes = Processes()
    yield processes
    processes.kill_all()


def test_C1_a_second_process_with_the_same_id_and_address_empties_no_isr(
    wide: Wide, tmp_path: Path, processes: Processes
) -> None:
    wide.address.send_to(wide.machine)
    with wide.cluster(tmp_path / "cluster", LONG_SESSION_MS) as cluster:
        cluster.wait_reached()
        create(cluster, ALONE, [AWAY])
        create(cluster, TOGETHER, list(BROKERS))
        before = state(cluster)
        log, config = tmp_path / "second.log", tmp_path / "second.properties"
        properties = cluster.properties(AWAY) | {"log.dirs": str(tmp_path / "second")}
        config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        processes.start(AWAY, wide.other.runs([*TIERFETCH, "broker", "--config", str(config)]), log)
        for _ in poll(TIMEOUT_S, "the second process to be refused"):
            if "a broker with this node.id is alive" in log.read_text():
                break

        for _ in range(RESETS):
            wide.machine.reset_connections_to(cluster.controller_port)
        create(cluster, "after", [2])
        assert state(cluster) == before, "it beats at once"

        wide.address.send_to(wide.other)
        cluster.process(AWAY).send_signal(signal.SIGSTOP)
        wide.machine.kill_connections_to(cluster.controller_port)
        cluster.wait_live(gone=frozenset({AWAY}))
        assert cluster.is_fenced_on_proof(), "with proof, but it is alive"
        for waited_s in poll(TIMEOUT_S, "the second process to have asked often"):
            assert state(cluster)[ALONE][1] == (AWAY,), "the only copy"
            if waited_s > ASKED_OFTEN_S:
                break
        cluster.process(AWAY).send_signal(signal.SIGCONT)
        cluster.wait_live(set(BROKERS))
        for _ in poll(TIMEOUT_S, f"{ALONE} to have its leader again"):
            if state(cluster)[ALONE][:2] == (AWAY, (AWAY,)):
                break

        for _ in range(RESETS):
            wide.machine.reset_connections_to(cluster.controller_port)
        create(cluster, "last", [2])
        assert state(cluster)[ALONE][:2] == (AWAY, (AWAY,)), "wherever the address leads"
        assert "registered with broker epoch" not in log.read_text()
