"""The report of a replacement or a rebalance: what is said where. Charts come from `charts`, the frame from `page`."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

from ...byte_text import size
from ..options import write_text
from . import charts
from .document import ModelDocument, MoveRow, Outcome
from .page import Tile, chart, section, tiles, whole_page
from .quantities import NEVER, count, duration, share
from .tables import MOVE_HEADINGS, move_cells

MOVES_SHOWN: Final = 15
MOVES_MAX: Final = 2_000
"""The most moves on a page, folded ones included; a page with more would be too large."""

_POLICIES: Final = {
    "tier-first": "takes from the leader only what is not in the tier yet, and asks for that before its first fetch",
    "bounded-local": "as tier-first, but keeps a stated amount of tiered data on disk too",
    "earliest-pending-upload": "KIP-1023 as written: as tier-first, but only after the leader refused the first fetch",
    "local-log-start": "copies everything that the leader has on disk (KIP-405)",
    "log-start": "begins at the log start if that is on the leader's disk, else as local-log-start",
    "kafka": "Apache Kafka 4.3.0 as configured by default: copies everything that the leader has on disk",
    "kafka-last-tiered": "Apache Kafka 4.3.0 with follower.fetch.last.tiered.offset.enable: KIP-1023 as shipped",
}

_ASSUMPTIONS: Final = (
    "Transfers share every NIC, disk, CPU, throttle and rack link max-min fairly: no transfer can get more without "
    "taking from one that has no more than it.",
    "The foreground comes first and stays as it is; what is left (at least 5 %) goes to the replicas being built.",
    "All replicas of one broker start to fetch together, once the last of them is set up.",
    "Nothing else fails meanwhile, and no operator changes anything.",
)


def write_report(document: ModelDocument, path: Path) -> None:
    write_text(path, page(document))


def page(document: ModelDocument) -> str:
    """The whole file. The first outcome is the one asked for, the others stand beside it."""
    outcome = document.outcomes[0]
    parts = [_answer(outcome), tiles(_tiles(outcome))]
    if outcome.moves:
        parts += _sections(document, outcome)
    parts.append(_assumptions(outcome))
    return whole_page(document.scenario, document.command, document.cluster, parts, document.warnings)


def _sections(document: ModelDocument, outcome: Outcome) -> list[str]:
    sections = [
        section(
            "How it goes",
            "Each line falls by one when a partition has its replica back (or a moved replica is in sync). "
            f"The thick line is the policy that was asked for, <b>{escape(outcome.policy)}</b>.",
            chart(charts.progress_chart(document), "progress", with_library=True),
        )
    ]
    if len(document.outcomes) > 1:
        sections.append(
            section(
                "What the bootstrap policy changes",
                "A bootstrap policy decides where a new, empty replica begins to copy. The less it takes from the "
                "leader, the sooner it is in sync.",
                chart(charts.policies_chart(document), "policies") + _policies(document),
            )
        )
    sections += [
        section(
            "Network traffic of the moves",
            "Mean rates of copying, without what clients do. " + _others(document),
            chart(charts.traffic_chart(document), "traffic"),
        ),
        section(
            "What gets full",
            "Each resource at the moment when copying took most of it. At the dotted line it is saturated: from there "
            "on producers and consumers compete with the copy. A replication throttle keeps them apart.",
            chart(charts.resources_chart(document), "resources"),
        ),
        section("Last replicas to join", "Where the time goes: these decide when it is over.", _slowest(document)),
    ]
    return sections


def _answer(outcome: Outcome) -> str:
    if outcome.moves == 0:
        return '<p class="answer">Nothing moves.</p>'
    copied = f"{size(outcome.leader_bytes)} are copied from leaders."
    if outcome.never_join == 0 and outcome.moves == 1:
        return f'<p class="answer">The replica is in sync after <b>{duration(outcome.duration_s)}</b>. {copied}</p>'
    replicas = count(outcome.moves, "replica")
    if outcome.never_join == 0:
        return (
            f'<p class="answer">All {replicas} are in sync after <b>{duration(outcome.duration_s)}</b>; half of them '
            f"after {duration(outcome.median_join_s)}. {copied}</p>"
        )
    why = "; ".join(f"{number:,}: {escape(text)}" for text, number in outcome.obstacles.items())
    join = "joins" if outcome.never_join == 1 else "join"
    return f'<p class="answer bad"><b>{outcome.never_join:,} of {replicas} never {join}</b> ({why}).</p>'


def _tiles(outcome: Outcome) -> list[Tile]:
    minutes = f"{NEVER} ends" if outcome.urp_minutes is None else f"{outcome.urp_minutes:,.1f}"
    found = [
        ("until every replica is in sync", duration(outcome.duration_s), f"95 %: {duration(outcome.p95_join_s)}"),
        ("copied from leaders", size(outcome.leader_bytes), f"{size(outcome.catch_up_bytes)} of it written meanwhile"),
        ("URP-minutes", minutes, "partitions under-replicated times minutes"),
        ("below min ISR", duration(outcome.below_min_isr_longest_s), "the longest of any partition"),
        ("requests to the tier", f"{outcome.tier_gets:,}", f"{size(outcome.tier_bytes)} read"),
        ("cost of requests and egress", f"{outcome.request_cost + outcome.egress_cost:,.4f}", "inventory's currency"),
        ("only in the tier afterwards", size(outcome.thin_bytes), _warmer_note(outcome)),
    ]
    if outcome.headroom is not None:
        note = f"broker {outcome.headroom.broker} at the worst moment; before: {share(outcome.headroom.before)}"
        found.append(("producers may grow by", share(outcome.headroom.during), note))
    return found


def _warmer_note(outcome: Outcome) -> str:
    if outcome.system == "kafka" or not outcome.warming_s:
        return "on leaders' disks, not on the new replicas'"
    return f"the background warmer would take {duration(outcome.warming_s)}"


def _others(document: ModelDocument) -> str:
    shown = min(charts.TRAFFIC_SHOWN, len(document.traffic.brokers))
    more = len(document.traffic.brokers) + document.traffic.others_count - shown
    return f"The {shown} busiest brokers; {more:,} more take part." if more else ""


def _policies(document: ModelDocument) -> str:
    rows = [(outcome.policy, escape(_POLICIES[outcome.policy])) for outcome in document.outcomes]
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{text}</dd>" for name, text in rows) + "</dl>"


def _slowest(document: ModelDocument) -> str:
    rest = document.moves[MOVES_SHOWN:MOVES_MAX]
    if not rest:
        return _replicas(document.moves)
    left_out = len(document.moves) - MOVES_MAX
    note = f"<p>{left_out:,} more, which joined before these, are in --json only.</p>" if left_out > 0 else ""
    more = f"<details><summary>{len(rest):,} more</summary>{_replicas(rest)}{note}</details>"
    return _replicas(document.moves[:MOVES_SHOWN]) + more


def _replicas(moves: Sequence[MoveRow]) -> str:
    head = "".join(f"<th>{heading}</th>" for heading in MOVE_HEADINGS)
    return f"<table><tr>{head}</tr>{''.join(map(_row, moves))}</table>"


def _row(row: MoveRow) -> str:
    kind = ' class="bad"' if row.joined_s is None else ""
    return f"<tr{kind}>" + "".join(f"<td>{escape(cell)}</td>" for cell in move_cells(row)) + "</tr>"


def _assumptions(outcome: Outcome) -> str:
    rows = [*_ASSUMPTIONS, f"Fixed times and rates of {outcome.system}: {outcome.calibration}."]
    return (
        "<section><h2>What the figures rest on</h2><ul>"
        + "".join(f"<li>{escape(text)}</li>" for text in rows)
        + "</ul></section>"
    )
