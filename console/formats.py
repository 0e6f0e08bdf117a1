"""Values as the templates show them. Names come from any client that may create a topic or join a group.

Style sheet and colours are those of all pages. A Content-Security-Policy without inline styles has colours as classes:
`look-3` is the fourth of `pages.LOOKS`.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from ..byte_text import size
from ..light_dataclass import dataclass
from ..pages import LOOKS, STYLE, policy_look, spans_decades, topic_looks
from .core.replicas import PartKind, ReplicaBar, Sign
from .core.state import Prediction
from .pages import View

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
    Sign.UNREACHABLE: "?",
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
    """Return date and time in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def moment(seconds: float) -> str:
    """Return date and time in UTC, as `datetime` has them."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


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
    "moment": moment,
    "bar_text": bar_text,
    "glyph": lambda sign: GLYPHS[sign],
}

SHARED_STYLE: Final = STYLE + "\n".join(
    f".look-{number} {{ fill: {look.color}; }}" for number, look in enumerate(LOOKS)
)


@dataclass(frozen=True, slots=True)
class Scale:
    """How the durations of policies are drawn: the share of the width and the look of each, and the kind of axis."""

    shares: Mapping[str, float]
    looks: Mapping[str, int]
    is_log: bool


def look_numbers(view: View) -> Mapping[str, int]:
    """Return the number of the look of each topic on the page."""
    names = [topic.name for topic in view.topics.rows] if view.topics is not None else []
    names += [row.partition.topic for row in view.partitions.rows] if view.partitions is not None else []
    return {name: LOOKS.index(look) for name, look in topic_looks(names).items()}


def durations_scale(prediction: Prediction | None) -> Scale | None:
    """Return how to draw the durations; logarithmic where they span decades. None where there is nothing to compare."""
    if prediction is None or len(prediction.seconds) < 2 or max(prediction.seconds.values()) <= 0:
        return None
    seconds = prediction.seconds
    is_log = spans_decades(list(seconds.values()))
    longest = max(seconds.values())
    least = min(value for value in seconds.values() if value > 0) / 2

    def share(value: float) -> float:
        if value <= 0:
            return 0.0
        return math.log(value / least) / math.log(longest / least) if is_log else value / longest

    looks = {policy: LOOKS.index(policy_look(policy)) for policy in seconds}
    return Scale({policy: share(value) for policy, value in seconds.items()}, looks, is_log)
