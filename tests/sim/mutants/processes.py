"""Forks a program, and watches it: it reports lines of JSON, and is ended if it takes too much of anything.

| ending  | when                                                                                        |
|---------|---------------------------------------------------------------------------------------------|
| done    | it ended by itself                                                                          |
| died    | a signal ended it, or a status other than 0                                                 |
| busy    | since its last line it took more CPU than that step may: an endless loop                     |
| silent  | since its last line it took none, for so long: it waits for what never comes                |

Both limits are of a step, not of a whole: a machine that others use, too, makes no mutant look guilty, for CPU is
counted, and a process that waits for its turn is not silent (it is runnable). Memory is limited by the kernel: what
exceeds it gets a MemoryError.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

LOOK_S: Final = 0.1
PIPE_BYTES: Final = 1 << 16
REASON_CHARACTERS_MAX: Final = 300

Program = Callable[[Callable[[dict[str, Any]], None], Path], None]
"""Gets where to report lines, and a directory of its own."""


@dataclass(frozen=True, slots=True)
class Limits:
    """`step_cpu_s` is of a step that `known_cpu_s` does not name, and what any may take beside `factor` times of what
    it took without a mutant.
    """

    step_cpu_s: float = 20.0
    factor: float = 10.0
    silent_s: float = 20.0
    memory_bytes: int = 4 << 30
    total_cpu_s: float = float("inf")
    known_cpu_s: dict[str, float] = field(default_factory=dict)

    def cpu_s(self, step: str) -> float:
        return self.step_cpu_s + self.factor * self.known_cpu_s.get(step, 0.0)


@dataclass(slots=True)
class Ending:
    """How a program ended. `step` is the one under way, None between two."""

    kind: str = "done"
    step: str | None = None
    status: int = 0
    lines: list[dict[str, Any]] = field(default_factory=list)
    cpu_s: float = 0.0
    is_cut: bool = False
    """Whether it was stopped because all steps together had taken what they may."""


def run(program: Program, limits: Limits, on_line: Callable[[dict[str, Any]], None] | None = None) -> Ending:
    """Run a program in a fork of this process until it ends, or has to. Its lines are kept if nobody gets them."""
    directory = Path(tempfile.mkdtemp(prefix="tierfetch-mutant-"))
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _run_here(program, writing, directory, limits)
    os.close(writing)
    try:
        return _Watch(pid, reading, limits, on_line).wait()
    finally:
        os.close(reading)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)
        shutil.rmtree(directory, ignore_errors=True)


def _run_here(program: Program, writing: int, directory: Path, limits: Limits) -> None:
    """Run it, in the forked process, which never returns."""
    status = 1
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, hard))
        nowhere = os.open(os.devnull, os.O_RDWR)
        for each in (0, 1, 2):
            os.dup2(nowhere, each)
        gc.freeze()
        with os.fdopen(writing, "w", buffering=1) as lines:
            try:
                program(lambda line: print(json.dumps(line), file=lines, flush=True), directory)
                status = 0
            except Exception as error:  # noqa: BLE001 - a module that cannot be imported, say
                failure = f"{type(error).__name__}: {error}"[:REASON_CHARACTERS_MAX]
                print(json.dumps({"end": "program", "cpu_s": 0.0, "failure": failure}), file=lines, flush=True)
    finally:
        os._exit(status)


class _Watch:
    def __init__(
        self, pid: int, reading: int, limits: Limits, on_line: Callable[[dict[str, Any]], None] | None
    ) -> None:
        self._pid, self._reading, self._limits = pid, reading, limits
        self._ending = Ending()
        self._on_line = on_line or self._ending.lines.append
        self._process = psutil.Process(pid)
        self._text = b""
        self._step_cpu_s = 0.0
        self._moved_s = time.monotonic()

    def wait(self) -> Ending:
        while True:
            readable, _, _ = select.select([self._reading], [], [], LOOK_S)
            if readable and not self._take(os.read(self._reading, PIPE_BYTES)):
                return self._ended()
            self._look()
            if self._ending.kind != "done" or self._ending.is_cut:
                return self._ending

    def _take(self, data: bytes) -> bool:
        """Take what was reported; False at its end."""
        *whole, self._text = (self._text + data).split(b"\n")
        for each in whole:
            line = json.loads(each)
            self._ending.step = line.get("begin")
            self._step_cpu_s = self._ending.cpu_s
            self._moved_s = time.monotonic()
            self._on_line(line)
        return bool(data)

    def _look(self) -> None:
        with suppress(psutil.Error):
            times = self._process.cpu_times()
            cpu_s = times.user + times.system
            is_waiting = self._process.status() in (psutil.STATUS_SLEEPING, psutil.STATUS_IDLE)
            if cpu_s > self._ending.cpu_s or not is_waiting:
                self._moved_s = time.monotonic()
            self._ending.cpu_s = cpu_s
        if self._ending.cpu_s - self._step_cpu_s > self._limits.cpu_s(self._ending.step or ""):
            self._ending.kind = "busy"
        elif time.monotonic() - self._moved_s > self._limits.silent_s:
            self._ending.kind = "silent"
        elif self._ending.cpu_s > self._limits.total_cpu_s:
            self._ending.is_cut = True

    def _ended(self) -> Ending:
        _, status = os.waitpid(self._pid, 0)
        self._ending.status = os.waitstatus_to_exitcode(status)
        if self._ending.status != 0:
            self._ending.kind = "died"
        return self._ending
