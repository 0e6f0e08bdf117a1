"""A bare event loop beside the brokers, as a process of its own that has nothing to do but to look at the clock.

How late it is called is what the machine does to every process: a pause of a broker's loop counts only beside it.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from tierfetch.cli.local import end_with_parent

TICK_S: Final = 0.02
"""The brokers' own."""


@dataclass(frozen=True, slots=True)
class Lateness:
    """The longest pause in s, and how many were longer than the limit that was asked for."""

    longest_s: float
    over: int


class BareLoop:
    """Runs from `__enter__` to `stop`, or to the end of the block."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "bench.partitions.bare_loop", str(self._limit_s)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, preexec_fn=end_with_parent())
        assert self._process.stdout is not None, command
        self._process.stdout.readline()  # it looks at the clock from now on
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> Lateness:
        """End it, and return what it has seen."""
        assert self._process is not None, "it does not run"
        process, self._process = self._process, None
        process.terminate()
        output, _ = process.communicate()
        return Lateness(**json.loads(output))


async def _watch(limit_s: float) -> Lateness:
    """Look at the clock until SIGTERM."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    print(flush=True)
    longest_s, over = 0.0, 0
    while not ended.is_set():
        began_s = time.monotonic()
        await asyncio.sleep(TICK_S)
        late_s = time.monotonic() - began_s - TICK_S
        longest_s, over = max(longest_s, late_s), over + (late_s > limit_s)
    return Lateness(longest_s, over)


if __name__ == "__main__":
    found = asyncio.run(_watch(float(sys.argv[1])))
    print(json.dumps({"longest_s": found.longest_s, "over": found.over}))
