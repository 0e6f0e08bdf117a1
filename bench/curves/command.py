"""`python -m bench curves`: how costs grow with partitions and clients, ours beside Apache Kafka's.

Each point is a cluster of its own, and a line of a file as soon as it is measured. A run that is continued measures
what the file does not have yet.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import click
import psutil
from confluent_kafka import KafkaException
from rich.console import Console

from tierfetch.cli.options import table_console

from ..measure import commit, machine, scratch
from ..options import against_option, exit_on, figures_option, rounds_option, size_option
from ..systems import System, systems_of
from . import clients, partitions
from .draw import draw
from .points import AXES, CLIENTS, PARTITIONS, Line, Point, Settings, curves, is_of, line_of, missing, planned
from .report import print_report, results_of

Measure = Callable[[System, Path, int, Settings, dict[str, float]], None]
MEASURES: Final[dict[str, Measure]] = {PARTITIONS: partitions.measure, CLIENTS: clients.measure}
COUNTS: Final = (1, 10, 100, 1_000)
REASON_CHARACTERS_MAX: Final = 300


@click.command("curves")
@against_option
@click.option("--axes", type=click.Choice(AXES), multiple=True, default=AXES, show_default=True)
@click.option(
    "--counts",
    type=click.IntRange(1, 100_000),
    multiple=True,
    default=COUNTS,
    show_default=True,
    help="Numbers of partitions, and of clients.",
)
@rounds_option(1)
@size_option(100, "What is produced over all partitions, in millions of bytes.")
@click.option(
    "--requests",
    type=click.IntRange(min=100),
    default=20_000,
    show_default=True,
    help="What all clients send together; two each at least.",
)
@click.option("--again", is_flag=True, help="Measure all points, and keep none that the file has.")
@figures_option("curves", "All figures; the points are in a file beside it, .jsonl, and the pictures, .svg.")
def main(
    against: str,
    axes: tuple[str, ...],
    counts: tuple[int, ...],
    rounds: int,
    size_mb: int,
    requests: int,
    again: bool,
    path: Path,
) -> None:
    """How costs grow with partitions and with clients: each point a line, so that a run can be continued."""
    exit_on(signal.SIGTERM)
    console, settings, lines_path = table_console(), Settings(size_mb, requests), path.with_suffix(".jsonl")
    lines_path.parent.mkdir(parents=True, exist_ok=True)
    if again:
        lines_path.unlink(missing_ok=True)
    systems = {system.name: system for system in systems_of(against, console)}
    done = [line for line in read_lines(lines_path) if is_of(line, settings, commit())]
    points = missing(planned(axes, counts, list(systems), rounds), done)
    console.print(f"{len(done)} points are in {lines_path}, {len(points)} will be measured")
    for number, point in enumerate(points):
        console.print(f"[{number + 1}/{len(points)}] {point}", markup=False)
        line = measured(point, systems[point.system], settings)
        console.print(f"    {line.failure or 'done'} after {int(time.time()) - line.unix_time_s} s", markup=False)
        append_line(lines_path, line)
        done.append(line)
    print_report(console, done)
    if any(line.figures for line in done):
        results_of(done).write(path)
    console.print(f"Figures: {path}, points: {lines_path}")
    _draw(console, path, done)


def read_lines(path: Path) -> list[Line]:
    """Return what the file has; a last line that was cut off while it was written is left out."""
    if not path.exists():
        return []
    whole, _, _ = path.read_text().rpartition("\n")
    return [line_of(text) for text in whole.splitlines()]


def append_line(path: Path, line: Line) -> None:
    """Add a line, in place of one that was cut off."""
    whole, _, cut_off = path.read_text().rpartition("\n") if path.exists() else ("", "", "")
    if cut_off:
        path.write_text(f"{whole}\n" if whole else "")
    with path.open("a") as file:
        file.write(line.text() + "\n")


def measured(point: Point, system: System, settings: Settings) -> Line:
    """Measure a point. What one of the systems cannot hold is a line too, with the figures until then."""
    figures: dict[str, float] = {}
    failure, began = None, time.time()
    with scratch() as base:
        try:
            MEASURES[point.axis](system, base, point.count, settings, figures)
        except (OSError, RuntimeError, KafkaException, psutil.Error) as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            failure = reason[:REASON_CHARACTERS_MAX]
    return Line(point, settings, commit(), machine(), os.getloadavg()[0], int(began), figures, failure)


def _draw(console: Console, path: Path, lines: Sequence[Line]) -> None:
    for axis in AXES:
        found = curves(lines, axis)
        if found:
            picture = path.with_name(f"{path.stem}-{axis}.svg")
            try:
                draw(picture, axis, found, f"{lines[-1].machine}, commit {lines[-1].commit}")
            except ModuleNotFoundError as error:
                console.print(f"[yellow]no pictures: {error}[/]")
                return
            console.print(f"Picture: {picture}")
