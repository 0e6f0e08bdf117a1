"""One cluster of two brokers or more, ours or Apache Kafka's, whose tier is a directory that can be made slow and
narrow, or an S3 server (ours, in a network that limits).

What a scenario needs is set as the cluster's dynamic configs, so that one cluster serves for all scenarios, and a
capture reads there what holds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final

from tierfetch.cli.cluster_session import Admin, check
from tierfetch.cli.cluster_session import run as run_admin
from tierfetch.cli.local import LocalCluster, LocalQuorum, TierSettings, captured, free_ports, poll
from tierfetch.model import System
from tierfetch.plugins.local import STORAGE_DIRECTORY
from tierfetch.protocol.messages.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from tierfetch.protocol.net import Address
from tierfetch.protocol.wire import ResourceType

from ..lab.jars import kafka_jars
from ..lab.kafka import CONTROLLER_ID, KafkaCluster
from ..lab.network import InNamespaces, ShapedNetwork
from ..lab.s3 import BUCKET, s3_server
from ..systems import Cluster
from ..workload import admin
from .scenario import CLIENTS, CONTROLLER, REPLACED, STORE, Scenario

LEADER: Final = 1
FOLLOWER: Final = REPLACED
PLUGIN: Final = Path(__file__).resolve().parent / "slow_plugin"
JAVA_PLUGIN: Final = "SlowTieredStorage"
INTERNAL_TOPIC: Final = "__remote_log_metadata"
START_TIMEOUT_S: Final = 60.0
assert CONTROLLER == CONTROLLER_ID
LATENCY_FILE: Final = "latency-ms"
RATE_FILE: Final = "bytes-per-s"
"""What both plugins read in the tier's directory."""
REPLICATION: Final = "rlmm.config.remote.log.metadata.topic.replication.factor"
INTERNAL_REPLICAS: Final = 2
INTERNAL_REPLICAS_BEHIND: Final = 3
"""The tier's metadata have so many: one is in sync even while broker 2 is wiped and another one is frozen."""
SESSION_S: Final = 2.5
HEARTBEAT_S: Final = 0.5
CONTROLLER_CONFIGS: Final = {"broker.session.timeout.ms": str(int(SESSION_S * 1000))}
"""The shorter session saves time: what passes before a dead broker is fenced is no part of a replacement's figure, and
a failover's is predicted for it.
"""
CONFIGS: Final = {
    "broker.heartbeat.interval.ms": str(int(HEARTBEAT_S * 1000)),
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "1000",
}
_SET, _DELETE = 0, 1


@dataclass(slots=True)
class Lab:
    """A running cluster, and what was set in it."""

    system: System
    cluster: Cluster
    base: Path
    brokers: int
    objects: Path
    """Where the tier's objects are files."""
    network: ShapedNetwork | None = None
    internal_replicas: int = INTERNAL_REPLICAS
    _configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def broker_ids(self) -> range:
        return range(1, self.brokers + 1)

    @property
    def bootstrap(self) -> str:
        return str(self.address)

    @property
    def address(self) -> Address:
        return Address(self.cluster.host(LEADER), self.cluster.port(LEADER))

    def by_clients(self, command: Sequence[str]) -> list[str]:
        """Return what runs the command where clients are."""
        return list(command) if self.network is None else self.network.inside(CLIENTS, command)

    def set_tier(self, latency_ms: int, mb_s: float | None) -> None:
        """From now on each read waits so long first, and all brokers together get so much through; None: no limit."""
        _write_tier(self.base / "tier", latency_ms, mb_s)

    def set_configs(self, configs: Mapping[str, str]) -> None:
        """These of all brokers, and none of those that were set before."""
        set_to = {**dict.fromkeys(sorted(self._configs.keys() - configs.keys())), **configs}
        changes = tuple(
            IncrementalAlterConfigsRequestAlterableConfig(
                name=key, config_operation=_DELETE if value is None else _SET, value=value
            )
            for key, value in set_to.items()
        )

        async def alter(admin: Admin) -> None:
            resource = IncrementalAlterConfigsRequestAlterConfigsResource(
                resource_type=ResourceType.BROKER, resource_name="", configs=changes
            )
            request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
            (result,) = (await admin.send(request)).responses
            check(result, f"configs {dict(configs)}")

        if changes:
            run_admin((self.bootstrap,), alter)
        self._configs = dict(configs)


@contextmanager
def running(system: System, base: Path, scenario: Scenario) -> Iterator[Lab]:
    """The cluster, in a network of its own where the scenario has one. KafkaUnavailableError where there are no jars,
    S3UnavailableError where there is no store, NetworkRefusedError where there are no such networks.
    """
    topology = scenario.topology
    with ExitStack() as stack:
        network = None if topology is None else stack.enter_context(ShapedNetwork(topology))
        objects = base / "tier" / STORAGE_DIRECTORY
        if system == "tierfetch":
            tier = TierSettings("slow-local", {"dir": str(base / "tier")})
            if network is not None and scenario.store_mb_s is not None:
                tier, objects = stack.enter_context(_store(base, network, scenario.latency_ms / 1000))
            cluster = stack.enter_context(_tierfetch(base, scenario, network, tier))
        else:
            cluster = stack.enter_context(_kafka(base, scenario, network))
        lab = Lab(system, cluster, base, scenario.brokers, objects, network, internal_replicas(scenario))
        wait_complete(lab)
        yield lab


