"""`tierfetch controller`: a controller on its replica of the metadata quorum, until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import click

from ..log.properties import ConfigError
from ..quorum.controller_config import ControllerConfig, load
from .broker import LOG_FORMAT

_log = logging.getLogger(__name__)


@click.command("controller")
@click.option(
    "--config",
    "path",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Properties file with Kafka's keys; node.id, log.dirs and controller.quorum.* are needed.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="Log to standard error from this level on.",
)
def controller(path: Path, log_level: str) -> None:
    """Run a controller until it is told to stop (SIGTERM or SIGINT).

    \b
    The smallest configuration of one of three:
      node.id=1
      listeners=CONTROLLER://127.0.0.1:9093
      controller.quorum.voters=1@127.0.0.1:9093,2@127.0.0.1:9094,3@127.0.0.1:9095
      log.dirs=data-1

    Its log directory must have been formatted (tierfetch format). A leader that is told to stop hands over first.

    Exit code 1 says that it could not start, or that it had to stop by itself; the last line of the log says why.
    """
    logging.basicConfig(level=log_level.upper(), format=LOG_FORMAT, stream=sys.stderr)
    try:
        config, warnings = load(path)
    except ConfigError as error:
        raise click.ClickException(str(error)) from None
    for warning in warnings:
        _log.warning("%s", warning)
    sys.exit(asyncio.run(_run(config)))


async def _run(config: ControllerConfig) -> int:
    from ..broker.dynamic_configs import check_dynamic_configs
    from ..broker.environment import NodeEnvironment
    from ..broker.metrics_endpoint import MetricsEndpoint
    from ..controller.service import ControllerService
    from ..quorum.errors import QuorumStartError

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    machine = NodeEnvironment()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(machine.disk.close)
        try:
            service = await stack.enter_async_context(
                ControllerService(
                    config,
                    disk=machine.disk,
                    rng=machine.rng,
                    now_ms=machine.now_ms,
                    check_broker_configs=check_dynamic_configs,
                )
            )
        except (QuorumStartError, OSError) as error:
            _log.error("controller %d cannot start: %s", config.node_id, error)
            return 1
        node = service.node
        if config.metrics_port is not None:
            endpoint = MetricsEndpoint(lambda: node.metrics.families(node))
            stack.push_async_callback(endpoint.close)
            await endpoint.start(config.metrics_host, config.metrics_port)
        _log.info("controller %d is ready on port %d", config.node_id, service.quorum.server.port)
        stopping = asyncio.create_task(stop.wait())
        failures = (node.failed, service.controller.failed)
        ends: list[asyncio.Future[Any]] = [stopping, *failures]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        for failed in failures:
            if failed.done():
                _log.error("controller %d stops: %s", config.node_id, failed.result())
                return 1
        _log.info("controller %d stops", config.node_id)
    return 0
