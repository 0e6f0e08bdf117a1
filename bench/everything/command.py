"""`python -m bench all`: the benchmarks of the docs in a short form, with a line for each as it begins and ends."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import click
from rich.console import Console

from ..lab.child import exit_code
from ..options import against_option, exit_on
from .plan import BUDGET_S, PLAN, Entry, minutes, progress_line, time_limit_s, total_s


@click.command("all")
@against_option
@click.option("--only", multiple=True, type=click.Choice([entry.name for entry in PLAN]), help="Run these alone.")
@click.option("--minutes", "budget_min", type=click.FloatRange(min=1), default=BUDGET_S / 60, show_default=True)
@click.option(
    "--results", type=click.Path(path_type=Path), default="bench-results/all", show_default=True, help="A directory."
)
def main(against: str, only: tuple[str, ...], budget_min: float, results: Path) -> None:
    """The benchmarks of the docs in a short form, within 30 minutes, but `model` and those of coordinators.

    Exit code 1 if one fails or is left out.
    """
    exit_on(signal.SIGTERM)  # the benchmark under way is stopped first
    console = Console(soft_wrap=True)
    entries = [entry for entry in PLAN if not only or entry.name in only]
    results.mkdir(parents=True, exist_ok=True)
    console.print(f"{len(entries)} benchmarks, about {minutes(total_s(entries))} min on two idle cores")
    began, failed = time.monotonic(), []
    for number, entry in enumerate(entries):
        elapsed_s = time.monotonic() - began
        console.print(progress_line(entries, number, elapsed_s), markup=False)
        limit_s = time_limit_s(entry, elapsed_s, budget_min * 60)
        outcome = "left out: not enough time" if limit_s is None else run(entry, against, results, limit_s)
        took_s = time.monotonic() - began - elapsed_s
        console.print(f"    {outcome or 'done'} after {took_s:.0f} s: {results / entry.name}.log", markup=False)
        if outcome is not None:
            failed.append(entry.name)
    console.print(f"{minutes(time.monotonic() - began)} min. Tables and figures: {results}")
    if failed:
        console.print(f"[red]Without a result: {', '.join(failed)}[/]")
        sys.exit(1)


def run(entry: Entry, against: str, results: Path, limit_s: float) -> str | None:
    """Run a benchmark, its output in a file; return what went wrong, None if nothing did."""
    arguments = [*entry.arguments(against), "--json", str(results / f"{entry.name}.json")]
    code = exit_code([sys.executable, "-m", "bench", *arguments], results / f"{entry.name}.log", limit_s)
    if code is None:
        return f"stopped after {limit_s:.0f} s"
    return None if code == 0 else f"ended with exit code {code}"