def internal_replicas(scenario: Scenario) -> int:
    """Return how many replicas the partitions of the tier's metadata have."""
    return INTERNAL_REPLICAS if scenario.laggard is None else INTERNAL_REPLICAS_BEHIND


def _configs_of(scenario: Scenario) -> dict[str, str]:
    return CONFIGS | {REPLICATION: str(internal_replicas(scenario))}


@contextmanager
def _store(base: Path, network: ShapedNetwork, latency_s: float) -> Iterator[tuple[TierSettings, Path]]:
    """Run an S3 server at its place in the network, so far away; yields how brokers use it, and where objects are."""
    (port,) = free_ports(1)
    inside = partial(network.inside, STORE)
    with s3_server(base / "s3", network.address(STORE), inside) as server:
        if not latency_s:
            yield TierSettings("s3", server.options()), server.directory / BUCKET
            return
        with network.relay(STORE, port, (server.host, server.port), base.parent, latency_s / 2):
            yield TierSettings("s3", server.options(port)), server.directory / BUCKET


def wait_complete(lab: Lab) -> None:
    """Until all brokers know all, and the topic of the tier's metadata is whole."""
    for broker in lab.broker_ids:
        client = admin(lab.cluster, broker)
        for _ in poll(START_TIMEOUT_S, f"broker {broker} to know the whole cluster", 0.1):
            found = client.list_topics(timeout=10)
            internal = found.topics.get(INTERNAL_TOPIC)
            isrs = [] if internal is None else [part.isrs for part in internal.partitions.values()]
            is_whole = isrs and all(len(isr) == lab.internal_replicas for isr in isrs)
            if is_whole and len(found.brokers) == lab.brokers:
                break


class _Quorum(InNamespaces, LocalQuorum):
    """Ours."""


class _Brokers(InNamespaces, LocalCluster):
    """Ours."""


class _Kafka(InNamespaces, KafkaCluster):
    """Apache Kafka's."""


@contextmanager
def placed(
    cluster: InNamespaces,
    configs: MutableMapping[int, dict[str, str]],
    racks: Mapping[int, str],
    network: ShapedNetwork | None,
) -> Iterator[None]:
    """Give the brokers among these nodes their racks, their places in the network, and what delays whatever comes to
    them.
    """
    cluster.network = network
    for broker, rack in racks.items():
        configs.setdefault(broker, {})["broker.rack"] = rack
    if network is None:
        yield
        return
    ports = {node: cluster.port(node) for node in cluster.nodes if node != CONTROLLER_ID}
    for broker, port in ports.items():
        configs.setdefault(broker, {}).update(network.broker_configs(broker, port))
    with network.relays(ports, cluster.base.parent):
        yield


@contextmanager
def _tierfetch(base: Path, scenario: Scenario, network: ShapedNetwork | None, tier: TierSettings) -> Iterator[Cluster]:
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{PLUGIN}{os.pathsep}{before}" if before else str(PLUGIN)
    _write_tier(base / "tier", 0, None)
    try:
        quorum = _Quorum(base, 1, first_id=CONTROLLER_ID, configs=CONTROLLER_CONFIGS)
        quorum.network = network
        with quorum:
            where = quorum.bootstrap_controllers
            configs = _configs_of(scenario)
            cluster = _Brokers(base, scenario.broker_ids, tier=tier, configs=configs, controllers=where)
            with placed(cluster, cluster.broker_configs, scenario.rack_of, network), cluster:
                yield cluster
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


@contextmanager
def _kafka(base: Path, scenario: Scenario, network: ShapedNetwork | None) -> Iterator[Cluster]:
    classes = _compiled()
    configs = {
        "remote.log.storage.manager.class.name": JAVA_PLUGIN,
        "remote.log.storage.manager.class.path": str(classes),
        "log.initial.task.delay.ms": "500",  # else nothing is trimmed in a broker's first 30 s
    }
    cluster = _Kafka(base, scenario.broker_ids, broker_configs=_configs_of(scenario) | configs)
    cluster.node_configs[CONTROLLER_ID] = dict(CONTROLLER_CONFIGS)
    with placed(cluster, cluster.node_configs, scenario.rack_of, network), cluster:
        yield cluster


def _compiled() -> Path:
    """Return the directory of the plugin's classes, kept beside Kafka's jars: a session has many clusters."""
    source = PLUGIN / f"{JAVA_PLUGIN}.java"
    classes = kafka_jars() / f"{JAVA_PLUGIN}-{sha256(source.read_bytes()).hexdigest()[:16]}"
    if classes.exists():
        return classes
    new = classes.with_name(f"{classes.name}.{os.getpid()}")
    command = ["javac", "-nowarn", "-cp", f"{kafka_jars()}/*", "-d", str(new), str(source)]
    done = captured(command)
    if done.returncode != 0:
        raise RuntimeError(f"javac: {done.stderr or done.stdout}")
    if not classes.exists():
        new.rename(classes)
    return classes


def _write_tier(tier: Path, latency_ms: int, mb_s: float | None) -> None:
    tier.mkdir(parents=True, exist_ok=True)
    for name, value in ((LATENCY_FILE, latency_ms), (RATE_FILE, 0 if mb_s is None else round(mb_s * 1e6))):
        new = tier / f"{name}.new"
        new.write_text(str(value))
        new.replace(tier / name)
