"""A sweep as one SVG picture, for a document: how long replacements take by cluster size, and how much is saved.

Nothing but text goes into it, so that it may be kept under version control. The page of `--html` says more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from ...light_dataclass import dataclass
from .sweep_page import duration
from .sweep_report import CLAIM_HIGH, CLAIM_LOW, Group, Pair, SweepReport

WIDTH, HEIGHT = 1080, 460
TOP, BOTTOM = 70, 400
WITHOUT, WITH, GRID, TEXT = "#e07a1f", "#2a6f97", "#e2e8f0", "#334155"
CURVES: Final = ("#2a6f97", "#4d9078", "#b23a48")
TICKS_S: Final = (1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400)
TICK_NAMES: Final = ("1 s", "10 s", "1 min", "10 min", "1 h", "6 h", "1 d", "7 d", "30 d")


@dataclass(frozen=True, slots=True)
class _Scale:
    """From values to pixels."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + min(1.0, max(0.0, share)) * (self.end - self.start), 1)


def sweep_picture(found: SweepReport) -> str:
    """The SVG document."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            'font-family="Helvetica, Arial, sans-serif" font-size="14">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
            *_times(found, 80, 600),
            *_ratios(found, 690, 1050),
            "</svg>\n",
        ]
    )


def _text(x: float, y: float, text: str, *, anchor: str = "middle", color: str = TEXT, weight: str = "normal") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{color}" font-weight="{weight}">{escape(text)}</text>'


def _line(x: float, y: float, to_x: float, to_y: float, color: str, width: float = 1, opacity: float = 1) -> str:
    return (
        f'<line x1="{x}" y1="{y}" x2="{to_x}" y2="{to_y}" stroke="{color}" stroke-width="{width}" '
        f'stroke-opacity="{opacity}" stroke-linecap="round"/>'
    )


# --- how long -------------------------------------------------------------------------------------------------------


def _times(found: SweepReport, left: float, right: float) -> Iterator[str]:
    """Draw two bars for each size, from the tenth to the ninetieth of a hundred clusters, with a dot at the median."""
    yield _text(
        (left + right) / 2, 24, f"Until the last replica is in sync, {found.whole.clusters:,} clusters", weight="bold"
    )
    yield from _legend(left)
    seconds = [
        each
        for group in found.by_size
        for spread in (group.before_s, group.after_s)
        for each in (spread.p10, spread.p90)
    ]
    scale = _Scale(math.log10(max(0.5, min(seconds))) - 0.1, math.log10(max(seconds)) + 0.1, BOTTOM, TOP)
    for tick_s, name in zip(TICKS_S, TICK_NAMES, strict=True):
        if scale.low <= math.log10(tick_s) <= scale.high:
            y = scale.at(math.log10(tick_s))
            yield _line(left, y, right, y, GRID)
            yield _text(left - 8, y + 5, name, anchor="end")
    step = (right - left) / len(found.by_size)
    for number, group in enumerate(found.by_size):
        yield from _bars(group, left + (number + 0.5) * step, step, scale)
    yield _text((left + right) / 2, BOTTOM + 46, "brokers of the cluster")


def _legend(left: float) -> Iterator[str]:
    for number, (color, name) in enumerate(((WITHOUT, "without"), (WITH, "with the last-tiered offset (KIP-1023)"))):
        x = left + number * 110
        yield _line(x, 46, x + 24, 46, color, 8)
        yield _text(x + 34, 51, name, anchor="start")


def _bars(group: Group, x: float, step: float, scale: _Scale) -> Iterator[str]:
    yield _text(x, BOTTOM + 22, group.name.removesuffix(" brokers"))
    for offset, spread, color in ((-step / 7, group.before_s, WITHOUT), (step / 7, group.after_s, WITH)):
        low, middle, high = (scale.at(math.log10(max(0.5, each))) for each in (spread.p10, spread.p50, spread.p90))
        at = round(x + offset, 1)
        yield _line(at, low, at, high, color, 9, 0.45)
        yield f'<circle cx="{at}" cy="{middle}" r="5.5" fill="{color}"><title>{duration(spread.p50)}</title></circle>'


# --- how much is saved ----------------------------------------------------------------------------------------------


def _ratios(found: SweepReport, left: float, right: float) -> Iterator[str]:
    """Which share of the clusters is at or below each ratio of the times, by how much of the cluster is tiered."""
    yield _text((left + right) / 2, 24, "Time with, in parts of the time without", weight="bold")
    across, up = _Scale(0, 1, left, right), _Scale(0, 1, BOTTOM, TOP)
    claim = across.at(CLAIM_LOW)
    width = round(across.at(CLAIM_HIGH) - claim, 1)
    yield f'<rect x="{claim}" y="{TOP}" width="{width}" height="{BOTTOM - TOP}" fill="#54a24b" fill-opacity="0.25"/>'
    yield _text(claim + width / 2, TOP - 8, "the claim", color="#3d7a36")
    for tenths in range(0, 11, 2):
        share = tenths / 10
        yield _line(left, up.at(share), right, up.at(share), GRID)
        yield _text(left - 8, up.at(share) + 5, f"{share:.0%}", anchor="end")
        yield _text(across.at(share), BOTTOM + 22, f"{share:.0%}")
    yield _text((left + right) / 2, BOTTOM + 46, "share of the clusters (upwards) at or below")
    shares = sorted({pair.tiered_share for pair in found.pairs}, reverse=True)
    for number, (tiered, color) in enumerate(zip(shares, CURVES, strict=False)):
        ratios = _sorted_ratios([pair for pair in found.pairs if pair.tiered_share == tiered])
        yield _curve(ratios, across, up, color)
        y = BOTTOM - 48 + number * 18
        yield _line(right - 180, y - 5, right - 165, y - 5, color, 3)
        yield _text(right - 157, y, f"{tiered:.0%} of partitions tiered", anchor="start")


def _sorted_ratios(pairs: Sequence[Pair]) -> list[float]:
    return sorted(pair.time_ratio for pair in pairs if pair.time_ratio is not None)


def _curve(ratios: Sequence[float], across: _Scale, up: _Scale, color: str, points_max: int = 100) -> str:
    step = max(1, len(ratios) // points_max)
    kept = [(ratio, (place + 1) / len(ratios)) for place, ratio in enumerate(ratios)][::step]
    points = " ".join(f"{across.at(ratio)},{up.at(share)}" for ratio, share in [*kept, (1.0, 1.0)])
    return f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2.5"/>'
