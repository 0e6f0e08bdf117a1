"""The report's charts, as plotly figures: one function each, from the document alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ...byte_text import size
from .document import BrokerLoad, ModelDocument, Outcome
from .quantities import duration

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

TRAFFIC_SHOWN: Final = 6
MIB: Final = 1 << 20
RESOURCES_SHOWN: Final = 12
LOADS_SHOWN: Final = 20
FOREGROUND, MOVES, GRID = "#b9c4d0", "#2a6f97", "#e6eaef"
COLORS: Final = ("#2a6f97", "#e07a1f", "#4d9078", "#b23a48", "#7b5ea7", "#8c6d46", "#5c677d", "#c2a83e")
POLICY_COLORS: Final = {
    "tier-first": "#2a6f97",
    "bounded-local": "#61a5c2",
    "earliest-pending-upload": "#4d9078",
    "local-log-start": "#c2a83e",
    "log-start": "#8c6d46",
    "kafka-last-tiered": "#e07a1f",
    "kafka": "#b23a48",
}
_OFTEN_THE_SAME: Final = frozenset({"log-start", "earliest-pending-upload"})
"""As another policy: drawn dotted over its line."""
_LOG_FROM: Final = 30.0
"""A time axis is logarithmic if the slowest policy takes so many times as long as the fastest."""


def progress_chart(document: ModelDocument) -> Figure:
    """How many partitions lack a replica (or, where nothing is lost, replicas are still to be built), over time."""
    figure = _figure(height=420)
    counts_urp = any(outcome.progress.under_replicated[0] for outcome in document.outcomes)
    ends = [outcome.duration_s for outcome in document.outcomes if outcome.duration_s]
    is_log = bool(ends) and max(ends) > _LOG_FROM * min(ends)
    first, *rest = document.outcomes
    for outcome in (*sorted(rest, key=lambda each: each.duration_s or math.inf, reverse=True), first):
        progress = outcome.progress
        values = progress.under_replicated if counts_urp else progress.moving
        figure.add_scatter(
            x=progress.at_s[1:] if is_log else progress.at_s,
            y=values[1:] if is_log else values,
            name=_policy_label(outcome),
            mode="lines",
            line={
                "shape": "hv",
                "width": 3.5 if outcome is first else 2,
                "color": _color(outcome),
                "dash": "dot" if outcome.policy in _OFTEN_THE_SAME and outcome is not first else "solid",
            },
            hovertemplate="%{y:,} after %{x:,.1f} s<extra>" + outcome.policy + "</extra>",
        )
    figure.update_layout(legend={"traceorder": "reversed"}, hovermode="x")
    figure.update_yaxes(title="partitions under-replicated" if counts_urp else "replicas still to be built")
    figure.update_xaxes(**_time_axis(max(outcome.progress.at_s[-1] for outcome in document.outcomes), is_log))
    return figure


def policies_chart(document: ModelDocument) -> Figure:
    """Two panels, a row for each policy: time until all are in sync, data copied from leaders."""
    from plotly.subplots import make_subplots

    titles = ("Time until every replica is in sync", "Copied from leaders")
    figure = make_subplots(rows=1, cols=2, shared_yaxes=True, horizontal_spacing=0.05, subplot_titles=titles)
    outcomes = sorted(document.outcomes, key=lambda each: (each.duration_s is None, each.duration_s or 0.0))
    names = [outcome.policy for outcome in outcomes]
    colors = [_color(outcome) for outcome in outcomes]
    panels = (
        ([outcome.duration_s or 0.0 for outcome in outcomes], [_time_text(outcome) for outcome in outcomes]),
        ([outcome.leader_bytes for outcome in outcomes], [size(outcome.leader_bytes) for outcome in outcomes]),
    )
    for column, (values, texts) in enumerate(panels, 1):
        figure.add_bar(
            x=values,
            y=names,
            orientation="h",
            marker_color=colors,
            text=texts,
            textposition="outside",
            cliponaxis=False,
            hovertemplate="%{y}: %{text}<extra></extra>",
            row=1,
            col=column,
        )
        most = max(values, default=0.0) or 1.0
        figure.update_xaxes(range=[0, most * 1.32], showticklabels=False, showgrid=False, zeroline=False, col=column)
    _style(figure, height=90 + 44 * len(outcomes))
    figure.update_layout(showlegend=False, bargap=0.32, margin={"l": 10, "r": 10, "t": 40, "b": 10})
    figure.update_yaxes(autorange="reversed", ticksuffix="  ", showgrid=False)
    return figure


def traffic_chart(document: ModelDocument) -> Figure:
    """Two panels over one time axis: what moves bring into brokers, and take out of them."""
    from plotly.subplots import make_subplots

    titles = ("Into brokers", "Out of brokers")
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.12, subplot_titles=titles)
    traffic = document.traffic
    shown = list(traffic.brokers[:TRAFFIC_SHOWN])
    for row in (1, 2):
        for number, broker in enumerate(shown):
            values = broker.into if row == 1 else broker.out_of
            if not any(values):
                continue
            figure.add_scatter(
                x=traffic.at_s,
                y=[value / MIB for value in values],
                name=f"broker {broker.broker}",
                legendgroup=str(broker.broker),
                showlegend=row == 1 or not any(broker.into),
                mode="lines",
                line={"shape": "hv", "width": 2.2, "color": COLORS[number % len(COLORS)]},
                hovertemplate="%{y:,.1f} MiB/s after %{x:,.1f} s<extra>broker " + str(broker.broker) + "</extra>",
                row=row,
                col=1,
            )
    _style(figure, height=520)
    figure.update_yaxes(title="MiB/s", rangemode="tozero")
    axis = _time_axis(traffic.at_s[-1], is_log=False)
    figure.update_xaxes(**{**axis, "title": None}, row=1, col=1)
    figure.update_xaxes(**axis, row=2, col=1)
    return figure


def resources_chart(document: ModelDocument) -> Figure:
    """How full each resource is when moves take most of it: the foreground, and moves on top."""
    rows = document.resources[:RESOURCES_SHOWN]
    names = [f"{row.kind}, {row.owner}" if row.kind == "link" else f"{row.kind}, broker {row.owner}" for row in rows]
    figure = _figure(height=110 + 30 * len(rows))
    parts = (
        ("producers, consumers, replication, tiering", FOREGROUND, [row.foreground / row.capacity for row in rows]),
        ("moves, at their peak", MOVES, [row.peak / row.capacity for row in rows]),
    )
    for name, color, values in parts:
        figure.add_bar(
            x=values, y=names, name=name, orientation="h", marker_color=color, hovertemplate="%{y}: %{x:.0%}"
        )
    most = max([row.peak_share for row in rows], default=1.0)
    figure.add_vline(x=1.0, line={"color": "#b23a48", "width": 1.5, "dash": "dot"})
    figure.update_layout(barmode="stack", bargap=0.3, legend={"orientation": "h", "y": 1.08, "x": 0})
    figure.update_xaxes(tickformat=".0%", range=[0, max(1.05, most * 1.05)], title="share of the capacity")
    figure.update_yaxes(autorange="reversed", ticksuffix="  ", showgrid=False)
    return figure


def load_chart(brokers: Sequence[BrokerLoad]) -> Figure:
    """NIC in use before and after, the fullest brokers first."""
    rows = brokers[:LOADS_SHOWN]
    names = [f"broker {row.broker}{' (dead)' if row.is_dead else ''}" for row in rows]
    figure = _figure(height=130 + 46 * len(rows))
    parts = (
        ("before", FOREGROUND, [row.nic_share_before for row in rows]),
        ("after", MOVES, [0.0 if row.is_dead else row.nic_share_after for row in rows]),
    )
    for name, color, values in parts:
        figure.add_bar(
            x=values,
            y=names,
            name=name,
            orientation="h",
            marker_color=color,
            text=[
                "" if row.is_dead and name == "after" else f"{value:.0%}"
                for row, value in zip(rows, values, strict=True)
            ],
            textposition="outside",
            cliponaxis=False,
            hovertemplate="%{y}: %{x:.1%}",
        )
    figure.add_vline(x=1.0, line={"color": "#b23a48", "width": 1.5, "dash": "dot"})
    figure.update_layout(bargap=0.3, legend={"orientation": "h", "y": 1.08, "x": 0})
    most = max([row.nic_share_after for row in rows], default=1.0)
    figure.update_xaxes(tickformat=".0%", range=[0, max(1.05, most * 1.12)], title="share of the network card")
    figure.update_yaxes(autorange="reversed", ticksuffix="  ", showgrid=False)
    return figure


def _time_text(outcome: Outcome) -> str:
    if outcome.never_join:
        return f"never: {outcome.never_join:,} of {outcome.moves:,} do not join"
    return duration(outcome.duration_s)


def _policy_label(outcome: Outcome) -> str:
    return f"{outcome.policy} ({duration(outcome.duration_s)})"


def _color(outcome: Outcome) -> str:
    return POLICY_COLORS.get(outcome.policy, "#5c677d")


def _figure(height: int) -> Figure:
    from plotly.graph_objects import Figure

    return _style(Figure(), height)


def _style(figure: Figure, height: int) -> Figure:
    figure.update_layout(
        template="plotly_white",
        height=height,
        font={"family": "system-ui, -apple-system, Segoe UI, Roboto, sans-serif", "size": 14, "color": "#1f2933"},
        margin={"l": 70, "r": 20, "t": 30, "b": 60},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
    )
    figure.update_xaxes(gridcolor=GRID, zerolinecolor=GRID, title_font_size=14)
    figure.update_yaxes(gridcolor=GRID, zerolinecolor=GRID, title_font_size=14, rangemode="tozero")
    return figure


def _time_axis(horizon_s: float, is_log: bool) -> dict[str, object]:
    """Ticks in the unit that fits, the values stay seconds."""
    if is_log:
        ticks = [0.1, 1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400]
        texts = ["0.1 s", "1 s", "10 s", "1 min", "10 min", "1 h", "6 h", "1 d", "7 d", "30 d"]
        return {"type": "log", "tickvals": ticks, "ticktext": texts, "title": "time since the start (logarithmic)"}
    units = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    unit_s, unit = next((each for each in units if horizon_s >= 2 * each[0]), units[-1])
    step = _step(horizon_s / unit_s)
    numbers = [number * step for number in range(int(horizon_s / unit_s / step) + 1)]
    return {
        "tickvals": [number * unit_s for number in numbers],
        "ticktext": [f"{number:g} {unit}" for number in numbers],
        "title": "time since the start",
    }


def _step(span: float) -> float:
    """A round distance of 4 to 9 ticks over a span."""
    magnitude = 10.0 ** len(str(int(span))) / 1000
    return next(magnitude * factor for factor in (1, 2, 5, 10, 20, 50, 100, 200) if span / (magnitude * factor) <= 9)
