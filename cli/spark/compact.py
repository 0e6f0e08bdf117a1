"""`tierfetch spark compact-to`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import click
from rich.console import Console
from rich.markup import escape

from ... import byte_text
from ..options import table_console
from .session import Spark, Tier, TierOptions, report_options, spark_options, tier_options

if TYPE_CHECKING:
    from ...pipeline.jobs import ExportReport

MIB = 1 << 20
PASSED_OVER_SHOWN_MAX = 20


@click.command("compact-to")
@tier_options
@click.argument("destination")
@click.option(
    "--file-mib", type=click.IntRange(min=1), default=256, show_default=True, help="About how large the files become."
)
@report_options(has_html=False)
@spark_options
def compact_tier(
    destination: str, file_mib: int, as_json: bool, master: str, conf: tuple[str, ...], **tier: Unpack[TierOptions]
) -> None:
    """Export topics to Parquet, by topic and day: DESTINATION/topic=NAME/date=YYYY-MM-DD/part-….parquet.

    \b
      tierfetch spark compact-to s3://bucket/tier exports/ --topic orders

    DESTINATION is a directory, or a URL that Arrow opens (s3://, gs://, hdfs://). Run it as often as you like: only
    what is new in the tier is added, nothing twice, and a run that was killed is put right by the next one. What was
    exported is noted in DESTINATION/_tierfetch.

    Only committed records, unless --option isolation=read_uncommitted; --option metadata=true adds leader epoch,
    producer and segment.
    """
    options = Tier(**tier).table_options()
    with Spark(master=master, conf=conf).session() as session:
        from ...pipeline.jobs import compact_to

        report = compact_to(session, options, destination, file_bytes=file_mib * MIB)
    if as_json:
        click.echo(report.model_dump_json(indent=1))
    else:
        print_export(report, table_console())


def print_export(report: ExportReport, console: Console) -> None:
    if report.published or report.discarded:
        console.print(
            f"An earlier run was cut short: {report.published} of its files were committed and now have their names, "
            f"{report.discarded} were not and are deleted"
        )
    for message in report.passed_over[:PASSED_OVER_SHOWN_MAX]:
        console.print(f"[yellow]passed over:[/] {escape(message)}")
    if len(report.passed_over) > PASSED_OVER_SHOWN_MAX:
        console.print(f"[yellow]and {len(report.passed_over) - PASSED_OVER_SHOWN_MAX:,} more, which --json lists[/]")
    if not report.waves:
        console.print("Nothing new in the tier")
        return
    console.print(
        f"{report.rows:,} records of {len(report.ranges)} partitions, in {report.files} files of "
        f"{byte_text.size(report.size_bytes)}"
    )
