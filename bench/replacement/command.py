"""`python -m bench replacement`: a wiped broker with many partitions, from its start to all in the ISR, by each 10 ms.

The systems take turns over rounds, each with a cluster of its own and the same data, which is loaded once a round: with
ten gigabytes that takes longer than all replacements. The picture has the last replacement of each case.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from tierfetch.cli.options import table_console

from ..copying.tiers import S3
from ..lab.s3 import S3UnavailableError, s3_program
from ..measure import Results, commit, machine, scratch
from ..options import against_option, exit_on, figures_option, rounds_option, size_option
from ..systems import systems_of
from .draw import Picture, draw
from .report import BENCHMARK, add, load_text, print_report
from .session import TIERS, TURN_BYTES, Load, session

OPTIONS: Final = {"on": (True,), "off": (False,), "both": (True, False)}


@click.command("replacement")
@against_option
@click.option("--partitions", type=click.IntRange(1, 1_000), default=1_000, show_default=True)
@size_option(10_000, "All partitions together, in millions of bytes; the disk needs three times as much.")
@click.option(
    "--local-share",
    type=click.FloatRange(0.1, 1.0),
    default=0.8,
    show_default=True,
    help="What the leader's disk keeps; all closed segments are in the tier.",
)
@click.option(
    "--tier",
    type=click.Choice(TIERS),
    default=TIERS[0],
    show_default=True,
    help="Of tierfetch. Apache Kafka's is a directory: it has no plugin for S3.",
)
@click.option(
    "--option",
    type=click.Choice([*OPTIONS]),
    default="both",
    show_default=True,
    help="follower.fetch.last.tiered.offset.enable of the wiped broker.",
)
@click.option("--runs", type=click.IntRange(min=1), default=3, show_default=True, help="Of each case and round.")
@rounds_option(1)
@click.option(
    "--timeout-s",
    type=click.FloatRange(min=1),
    default=600.0,
    show_default=True,
    help="For the load to come to rest, and for a replacement.",
)
@figures_option(
    "replacement", "The figures; the values of each 10 ms are in a file beside it, -10ms.json, and the picture, .svg."
)
def main(
    against: str,
    partitions: int,
    size_mb: int,
    local_share: float,
    tier: str,
    option: str,
    runs: int,
    rounds: int,
    timeout_s: float,
    path: Path,
) -> None:
    """Replace a wiped broker with many partitions: start to all in the ISR, and where each 10 ms of that goes."""
    exit_on(signal.SIGTERM)
    if size_mb * 1_000_000 < partitions * TURN_BYTES:
        raise click.BadParameter(
            f"{partitions} partitions need {partitions * TURN_BYTES / 1e6:g} at least, 0.5 MB for each",
            param_hint="--size-mb",
        )
    if tier == S3:
        try:
            s3_program()
        except S3UnavailableError as error:
            raise click.ClickException(f"{error}; --tier local needs none") from error
    console, results = table_console(), Results()
    load = Load(partitions, size_mb, local_share, timeout_s)
    pictures: dict[str, Picture] = {}
    for number in range(rounds):
        for system in systems_of(against, console):
            console.print(f"round {number + 1} of {rounds}: {system.name} is loaded")
            with scratch() as base, session(system, base, tier, load) as running:
                share = running.load()
                results.add(BENCHMARK, load_text(load, tier), system.name, "local on the leader", share * 100, "%")
                for flag in [flag for _ in range(runs) for flag in OPTIONS[option]]:
                    title = f"{system.name}, option {'on' if flag else 'off'}"
                    replaced = running.replace(option=flag)
                    add(results, f"{load_text(load, tier)}, option {'on' if flag else 'off'}", system, replaced, load)
                    pictures[title] = Picture(title, **replaced.timeline())
                    console.print(f"    {title}: {replaced.ended_s - replaced.began_s:.2f} s")
                    results.write(path)
    print_report(console, results)
    console.print(f"Figures: {path}")
    _write(console, path, list(pictures.values()), load_text(load, tier))


def _write(console: Console, path: Path, pictures: list[Picture], text: str) -> None:
    steps, picture = path.with_name(f"{path.stem}-10ms.json"), path.with_suffix(".svg")
    steps.write_text(json.dumps({one.title: {"replicas": one.replicas, "cores": one.cores} for one in pictures}) + "\n")
    console.print(f"Values of each 10 ms: {steps}")
    try:
        draw(picture, pictures, f"{text}\n{machine()}, commit {commit()}")
    except ModuleNotFoundError as error:
        console.print(f"[yellow]no picture: {error}[/]")
        return
    console.print(f"Picture: {picture}")
