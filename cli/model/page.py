"""The frame of the reports: one HTML file, nothing loaded from elsewhere, for a reader who has never seen tierfetch."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Final

from ...byte_text import rate, size
from .document import ClusterSummary
from .quantities import count

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_STYLE: Final = """
body { margin: 0; background: #f4f6f8; color: #1f2933; font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto,
  sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 32px 24px 64px; }
h1 { font-size: 26px; line-height: 1.25; margin: 0 0 8px; }
h2 { font-size: 20px; margin: 0 0 4px; }
p { margin: 6px 0 12px; max-width: 78ch; }
section { background: #fff; border: 1px solid #e1e6eb; border-radius: 10px; padding: 22px 26px; margin-top: 22px; }
.answer { font-size: 19px; }
.answer b { color: #2a6f97; }
.bad, .bad b { color: #b23a48; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(232px, 1fr)); gap: 14px; margin-top: 20px; }
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
        "What the leader had when the new replica asked where to begin; what is written after that is caught up.",
    ),
    (
        "only in the tier",
        "What the leader has on disk and the new replica has not. If that one leads, the tier serves it to readers.",
    ),
)


Tile = tuple[str, str, str]
"""Name, value, note."""


def whole_page(title: str, command: str, cluster: ClusterSummary, parts: Iterable[str], warnings: list[str]) -> str:
    """The file: title, what was asked of which cluster, the parts, the words explained, what is doubtful."""
    words = "".join(f"<dt>{escape(word)}</dt><dd>{escape(text)}</dd>" for word, text in _GLOSSARY)
    doubts = "".join(f"<li>{escape(text)}</li>" for text in warnings)
    found = f"<section><h2>About the inventory</h2><ul>{doubts}</ul></section>" if warnings else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main><h1>{escape(title)}</h1>"
        f'<p class="muted">Predicted by <code>tierfetch model {escape(command)}</code> for {_cluster(cluster)}.</p>'
        f"{''.join(parts)}<section><h2>Words</h2><dl>{words}</dl></section>{found}</main></body></html>\n"
    )


def section(title: str, text: str, body: str) -> str:
    """`text` and `body` are HTML."""
    return f'<section><h2>{escape(title)}</h2><p class="muted">{text}</p>{body}</section>'


def tiles(values: Iterable[Tile]) -> str:
    """Key figures, side by side."""
    cells = "".join(
        f'<div class="tile"><div class="name">{escape(name)}</div><div class="value">{escape(value)}</div>'
        f'<div class="note">{escape(note)}</div></div>'
        for name, value, note in values
    )
    return f'<div class="tiles">{cells}</div>'


def paragraphs(sentences: Iterable[str]) -> str:
    return "".join(f'<p class="answer">{escape(sentence)}</p>' for sentence in sentences)


def chart(figure: Figure, name: str, *, with_library: bool = False) -> str:
    """A plotly figure; the first of a page brings the library."""
    html: str = figure.to_html(
        full_html=False,
        include_plotlyjs=with_library,
        div_id=f"chart-{name}",
        config={"displaylogo": False, "responsive": True, "displayModeBar": False},
    )
    return html


def _cluster(cluster: ClusterSummary) -> str:
    throttle = rate(cluster.throttle_bytes_per_s) if cluster.throttle_bytes_per_s else "none"
    return (
        f"<b>{escape(cluster.name)}</b>: {count(cluster.brokers, 'broker')} in {count(cluster.racks, 'rack')}, "
        f"{count(cluster.partitions, 'partition')} in {count(cluster.topics, 'topic')}, {size(cluster.local_bytes)} on "
        f"disks, {size(cluster.tiered_bytes)} in the tier, {rate(cluster.produce_bytes_per_s)} produced, replication "
        f"throttle {throttle}"
    )
