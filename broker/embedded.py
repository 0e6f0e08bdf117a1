"""A broker in one's process: a cluster of one node, or a member of a cluster that runs.

    open_server   directory checked -> formatted once -> controller, then broker -> serving -> both closed in order
    join_cluster  directory checked -> registered with the controllers -> serving -> leaderships handed over, closed

* It runs on the event loop of the caller, as `tierfetch server` and `tierfetch broker` do on theirs: a program that
  blocks the loop blocks the broker, and above `broker.session.timeout.ms` (9 s) its cluster counts it as dead.
* What it acknowledges is as durable as from any broker (docs/data-path.md): Kafka's `acks`, `min.insync.replicas` and
  `flush.*` hold. A process that is killed is recovered at the next start.
* A start that waits (for controllers, for logs to be recovered) says in the program's log what it waits for.
* The block's end closes it in order, also when the block raised or was cancelled: at most the time of
  `controlled.shutdown.timeout.ms` to hand over, and ten seconds for requests that are under way.
* One whose disk or quorum fails stops serving by itself: `wait_failed` returns why. Leave the block then.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, TypeVar
from uuid import uuid4

from ..log.core import META_PROPERTIES
from ..protocol import OUTSIDE, OperatorError, StartWaits, uuid_to_text
from ..protocol.net import LOOPBACK, cancelled, reserved_port
from ..quorum import ReplicaKey
from ..quorum.storage import FormatOrder, format_directories, new_directory_id
from .combined import CombinedConfig, CombinedNode, open_combined, parse_combined
from .config.broker_config import parse_broker_config
from .environment import NodeEnvironment
from .node import Broker, StartError, open_broker

Node = TypeVar("Node")

_log = logging.getLogger(__name__)

REPORT_INTERVAL_S: Final = 5.0
SERVER_ID: Final = 1
ALONE: Final[Mapping[str, str]] = {
    "controller.quorum.election.timeout.ms": "100",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "rlmm.config.remote.log.metadata.topic.min.isr": "1",
}
"""What a cluster of one node needs: Kafka's defaults ask for three brokers."""
OWN_KEYS: Final = frozenset(
    {
        "advertised.listeners",
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.voters",
        "listeners",
        "log.dir",
        "log.dirs",
        "node.id",
        "process.roles",
    }
)
"""The keys that follow from the arguments of the call."""


class EmbeddedBroker:
    """A broker that serves; `open_server` and `join_cluster` make it."""

    def __init__(self, broker: Broker, controllers: str, failures: tuple[asyncio.Future[str] | None, ...]) -> None:
        self._broker = broker
        self._controllers = controllers
        self._failures = tuple(each for each in failures if each is not None)

    @property
    def bootstrap(self) -> str:
        """Its address as HOST:PORT, for `bootstrap.servers` of any client."""
        return str(self._broker.address)

    @property
    def controllers(self) -> str:
        """The addresses of its controllers, for `join_cluster` and `tierfetch quorum`."""
        return self._controllers

    @property
    def node_id(self) -> int:
        """Its number in the cluster."""
        return self._broker.config.node_id

    @property
    def cluster_id(self) -> str:
        """The id of its cluster, chosen when the directory was formatted."""
        return self._broker.view.image.cluster_id

    async def wait_failed(self) -> str:
        """Wait until the broker has to stop by itself, because its disk or its quorum failed, and return why. While all
        is well this waits; cancel it at the block's end.

            failure = asyncio.create_task(server.wait_failed())
        """
        await asyncio.wait(self._failures, return_when=asyncio.FIRST_COMPLETED)
        return next(each.result() for each in self._failures if each.done())


@asynccontextmanager
async def open_server(
    directory: str | os.PathLike[str],
    *,
    host: str = LOOPBACK,
    port: int = 0,
    controller_port: int = 0,
    properties: Mapping[str, str] | None = None,
) -> AsyncIterator[EmbeddedBroker]:
    """Run a cluster of one node, controller and broker, until the block ends. `bootstrap` has its address.

    `directory` keeps all of it; an absent or empty one becomes a new cluster. `port=0` lets the system choose. Clients
    of other machines need the `host` by which they reach this one. `properties` has Kafka's configuration of a node.


    Raise OperatorError: ConfigError for the properties, StartError for a directory that is in use, of another node,
    damaged, or with foreign files, and for a port that is taken.

        async with tierfetch.broker.open_server("data") as server:
            print(server.bootstrap)
    """
    path, given = Path(directory).absolute(), dict(properties or {})
    _check_keys("open_server", given)
    _check_directory(path)
    with reserved_port() as free_port:
        controllers = f"{LOOPBACK}:{controller_port or free_port}"
        config, _ = parse_combined(
            {
                **ALONE,
                **given,
                "node.id": str(SERVER_ID),
                "process.roles": "broker,controller",
                "listeners": f"PLAINTEXT://{host}:{port},CONTROLLER://{controllers}",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": f"{SERVER_ID}@{controllers}",
                "log.dirs": str(path),
            },
            f"open_server({path})",
        )
        async with AsyncExitStack() as stack:
            waits = StartWaits()
            node = await _entered(stack, _formatted_and_open(config, waits), path, waits)
            yield EmbeddedBroker(node.broker, controllers, node.failures)


