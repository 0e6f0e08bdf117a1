"""`python -m bench pythons`: short benchmarks of ours under other interpreters and uvloop, beside the standard way.

Each interpreter is a virtual environment with the same packages (`pip install -e . --group dev`, `confluent-kafka`, and
`uvloop` for that). It runs the benchmark, and so the brokers, which are children of it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from tierfetch.cli.local import captured
from tierfetch.cli.options import table_console

from ..fetching.report import spread
from ..fetching.rounds import in_turn
from ..lab.child import exit_code
from ..measure import Results, machine, scratch
from ..options import exit_on, figures_option, rounds_option, size_option
from ..systems import TIERFETCH
from .ways import PROBE, Way, name_of, paired, values_of, verdict

BENCHMARK: Final = "pythons"
SHORT: Final = {"produce": "--runs 1", "replication": "--runs 1", "startup": "--runs 2"}
TIME_LIMIT_S: Final = 600.0
REASON_CHARACTERS_MAX: Final = 300
IN_BROKER: Final = Path(__file__).resolve().parent / "in_broker"
Key = tuple[str, str, str]
"""Case, quantity, unit."""


@click.command("pythons")
@click.option(
    "--python",
    "pythons",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    help="The interpreter of another environment.",
)
@click.option("--uvloop", is_flag=True, help="Run each interpreter with uvloop too.")
@click.option("--only", type=click.Choice([*SHORT]), multiple=True, default=[*SHORT], show_default=True)
@rounds_option(3)
@size_option(200, "What each benchmark produces or copies, in millions of bytes.", least=4)
@figures_option("pythons")
def main(pythons: tuple[Path, ...], uvloop: bool, only: tuple[str, ...], rounds: int, size_mb: int, path: Path) -> None:
    """Measure ours under other interpreters and with uvloop, in turn with the standard way, and say what is better."""
    exit_on(signal.SIGTERM)
    console, results = table_console(), Results()
    ways = [
        way(python, is_uvloop=is_uvloop)
        for python in (Path(sys.executable), *pythons)
        for is_uvloop in (False, True)[: 1 + uvloop]
    ]
    if len(ways) == 1:
        raise click.UsageError("nothing to compare with: name another interpreter (--python) or ask for --uvloop")
    found: dict[Key, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for number in range(rounds):
        for name in only:
            for each in in_turn(ways, number):
                console.print(f"round {number + 1} of {rounds}: {name}, {each.name}")
                _measure(console, results, each, [name, *SHORT[name].split(), "--size-mb", str(size_mb)], number, found)
            results.write(path)
    print_report(console, results, found, ways)
    console.print(f"Figures: {path}")


def way(python: Path, *, is_uvloop: bool) -> Way:
    """Ask an interpreter what it is."""
    done = captured([str(python), "-c", PROBE], timeout_s=60)
    if done.returncode != 0:
        raise click.ClickException(f"{python} is no interpreter that runs: {done.stderr.strip()[-300:]}")
    return Way(name_of(done.stdout, is_uvloop=is_uvloop), python, is_uvloop)


def _measure(
    console: Console,
    results: Results,
    each: Way,
    arguments: Sequence[str],
    number: int,
    found: Mapping[Key, Mapping[str, dict[int, float]]],
) -> None:
    """Run one benchmark; what fails has a line that says why, and no figure."""
    with scratch() as base:
        path = base / "figures.json"
        command = [str(each.python), "-m", "bench", *arguments, "--against", "nothing", "--json", str(path)]
        failure = run(command, environment(each), base / "output")
        if failure is not None:
            console.print(f"    fails: {failure}", markup=False)
            return
        for one in values_of(path.read_text(), TIERFETCH.name):
            results.add(BENCHMARK, one.case, each.name, one.quantity, one.value, one.unit)
            found[one.case, one.quantity, one.unit][each.name][number] = one.value


def environment(each: Way) -> dict[str, str]:
    """Return the environment of a way: that of this process, and for uvloop one folder more."""
    if not each.is_uvloop:
        return dict(os.environ)
    paths = [str(IN_BROKER), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def run(command: Sequence[str], variables: Mapping[str, str], output: Path) -> str | None:
    """Run a program from where this one runs; return what went wrong, the end of what it said, or None."""
    code = exit_code(command, output, TIME_LIMIT_S, variables)
    if code is None:
        return f"not over after {TIME_LIMIT_S:.0f} s"
    said = " ".join(output.read_text(errors="replace").split())
    return None if code == 0 else f"exit code {code}: {said[-REASON_CHARACTERS_MAX:]}"


def print_report(
    console: Console, results: Results, found: Mapping[Key, Mapping[str, Mapping[int, float]]], ways: Sequence[Way]
) -> None:
    """Print a row for each quantity and way: its figures, the ratios to the standard way, the verdict."""
    console.print(f"{machine()}; load {min(results.loads, default=0):.1f} to {max(results.loads, default=0):.1f}")
    standard, *others = ways
    table = Table("case", "quantity", "way", "min / median / max", f"of {standard.name}", "verdict")
    for (case, quantity, _), by_way in found.items():
        for each in ways:
            figure = results.figure(BENCHMARK, case, each.name, quantity)
            cells = ["" if figure is None else figure.spread(), "", ""]
            if each in others:
                ratios = paired(by_way.get(each.name, {}), by_way.get(standard.name, {}))
                cells[1:] = [spread(ratios) if ratios else "", verdict(quantity, ratios).value]
            table.add_row(case, quantity, each.name, *cells)
        table.add_section()
    console.print(table)
