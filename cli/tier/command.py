"""The `tierfetch tier` commands: options, exit codes, progress."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Collection, Coroutine, Sequence
from pathlib import Path
from typing import Final, TypedDict, TypeVar, Unpack

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ...broker.config import BrokerConfig, load_broker_config
from ...light_dataclass import dataclass
from ...log.core import ConfigError
from ...protocol.net import Address, closing
from ...remote import PluginError, RemoteStorageError, RemoteStorageManager, load_remote_storage
from ...remote.core import RemoteLogLedger
from ...security import open_client
from ..cluster_session import cluster_servers, is_cluster_named, origin_hint, profile_option
from ..command_config import command_config_option, has_identity, use_identity
from ..options import addresses, json_option, pairs, table_console
from ..profiles import ORDER
from .ledgers import MetadataTopicLedgers, MetadataUnavailableError
from .report import listing, print_listing, print_verification, verification
from .verify import Audits, Reports, is_wanted, surveyed, verify, verify_from_objects

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., object])

FAULTS = (RemoteStorageError, PluginError, ConfigError, OSError)
"""What is said in one line."""
WITHOUT_METADATA: Final = "Name a broker that runs with --bootstrap, or go by the objects alone with --from-objects"


class WhereOptions(TypedDict):
    """What `where_options` passes to a command, beside its topics and `--json`."""

    config: Path | None
    plugin: str | None
    options: tuple[str, ...]
    bootstrap: tuple[str, ...]
    from_objects: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The options that say which tier, and where its metadata is."""

    config: Path | None
    plugin: str | None
    options: tuple[str, ...]
    bootstrap: tuple[str, ...]
    from_objects: bool

    def broker_config(self) -> BrokerConfig | None:
        return None if self.config is None else load_broker_config(self.config)[0]

    def storage(self) -> RemoteStorageManager:
        """UsageError, PluginError, ConfigError."""
        if self.plugin is not None:
            return load_remote_storage(self.plugin, pairs(self.options, "--option", "dir=tier"), key_prefix="--option ")
        config = self.broker_config()
        if config is None:
            raise click.UsageError("say which tier: --config broker.properties, or --plugin local --option dir=...")
        if config.storage_plugin is None:
            raise click.ClickException(f"{self.config} names no tier: remote.log.storage.manager.plugin is missing")
        prefix = config.remote_log_storage_manager_impl_prefix
        return load_remote_storage(config.storage_plugin, config.rsm_config, key_prefix=prefix)

    def brokers(self) -> list[Address]:
        """Who may be asked for the remote log metadata."""
        if self.bootstrap or is_cluster_named():
            return addresses(cluster_servers(self.bootstrap))
        config = self.broker_config()
        if config is None:
            return addresses(cluster_servers())
        if not has_identity():
            use_identity(open_client(config.security.to_brokers))
        advertised = config.advertised(config.inter_broker_listener)
        return [Address(advertised.host, advertised.port)]


