"""`tierfetch quorum`: what a metadata quorum says of itself, and changes of its voters."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar, cast

import click

from ...light_dataclass import dataclass
from ...log.core import META_PROPERTIES, decode_meta_properties, parse_host_and_port
from ...protocol import OUTSIDE, OperatorError, uuid_from_text, uuid_to_text
from ...protocol.messages.quorum import (
    AddRaftVoterRequest,
    AddRaftVoterRequestListener,
    DescribeQuorumResponsePartitionData,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from ...protocol.net import Address
from ...quorum import load_controller_config
from ..cluster_session import is_cluster_named, named_servers, origin_hint, profile_option
from ..command_config import command_config_option
from ..options import addresses, json_option, report, table_console
from ..profiles import running_clusters
from .admin import TIMEOUT_S, QuorumAdmin
from .report import replication, replication_table, status

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., object])

QUORUM_ORDER: Final = (
    "--profile, TIERFETCH_BOOTSTRAP, TIERFETCH_PROFILE, the profile in use; else the controllers of the only local"
    " cluster that runs, or 127.0.0.1:9093"
)
FAULTS: Final = (*OUTSIDE, OperatorError, ValueError)


@dataclass(frozen=True, slots=True)
class Servers:
    """Whom to ask: controllers, or brokers, which forward the question."""

    addresses: list[Address]
    are_brokers: bool


def _quorum_options(command: Command) -> Command:
    """Add the options that say which quorum, and how to connect to it; the command's function gets `servers`."""

    @functools.wraps(command)
    def chosen(bootstrap: tuple[str, ...], controllers: str | None, **others: object) -> object:
        return command(servers=_servers(bootstrap, controllers), **others)

    brokers = click.option(
        "--bootstrap",
        multiple=True,
        metavar="HOST:PORT",
        help="Brokers of the cluster, which forward the question. Without it, and without --bootstrap-controller, in"
        f" this order: {QUORUM_ORDER}.",
    )
    direct = click.option(
        "--bootstrap-controller",
        "controllers",
        metavar="HOST:PORT,...",
        help="Controllers of the quorum, asked directly; one that responds is enough.",
    )
    return cast(Command, direct(brokers(profile_option(command_config_option(chosen)))))


def _servers(bootstrap: tuple[str, ...], controllers: str | None) -> Servers:
    """ClickException says what is wrong with them."""
    if controllers is None:
        brokers = named_servers(bootstrap)
        if brokers:
            return Servers(addresses(brokers), are_brokers=True)
        clusters = running_clusters()
        controllers = ",".join(clusters[0].controllers) if len(clusters) == 1 else "127.0.0.1:9093"
    elif bootstrap:
        raise click.UsageError("--bootstrap names brokers, and --bootstrap-controller controllers: give one of them")
    elif is_cluster_named():
        named_servers(())  # the connection is the profile's
    try:
        named = [Address(*parse_host_and_port(part)) for part in controllers.split(",") if part.strip()]
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    if not named:
        raise click.ClickException("--bootstrap-controller names no controller: expected host:port of one or more")
    return Servers(named, are_brokers=False)


@click.group("quorum")
def quorum() -> None:
    """Describe the metadata quorum; add and remove controllers.

    \b
      tierfetch quorum describe --status
      tierfetch quorum add --config new-controller.properties
    """


@quorum.command("describe")
@_quorum_options
@click.option("--status", "what", flag_value="status", help="Show leader, high watermark and voters.")
@click.option(
    "--replication", "what", flag_value="replication", help="Show how far each voter and observer has replicated."
)
@json_option
def describe(servers: Servers, what: str | None, as_json: bool) -> None:
    """Show what the leader knows of the quorum.

    \b
      tierfetch quorum describe --replication
    """
    if what is None:
        raise click.UsageError("say what: --status or --replication")

    async def ask(admin: QuorumAdmin) -> tuple[str, DescribeQuorumResponsePartitionData]:
        return (await admin.cluster()).cluster_id, await admin.describe()

    cluster_id, partition = _run(servers, ask)
    if what == "status":
        summary = status(cluster_id, partition)
        if as_json:
            click.echo(json.dumps(summary, indent=1))
        else:
            for name, value in summary.items():
                click.echo(f"{name + ':':<24}{json.dumps(value) if isinstance(value, list) else value}")
        return
    rows = replication(partition)
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    table_console().print(replication_table(rows))


@quorum.command("add")
@_quorum_options
@click.option(
    "--config",
    "path",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="The new controller's properties file; the controller must run, as an observer.",
)
@json_option
def add(servers: Servers, path: Path, as_json: bool) -> None:
    """Make a running controller a voter of a dynamic quorum.

    \b
      tierfetch quorum add --config new-controller.properties
    """
    try:
        config, _ = load_controller_config(path)
        file = config.metadata_directory / META_PROPERTIES
        properties = decode_meta_properties(file.read_bytes(), name=str(file))
    except FAULTS as error:
        raise click.ClickException(str(error)) from None
    endpoint = config.endpoint
    request = AddRaftVoterRequest(
        cluster_id=properties.cluster_id,
        timeout_ms=int(TIMEOUT_S * 1000),
        voter_id=config.node_id,
        voter_directory_id=properties.directory_id,
        listeners=(AddRaftVoterRequestListener(name=endpoint.name, host=endpoint.host, port=endpoint.port),),
    )
    _run(servers, lambda admin: admin.ask_leader(request))
    directory = "" if properties.directory_id is None else uuid_to_text(properties.directory_id)
    address = f"{endpoint.name}://{endpoint.host}:{endpoint.port}"
    report(
        as_json,
        {"added": config.node_id, "directory_id": directory, "endpoint": address},
        f"Added controller {config.node_id} with directory id {directory} and endpoint {address}",
    )


@quorum.command("remove")
@_quorum_options
@click.option("--controller-id", "node_id", required=True, type=int, help="The voter's node id.")
@click.option(
    "--controller-directory-id",
    "directory",
    required=True,
    help="The voter's directory id, as `describe --replication` shows it.",
)
@json_option
def remove(servers: Servers, node_id: int, directory: str, as_json: bool) -> None:
    """Remove a voter from a dynamic quorum; it continues as an observer.

    \b
      tierfetch quorum remove --controller-id 3 --controller-directory-id 4Yp5eXbHQy2k1w3v8lS9Ug
    """
    try:
        directory_id = uuid_from_text(directory)
    except ValueError as error:
        raise click.ClickException(f"--controller-directory-id: {error}; see `describe --replication`") from None

    async def ask(admin: QuorumAdmin) -> RemoveRaftVoterResponse:
        cluster_id = (await admin.cluster()).cluster_id
        return await admin.ask_leader(
            RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=node_id, voter_directory_id=directory_id)
        )

    _run(servers, ask)
    report(
        as_json,
        {"removed": node_id, "directory_id": directory},
        f"Removed controller {node_id} with directory id {directory}",
    )


def _run(servers: Servers, ask: Callable[[QuorumAdmin], Awaitable[T]]) -> T:
    """ClickException says in one line what went wrong."""

    async def run() -> T:
        async with QuorumAdmin(servers.addresses, are_brokers=servers.are_brokers) as admin:
            return await ask(admin)

    try:
        return asyncio.run(run())
    except OSError as error:
        raise click.ClickException(f"{error}{origin_hint()}") from None
    except FAULTS as error:
        raise click.ClickException(str(error)) from None
