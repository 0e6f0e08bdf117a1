"""Seconds, shares and counts as people read them; bytes: `byte_text`."""

from __future__ import annotations

import math

NEVER = "never"
COST_DIGITS = 2
COST_DECIMALS_MAX = 9


def duration(seconds: float | None) -> str:
    """Two units at most: "none", "0.42 s", "4 min 07 s", "3 h 20 min", "2 d 4 h"; None or infinite: "never"."""
    if seconds is None or not math.isfinite(seconds):
        return NEVER
    if seconds == 0:
        return "none"
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 48 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def between(low: float | None, high: float | None) -> str:
    """ "3 min 41 s to 4 min 58 s"; one figure where both are the same."""
    first, last = duration(low), duration(high)
    return first if first == last else f"{first} to {last}"


def share(value: float | None) -> str:
    """0.25: "25 %"; None or infinite: "any"."""
    if value is None or not math.isfinite(value):
        return "any"
    return f"{value:.0%}".replace("%", " %")


def cost(value: float) -> str:
    """Two digits that count, whatever the size: "0.0000020", "0.35", "1,234"; "0" for nothing."""
    if value <= 0:
        return "0"
    decimals = max(0, COST_DIGITS - 1 - math.floor(math.log10(value)))
    return f"{value:,.{decimals}f}" if decimals <= COST_DECIMALS_MAX else f"below 0.{'0' * (COST_DECIMALS_MAX - 1)}1"


def count(number: int, noun: str) -> str:
    """ "1 partition", "2,000 partitions"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def clause(number: int, noun: str, singular: str, plural: str) -> str:
    """ "1 partition is", "2 partitions are"."""
    return f"{count(number, noun)} {singular if number == 1 else plural}"
