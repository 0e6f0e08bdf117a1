"""A Kafka cluster on loopback: one controller, some brokers, tiering on `LocalTieredStorage`.

Node 100 is the controller. Everything lives below one base directory; every process is ours and stopped by us.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from tierfetch.cli.local import LocalNodes, NodeFailedError, end_with_parent, free_ports, poll
from tierfetch.cli.random_uuid import new_id

from .jars import kafka_jars

CONTROLLER_ID = 100
START_TIMEOUT_S = 90.0
TOOL_TIMEOUT_S = 300.0
SERVER_JVM: Final = ("-Xms256m", "-XX:+UseG1GC")
"""As `kafka-server-start.sh` runs a broker: for what is measured."""
SHORT_LIVED_JVM: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Starts with half the CPU time and takes less memory: for a JVM that lives no longer than a test."""
TIER_READY_TIMEOUT_S = 60.0
_TIER_READY: Final = b"Initialized topic-based RLMM resources successfully"
_PROTOCOLS = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"


def run_tool(main_class: str, *arguments: str, heap: str = "256m", stdin: str = "") -> str:
    """Run one of Kafka's tools; returns its whole output. RuntimeError with that output if it fails.

    The first one that is a client leaves the classes that it has loaded in an archive: those after it start in half the
    CPU time.
    """
    archive = kafka_jars() / "client-classes.jsa"
    new = archive.with_name(f"{archive.name}.{os.getpid()}")
    makes = not archive.exists() and "--bootstrap-server" in arguments
    sharing = f"-XX:ArchiveClassesAtExit={new}" if makes else f"-XX:SharedArchiveFile={archive}"
    jvm = [*SHORT_LIVED_JVM, "-Xlog:disable", sharing, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    done = subprocess.run(
        ["java", f"-Xmx{heap}", *jvm, "-cp", f"{kafka_jars()}/*", main_class, *arguments],
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=TOOL_TIMEOUT_S,
        check=False,
        preexec_fn=end_with_parent(),
    )
    if new.exists():
        new.replace(archive)
    if done.returncode != 0:
        raise RuntimeError(f"{main_class} {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


class KafkaFailedError(NodeFailedError):
    """A Java process ended at its start; the message has what it said."""


class KafkaCluster(LocalNodes):
    """`with KafkaCluster(base) as cluster:` formats, starts and waits; leaves nothing running."""

    kind = "kafka"
    failure = KafkaFailedError

    def __init__(
        self,
        base: Path,
        broker_ids: Iterable[int] = (1, 2),
        *,
        tiered: bool = True,
        broker_configs: Mapping[str, str] | None = None,
        heap: str = "768m",
        jvm: Sequence[str] = SERVER_JVM,
    ) -> None:
        self.broker_ids = tuple(broker_ids)
        nodes = (CONTROLLER_ID, *self.broker_ids)
        super().__init__(base, nodes, free_ports(len(nodes)))
        self.tiered = tiered
        self.heap = heap
        self.jvm = tuple(jvm)
        self._log_begins: dict[int, int] = {}
        self.broker_configs = dict(broker_configs or {})
        self.node_configs: dict[int, dict[str, str]] = {}
        self.cluster_id = new_id()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{self.host(node)}:{self.port(node)}" for node in self.broker_ids)

    @property
    def tier_directory(self) -> Path:
        return self.base / "tier"

    def __enter__(self) -> Self:
        shutil.rmtree(self.base, ignore_errors=True)
        self.tier_directory.mkdir(parents=True)
        return super().__enter__()

    def properties(self, node: int) -> dict[str, str]:
        common = {
            "node.id": str(node),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"{CONTROLLER_ID}@{self.host(CONTROLLER_ID)}:{self.port(CONTROLLER_ID)}",
            "listener.security.protocol.map": _PROTOCOLS,
            "log.dirs": str(self.data_directory(node)),
            "remote.log.storage.system.enable": str(self.tiered).lower(),
        }
        if node == CONTROLLER_ID:
            roles = {"process.roles": "controller", "listeners": f"CONTROLLER://{self.host(node)}:{self.port(node)}"}
            return common | roles | self.node_configs.get(node, {})
        return common | self._broker_properties(node)

    def _broker_properties(self, node: int) -> dict[str, str]:
        replication = str(min(2, len(self.broker_ids)))
        properties = {
            "process.roles": "broker",
            "listeners": f"PLAINTEXT://{self.host(node)}:{self.port(node)}",
            "inter.broker.listener.name": "PLAINTEXT",
            "offsets.topic.replication.factor": replication,
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": replication,
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "auto.create.topics.enable": "false",
            "log.retention.check.interval.ms": "2000",
            "group.initial.rebalance.delay.ms": "0",
        }
        if self.tiered:
            package = "org.apache.kafka.server.log.remote"
            metadata_manager = f"{package}.metadata.storage.TopicBasedRemoteLogMetadataManager"
            properties |= {
                "remote.log.storage.manager.class.name": f"{package}.storage.LocalTieredStorage",
                "remote.log.storage.manager.impl.prefix": "rsm.config.",
                "rsm.config.dir": str(self.tier_directory),
                "remote.log.metadata.manager.class.name": metadata_manager,
                "remote.log.metadata.manager.impl.prefix": "rlmm.config.",
                "remote.log.metadata.manager.listener.name": "PLAINTEXT",
                "rlmm.config.remote.log.metadata.topic.replication.factor": replication,
                "rlmm.config.remote.log.metadata.topic.num.partitions": "5",
                "rlmm.config.remote.log.metadata.topic.min.isr": "1",
                "remote.log.manager.task.interval.ms": "1000",
            }
        return properties | self.broker_configs | self.node_configs.get(node, {})

    def prepare(self, node: int) -> None:
        self.format(node)

    def format(self, node: int) -> None:
        run_tool("kafka.tools.StorageTool", "format", "-t", self.cluster_id, "-c", str(self.config_file(node)))

    def command(self, node: int, config: Path) -> Sequence[str]:
        options = [*self.jvm, f"-Xmx{'512m' if node == CONTROLLER_ID else self.heap}"]
        logger = "-Dorg.slf4j.simpleLogger"
        options += [f"{logger}.showDateTime=true", f"{logger}.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS"]
        return ["java", *options, "-cp", f"{kafka_jars()}/*", "kafka.Kafka", str(config)]

    def start(self, node: int) -> float:
        path = self.log_file(node)
        self._log_begins[node] = path.stat().st_size if path.exists() else 0
        return super().start(node)

    def stop(self, node: int) -> None:
        """SIGTERM, and wait.

        A broker that gets the signal before its remote log metadata manager is initialized closes its listener, and
        then retries to connect to it until it is killed. So that is waited for.
        """
        if self.tiered and node != CONTROLLER_ID and node in self._processes:
            with contextlib.suppress(TimeoutError):
                for _ in poll(TIER_READY_TIMEOUT_S, "its tier", 0.1):
                    if self._processes[node].poll() is not None or self._tier_is_ready(node):
                        break
        super().stop(node)

    def _tier_is_ready(self, node: int) -> bool:
        with self.log_file(node).open("rb") as log:
            log.seek(self._log_begins[node])
            return _TIER_READY in log.read()

    def wait_serving(self, node: int) -> None:
        """Until a client sees the broker in its own metadata; the controller is not waited for."""
        if node == CONTROLLER_ID:
            return
        for _ in poll(START_TIMEOUT_S, f"broker {node} to serve (see {self.log_file(node)})"):
            if self._processes[node].poll() is not None:
                raise self.failure(f"broker {node} ended at start:\n{self.log_tail(node)}")
            if node in self._brokers_seen_by(node):
                return

    def _brokers_seen_by(self, node: int) -> set[int]:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        try:
            client = AdminClient({"bootstrap.servers": f"{self.host(node)}:{self.port(node)}", "log_level": 0})
            return set(client.list_topics(timeout=2).brokers)
        except KafkaException:
            return set()

    def wipe(self, node: int) -> None:
        """Remove everything a stopped node keeps, and format it again."""
        assert node not in self._processes, f"node {node} is running"
        shutil.rmtree(self.data_directory(node))
        self.format(node)
