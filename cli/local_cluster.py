"""A cluster of real broker processes on loopback, over one static cluster file: for the demo, benchmarks and tests.

Everything lives below one base directory. Brokers are children of this process, stopped by `stop`, `kill` or the end of
the `with` block; `wipe` removes what a stopped broker kept, so that its next start is a replacement.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
LOG_TAIL_CHARACTERS = 2_000


class BrokerFailedError(RuntimeError):
    """A broker process ended or did not come up; the message has the end of its log."""


@dataclass(frozen=True, slots=True)
class TierSettings:
    """Storage plugin of every broker, by entry point, and its `rsm.config.*`."""

    plugin: str
    options: Mapping[str, str]


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that are free now, all different."""
    with contextlib.ExitStack() as stack:
        ports = []
        for _ in range(count):
            listener = stack.enter_context(socket.socket())
            listener.bind(("127.0.0.1", 0))
            ports.append(listener.getsockname()[1])
        return ports


def poll(timeout_s: float, what: str, interval_s: float = 0.02) -> Iterator[float]:
    """Yield the seconds waited so far, again and again; TimeoutError naming `what` at the end."""
    began = time.monotonic()
    while (waited := time.monotonic() - began) < timeout_s:
        yield waited
        time.sleep(interval_s)
    raise TimeoutError(f"waited {timeout_s:.0f} s in vain for {what}")


class LocalCluster:
    """`with LocalCluster(base) as cluster:` has its brokers serving."""

    def __init__(
        self,
        base: Path,
        broker_ids: Iterable[int] = (1, 2),
        *,
        tier: TierSettings | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        self.base = base
        self.broker_ids = tuple(broker_ids)
        self.tier = tier
        self.configs = dict(configs or {})
        self.broker_configs: dict[int, dict[str, str]] = {}
        ports = free_ports(2 * len(self.broker_ids))
        self._ports = dict(zip(self.broker_ids, ports, strict=False))
        self._metrics_ports = dict(zip(self.broker_ids, ports[len(self.broker_ids) :], strict=True))
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

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
        for broker in list(self._processes):
            self.kill(broker)

    def properties(self, broker: int) -> dict[str, str]:
        properties = {
            "node.id": str(broker),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port(broker)}",
            "log.dirs": str(self.data_directory(broker)),
            "static.cluster.file": str(self.cluster_file),
            "metrics.port": str(self._metrics_ports[broker]),
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

    def start(self, broker: int) -> float:
        """Start a broker without waiting; returns time.monotonic() just before its process began."""
        assert broker not in self._processes, f"broker {broker} runs already"
        path = self.base / f"broker-{broker}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in self.properties(broker).items()))
        began = time.monotonic()
        with self.log_file(broker).open("ab") as output:
            self._processes[broker] = subprocess.Popen(
                [sys.executable, "-m", "tierfetch.cli.main", "broker", "--config", str(path)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return began

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
        self._end(broker, signal.SIGTERM)

    def kill(self, broker: int) -> None:
        """kill -9, and wait."""
        self._end(broker, signal.SIGKILL)

    def _end(self, broker: int, number: signal.Signals) -> None:
        process = self._processes.pop(broker, None)
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def wipe(self, broker: int) -> None:
        """Remove everything a stopped broker kept."""
        assert broker not in self._processes, f"broker {broker} runs"
        shutil.rmtree(self.data_directory(broker))
