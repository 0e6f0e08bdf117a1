"""`tierfetch server`: whatever process.roles names: a broker, a controller, or both in one process."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import click

from ..broker import CombinedConfig, NodeEnvironment, open_combined, parse_combined
from ..broker.config import BrokerConfig, load_broker_config
from ..log.core import ConfigError, read_properties
from ..protocol import OUTSIDE, OperatorError, StartWaits
from ..quorum import ControllerConfig, load_controller_config
from . import broker, controller
from .running import StopError, looking_at, node_options, reporting, run_node, serving, stop_signals, until_stopped

NodeConfig = BrokerConfig | ControllerConfig | CombinedConfig

_log = logging.getLogger(__name__)


@click.command("server")
@node_options("process.roles and what those roles need")
def server(path: Path, log_level: str) -> None:
    """Run the roles that process.roles names, until asked to stop (SIGTERM or SIGINT).

    \b
      tierfetch server --config server.properties

    \b
    Both roles in one process:
      process.roles=broker,controller
      node.id=1
      listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
      controller.listener.names=CONTROLLER
      controller.quorum.voters=1@127.0.0.1:9093
      log.dirs=data

    Its log directories must have been formatted (tierfetch format), unless it is a broker alone.

    Exit code 1 says that it could not start, or had to stop by itself; the last line of the log says why.
    """
    run_node(path, log_level, load, _run)


def load(path: Path) -> tuple[NodeConfig, list[str]]:
    """Load the configuration of the roles that the file names. ConfigError."""
    properties = read_properties(path)
    roles = {role.strip() for role in properties.get("process.roles", "").split(",")}
    if roles == {"broker"}:
        return load_broker_config(path)
    if roles == {"controller"}:
        return load_controller_config(path)
    if roles != {"broker", "controller"}:
        raise ConfigError(f"{path}: process.roles must name broker, controller, or both; it names {sorted(roles)}")
    return parse_combined(properties, str(path))


async def _run(config: NodeConfig) -> int:
    if isinstance(config, BrokerConfig):
        return await broker.run(config)
    if isinstance(config, ControllerConfig):
        return await controller.run(config)
    return await _run_both(config)


async def _run_both(config: CombinedConfig) -> int:
    stopped, waits, node_id = stop_signals(), StartWaits(), config.broker.node_id
    machine = partial(NodeEnvironment, may_start_processes=True)
    try:
        async with serving(open_combined(config, machine, waits=waits), waits, stopped) as node:
            if node is not None:
                _log.info("server %d is ready as broker and controller", node_id)
            async with AsyncExitStack() as stack:
                if node is not None:
                    await stack.enter_async_context(reporting(node.controller.without_leader))
                    await stack.enter_async_context(looking_at(node.broker.tier))
                failure = await until_stopped(stopped, *(node.failures if node is not None else ()))
            if failure is not None:
                _log.error("server %d stops: %s", node_id, failure)
            else:
                _log.info("server %d stops", node_id)
    except StopError as error:
        error.report(_log, f"server {node_id}")
        return 1
    except (*OUTSIDE, OperatorError) as error:
        _log.error("server %d cannot start: %s", node_id, error)
        return 1
    return 0 if failure is None else 1
