"""What the demo found: the JSON document, the table on the terminal, the chart as one HTML file."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field
from rich.console import Console
from rich.table import Table

from ..options import write_text

MIB = 1 << 20


class PolicyResult(BaseModel):
    """One replacement of the follower. Times in seconds, sizes in bytes."""

    policy: str
    start_to_isr_s: float
    first_fetch_to_isr_s: float
    bytes_from_leader: int
    bytes_from_tier: int
    first_local_offset: int = Field(description="Smallest of the partitions'.")
    identical: bool


class DemoReport(BaseModel):
    """The document that `--json` writes."""

    policies: list[PolicyResult] = Field(default_factory=list)
    consumer_ok: bool = False
    bytes_produced: int
    tier: Literal["local", "s3"]

    @property
    def passed(self) -> bool:
        return bool(self.policies) and self.consumer_ok and all(result.identical for result in self.policies)


def print_table(report: DemoReport, console: Console) -> None:
    table = Table(title=f"Replacing a wiped follower ({report.bytes_produced / MIB:,.0f} MiB, tier: {report.tier})")
    table.add_column("bootstrap policy", style="bold", no_wrap=True)
    for heading in (
        "start\nto ISR\ns",
        "fetch\nto ISR\ns",
        "from\nleader\nMiB",
        "from\ntier\nKiB",
        "first\nlocal\noffset",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("same\nbytes", justify="center", no_wrap=True)
    for result in report.policies:
        table.add_row(
            result.policy,
            f"{result.start_to_isr_s:.2f}",
            f"{result.first_fetch_to_isr_s:.2f}",
            f"{result.bytes_from_leader / MIB:,.1f}",
            f"{result.bytes_from_tier / 1024:,.1f}",
            f"{result.first_local_offset:,}",
            "[green]yes[/]" if result.identical else "[red]NO[/]",
        )
    console.print(table)
    verdict = "[green]yes, with the right checksum[/]" if report.consumer_ok else "[red]NO[/]"
    console.print(f"A consumer reads everything from offset 0: {verdict}")


def write_chart(report: DemoReport, path: Path) -> None:
    """Two bar charts side by side: seconds to ISR and data from the leader, a row for each policy."""
    from plotly.graph_objects import Bar, Figure
    from plotly.subplots import make_subplots

    names = [result.policy for result in report.policies]
    figure: Figure = make_subplots(
        rows=1,
        cols=2,
        shared_yaxes=True,
        horizontal_spacing=0.06,
        subplot_titles=("Seconds until back in the ISR", "Copied from the leader (MiB)"),
    )
    columns = (
        ("first fetch to ISR", "#72b7b2", [result.first_fetch_to_isr_s for result in report.policies], 1, "%{x:.2f} s"),
        ("process start to ISR", "#4c78a8", [result.start_to_isr_s for result in report.policies], 1, "%{x:.2f} s"),
        ("from the leader", "#f58518", [result.bytes_from_leader / MIB for result in report.policies], 2, "%{x:,.1f}"),
    )
    for name, color, values, column, text in columns:
        bar = Bar(
            name=name,
            y=names,
            x=values,
            orientation="h",
            marker_color=color,
            texttemplate=text,
            textposition="outside",
            cliponaxis=False,
        )
        figure.add_trace(bar, row=1, col=column)
    title = f"Replacing a wiped follower: {report.bytes_produced / MIB:,.0f} MiB produced, tier {report.tier}"
    figure.update_layout(
        title=html.escape(title),
        template="plotly_white",
        font={"size": 15},
        bargap=0.25,
        height=560,
        legend={"orientation": "h", "y": -0.1, "traceorder": "reversed"},
        margin={"t": 100, "r": 90},
    )
    figure.update_xaxes(rangemode="tozero")
    figure.update_yaxes(autorange="reversed", ticksuffix="  ")
    write_text(path, figure.to_html(include_plotlyjs=True, full_html=True))
