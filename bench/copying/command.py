"""`python -m bench copying`: what producers wait for while closed segments are copied to the tier, for each plugin."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import click
from rich.console import Console

from tierfetch.cli.options import table_console

from ..lab.s3 import S3UnavailableError, s3_program
from ..measure import Results, scratch
from ..options import figures_option, rounds_option, size_option
from .phases import Case, Phase, cases
from .report import add_pooled, add_round, print_report
from .session import Load, session
from .tiers import S3, TIERS


@click.command("copying")
@click.option("--tiers", type=click.Choice(TIERS), multiple=True, default=TIERS, show_default=True)
@size_option(500, "The backlog of each round, in millions of bytes.", least=150)
@rounds_option(5)
@click.option(
    "--records-per-s", type=click.FloatRange(min=1), default=1_000.0, show_default=True, help="Records of 1 kB."
)
@click.option(
    "--alone-s", type=click.FloatRange(min=1), default=10.0, show_default=True, help="How long nothing is copied."
)
@click.option(
    "--switch-interval-ms",
    "intervals_ms",
    type=click.FloatRange(min=0.01),
    multiple=True,
    help="Run each tier with these switch intervals of the brokers' interpreters, to see what the lock does.",
)
@click.option(
    "--worker",
    "workers",
    type=click.BOOL,
    multiple=True,
    default=(True,),
    show_default=True,
    help="Whether a worker process copies; both, one after the other, where it is given twice.",
)
@figures_option("copying")
def main(
    tiers: tuple[str, ...],
    size_mb: int,
    rounds: int,
    records_per_s: float,
    alone_s: float,
    intervals_ms: tuple[float, ...],
    workers: tuple[bool, ...],
    path: Path,
) -> None:
    """What producers wait for while closed segments are copied to the tier: by a directory, S3 and fsspec."""
    console, results = table_console(), Results()
    measured = cases(_that_run(tiers, console), intervals_ms, workers)
    if not measured:
        raise click.ClickException("no tier is left to be measured")
    load = Load(size_mb, records_per_s, alone_s)
    for case in measured:
        _measure(console, results, case, load, rounds)
        results.write(path)
    print_report(console, results, measured)
    console.print(f"Figures: {path}")


def _that_run(tiers: tuple[str, ...], console: Console) -> list[str]:
    if S3 not in tiers:
        return list(tiers)
    try:
        s3_program()
    except S3UnavailableError as error:
        console.print(f"[yellow]{S3} is left out: {error}[/]")
        return [tier for tier in tiers if tier != S3]
    return list(tiers)


def _measure(console: Console, results: Results, case: Case, load: Load, rounds: int) -> None:
    """Run a case's cluster through all rounds. A round that fails ends the benchmark."""
    pooled = defaultdict[Phase, list[float]](list)
    with scratch() as base, session(case, base, load) as running:
        for number in range(rounds):
            console.print(f"{case.name}: round {number + 1} of {rounds}")
            found = running.measure(number)
            add_round(results, case, found)
            for phase, one in found.items():
                pooled[phase] += one.latencies_ms
    for phase, latencies in pooled.items():
        add_pooled(results, case, phase, latencies)
