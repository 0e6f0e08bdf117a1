"""A controller's process on a simulated host: `tierfetch format` if it is new, then `tierfetch controller`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Final

from ...broker import NodeEnvironment
from ...broker.config import check_dynamic_configs
from ...controller import METADATA_VERSION, NEW_CLUSTER_LEVELS, ControllerService, open_controller
from ...light_dataclass import dataclass
from ...quorum import (
    ControllerConfig,
    Endpoint,
    QuorumListener,
    QuorumNode,
    QuorumService,
    ReplicaKey,
    VoterNode,
    VoterSet,
    open_quorum,
    open_replica,
    parse_controller_config,
)
from ...quorum.storage import FormatOrder, format_directories, new_directory_id

CONTROLLER_PORT: Final = 9093
PORTS: Final = (CONTROLLER_PORT, 9094)
"""Where a controller may listen that moves."""
CLUSTER_ID: Final = "c2ltdWxhdGVkLWNsdXN0ZQ"
FIRST_LEVELS: Final = {METADATA_VERSION: NEW_CLUSTER_LEVELS[METADATA_VERSION]}
"""A simulated cluster is one of an older release: its administrator raises the other features while clients run."""


def controller_host(node_id: int) -> str:
    return f"controller-{node_id}"


def controller_config(
    node_id: int,
    node_ids: Sequence[int],
    overrides: Mapping[str, str] | None = None,
    *,
    port: int = CONTROLLER_PORT,
) -> ControllerConfig:
    """One of a static quorum of these, which listens at `port`; `overrides` by Kafka's keys."""
    voters = ",".join(f"{voter}@{controller_host(voter)}:{CONTROLLER_PORT}" for voter in node_ids)
    return _parsed(node_id, port, {"controller.quorum.voters": voters, **(overrides or {})})


def dynamic_config(
    node_id: int, port: int, node_ids: Sequence[int], overrides: Mapping[str, str] | None = None
) -> ControllerConfig:
    """One of a quorum whose voters are in its log (KIP-853). These of its controllers know the leader, at one of
    `PORTS`.
    """
    known = servers(controller_host(each) for each in node_ids)
    return _parsed(node_id, port, {"controller.quorum.bootstrap.servers": known, **(overrides or {})})


def servers(hosts: Iterable[str]) -> str:
    """Return all places where controllers on these hosts may listen, as configurations have them."""
    return ",".join(f"{host}:{port}" for host in hosts for port in PORTS)


def _parsed(node_id: int, port: int, keys: Mapping[str, str]) -> ControllerConfig:
    own = {
        "node.id": str(node_id),
        "listeners": f"CONTROLLER://{controller_host(node_id)}:{port}",
        "log.dirs": "/metadata",
    }
    config, warnings = parse_controller_config({**own, **keys}, "simulation")
    assert not warnings, warnings
    return config


def first_voters(hosts: Mapping[int, str], rng: Random) -> VoterSet:
    """Return the voters that a dynamic quorum is formatted with, each with a new directory id. `hosts` are theirs."""
    return VoterSet.of(
        VoterNode(ReplicaKey(node_id, new_directory_id(rng)), (Endpoint("CONTROLLER", host, CONTROLLER_PORT),))
        for node_id, host in hosts.items()
    )


def other_port(port: int) -> int:
    """Return where a controller listens that has moved from there."""
    return PORTS[1 - PORTS.index(port)]


@dataclass(frozen=True, slots=True)
class QuorumProcess:
    """A replica of the quorum alone. `failed` is done when the replica stops by itself."""

    config: ControllerConfig
    service: QuorumService
    failed: asyncio.Future[str]

    @property
    def replica(self) -> QuorumNode:
        return self.service.node


@asynccontextmanager
async def open_quorum_process(
    config: ControllerConfig,
    machine: NodeEnvironment,
    *,
    listeners: Sequence[QuorumListener] = (),
    first: VoterSet | None = None,
) -> AsyncIterator[QuorumProcess]:
    """Run a controller, for `Host.start`; `first` are the voters that its quorum is formatted with."""
    await format_new(config, machine, first)
    async with open_quorum(config, machine) as service:
        await service.begin(listeners)
        yield QuorumProcess(config, service, service.node.failed)


@dataclass(frozen=True, slots=True)
class ObserverProcess:
    """A replica that no voter can ask for its vote, like a broker's. `failed` is done when it stops by itself."""

    replica: QuorumNode
    failed: asyncio.Future[str]


@asynccontextmanager
async def open_observer_process(
    config: ControllerConfig, node_id: int, machine: NodeEnvironment, *, listeners: Sequence[QuorumListener]
) -> AsyncIterator[ObserverProcess]:
    """Run an observer, for `Host.start`. `config` is a voter's."""
    own = config.model_copy(update={"node_id": node_id})
    await format_new(own, machine)
    async with open_replica(own.replica_config(node_id, own.metadata_directory, ()), machine) as replica:
        replica.start(listeners)
        yield ObserverProcess(replica, replica.failed)


@dataclass(frozen=True, slots=True)
class ControllerProcess:
    """A whole controller. `failed` is done when one of its parts stops by itself."""

    config: ControllerConfig
    service: ControllerService
    failed: asyncio.Future[str]


@asynccontextmanager
async def open_controller_process(
    config: ControllerConfig,
    machine: NodeEnvironment,
    *,
    listeners: Sequence[QuorumListener] = (),
    first: VoterSet | None = None,
    first_records: Sequence[bytes] = (),
) -> AsyncIterator[ControllerProcess]:
    """Run a controller, for `Host.start`; a new cluster begins with `first_records`, and with voters `first`."""
    await format_new(config, machine, first, first_records=first_records)
    async with open_controller(
        config,
        machine,
        check_broker_configs=check_dynamic_configs,
        listeners=listeners,
        first_levels=FIRST_LEVELS,
    ) as service:
        yield ControllerProcess(config, service, first_failure((service.node.failed, service.controller.failed)))


def first_failure(failures: Iterable[asyncio.Future[str] | None]) -> asyncio.Future[str]:
    """Done when one of them is, with its reason. None: of a part that cannot fail."""
    first: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def part_failed(failed: asyncio.Future[str]) -> None:
        if not (failed.cancelled() or first.done()):
            first.set_result(failed.result())

    for failure in failures:
        if failure is not None:
            failure.add_done_callback(part_failed)
    return first


async def format_new(
    config: ControllerConfig,
    machine: NodeEnvironment,
    first: VoterSet | None = None,
    *,
    first_records: Sequence[bytes] = (),
) -> None:
    """Its directories, unless they have been; with `first` as one of the first voters."""
    known = None if first is None else first.by_id[config.node_id].key
    key = known or ReplicaKey(config.node_id, new_directory_id(machine.rng))
    order = FormatOrder(CLUSTER_ID, key, config.directories, first, first_records)
    await format_directories(machine.disk, order, ignore_formatted=True, rng=machine.rng, now_ms=machine.now_ms)
