"""The report: one HTML file for somebody who has never seen tierfetch. Charts from `charts`, the page from here."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any, Final

from . import charts
from .document import ModelDocument, MoveRow, Outcome
from .quantities import NEVER, count, duration, rate, share, size

MOVES_SHOWN: Final = 15

_STYLE: Final = """
body { margin: 0; background: #f4f6f8; color: #1f2933; font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto,
  sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 32px 24px 64px; }
h1 { font-size: 28px; line-height: 1.25; margin: 0 0 8px; }
h2 { font-size: 20px; margin: 0 0 4px; }
p { margin: 6px 0 12px; max-width: 78ch; }
section { background: #fff; border: 1px solid #e1e6eb; border-radius: 10px; padding: 22px 26px; margin-top: 22px; }
.answer { font-size: 19px; }
.answer b { color: #2a6f97; }
.bad, .bad b { color: #b23a48; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(200px, 1fr)); gap: 14px; margin-top: 20px; }
.tile { background: #fff; border: 1px solid #e1e6eb; border-radius: 10px; padding: 14px 18px; }
.tile .value { font-size: 24px; font-weight: 650; white-space: nowrap; }
.tile .name { color: #52606d; font-size: 14px; }
.tile .note { color: #7b8794; font-size: 13px; }
.muted { color: #52606d; }
table { border-collapse: collapse; width: 100%; font-size: 14.5px; font-variant-numeric: tabular-nums; }
th { text-align: right; font-weight: 600; color: #52606d; border-bottom: 2px solid #e1e6eb; padding: 6px 10px; }
td { text-align: right; border-bottom: 1px solid #eef1f4; padding: 6px 10px; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 6px 20px; margin: 8px 0 0; }
dt { font-weight: 600; }
dd { margin: 0; color: #323f4b; }
ul { margin: 6px 0; padding-left: 22px; max-width: 82ch; }
"""

_POLICIES: Final = {
    "tier-first": "takes from the leader only what is not in the tier yet, and asks for that before its first fetch",
    "bounded-local": "as tier-first, but keeps a stated amount of tiered data on disk too",
    "earliest-pending-upload": "KIP-1023 as written: as tier-first, but only after the leader refused the first fetch",
    "local-log-start": "copies everything that the leader has on disk (KIP-405)",
    "log-start": "begins at the log start if that is on the leader's disk, else as local-log-start",
    "kafka": "Apache Kafka 4.3.0 as configured by default: copies everything that the leader has on disk",
    "kafka-last-tiered": "Apache Kafka 4.3.0 with follower.fetch.last.tiered.offset.enable: KIP-1023 as shipped",
}

_GLOSSARY: Final = (
    ("in sync", "A replica that has everything its leader has acknowledged: it is in the ISR, and may lead."),
    (
        "under-replicated",
        "A partition with fewer replicas in sync than it should have. Their number times minutes: URP-minutes.",
    ),
    ("below min ISR", "Fewer in sync than min.insync.replicas: producers with acks=all are refused until one joins."),
    (
        "foreground",
        "What clients and healthy replication need: producing, consuming, following, uploading to the tier.",
    ),
    (
        "bulk",
        "What lay on the leader when the new replica asked where to begin; what is written after that is caught up.",
    ),
    (
        "only in the tier",
        "What the leader has on disk and the new replica has not. If that one leads, the tier serves it to readers.",
    ),
)

_ASSUMPTIONS: Final = (
    "Transfers share every NIC, disk, CPU, throttle and rack link max-min fairly: nobody can get more without taking "
    "from somebody who has no more.",
    "The foreground comes first and stays as it is; what is left (at least 5 %) goes to the replicas being built.",
    "All replicas of one broker start to fetch together, once the last of them is set up.",
    "Nothing else fails meanwhile, and no operator changes anything.",
)


def write_report(document: ModelDocument, path: Path) -> None:
    path.write_text(page(document), encoding="utf-8")


def page(document: ModelDocument) -> str:
    """The whole file. The first outcome is the one asked for, the others stand beside it."""
    outcome = document.outcomes[0]
    parts = [
        f"<h1>{escape(document.scenario)}</h1>",
        f'<p class="muted">Predicted by <code>tierfetch model {escape(document.command)}</code> '
        f"for {_cluster(document)}.</p>",
        _answer(outcome),
        _tiles(outcome),
    ]
    if outcome.moves:
        parts += _sections(document, outcome)
    parts.append(_explanations(document, outcome))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(document.scenario)}</title><style>{_STYLE}</style></head>"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _sections(document: ModelDocument, outcome: Outcome) -> list[str]:
    sections = [
        _section(
            "How it goes",
            "Each line falls by one when a partition has its replica back (or a moved replica is in sync). "
            f"The thick line is the policy that was asked for, <b>{escape(outcome.policy)}</b>.",
            _chart(charts.progress_chart(document), "progress", with_library=True),
        )
    ]
    if len(document.outcomes) > 1:
        sections.append(
            _section(
                "What the bootstrap policy changes",
                "A bootstrap policy decides where a new, empty replica begins to copy. The less it takes from the "
                "leader, the sooner it is in sync.",
                _chart(charts.policies_chart(document), "policies") + _policies(document),
            )
        )
    sections += [
        _section(
            "Network traffic of the moves",
            "Mean rates of copying, without what clients do. " + _others(document),
            _chart(charts.traffic_chart(document), "traffic"),
        ),
        _section(
            "What gets full",
            "Each resource at the moment when copying took most of it. At the dotted line it is saturated: from there "
            "on producers and consumers compete with the copy. A replication throttle keeps them apart.",
            _chart(charts.resources_chart(document), "resources"),
        ),
        _section("Last replicas to join", "Where the time goes: these decide when it is over.", _slowest(document)),
    ]
    return sections


def _cluster(document: ModelDocument) -> str:
    cluster = document.cluster
    throttle = rate(cluster.throttle_bytes_per_s) if cluster.throttle_bytes_per_s else "none"
    return (
        f"<b>{escape(cluster.name)}</b>: {count(cluster.brokers, 'broker')} in {count(cluster.racks, 'rack')}, "
        f"{count(cluster.partitions, 'partition')} in {count(cluster.topics, 'topic')}, {size(cluster.local_bytes)} on "
        f"disks, {size(cluster.tiered_bytes)} in the tier, {rate(cluster.produce_bytes_per_s)} produced, replication "
        f"throttle {throttle}"
    )


def _answer(outcome: Outcome) -> str:
    if outcome.moves == 0:
        return '<p class="answer">Nothing moves.</p>'
    replicas = count(outcome.moves, "replica")
    if outcome.never_join == 0:
        return (
            f'<p class="answer">All {replicas} are in sync after <b>{duration(outcome.duration_s)}</b>; half of them '
            f"after {duration(outcome.median_join_s)}. {size(outcome.leader_bytes)} are copied from leaders.</p>"
        )
    why = "; ".join(f"{number:,}: {escape(text)}" for text, number in outcome.obstacles.items())
    return f'<p class="answer bad"><b>{outcome.never_join:,} of {replicas} never join</b> ({why}).</p>'


def _tiles(outcome: Outcome) -> str:
    minutes = f"{NEVER} ends" if outcome.urp_minutes is None else f"{outcome.urp_minutes:,.1f}"
    tiles = [
        ("until every replica is in sync", duration(outcome.duration_s), f"95 %: {duration(outcome.p95_join_s)}"),
        ("copied from leaders", size(outcome.leader_bytes), f"{size(outcome.catch_up_bytes)} of it written meanwhile"),
        ("under-replication", minutes, "partitions x minutes"),
        ("below min ISR", duration(outcome.below_min_isr_longest_s), "the longest of any partition"),
        ("requests to the tier", f"{outcome.tier_gets:,}", f"{size(outcome.tier_bytes)} read"),
        ("only in the tier afterwards", size(outcome.thin_bytes), "on the leaders' disks, not on the new ones"),
    ]
    if outcome.headroom is not None:
        before = share(outcome.headroom.before)
        note = f"on broker {outcome.headroom.broker}, at the worst moment; before: {before}"
        tiles.append(("producers may grow by", share(outcome.headroom.during), note))
    cells = "".join(
        f'<div class="tile"><div class="name">{name}</div><div class="value">{escape(value)}</div>'
        f'<div class="note">{escape(note)}</div></div>'
        for name, value, note in tiles
    )
    return f'<div class="tiles">{cells}</div>'


def _section(title: str, text: str, body: str) -> str:
    return f'<section><h2>{escape(title)}</h2><p class="muted">{text}</p>{body}</section>'


def _chart(figure: Any, name: str, *, with_library: bool = False) -> str:
    html: str = figure.to_html(
        full_html=False,
        include_plotlyjs=with_library,
        div_id=f"chart-{name}",
        config={"displaylogo": False, "responsive": True, "displayModeBar": False},
    )
    return html


def _others(document: ModelDocument) -> str:
    shown = min(charts.TRAFFIC_SHOWN, len(document.traffic.brokers))
    more = len(document.traffic.brokers) + document.traffic.others_count - shown
    return f"The {shown} busiest brokers; {more:,} more take part." if more else ""


def _policies(document: ModelDocument) -> str:
    rows = [(outcome.policy, escape(_POLICIES[outcome.policy])) for outcome in document.outcomes]
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{text}</dd>" for name, text in rows) + "</dl>"


def _slowest(document: ModelDocument) -> str:
    headings = ("partition", "to broker", "wave", "first fetch", "in sync", "bulk", "written meanwhile")
    head = "".join(f"<th>{heading}</th>" for heading in headings)
    rows = "".join(_row(row) for row in document.moves[:MOVES_SHOWN])
    return f"<table><tr>{head}</tr>{rows}</table>"


def _row(row: MoveRow) -> str:
    cells = (
        row.name,
        str(row.to_broker),
        str(row.wave + 1),
        duration(row.first_fetch_s),
        duration(row.joined_s),
        size(row.bulk_bytes),
        size(row.catch_up_bytes),
    )
    kind = ' class="bad"' if row.joined_s is None else ""
    return f"<tr{kind}>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"


def _explanations(document: ModelDocument, outcome: Outcome) -> str:
    words = "".join(f"<dt>{escape(word)}</dt><dd>{escape(text)}</dd>" for word, text in _GLOSSARY)
    assumptions = "".join(f"<li>{escape(text)}</li>" for text in _ASSUMPTIONS)
    warnings = "".join(f"<li>{escape(text)}</li>" for text in document.warnings)
    found = f"<h2>About the inventory</h2><ul>{warnings}</ul>" if warnings else ""
    return (
        f"<section><h2>Words</h2><dl>{words}</dl></section>"
        f"<section><h2>What the figures rest on</h2><ul>{assumptions}"
        f"<li>Fixed times and rates of {escape(outcome.system)}: {escape(outcome.calibration)}</li></ul>{found}"
        "</section>"
    )
