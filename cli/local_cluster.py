"""A cluster of real broker processes on loopback: for the demo, benchmarks, tests and `tierfetch cluster up`.

Either under controllers that run elsewhere (`local_quorum`), or over one static cluster file.

Everything lives below one base directory. Brokers are children of this process, stopped by `stop`, `kill` or the end of
the `with` block; `wipe` removes what a stopped broker kept, so that its next start is a replacement.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..broker.static_view import StaticClusterView
from ..log.disk_os import OsDisk
from .processes import Processes, free_ports, poll

START_TIMEOUT_S = 30.0
LOG_TAIL_CHARACTERS = 2_000


class BrokerFailedError(RuntimeError):
    """A broker process ended or did not come up; the message has the end of its log."""


@dataclass(frozen=True, slots=True)
class TierSettings:
    """Storage plugin of every broker, by entry point, and its `rsm.config.*`."""

    plugin: str
    options: Mapping[str, str]


class LocalCluster:
    """`with LocalCluster(base) as cluster:` has its brokers serving."""

    def __init__(
        self,
        base: Path,
        broker_ids: Iterable[int] = (1, 2),
        *,
        tier: TierSettings | None = None,
        configs: Mapping[str, str] | None = None,
        controllers: str | None = None,
        ports: Sequence[int] | None = None,
    ) -> None:
        """`controllers`: HOST:PORT of each, separated by commas; None: a static cluster file."""
        self.base = base.absolute()
        self._controllers = controllers
        self.broker_ids = tuple(broker_ids)
        self.tier = tier
        self.configs = dict(configs or {})
        self.broker_configs: dict[int, dict[str, str]] = {}
        free = free_ports(2 * len(self.broker_ids))
        self._ports = dict(zip(self.broker_ids, ports or free[: len(self.broker_ids)], strict=True))
        self._metrics_ports = dict(zip(self.broker_ids, free[len(self.broker_ids) :], strict=True))
        self._processes = Processes()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{self.port(broker)}" for broker in self.broker_ids)

    @property
    def cluster_file(self) -> Path:
        return self.base / "cluster.yaml"

    def port(self, broker: int) -> int:
        return self._ports[broker]

    def metrics_url(self, broker: int) -> str:
        return f"http://127.0.0.1:{self._metrics_ports[broker]}/metrics"

    def data_directory(self, broker: int) -> Path:
        return self.base / f"broker-{broker}"

    def log_file(self, broker: int) -> Path:
        return self.base / f"broker-{broker}.log"

    def process(self, broker: int) -> subprocess.Popen[bytes]:
        return self._processes[broker]

    def __enter__(self) -> LocalCluster:
        self.base.mkdir(parents=True, exist_ok=True)
        try:
            for broker in self.broker_ids:
                self.start(broker)
            for broker in self.broker_ids:
                self.wait_serving(broker)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.kill_all()

    def properties(self, broker: int) -> dict[str, str]:
        properties = {
            "node.id": str(broker),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port(broker)}",
            "log.dirs": str(self.data_directory(broker)),
            **self._cluster(),
            "metrics.port": str(self._metrics_ports[broker]),
            "offsets.topic.num.partitions": "5",
            "offsets.topic.replication.factor": str(min(3, len(self.broker_ids))),
            "group.initial.rebalance.delay.ms": "0",
        }
        if self.tier is not None:
            replication = str(min(2, len(self.broker_ids)))
            properties |= {
                "remote.log.storage.system.enable": "true",
                "remote.log.storage.manager.plugin": self.tier.plugin,
                "remote.log.manager.task.interval.ms": "1000",
                "rlmm.config.remote.log.metadata.topic.replication.factor": replication,
                "rlmm.config.remote.log.metadata.topic.num.partitions": "5",
                "rlmm.config.remote.log.metadata.topic.min.isr": "1",
            }
            properties |= {f"rsm.config.{name}": value for name, value in self.tier.options.items()}
        return properties | self.configs | self.broker_configs.get(broker, {})

    def _cluster(self) -> dict[str, str]:
        if self._controllers is None:
            return {"static.cluster.file": str(self.cluster_file)}
        return {"process.roles": "broker", "controller.quorum.bootstrap.servers": self._controllers}

    def start(self, broker: int) -> float:
        """Start a broker without waiting; returns time.monotonic() just before its process began."""
        path = self.base / f"broker-{broker}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in self.properties(broker).items()))
        command = [sys.executable, "-m", "tierfetch.cli.main", "broker", "--config", str(path)]
        return self._processes.start(broker, command, self.log_file(broker))

    def wait_serving(self, broker: int) -> None:
        """Until the broker accepts connections."""
        for _ in poll(START_TIMEOUT_S, f"broker {broker} to serve\n{self.log_tail(broker)}"):
            if self._processes[broker].poll() is not None:
                raise BrokerFailedError(f"broker {broker} ended at start:\n{self.log_tail(broker)}")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port(broker)), 1.0):
                return

    def log_tail(self, broker: int) -> str:
        path = self.log_file(broker)
        return path.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:] if path.exists() else ""

    def stop(self, broker: int) -> None:
        """SIGTERM, and wait."""
        self._processes.stop(broker)

    def kill(self, broker: int) -> None:
        """kill -9, and wait."""
        self._processes.kill(broker)

    def fence(self, broker: int) -> None:
        """Take a killed broker out of every ISR and leadership, as a controller would; of a static cluster."""
        assert broker not in self._processes, f"broker {broker} runs"
        asyncio.run(self._fence(broker))

    async def _fence(self, broker: int) -> None:
        disk = OsDisk()
        view = StaticClusterView(self.cluster_file, disk, random.Random())
        await view.start()
        await view.fence_broker(broker)
        await view.close()
        await disk.close()

    def wipe(self, broker: int) -> None:
        """Remove everything a stopped broker kept."""
        assert broker not in self._processes, f"broker {broker} runs"
        shutil.rmtree(self.data_directory(broker))
