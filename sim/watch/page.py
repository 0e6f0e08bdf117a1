"""The document of one run: verdict, figures, the drawing, what was found, and the lines of the log."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from ...pages import Made, Markup, Tile, bullets, folded, page, paragraph, quiet, section, table, tiles, verdict
from ..scenarios.report import RunReport
from .drawing import drawing
from .timeline import Timeline

LINES_SHOWN: Final = 400


def watch_page(report: RunReport, timeline: Timeline, lines: Sequence[str], made: Made) -> str:
    """Return the HTML of a run."""
    has_failed = report.has_failed
    first = report.failures[0] if has_failed else None
    answer = verdict(
        f"Seed {report.seed} failed" if has_failed else f"Seed {report.seed} passed: nothing was found",
        "bad" if has_failed else "good",
        *report.failures[:3],
    )
    lead = paragraph(
        f"A run of the scenario {report.scenario}, on virtual time. The same seed gives the same run: "
        f"tierfetch simulate --scenario {report.scenario} --seed {report.seed}"
    )
    parts = [_figures(report, timeline), section("What happened", _legend(), drawing(timeline, first))]
    if len(report.failures) > 3:
        parts.append(section("Everything that was found", bullets(report.failures)))
    parts += [
        section("Faults", _faults(timeline)),
        section("What the seed chose", folded("Options", table(["option", "value"], list(report.options.items())))),
        section("The lines of the run", _lines(lines)),
    ]
    return page(f"Simulation of seed {report.seed}", answer, lead, parts, made)


def _figures(report: RunReport, timeline: Timeline) -> Markup:
    return tiles(
        [
            Tile(f"{report.virtual_s:.1f} s", "virtual time"),
            Tile(f"{report.virtual_s / max(report.real_s, 1e-9):.0f}", "times faster than real time"),
            Tile(f"{len(timeline.faults):,}", "faults that happened"),
            Tile(f"{report.records_acknowledged:,}", "records acknowledged by all"),
            Tile(f"{report.records_checked:,}", "records checked at the end"),
            Tile(f"{report.records_excused:,}", "of them lost as the faults permit"),
            Tile(f"{report.events:,}", "events"),
        ]
    )


def _legend() -> Markup:
    return quiet(
        "Green: the process of a node is up (pale while it starts); what is paused or down says so. A blue line below "
        "a node: it leads the quorum. A partition has the colour of its leader, and below it a line for each broker "
        "while that is in the ISR. Point at a shape to see what it is, and when."
    )


def _faults(timeline: Timeline) -> Markup:
    if not timeline.faults:
        return paragraph("None happened.")
    rows = [[f"{span.begin_s:.2f} s", f"{span.end_s - span.begin_s:.2f} s", span.text] for span in timeline.faults]
    return folded(f"All {len(rows)}", table(["from", "for", "fault"], rows))


def _lines(lines: Sequence[str]) -> Markup:
    shown = "\n".join(escape(line) for line in lines[-LINES_SHOWN:])
    pre = Markup(f'<div class="wide" role="region" tabindex="0" aria-label="Lines"><pre>{shown}</pre></div>')
    return folded(f"The last {min(len(lines), LINES_SHOWN)} of {len(lines)}", pre)
