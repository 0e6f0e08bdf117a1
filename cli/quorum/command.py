"""`tierfetch quorum`: what a metadata quorum says of itself, and changes of its voters."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

import click

from ...log.core import META_PROPERTIES, ConfigError, decode_meta_properties, parse_host_and_port
from ...protocol import OUTSIDE, OperatorError, uuid_from_text, uuid_to_text
from ...protocol.messages.quorum import (
    AddRaftVoterRequest,
    AddRaftVoterRequestListener,
    DescribeQuorumResponsePartitionData,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from ...protocol.net.client import Address
from ...quorum import load_controller_config
from ..command_config import command_config_option
from ..options import json_option, report, table_console
from ..profiles import running_clusters
from .admin import TIMEOUT_S, QuorumAdmin
from .report import replication, replication_table, status

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., object])

FAULTS: Final = (*OUTSIDE, OperatorError, ValueError)


def _local_controllers() -> str:
    clusters = running_clusters()
    return ",".join(clusters[0].controllers) if len(clusters) == 1 else "127.0.0.1:9093"


_bootstrap = click.option(
    "--bootstrap-controller",
    "bootstrap",
    callback=lambda _, __, given: given or _local_controllers(),
    metavar="HOST:PORT,...",
    help="Controllers of the quorum; one that responds is enough. By default those of the only local cluster that runs,"
    " else 127.0.0.1:9093.",
)


@click.group("quorum")
def quorum() -> None:
    """Describe the metadata quorum; add and remove controllers.

    \b
      tierfetch quorum describe --status
      tierfetch quorum add --config new-controller.properties
    """


@quorum.command("describe")
@_bootstrap
@command_config_option
@click.option("--status", "what", flag_value="status", help="Show leader, high watermark and voters.")
@click.option(
    "--replication", "what", flag_value="replication", help="Show how far each voter and observer has replicated."
)
@json_option
def describe(bootstrap: str, what: str | None, as_json: bool) -> None:
    """Show what the leader knows of the quorum.

    \b
      tierfetch quorum describe --replication
    """
    if what is None:
        raise click.UsageError("say what: --status or --replication")

    async def ask(admin: QuorumAdmin) -> tuple[str, DescribeQuorumResponsePartitionData]:
        return (await admin.cluster()).cluster_id, await admin.describe()

    cluster_id, partition = _run(bootstrap, ask)
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
@_bootstrap
@command_config_option
@click.option(
    "--config",
    "path",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="The new controller's properties file; the controller must run, as an observer.",
)
@json_option
def add(bootstrap: str, path: Path, as_json: bool) -> None:
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
    _run(bootstrap, lambda admin: admin.ask_leader(request))
    directory = "" if properties.directory_id is None else uuid_to_text(properties.directory_id)
    address = f"{endpoint.name}://{endpoint.host}:{endpoint.port}"
    report(
        as_json,
        {"added": config.node_id, "directory_id": directory, "endpoint": address},
        f"Added controller {config.node_id} with directory id {directory} and endpoint {address}",
    )


@quorum.command("remove")
@_bootstrap
@command_config_option
@click.option("--controller-id", "node_id", required=True, type=int, help="The voter's node id.")
@click.option(
    "--controller-directory-id",
    "directory",
    required=True,
    help="The voter's directory id, as `describe --replication` shows it.",
)
@json_option
def remove(bootstrap: str, node_id: int, directory: str, as_json: bool) -> None:
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

    _run(bootstrap, ask)
    report(
        as_json,
        {"removed": node_id, "directory_id": directory},
        f"Removed controller {node_id} with directory id {directory}",
    )


def _run(bootstrap: str, ask: Callable[[QuorumAdmin], Awaitable[T]]) -> T:
    """ClickException says in one line what went wrong."""

    async def run() -> T:
        controllers = [Address(*parse_host_and_port(part)) for part in bootstrap.split(",") if part.strip()]
        if not controllers:
            raise ConfigError("--bootstrap-controller names no controller: expected host:port of one or more")
        async with QuorumAdmin(controllers) as admin:
            return await ask(admin)

    try:
        return asyncio.run(run())
    except FAULTS as error:
        raise click.ClickException(str(error)) from None
