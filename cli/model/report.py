"""The report of a replacement or a rebalance: what is said where. Charts come from `charts`, the frame from `page`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ...byte_text import size
from ...extras import needing
from ...pages import (
    Cell,
    Made,
    Markup,
    Tile,
    bullets,
    folded,
    glossary,
    mark,
    paragraph,
    quiet,
    section,
    table,
    tiles,
    verdict,
)
from ..options import write_text
from . import charts
from .document import ModelDocument, MoveRow, Outcome
from .page import whole_page
from .quantities import NEVER, between, cost, count, duration, share
from .tables import MOVE_HEADINGS, move_cells, range_text, within

MOVES_SHOWN: Final = 15
MOVES_MAX: Final = 500
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
    write_text(path, report_page(document, Made.now()))


def report_page(document: ModelDocument, made: Made) -> str:
    """Return the whole file. The first outcome is the one asked for, the others stand beside it. MissingExtraError.

    `compare` answers which policy is best, and begins with all of them; the others begin with what was asked for.
    """
    outcome = document.outcomes[0]
    is_comparison = document.command == "compare" and outcome.moves > 0
    answer = _comparison(document) if is_comparison else _answer(outcome)
    with needing("model"):
        sections = _sections(document, outcome) if outcome.moves else []
        policies = [_policies(document)] if outcome.moves and len(document.outcomes) > 1 else []
    figures = _figures(outcome)
    parts = [*policies, figures, *sections] if is_comparison else [figures, *sections[:1], *policies, *sections[1:]]
    return whole_page(
        document.scenario, answer, document.cluster, [*parts, _assumptions(outcome)], document.warnings, made
    )


def _sections(document: ModelDocument, outcome: Outcome) -> list[Markup]:
    return [
        section(
            "How it goes",
            quiet(
                "Each line falls by one when a partition has its replica back (or a moved replica is in sync). "
                f"The thick line is the policy that was asked for, {outcome.policy}; in 80 % of the cases it runs "
                "inside its band."
            ),
            charts.progress_chart(document),
        ),
        section(
            "Network traffic of the moves",
            quiet(f"Mean rates of copying under {outcome.policy}, without what clients do. " + _others(document)),
            *charts.traffic_charts(document),
        ),
        section(
            "What gets full",
            quiet(
                "Each resource at the moment when copying took most of it. At the dotted line it is saturated: from "
                "there on producers and consumers compete with the copy. A replication throttle keeps them apart."
            ),
            charts.resources_chart(document),
        ),
        *([_where(outcome)] if outcome.seconds else []),
        *([_how_sure(outcome)] if outcome.inputs else []),
        section(
            "Last replicas to join", quiet("Where the time goes: these decide when it is over."), *_slowest(document)
        ),
    ]


def _where(outcome: Outcome) -> Markup:
    text = (
        "Seconds of the replica that is in sync last, wave by wave: together they are the time of the whole. A link, "
        "disk, CPU or throttle is named where it is full, so that more of anything else would change nothing."
    )
    return section("Where the time goes", quiet(text), charts.causes_chart(outcome))


def _how_sure(outcome: Outcome) -> Markup:
    text = (
        "What is not known exactly, and the factors by which it may make the time shorter and longer; the first widens "
        "the range most. A range of the inventory is simulated at either end; the others come from calibration."
    )
    rows = [
        (each.name, f"{each.shorter:.2f}", NEVER if each.longer is None else f"{each.longer:.2f}")
        for each in outcome.inputs
    ]
    return section("How sure it is", quiet(text), table(("input", "shorter", "longer"), rows))


def _policies(document: ModelDocument) -> Markup:
    text = (
        "A bootstrap policy decides where a new, empty replica begins to copy. The less it takes from the leader, the "
        "sooner it is in sync."
    )
    words = [(outcome.policy, _POLICIES[outcome.policy]) for outcome in document.outcomes]
    pictures = (charts.times_chart(document), charts.copied_chart(document))
    return section("What the bootstrap policy changes", quiet(text), *pictures, glossary(words))


def _comparison(document: ModelDocument) -> Markup:
    """Which policy is in sync first, and how the others compare with it."""
    able = sorted((each for each in document.outcomes if not each.never_join), key=lambda each: each.duration_s or 0.0)
    if not able:
        return verdict("Under no policy do all replicas join.", "bad", _obstacles(document.outcomes[0]))
    best, slowest = able[0], able[-1]
    said = [f"{best.policy} is in sync first, after {duration(best.duration_s)}. {_copied(best)}"]
    if slowest is not best and best.duration_s and slowest.duration_s:
        times = slowest.duration_s / best.duration_s
        said.append(
            f"{slowest.policy} takes {duration(slowest.duration_s)}, {times:,.1f} times as long. {_copied(slowest)}"
        )
    stuck = [each.policy for each in document.outcomes if each.never_join]
    if stuck:
        said.append(f"Some replicas never join under {', '.join(stuck)}.")
    return verdict(said[0], "warn" if stuck else "good", *said[1:])


def _copied(outcome: Outcome) -> str:
    return f"{size(outcome.leader_bytes)} are copied from leaders."


def _answer(outcome: Outcome) -> Markup:
    if outcome.moves == 0:
        return verdict("Nothing moves.", "plain")
    if outcome.never_join == 0 and outcome.moves == 1:
        text = f"The replica is in sync after {duration(outcome.duration_s)}"
        return verdict(f"{text}{range_text(outcome)}. {_copied(outcome)}", "good")
    replicas = count(outcome.moves, "replica")
    if outcome.never_join == 0:
        text = f"All {replicas} are in sync after {duration(outcome.duration_s)}{range_text(outcome)}"
        return verdict(f"{text}; half of them after {duration(outcome.median_join_s)}. {_copied(outcome)}", "good")
    join = "joins" if outcome.never_join == 1 else "join"
    return verdict(f"{outcome.never_join:,} of {replicas} never {join}.", "bad", _obstacles(outcome))


def _obstacles(outcome: Outcome) -> str:
    return "; ".join(f"{number:,}: {text}" for text, number in outcome.obstacles.items()) + "."


def _figures(outcome: Outcome) -> Markup:
    longest = within(outcome, "below_min_isr_longest_s")
    minutes = f"{NEVER} ends" if outcome.urp_minutes is None else f"{outcome.urp_minutes:,.1f}"
    found = [
        Tile(
            duration(outcome.duration_s),
            f"until every replica is in sync; in 80 % of the cases {_range(outcome)}; 95 % of the replicas:"
            f" {duration(outcome.p95_join_s)}{_in_brackets(within(outcome, 'p95_join_s'))}",
        ),
        Tile(
            size(outcome.leader_bytes), f"copied from leaders, {size(outcome.catch_up_bytes)} of it written meanwhile"
        ),
        Tile(minutes, "URP-minutes: partitions under-replicated times minutes"),
        Tile(
            duration(outcome.below_min_isr_longest_s),
            f"below min ISR, the longest of any partition{_in_brackets(longest)}",
        ),
        Tile(f"{outcome.tier_gets:,}", f"requests to the tier, {size(outcome.tier_bytes)} read"),
        Tile(size(outcome.thin_bytes), f"only in the tier afterwards: {_warmer_note(outcome)}"),
    ]
    if outcome.is_priced:
        price = cost(outcome.request_cost + outcome.egress_cost)
        found.append(Tile(price, "cost of requests and egress, in the inventory's currency"))
    if outcome.headroom is not None:
        note = f"broker {outcome.headroom.broker} at the worst moment; before: {share(outcome.headroom.before)}"
        found.append(Tile(share(outcome.headroom.during), f"producers may grow by, {note}"))
    return section(f"Figures of {outcome.policy}", tiles(found))


def _range(outcome: Outcome) -> str:
    return between(outcome.duration_range.low, outcome.duration_range.high)


def _warmer_note(outcome: Outcome) -> str:
    if outcome.system == "kafka" or not outcome.warming_s:
        return "on leaders' disks, not on the new replicas'"
    return f"the background warmer would take {duration(outcome.warming_s)}{_in_brackets(within(outcome, 'warming_s'))}"


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""


def _others(document: ModelDocument) -> str:
    shown = min(charts.TRAFFIC_SHOWN, len(document.traffic.brokers))
    more = len(document.traffic.brokers) + document.traffic.others_count - shown
    return f"The {shown} busiest brokers; {more:,} more take part." if more else ""


def _slowest(document: ModelDocument) -> list[Markup]:
    first = _replicas(document.moves[:MOVES_SHOWN])
    rest = document.moves[MOVES_SHOWN:MOVES_MAX]
    if not rest:
        return [first]
    left_out = len(document.moves) - MOVES_MAX
    note = [paragraph(f"{left_out:,} more, which joined before these, are in --json only.")] if left_out > 0 else []
    return [first, folded(f"{len(rest):,} more", _replicas(rest), *note)]


def _replicas(moves: Sequence[MoveRow]) -> Markup:
    rows: list[list[Cell]] = []
    for row in moves:
        cells: list[str] = list(move_cells(row))
        rows.append([mark(cells[0], "bad") if row.joined_s is None else cells[0], *cells[1:]])
    return table(tuple(MOVE_HEADINGS), rows)


def _assumptions(outcome: Outcome) -> Markup:
    return section(
        "What the figures rest on",
        bullets([*_ASSUMPTIONS, f"Fixed times and rates of {outcome.system}: {outcome.calibration}."]),
    )
