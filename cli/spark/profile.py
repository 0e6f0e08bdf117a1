"""`tierfetch spark profile`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ... import byte_text
from ..options import table_console
from .session import Spark, Tier, TierOptions, report_options, spark_options, tier_options, write_page

if TYPE_CHECKING:
    from ...pipeline.jobs import TierProfile, TopicProfile


@click.command("profile")
@tier_options
@click.option("--keys/--no-keys", default=True, show_default=True, help="Count keys: reads every record.")
@report_options()
@spark_options
def profile_tier(
    keys: bool, html_path: Path | None, as_json: bool, master: str, conf: tuple[str, ...], **tier: Unpack[TierOptions]
) -> None:
    """Profile a tier: sizes, rates over time, codecs, skew, and what compaction would leave.

    Sizes, rates and codecs come from batch headers alone. Keys are counted exactly, and never shown.

    \b
      tierfetch spark profile tier/ --topic orders --html profile.html
    """
    options = Tier(**tier).table_options()
    with Spark(master=master, conf=conf).session() as session:
        from ...pipeline.jobs import profile, profile_page

        found = profile(session, options, keys=keys)
        write_page(html_path, lambda: profile_page(found))
    if as_json:
        click.echo(found.model_dump_json(indent=1))
    else:
        print_profile(found, table_console())


def print_profile(found: TierProfile, console: Console) -> None:
    stored = _table(f"Tier {found.tier}: as stored", "partitions", "stored", "records", "a second", "skew")
    stored.add_column("codecs")
    packed = _table("What is in it", "a record", "in a batch", "keys", "tombstones", "removable")
    for topic in found.topics:
        stored.add_row(escape(topic.topic), *_stored(topic), ", ".join(topic.codecs))
        packed.add_row(escape(topic.topic), *_packed(topic))
    console.print(stored, packed)


def _table(title: str, *headings: str) -> Table:
    table = Table(title=escape(title), title_justify="left", box=SIMPLE_HEAD)
    table.add_column("topic", overflow="fold")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _stored(topic: TopicProfile) -> list[str]:
    return [
        f"{len(topic.partitions):,}",
        byte_text.size(topic.size_bytes),
        f"{topic.records:,}",
        byte_text.rate(topic.size_bytes / topic.seconds) if topic.seconds else "",
        f"{topic.partition_skew:.2f}",
    ]


def _packed(topic: TopicProfile) -> list[str]:
    keys = topic.keys
    counted = [] if keys is None else [f"{keys.distinct_keys:,}", f"{keys.tombstones:,}", f"{keys.removable_share:.0%}"]
    return [
        byte_text.size(topic.size_bytes // max(1, topic.records)),
        f"{topic.records / max(1, topic.batches):,.1f} records",
        *counted,
    ]
