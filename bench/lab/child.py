"""A benchmark as a process of its own, whose output goes to a file."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

STOP_S: Final = 20.0
"""How long a benchmark may take to stop its brokers once it is asked to."""


def exit_code(
    command: Sequence[str], output: Path, limit_s: float, variables: Mapping[str, str] | None = None
) -> int | None:
    """Run a program; return its exit code, or None if it was stopped because it took longer than the limit."""
    with output.open("wb") as log:
        child = subprocess.Popen(
            command,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return child.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            stop(child)


def stop(child: subprocess.Popen[bytes]) -> None:
    """End a benchmark with its brokers: an interrupt first, so that it can clean up; then all of its session."""
    if child.poll() is None:
        child.send_signal(signal.SIGINT)
        try:
            child.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
