"""`tierfetch format`: make log directories a node's, as Kafka's storage tool does."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Final
from uuid import UUID

import click

from ..broker import NodeEnvironment
from ..controller import KRAFT_VERSION, METADATA_VERSION, SUPPORTED_FEATURES
from ..controller.records import FeatureLevelRecord, encode_record
from ..log.core import parse_host_and_port
from ..protocol import OUTSIDE, OperatorError, uuid_from_text
from ..quorum import ControllerConfig, Endpoint, ReplicaKey, VoterNode, VoterSet, load_controller_config
from ..quorum.storage import FormatOrder, FormatResult, format_directories, new_directory_id
from . import add_scram
from .options import json_option

_INITIAL = "--initial-controllers"
_FEATURE = "--feature"
FEATURES: Final = sorted(SUPPORTED_FEATURES.keys() - {KRAFT_VERSION, METADATA_VERSION})
"""Voters say what kraft.version is; metadata.version is the newest, as the records of this release are."""


@click.command("format")
@click.option(
    "--cluster-id", "-t", required=True, help="The cluster's id (`tierfetch random-uuid`); the same on every node."
)
@click.option(
    "--config",
    "-c",
    "path",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="The node's properties file.",
)
@click.option("--standalone", "-s", is_flag=True, help="This controller is the only first voter of a dynamic quorum.")
@click.option(
    _INITIAL,
    "-I",
    "initial",
    metavar="ID@HOST:PORT:DIRECTORY-ID,...",
    help="The first voters of a dynamic quorum, this controller among them; the same on all of them.",
)
@click.option(
    "--no-initial-controllers", "-N", "without", is_flag=True, help="Write no voters: this node joins a quorum."
)
@click.option(
    add_scram.OPTION,
    "-S",
    "scram",
    multiple=True,
    metavar="MECHANISM=[name=NAME,password=PASSWORD]",
    help="A SCRAM credential that the new cluster begins with; may be given several times. The password is visible in "
    "the list of processes while this command runs.",
)
@click.option(
    _FEATURE,
    "-f",
    "levels",
    multiple=True,
    metavar="NAME=LEVEL",
    help="The level of a feature that the new cluster begins at, where it is not the newest; may be given several "
    "times. The same on every controller.",
)
@click.option("--ignore-formatted", "-g", is_flag=True, help="Skip directories that are formatted already.")
@json_option
def format_command(
    cluster_id: str,
    path: Path,
    standalone: bool,
    initial: str | None,
    without: bool,
    scram: tuple[str, ...],
    levels: tuple[str, ...],
    ignore_formatted: bool,
    as_json: bool,
) -> None:
    """Format the log directories of a controller, or of a node that is one too.

    \b
      tierfetch format --config controller.properties --cluster-id $(tierfetch random-uuid)

    With controller.quorum.voters in the configuration the voters are static, and none of the three options about voters
    is allowed. Without it exactly one of them is needed.
    """
    try:
        _uuid("--cluster-id", cluster_id)
        config, _ = load_controller_config(path)
        order = format_order(config, cluster_id, standalone=standalone, initial=initial, without=without)
        order = order.with_records((*level_records(levels), *map(add_scram.scram_record, scram)))
        result = asyncio.run(run_format(order, ignore_formatted=ignore_formatted))
    except (*OUTSIDE, OperatorError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        formatted = [str(directory) for directory in result.formatted]
        click.echo(json.dumps({"formatted": formatted, "cluster_id": cluster_id}, indent=1))
        return
    for directory in result.formatted:
        is_first = order.first_voters is not None and directory == order.directories[0]
        click.echo(f"Formatting {'dynamic metadata voter' if is_first else 'log'} directory {directory}.")
    if not result.formatted:
        click.echo("All of the log directories are already formatted.")


def level_records(texts: tuple[str, ...]) -> tuple[bytes, ...]:
    """Return the metadata records of all --feature options. ValueError says what was expected."""
    levels: dict[str, int] = {}
    for text in texts:
        name, _, level = text.strip().partition("=")
        if name not in FEATURES or not level.isdecimal():
            expected = f"expected NAME=LEVEL, where NAME is one of {', '.join(FEATURES)}"
            raise ValueError(f"{_FEATURE}: {expected}, found {text!r}")
        if name in levels:
            raise ValueError(f"{_FEATURE}: {name} is given twice")
        supported = SUPPORTED_FEATURES[name]
        if int(level) not in supported:
            low, high = supported
            raise ValueError(f"{_FEATURE}: {name} has levels {low} to {high} in this release, found {level}")
        levels[name] = int(level)
    return tuple(encode_record(FeatureLevelRecord(name=name, feature_level=level)) for name, level in levels.items())


async def run_format(order: FormatOrder, *, ignore_formatted: bool) -> FormatResult:
    machine = NodeEnvironment()
    try:
        return await format_directories(
            machine.disk, order, ignore_formatted=ignore_formatted, rng=machine.rng, now_ms=machine.now_ms
        )
    finally:
        await machine.disk.close()


def format_order(
    config: ControllerConfig, cluster_id: str, *, standalone: bool, initial: str | None, without: bool
) -> FormatOrder:
    """UsageError for options that contradict each other or the configuration."""
    chosen = [standalone, initial is not None, without].count(True)
    if config.controller_quorum_voters and chosen:
        raise click.UsageError(
            "controller.quorum.voters makes the voters static: remove it from the configuration, or leave out "
            f"--standalone, {_INITIAL} and --no-initial-controllers"
        )
    if not config.controller_quorum_voters and chosen != 1:
        raise click.UsageError(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
            f"--standalone, {_INITIAL}, or --no-initial-controllers."
        )
    key = ReplicaKey(config.node_id, new_directory_id(random.SystemRandom()))
    voters: VoterSet | None = None
    if standalone:
        voters = VoterSet.of([VoterNode(key, (config.endpoint,))])
    elif initial is not None:
        voters = _initial_voters(initial, config.endpoint.name)
        if config.node_id not in voters.by_id:
            raise click.UsageError(f"{_INITIAL} must name this controller, node.id={config.node_id}")
        key = voters.by_id[config.node_id].key
    return FormatOrder(cluster_id, key, config.directories, voters)


def _uuid(option: str, text: str) -> UUID:
    """ValueError says which option, and where to get one."""
    try:
        return uuid_from_text(text)
    except ValueError as error:
        raise ValueError(f"{option}: {error}; `tierfetch random-uuid` prints a new one") from None


def _initial_voters(text: str, listener_name: str) -> VoterSet:
    """`id@host:port:directory-id`, separated by commas. ValueError."""
    voters: dict[int, VoterNode] = {}
    for item in (part.strip() for part in text.split(",") if part.strip()):
        id_text, _, rest = item.partition("@")
        address, _, directory = rest.rpartition(":")
        if not id_text.isdecimal() or ":" not in address:
            raise ValueError(f"{_INITIAL}: expected id@host:port:directory-id, found {item!r}")
        if int(id_text) in voters:
            raise ValueError(f"{_INITIAL}: node id {id_text} is named twice")
        host, port = parse_host_and_port(address)
        key = ReplicaKey(int(id_text), _uuid(f"{_INITIAL}, directory id of {id_text}", directory))
        voters[key.id] = VoterNode(key, (Endpoint(listener_name, host, port),))
    return VoterSet.of(voters.values())
