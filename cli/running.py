"""Running a node as a process: its configuration file, its log, its signals."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click

from ..log.core import ConfigError, read_properties
from ..protocol import OUTSIDE, OperatorError, StartWaits
from ..protocol.net import cancelled
from ..remote import RemoteStorageRefusedError, look_at_tier
from ..security import secrets_readable

if TYPE_CHECKING:
    from ..broker import Tier

Command = TypeVar("Command", bound=Callable[..., object])
Config = TypeVar("Config")
Node = TypeVar("Node")
Line = Callable[[float], str | None]
"""Return what a start waits for at a moment of the event loop's clock, or None."""

FIRST_REPORT_S: Final = 1.0
REPORT_INTERVAL_S: Final = 5.0

_log = logging.getLogger(__name__)

LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def node_options(needed: str) -> Callable[[Command], Command]:
    """--config, whose help says which keys are `needed`, and --log-level."""

    def add(command: Command) -> Command:
        config = click.option(
            "--config",
            "path",
            required=True,
            type=click.Path(path_type=Path, dir_okay=False),
            help=f"Properties file with Kafka's keys; {needed} are needed.",
        )
        level = click.option(
            "--log-level",
            type=click.Choice(["debug", "info", "warning", "error"]),
            default="info",
            show_default=True,
            help="Log lines of this level or above go to standard error.",
        )
        return config(level(command))

    return add


def run_node(
    path: Path,
    log_level: str,
    load: Callable[[Path], tuple[Config, list[str]]],
    run: Callable[[Config], Coroutine[None, None, int]],
) -> None:
    """Ends the process with the exit code that `run` returns; ClickException for a wrong configuration."""
    logging.basicConfig(level=log_level.upper(), format=LOG_FORMAT, stream=sys.stderr)
    try:
        config, warnings = load(path)
        warnings += secrets_readable(path, read_properties(path))
    except ConfigError as error:
        raise click.ClickException(str(error)) from None
    for warning in warnings:
        logging.getLogger(__name__).warning("%s", warning)
    code = asyncio.run(_with_bounded_pauses(run(config)))
    # The interpreter looks for cycles among all objects as it ends, several times: a second for a thousand partitions.
    gc.freeze()
    sys.exit(code)


async def _with_bounded_pauses(node: Coroutine[None, None, int]) -> int:
    from ..broker import PAUSES

    async with PAUSES.measured():
        return await node


class StopError(OperatorError):
    """A node has ended, but not in order: on a full disk, say. Its other parts were stopped all the same. `reasons` has
    a line for each failure, without a traceback.
    """

    def __init__(self, error: BaseException) -> None:
        self.reasons = list(dict.fromkeys(str(each) for each in _with_earlier(error)))
        super().__init__("; ".join(self.reasons))

    def report(self, log: logging.Logger, node: str) -> None:
        """One line for each reason."""
        for reason in self.reasons:
            log.error("%s could not stop in order, and recovers its logs at the next start: %s", node, reason)


def _with_earlier(error: BaseException) -> list[BaseException]:
    """The failures, in their order: one that came while another was handled has that one as its context."""
    found: list[BaseException] = []
    each: BaseException | None = error
    while each is not None:
        if isinstance(each, OUTSIDE):
            found.insert(0, each)
        each = each.__cause__ or each.__context__
    return found


def stop_signals() -> asyncio.Future[None]:
    """Done at the first SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[None] = loop.create_future()

    def stop() -> None:
        if not stopped.done():
            stopped.set_result(None)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    return stopped


@asynccontextmanager
async def serving(
    opening: AbstractAsyncContextManager[Node], waits: StartWaits, stopped: asyncio.Future[None]
) -> AsyncIterator[Node | None]:
    """Yield the node that serves, or None if the process was asked to stop before it did; stop it at the end.

    A start may wait a minute for controllers, and recover logs for longer. It can be interrupted, so that no operator
    has to kill it, and the log says what it waits for. Raise what the start raises, and StopError.
    """
    start = asyncio.create_task(_enter(opening))
    async with reporting(waits.line):
        await asyncio.wait((start, stopped), return_when=asyncio.FIRST_COMPLETED)
    if not start.done():
        await cancelled(start)
        yield None
        return
    node = await start
    try:
        yield node
    finally:
        try:
            await opening.__aexit__(None, None, None)
        except OUTSIDE as error:
            raise StopError(error) from error


async def _enter(opening: AbstractAsyncContextManager[Node]) -> Node:
    return await opening.__aenter__()


@asynccontextmanager
async def reporting(line: Line) -> AsyncIterator[None]:
    """Meanwhile the log says what is waited for: after a second, then every few."""
    task = asyncio.create_task(_report(line), name="reports")
    try:
        yield
    finally:
        await cancelled(task)


@asynccontextmanager
async def looking_at(tier: Tier | None) -> AsyncIterator[None]:
    """Meanwhile the log says once if the tier cannot be used. A broker serves all the same: a tier may be away for a
    while, and what is not in it stays on the local disk.
    """
    if tier is None:
        yield
        return
    task = asyncio.create_task(_look_at(tier), name="look at the tier")
    try:
        yield
    finally:
        await cancelled(task)


async def _look_at(tier: Tier) -> None:
    error = await look_at_tier(tier.manager.storage)
    if isinstance(error, RemoteStorageRefusedError):
        _log.error("the tier refuses this broker, and nothing is copied to it until rsm.config.* is right: %s", error)
    elif error is not None:
        _log.warning("the tier is unreachable, copies are tried again until it responds: %s", error)
    else:
        _log.info("the tier responds")


async def _report(line: Line) -> None:
    loop = asyncio.get_running_loop()
    pause_s = FIRST_REPORT_S
    while True:
        await asyncio.sleep(pause_s)
        text = line(loop.time())
        pause_s = FIRST_REPORT_S if text is None else REPORT_INTERVAL_S
        if text is not None:
            _log.warning("%s", text)


async def until_stopped(stopped: asyncio.Future[None], *failures: asyncio.Future[str] | None) -> str | None:
    """Return None when the process is asked to stop, or the reason if one of the node's parts failed first."""
    failing = [failed for failed in failures if failed is not None]
    ends: list[asyncio.Future[None] | asyncio.Future[str]] = [stopped, *failing]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    return next((failed.result() for failed in failing if failed.done()), None)