@asynccontextmanager
async def join_cluster(
    directory: str | os.PathLike[str],
    controllers: str,
    node_id: int,
    *,
    host: str = LOOPBACK,
    port: int = 0,
    properties: Mapping[str, str] | None = None,
) -> AsyncIterator[EmbeddedBroker]:
    """Run a broker of a cluster that runs, tierfetch's or Apache Kafka's 4.3, until the block ends.

    `controllers` is `controller.quorum.bootstrap.servers`, HOST:PORT of each; `node_id` is this broker's alone. The
    other arguments and the errors are those of `open_server`; StartError also where no controller answers within
    `initial.broker.registration.timeout.ms` (60 s).

        async with tierfetch.broker.join_cluster("data-4", "127.0.0.1:9093", node_id=4) as broker:
            print(broker.cluster_id)
    """
    path, given = Path(directory).absolute(), dict(properties or {})
    _check_keys("join_cluster", given)
    _check_directory(path)
    config, _ = parse_broker_config(
        {
            **given,
            "node.id": str(node_id),
            "process.roles": "broker",
            "listeners": f"PLAINTEXT://{host}:{port}",
            "controller.quorum.bootstrap.servers": controllers,
            "log.dirs": str(path),
        },
        f"join_cluster({path})",
    )
    async with AsyncExitStack() as stack:
        waits = StartWaits()
        broker = await _entered(stack, open_broker(config, waits=waits), path, waits)
        yield EmbeddedBroker(broker, controllers, (broker.failed,))


async def _entered(
    stack: AsyncExitStack, node: AbstractAsyncContextManager[Node], path: Path, waits: StartWaits
) -> Node:
    """Start a node. Raise StartError for what may go wrong; the errors of the caller's block stay as they are."""
    reports = asyncio.create_task(_report(waits), name="reports")
    try:
        return await stack.enter_async_context(node)
    except StartError:
        raise
    except (*OUTSIDE, OperatorError) as error:
        raise StartError(f"the broker of {path} cannot start: {error}") from error
    finally:
        await cancelled(reports)


async def _report(waits: StartWaits) -> None:
    """Log what the start waits for, every few seconds. A start without trouble logs nothing."""
    while True:
        await asyncio.sleep(REPORT_INTERVAL_S)
        line = waits.line(asyncio.get_running_loop().time())
        if line is not None:
            _log.warning("%s", line)


@asynccontextmanager
async def _formatted_and_open(config: CombinedConfig, waits: StartWaits) -> AsyncIterator[CombinedNode]:
    """Format the directory if it is new, and run both roles."""
    machine = NodeEnvironment()
    try:
        key = ReplicaKey(SERVER_ID, new_directory_id(machine.rng))
        if not (config.controller.metadata_directory / META_PROPERTIES).exists():
            order = FormatOrder(uuid_to_text(uuid4()), key, config.controller.directories)
            await format_directories(machine.disk, order, ignore_formatted=True, rng=machine.rng, now_ms=machine.now_ms)
    finally:
        await machine.disk.close()
    async with open_combined(config, waits=waits) as node:
        yield node


def _check_keys(call: str, properties: Mapping[str, str]) -> None:
    """Raise OperatorError for a key that the call sets itself."""
    taken = sorted(OWN_KEYS & properties.keys())
    if taken:
        raise OperatorError(f"{call} sets {', '.join(taken)} by its arguments: leave it out of the properties")


def _check_directory(path: Path) -> None:
    """Raise StartError unless `path` is the log directory of a node, or may become one. Nothing is written."""
    if not path.is_dir():
        if path.exists():
            raise StartError(f"{path} is a file: expected the directory of a broker")
        if not path.parent.is_dir():
            raise StartError(f"{path.parent} does not exist: correct the path, or make this directory")
        return
    names = {entry.name for entry in path.iterdir()} - {"lost+found"}
    if names and META_PROPERTIES not in names and names - {".lock", f"{META_PROPERTIES}.tmp"}:
        raise StartError(
            f"{path} holds {sorted(names)[0]!r} and is no log directory of a node: name an absent or empty directory"
        )
