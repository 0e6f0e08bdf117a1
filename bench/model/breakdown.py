"""Where a measured time went, in the same rows as a prediction's. Pure.

    row                   predicted: causes             measured: from, to; less what is named apart inside of it
    --------------------  ----------------------------  --------------------------------------------------------------
    process start         DOWN, START                   start of the process, its first line; metadata read, first
                                                        question to a leader
    metadata replay       REPLAY                        it asks the controllers, it has their metadata
    waiting for a slot    WAITING                       first order of the plan, order of this move
    beginning a wave      BEGIN                         order of this move, first question to a leader; of the whole
                                                        also what is between two waves
    setting up            SETUP                         first question of any replica, this one's start is settled
    tier                  TIER                          what of that it waited for the tier (its own metric)
    leader and its link   FETCHES, LEADER_*,            settled, in the ISR, less the two below
                          *_LINK, ISR
    follower's disk       FOLLOWER_DISK, FOLLOWER_CPU   what it waited for its disk to take records (its own metric)
    throttle              THROTTLE                      how long the throttle held it back (its own metric)
    other                 -                             everything that no line, metric or look shows

A replica's `Trace` has what was seen of it; None is what was not, and then the time from the last instant that was
seen to the next one is `other`. So rows always add up to the time that was measured from outside. Apache Kafka's
brokers have no such metrics here, and their lines say no more than set-up: its copying is `other`.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, TypeVar

from tierfetch.model import Cause


class Row(StrEnum):
    """See the module."""

    START = "process start"
    REPLAY = "metadata replay"
    SLOT = "waiting for a slot"
    BEGIN = "beginning a wave"
    SETUP = "setting up"
    TIER = "tier"
    LEADER = "leader and its link"
    DISK = "follower's disk"
    THROTTLE = "throttle"
    OTHER = "other"


Step = TypeVar("Step")

_ROWS: Final[Mapping[Cause, Row]] = {
    Cause.WAITING: Row.SLOT,
    Cause.DOWN: Row.START,
    Cause.START: Row.START,
    Cause.REPLAY: Row.REPLAY,
    Cause.SETUP: Row.SETUP,
    Cause.TIER: Row.TIER,
    Cause.FOLLOWER_DISK: Row.DISK,
    Cause.FOLLOWER_CPU: Row.DISK,
    Cause.THROTTLE: Row.THROTTLE,
    Cause.BEGIN: Row.BEGIN,
}
_BY_TEXT: Final = {cause.text: _ROWS.get(cause, Row.LEADER) for cause in Cause}


def predicted_rows(seconds: Mapping[str, float]) -> dict[Row, float]:
    """Return a prediction's seconds, which have the texts of their causes, by row."""
    found: dict[Row, float] = {}
    for text, value in seconds.items():
        row = _BY_TEXT.get(text, Row.OTHER)
        found[row] = found.get(row, 0.0) + value
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What was seen of one replica, in unix seconds, and for how long it waited; None was not seen.

    `up_s` and `replayed_s` are of its broker's start, where that is part of it; `asked_s` of the first replica of its
    broker, or of its wave there.
    """

    up_s: float | None = None
    replayed_s: float | None = None
    ordered_s: float | None = None
    asked_s: float | None = None
    settled_s: float | None = None
    joined_s: float
    tier_s: float | None = None
    throttle_s: float | None = None
    append_s: float | None = None


def replaced_rows(trace: Trace, began_s: float, ended_s: float) -> dict[Row, float]:
    """Return where the time of a replica of a replaced broker went, from its process's start to the last look."""
    steps = [
        (Row.START, trace.up_s),
        (Row.REPLAY, trace.replayed_s),
        (Row.START, trace.asked_s),
        (Row.SETUP, trace.settled_s),
        (Row.LEADER, trace.joined_s),
    ]
    return _told_apart(trace, _walked(steps, began_s, ended_s))


def moved_rows(trace: Trace, began_s: float, *, waited: Row = Row.SLOT) -> dict[Row, float]:
    """Return where the time of a replica that a plan moved went; what passed until its order is `waited`."""
    steps = [
        (waited, trace.ordered_s),
        (Row.BEGIN, trace.asked_s),
        (Row.SETUP, trace.settled_s),
        (Row.LEADER, trace.joined_s),
    ]
    return _told_apart(trace, _walked(steps, began_s, trace.joined_s))


def whole_rows(last_of_waves: Sequence[Trace], began_s: float) -> dict[Row, float]:
    """Return where the time of a plan went: of the last replica of each wave, one wave after the other."""
    found: dict[Row, float] = {}
    for trace in last_of_waves:
        for row, seconds in moved_rows(trace, began_s, waited=Row.BEGIN).items():
            found[row] = found.get(row, 0.0) + seconds
        began_s = max(began_s, trace.joined_s)
    return found


def medians(of_runs: Sequence[Mapping[str, float]]) -> dict[Row, float]:
    """Return the median of each row over the runs; what a run does not have took it no time."""
    found = {row: statistics.median(run.get(row.value, 0.0) for run in of_runs) for row in Row}
    return {row: seconds for row, seconds in found.items() if seconds > 0}


@dataclass(frozen=True, slots=True)
class Span(Generic[Step]):
    """From one instant to the next."""

    step: Step
    from_s: float
    until_s: float


def spans(
    steps: Sequence[tuple[Step, float | None]], began_s: float, ended_s: float, hidden: Step
) -> Iterator[Span[Step]]:
    """Yield what lay between one instant and the next, without a gap. What was not seen hides what comes up to the next
    instant (`hidden`); an instant that is said to be before the last one (clocks are read by several processes) is at
    that one.
    """
    at_s, is_hidden = began_s, False
    for step, until_s in steps:
        if until_s is None:
            is_hidden = True
            continue
        until_s = min(max(until_s, at_s), ended_s)
        yield Span(hidden if is_hidden else step, at_s, until_s)
        at_s, is_hidden = until_s, False
    yield Span(hidden, at_s, ended_s)


def _walked(steps: Sequence[tuple[Row, float | None]], began_s: float, ended_s: float) -> dict[Row, float]:
    found: dict[Row, float] = {}
    for span in spans(steps, began_s, ended_s, Row.OTHER):
        _add(found, span.step, span.until_s - span.from_s)
    return found


def _told_apart(trace: Trace, found: dict[Row, float]) -> dict[Row, float]:
    """Take out of set-up and copying what the replica's own metrics say."""
    _move(found, Row.SETUP, Row.TIER, trace.tier_s)
    if trace.throttle_s is None or trace.append_s is None:
        _move(found, Row.LEADER, Row.OTHER, found.get(Row.LEADER, 0.0))
    else:
        _move(found, Row.LEADER, Row.THROTTLE, trace.throttle_s)
        _move(found, Row.LEADER, Row.DISK, trace.append_s)
    return {row: seconds for row, seconds in found.items() if seconds > 0}


def _move(found: dict[Row, float], source: Row, target: Row, seconds: float | None) -> None:
    """At most what there is."""
    moved = min(seconds or 0.0, found.get(source, 0.0))
    _add(found, source, -moved)
    _add(found, target, moved)


def _add(found: dict[Row, float], row: Row, seconds: float) -> None:
    found[row] = found.get(row, 0.0) + seconds
