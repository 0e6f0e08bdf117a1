"""Nodes of one kind as child processes on loopback, everything of theirs below one base directory.

    <base>/<kind>-<node>.properties    its configuration, rewritten at each start
    <base>/<kind>-<node>.log           what it has said, over all its runs
    <base>/<kind>-<node>.pid           the number of its process, while it runs
    <base>/<kind>-<node>/              its data

Nodes are ended by `stop`, `kill`, or the end of the `with` block.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Final, Self

from ...protocol import OperatorError
from .processes import Child, Processes, poll
from .security import LocalSecurity

START_TIMEOUT_S: Final = 75.0
"""Longer than a broker tries to register by default: its own reason is better than this one."""
REPORT_INTERVAL_S: Final = 5.0
LOG_TAIL_CHARACTERS: Final = 2_000
LOOPBACK: Final = "127.0.0.1"
TIERFETCH: Final = (sys.executable, "-m", "tierfetch.cli.main")


_log = logging.getLogger(__name__)


class NodeFailedError(OperatorError, RuntimeError):
    """A node's process ended or did not come up; the message has the end of its log."""


class LocalNodes(ABC):
    """`with` has all of `nodes` serving, each on its port."""

    kind: ClassVar[str]
    failure: ClassVar[type[NodeFailedError]]

    security: LocalSecurity | None = None
    """How connections are protected; None: not at all."""

    def __init__(
        self, base: Path, nodes: Sequence[int], ports: Sequence[int], security: LocalSecurity | None = None
    ) -> None:
        if security is not None:
            self.security = security
        self.base = base.absolute()
        self.nodes = tuple(nodes)
        self._ports = dict(zip(self.nodes, ports, strict=True))
        self._processes = Processes()
        self._log_began: dict[int, int] = {}
        """How long each log was when the node was last started: what earlier runs said is not its reason."""

    @abstractmethod
    def properties(self, node: int) -> dict[str, str]:
        """Its configuration."""

    def command(self, node: int, config: Path) -> Sequence[str]:
        """What runs the node."""
        return [*TIERFETCH, self.kind, "--config", str(config)]

    def prepare(self, node: int) -> None:  # noqa: B027 - most need nothing
        """Before its first start."""

    def is_running(self, node: int) -> bool:
        """Whether it was started, and not ended since."""
        return node in self._processes

    def port(self, node: int) -> int:
        return self._ports[node]

    def host(self, node: int) -> str:
        """Where it listens."""
        del node
        return LOOPBACK

    def data_directory(self, node: int) -> Path:
        return self.base / f"{self.kind}-{node}"

    def log_file(self, node: int) -> Path:
        return self.base / f"{self.kind}-{node}.log"

    def pid_file(self, node: int) -> Path:
        return self.base / f"{self.kind}-{node}.pid"

    def log_tail(self, node: int) -> str:
        path = self.log_file(node)
        if not path.exists():
            return ""
        said = path.read_bytes()[self._log_began.get(node, 0) :]
        return said.decode(errors="replace")[-LOG_TAIL_CHARACTERS:]

    def process(self, node: int) -> Child:
        return self._processes[node]

    def __enter__(self) -> Self:
        self.base.mkdir(parents=True, exist_ok=True)
        try:
            for step in (self.prepare, self.start, self.wait_serving):
                for node in self.nodes:
                    step(node)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.kill_all()
        for node in self.nodes:
            self.forget(node)

    def config_file(self, node: int) -> Path:
        """Write the file as it must be now, readable by its owner only: a tier's keys may be in it."""
        path = self.base / f"{self.kind}-{node}.properties"
        path.touch(mode=0o600)
        path.write_text("".join(f"{key}={value}\n" for key, value in self.properties(node).items()))
        return path

    def start(self, node: int) -> float:
        """Start a node without waiting; returns time.monotonic() just before its process began."""
        log = self.log_file(node)
        self._log_began[node] = log.stat().st_size if log.exists() else 0
        began_s = self._processes.start(node, self.command(node, self.config_file(node)), self.log_file(node))
        self.pid_file(node).write_text(f"{self._processes[node].pid}\n")
        return began_s

    def wait_serving(self, node: int) -> None:
        """Until the node accepts connections."""
        for _ in self._until(node, "to serve"):
            with contextlib.suppress(OSError), socket.create_connection((self.host(node), self.port(node)), 1.0):
                return

    def _until(self, node: int, what: str) -> Iterator[None]:
        """Again and again while the node starts: what is waited for is said every few seconds. `failure` if its process
        ends, TimeoutError after `START_TIMEOUT_S`, both with the end of its log.
        """
        next_report_s = REPORT_INTERVAL_S
        for waited_s in poll(START_TIMEOUT_S, lambda: f"{self.kind} {node} {what}\n{self.log_tail(node)}"):
            if self._processes[node].poll() is not None:
                raise self.failure(f"{self.kind} {node} ended at start:\n{self.log_tail(node)}")
            if waited_s >= next_report_s:
                next_report_s += REPORT_INTERVAL_S
                last = self.log_tail(node).rstrip().rpartition("\n")[2]
                left_s, said = START_TIMEOUT_S - waited_s, f"; its log ends with: {last}" if last else ""
                _log.warning("waiting for %s %d %s, giving up in %.0f s%s", self.kind, node, what, left_s, said)
            yield

    def stop(self, node: int) -> None:
        """SIGTERM, and wait."""
        self._processes.stop(node)
        self.forget(node)

    def kill(self, node: int) -> None:
        """kill -9, and wait."""
        self._processes.kill(node)
        self.forget(node)

    def forget(self, node: int) -> None:
        """Remove the number of a process that has ended: another one may have it by now."""
        self.pid_file(node).unlink(missing_ok=True)
