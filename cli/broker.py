"""`tierfetch broker`: one broker until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from pathlib import Path

import click

from ..broker.config import BrokerConfig, ConfigError, load

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


@click.command("broker")
@click.option(
    "--config",
    "path",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Properties file with Kafka's keys; node.id, log.dirs and static.cluster.file are needed.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="Log to standard error from this level on.",
)
def broker(path: Path, log_level: str) -> None:
    """Run a broker until it is told to stop (SIGTERM or SIGINT).

    \b
    The smallest configuration:
      node.id=1
      log.dirs=data
      static.cluster.file=cluster.yaml

    Brokers of one host that name the same static.cluster.file are a cluster; the first one makes the file. Kafka's own
    keys and defaults hold for everything else (docs/configuration.md).

    \b
    With a tier, and empty followers that begin behind it:
      remote.log.storage.system.enable=true
      remote.log.storage.manager.plugin=local
      rsm.config.dir=tier
      follower.fetch.last.tiered.offset.enable=true

    Exit code 1 says that the broker could not start, or could not stop in order; the last line of the log says why.
    """
    logging.basicConfig(level=log_level.upper(), format=LOG_FORMAT, stream=sys.stderr)
    try:
        config, warnings = load(path)
    except ConfigError as error:
        raise click.ClickException(str(error)) from None
    for warning in warnings:
        logging.getLogger(__name__).warning("%s", warning)
    sys.exit(asyncio.run(_run(config)))


async def _run(config: BrokerConfig) -> int:
    from ..broker.node import Broker, StartError

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    log = logging.getLogger(__name__)
    try:
        async with Broker(config) as node:
            log.info("broker %d is ready", node.config.node_id)
            if node.failed is not None:
                node.failed.add_done_callback(lambda _: stop.set())
            await stop.wait()
            log.info("broker %d stops", node.config.node_id)
            has_failed = node.failed is not None and node.failed.done()
    except StartError as error:
        log.error("%s", error)
        return 1
    return int(has_failed)
