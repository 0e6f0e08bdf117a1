"""The figures of replacements, and their table: a row for each quantity, the systems beside each other."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.table import Table

from ..measure import Results, machine
from ..systems import KAFKA, TIERFETCH, System
from .session import Load, Replaced
from .states import State, phases

BENCHMARK: Final = "replacement"


def load_text(load: Load, tier: str) -> str:
    return f"{load.partitions:,} partitions, {load.size_mb:,} MB, {load.local_share:.0%} local, tier: {tier}"


def add(results: Results, case: str, system: System, replaced: Replaced, load: Load) -> None:
    """Add the figures of one replacement. One that did not end has none but that it did not."""

    def one(quantity: str, value: float, unit: str) -> None:
        results.add(BENCHMARK, case, system.name, quantity, value, unit)

    one(f"all in the ISR within {load.timeout_s:g} s (1 = yes)", float(replaced.is_whole), "")
    if not replaced.is_whole:
        return
    one("start to all in the ISR", replaced.ended_s - replaced.began_s, "s")
    one("copied from the leader", replaced.copied_bytes / 1e6, "MB")
    for name in replaced.cpu:
        one(f"CPU of the {name}", replaced.cpu_s(name), "s")
    found = phases(replaced.lives, replaced.began_s)
    for state in State:
        if state in found:
            one(f"{state.value}: mean of a partition", found[state].mean_s, "s")
            one(f"{state.value}: until, the last partition", found[state].last_s, "s")


def print_report(console: Console, results: Results) -> None:
    """Print a table for each case."""
    console.print(f"{machine()}; load {min(results.loads):.1f} to {max(results.loads):.1f} during the runs")
    cases: dict[str, list[str]] = {}
    for figure in results.figures():
        quantities = cases.setdefault(figure.case, [])
        if figure.quantity not in quantities:
            quantities.append(figure.quantity)
    for case, quantities in cases.items():
        table = Table("min / median / max", TIERFETCH.name, KAFKA.name, "ratio of medians", title=case)
        for quantity in quantities:
            ours, kafkas = (results.figure(BENCHMARK, case, each.name, quantity) for each in (TIERFETCH, KAFKA))
            cells = ["" if figure is None else figure.spread() for figure in (ours, kafkas)]
            ratio = "" if ours is None or kafkas is None or not kafkas.median else f"{ours.median / kafkas.median:.2f}"
            table.add_row(quantity, *cells, ratio)
        console.print(table)
