"""One cluster of two brokers, ours or Apache Kafka's, whose tier is a directory that can be made slow.

What a scenario needs is set as the cluster's dynamic configs, so that one cluster serves for all scenarios, and a
capture reads there what holds.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tierfetch.cli.cluster_session import Admin, check
from tierfetch.cli.cluster_session import run as run_admin
from tierfetch.cli.local import LocalCluster, LocalQuorum, TierSettings, poll
from tierfetch.model import System
from tierfetch.protocol.messages.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from tierfetch.protocol.net import Address
from tierfetch.protocol.wire import ResourceType

from ..lab.jars import kafka_jars
from ..lab.kafka import CONTROLLER_ID, KafkaCluster
from ..systems import Cluster
from ..workload import admin

LEADER: Final = 1
FOLLOWER: Final = 2
PLUGIN: Final = Path(__file__).resolve().parent / "slow_plugin"
JAVA_PLUGIN: Final = "SlowTieredStorage"
INTERNAL_TOPIC: Final = "__remote_log_metadata"
START_TIMEOUT_S: Final = 60.0
LATENCY_FILE: Final = "latency-ms"
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
    _configs: Mapping[str, str]

    @property
    def bootstrap(self) -> str:
        return str(self.address)

    @property
    def address(self) -> Address:
        return Address("127.0.0.1", self.cluster.port(LEADER))

    def set_tier_latency(self, latency_ms: int) -> None:
        _write_latency(self.base / "tier", latency_ms)

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
def running(system: System, base: Path) -> Iterator[Lab]:
    """KafkaUnavailableError where there are no jars."""
    with _tierfetch(base) if system == "tierfetch" else _kafka(base) as cluster:
        wait_complete(cluster)
        yield Lab(system, cluster, base, {})


def wait_complete(cluster: Cluster) -> None:
    """Until both brokers know both, and the topic of the tier's metadata is whole."""
    for broker in (LEADER, FOLLOWER):
        client = admin(cluster, broker)
        for _ in poll(START_TIMEOUT_S, f"broker {broker} to know the whole cluster", 0.1):
            found = client.list_topics(timeout=10)
            internal = found.topics.get(INTERNAL_TOPIC)
            if len(found.brokers) == 2 and internal and all(len(p.isrs) == 2 for p in internal.partitions.values()):
                break


@contextmanager
def _tierfetch(base: Path) -> Iterator[Cluster]:
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{PLUGIN}{os.pathsep}{before}" if before else str(PLUGIN)
    _write_latency(base / "tier", 0)
    tier = TierSettings("slow-local", {"dir": str(base / "tier")})
    try:
        with LocalQuorum(base, 1, first_id=CONTROLLER_ID, configs=CONTROLLER_CONFIGS) as quorum:
            where = quorum.bootstrap_controllers
            with LocalCluster(base, (LEADER, FOLLOWER), tier=tier, configs=CONFIGS, controllers=where) as cluster:
                yield cluster
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


@contextmanager
def _kafka(base: Path) -> Iterator[Cluster]:
    classes = base.parent / f"{base.name}-classes"
    configs = {
        "remote.log.storage.manager.class.name": JAVA_PLUGIN,
        "remote.log.storage.manager.class.path": str(classes),
        "log.initial.task.delay.ms": "500",  # else nothing is trimmed in a broker's first 30 s
    }
    _compile(classes)
    cluster = KafkaCluster(base, (LEADER, FOLLOWER), broker_configs=CONFIGS | configs)
    cluster.node_configs[CONTROLLER_ID] = dict(CONTROLLER_CONFIGS)
    with cluster:
        yield cluster


def _compile(classes: Path) -> None:
    source = PLUGIN / f"{JAVA_PLUGIN}.java"
    command = ["javac", "-nowarn", "-cp", f"{kafka_jars()}/*", "-d", str(classes), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"javac: {done.stderr or done.stdout}")


def _write_latency(tier: Path, latency_ms: int) -> None:
    tier.mkdir(parents=True, exist_ok=True)
    new = tier / f"{LATENCY_FILE}.new"
    new.write_text(str(latency_ms))
    new.replace(tier / LATENCY_FILE)
