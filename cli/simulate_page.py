"""The page of `tierfetch simulate`: whether the seeds passed, what failed and how to repeat it, and the faults."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from ..pages import (
    LOOKS,
    Bars,
    Made,
    Markup,
    Series,
    Tile,
    chart,
    page,
    paragraph,
    quiet,
    rows_height,
    section,
    table,
    tiles,
    verdict,
)


class SeedRun(Protocol):
    """What the page needs of a run: `RunReport` has it. The simulator's only door is `simulate`."""

    @property
    def scenario(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def failures(self) -> tuple[str, ...]: ...
    @property
    def has_failed(self) -> bool: ...
    @property
    def virtual_s(self) -> float: ...
    @property
    def real_s(self) -> float: ...
    @property
    def events(self) -> int: ...
    @property
    def injected(self) -> Mapping[str, int]: ...
    @property
    def records_acknowledged(self) -> int: ...
    @property
    def records_checked(self) -> int: ...
    @property
    def records_excused(self) -> int: ...


SKIPPED: Final = "skipped"
"""The end of the name of faults that found nothing to act on."""
FAILURES_MAX: Final = 100
"""Failed seeds that the page names; all of them are in the JSON."""
_LEAD: Final = (
    "Production's nodes ran on virtual time, under faults that each seed chose, and were judged after every event. The "
    "same seed gives the same run."
)


def simulate_page(reports: Sequence[SeedRun], asked: int, made: Made) -> str:
    """Return the whole document. `asked`: how many seeds were asked for; at least one was run."""
    failed = [report for report in reports if report.has_failed]
    title = f"Simulation of {len(reports):,} seeds, {reports[0].seed} to {reports[-1].seed}"
    parts = [_figures(reports), *([_failures(failed)] if failed else []), _faults(reports), _scenarios(reports)]
    return page(title, _verdict(reports, failed, asked), quiet(_LEAD), parts, made)


def _verdict(reports: Sequence[SeedRun], failed: Sequence[SeedRun], asked: int) -> Markup:
    ran = f"{len(reports):,} seeds" if len(reports) == asked else f"{len(reports):,} of {asked:,} seeds"
    if failed:
        return verdict(f"{len(failed):,} of {ran} failed.", "bad", f"The first: {failed[0].failures[0]}")
    checked = sum(report.records_checked for report in reports)
    return verdict(f"{ran} passed.", "good", f"{checked:,} acknowledged records were checked, and none was lost.")


def _figures(reports: Sequence[SeedRun]) -> Markup:
    virtual_s, real_s = sum(each.virtual_s for each in reports), sum(each.real_s for each in reports)
    events = sum(each.events for each in reports)
    excused = sum(each.records_excused for each in reports)
    return tiles(
        [
            Tile(f"{virtual_s / 3600:,.2f} h", "virtual time"),
            Tile(f"{real_s:,.0f} s", "of all processes"),
            Tile(f"{virtual_s / max(real_s, 1e-9):,.1f}", "virtual seconds in a real one"),
            Tile(f"{events:,}", "events"),
            Tile(f"{sum(each.records_acknowledged for each in reports):,}", "records acknowledged by all in sync"),
            Tile(f"{excused:,}", "records excused: a fault may lose them"),
        ]
    )


def _failures(failed: Sequence[SeedRun]) -> Markup:
    rows = [
        (
            str(report.seed),
            report.scenario,
            "; ".join(report.failures),
            f"tierfetch simulate --scenario {report.scenario} --seed {report.seed}",
        )
        for report in failed[:FAILURES_MAX]
    ]
    more = [paragraph(f"And {len(failed) - FAILURES_MAX:,} more.")] if len(failed) > FAILURES_MAX else []
    return section("What failed", table(("seed", "scenario", "failure", "repeat it with"), rows), *more)


def _faults(reports: Sequence[SeedRun]) -> Markup:
    injected = Counter[str]()
    for report in reports:
        injected.update(report.injected)
    found = [(kind, count) for kind, count in injected.most_common() if not kind.endswith(SKIPPED) and count]
    if not found:
        return section("Faults", paragraph("No fault was injected."))
    skipped = sum(count for kind, count in injected.items() if kind.endswith(SKIPPED))
    picture = chart(
        "Faults by kind",
        f"A bar for each of {len(found)} kinds of faults, the most frequent one first: {found[0][0]}",
        Bars(
            [kind for kind, _ in found],
            [Series("faults", LOOKS[0], [float(count) for _, count in found])],
            "times",
            lambda value: f"{value:,.0f}",
        ),
        table(("fault", "times"), found),
        height=rows_height(len(found)),
    )
    return section("Faults", picture, paragraph(f"{skipped:,} more found nothing to act on."))


def _scenarios(reports: Sequence[SeedRun]) -> Markup:
    by_name: dict[str, list[SeedRun]] = defaultdict(list)
    for report in reports:
        by_name[report.scenario].append(report)
    rows = [
        (
            name,
            len(found),
            sum(each.has_failed for each in found),
            f"{sum(each.virtual_s for each in found):,.0f} s",
            sum(each.events for each in found),
            sum(each.records_checked for each in found),
        )
        for name, found in sorted(by_name.items())
    ]
    headings = ("scenario", "seeds", "failed", "virtual time", "events", "records checked")
    return section("Scenarios", table(headings, rows))
