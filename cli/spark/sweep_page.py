"""A sweep as a page: the claim, what the model says about it, and where it does not hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ...extras import needing
from ...pages import (
    LOOKS,
    Boxes,
    Cell,
    Lines,
    Made,
    Markup,
    Points,
    Series,
    Tile,
    chart,
    page,
    paragraph,
    percent,
    policy_look,
    quiet,
    section,
    table,
    tiles,
    verdict,
)
from .sweep_report import CLAIM_HIGH, CLAIM_LOW, Group, SweepReport

POINTS_TABLED: Final = (0.1, 0.25, 0.5, 0.75, 0.9)
"""Shares of the clusters whose ratios are listed beside the curves."""


def sweep_page(found: SweepReport, made: Made) -> str:
    """The whole HTML document. MissingExtraError."""
    with needing("spark"):
        times, ratios, points = _times(found), _ratios(found), _points(found)
    lead = (
        f"{found.whole.clusters:,} random clusters (seed {found.seed}), one or two brokers of each replaced in the "
        f"model: without the last-tiered offset ({found.before_policy}) and with it ({found.after_policy})."
    )
    return page(
        "Broker replacement with and without KIP-1023",
        _verdict(found),
        quiet(lead),
        [
            section("The claim", paragraph(f"“{found.claim}” ({found.claim_source})")),
            _tiles(found),
            section("How long a replacement takes", paragraph(_TIMES), times, _by_size(found)),
            section("How much is saved", paragraph(_RATIOS), ratios),
            section("Does time follow data?", paragraph(_follows(found)), points),
            section("When the claim does not hold", paragraph(_WHEN), _by_factor(found)),
            section("What this is, and what it is not", paragraph(_LIMITS)),
        ],
        made,
    )


_TIMES = (
    "From the start of the new broker until its last replica is in the ISR. The box holds the middle half of the "
    "clusters of that size, its line the median, the whiskers all; the scale is"
    " logarithmic."
)
_RATIOS = (
    "Each cluster's run with the last-tiered offset by its run without: data that leaders send, and time. A curve "
    "shows which share of the clusters is at or below a ratio; the grey band is the claim."
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


def _times(found: SweepReport) -> Markup:
    sizes = sorted({pair.brokers for pair in found.pairs})
    runs: tuple[tuple[str, str, list[float | None]], ...] = (
        ("without", found.before_policy, [pair.before_s for pair in found.pairs]),
        ("with", found.after_policy, [pair.after_s for pair in found.pairs]),
    )
    series = [
        (f"{name} ({policy})", policy_look(policy), [_of_size(found, times, brokers) for brokers in sizes])
        for name, policy, times in runs
    ]
    rows = [
        (f"{brokers:,}", *(_middle(groups[at], duration) for _, _, groups in series))
        for at, brokers in enumerate(sizes)
    ]
    return chart(
        "Time until the last replica is in sync, by brokers of the cluster",
        "Boxes of the times without and with the last-tiered offset, for each size of cluster",
        Boxes([f"{brokers:,}" for brokers in sizes], series, "brokers of the cluster", "time", duration),
        table(("brokers", "without, median", "with, median"), rows),
        height=400,
    )


def _of_size(found: SweepReport, times: Sequence[float | None], brokers: int) -> list[float]:
    return [time for pair, time in zip(found.pairs, times, strict=True) if pair.brokers == brokers and time is not None]


def _ratios(found: SweepReport) -> Markup:
    series = []
    for name, ratios, look in (
        ("data", [pair.data_ratio for pair in found.pairs], LOOKS[0]),
        ("time", [pair.time_ratio for pair in found.pairs], LOOKS[1]),
    ):
        known = sorted(ratio for ratio in ratios if ratio is not None)
        shares = [(index + 1) / len(known) for index in range(len(known))]
        series.append(Series(name, look, shares, known))
    rows = [
        (percent(share), *(percent(one.xs[int(share * (len(one.xs) - 1))]) if one.xs else "–" for one in series))
        for share in POINTS_TABLED
    ]
    return chart(
        "Ratio of the run with the last-tiered offset to the run without",
        "Two curves: the share of clusters at or below each ratio, of data and of time; a band marks the claim",
        Lines(
            series,
            "with, by without",
            "share of clusters",
            percent,
            percent,
            x_range=(0, 1.05),
            band=(CLAIM_LOW, CLAIM_HIGH),
        ),
        table(("share of clusters", "data at most", "time at most"), rows),
        height=380,
    )


def _points(found: SweepReport) -> Markup:
    series, rows = [], []
    for share, look in zip(sorted({pair.tiered_share for pair in found.pairs}, reverse=True), LOOKS, strict=False):
        some = [
            (pair.data_ratio, pair.time_ratio)
            for pair in found.pairs
            if pair.tiered_share == share and pair.data_ratio is not None and pair.time_ratio is not None
        ]
        data, times = [one for one, _ in some], [other for _, other in some]
        series.append(Series(f"{share:.0%} tiered", look, times, data))
        rows.append((f"{share:.0%}", len(some), _middle(data, percent), _middle(times, percent)))
    return chart(
        "Time by data, a point for each cluster",
        "Points: the ratio of data and of time of each cluster; the dotted diagonal is where both are the same",
        Points(series, "data, with by without", "time, with by without", percent, (CLAIM_LOW, CLAIM_HIGH)),
        table(("partitions tiered", "clusters", "data, median", "time, median"), rows),
        height=460,
    )


def _middle(values: Sequence[float], text: Callable[[float], str]) -> str:
    return text(sorted(values)[len(values) // 2]) if values else "–"


def duration(seconds: float) -> str:
    """In the largest unit of which there are at least two."""
    for unit_s, unit in ((86_400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:,.1f} {unit}"
    return f"{seconds:,.1f} s"
