"""The curves as a table: a row for each quantity and system, a column for each count, and where the curve bends."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from ..measure import Results
from ..systems import KAFKA, TIERFETCH
from .bends import reading
from .points import AXES, Curve, Line, curves


def print_report(console: Console, lines: Sequence[Line]) -> None:
    """Print a table for each axis, and the reasons of the points that gave nothing."""
    loads = [line.load for line in lines]
    console.print(f"{lines[-1].machine}; load {min(loads):.1f} to {max(loads):.1f} during the points")
    for axis in AXES:
        found = curves(lines, axis)
        if not found:
            continue
        counts = sorted({line.point.count for line in lines if line.point.axis == axis})
        table = Table(axis, "", *(f"{count:,}" for count in counts), "where it bends")
        for quantity, by_system in found.items():
            ours = by_system.get(TIERFETCH.name, {})
            said = reading(quantity, ours, by_system.get(KAFKA.name)) if ours else ""
            for system, curve in by_system.items():
                table.add_row(quantity, system, *cells(curve, counts), said if system == TIERFETCH.name else "")
            table.add_section()
        console.print(table)
    for line in lines:
        if line.failure is not None:
            console.print(f"{line.point}: {line.failure}", markup=False)


def cells(curve: Curve, counts: Iterable[int]) -> list[str]:
    """Return a value for each count; a dash where a point gave none, nothing where none was measured."""
    return [_cell(curve[count]) if count in curve else "" for count in counts]


def _cell(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def results_of(lines: Iterable[Line]) -> Results:
    """Return the figures as the other benchmarks keep theirs."""
    results, loads = Results(), []
    for line in lines:
        point = line.point
        loads.append(line.load)
        for quantity, value in line.figures.items():
            results.add(f"curves over {point.axis}", f"{point.count:,}", point.system, quantity, value, "")
    results.loads[:] = loads
    return results
