"""What the model's commands print: the answer first, then what it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ...byte_text import rate, size
from .document import ModelDocument, MoveRow, Outcome
from .quantities import NEVER, between, clause, cost, count, duration, share

MOVES_SHOWN = 8
RESOURCES_SHOWN = 8
MOVE_HEADINGS: Final = (
    "partition",
    "to broker",
    "wave",
    "first fetch",
    "in the ISR",
    "in 80 % of the cases",
    "bulk",
    "written meanwhile",
)


def print_outcome(document: ModelDocument, console: Console) -> None:
    """One policy."""
    outcome = document.outcomes[0]
    console.print(f"[bold]{escape(document.scenario)}[/]", highlight=False)
    console.print(_answer(outcome), highlight=False)
    if not outcome.moves:
        return
    console.print()
    console.print(_summary(outcome))
    if outcome.seconds:
        console.print(_seconds(outcome))
    if document.resources:
        console.print(_resources(document))
    if document.moves:
        console.print(_slowest(document))
    console.print(f"[dim]Calibration: {outcome.system}; {escape(outcome.calibration)}[/]", highlight=False)


def print_comparison(document: ModelDocument, console: Console) -> None:
    """All policies, side by side."""
    console.print(f"[bold]{escape(document.scenario)}[/]", highlight=False)
    table = Table()
    table.add_column("bootstrap policy", style="bold", no_wrap=True)
    for heading in (
        "until all\nin sync",
        "in 80 % of\nthe cases",
        "median\nreplica",
        "copied from\nleaders",
        "URP-\nminutes",
        "below min\nISR, longest",
        "only in the\ntier after",
        "requests\nto the tier",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for outcome in document.outcomes:
        table.add_row(*_row(outcome))
    console.print(table)
    for outcome in document.outcomes:
        for text, replicas in outcome.obstacles.items():
            console.print(f"{outcome.policy}: {count(replicas, 'replica')} never: {text}", highlight=False)
    console.print(
        "kafka is Apache Kafka 4.3.0 with follower.fetch.last.tiered.offset.enable off, kafka-last-tiered with it on.",
        highlight=False,
    )


def _answer(outcome: Outcome) -> str:
    if outcome.moves == 0:
        return "Nothing moves."
    if outcome.never_join == 0:
        are = clause(outcome.moves, "replica", "is", "are")
        after = f"in sync after [bold]{duration(outcome.duration_s)}[/]{range_text(outcome)}."
        return f"{'All ' if outcome.moves > 1 else ''}{are} {after}"
    why = "; ".join(f"{number:,}: {text}" for text, number in outcome.obstacles.items())
    join = "joins" if outcome.never_join == 1 else "join"
    return f"[red]{outcome.never_join:,} of {count(outcome.moves, 'replica')} never {join} the ISR[/] ({why})."


def range_text(outcome: Outcome) -> str:
    """ ", in 80 % of the cases 3 min 41 s to 4 min 58 s (widest: load on the machines)"; "" where it is exact."""
    if not outcome.inputs:
        return ""
    within = between(outcome.duration_range.low, outcome.duration_range.high)
    return f", in 80 % of the cases {within} (most of that: {outcome.widest})"


def _seconds(outcome: Outcome) -> Table:
    """Where the time goes; of the last replica only where it differs, because it waited."""
    last = {each.cause: each.seconds for each in outcome.last_seconds}
    has_waited = len(last) != len(outcome.seconds) or any(
        last.get(each.cause) != each.seconds for each in outcome.seconds
    )
    table = Table(title="Where the time goes", title_justify="left")
    table.add_column("waiting for", no_wrap=True)
    table.add_column("the whole", justify="right", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    if has_waited:
        table.add_column("the last replica", justify="right", no_wrap=True)
    total = sum(each.seconds for each in outcome.seconds)
    whole = {each.cause: each.seconds for each in outcome.seconds}
    for cause in (*whole, *(each for each in last if each not in whole)):
        cells = [cause, duration(whole.get(cause, 0.0)), share(whole.get(cause, 0.0) / total)]
        table.add_row(*cells, *([duration(last.get(cause, 0.0))] if has_waited else []))
    return table


def _summary(outcome: Outcome) -> Table:
    table = Table(show_header=False, box=None, padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="dim")
    rows: list[tuple[str, str, str]] = [
        ("bootstrap policy", outcome.policy, ""),
        ("half of the replicas in sync", duration(outcome.median_join_s), within(outcome, "median_join_s")),
        ("95 % in sync", duration(outcome.p95_join_s), within(outcome, "p95_join_s")),
        ("copied from leaders", size(outcome.leader_bytes), f"{size(outcome.catch_up_bytes)} written meanwhile"),
        ("read from the tier", size(outcome.tier_bytes), count(outcome.tier_gets, "request")),
        ("under-replication", _minutes(outcome.urp_minutes), "URP-minutes: partitions times minutes"),
        (
            "below min.insync.replicas",
            duration(outcome.below_min_isr_longest_s),
            _joined("the longest of any partition", within(outcome, "below_min_isr_longest_s")),
        ),
        ("only in the tier afterwards", size(outcome.thin_bytes), "leaders have it on disk, new replicas do not"),
        ("cost of requests and egress", *_cost(outcome)),
    ]
    if outcome.system == "tierfetch" and outcome.warming_s:
        note = _joined("if the background warmer is on", within(outcome, "warming_s"))
        rows.append(("... until warmed up", duration(outcome.warming_s), note))
    if outcome.headroom is not None:
        text = f"by {share(outcome.headroom.before)} without moves; broker {outcome.headroom.broker} has least"
        rows.append(("producers may grow by", share(outcome.headroom.during), text))
    for row in rows:
        table.add_row(*row)
    return table


def within(outcome: Outcome, name: str) -> str:
    """The interval of one of its times; "" where it is exact, or nothing."""
    found = outcome.ranges[name]
    return between(found.low, found.high) if outcome.inputs and found.high != 0 else ""


def _joined(*notes: str) -> str:
    return ": ".join(filter(None, notes))


def _resources(document: ModelDocument) -> Table:
    table = Table(title="Fullest resources at their peak", title_justify="left")
    table.add_column("resource", no_wrap=True)
    for heading in ("in use", "foreground", "moves", "capacity", "at"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in document.resources[:RESOURCES_SHOWN]:
        unit = _cores if row.kind == "CPU" else rate
        owner = f" {row.owner}" if row.kind == "link" else f" of {row.whose}" if row.owner else ""
        table.add_row(
            escape(row.kind + owner),
            share(row.peak_share),
            unit(row.foreground),
            unit(row.peak),
            unit(row.capacity),
            duration(row.peak_at_s),
        )
    return table


def _cores(value: float) -> str:
    return f"{value:.2f} cores"


def _slowest(document: ModelDocument) -> Table:
    table = Table(title="Last replicas to join the ISR", title_justify="left")
    table.add_column(MOVE_HEADINGS[0], no_wrap=True)
    for heading in MOVE_HEADINGS[1:]:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in document.moves[:MOVES_SHOWN]:
        table.add_row(*move_cells(row), style="red" if row.joined_s is None else None)
    return table


def move_cells(row: MoveRow) -> Sequence[str]:
    """Below `MOVE_HEADINGS`."""
    return (
        row.name,
        str(row.to_broker),
        str(row.wave + 1),
        duration(row.first_fetch_s),
        duration(row.joined_s),
        between(row.joined_range.low, row.joined_range.high),
        size(row.bulk_bytes),
        size(row.catch_up_bytes),
    )


def _row(outcome: Outcome) -> Sequence[str]:
    return (
        outcome.policy,
        duration(outcome.duration_s),
        between(outcome.duration_range.low, outcome.duration_range.high),
        _lines(duration(outcome.median_join_s), within(outcome, "median_join_s")),
        size(outcome.leader_bytes),
        _minutes(outcome.urp_minutes),
        _lines(duration(outcome.below_min_isr_longest_s), within(outcome, "below_min_isr_longest_s")),
        size(outcome.thin_bytes),
        f"{outcome.tier_gets:,}",
    )


def _lines(*texts: str) -> str:
    """One below the other; without those that are empty."""
    return "\n".join(filter(None, texts))


def _cost(outcome: Outcome) -> tuple[str, str]:
    if not outcome.is_priced:
        return "no price given", "tier.price_per_get, tier.price_per_gb_egress"
    return cost(outcome.request_cost + outcome.egress_cost), "in the inventory's currency"


def _minutes(value: float | None) -> str:
    if value is None:
        return NEVER + " ends"
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"
