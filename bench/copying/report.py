"""The table of `python -m bench copying`: quantiles of both phases, ratios within rounds, and what held up the loop."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from ..fetching.report import spread
from ..fetching.rounds import ratios
from ..measure import Figure, Results, machine
from ..systems import TIERFETCH
from .evidence import Lateness, reading
from .phases import GOAL, QUANTILES, Case, Phase, is_long_enough, quantiles
from .session import Measured

BENCHMARK = "copying"
COPIED = "copied to the tier"
LEADER_CPU = "CPU of the leader"
STORE_CPU = "CPU of the store"
LATE = "late ticks of the leader"
OWN = "late ticks by the leader's own CPU time"
BARE = "late ticks of a bare loop"


def add_round(results: Results, case: Case, measured: Mapping[Phase, Measured]) -> None:
    """Keep the figures of a round."""
    for phase, one in measured.items():
        for name, value in quantiles(one.latencies_ms).items():
            _add(results, case, phase, name, value, "ms")
        _add(results, case, phase, LEADER_CPU, one.leader_cpu * 100, "% of a core")
        _add(results, case, phase, STORE_CPU, one.store_cpu * 100, "% of a core")
        for name, share in ((LATE, one.late.broker), (OWN, one.late.own), (BARE, one.late.bare)):
            _add(results, case, phase, name, share * 100, "%")
    _add(results, case, Phase.COPYING, COPIED, measured[Phase.COPYING].copied_mb_per_s, "MB/s")


def add_pooled(results: Results, case: Case, phase: Phase, latencies_ms: Sequence[float]) -> None:
    """Keep the highest quantile over the records of all rounds, where a single round has too few."""
    if is_long_enough(latencies_ms):
        _add(results, case, phase, "p99.9 of all rounds", quantiles(latencies_ms)["p99.9"], "ms")


def _add(results: Results, case: Case, phase: Phase, quantity: str, value: float, unit: str) -> None:
    results.add(BENCHMARK, case.name, TIERFETCH.name, f"{quantity}, {phase.value}", value, unit)


def print_report(console: Console, results: Results, measured: Sequence[Case]) -> None:
    console.print(f"{machine()}; load {min(results.loads):.1f} to {max(results.loads):.1f} during the runs")
    table = Table(
        *("tier", "", *QUANTILES, "p99.9 of all"),
        *("p99 copying / alone", "copied, MB/s", "leader, store, % of a core", "late ticks: own, bare, %", "reading"),
    )
    for case in measured:
        for phase in Phase:
            table.add_row(case.name, phase.value, *row(results, case, phase))
        table.add_section()
    console.print(table)


def row(results: Results, case: Case, phase: Phase) -> list[str]:
    """Return the cells of a phase, after its name: medians of the rounds, and ratios within rounds."""
    pooled = results.figure(BENCHMARK, case.name, TIERFETCH.name, f"p99.9 of all rounds, {phase.value}")
    late = _lateness(results, case, phase)
    leader, store = (_figure(results, case, phase, name).median for name in (LEADER_CPU, STORE_CPU))
    is_copying = phase is Phase.COPYING
    return [
        *(f"{_figure(results, case, phase, name).median:,.1f}" for name in QUANTILES),
        "" if pooled is None else f"{pooled.median:,.1f}",
        verdict(growth(results, case)) if is_copying else "",
        f"{_figure(results, case, phase, COPIED).median:,.0f}" if is_copying else "",
        f"{leader:.0f}, {store:.0f}",
        f"{late.broker:.1%}: {late.own:.1%}, {late.bare:.1%}".replace("%", ""),
        reading(late, _lateness(results, case, Phase.ALONE)),
    ]


def _lateness(results: Results, case: Case, phase: Phase) -> Lateness:
    return Lateness(*(_figure(results, case, phase, name).median / 100 for name in (LATE, OWN, BARE)))


def growth(results: Results, case: Case) -> list[float]:
    """Return by how much the p99 grew in each round."""
    both = (_figure(results, case, phase, "p99").values for phase in (Phase.COPYING, Phase.ALONE))
    return ratios(*both)


def verdict(grown: Sequence[float]) -> str:
    """Return the ratios, and whether their median is within the goal."""
    is_reached = statistics.median(grown) <= GOAL
    return f"{spread(grown)}, goal {GOAL:g}: {'reached' if is_reached else 'missed'}"


def _figure(results: Results, case: Case, phase: Phase, quantity: str) -> Figure:
    found = results.figure(BENCHMARK, case.name, TIERFETCH.name, f"{quantity}, {phase.value}")
    assert found is not None, f"{case.name}, {phase.value}: no {quantity}"
    return found
