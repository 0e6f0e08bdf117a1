"""The stylesheet of every page, and the colours and patterns of policies and topics.

A page follows the reader's light or dark setting. Series colours have a contrast of 3:1 or more on both backgrounds. A
colour is never the only sign: each has a dash, a marker and a hatch of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from zlib import crc32

from ..light_dataclass import dataclass

LIGHT_BACKGROUND: Final = "#ffffff"
DARK_BACKGROUND: Final = "#15191e"

STYLE: Final = """
:root { color-scheme: light dark; --back: #ffffff; --text: #1b1f24; --quiet: #59636e; --line: #d1d9e0; --soft: #f6f8fa;
  --good: #1a7f37; --bad: #cf222e; --warn: #9a6700; --accent: #0969da; --sans: system-ui, -apple-system, "Segoe UI",
  "Liberation Sans", sans-serif; }
@media (prefers-color-scheme: dark) { :root { --back: #15191e; --text: #e6edf3; --quiet: #9da7b3; --line: #3a424c;
  --soft: #1e242b; --good: #4ac26b; --bad: #ff7b72; --warn: #d9a520; --accent: #6cb6ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 82rem; padding: 1.5rem 1rem 3rem; color: var(--text); background: var(--back);
  font: 16px/1.5 var(--sans); overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .2rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .5rem; }
p, ul { margin: .4rem 0; max-width: 70ch; }
.quiet, figcaption, caption { color: var(--quiet); }
.made { font-size: .85rem; max-width: none; }
.verdict { border-left: .4rem solid var(--tone); background: var(--soft); padding: .8rem 1rem; margin: .8rem 0;
  font-size: 1.1rem; }
.verdict p { margin: 0; }
.good { --tone: var(--good); } .bad { --tone: var(--bad); } .warn { --tone: var(--warn); }
.plain { --tone: var(--accent); }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: .8rem; margin: 1rem 0; }
.tile { border: 1px solid var(--line); border-radius: .5rem; padding: .6rem .9rem; }
.tile b { display: block; font-size: 1.35rem; font-weight: 600; line-height: 1.3; }
.tile span { display: block; color: var(--quiet); font-size: .88rem; }
.wide { overflow-x: auto; max-width: 100%; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; }
caption { text-align: left; padding: 0 .55rem .2rem; }
th { text-align: left; color: var(--quiet); font-weight: 600; border-bottom: 2px solid var(--line);
  vertical-align: bottom; }
td, tbody th { border-bottom: 1px solid var(--line); vertical-align: top; }
th, td { padding: .35rem .55rem; overflow-wrap: normal; }
td { overflow-wrap: anywhere; min-width: 3rem; } .short, td.right { white-space: nowrap; }
td:first-child { min-width: 7rem; }
.right { text-align: right; font-variant-numeric: tabular-nums; }
.mark { color: var(--tone); font-weight: 600; white-space: nowrap; }
tr.bad td { color: var(--bad); }
figure { margin: .8rem 0; display: grid; gap: .4rem 1.6rem; grid-template-columns: minmax(0, 1fr); align-items: start; }
figcaption { grid-column: 1 / -1; }
svg { display: block; width: 100%; height: auto; stroke-linejoin: round; }
.sound { fill: var(--good); } .damaged { fill: var(--bad); stroke: var(--text); stroke-width: 2; }
.gap { fill: var(--soft); stroke: var(--bad); stroke-width: .5; }
.at-wide { display: none; max-width: 45rem; }
.at-narrow { max-width: 24rem; }
code { font-size: .9em; } summary { cursor: pointer; margin: .5rem 0; color: var(--accent); }
dl { margin: .4rem 0; max-width: 80ch; } dt { font-weight: 600; } dd { margin: 0 0 .5rem; }
@media (min-width: 40rem) { .at-wide { display: block; } .at-narrow { display: none; }
  body { padding: 2rem 1.5rem 4rem; } }
@media (min-width: 70rem) { figure { grid-template-columns: minmax(0, 45rem) minmax(0, 1fr); } }
@media print { body { max-width: none; padding: 0; } h2 { break-after: avoid; }
  tr, .tile, figure { break-inside: avoid; } }
"""


@dataclass(frozen=True, slots=True)
class Look:
    """How one series is drawn: a colour, and what distinguishes it where colours do not."""

    color: str
    dash: str = "-"
    marker: str = "o"
    hatch: str = ""


LOOKS: Final = (
    Look("#3a7fb5"),
    Look("#d1651a", "--", "s", "//"),
    Look("#2f8f63", "-.", "^", "\\\\"),
    Look("#c2527a", ":", "D", "xx"),
    Look("#8069c4", "-", "v", "||"),
    Look("#9a7437", "--", "P", "++"),
    Look("#7a828c", "-.", "X", "--"),
    Look("#a3792b", ":", "*", "/"),
    Look("#1f8d9c", "-", "<", "\\"),
    Look("#d0453e", "--", ">", "x"),
)
"""In the order of use where nothing has a look of its own."""

BEFORE: Final = Look("#7a828c", "-", "o", "")
AFTER: Final = LOOKS[0]
REST: Final = BEFORE
"""What is summed up as one: "all others"."""

_POLICIES: Final = {
    "tier-first": LOOKS[0],
    "bounded-local": LOOKS[8],
    "earliest-pending-upload": LOOKS[2],
    "local-log-start": LOOKS[7],
    "log-start": LOOKS[5],
    "kafka-last-tiered": LOOKS[1],
    "kafka": LOOKS[9],
}


def policy_look(policy: str) -> Look:
    """Return the look of a bootstrap policy, the same on every page; grey for one that is not ours."""
    return _POLICIES.get(policy, LOOKS[6])


def topic_looks(topics: Iterable[str]) -> dict[str, Look]:
    """Return the look of each topic: from its name, so that it is the same on every page, or the next free one."""
    found: dict[str, Look] = {}
    free: list[Look] = []
    for topic in sorted(set(topics)):
        free = free or list(LOOKS)
        wanted = LOOKS[crc32(topic.encode("utf-8", "replace")) % len(LOOKS)]
        found[topic] = wanted if wanted in free else free[0]
        free.remove(found[topic])
    return found


def contrast(color: str, background: str) -> float:
    """Return the contrast of two colours, 1 to 21 (WCAG 2)."""
    darker, lighter = sorted((_luminance(color), _luminance(background)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = [_linear(part) for part in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(part: float) -> float:
    return float(part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)


def shortened(text: str, length: int) -> str:
    """Return the text with its middle left out where it is longer than `length` characters."""
    if len(text) <= length:
        return text
    kept = length - 1
    return f"{text[: kept - kept // 2]}…{text[len(text) - kept // 2 :]}"


def spans_decades(values: Sequence[float]) -> bool:
    """Whether the positive values need a logarithmic axis: the largest is 100 times the smallest or more."""
    positive = [value for value in values if value > 0]
    return bool(positive) and max(positive) >= 100 * min(positive)
