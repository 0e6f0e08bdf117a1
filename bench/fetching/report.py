"""The table of `python -m bench fetch`: every round, and shares and ratios within rounds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from ..measure import Figure, Results, groups, machine
from .bare import WAYS
from .rounds import Case, best_of_each_round, ratios

BENCHMARK = "fetch"
THROUGHPUT = "throughput"
CPU = "CPU of the server"
FIRST = "first answer"
CONSUMERS_CPU = "CPU of the reader"


def print_report(console: Console, results: Results, measured: Sequence[Case], systems: Sequence[str]) -> None:
    console.print(f"{machine()}; load {min(results.loads):.1f} to {max(results.loads):.1f} during the runs")
    table = Table(
        *("case", "server", "MB/s, each round", "median", "of the bare loops", "of kafka"),
        *("CPU s/GB", "of kafka", "first answer, ms"),
    )
    for case in measured:
        for system in [*systems, *WAYS]:
            table.add_row(case.name, system, *row(results, case, system))
        table.add_section()
    console.print(table)


def row(results: Results, case: Case, system: str) -> list[str]:
    """Return the cells of a server in a case, after its name."""
    throughput = figure(results, case, system, THROUGHPUT)
    cpu = figure(results, case, system, CPU)
    first = figure(results, case, system, FIRST)
    bare = best_of_each_round({way: figure(results, case, way, THROUGHPUT).values for way in WAYS})
    return [
        rounds_text(throughput.values),
        f"{throughput.median:,.0f}",
        spread(ratios(throughput.values, bare)),
        *(_of_kafka(results, case, system, throughput), f"{cpu.median:.2f}", _of_kafka(results, case, system, cpu)),
        f"{first.median:,.1f}",
    ]


def figure(results: Results, case: Case, system: str, quantity: str) -> Figure:
    found = results.figure(BENCHMARK, case.name, system, quantity)
    assert found is not None, f"{case.name}: {system} has no {quantity}"
    return found


def _of_kafka(results: Results, case: Case, system: str, own: Figure) -> str:
    other = results.figure(BENCHMARK, case.name, "kafka", own.quantity)
    if other is None or system == "kafka" or system in WAYS:
        return ""
    return spread(ratios(own.values, other.values))


def spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def rounds_text(values: Sequence[float]) -> str:
    """Return every value in the order of the rounds; marked where they come in groups."""
    text = ", ".join(f"{value:,.0f}" for value in values)
    return text if len(groups(values)) == 1 else f"{text} (in {len(groups(values))} groups)"
