"""A fork server: nodes of tests are forked from a process that has imported what a node needs.

    tests ── command, directory, environment; a socket, the output ──▶ fork server ── fork ──▶ node
          ◀────────── on that socket: its process id, its exit code ──

A node's start costs most of a second of CPU, nearly all of it imports, and the suites start some 800. A forked node is
a process like any other: a session of its own, its output in a file, the environment of the moment, the interpreter's
ordinary end. Two things differ: `ps` shows the command of the fork server, and modules were imported before. Tests of
these start their process by `subprocess`.

The fork server has one thread and no event loop, so that a fork copies no lock and no selector. It ends, and kills what
it has started, when the process that started it ends; where it is killed itself, the kernel does that.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tierfetch.cli.local.processes import Child, end_with_parent, execute

PROGRAM: Final = [sys.executable, "-m", "tierfetch.cli.main"]
"""What a forked child can run."""
PRELOADED: Final = (
    "tierfetch.cli.main",
    "tierfetch.cli.server",
    "tierfetch.cli.format",
    "tierfetch.broker.node",
    "tierfetch.plugins",
    "tierfetch.quorum.service",
)
REQUEST_BYTES_MAX: Final = 1 << 17
ANSWER_S: Final = 30.0


class ForkedChild:
    """What `subprocess.Popen` is for an executed one."""

    def __init__(self, reports: socket.socket, args: Sequence[str]) -> None:
        self.args = args
        self.returncode: int | None = None
        self._reports = reports
        pid = self._report(ANSWER_S)
        assert pid is not None, "the fork server does not answer"
        self.pid = pid

    def poll(self) -> int | None:
        if self.returncode is None and (code := self._report(0.0)) is not None:
            self.returncode = code
            self._reports.close()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            select.select([self._reports], [], [], timeout)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired(list(self.args), timeout or 0.0)
        return code

    def send_signal(self, sig: int) -> None:
        # Its number is not given to another process before the fork server has waited for it, and reported that.
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, sig)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _report(self, timeout_s: float) -> int | None:
        if not select.select([self._reports], [], [], timeout_s)[0]:
            return None
        report = self._reports.recv(64)
        assert report, "the fork server has ended"
        return int(report)


class ForkServer:
    """The tests' end. It starts with the first child."""

    def __init__(self) -> None:
        self._requests: socket.socket | None = None

    def spawn(self, command: Sequence[str], output: Path) -> Child:
        """Start a program of ours; any other is executed, and where the interpreter itself would be another."""
        if self._requests is None:
            self._interpreter = _interpreter()
            self._requests = self._start()
        if list(command[: len(PROGRAM)]) != PROGRAM or _interpreter() != self._interpreter:
            return execute(command, output)
        arguments = command[len(PROGRAM) :]
        request = {"arguments": arguments, "directory": str(output.parent), "environment": dict(os.environ)}
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its, output.open("ab") as file:
            socket.send_fds(self._requests, [json.dumps(request).encode()], [its.fileno(), file.fileno()])
        return ForkedChild(mine, command)

    def close(self) -> None:
        if self._requests is not None:
            self._requests.close()
            self._process.wait(ANSWER_S)

    def _start(self) -> socket.socket:
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            command = [sys.executable, "-m", __name__, str(its.fileno())]
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, pass_fds=[its.fileno()], start_new_session=True
            )
        return mine


def _interpreter() -> dict[str, str]:
    """Return what an interpreter looks at when it starts: its path, its warnings, the seed of its hashes."""
    return {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}


class _Server:
    """The fork server itself."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._ended, waker = socket.socketpair()
        waker.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        self._waker = waker
        self._children: dict[int, socket.socket] = {}

    def serve(self) -> list[str] | None:
        """Return in each child, with its arguments; None where the tests have ended."""
        while True:
            readable, _, _ = select.select([self._requests, self._ended], [], [])
            if self._ended in readable:
                self._ended.recv(4096)
                self._report_ended()
            if self._requests in readable:
                message, files, _, _ = socket.recv_fds(self._requests, REQUEST_BYTES_MAX, 2)
                if not message:
                    self._kill_all()
                    return None
                request = json.loads(message)
                if self._fork(files) == 0:
                    become(request, files[1])
                    return list(request["arguments"])
                os.close(files[1])

    def _fork(self, files: Sequence[int]) -> int:
        end_with_us = end_with_parent()
        bound, binding = os.pipe()
        if (pid := os.fork()) == 0:
            if end_with_us is not None:
                end_with_us()
            os.close(bound)
            os.close(binding)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for each in (self._requests, self._ended, self._waker, *self._children.values()):
                each.close()
            os.close(files[0])
            return 0
        os.close(binding)
        os.read(bound, 1)  # before the tests know it, and may freeze it
        os.close(bound)
        self._children[pid] = reports = socket.socket(fileno=files[0])
        _tell(reports, pid)
        return pid

    def _report_ended(self) -> None:
        # One wake-up may stand for several ends.
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            with self._children.pop(pid) as reports:
                _tell(reports, os.waitstatus_to_exitcode(status))

    def _kill_all(self) -> None:
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)


def _tell(reports: socket.socket, number: int) -> None:
    with contextlib.suppress(ConnectionError):  # nobody waits for it any longer
        reports.send(b"%d" % number)


def become(request: Mapping[str, Any], output: int) -> None:
    """Make the forked process what an executed one would be."""
    os.setsid()
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for standard in (1, 2):
        os.dup2(output, standard)
    os.close(output)
    random.seed()
    gc.unfreeze()


def main() -> None:
    requests = socket.socket(fileno=int(sys.argv[1]))
    sys.modules["hypothesis"] = None  # type: ignore[assignment]  # as a node's main function does
    for name in PRELOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    arguments = _Server(requests).serve()
    if arguments is not None:
        from tierfetch.cli.main import main as program

        sys.argv[1:] = arguments
        program(prog_name="tierfetch")


if __name__ == "__main__":
    main()
