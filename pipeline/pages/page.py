"""A report as one HTML file that needs nothing else: no network, no second file; made to be printed too.

A page is a title, a verdict, figures in tiles and sections; what comes from a tier is escaped here and nowhere else.
`Markup` is what has been made here and is not escaped again.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

_SHORT_MAX: Final = 32
"""Characters of a text that stands on one line."""
_FIGURE: Final = re.compile(r"[\d,]+(?:\.\d+)?(?:%| (?:B|[KMGT]iB|s|min|h|days)(?:/s)?)|[\d,]+\.\d+")
"""12.7 MiB, 94%, 55 B/s, 2.5; what else begins with a digit may be a name."""
Tone = Literal["good", "bad", "warn", "plain"]

_STYLE: Final = """
:root { color-scheme: light; --text: #1b1f24; --quiet: #59636e; --line: #d1d9e0; --soft: #f6f8fa; --good: #1a7f37;
  --bad: #cf222e; --warn: #9a6700; --accent: #0969da; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 80rem; padding: 2rem 1.5rem 4rem; color: var(--text); background: #fff;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "Liberation Sans", sans-serif; }
h1 { font-size: 1.7rem; margin: 0 0 .2rem; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .5rem; }
p { margin: .4rem 0; max-width: 60rem; } .quiet { color: var(--quiet); }
.verdict { border-left: .4rem solid var(--tone); background: var(--soft); padding: .8rem 1rem; margin: 1.2rem 0;
  font-size: 1.1rem; }
.verdict p { margin: 0; } .good { --tone: var(--good); } .bad { --tone: var(--bad); } .warn { --tone: var(--warn); }
.plain { --tone: var(--accent); }
.tiles { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1rem 0; }
.tile { border: 1px solid var(--line); border-radius: .5rem; padding: .6rem 1rem; min-width: 8.5rem; }
.tile b { display: block; font-size: 1.45rem; font-weight: 600; } .tile span { color: var(--quiet); font-size: .9rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; }
th { text-align: left; color: var(--quiet); font-weight: 600; border-bottom: 2px solid var(--line); }
td { border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere; }
th, td { padding: .35rem .55rem; } td.short, td.right { white-space: nowrap; } td:first-child { min-width: 8rem; }
.right { text-align: right; font-variant-numeric: tabular-nums; }
.mark { color: var(--tone); font-weight: 600; white-space: nowrap; }
svg { display: block; width: 100%; height: auto; } code { font-size: .9em; }
@media print { body { max-width: none; padding: 0; } h2 { break-after: avoid; } tr, .tile { break-inside: avoid; } }
"""


@dataclass(frozen=True, slots=True)
class Markup:
    """HTML that is right as it stands."""

    html: str


Cell = str | int | Markup


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure that is seen at once, and what it counts."""

    value: str
    label: str


def page(title: str, lead: str, parts: Iterable[Markup]) -> str:
    """The whole document."""
    body = "\n".join(part.html for part in parts)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{_text(title)}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{_text(title)}</h1>\n"
        f'<p class="quiet">{_text(lead)}</p>\n{body}\n</body>\n</html>\n'
    )


def verdict(text: str, tone: Tone, *more: str) -> Markup:
    """A box with a line for each text."""
    lines = "".join(f"<p>{_text(line)}</p>" for line in (text, *more))
    return Markup(f'<div class="verdict {tone}">{lines}</div>')


def tiles(found: Iterable[Tile]) -> Markup:
    inner = "".join(
        f'<div class="tile"><b>{_text(tile.value)}</b><span>{_text(tile.label)}</span></div>' for tile in found
    )
    return Markup(f'<div class="tiles">{inner}</div>')


def section(heading: str, *parts: Markup) -> Markup:
    return Markup(f"<h2>{_text(heading)}</h2>\n" + "\n".join(part.html for part in parts))


def paragraph(text: str) -> Markup:
    return Markup(f"<p>{_text(text)}</p>")


def mark(text: str, tone: Tone) -> Markup:
    """A word in the colour of its meaning, for a cell."""
    return Markup(f'<span class="mark {tone}">{_text(text)}</span>')


def table(headings: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Markup:
    """Numbers are grouped; they stand right, with or without a unit, and so does all of their columns."""
    listed = [list(row) for row in rows]
    numeric = [any(_is_number(row[index]) for row in listed) for index in range(len(headings))]
    head = "".join(f"<th{_right(flag)}>{_text(name)}</th>" for name, flag in zip(headings, numeric, strict=True))
    body = "\n".join(
        "<tr>" + "".join(_cell(cell, flag) for cell, flag in zip(row, numeric, strict=True)) + "</tr>" for row in listed
    )
    return Markup(f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>')


def percent(share: float) -> str:
    """Return a share as a percentage, with a decimal if it is small."""
    return f"{share:.1%}" if share < 0.1 else f"{share:.0%}"


def moment(timestamp_ms: int) -> str:
    """In UTC, to the second; a dash where it is not known."""
    if timestamp_ms < 0:
        return "–"
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _is_number(cell: Cell) -> bool:
    return isinstance(cell, int) or (isinstance(cell, str) and _FIGURE.fullmatch(cell) is not None)


def _cell(cell: Cell, is_numeric: bool) -> str:
    if isinstance(cell, Markup):
        return f"<td>{cell.html}</td>"
    if isinstance(cell, int):
        return f'<td class="right">{cell:,}</td>'
    kind = "right" if is_numeric else "short" if len(cell) <= _SHORT_MAX else ""
    return f'<td class="{kind}">{_text(cell)}</td>'


def _right(flag: bool) -> str:
    return ' class="right"' if flag else ""


def _text(text: str) -> str:
    return html.escape(text)
