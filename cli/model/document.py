"""The JSON document of `model replace`, `compare` and `rebalance`; tables and charts are made from it too."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel, Field

from ...model import (
    NO_BROKER,
    ClusterArrays,
    Floats,
    ModelResult,
    Obstacle,
    Prediction,
    Range,
    Seconds,
    total_by_broker,
)

BROKERS_MAX = 20
"""Brokers whose traffic is listed one by one."""
FOREVER = None
"""In place of an infinite time: JSON has none."""


class ClusterSummary(BaseModel):
    """What the cluster is. `local_bytes` of all replicas, as their leaders have it."""

    name: str
    brokers: int
    racks: int
    topics: int
    partitions: int
    replicas: int
    size_bytes: float
    local_bytes: float
    tiered_bytes: float
    produce_bytes_per_s: float
    throttle_bytes_per_s: float | None


class MoveRow(BaseModel):
    """One replica that is built. Times in seconds since the start; null: never."""

    topic: str
    partition: int
    from_broker: int | None
    to_broker: int
    wave: int
    first_fetch_s: float | None
    joined_s: float | None
    joined_range: Interval
    bulk_bytes: float
    catch_up_bytes: float
    tier_bytes: float
    obstacle: str

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


class ResourceRow(BaseModel):
    """One resource at the moment when moves took most of it. Bytes (a CPU's: CPU seconds) for each second."""

    kind: str
    owner: str
    capacity: float
    foreground: float
    peak: float
    peak_at_s: float
    peak_share: float

    @property
    def whose(self) -> str:
        """Whose it is, in words: "broker 3", "rack a", of a link "a -> b"; "" for the tier."""
        if self.kind == "link" or not self.owner:
            return self.owner
        return f"{'rack' if self.kind.startswith('uplink') else 'broker'} {self.owner}"


class Headroom(BaseModel):
    """The broker whose foreground may grow least, and by which share, without moves and at their worst moment."""

    broker: int
    before: float | None
    during: float | None


class Progress(BaseModel):
    """Partitions under-replicated, partitions below min.insync.replicas, replicas being built; over time."""

    at_s: list[float]
    under_replicated: list[int]
    below_min_isr: list[int]
    moving: list[int]


class Interval(BaseModel):
    """Between these a time is in four of five cases. Seconds; null: never."""

    low: float | None
    high: float | None


class InputEffect(BaseModel):
    """An input that is not known exactly: the factors by which it may make the time shorter and longer; null: it may
    never end.
    """

    name: str
    shorter: float
    longer: float | None


class CauseSeconds(BaseModel):
    """What is waited for, and how long."""

    cause: str
    seconds: float


class Outcome(BaseModel):
    """What comes out under one policy. Times in seconds, null: never. `duration_s` and the other times are medians; in
    `ranges` each has, by its name, the interval of 80 %, and `inputs` are what makes them wide, widest first. `seconds`
    is where the time of the whole goes, `last_seconds` that of the last replica, which waits for a slot first.
    """

    policy: str
    system: str
    calibration: str
    moves: int
    never_join: int
    obstacles: dict[str, int]
    duration_s: float | None
    median_join_s: float | None
    p95_join_s: float | None
    leader_bytes: float
    bulk_bytes: float
    catch_up_bytes: float
    tier_bytes: float
    thin_bytes: float
    tier_gets: int
    is_priced: bool = Field(description="Whether the inventory has a price, of requests or of egress.")
    request_cost: float
    egress_cost: float
    warming_s: float
    warming_egress_cost: float
    urp_minutes: float | None
    below_min_isr_minutes: float | None
    below_min_isr_longest_s: float | None
    headroom: Headroom | None
    progress: Progress
    ranges: dict[str, Interval]
    inputs: list[InputEffect]
    seconds: list[CauseSeconds]
    last_seconds: list[CauseSeconds]

    @property
    def duration_range(self) -> Interval:
        return self.ranges["duration_s"]

    @property
    def widest(self) -> str:
        """The input that widens the ranges most; "" if none does."""
        return self.inputs[0].name if self.inputs else ""


class BrokerTraffic(BaseModel):
    """Mean bytes for each second that moves bring into and take out of a broker, from each instant to the next."""

    broker: int | None
    into: list[float]
    out_of: list[float]


class Traffic(BaseModel):
    """Over time; each list is as long as `at_s`. `others` is the mean of the `others_count` brokers left out."""

    at_s: list[float]
    brokers: list[BrokerTraffic] = Field(description="The busiest, the first of all first.")
    others_count: int
    others: BrokerTraffic | None


class BrokerLoad(BaseModel):
    """One broker. NIC: share in use of the fuller direction. Headroom: share by which the foreground may grow."""

    broker: int
    is_dead: bool
    leaders_before: int
    leaders_after: int
    nic_share_before: float
    nic_share_after: float
    headroom_before: float | None
    headroom_after: float | None


class ModelDocument(BaseModel):
    """The document. `moves`, `resources` and `traffic` are of the first outcome."""

    command: str
    scenario: str
    cluster: ClusterSummary
    warnings: list[str]
    outcomes: list[Outcome]
    moves: list[MoveRow]
    resources: list[ResourceRow]
    traffic: Traffic


def model_document(
    command: str,
    scenario: str,
    arrays: ClusterArrays,
    predictions: Sequence[Prediction],
    warnings: list[str],
) -> ModelDocument:
    first = predictions[0].result
    return ModelDocument(
        command=command,
        scenario=scenario,
        cluster=cluster_summary(arrays),
        warnings=warnings,
        outcomes=[_outcome(arrays, each) for each in predictions],
        moves=_moves(arrays, predictions[0]),
        resources=_resources(first),
        traffic=_traffic(arrays, first),
    )


def cluster_summary(arrays: ClusterArrays) -> ClusterSummary:
    return ClusterSummary(
        name=arrays.name,
        brokers=arrays.broker_count,
        racks=len(arrays.rack_names),
        topics=len(arrays.topic_names),
        partitions=arrays.partition_count,
        replicas=int(np.count_nonzero(arrays.replicas != NO_BROKER)),
        size_bytes=float(arrays.size_bytes.sum()),
        local_bytes=float(total_by_broker(arrays, arrays.local_bytes).sum()),
        tiered_bytes=float(arrays.tiered_bytes.sum()),
        produce_bytes_per_s=float(arrays.produce.sum()),
        throttle_bytes_per_s=finite(arrays.throttle_bytes_per_s),
    )


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else FOREVER


def _outcome(arrays: ClusterArrays, prediction: Prediction) -> Outcome:
    result, calibration = prediction.result, prediction.calibration
    obstacles = np.bincount(result.obstacle, minlength=len(Obstacle))
    return Outcome(
        policy=result.policy.value,
        system=calibration.system,
        calibration=calibration.origin,
        moves=len(result.moves),
        never_join=int((~result.joins).sum()),
        obstacles={each.text: int(obstacles[each]) for each in Obstacle if each and obstacles[each]},
        duration_s=finite(result.duration_s),
        median_join_s=_quantile(result.joined_s, 0.5),
        p95_join_s=_quantile(result.joined_s, 0.95),
        leader_bytes=result.leader_bytes,
        bulk_bytes=float(result.bulk_bytes.sum()),
        catch_up_bytes=float(result.catch_up_bytes.sum()),
        tier_bytes=float(result.tier_bytes.sum()),
        thin_bytes=float(result.thin_bytes.sum()),
        tier_gets=int(result.tier_gets.sum()),
        is_priced=arrays.tier.price_per_get > 0 or arrays.tier.price_per_gb_egress > 0,
        request_cost=result.request_cost,
        egress_cost=result.egress_cost,
        warming_s=result.warming_s,
        warming_egress_cost=result.warming_egress_cost,
        urp_minutes=finite(result.urp_minutes),
        below_min_isr_minutes=finite(result.below_min_isr_minutes),
        below_min_isr_longest_s=finite(result.below_min_isr_longest_s),
        headroom=_headroom(arrays, result),
        progress=Progress(
            at_s=result.timeline.at_s.tolist(),
            under_replicated=result.timeline.under_replicated.tolist(),
            below_min_isr=result.timeline.below_min_isr.tolist(),
            moving=result.timeline.moving.tolist(),
        ),
        ranges=_ranges(prediction),
        inputs=[
            InputEffect(name=each.name, shorter=each.shorter, longer=finite(each.longer))
            for each in prediction.range.effects
        ],
        seconds=_by_cause(result.seconds) if result.joins.all() else [],
        last_seconds=_by_cause(result.last_seconds) if result.joins.all() else [],
    )


def _ranges(prediction: Prediction) -> dict[str, Interval]:
    """The interval of each time of an outcome: of a replica's joining by what that replica waits for, of other times as
    sure as the whole.
    """
    result = prediction.result
    times = {
        "duration_s": finite(result.duration_s),
        "below_min_isr_longest_s": finite(result.below_min_isr_longest_s),
        "warming_s": finite(result.warming_s),
    }
    quantiles = {"median_join_s": 0.5, "p95_join_s": 0.95}
    return {name: interval(prediction.range, seconds) for name, seconds in times.items()} | {
        name: _joined_range(prediction, _quantile_replica(result.joined_s, share)) for name, share in quantiles.items()
    }


def _joined_range(prediction: Prediction, replica: int | None) -> Interval:
    """When a replica joins; None: there is none."""
    if replica is None:
        return Interval(low=0.0, high=0.0)
    joining = prediction.joining
    return Interval(low=finite(float(joining.low_s[replica])), high=finite(float(joining.high_s[replica])))


def interval(found: Range, seconds: float | None) -> Interval:
    """Return the interval of one time of a prediction."""
    if seconds is None:
        return Interval(low=None, high=None)
    scaled = found.scaled_to(seconds)
    return Interval(low=finite(scaled.low), high=finite(scaled.high))


def _by_cause(seconds: Seconds) -> list[CauseSeconds]:
    return [CauseSeconds(cause=cause.text, seconds=found) for cause, found in seconds.longest_first()]


def _quantile(times_s: Floats, quantile: float) -> float | None:
    """The time by which this share of replicas has joined."""
    replica = _quantile_replica(times_s, quantile)
    return 0.0 if replica is None else finite(float(times_s[replica]))


def _quantile_replica(times_s: Floats, quantile: float) -> int | None:
    """The replica with which this share has joined; None where none moves."""
    if len(times_s) == 0:
        return None
    return int(np.argsort(times_s, kind="stable")[max(0, math.ceil(quantile * len(times_s)) - 1)])


def _headroom(arrays: ClusterArrays, result: ModelResult) -> Headroom | None:
    if not np.isfinite(result.produce_headroom).any():
        return None
    worst = int(np.argmin(result.produce_headroom))
    return Headroom(
        broker=int(arrays.broker_ids[worst]),
        before=finite(float(result.produce_headroom_before[worst])),
        during=finite(float(result.produce_headroom[worst])),
    )


def _moves(arrays: ClusterArrays, prediction: Prediction) -> list[MoveRow]:
    """The last to join first."""
    result = prediction.result
    moves = result.moves
    rows = []
    for number in np.argsort(-result.joined_s, kind="stable").tolist():
        partition, source = moves.partition[number], int(moves.source[number])
        rows.append(
            MoveRow(
                topic=arrays.topic_names[arrays.topic[partition]],
                partition=int(arrays.index[partition]),
                from_broker=None if source == NO_BROKER else int(arrays.broker_ids[source]),
                to_broker=int(arrays.broker_ids[moves.target[number]]),
                wave=int(moves.wave[number]),
                first_fetch_s=finite(float(result.first_fetch_s[number])),
                joined_s=finite(float(result.joined_s[number])),
                joined_range=_joined_range(prediction, number),
                bulk_bytes=float(result.bulk_bytes[number]),
                catch_up_bytes=float(result.catch_up_bytes[number]),
                tier_bytes=float(result.tier_bytes[number]),
                obstacle=Obstacle(int(result.obstacle[number])).text,
            )
        )
    return rows


def _resources(result: ModelResult) -> list[ResourceRow]:
    """Return the resources that moves use, the fullest first."""
    touched = sorted((use for use in result.resources if use.peak > 0), key=lambda use: -use.peak_share)
    return [
        ResourceRow(
            kind=use.kind,
            owner=use.owner,
            capacity=use.capacity,
            foreground=use.foreground,
            peak=use.peak,
            peak_at_s=use.peak_at_s,
            peak_share=use.peak_share,
        )
        for use in touched
    ]


def _traffic(arrays: ClusterArrays, result: ModelResult) -> Traffic:
    timeline = result.timeline
    busy = np.maximum(timeline.into.max(axis=0), timeline.out_of.max(axis=0))
    order = np.argsort(-busy, kind="stable")
    order = order[busy[order] > 0]
    shown, others = order[:BROKERS_MAX], order[BROKERS_MAX:]
    return Traffic(
        at_s=timeline.at_s.tolist(),
        brokers=[
            BrokerTraffic(
                broker=int(arrays.broker_ids[each]),
                into=timeline.into[:, each].tolist(),
                out_of=timeline.out_of[:, each].tolist(),
            )
            for each in shown.tolist()
        ],
        others_count=len(others),
        others=BrokerTraffic(
            broker=None,
            into=timeline.into[:, others].mean(axis=1).tolist(),
            out_of=timeline.out_of[:, others].mean(axis=1).tolist(),
        )
        if len(others)
        else None,
    )
