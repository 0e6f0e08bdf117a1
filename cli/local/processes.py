"""Child processes by number: started with their output in a file, ended by SIGTERM or SIGKILL, waited for.

None outlives the process that started it, however that one ends: on Linux the kernel sends SIGKILL then. SIGTERM would
leave those that are frozen (SIGSTOP) or hang, and what was acknowledged survives both.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Final, Protocol

from ...protocol import OperatorError

STOP_TIMEOUT_S = 40.0
LISTENING_PORTS: Final = range(10_000, 32_000)
"""Below those that Linux gives to outgoing connections: such a one would take a port before its node has bound it."""
BLOCKS: Final = LISTENING_PORTS[::100]
"""The first port of each block."""


class Child(Protocol):
    """A child process, as `subprocess.Popen` has it."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, sig: int) -> None: ...

    def kill(self) -> None: ...


def execute(command: Sequence[str], output: Path) -> Child:
    """Start a program in a session of its own and in the directory of its output, which is appended to."""
    with output.open("ab") as file:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            cwd=output.parent,
            start_new_session=True,
            preexec_fn=end_with_parent(),
        )


def captured(
    command: Sequence[str],
    *,
    timeout_s: float | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; return its exit status and what it said. OSError, subprocess.TimeoutExpired."""
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        cwd=cwd,
        env=env,
        check=False,
        preexec_fn=end_with_parent(),
    )


def end_with_parent() -> Callable[[], None] | None:
    """Return the `preexec_fn` of a child that must not outlive this process, or the `initializer` of its workers; None
    where there is no such thing. The kernel looks at the thread that starts the child, which has to last as long.
    """
    return None if _prctl is None else partial(_end_with, os.getpid())


_prctl: Final = getattr(ctypes.CDLL(None), "prctl", None)
_PR_SET_PDEATHSIG: Final = 1


def _end_with(parent: int) -> None:
    """Run in the child, before its program: a signal may interrupt the parent before it knows that it has a child."""
    assert _prctl is not None
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


spawn: Callable[[Sequence[str], Path], Child] = execute
"""How `Processes` start theirs."""


class Processes:
    """The running children of one cluster."""

    def __init__(self) -> None:
        self._running: dict[int, Child] = {}

    def __contains__(self, node: int) -> bool:
        return node in self._running

    def __getitem__(self, node: int) -> Child:
        return self._running[node]

    def start(self, node: int, command: Sequence[str], output: Path) -> float:
        """Return time.monotonic() just before the process began."""
        assert node not in self._running, f"node {node} runs already"
        began = time.monotonic()
        self._running[node] = spawn(command, output)
        return began

    def stop(self, node: int) -> None:
        """SIGTERM, and wait; SIGKILL when that takes too long."""
        self._end(node, signal.SIGTERM)

    def kill(self, node: int) -> None:
        """kill -9, and wait."""
        self._end(node, signal.SIGKILL)

    def kill_all(self) -> None:
        for node in list(self._running):
            self.kill(node)

    def _end(self, node: int, number: signal.Signals) -> None:
        process = self._running.pop(node, None)
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback interface that are free now. Neither this process nor another one is given them
    again while this process lives: a node that is down, or not up yet, keeps its port. OperatorError if none is left.
    """
    with _drawing:
        ports = list(islice((port for port in _own_ports if taken_port([port]) is None), count))
    if len(ports) < count:
        among = f"{LISTENING_PORTS[0]} to {LISTENING_PORTS[-1]}"
        raise OperatorError(f"{count} free ports of {among} are needed, {len(ports)} are left: stop a local cluster")
    return ports


def _draw_ports() -> Iterator[int]:
    """A process owns the ports of a block while it has the first of them bound."""
    with ExitStack() as held:
        for first in Random().sample(BLOCKS, len(BLOCKS)):
            holder = held.enter_context(socket.socket())
            try:
                holder.bind(("127.0.0.1", first))
            except OSError:
                holder.close()
                continue
            yield from range(first + 1, first + BLOCKS.step)


_own_ports: Final = _draw_ports()
_drawing: Final = threading.Lock()


def taken_port(ports: Iterable[int]) -> int | None:
    """The first of these ports of the loopback interface on which a process listens."""
    for port in ports:
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                return port
    return None


def poll(timeout_s: float, what: str | Callable[[], str], interval_s: float = 0.02) -> Iterator[float]:
    """Yield the seconds waited so far, again and again; TimeoutError naming `what`, as it is by then, at the end."""
    began = time.monotonic()
    while (waited := time.monotonic() - began) < timeout_s:
        yield waited
        time.sleep(interval_s)
    raise TimeoutError(f"waited {timeout_s:.0f} s in vain for {what if isinstance(what, str) else what()}")
