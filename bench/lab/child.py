"""Programs that a benchmark runs as processes of their own: their output goes to a file."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tierfetch.cli.local import end_with_parent, poll
from tierfetch.cli.local.processes import Processes

CHILD: Final = 1
"""The number of the process among the children of `started`."""
SAID_MAX: Final = 300
"""The number of characters of its output, from the end, that an error repeats."""

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
            preexec_fn=end_with_parent(),
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


@contextmanager
def started(
    name: str,
    command: Sequence[str],
    output: Path,
    is_ready: Callable[[], bool],
    error: Callable[[str], Exception],
    timeout_s: float = 30.0,
) -> Iterator[Processes]:
    """Run a program until the end of the block, which begins when it is ready. `error` if it ends before that,
    TimeoutError if it is not ready in time.
    """
    children = Processes()
    try:
        children.start(CHILD, command, output)
        for _ in poll(timeout_s, f"{name} to be ready"):
            if children[CHILD].poll() is not None:
                raise error(f"{name} ended: {output.read_text(errors='replace')[-SAID_MAX:]}")
            if is_ready():
                break
        yield children
    finally:
        children.kill_all()


def accepts(host: str, port: int) -> bool:
    """Return whether something listens there."""
    try:
        socket.create_connection((host, port), 1.0).close()
    except OSError:
        return False
    return True
