"""A sweep as a page: the claim, what the model says about it, and where it does not hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...pipeline.pages import (
    COLORS,
    Cell,
    Markup,
    Tile,
    charts,
    page,
    paragraph,
    percent,
    section,
    styled,
    table,
    tiles,
    verdict,
)
from .sweep_report import CLAIM_HIGH, CLAIM_LOW, Group, SweepReport

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_BAND = "rgba(84, 162, 75, 0.18)"


def sweep_page(found: SweepReport) -> str:
    """The whole HTML document. MissingExtraError."""
    times, ratios, scatter = charts([_times(found), _ratios(found), _scatter(found)])
    lead = (
        f"{found.whole.clusters:,} random clusters (seed {found.seed}), one or two brokers of each replaced in the "
        f"model: without the last-tiered offset ({found.before_policy}) and with it ({found.after_policy})."
    )
    return page(
        "Broker replacement with and without KIP-1023",
        lead,
        [
            _verdict(found),
            section("The claim", paragraph(f"“{found.claim}” ({found.claim_source})")),
            _tiles(found),
            section("How long a replacement takes", paragraph(_TIMES), times, _by_size(found)),
            section("How much is saved", paragraph(_RATIOS), ratios),
            section("Does time follow data?", paragraph(_follows(found)), scatter),
            section("When the claim does not hold", paragraph(_WHEN), _by_factor(found)),
            section("What this is, and what it is not", paragraph(_LIMITS)),
        ],
    )


_TIMES = (
    "From the start of the new broker until its last replica is in the ISR. The box holds the middle half of the "
    "clusters of that size, its line the median; the scale is logarithmic."
)
_RATIOS = (
    "Each cluster's run with the last-tiered offset by its run without: data that leaders send, and time. A curve "
    "shows which share of the clusters is at or below a ratio; the green band is the claim."
)
_WHEN = (
    "The same clusters, split by one property at a time. What is not tiered is copied whole in both runs; what "
    "was not uploaded yet, at least the active segment, is copied in both too. So the savings are large where much is "
    "local that is also in the tier, and small where local data is mostly active segments or not tiered at all."
)
_LIMITS = (
    "A model, with the fixed costs and rates of its calibration: how far it is off for real clusters is measured by "
    "the benchmark of the model, not here. The clusters are random, and yours is none of them: tierfetch model replace "
    "takes an inventory of yours. Sizes, rates, retention, throttles and segment sizes are drawn from ranges that are "
    "common; another choice of ranges gives other shares."
)


def _verdict(found: SweepReport) -> Markup:
    whole = found.whole
    tiered = "; ".join(
        f"{group.name}: {percent(group.data_ratio.p50)} of the data, {percent(group.time_ratio.p50)} of the time"
        for group in found.factors[0].groups
    )
    text = (
        f"The median cluster copies {percent(whole.data_ratio.p50)} of the data and takes "
        f"{percent(whole.time_ratio.p50)} of the time. At most 15 % of the data: {whole.data_within_claim:.0%} of the "
        f"clusters; at most 15 % of the time: {whole.time_within_claim:.0%}. What decides is how much "
        f"is tiered at all; medians by the share of the partitions: {tiered}."
    )
    holds = whole.time_ratio.p50 <= CLAIM_HIGH and whole.data_ratio.p50 <= CLAIM_HIGH
    return verdict(text, "good" if holds else "warn")


def _follows(found: SweepReport) -> str:
    return (
        f"“Therefore the time is also 10-15 %” takes for granted that time is proportional to data. In "
        f"{found.time_follows_data:.0%} of the clusters the two ratios differ by no more than 0.05. Above the diagonal "
        "time shrinks less than data: the start of the broker, the look into the tier and the way into the ISR take "
        "their seconds whatever is copied, and the last replica decides, not the mean one. A point is a cluster."
    )


def _tiles(found: SweepReport) -> Markup:
    whole = found.whole
    return tiles(
        [
            Tile(f"{whole.clusters:,}", "clusters"),
            Tile(f"{max(pair.brokers for pair in found.pairs):,}", "brokers, the largest"),
            Tile(f"{max(pair.partitions for pair in found.pairs):,}", "partitions, the most"),
            Tile(duration(whole.before_s.p50), "median without"),
            Tile(duration(whole.after_s.p50), "median with"),
            Tile(percent(whole.data_ratio.p50), "of the data, median"),
            Tile(percent(whole.time_ratio.p50), "of the time, median"),
        ]
    )


def _by_size(found: SweepReport) -> Markup:
    return table(_HEADINGS, [_row(group) for group in [*found.by_size, found.whole]])


def _by_factor(found: SweepReport) -> Markup:
    rows = [
        (factor.name if index == 0 else "", *_row(group))
        for factor in found.factors
        for index, group in enumerate(factor.groups)
    ]
    return table(("split by", *_HEADINGS), rows)


_HEADINGS = (
    "",
    "clusters",
    "without, median",
    "with, median",
    "of the data: p10 – median – p90",
    "of the time: p10 – median – p90",
    "≤ 15 % of the data",
    "≤ 15 % of the time",
    "never in sync, without / with",
)


def _row(group: Group) -> Sequence[Cell]:
    data, time = group.data_ratio, group.time_ratio
    return (
        group.name,
        group.clusters,
        duration(group.before_s.p50),
        duration(group.after_s.p50),
        " – ".join(map(percent, (data.p10, data.p50, data.p90))),
        " – ".join(map(percent, (time.p10, time.p50, time.p90))),
        f"{group.data_within_claim:.0%}",
        f"{group.time_within_claim:.0%}",
        f"{group.never_join_before} / {group.never_join_after}",
    )


def _times(found: SweepReport) -> Figure:
    from plotly.graph_objects import Box, Figure

    figure = Figure()
    for name, seconds, color in (
        (f"without ({found.before_policy})", [pair.before_s for pair in found.pairs], COLORS[1]),
        (f"with ({found.after_policy})", [pair.after_s for pair in found.pairs], COLORS[0]),
    ):
        figure.add_trace(
            Box(
                name=name,
                x=[f"{pair.brokers:,}" for pair in found.pairs],
                y=[None if value is None else value / 60 for value in seconds],
                marker_color=color,
                boxpoints=False,
            )
        )
    sizes = [f"{size:,}" for size in sorted({pair.brokers for pair in found.pairs})]
    figure.update_layout(boxmode="group")
    figure.update_yaxes(type="log", dtick=1)
    figure.update_xaxes(type="category", categoryorder="array", categoryarray=sizes)
    return styled(figure, height=460, x_title="brokers of the cluster", y_title="minutes until in sync")


def _ratios(found: SweepReport) -> Figure:
    from plotly.graph_objects import Figure, Scatter

    figure = Figure()
    for name, ratios, color in (
        ("data", [pair.data_ratio for pair in found.pairs], COLORS[0]),
        ("time", [pair.time_ratio for pair in found.pairs], COLORS[4]),
    ):
        known = sorted(ratio for ratio in ratios if ratio is not None)
        shares = [(index + 1) / len(known) for index in range(len(known))]
        line = {"color": color, "width": 3, "shape": "hv"}
        figure.add_trace(Scatter(name=name, x=known, y=shares, mode="lines", line=line))
    figure.add_vrect(x0=CLAIM_LOW, x1=CLAIM_HIGH, fillcolor=_BAND, line_width=0, annotation_text="claim")
    figure.update_xaxes(range=[0, 1.05], tickformat=".0%")
    figure.update_yaxes(range=[0, 1.02], tickformat=".0%")
    return styled(figure, height=420, x_title="with, by without", y_title="share of clusters")


def _scatter(found: SweepReport) -> Figure:
    from plotly.graph_objects import Figure, Scatter

    figure = Figure()
    shares = sorted({pair.tiered_share for pair in found.pairs}, reverse=True)
    for share, color in zip(shares, COLORS, strict=False):
        some = [
            pair
            for pair in found.pairs
            if pair.tiered_share == share and pair.data_ratio is not None and pair.time_ratio is not None
        ]
        figure.add_trace(
            Scatter(
                name=f"{share:.0%} of the partitions tiered",
                x=[pair.data_ratio for pair in some],
                y=[pair.time_ratio for pair in some],
                mode="markers",
                marker={"color": color, "size": 7, "opacity": 0.6},
                text=[f"{pair.brokers} brokers, {pair.partitions:,} partitions" for pair in some],
            )
        )
    figure.add_shape(type="line", x0=0, y0=0, x1=1, y1=1, line={"dash": "dot", "color": "#59636e"})
    figure.add_shape(
        type="rect",
        x0=CLAIM_LOW,
        x1=CLAIM_HIGH,
        y0=CLAIM_LOW,
        y1=CLAIM_HIGH,
        fillcolor=_BAND,
        line={"color": "#54a24b"},
    )
    figure.update_xaxes(range=[0, 1.05], tickformat=".0%")
    figure.update_yaxes(range=[0, 1.05], tickformat=".0%")
    return styled(figure, height=520, x_title="data, with by without", y_title="time, with by without")


def duration(seconds: float) -> str:
    """In the largest unit of which there are at least two."""
    for unit_s, unit in ((86_400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:,.1f} {unit}"
    return f"{seconds:,.1f} s"
