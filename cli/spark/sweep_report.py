"""What a sweep says about the claim that began KIP-1023: the JSON document, computed from the rows of its runs.

    "the amount of data the follower needs to replicate from the leader can be as low as 10-15%. Therefore the time for
     the new follower to join the ISR list is also 10-15% compared to before."

Each cluster is run twice, its brokers replaced without and with the last-tiered offset; the ratios of the two runs are
what the claim is about. A cluster one of whose replicas never joins has no ratio of time, and is counted by itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median, quantiles
from typing import Any, Final

from pydantic import BaseModel, Field

from ...light_dataclass import dataclass

CLAIM_LOW: Final = 0.10
CLAIM_HIGH: Final = 0.15
CLAIM: Final = (
    "In practice, the amount of data the follower needs to replicate from the leader can be as low as 10-15%. "
    "Therefore the time for the new follower to join the ISR list is also 10-15% compared to before."
)
SOURCE: Final = "KIP-1023, Motivation"
AGREES_WITHIN: Final = 0.05
"""Time follows data where their ratios differ by no more than this."""
Row = Mapping[str, Any]


class Spread(BaseModel):
    """One figure over clusters: the tenth, the middle and the ninetieth of a hundred."""

    p10: float
    p50: float
    p90: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        found = sorted(values)
        if len(found) < 2:
            only = found[0] if found else 0.0
            return cls(p10=only, p50=only, p90=only)
        tenths = quantiles(found, n=10, method="inclusive")
        return cls(p10=tenths[0], p50=median(found), p90=tenths[8])


class Pair(BaseModel):
    """One cluster and failure. `before` is without, `after` with the last-tiered offset; None where one never joins."""

    cluster_id: int
    brokers: int
    partitions: int
    failed_brokers: int
    tiered_share: float
    local_share: float = Field(description="Of the retention that is also local.")
    segments_local: float = Field(description="Segments that the median partition holds locally.")
    throttled: bool
    tier_latency_ms: float
    before_s: float | None
    after_s: float | None
    before_bytes: float
    after_bytes: float

    @property
    def data_ratio(self) -> float | None:
        return self.after_bytes / self.before_bytes if self.before_bytes else None

    @property
    def time_ratio(self) -> float | None:
        if self.before_s is None or self.after_s is None or self.before_s == 0:
            return None
        return self.after_s / self.before_s


class Group(BaseModel):
    """Clusters that have something in common. Shares are of those that have the ratio."""

    name: str
    clusters: int
    never_join_before: int
    never_join_after: int
    before_s: Spread
    after_s: Spread
    data_ratio: Spread
    time_ratio: Spread
    data_within_claim: float = Field(description="Share of clusters that copy at most 15 % of the data.")
    time_within_claim: float = Field(description="Share of clusters that take at most 15 % of the time.")


class Factor(BaseModel):
    """One property of clusters, and how the ratios depend on it."""

    name: str
    groups: list[Group]


class SweepReport(BaseModel):
    """The document of `spark sweep --json`."""

    seed: int
    before_policy: str
    after_policy: str
    claim: str = CLAIM
    claim_source: str = SOURCE
    whole: Group
    time_follows_data: float = Field(description="Share of clusters whose two ratios differ by at most 0.05.")
    by_size: list[Group]
    factors: list[Factor]
    pairs: list[Pair] = Field(exclude=True)


@dataclass(frozen=True, slots=True)
class _Split:
    """A split of clusters into named groups, in the order of `names`."""

    name: str
    name_of: Callable[[Pair], str]
    names: tuple[str, ...]


def _step(value: float, limits: Sequence[float], names: Sequence[str]) -> str:
    """The name of the step that `value` is on; limits belong to the step below."""
    return names[bisect_left(limits, value)]


_SPLITS: Final = (
    _Split(
        "share of partitions that is tiered",
        lambda pair: f"{pair.tiered_share:.0%} tiered",
        ("100% tiered", "80% tiered", "50% tiered"),
    ),
    _Split(
        "how much of the data is local as well",
        lambda pair: _step(pair.local_share, (0.05, 0.25), ("up to 5 %", "5 to 25 %", "above 25 %")),
        ("above 25 %", "5 to 25 %", "up to 5 %"),
    ),
    _Split(
        "segments that a partition holds locally",
        lambda pair: _step(pair.segments_local, (3, 20), ("up to 3", "3 to 20", "above 20")),
        ("above 20", "3 to 20", "up to 3"),
    ),
    _Split(
        "replication throttle",
        lambda pair: "throttled" if pair.throttled else "not throttled",
        ("throttled", "not throttled"),
    ),
    _Split(
        "brokers that failed together",
        lambda pair: f"{pair.failed_brokers}",
        ("1", "2"),
    ),
)


def sweep_report(rows: Sequence[Row], *, seed: int, before: str, after: str) -> SweepReport:
    """`rows` as `model.sweep.run_case` gives them, of both policies for each cluster."""
    pairs = pairs_of(rows, before, after)
    assert pairs, "a sweep has clusters"
    both = [
        (pair.data_ratio, pair.time_ratio)
        for pair in pairs
        if pair.data_ratio is not None and pair.time_ratio is not None
    ]
    agreeing = sum(abs(data - time) <= AGREES_WITHIN for data, time in both)
    sizes = sorted({pair.brokers for pair in pairs})
    return SweepReport(
        seed=seed,
        before_policy=before,
        after_policy=after,
        whole=_group("all clusters", pairs),
        time_follows_data=agreeing / len(both) if both else 0.0,
        by_size=[_group(f"{size:,} brokers", [pair for pair in pairs if pair.brokers == size]) for size in sizes],
        factors=[_factor(split, pairs) for split in _SPLITS],
        pairs=pairs,
    )


def pairs_of(rows: Sequence[Row], before: str, after: str) -> list[Pair]:
    """Return the pairs by cluster. KeyError if one of the two runs is missing."""
    runs = {(row["cluster_id"], row["policy"]): row for row in rows}
    return [_pair(runs[cluster, before], runs[cluster, after]) for cluster in sorted({cluster for cluster, _ in runs})]


def _pair(before: Row, after: Row) -> Pair:
    rate = before["produce_bytes_per_s"] / max(1, before["partitions"])
    local_bytes = rate * before["local_retention_h"] * 3600
    return Pair(
        cluster_id=before["cluster_id"],
        brokers=before["brokers"],
        partitions=before["partitions"],
        failed_brokers=before["failed_brokers"],
        tiered_share=before["tiered_share"],
        local_share=min(1.0, before["local_retention_h"] / before["retention_h"]),
        segments_local=local_bytes / before["segment_bytes"],
        throttled=before["throttle_bytes_per_s"] > 0,
        tier_latency_ms=before["tier_latency_ms"],
        before_s=before["duration_s"],
        after_s=after["duration_s"],
        before_bytes=before["leader_bytes"],
        after_bytes=after["leader_bytes"],
    )


def _factor(split: _Split, pairs: Sequence[Pair]) -> Factor:
    by_name: dict[str, list[Pair]] = {name: [] for name in split.names}
    for pair in pairs:
        by_name.setdefault(split.name_of(pair), []).append(pair)
    return Factor(name=split.name, groups=[_group(name, some) for name, some in by_name.items() if some])


def _group(name: str, pairs: Sequence[Pair]) -> Group:
    data = [pair.data_ratio for pair in pairs if pair.data_ratio is not None]
    time = [pair.time_ratio for pair in pairs if pair.time_ratio is not None]
    return Group(
        name=name,
        clusters=len(pairs),
        never_join_before=sum(pair.before_s is None for pair in pairs),
        never_join_after=sum(pair.after_s is None for pair in pairs),
        before_s=Spread.of(pair.before_s for pair in pairs if pair.before_s is not None),
        after_s=Spread.of(pair.after_s for pair in pairs if pair.after_s is not None),
        data_ratio=Spread.of(data),
        time_ratio=Spread.of(time),
        data_within_claim=_share(data),
        time_within_claim=_share(time),
    )


def _share(ratios: Sequence[float]) -> float:
    return sum(ratio <= CLAIM_HIGH for ratio in ratios) / len(ratios) if ratios else 0.0
