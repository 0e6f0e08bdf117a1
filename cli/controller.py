"""`tierfetch controller`: a controller on its replica of the metadata quorum, until SIGTERM or SIGINT."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from itertools import chain
from pathlib import Path

import click

from ..protocol import StartWaits
from ..quorum import ControllerConfig, load_controller_config
from .running import StopError, node_options, reporting, run_node, serving, stop_signals, until_stopped

_log = logging.getLogger(__name__)


@click.command("controller")
@node_options("node.id, log.dirs and controller.quorum.*")
def controller(path: Path, log_level: str) -> None:
    """Run a controller until it is asked to stop (SIGTERM or SIGINT).

    \b
      tierfetch controller --config controller.properties

    \b
    The smallest configuration of one of three:
      node.id=1
      listeners=CONTROLLER://127.0.0.1:9093
      controller.quorum.voters=1@127.0.0.1:9093,2@127.0.0.1:9094,3@127.0.0.1:9095
      log.dirs=data-1

    Its log directory must have been formatted (tierfetch format). A leader that is asked to stop hands over first.

    Exit code 1 says that it could not start, or that it had to stop by itself; the last line of the log says why.
    """
    run_node(path, log_level, load_controller_config, run)


async def run(config: ControllerConfig) -> int:
    """The exit code."""
    try:
        return await _serve(config)
    except StopError as error:
        error.report(_log, f"controller {config.node_id}")
        return 1


async def _serve(config: ControllerConfig) -> int:
    from ..broker import NodeEnvironment, monitoring_endpoint, process_metrics
    from ..broker.config import check_dynamic_configs
    from ..controller import controller_families, open_controller
    from ..plugin_options import PluginError
    from ..quorum import QuorumStartError

    stopped = stop_signals()
    machine = NodeEnvironment()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(machine.disk.close)
        opening = open_controller(config, machine, check_broker_configs=check_dynamic_configs)
        try:
            service = await stack.enter_async_context(serving(opening, StartWaits(), stopped))
        except (QuorumStartError, PluginError, OSError) as error:
            _log.error("controller %d cannot start: %s", config.node_id, error)
            return 1
        if service is None:
            _log.info("controller %d stops", config.node_id)
            return 0
        node = service.node
        if config.metrics_port is not None:
            endpoint = monitoring_endpoint(
                lambda: chain(node.metrics.families(node), controller_families(service.controller), process_metrics()),
                lambda: service.without_leader(0.0),
            )
            stack.push_async_callback(endpoint.close)
            await endpoint.start(config.metrics_host, config.metrics_port, config.security.metrics)
        _log.info("controller %d is ready on port %d", config.node_id, service.quorum.server.port)
        async with reporting(service.without_leader):
            failure = await until_stopped(stopped, node.failed, service.controller.failed)
        if failure is not None:
            _log.error("controller %d stops: %s", config.node_id, failure)
            return 1
        _log.info("controller %d stops", config.node_id)
    return 0
