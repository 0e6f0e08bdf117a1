"""Apache Kafka's own controller as a node of a quorum: formatted, started, stopped."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path

from tierfetch.bench.lab.jars import kafka_jars
from tierfetch.bench.lab.kafka import SHORT_LIVED_JVM, run_tool
from tierfetch.cli.local.processes import Child, Processes, free_ports, poll
from tierfetch.log.core import decode_meta_properties
from tierfetch.protocol.net.client import Address
from tierfetch.quorum.core.state import Endpoint, ReplicaKey
from tierfetch.tests.interop.clients import TIMEOUT_S


class JavaController:
    """`async with JavaController(...) as controller:` has it listening. Membership is dynamic: `servers` are asked for
    the leader; None makes it the first and only voter.
    """

    def __init__(self, base: Path, node_id: int, cluster_id: str, servers: Sequence[str] | None = None) -> None:
        self.base = base
        self.node_id = node_id
        self.cluster_id = cluster_id
        (port,) = free_ports(1)
        self.address = Address("127.0.0.1", port)
        self.servers = servers
        self.configs: dict[str, str] = {}
        self.static_voters: str | None = None
        """As controller.quorum.voters says it, this one included; None: membership is dynamic."""
        self._processes = Processes()

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint("CONTROLLER", *self.address)

    @property
    def directory(self) -> Path:
        return self.base / f"java-{self.node_id}"

    @property
    def metadata_directory(self) -> Path:
        return self.directory / "__cluster_metadata-0"

    @property
    def log_file(self) -> Path:
        return self.base / f"java-{self.node_id}.log"

    @property
    def config_file(self) -> Path:
        return self.base / f"java-{self.node_id}.properties"

    @property
    def key(self) -> ReplicaKey:
        properties = decode_meta_properties((self.directory / "meta.properties").read_bytes())
        return ReplicaKey(self.node_id, properties.directory_id)

    async def __aenter__(self) -> JavaController:
        try:
            await asyncio.to_thread(self._format_and_start)
        except BaseException:
            self._processes.kill_all()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._processes.kill_all)

    def _format_and_start(self) -> None:
        properties = {
            "node.id": str(self.node_id),
            "process.roles": "controller",
            "listeners": f"CONTROLLER://{self.address}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.directory),
            **self._membership(),
            **self.configs,
        }
        self.base.mkdir(parents=True, exist_ok=True)
        self.config_file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        role = ["--standalone" if self.servers is None else "--no-initial-controllers"]
        if self.static_voters is not None:
            role = []
        run_tool("kafka.tools.StorageTool", "format", "-t", self.cluster_id, "-c", str(self.config_file), *role)
        self.start()

    def _membership(self) -> dict[str, str]:
        if self.static_voters is not None:
            return {"controller.quorum.voters": self.static_voters}
        return {"controller.quorum.bootstrap.servers": ",".join(self.servers or [str(self.address)])}

    def start(self) -> None:
        command = ["java", "-Xmx384m", *SHORT_LIVED_JVM, "-Dorg.slf4j.simpleLogger.defaultLogLevel=info"]
        program = ["-cp", f"{kafka_jars()}/*", "kafka.Kafka", str(self.config_file)]
        self._processes.start(self.node_id, [*command, *program], self.log_file)
        for _ in poll(TIMEOUT_S, f"Apache Kafka's controller (see {self.log_file})", interval_s=0.1):
            assert self.process.poll() is None, self.log_file.read_text(errors="replace")[-2000:]
            try:
                with socket.create_connection(self.address, 1.0):
                    return
            except OSError:
                continue

    @property
    def process(self) -> Child:
        return self._processes[self.node_id]

    def stop(self) -> None:
        """SIGTERM, and wait."""
        self._processes.stop(self.node_id)
