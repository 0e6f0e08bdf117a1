"""`tierfetch broker`: one broker until SIGTERM or SIGINT."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from ..broker.config import BrokerConfig, load_broker_config
from ..protocol import StartWaits
from .running import StopError, looking_at, node_options, run_node, serving, stop_signals, until_stopped

_log = logging.getLogger(__name__)


@click.command("broker")
@node_options("node.id, log.dirs and controller.quorum.bootstrap.servers")
def broker(path: Path, log_level: str) -> None:
    """Run a broker until it is asked to stop (SIGTERM or SIGINT).

    \b
      tierfetch broker --config broker.properties

    \b
    The smallest configuration:
      node.id=1
      log.dirs=data
      controller.quorum.bootstrap.servers=127.0.0.1:9093

    The controllers (tierfetch controller) must run; tierfetch cluster up starts all of it. Kafka's own keys and
    defaults hold for everything else (docs/configuration.md).

    \b
    With a tier, and empty followers that begin after its end:
      remote.log.storage.system.enable=true
      remote.log.storage.manager.plugin=local
      rsm.config.dir=tier
      follower.fetch.last.tiered.offset.enable=true

    Exit code 1 says that the broker could not start, had to stop by itself, or could not stop in order; the last line
    of the log says why.
    """
    run_node(path, log_level, load_broker_config, run)


async def run(config: BrokerConfig) -> int:
    from ..broker import NodeEnvironment, StartError, open_broker

    stopped, waits = stop_signals(), StartWaits()
    try:
        machine = NodeEnvironment(may_start_processes=True)
        async with serving(open_broker(config, machine, waits=waits), waits, stopped) as node:
            if node is not None:
                _log.info("broker %d is ready", config.node_id)
            async with looking_at(node.tier if node is not None else None):
                failure = await until_stopped(stopped, node.failed if node is not None else None)
            if failure is not None:
                _log.error("broker %d stops: %s", config.node_id, failure)
            else:
                _log.info("broker %d stops", config.node_id)
    except StartError as error:
        _log.error("%s", error)
        return 1
    except StopError as error:
        error.report(_log, f"broker {config.node_id}")
        return 1
    return 0 if failure is None else 1
