"""Real controller processes on loopback that make one quorum: for benchmarks and tests.

`with LocalQuorum(base) as quorum:` has them formatted and running; they are children of this process, ended by `stop`,
`kill`, or the end of the block.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ..protocol.client import Address
from .processes import Processes, free_ports, poll
from .quorum.admin import QuorumAdmin
from .quorum.report import status

START_TIMEOUT_S: Final = 30.0
COMMAND_TIMEOUT_S: Final = 30.0
LOG_TAIL_CHARACTERS: Final = 2_000
CLUSTER_ID: Final = "4L6g3nShT-eMCtK--X86sw"


class ControllerFailedError(RuntimeError):
    """A controller process ended, or a command failed; the message has what it said."""


class LocalQuorum:
    """Controllers `first_id` and following, with static voters; with `dynamic` ones the first is the first voter alone.

    `command(node, config file)` runs one; `tierfetch controller` by default.
    """

    def __init__(
        self,
        base: Path,
        controllers: int = 3,
        *,
        dynamic: bool = False,
        configs: Mapping[str, str] | None = None,
        command: Callable[[int, Path], Sequence[str]] | None = None,
        first_id: int = 1,
        ports: Sequence[int] | None = None,
    ) -> None:
        self._command = command or _controller_command
        self.base = base.absolute()
        self.dynamic = dynamic
        self.configs = dict(configs or {})
        self.nodes = tuple(range(first_id, first_id + controllers))
        self._ports = dict(zip(self.nodes, ports or free_ports(controllers), strict=True))
        self._processes = Processes()

    @property
    def bootstrap_controllers(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    def port(self, node: int) -> int:
        return self._ports[node]

    def directory(self, node: int) -> Path:
        return self.base / f"controller-{node}"

    def metadata_directory(self, node: int) -> Path:
        return self.directory(node) / "__cluster_metadata-0"

    def log_file(self, node: int) -> Path:
        return self.base / f"controller-{node}.log"

    def process(self, node: int) -> subprocess.Popen[bytes]:
        return self._processes[node]

    def is_running(self, node: int) -> bool:
        return node in self._processes

    def __enter__(self) -> LocalQuorum:
        self.base.mkdir(parents=True, exist_ok=True)
        try:
            for node in self.nodes:
                self.format(node)
            for node in self.nodes:
                self.start(node)
            for node in self.nodes:
                self.wait_serving(node)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.kill_all()

    def properties(self, node: int) -> dict[str, str]:
        quorum = {"controller.quorum.voters": ",".join(f"{id_}@127.0.0.1:{port}" for id_, port in self._ports.items())}
        if self.dynamic:
            quorum = {"controller.quorum.bootstrap.servers": self.bootstrap_controllers}
        return {
            "node.id": str(node),
            "process.roles": "controller",
            "listeners": f"CONTROLLER://127.0.0.1:{self.port(node)}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.directory(node)),
            **quorum,
            **self.configs,
        }

    def config_file(self, node: int) -> Path:
        path = self.base / f"controller-{node}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in self.properties(node).items()))
        return path

    def format(self, node: int) -> None:
        options = [] if not self.dynamic else ["--standalone" if node == self.nodes[0] else "--no-initial-controllers"]
        self.command("format", "--cluster-id", CLUSTER_ID, "--config", str(self.config_file(node)), *options)

    def start(self, node: int) -> float:
        """Start without waiting; returns time.monotonic() just before the process began."""
        command = self._command(node, self.config_file(node))
        return self._processes.start(node, command, self.log_file(node))

    def wait_serving(self, node: int) -> None:
        """Until it accepts connections."""
        for _ in poll(START_TIMEOUT_S, f"controller {node} to serve\n{self.log_tail(node)}"):
            if self._processes[node].poll() is not None:
                raise ControllerFailedError(f"controller {node} ended at start:\n{self.log_tail(node)}")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port(node)), 1.0):
                return

    def stop(self, node: int) -> None:
        """SIGTERM, and wait."""
        self._processes.stop(node)

    def kill(self, node: int) -> None:
        """kill -9, and wait."""
        self._processes.kill(node)

    def log_tail(self, node: int) -> str:
        path = self.log_file(node)
        return path.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:] if path.exists() else ""

    def running(self) -> Iterable[int]:
        return [node for node in self.nodes if node in self._processes]

    def status(self) -> dict[str, Any]:
        """What `quorum describe --status` says, asked of those that run. NoLeaderError, OSError."""

        async def ask() -> dict[str, Any]:
            async with QuorumAdmin([Address("127.0.0.1", self.port(node)) for node in self.running()]) as admin:
                return status((await admin.cluster()).cluster_id, await admin.describe())

        return asyncio.run(ask())

    def leader(self) -> int:
        """The node that leads."""
        leader: int = self.status()["LeaderId"]
        return leader

    def command(self, *arguments: str) -> str:
        """Run `tierfetch ...`; ControllerFailedError with what it said unless it succeeds."""
        done = subprocess.run(
            [*_COMMAND, *arguments], capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
        )
        if done.returncode != 0:
            raise ControllerFailedError(f"tierfetch {' '.join(arguments)}: {done.stderr or done.stdout}")
        return done.stdout


def _controller_command(node: int, config: Path) -> Sequence[str]:
    return [*_COMMAND, "controller", "--config", str(config)]


_COMMAND: Final = (sys.executable, "-m", "tierfetch.cli.main")
