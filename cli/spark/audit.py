"""`tierfetch spark audit`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ... import byte_text
from ...protocol import TopicIdPartition
from ...protocol.net import Address
from ...remote.core import RemoteLogLedger
from ..cluster_session import explicit_bootstrap_option
from ..options import addresses, table_console
from ..tier.ledgers import MetadataTopicLedgers
from .session import Spark, Tier, TierOptions, report_options, spark_options, tier_options, write_page

if TYPE_CHECKING:
    from ...pipeline.jobs import TierAudit


@click.command("audit")
@tier_options
@explicit_bootstrap_option("Compare with the metadata of this cluster, not the objects'.")
@click.option(
    "--parquet", metavar="LOCATION", help="Write the tables segments and findings below this directory or URL."
)
@report_options()
@spark_options
def audit_tier(
    bootstrap: tuple[str, ...],
    parquet: str | None,
    html_path: Path | None,
    as_json: bool,
    master: str,
    conf: tuple[str, ...],
    **tier: Unpack[TierOptions],
) -> None:
    """Read every byte of a tier, in parallel, and report what is wrong. Exit code 1 if anything is.

    \b
      tierfetch spark audit s3://bucket/tier --html audit.html

    Each batch's checksum, offsets and leader epoch; offsets that no segment holds; objects that are missing, have
    another size than stated, or belong to no segment; indexes, transaction indexes, producer snapshots and leader-epoch
    checkpoints that do not fit their segment. The findings are those of `tierfetch tier verify --deep`.

    Without a cluster the objects alone are asked: a copy that is under way is an orphan, and what is not checked is
    said. Tiers of this package, of Kafka's LocalTieredStorage and of Aiven's plugin; --option layout=NAME where it is
    not found out.
    """
    options = Tier(**tier).table_options()
    brokers = addresses(bootstrap)
    with Spark(master=master, conf=conf).session() as session:
        from ...pipeline.jobs import audit, audit_page, save_parquet

        found = audit(session, options, read_ledgers=(lambda: _ledgers(brokers)) if brokers else None)
        if parquet is not None:
            save_parquet(session, found, parquet)
        write_page(html_path, lambda: audit_page(found))
    if as_json:
        click.echo(found.model_dump_json(indent=1))
    else:
        print_audit(found, table_console())
    if found.findings:
        sys.exit(1)


def print_audit(found: TierAudit, console: Console) -> None:
    if found.findings:
        table = Table(title="Findings", title_justify="left")
        for heading in ("partition", "finding", "of", "what it is"):
            table.add_column(heading, overflow="fold")
        for partition, finding in found.findings:
            style = "red" if finding.is_damage else "yellow"
            table.add_row(*map(escape, (partition.name, finding.kind, finding.subject, finding.message)), style=style)
        console.print(table)
    verdict = "[green]all as it should be[/]" if not found.findings else f"[red]{len(found.findings)} findings[/]"
    console.print(
        f"{len(found.partitions)} partitions, {found.segments} segments, {byte_text.size(found.size_bytes)}, "
        f"{found.batches:,} batches, {found.records:,} records: {verdict}"
    )
    if found.not_checked:
        console.print(f"[dim]Not checked, without the remote log metadata: {'; '.join(found.not_checked)}[/]")


def _ledgers(brokers: list[Address]) -> Mapping[TopicIdPartition, RemoteLogLedger]:
    return asyncio.run(_read(brokers))


async def _read(brokers: list[Address]) -> Mapping[TopicIdPartition, RemoteLogLedger]:
    source = MetadataTopicLedgers(brokers)
    try:
        return await source.read_on()
    finally:
        await source.close()
