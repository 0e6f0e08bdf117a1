"""A report as one HTML file that needs nothing else: no network, no second file; made to be printed too.

A page is a title, the verdict, how it was made, figures in tiles and sections. What comes from outside is escaped here
and in `charts`, nowhere else. `Markup` is what has been made here and is not escaped again.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, Literal

from ..light_dataclass import dataclass
from .made import Made
from .style import STYLE

_SHORT_MAX: Final = 32
"""Characters of a text that stands on one line."""
_FIGURE: Final = re.compile(r"[\d,]+(?:\.\d+)?(?:%| (?:B|[KMGT]iB|s|min|h|days)(?:/s)?)|[\d,]+\.\d+")
"""12.7 MiB, 94%, 55 B/s, 2.5; what else begins with a digit may be a name."""
Tone = Literal["good", "bad", "warn", "plain"]


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


def page(title: str, answer: Markup, lead: Markup, parts: Iterable[Markup], made: Made) -> str:
    """Return the whole document: title, answer, lead, how it was made, the parts."""
    body = "\n".join(part.html for part in parts)
    when = made.at.astimezone(UTC)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{_text(title)}</title>\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{_text(title)}</h1>\n{answer.html}\n{lead.html}\n"
        f'<p class="quiet made"><time datetime="{when:%Y-%m-%dT%H:%M:%SZ}">{when:%Y-%m-%d %H:%M} UTC</time> · '
        f"tierfetch {_text(made.version)} · <code>{_text(made.command)}</code></p>\n</header>\n"
        f"<main>\n{body}\n</main>\n</body>\n</html>\n"
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
    inner = "\n".join(part.html for part in parts)
    return Markup(f"<section>\n<h2>{_text(heading)}</h2>\n{inner}\n</section>")


def paragraph(text: str) -> Markup:
    return Markup(f"<p>{_text(text)}</p>")


def quiet(text: str) -> Markup:
    """A paragraph that stands back."""
    return Markup(f'<p class="quiet">{_text(text)}</p>')


def bullets(texts: Iterable[str]) -> Markup:
    return Markup("<ul>" + "".join(f"<li>{_text(text)}</li>" for text in texts) + "</ul>")


def glossary(words: Iterable[tuple[str, str]]) -> Markup:
    """Words, each with its meaning."""
    inner = "".join(f"<dt>{_text(word)}</dt><dd>{_text(text)}</dd>" for word, text in words)
    return Markup(f"<dl>{inner}</dl>")


def folded(summary: str, *parts: Markup) -> Markup:
    """What is shown when its summary is opened."""
    inner = "".join(part.html for part in parts)
    return Markup(f"<details><summary>{_text(summary)}</summary>{inner}</details>")


def mark(text: str, tone: Tone) -> Markup:
    """A word in the colour of its meaning, for a cell."""
    return Markup(f'<span class="mark {tone}">{_text(text)}</span>')


def table(headings: Sequence[str], rows: Iterable[Sequence[Cell]], *, caption: str = "") -> Markup:
    """Numbers are grouped; they stand right, with or without a unit, and so does all of their columns.

    A table that is wider than the page scrolls, with the keyboard too.
    """
    listed = [list(row) for row in rows]
    numeric = [any(_is_number(row[index]) for row in listed) for index in range(len(headings))]
    head = "".join(
        f'<th scope="col"{_right(flag)}>{_text(name)}</th>' for name, flag in zip(headings, numeric, strict=True)
    )
    body = "\n".join(
        "<tr>" + "".join(_cell(cell, flag) for cell, flag in zip(row, numeric, strict=True)) + "</tr>" for row in listed
    )
    label = _text(caption or f"Table: {', '.join(filter(None, headings))}")
    title = f"<caption>{_text(caption)}</caption>" if caption else ""
    return Markup(
        f'<div class="wide" role="region" tabindex="0" aria-label="{label}"><table>{title}<thead><tr>{head}</tr>'
        f"</thead><tbody>\n{body}\n</tbody></table></div>"
    )


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
