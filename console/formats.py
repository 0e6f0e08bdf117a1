"""Values as the templates show them. Names come from any client that may create a topic or join a group."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from ..byte_text import size
from .core.replicas import PartKind, ReplicaBar, Sign

UNKNOWN: Final = "?"
NAME_MAX: Final = 255
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of characters that are not seen, or that change how their neighbours are: controls, overrides."""
GLYPHS: Final[Mapping[Sign, str]] = {
    Sign.LEADER: "★",
    Sign.IN_SYNC: "✓",
    Sign.THIN: "◔",
    Sign.WARMING: "◑",
    Sign.BOOTSTRAPPING: "↻",
    Sign.CATCHING_UP: "↗",
    Sign.FAILED: "✗",
    Sign.OFFLINE: "∅",
}
PARTS: Final[Mapping[PartKind, str]] = {
    PartKind.REMOTE: "in the tier only",
    PartKind.LOCAL: "on disk",
    PartKind.PENDING: "on disk, pending its copy",
    PartKind.MISSING: "not on this replica",
}


def shown_name(text: str | None, limit: int = NAME_MAX) -> str:
    """Return a name with unseen characters spelled out, and cut where it is too long."""
    if text is None:
        return "-"
    spelled = "".join(f"\\u{ord(each):04x}" if unicodedata.category(each) in _UNSEEN else each for each in text[:limit])
    return spelled + "…" if len(text) > limit else spelled


def number(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def bytes_text(value: int | None) -> str:
    return UNKNOWN if value is None else size(value)


def percent(share: float | None) -> str:
    """0.257: "25 %"; what is not whole is never 100 %, and what is there never 0 %."""
    if share is None:
        return UNKNOWN
    whole = int(share * 100)
    return "<1 %" if whole == 0 and share > 0 else f"{whole} %"


def time_left(seconds: int | None) -> str:
    return "" if seconds is None else f"{timedelta(seconds=seconds)} left"


def clock_time(seconds: float) -> str:
    """Return the time of day in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S UTC")


def bar_text(bar: ReplicaBar) -> str:
    """Return what a bar shows, in words."""
    shares: dict[PartKind, float] = {}
    for part in bar.parts:
        shares[part.kind] = shares.get(part.kind, 0.0) + part.width
    if not shares:
        return f"broker {bar.broker}: not known"
    words = ", ".join(f"{PARTS[kind]} {percent(share)}" for kind, share in shares.items())
    return f"broker {bar.broker}: {'about ' if bar.is_estimate else ''}{words}"


FILTERS: Final[Mapping[str, Callable[..., str]]] = {
    "name": shown_name,
    "number": number,
    "bytes": bytes_text,
    "percent": percent,
    "time_left": time_left,
    "clock": clock_time,
    "bar_text": bar_text,
    "glyph": lambda sign: GLYPHS[sign],
}
