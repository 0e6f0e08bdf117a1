"""The charts of the model's pages, each with its table: one function each, from the document alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from ...byte_text import rate, size
from ...pages import (
    AFTER,
    BEFORE,
    LOOKS,
    Bars,
    Lines,
    Markup,
    Series,
    chart,
    plain_number,
    policy_look,
    rows_height,
    table,
)
from .document import BrokerLoad, ModelDocument, Outcome
from .quantities import between, duration, share

TRAFFIC_SHOWN: Final = 6
MIB: Final = 1 << 20
RESOURCES_SHOWN: Final = 12
LOADS_SHOWN: Final = 20
INSTANTS_TABLED: Final = 8
_LOG_FROM: Final = 30.0
"""A time axis is logarithmic if the slowest policy takes so many times as long as the fastest."""


def progress_chart(document: ModelDocument) -> Markup:
    """How many partitions lack a replica (or, where nothing is lost, replicas are still to be built), over time."""
    counts_urp = any(outcome.progress.under_replicated[0] for outcome in document.outcomes)
    what = "partitions under-replicated" if counts_urp else "replicas still to be built"
    ends = [outcome.duration_s for outcome in document.outcomes if outcome.duration_s]
    is_log = bool(ends) and max(ends) > _LOG_FROM * min(ends)
    skipped = int(is_log)
    series = []
    for outcome in document.outcomes:
        progress = outcome.progress
        values = progress.under_replicated if counts_urp else progress.moving
        look, is_first = policy_look(outcome.policy), outcome is document.outcomes[0]
        xs = progress.at_s[skipped:]
        band = _band(outcome, xs) if is_first else None
        series.append(Series(outcome.policy, look, values[skipped:], xs, is_main=is_first, x_band=band))
    rows = [
        (each.policy, duration(each.median_join_s), duration(each.p95_join_s), duration(each.duration_s), _within(each))
        for each in document.outcomes
    ]
    return chart(
        f"{what.capitalize()}, over time",
        f"A falling line for each policy: {what}; the thick line is {document.outcomes[0].policy}",
        Lines(series, "time since the start", what, _instant, plain_number, is_log_x=is_log, is_time=True),
        table(("policy", "half are back", "95 % are", "all are", "in 80 % of the cases"), rows),
        height=400,
    )


def times_chart(document: ModelDocument) -> Markup:
    """The time until every replica is in sync, a bar for each policy, the fastest first."""
    outcomes = _by_time(document)
    minutes = ["–" if each.urp_minutes is None else f"{each.urp_minutes:,.1f}" for each in outcomes]
    labels = [_short_time(each) for each in outcomes]
    return chart(
        "Time until every replica is in sync",
        f"A bar for each of {len(outcomes)} policies, the fastest first",
        _policy_bars(outcomes, [each.duration_s or 0.0 for each in outcomes], labels, "time"),
        table(
            ("policy", "until all are in sync", "in 80 % of the cases", "URP-minutes"),
            [(each.policy, _time_text(each), _within(each), urp) for each, urp in zip(outcomes, minutes, strict=True)],
        ),
        height=rows_height(len(outcomes)),
    )


def copied_chart(document: ModelDocument) -> Markup:
    """What leaders send, a bar for each policy, in the order of `times_chart`."""
    outcomes = _by_time(document)
    labels = [size(each.leader_bytes) for each in outcomes]
    return chart(
        "Copied from leaders",
        f"A bar for each of {len(outcomes)} policies, in the order of the chart of times",
        _policy_bars(outcomes, [each.leader_bytes for each in outcomes], labels, "bytes"),
        table(
            ("policy", "from leaders", "of it written meanwhile", "from the tier"),
            [
                (each.policy, size(each.leader_bytes), size(each.catch_up_bytes), size(each.tier_bytes))
                for each in outcomes
            ],
        ),
        height=rows_height(len(outcomes)),
    )


def _policy_bars(outcomes: Sequence[Outcome], values: list[float], labels: list[str], axis: str) -> Bars:
    return Bars(
        [outcome.policy for outcome in outcomes],
        [Series(axis, LOOKS[0], values)],
        axis,
        duration if axis == "time" else size,
        row_looks=[policy_look(outcome.policy) for outcome in outcomes],
        labels=labels,
        spans=[_span(outcome) for outcome in outcomes] if axis == "time" else (),
    )


def _span(outcome: Outcome) -> tuple[float, float]:
    """The range of the time; nothing where there is no end."""
    found, end = outcome.duration_range, outcome.duration_s or 0.0
    return (end if found.low is None else found.low, end if found.high is None else found.high)


def _band(outcome: Outcome, xs: Sequence[float]) -> tuple[list[float], list[float]] | None:
    """The earliest and the latest instants of a line, in 80 % of the cases; None where the end is not known."""
    found, end = outcome.duration_range, outcome.duration_s
    if not end or found.low is None or found.high is None:
        return None
    return [each * found.low / end for each in xs], [each * found.high / end for each in xs]


def _within(outcome: Outcome) -> str:
    return between(outcome.duration_range.low, outcome.duration_range.high)


def causes_chart(outcome: Outcome) -> Markup:
    """Seconds of the whole by what was waited for, the longest first, and of the last replica beside them."""
    last = {each.cause: each.seconds for each in outcome.last_seconds}
    whole = {each.cause: each.seconds for each in outcome.seconds}
    names = [*whole, *(each for each in last if each not in whole)]
    series = [Series("the whole", LOOKS[0], [whole.get(name, 0.0) for name in names])]
    if last != whole:
        series.append(Series("the last replica", LOOKS[1], [last.get(name, 0.0) for name in names]))
    rows = [(name, duration(whole.get(name, 0.0)), duration(last.get(name, 0.0))) for name in names]
    return chart(
        "Seconds by what is waited for",
        f"Bars for each of {len(names)} causes, the longest first",
        Bars(names, series, "time", duration),
        table(("waiting for", "the whole", "the last replica"), rows),
        height=rows_height(len(names), len(series)),
    )


def traffic_charts(document: ModelDocument) -> list[Markup]:
    """Two charts: what moves bring into brokers, and what they take out of them."""
    traffic = document.traffic
    shown = list(zip(traffic.brokers[:TRAFFIC_SHOWN], LOOKS, strict=False))
    found = []
    for title, sides in (
        ("Into brokers", [(one.broker, look, one.into) for one, look in shown]),
        ("Out of brokers", [(one.broker, look, one.out_of) for one, look in shown]),
    ):
        series = [
            Series(f"broker {broker}", look, [value / MIB for value in values], traffic.at_s)
            for broker, look, values in sides
            if any(values)
        ]
        if not series:
            continue
        step = max(1, math.ceil(len(traffic.at_s) / INSTANTS_TABLED))
        rows = [
            (_instant(traffic.at_s[at]), *(rate(one.values[at] * MIB) for one in series))
            for at in range(0, len(traffic.at_s), step)
        ]
        found.append(
            chart(
                f"{title}, MiB/s",
                f"A line for each of {len(series)} brokers: mean rate of copying over time",
                Lines(series, "time since the start", "MiB/s", _instant, plain_number, is_time=True),
                table(("from", *(one.name for one in series)), rows),
                height=300,
            )
        )
    return found


def resources_chart(document: ModelDocument) -> Markup:
    """How full each resource is when moves take most of it: the foreground, and moves on top."""
    rows = document.resources[:RESOURCES_SHOWN]
    names = [f"{row.kind}, {row.whose}" if row.owner else row.kind for row in rows]
    series = [
        Series("foreground", BEFORE, [row.foreground / row.capacity for row in rows]),
        Series("moves, at their peak", LOOKS[1], [row.peak / row.capacity for row in rows]),
    ]
    cells = [
        (name, share(row.foreground / row.capacity), share(row.peak / row.capacity), duration(row.peak_at_s))
        for name, row in zip(names, rows, strict=True)
    ]
    return chart(
        "Share of the capacity when moves take most",
        f"Stacked bars for each of {len(rows)} resources; the dotted line is the capacity",
        Bars(names, series, "share of the capacity", share, is_stacked=True, limit=1.0),
        table(("resource", "foreground", "moves", "at"), cells),
        height=rows_height(len(rows)),
    )


def load_chart(brokers: Sequence[BrokerLoad]) -> Markup:
    """NIC in use before and after, the fullest brokers first."""
    rows = brokers[:LOADS_SHOWN]
    names = [f"broker {row.broker}{' (dead)' if row.is_dead else ''}" for row in rows]
    series = [
        Series("before", BEFORE, [row.nic_share_before for row in rows]),
        Series("after", AFTER, [0.0 if row.is_dead else row.nic_share_after for row in rows]),
    ]
    cells = [
        (
            name,
            f"{row.leaders_before:,}",
            "dead" if row.is_dead else f"{row.leaders_after:,}",
            share(row.nic_share_before),
            "dead" if row.is_dead else share(row.nic_share_after),
        )
        for name, row in zip(names, rows, strict=True)
    ]
    return chart(
        "Share of the network card in use",
        f"Two bars for each of {len(rows)} brokers, before and after; the dotted line is a full network card",
        Bars(names, series, "share of the network card", share, limit=1.0),
        table(("broker", "leaders before", "leaders after", "in use before", "in use after"), cells),
        height=rows_height(len(rows), 2),
    )


def _by_time(document: ModelDocument) -> list[Outcome]:
    return sorted(document.outcomes, key=lambda each: (each.duration_s is None, each.duration_s or 0.0))


def _time_text(outcome: Outcome) -> str:
    if outcome.never_join:
        return f"never: {outcome.never_join:,} of {outcome.moves:,} do not join"
    return duration(outcome.duration_s)


def _short_time(outcome: Outcome) -> str:
    return "never" if outcome.never_join else duration(outcome.duration_s)


def _instant(seconds: float) -> str:
    """0, 30.0 s, 4 min: after the start."""
    return duration(seconds).removesuffix(" 00 s") if seconds else "0"
