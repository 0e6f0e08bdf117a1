"""What the demo found: the JSON document, the table on the terminal, the page."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, Field
from rich.console import Console
from rich.table import Table

from ...pages import (
    LOOKS,
    Bars,
    Made,
    Markup,
    Series,
    chart,
    mark,
    page,
    plain_number,
    policy_look,
    quiet,
    rows_height,
    section,
    table,
    verdict,
)
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


def write_page(report: DemoReport, path: Path) -> None:
    write_text(path, demo_page(report, Made.now()))


def demo_page(report: DemoReport, made: Made) -> str:
    """Return the whole document: what the checks say, the times and the bytes of each policy."""
    results = report.policies
    title = f"Replacing a wiped follower: {report.bytes_produced / MIB:,.0f} MiB produced, tier {report.tier}"
    parts = [_times(results), _copied(results)] if results else []
    return page(title, _verdict(report), quiet(_LEAD), [*parts, _checks(results)], made)


_LEAD: Final = (
    "For each bootstrap policy the follower is killed, wiped and started again. It is back when it is in the ISR of "
    "every partition."
)


def _verdict(report: DemoReport) -> Markup:
    if not report.passed:
        wrong = [result.policy for result in report.policies if not result.identical]
        said = [f"replicas differ from their leaders under {', '.join(wrong)}"] if wrong else []
        said += [] if report.consumer_ok else ["a consumer does not read everything from offset 0"]
        return verdict(f"A check failed: {'; '.join(said) or 'no policy was tried'}.", "bad")
    fastest = min(report.policies, key=lambda result: result.start_to_isr_s)
    least = min(report.policies, key=lambda result: result.bytes_from_leader)
    return verdict(
        f"{fastest.policy} is back in the ISR first, {fastest.start_to_isr_s:.2f} s after its process started.",
        "good",
        f"{least.policy} copies least from the leader: {least.bytes_from_leader / MIB:,.1f} MiB. "
        "Every replica equals its leader, byte by byte, and a consumer reads everything from offset 0.",
    )


def _times(results: list[PolicyResult]) -> Markup:
    series = [
        Series("first fetch to ISR", LOOKS[2], [result.first_fetch_to_isr_s for result in results]),
        Series("process start to ISR", LOOKS[0], [result.start_to_isr_s for result in results]),
    ]
    rows = [(each.policy, f"{each.first_fetch_to_isr_s:.2f} s", f"{each.start_to_isr_s:.2f} s") for each in results]
    picture = chart(
        "Seconds until the follower is back in the ISR",
        f"Two bars for each of {len(results)} policies: from the first fetch and from the start of the process",
        Bars([result.policy for result in results], series, "seconds", plain_number),
        table(("policy", *(one.name for one in series)), rows),
        height=rows_height(len(results), 2),
    )
    return section("How long it takes", picture)


def _copied(results: list[PolicyResult]) -> Markup:
    copied = Series("from the leader", LOOKS[0], [result.bytes_from_leader / MIB for result in results])
    rows = [
        (each.policy, f"{each.bytes_from_leader / MIB:,.1f} MiB", f"{each.bytes_from_tier / 1024:,.1f} KiB")
        for each in results
    ]
    picture = chart(
        "MiB copied from the leader",
        f"A bar for each of {len(results)} policies",
        Bars(
            [result.policy for result in results],
            [copied],
            "MiB",
            plain_number,
            row_looks=[policy_look(result.policy) for result in results],
        ),
        table(("policy", "from the leader", "from the tier"), rows),
        height=rows_height(len(results)),
    )
    return section("What is copied", picture)


def _checks(results: list[PolicyResult]) -> Markup:
    rows = [
        (each.policy, each.first_local_offset, mark("yes", "good") if each.identical else mark("NO", "bad"))
        for each in results
    ]
    return section("Checks", table(("policy", "first local offset", "same bytes as the leader"), rows))
