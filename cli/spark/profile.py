"""`tierfetch spark profile`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table

from ..options import table_console
from .session import Spark, Tier, report_options, spark_options, tier_options, write_page

if TYPE_CHECKING:
    from ...pipeline.jobs.profile_report import TierProfile, TopicProfile


@click.command("profile")
@tier_options
@click.option("--keys/--no-keys", default=True, show_default=True, help="Count keys: reads every record.")
@report_options()
@spark_options
def profile_tier(
    keys: bool, html_path: Path | None, as_json: bool, master: str, conf: tuple[str, ...], **tier: Any
) -> None:
    """Say what is in a tier: sizes, rates over time, codecs, skew, and what compaction would leave.

    Sizes, rates and codecs come from batch headers alone. Keys are counted exactly, and never shown.
    """
    options = Tier(**tier).table_options()
    with Spark(master=master, conf=conf).session() as session:
        from ...pipeline.jobs import profile
        from ...pipeline.jobs.profile_page import profile_page

        found = profile(session, options, keys=keys)
        write_page(html_path, lambda: profile_page(found))
    if as_json:
        click.echo(found.model_dump_json(indent=1))
    else:
        print_profile(found, table_console())


def print_profile(found: TierProfile, console: Console) -> None:
    table = Table(title=escape(f"Tier {found.tier}"), title_justify="left")
    table.add_column("topic")
    headings = ["partitions", "segments", "stored", "records", "record", "per batch", "rate", "skew"]
    if found.has_keys:
        headings += ["keys", "tombstones", "removable"]
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("codecs")
    for topic in found.topics:
        table.add_row(escape(topic.topic), *_cells(topic, found.has_keys), ", ".join(topic.codecs))
    console.print(table)


def _cells(topic: TopicProfile, has_keys: bool) -> list[str]:
    cells = [
        f"{len(topic.partitions):,}",
        f"{topic.segments:,}",
        decimal(topic.size_bytes),
        f"{topic.records:,}",
        decimal(topic.size_bytes // max(1, topic.records)),
        f"{topic.records / max(1, topic.batches):,.1f}",
        f"{decimal(int(topic.size_bytes / topic.seconds))}/s" if topic.seconds else "",
        f"{topic.partition_skew:.2f}",
    ]
    if not has_keys:
        return cells
    keys = topic.keys
    if keys is None:
        return [*cells, "", "", ""]
    return [*cells, f"{keys.distinct_keys:,}", f"{keys.tombstones:,}", f"{keys.removable_share:.0%}"]
