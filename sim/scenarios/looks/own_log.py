"""A program keeps a log of its own (`tierfetch.log.open_log`), on a machine that loses its power while it appends.

| after the loss of power | must hold                                                                                  |
|-------------------------|---------------------------------------------------------------------------------------------|
| the log is opened again | it has what `append` has returned, in order; of what it has not returned the next call, if |
|                         | any, whole; its offsets rise by one                                                        |
| `delete_before`         | what is left begins there                                                                  |
| `verify_log`            | it counts what is in the files                                                             |
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

from ....broker import NodeEnvironment
from ....log import EmbeddedLog, open_log_with, verify_log_on
from ....log.core import LogConfig
from ....log.disk import Disk
from ....log.keeper import LogServices
from ...machine.world import World

HOST: Final = "own-log"
LOG: Final = "log-0"
CONFIG: Final = LogConfig(segment_bytes=1_000)
APPENDS_S: Final = (0.02, 0.5)
VALUES_MAX: Final = 3
VALUE_BYTES: Final = 60


def wrong_log(found: Sequence[tuple[int, bytes | None]], calls: Sequence[Sequence[bytes]], returned: int) -> list[str]:
    """Compare offsets and values with what was appended, of which so many calls have returned. Pure."""
    values = [value for _, value in found]
    wrong = [] if [offset for offset, _ in found] == list(range(len(found))) else ["its offsets do not rise by one"]
    for kept in range(returned, len(calls) + 1):
        if values == [value for call in calls[:kept] for value in call]:
            return wrong
    return [*wrong, f"{len(values)} records are none that {returned} or more of {len(calls)} calls have appended"]


class OwnLog:
    """`look` once, or again: each time in another directory."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = world.rng("own log")
        self._numbers = count(1)

    async def look(self) -> list[str]:
        """Append, lose the power, and read."""
        host, directory = self._world.host(HOST), Path(f"/own-log-{next(self._numbers)}")
        calls: list[list[bytes]] = []
        returned: list[int] = []
        try:
            log, _ = await host.start(partial(_open, directory))
            appending = asyncio.create_task(self._append(log, calls, returned))
            await asyncio.sleep(self._rng.uniform(*APPENDS_S))
            host.crash("machine")
            appending.cancel()
            await asyncio.gather(appending, return_exceptions=True)
            log, disk = await host.start(partial(_open, directory))
            found = [(record.offset, record.value) async for record in log.read()]
            wrong = wrong_log(found, calls, len(returned))
            middle = len(found) // 2
            await log.delete_before(middle)
            left = [(record.offset, record.value) async for record in log.read()]
            if (log.start_offset, left) != (middle, found[middle:]):
                wrong.append(f"what is left from offset {middle} on begins at {log.start_offset}, with {left[:1]}")
            summary = await verify_log_on(disk, directory / LOG)
            counted = (summary.end_offset, summary.records)
            if counted != (len(found), len(found) - summary.start_offset) or summary.start_offset > middle:
                wrong.append(f"{summary} of {len(found)} records, those below {middle} deleted")
        finally:
            await host.stop()
        return wrong

    async def _append(self, log: EmbeddedLog, calls: list[list[bytes]], returned: list[int]) -> None:
        while True:
            values = [self._rng.randbytes(VALUE_BYTES) for _ in range(self._rng.randint(1, VALUES_MAX))]
            calls.append(values)
            returned.append(await log.append(*values))


def log_services(machine: NodeEnvironment, config: LogConfig) -> LogServices:
    """Return what the logs of a program on this machine need, all with one config."""
    return LogServices(
        disk=machine.disk,
        rng=machine.rng,
        now_ms=machine.now_ms,
        config_of=lambda _: config,
        lock=machine.lock_directory,
    )


@asynccontextmanager
async def _open(directory: Path, machine: NodeEnvironment) -> AsyncIterator[tuple[EmbeddedLog, Disk]]:
    async with open_log_with(log_services(machine, CONFIG), directory) as log:
        yield log, machine.disk
