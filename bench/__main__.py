"""`python -m bench NAME --against kafka`: run us and Apache Kafka in turn, print ratios, write JSON."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from .measure import Results, scratch
from .options import against_option
from .systems import System, systems_of

Benchmark = Callable[[System, Path, Results, int, int], None]
BENCHMARKS: Final = {
    "replication": "replication",
    "replace": "replace",
    "produce": "produce",
    "producers": "partitions.producers",
    "consume": "consume",
    "latency": "latency",
    "load": "coordinators.loading",
    "ledger": "ledger",
    "startup": "startup",
    "append": "append",
    "coordinators": "coordinators.scale",
    "election": "election",
    "controller": "controller",
    "failover": "failover",
    "groups": "coordinators.groups",
    "images": "images",
    "model-speed": "model_speed",
    "planner": "planner",
    "simulation": "simulation",
    "kill": "kill",
    "expiry": "expiry",
    "snapshots": "snapshots",
    "tls": "secure.tls",
    "transactions": "coordinators.transactions",
}
"""The module of each, which is imported when it is run: some take numpy or the simulator."""
SUITES: Final = {
    "all": "everything.command",
    "copying": "copying.command",
    "curves": "curves.command",
    "fetch": "fetching.command",
    "fetch-s3": "fetching.from_s3",
    "model": "model.command",
    "partitions": "partitions.command",
    "pythons": "pythons.command",
    "replacement": "replacement.command",
    "soak": "soak.command",
    "spark": "spark.command",
    "witness": "witness.command",
}
"""The benchmarks with options of their own: `python -m bench model --help`."""


@click.command()
@click.argument("name", type=click.Choice([*BENCHMARKS]))
@against_option
@click.option("--size-mb", default=1000, show_default=True, help="Data of each run, in millions of bytes.")
@click.option("--runs", default=3, show_default=True, help="Counted runs of each case.")
@click.option("--rounds", default=1, show_default=True, help="How often the systems take turns.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), default="bench-results/last.json")
def main(name: str, against: str, size_mb: int, runs: int, rounds: int, json_path: Path) -> None:
    """Measure tierfetch and Apache Kafka 4.3.0 in turn, on the same machine and data. Never a gate.

    `all`, which runs most in half an hour, and `copying`, `curves`, `fetch`, `fetch-s3`, `model`, `partitions`,
    `pythons`, `replacement`, `soak` and `spark` have options of their own: `python -m bench all --help`.
    """
    console = Console()
    run, systems, results = benchmark(name), systems_of(against, console), Results()
    for round_number in range(rounds):
        for system in systems:
            console.print(f"{name}, round {round_number + 1} of {rounds}: {system.name}")
            with scratch() as base:
                run(system, base, results, size_mb, runs)
            # A run that is ended early has what it measured until then.
            results.write(json_path)
    results.print(console)
    console.print(f"Figures: {json_path}")


def benchmark(name: str) -> Benchmark:
    run: Benchmark = importlib.import_module(f".{BENCHMARKS[name]}", __package__).run
    return run


def suite(name: str) -> click.Command:
    command: click.Command = importlib.import_module(f".{SUITES[name]}", __package__).main
    return command


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in SUITES:
        suite(sys.argv[1]).main(sys.argv[2:], prog_name=f"python -m bench {sys.argv[1]}")
    main()
