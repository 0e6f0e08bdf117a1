"""`tierfetch cluster up`: a whole cluster on this machine, until Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from ..light_dataclass import dataclass
from ..log.core import META_PROPERTIES, CorruptFileError
from ..protocol.net import closing
from ..quorum.storage import METADATA_PARTITION
from ..remote import PluginError, RemoteStorageError, RemoteStorageRefusedError, load_remote_storage, look_at_tier
from .cluster_configs import check_configs
from .local import (
    BrokerFailedError,
    ControllerFailedError,
    LocalCluster,
    LocalNodes,
    LocalQuorum,
    LocalServers,
    TierSettings,
    taken_port,
)
from .options import json_option, pairs
from .profiles import LocalClusterNote, announced

FIRST_CONTROLLER: Final = 101
"""Brokers count from 1; a node id belongs to one node, whatever it is."""
LOOK_S: Final = 0.5
"""How often it is looked whether all processes run."""


@click.group("cluster")
def cluster() -> None:
    """Run a whole cluster on this machine, for trying things out.

    \b
      tierfetch cluster up --brokers 3 --tier local
    """


@cluster.command("up")
@click.option("--controllers", type=click.IntRange(1, 9), default=3, show_default=True, help="Number of controllers.")
@click.option("--brokers", type=click.IntRange(1, 32), default=3, show_default=True, help="Number of brokers.")
@click.option(
    "--combined", is_flag=True, help="Every broker is a controller too, in one process; --controllers is ignored."
)
@click.option(
    "--port", type=click.IntRange(1024, 65000), default=9092, show_default=True, help="Port of the first broker."
)
@click.option(
    "--dir", "directory", type=click.Path(path_type=Path, file_okay=False), help="Keep the data in this directory."
)
@click.option(
    "--tier", metavar="PLUGIN", help="Storage plugin: local, s3, fsspec, or another name; local needs no option."
)
@click.option(
    "--option", "options", multiple=True, metavar="KEY=VALUE", help="An option of the tier's plugin; repeatable."
)
@click.option("--config", "configs", multiple=True, metavar="KEY=VALUE", help="A config of every broker; repeatable.")
@json_option
def up(
    controllers: int,
    brokers: int,
    combined: bool,
    port: int,
    directory: Path | None,
    tier: str | None,
    options: tuple[str, ...],
    configs: tuple[str, ...],
    as_json: bool,
) -> None:
    """Start controllers and brokers on loopback, and stop them at Ctrl-C.

    \b
      tierfetch cluster up --tier local
      tierfetch topics create orders --partitions 6 --replication 3 --config remote.storage.enable=true

    Brokers listen on PORT and the ports after it, controllers after those; metrics are on the ports after these, those
    of brokers first. With --dir the cluster is there again the next time; without, its data is removed at the end.
    While it is the only local cluster, other commands find it by themselves.
    """
    if options and tier is None:
        raise click.UsageError("--option is for the tier's plugin: name it with --tier, such as --tier s3")
    given = pairs(configs, "--config", "log.retention.ms=86400000")
    with _base(directory) as base, ExitStack() as stack:
        order = _Order(
            base,
            controllers=brokers if combined else controllers,
            brokers=brokers,
            first_port=port,
            tier=_tier(tier, options, base),
            combined=combined,
            configs={
                "follower.fetch.last.tiered.offset.enable": "true",
                **({} if tier is None else {"rlmm.config.remote.log.metadata.topic.brokers.min": str(brokers)}),
                **given,
            },
        )
        running = _nodes(order, given)
        _check_ports(range(port, order.metrics_ports.stop))
        _check_tier(order.tier)
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # what has been started must not outlive us
        console = Console(stderr=as_json)
        try:
            with console.status(f"{order.controllers} controllers and {brokers} brokers start"):
                _start(running, stack)
        except (BrokerFailedError, ControllerFailedError, CorruptFileError, TimeoutError) as error:
            raise click.ClickException(str(error)) from None
        if as_json:
            click.echo(_note(order).model_dump_json(indent=1))
        else:
            _show(console, order, running)
        with announced(_note(order)):
            _wait_for_signal(console, running)
        with console.status("stopping"):
            for nodes in reversed(running):
                _stop_all(nodes)


def _show(console: Console, order: _Order, running: Sequence[LocalQuorum | LocalCluster]) -> None:
    console.print(_table(running))
    console.print("What to type next, in another terminal:", *_next_steps(order, running), sep="\n  ", soft_wrap=True)
    console.print(f"data and logs in {order.base}; stop with Ctrl-C", soft_wrap=True)


@dataclass(frozen=True, slots=True)
class _Order:
    """What to start."""

    base: Path
    controllers: int
    brokers: int
    first_port: int
    tier: TierSettings | None
    combined: bool
    configs: Mapping[str, str]

    @property
    def broker_ids(self) -> range:
        return range(1, self.brokers + 1)

    @property
    def broker_ports(self) -> range:
        return range(self.first_port, self.first_port + self.brokers)

    @property
    def controller_ports(self) -> range:
        return range(self.broker_ports.stop, self.broker_ports.stop + self.controllers)

    @property
    def metrics_ports(self) -> range:
        """The ports of brokers, then those of controllers that are processes of their own."""
        first = self.controller_ports.stop
        return range(first, first + self.brokers + (0 if self.combined else self.controllers))


def _check_ports(ports: range) -> None:
    taken = taken_port(ports)
    if taken is not None:
        raise click.ClickException(f"port {taken} is taken: stop who listens there, or choose others with --port")


def _check_controllers(order: _Order) -> None:
    """ClickException if the directory holds a quorum of others: its voters are those that it began with.

    All are formatted before the first one starts. Where none has, there is no data yet: the others are formatted, too.
    """
    first = 1 if order.combined else FIRST_CONTROLLER
    kind = LocalServers.kind if order.combined else LocalQuorum.kind
    wanted = {f"{kind}-{node}" for node in range(first, first + order.controllers)}
    formatted = {path.parent.name for path in order.base.glob(f"*/{META_PROPERTIES}")}
    found = {name for name in formatted if not name.startswith(LocalCluster.kind)}
    has_begun = any((order.base / name / str(METADATA_PARTITION)).exists() for name in found)
    if found and found != wanted and (has_begun or not found < wanted):
        raise click.ClickException(
            f"--dir {order.base} holds a cluster whose controllers are {', '.join(sorted(found))}: start it with the"
            " same ones, or give another directory"
        )


def _nodes(order: _Order, given: Mapping[str, str]) -> list[LocalQuorum | LocalCluster]:
    """Return the nodes in the order in which they start: controllers, then brokers. ClickException if their configs are
    wrong, of which `given` ones are the command line's, or if the directory holds another cluster.
    """
    _check_controllers(order)
    quorum = None if order.combined else _controllers(order)
    brokers = _servers(order) if quorum is None else _brokers(order, quorum)
    for warning in check_configs(given, brokers):
        click.echo(f"warning: {warning}", err=True)
    return [brokers] if quorum is None else [quorum, brokers]


def _start(nodes: Sequence[LocalNodes], stack: ExitStack) -> None:
    for each in nodes:
        stack.enter_context(each)


def _controllers(order: _Order) -> LocalQuorum:
    return LocalQuorum(
        order.base,
        order.controllers,
        first_id=FIRST_CONTROLLER,
        ports=order.controller_ports,
        metrics_ports=order.metrics_ports[order.brokers :],
    )


def _brokers(order: _Order, quorum: LocalQuorum) -> LocalCluster:
    return LocalCluster(
        order.base,
        order.broker_ids,
        tier=order.tier,
        configs=order.configs,
        controllers=quorum.bootstrap_controllers,
        ports=order.broker_ports,
        metrics_ports=order.metrics_ports[: order.brokers],
    )


def _servers(order: _Order) -> LocalServers:
    return LocalServers(
        order.base,
        order.broker_ids,
        tier=order.tier,
        configs=order.configs,
        ports=order.broker_ports,
        controller_ports=order.controller_ports,
        metrics_ports=order.metrics_ports,
    )


def _stop_all(nodes: LocalNodes) -> None:
    """At once: each broker of a cluster needs the others, or the controllers, to take over what it leads."""
    with ThreadPoolExecutor(len(nodes.nodes)) as pool:
        list(pool.map(nodes.stop, nodes.nodes))


@contextmanager
def _base(directory: Path | None) -> Iterator[Path]:
    if directory is not None:
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise click.ClickException(f"--dir {directory}: {error.strerror}") from None
        yield directory
        return
    with tempfile.TemporaryDirectory(prefix="tierfetch-cluster-") as base:
        yield Path(base)


def _tier(plugin: str | None, options: tuple[str, ...], base: Path) -> TierSettings | None:
    if plugin is None:
        return None
    given = pairs(options, "--option", "bucket=tier")
    return TierSettings(plugin, {"dir": str(base.absolute() / "tier"), **given} if plugin == "local" else given)


def _check_tier(tier: TierSettings | None) -> None:
    """ClickException if it is configured wrongly; a tier that is away is warned of, for it may come back."""
    if tier is None:
        return
    try:
        error = asyncio.run(_look(tier))
    except (PluginError, RemoteStorageError) as failure:
        raise click.ClickException(str(failure)) from None
    if isinstance(error, RemoteStorageRefusedError):
        raise click.ClickException(
            f"the tier ({tier.plugin}) cannot be used as --option and the environment say, nothing was started: {error}"
        )
    if error is not None:
        click.echo(f"warning: the tier cannot be reached now, brokers try again until it can: {error}", err=True)


async def _look(tier: TierSettings) -> RemoteStorageError | None:
    async with closing(load_remote_storage(tier.plugin, tier.options, key_prefix="--option ")) as storage:
        return await look_at_tier(storage)


def _next_steps(order: _Order, running: Sequence[LocalQuorum | LocalCluster]) -> list[str]:
    bootstrap = f"--bootstrap 127.0.0.1:{order.broker_ports[0]}"
    brokers = running[-1]
    tiered = " --config remote.storage.enable=true" if order.tier is not None else ""
    steps = [
        f"tierfetch topics create orders --partitions 6 --replication {min(3, order.brokers)}{tiered} {bootstrap}",
        f"tierfetch brokers list {bootstrap}",
        f"tierfetch quorum describe --status --bootstrap-controller 127.0.0.1:{order.controller_ports[0]}",
    ]
    if order.tier is not None:
        config = brokers.base / f"{brokers.kind}-{brokers.nodes[0]}.properties"
        steps += [f"tierfetch tier ls {bootstrap}", f"tierfetch tier verify --config {config}"]
    return [*steps, f"tierfetch console {bootstrap}"]


def _note(order: _Order) -> LocalClusterNote:
    return LocalClusterNote(
        bootstrap=tuple(f"127.0.0.1:{port}" for port in order.broker_ports),
        controllers=tuple(f"127.0.0.1:{port}" for port in order.controller_ports),
        directory=str(order.base.absolute()),
    )


def _table(running: Sequence[LocalQuorum | LocalCluster]) -> Table:
    table = Table("node", "role", "address", "metrics")
    for nodes in reversed(running):
        for node in nodes.nodes:
            table.add_row(str(node), nodes.kind, f"127.0.0.1:{nodes.port(node)}", nodes.metrics_url(node))
            if isinstance(nodes, LocalServers):
                table.add_row(str(node), "controller", f"127.0.0.1:{nodes.controller_ports[node]}", "")
    return table


def _wait_for_signal(console: Console, running: Sequence[LocalNodes]) -> None:
    """Wait, and report a node that has ended by itself; the others continue without it."""
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    alive = [(nodes, node) for nodes in running for node in nodes.nodes]
    while not stopped.wait(LOOK_S):
        for nodes, node in list(alive):
            code = nodes.process(node).poll()
            if code is not None:
                alive.remove((nodes, node))
                nodes.forget(node)
                console.print(
                    f"{nodes.kind} {node} has ended ({code}); its log is {nodes.log_file(node)}", soft_wrap=True
                )
