"""`tierfetch spark sweep`."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from ..options import OutputFile, table_console, write_text
from .session import Spark, report_options, spark_options, write_page
from .sweep_report import Group, SweepReport, sweep_report

BEFORE = "local-log-start"
AFTER = "tier-first"
_TYPES = {"int": "BIGINT", "float": "DOUBLE", "str": "STRING"}


@click.command("sweep")
@click.option("--clusters", type=click.IntRange(min=1, max=1_000_000), default=200, show_default=True, help="How many.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="The same seed, the same clusters."
)
@click.option("--before", default=BEFORE, show_default=True, metavar="POLICY", help="Bootstrap policy to compare with.")
@click.option("--after", default=AFTER, show_default=True, metavar="POLICY", help="Bootstrap policy to look at.")
@click.option("--parquet", metavar="LOCATION", help="Write a row for each run to this directory or URL.")
@click.option("--picture", type=OutputFile(), help="Write an SVG for a document to this file.")
@report_options()
@spark_options
def sweep_model(
    clusters: int,
    seed: int,
    before: str,
    after: str,
    parquet: str | None,
    picture: Path | None,
    html_path: Path | None,
    as_json: bool,
    master: str,
    conf: tuple[str, ...],
) -> None:
    """Replace brokers of many random clusters in the model, with and without KIP-1023, and compare.

    Clusters have 6 to 1,000 brokers and up to a million replicas: sizes that no test machine holds. Retention, rates,
    throttles and segment sizes differ. The report puts what the model says beside what the KIP claims, 10 to 15 % of
    the data and of the time, and says when that does not hold.

    \b
      tierfetch spark sweep --clusters 500 --html sweep.html
    """
    if before == after:
        raise click.UsageError(f"--before and --after are both {before}: nothing to compare")
    with Spark(master=master, conf=conf).session() as session:
        from ...model import RESULT_FIELDS, Policy, run_case, sweep_cases
        from ...pipeline.jobs import save_rows, sweep

        known = [policy.value for policy in Policy]
        for policy in (before, after):
            if policy not in known:
                raise click.UsageError(f"no policy {policy!r}; there are: {', '.join(known)}")
        rows = sweep(session, list(sweep_cases(clusters, seed=seed, policies=(before, after))), run_case)
        found = sweep_report(rows, seed=seed, before=before, after=after)
        if parquet is not None:
            save_rows(session, rows, {name: _TYPES[kind] for name, kind in RESULT_FIELDS}, parquet)
        if picture is not None:
            from .sweep_picture import sweep_picture

            write_text(picture, sweep_picture(found))
        if html_path is not None:
            from .sweep_page import sweep_page

            write_page(html_path, lambda: sweep_page(found))
    if as_json:
        click.echo(found.model_dump_json(indent=1))
    else:
        print_sweep(found, table_console())


def print_sweep(found: SweepReport, console: Console) -> None:
    console.print(f"The claim ({found.claim_source}): {found.claim}\n")
    title = f"{found.whole.clusters:,} clusters: {found.after_policy} by {found.before_policy}"
    table = Table(title=title, title_justify="left")
    table.add_column("clusters")
    for heading in ("number", "without, median", "with, median", "data", "time", "data ≤ 15 %", "time ≤ 15 %"):
        table.add_column(heading, justify="right", no_wrap=True)
    for group in found.by_size:
        table.add_row(*_cells(group))
    for factor in found.factors:
        table.add_section()
        for group in factor.groups:
            table.add_row(*_cells(group, f"{factor.name}: "))
    table.add_section()
    table.add_row(*_cells(found.whole), style="bold")
    console.print(table)
    console.print(f"Time follows data (ratios within 0.05) in {found.time_follows_data:.0%} of the clusters")


def _cells(group: Group, prefix: str = "") -> list[str]:
    return [
        f"{prefix}{group.name}",
        f"{group.clusters:,}",
        f"{group.before_s.p50 / 60:,.1f} min",
        f"{group.after_s.p50 / 60:,.1f} min",
        f"{group.data_ratio.p50:.0%}",
        f"{group.time_ratio.p50:.0%}",
        f"{group.data_within_claim:.0%}",
        f"{group.time_within_claim:.0%}",
    ]
