"""`python -m bench spark`: needs `tierfetch[spark,demo]`; parts can be chosen, for each takes a few minutes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from ..measure import Figure, Results, machine, scratch
from . import decoder, memory, planning, table, tiny

PARTS = ("decoder", "planning", "memory", "tiny", "table")
BESIDE = "librdkafka"


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice(PARTS))
@click.option(
    "--size-mb", default=600, show_default=True, help="Data of a topic of 551-byte records, some segments at least."
)
@click.option("--runs", default=3, show_default=True, help="Counted runs of each case.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), default="bench-results/spark.json")
def main(parts: tuple[str, ...], size_mb: int, runs: int, json_path: Path) -> None:
    """The Spark source beside a librdkafka consumer of the same data, and its decoder, plans and memory."""
    console, results = Console(), Results()
    for part in parts or PARTS:
        console.print(part)
        try:
            with scratch() as base:
                run(part, base, results, size_mb, runs, console.print)
        finally:
            if results.loads:
                results.write(json_path)
    report(console, results)
    console.print(f"Figures: {json_path}")


def run(part: str, base: Path, results: Results, size_mb: int, runs: int, say: Callable[[str], None]) -> None:
    match part:
        case "decoder":
            decoder.run(results, runs)
        case "planning":
            planning.run(base, results, runs)
        case "memory":
            memory.run(base, results)
        case "tiny":
            tiny.run(base, results, runs)
        case "table":
            table.run(base, results, size_mb, runs, say)


def report(console: Console, results: Results) -> None:
    """Beside the consumer of the same data, or beside the large batches of the same part."""
    console.print(f"{machine()}; load {min(results.loads):.1f} to {max(results.loads):.1f} during the runs")
    shown = Table("case", "quantity", "system", "min / median / max", "ratio")
    figures = results.figures()
    for figure in figures:
        shown.add_row(figure.case, figure.quantity, figure.system, figure.spread(), ratio(figure, figures))
    console.print(shown)


def ratio(figure: Figure, figures: list[Figure]) -> str:
    for other in figures:
        if other is figure or other.quantity != figure.quantity or not other.median:
            continue
        if other.system == BESIDE and other.case == figure.case:
            return f"{figure.median / other.median:.2f} of {BESIDE}"
        if figure.quantity == "cost of a record" and other.case.endswith(f" {tiny.LARGE} a batch"):
            return f"{figure.median / other.median:.1f} of large batches"
    return ""
