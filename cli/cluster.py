"""`tierfetch cluster up`: a whole cluster on this machine, until Ctrl-C."""

from __future__ import annotations

import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from .local_cluster import BrokerFailedError, LocalCluster, TierSettings
from .local_quorum import ControllerFailedError, LocalQuorum
from .options import pairs

FIRST_CONTROLLER: Final = 101
"""Brokers count from 1; a node id belongs to one node, whatever it is."""


@click.group("cluster")
def cluster() -> None:
    """A whole cluster on this machine, for trying things out."""


@cluster.command("up")
@click.option("--controllers", type=click.IntRange(1, 9), default=3, show_default=True)
@click.option("--brokers", type=click.IntRange(1, 32), default=3, show_default=True)
@click.option("--port", type=click.IntRange(1024, 65000), default=9092, show_default=True, help="Of the first broker.")
@click.option("--dir", "directory", type=click.Path(path_type=Path, file_okay=False), help="Keep the data here.")
@click.option("--tier", metavar="PLUGIN", help="local, s3, fsspec, or another plugin's name; local needs no option.")
@click.option("--option", "options", multiple=True, metavar="KEY=VALUE", help="Of the tier's plugin; repeatable.")
@click.option("--config", "configs", multiple=True, metavar="KEY=VALUE", help="Of every broker; repeatable.")
def up(
    controllers: int,
    brokers: int,
    port: int,
    directory: Path | None,
    tier: str | None,
    options: tuple[str, ...],
    configs: tuple[str, ...],
) -> None:
    """Start controllers and brokers on loopback, and stop them at Ctrl-C.

    \b
      tierfetch cluster up --tier local
      tierfetch topics create orders --partitions 6 --replication 3 --config remote.storage.enable=true

    Brokers listen on PORT and the ports behind it, controllers behind those. With --dir the cluster is there again the
    next time; without, its data is removed at the end.
    """
    with _base(directory) as base, ExitStack() as stack:
        ports = range(port, port + brokers + controllers)
        console = Console()
        try:
            with console.status(f"{controllers} controllers and {brokers} brokers start"):
                quorum = stack.enter_context(
                    LocalQuorum(base, controllers, first_id=FIRST_CONTROLLER, ports=ports[brokers:])
                )
                running = stack.enter_context(
                    LocalCluster(
                        base,
                        range(1, brokers + 1),
                        tier=_tier(tier, options, base),
                        configs={
                            "follower.fetch.last.tiered.offset.enable": "true",
                            **pairs(configs, "--config", "log.retention.ms=86400000"),
                        },
                        controllers=quorum.bootstrap_controllers,
                        ports=ports[:brokers],
                    )
                )
        except (BrokerFailedError, ControllerFailedError, TimeoutError) as error:
            raise click.ClickException(str(error)) from None
        console.print(_table(quorum, running))
        console.print(f"data and logs in {base}; stop with Ctrl-C")
        _wait_for_signal()
        with console.status("stopping"):
            for broker in running.broker_ids:
                running.stop(broker)
            for node in quorum.nodes:
                quorum.stop(node)


@contextmanager
def _base(directory: Path | None) -> Iterator[Path]:
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
        yield directory
        return
    with tempfile.TemporaryDirectory(prefix="tierfetch-cluster-") as base:
        yield Path(base)


def _tier(plugin: str | None, options: tuple[str, ...], base: Path) -> TierSettings | None:
    if plugin is None:
        return None
    given = pairs(options, "--option", "bucket=tier")
    return TierSettings(plugin, {"dir": str(base.absolute() / "tier"), **given} if plugin == "local" else given)


def _table(quorum: LocalQuorum, running: LocalCluster) -> Table:
    table = Table("node", "role", "address", "metrics")
    for broker in running.broker_ids:
        table.add_row(str(broker), "broker", f"127.0.0.1:{running.port(broker)}", running.metrics_url(broker))
    for node in quorum.nodes:
        table.add_row(str(node), "controller", f"127.0.0.1:{quorum.port(node)}", "")
    return table


def _wait_for_signal() -> None:
    told = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: told.set())
    told.wait()
