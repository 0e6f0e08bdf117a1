"""A Kafka cluster on loopback: one controller, some brokers, tiering on `LocalTieredStorage`.

Node 100 is the controller. Everything lives below one base directory; every process is ours and stopped by us.
"""

from __future__ import annotations

import shutil
import subprocess
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

from tierfetch.cli.processes import Processes, free_ports, poll
from tierfetch.protocol.topics import uuid_to_text

from .jars import kafka_jars

CONTROLLER_ID = 100
START_TIMEOUT_S = 90.0
TOOL_TIMEOUT_S = 120.0
_PROTOCOLS = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"


def run_tool(main_class: str, *arguments: str, heap: str = "256m", stdin: str = "") -> str:
    """Run one of Kafka's tools; returns its whole output. RuntimeError with that output if it fails."""
    command = ["java", f"-Xmx{heap}", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    done = subprocess.run(
        [*command, "-cp", f"{kafka_jars()}/*", main_class, *arguments],
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=TOOL_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{main_class} {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def dump_log(path: Path, *options: str) -> str:
    """What `kafka-dump-log` prints of one file."""
    return run_tool("org.apache.kafka.tools.DumpLogSegments", "--files", str(path), *options)


def _random_id() -> str:
    """Never begins with a dash, which the tools would take for an option."""
    while (text := uuid_to_text(uuid.uuid4())).startswith("-"):
        continue
    return text


class KafkaCluster:
    """`with KafkaCluster(base) as cluster:` formats, starts and waits; leaves nothing running."""

    def __init__(
        self,
        base: Path,
        broker_ids: Iterable[int] = (1, 2),
        *,
        tiered: bool = True,
        broker_configs: Mapping[str, str] | None = None,
        heap: str = "768m",
    ) -> None:
        self.base = base
        self.broker_ids = tuple(broker_ids)
        self.tiered = tiered
        self.heap = heap
        self.broker_configs = dict(broker_configs or {})
        self.node_configs: dict[int, dict[str, str]] = {}
        ports = free_ports(len(self.broker_ids) + 1)
        self._ports = dict(zip((CONTROLLER_ID, *self.broker_ids), ports, strict=True))
        self._processes = Processes()
        self.cluster_id = _random_id()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{self.port(node)}" for node in self.broker_ids)

    def port(self, node: int) -> int:
        return self._ports[node]

    def process(self, node: int) -> subprocess.Popen[bytes]:
        return self._processes[node]

    def data_directory(self, node: int) -> Path:
        return self.base / f"data-{node}"

    @property
    def tier_directory(self) -> Path:
        return self.base / "tier"

    def __enter__(self) -> KafkaCluster:
        shutil.rmtree(self.base, ignore_errors=True)
        self.tier_directory.mkdir(parents=True)
        try:
            for node in self._ports:
                self.format(node)
            for node in self._ports:
                self.start(node)
            for node in self.broker_ids:
                self.wait_serving(node)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.kill_all()

    def properties(self, node: int) -> dict[str, str]:
        common = {
            "node.id": str(node),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"{CONTROLLER_ID}@127.0.0.1:{self.port(CONTROLLER_ID)}",
            "listener.security.protocol.map": _PROTOCOLS,
            "log.dirs": str(self.data_directory(node)),
            "remote.log.storage.system.enable": str(self.tiered).lower(),
        }
        if node == CONTROLLER_ID:
            roles = {"process.roles": "controller", "listeners": f"CONTROLLER://127.0.0.1:{self.port(node)}"}
            return common | roles | self.node_configs.get(node, {})
        return common | self._broker_properties(node)

    def _broker_properties(self, node: int) -> dict[str, str]:
        replication = str(min(2, len(self.broker_ids)))
        properties = {
            "process.roles": "broker",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port(node)}",
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

    def _write_properties(self, node: int) -> Path:
        path = self.base / f"node-{node}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in self.properties(node).items()))
        return path

    def format(self, node: int) -> None:
        run_tool("kafka.tools.StorageTool", "format", "-t", self.cluster_id, "-c", str(self._write_properties(node)))

    def start(self, node: int) -> float:
        """Start a node without waiting; returns time.monotonic() just before its process began."""
        options = ["-Xms256m", f"-Xmx{'512m' if node == CONTROLLER_ID else self.heap}", "-XX:+UseG1GC"]
        logger = "-Dorg.slf4j.simpleLogger"
        options += [f"{logger}.showDateTime=true", f"{logger}.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS"]
        properties = self._write_properties(node)
        command = ["java", *options, "-cp", f"{kafka_jars()}/*", "kafka.Kafka", str(properties)]
        return self._processes.start(node, command, self.base / f"server-{node}.log")

    def wait_serving(self, node: int) -> None:
        """Until a client sees the broker in its own metadata."""
        for _ in poll(START_TIMEOUT_S, f"broker {node} to serve (see {self.base}/server-{node}.log)"):
            if self._processes[node].poll() is not None:
                raise RuntimeError(f"broker {node} ended at start: see {self.base}/server-{node}.log")
            if node in self._brokers_seen_by(node):
                return

    def _brokers_seen_by(self, node: int) -> set[int]:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        try:
            client = AdminClient({"bootstrap.servers": f"127.0.0.1:{self.port(node)}", "log_level": 0})
            return set(client.list_topics(timeout=2).brokers)
        except KafkaException:
            return set()

    def stop(self, node: int) -> None:
        """SIGTERM, and wait."""
        self._processes.stop(node)

    def kill(self, node: int) -> None:
        """kill -9, and wait."""
        self._processes.kill(node)

    def wipe(self, node: int) -> None:
        """Remove everything a stopped node keeps, and format it anew."""
        assert node not in self._processes, f"node {node} is running"
        shutil.rmtree(self.data_directory(node))
        self.format(node)