def where_options(command: Command) -> Command:
    options = (
        click.option(
            "--config",
            type=click.Path(path_type=Path, dir_okay=False),
            help="A broker's properties file: it names the tier, and the cluster that has its metadata.",
        ),
        click.option("--plugin", metavar="NAME", help="Storage plugin, such as local, s3 or fsspec; without --config."),
        click.option(
            "--option",
            "options",
            multiple=True,
            metavar="KEY=VALUE",
            help="An option of the plugin: its rsm.config.* key.",
        ),
        click.option(
            "--bootstrap",
            multiple=True,
            metavar="HOST:PORT",
            help=f"A broker of the cluster that has the metadata. Without it and --config, in this order: {ORDER}.",
        ),
        profile_option,
        command_config_option,
        click.option("--from-objects", is_flag=True, help="Ask no broker: judge by the objects alone."),
        click.option("--topic", "topics", multiple=True, metavar="NAME", help="Only this topic; may be repeated."),
        json_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.group("tier")
def tier() -> None:
    """List and verify what is in a remote tier, without going through a broker's log.

    \b
    The tier and its metadata are found by a broker's configuration, or named:
      tierfetch tier ls --config broker.properties
      tierfetch tier ls --bootstrap 127.0.0.1:9092
      tierfetch tier verify --plugin local --option dir=tier --bootstrap 127.0.0.1:9092
    If no broker runs, the objects still say most of it:
      tierfetch tier ls --plugin local --option dir=tier --from-objects
    """


@tier.command("ls")
@where_options
def list_tier(topics: tuple[str, ...], as_json: bool, **where: Unpack[WhereOptions]) -> None:
    """List the remote segments of each partition, with totals.

    \b
      tierfetch tier ls --bootstrap 127.0.0.1:9092 --topic orders

    With --from-objects broker and age are not known, and only whole segments are listed.
    """
    found = listing(_run(_ledgers(Where(**where), topics)))
    _expect(topics, {partition.topic for partition in found.partitions})
    if as_json:
        click.echo(found.model_dump_json(indent=1))
    else:
        print_listing(found, table_console(), _now_ms())


@tier.command("verify")
@where_options
@click.option("--deep", is_flag=True, help="Read every byte: batches, checksums, indexes, snapshots.")
def verify_tier(topics: tuple[str, ...], as_json: bool, deep: bool, **where: Unpack[WhereOptions]) -> None:
    """Compare the tier with its remote log metadata. Exit code 1 if anything was found.

    \b
      tierfetch tier verify --config broker.properties --deep

    \b
      missing         a finished segment lacks one of its objects          damage
      wrong size      its log has another size than stated                 damage
      corrupt         an object cannot be what it is named (--deep)        damage
      gap             offsets that no finished segment holds               damage
      off lineage     a segment of a history that lost an election
      orphan          an object of a segment that the metadata does not have
      stale copy      a copy that began over an hour ago and did not end
      stale deletion  a deletion that began over an hour ago
      foreign         an object whose name is none of ours

    A tier may be in use meanwhile: findings are looked at again, with the metadata as it is by then. With
    --from-objects that cannot be, and a copy that is under way is an orphan.
    """
    found = verification(_run(_reports(Where(**where), topics, deep)))
    _expect(topics, {partition.topic for partition in found.partitions})
    if as_json:
        click.echo(found.model_dump_json(indent=1))
    else:
        print_verification(found, table_console())
    if not found.passed:
        sys.exit(1)


def _run(work: Coroutine[None, None, T]) -> T:
    try:
        return asyncio.run(work)
    except MetadataUnavailableError as error:
        raise click.ClickException(f"{error}{origin_hint()}. {WITHOUT_METADATA}") from None
    except FAULTS as error:
        raise click.ClickException(str(error)) from None


async def _ledgers(where: Where, topics: Sequence[str]) -> list[RemoteLogLedger]:
    if where.from_objects:
        async with closing(where.storage()) as storage:
            return [found.ledger for found in await surveyed(storage, topics)]
    async with closing(MetadataTopicLedgers(where.brokers())) as source:
        ledgers = await source.read_on()
        return [ledger for partition, ledger in ledgers.items() if is_wanted(partition, topics)]


async def _reports(where: Where, topics: Sequence[str], deep: bool) -> Reports:
    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TimeElapsedColumn(),
    )
    async with closing(where.storage()) as storage:
        with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bars:
            bar = bars.add_task("read every byte" if deep else "compare", total=None)
            audits = Audits(
                storage=storage,
                topics=topics,
                deep=deep,
                now_ms=_now_ms(),
                on_plan=lambda total: bars.update(bar, total=total if deep else None),
                on_read=lambda count: bars.advance(bar, count),
            )
            if where.from_objects:
                return await verify_from_objects(audits)
            async with closing(MetadataTopicLedgers(where.brokers())) as source:
                return await verify(audits, source)


def _expect(topics: Sequence[str], found: Collection[str]) -> None:
    absent = sorted(set(topics).difference(found))
    if absent:
        raise click.ClickException(f"nothing of {', '.join(absent)} is in this tier or its metadata")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
