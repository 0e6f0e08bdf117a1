"""Processes that a test starts by itself: nothing of their session outlives the test, however it or they end."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any, AnyStr, Final

from tierfetch.cli.local.processes import end_with_parent

END_S: Final = 60.0


def started(command: Sequence[str], output: IO[Any] | int, **options: Any) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own; its output and its errors go to one place."""
    return subprocess.Popen(
        command, stdout=output, stderr=output, start_new_session=True, preexec_fn=end_with_parent(), **options
    )


@contextmanager
def ended(
    process: subprocess.Popen[AnyStr],
    said: Callable[[], str] = str,
    *,
    by: signal.Signals = signal.SIGTERM,
    timeout_s: float = END_S,
) -> Iterator[None]:
    """After the block, have the process end in order: by this signal, with exit code 0. One that does not, or that a
    failed test leaves behind, is killed with all of its session.
    """
    try:
        yield
        process.send_signal(by)
        assert process.wait(timeout_s) == 0, said()
    finally:
        kill_session(process)


def kill_session(process: subprocess.Popen[AnyStr]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
