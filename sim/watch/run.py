"""It runs a seed, and keeps what a page shows of it."""

from __future__ import annotations

from ...pages import Made
from ..faults.schedule import Schedule
from ..judges.core.history import History
from ..scenarios.report import RunReport
from ..scenarios.runner import run_seed
from .page import watch_page
from .timeline import timeline_of


def watch_seed(seed: int, scenario: str | None, schedule: Schedule | None, made: Made) -> tuple[RunReport, str]:
    """Return what the run came to, and the HTML that shows it."""
    lines: list[str] = []
    histories: list[History] = []
    report = run_seed(
        seed, scenario, schedule=schedule, sink=lines.append, on_end=lambda run: histories.append(run.history)
    )
    timeline = timeline_of(lines, report.virtual_s, *histories)
    return report, watch_page(report, timeline, lines, made)
