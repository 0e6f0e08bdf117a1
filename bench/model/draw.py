"""Scenarios that are not chosen: drawn from a seed, after the constants are fixed. Pure.

    what              drawn
    ----------------  ----------------------------------------------------------------------------------------
    kind              two of nine a failover, by process or by host; three a rebalance: a broker is added, one is
                      removed, or what is uneven is evened out; else a replacement
    partitions        1 to 60, of ratios: as many draws between 1 and 8 as between 8 and 60
    total_mb          20 to 400, of ratios
    segment_mb        1 to 8
    topics            1 to 4; of several with a tier, one of three has a last one without
    is_tiered         two of three
    local_share       of a tiered topic: all, or 0.1 to 0.9
    policies          one of four pairs (ours, Apache Kafka's); of what is not tiered they all copy
    produce_mb_s      one of three, 1 to 12, where the bytes to copy do not grow from run to run
    consumes          what is produced, one of two
    throttle_mb_s     one of four, 10 to 60
    latency_ms        of a tiered topic, one of two: 5 to 300
    tier_mb_s         of a tiered topic, one of two: 4 to 40, of ratios, and at least twice what is produced
    racks             1 to 3, at most as many as brokers
    behind_mb         of a replacement with three brokers or more, where all is local, two of three: 10 to 100
    brokers           2 to 6, of a rebalance 3 to 6
    wave_partitions   of a rebalance: 2, 5 or 50
    throttle_mb_s     of a rebalance: at least two of three

What is left out is what cannot be run five times alike, not what is predicted badly. Producers on a tiered topic whose
followers copy what is local: either it grows with each run, or retention sends a follower back to its start
(docs/model-proof.md). A throttle, or a tier, below what producers write never ends. A follower that lacks more than its
leader has on disk is sent to the tier, with what it had: that is another start of a replica, which no policy is about.

A failover is of a topic that is not tiered, at most `FAILOVER_MB` large: nothing is copied, and what a broker has is
there again once it is back. A rebalance is of at least `PARTITIONS_PER_BROKER` partitions for each broker, and at most
`REBALANCE_MB` large, since each run of it has data of its own; producers take at most half of its throttle, for more
would never catch up.

Where links limit (`networks`), 6 to 12 brokers in 2 or 3 racks share their rack's uplink:

    links_mb_s        4 to 12, of ratios
    uplink_mb_s       0.4 to 2 times that, of ratios
    delay_ms          one of two, 1 to 10; of a failover none, which a relay would hide
    store_mb_s        of a tiered topic, one of two: 0.5 to 1 times a link's rate, in place of tier_mb_s
    total_mb          at most what an uplink carries in `CARRIED_S`; behind_mb a quarter of that
    produce_mb_s      at most a tenth of an uplink

The same seed always draws the same scenarios, and the first ones of a longer series are those of a shorter one.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from tierfetch.model import Policy

from .scenario import COPY, FROM_TIER, Kind, Policies, Scenario

PARTITIONS: Final = (1, 60)
TOTAL_MB: Final = (20, 400)
FAILOVER_MB: Final = 60
REBALANCE_MB: Final = 160
BROKERS: Final = (2, 6)
REBALANCE_BROKERS_MIN: Final = 3
WAVE_PARTITIONS: Final = (2, 5, 50)
PARTITIONS_PER_BROKER: Final = 2
KINDS: Final = (*[Kind.REPLACEMENT] * 4, Kind.PROCESS, Kind.HOST, Kind.ADD, Kind.REMOVE, Kind.EVEN)
SEGMENT_MB: Final = (1, 2, 4, 8)
LOCAL_SHARE: Final = (0.1, 0.9)
PRODUCE_MB_S: Final = (1.0, 12.0)
THROTTLE_MB_S: Final = (10.0, 60.0)
LATENCY_MS: Final = (5, 300)
TOPICS: Final = (1, 2, 3, 4)
TIER_MB_S: Final = (4.0, 40.0)
RACKS_ON_LOOPBACK: Final = (1, 2, 3)
BEHIND_MB: Final = (10.0, 100.0)
BEHIND_BROKERS_MIN: Final = 3
NETWORK_BROKERS: Final = (6, 12)
RACKS: Final = (2, 3)
LINKS_MB_S: Final = (4.0, 12.0)
UPLINK_SHARE: Final = (0.4, 2.0)
DELAY_MS: Final = (1.0, 10.0)
STORE_SHARE: Final = (0.5, 1.0)
CARRIED_S: Final = 20.0
BYTES_PER_PARTITION_MIN: Final = 1
"""Megabytes: less is a partition whose segment never closes."""
TIERED_PAIRS: Final = (
    COPY,
    FROM_TIER,
    Policies(Policy.EARLIEST_PENDING_UPLOAD, Policy.KAFKA_LAST_TIERED),
    Policies(Policy.BOUNDED_LOCAL, Policy.KAFKA),
)


def drawn(seed: int, count: int, *, networks: bool = False) -> list[Scenario]:
    """Return the first `count` scenarios of this seed; `networks`: where links limit."""
    found = [_drawn(seed, number) for number in range(count)]
    if not networks:
        return found
    return [_on_network(random.Random(f"{seed}/{number}/network"), each) for number, each in enumerate(found)]


def _drawn(seed: int, number: int) -> Scenario:
    plain = _scenario(random.Random(f"{seed}/{number}"), number)
    source = random.Random(f"{seed}/{number}/brokers")
    brokers, consumes = source.randint(*BROKERS), source.random() < 1 / 2 and plain.produce_mb_s > 0
    found = _of_kind(random.Random(f"{seed}/{number}/kind"), replace(plain, brokers=brokers, consumes=consumes))
    return _laid_out(random.Random(f"{seed}/{number}/layout"), found)


def _laid_out(source: random.Random, scenario: Scenario) -> Scenario:
    """Return it with topics, racks, a tier of some bandwidth, and a follower that lags."""
    topics, racks = source.choice(TOPICS), source.choice(RACKS_ON_LOOPBACK)
    is_mixed, has_rate, is_behind = (source.random() < share for share in (1 / 3, 1 / 2, 2 / 3))
    tier_mb_s, behind_mb = _of_ratios(source, *TIER_MB_S), _of_ratios(source, *BEHIND_MB)
    topics = min(topics, scenario.partitions)
    is_all_local = not scenario.is_tiered or scenario.local_share is None
    may_lag = scenario.kind is Kind.REPLACEMENT and scenario.brokers >= BEHIND_BROKERS_MIN and is_all_local
    return replace(
        scenario,
        topics=topics,
        untiered_topics=int(is_mixed and scenario.is_tiered and topics > 1),
        racks=min(racks, scenario.brokers),
        tier_mb_s=round(max(tier_mb_s, 2 * scenario.produce_mb_s), 1) if has_rate and scenario.is_tiered else None,
        behind_mb=round(behind_mb) if is_behind and may_lag else 0,
    )


def _on_network(source: random.Random, scenario: Scenario) -> Scenario:
    links_mb_s = round(_of_ratios(source, *LINKS_MB_S), 1)
    uplink_mb_s = round(links_mb_s * _of_ratios(source, *UPLINK_SHARE), 1)
    delay_ms = round(_of_ratios(source, *DELAY_MS), 1) if source.random() < 1 / 2 else 0.0
    has_store = source.random() < 1 / 2
    store_mb_s = round(links_mb_s * source.uniform(*STORE_SHARE), 1)
    brokers = source.randint(*NETWORK_BROKERS) if scenario.kind.death is None else scenario.brokers
    per_broker = PARTITIONS_PER_BROKER if scenario.kind.is_rebalance else 0
    partitions = max(scenario.partitions, brokers * per_broker)
    return replace(
        scenario,
        brokers=brokers,
        partitions=partitions,
        total_mb=max(min(scenario.total_mb, round(uplink_mb_s * CARRIED_S)), partitions * BYTES_PER_PARTITION_MIN),
        produce_mb_s=min(scenario.produce_mb_s, round(uplink_mb_s / 10, 1)),
        behind_mb=min(scenario.behind_mb, max(1, round(uplink_mb_s * CARRIED_S / 4))),
        tier_mb_s=None if has_store else scenario.tier_mb_s,
        links_mb_s=links_mb_s,
        racks=source.choice(RACKS),
        uplink_mb_s=uplink_mb_s,
        delay_ms=delay_ms if scenario.kind.death is None else 0.0,
        store_mb_s=store_mb_s if has_store and scenario.is_tiered else None,
    )


def _of_kind(source: random.Random, scenario: Scenario) -> Scenario:
    kind = source.choice(KINDS)
    if kind is Kind.REPLACEMENT:
        return scenario
    if kind.is_rebalance:
        return _rebalance(source, scenario, kind)
    return replace(
        scenario,
        kind=kind,
        total_mb=min(scenario.total_mb, max(FAILOVER_MB, scenario.partitions * BYTES_PER_PARTITION_MIN)),
        local_share=None,
        policies=COPY,
        throttle_mb_s=None,
        latency_ms=0,
        is_tiered=False,
    )


def _rebalance(source: random.Random, scenario: Scenario, kind: Kind) -> Scenario:
    brokers = max(scenario.brokers, REBALANCE_BROKERS_MIN)
    partitions = max(scenario.partitions, brokers * PARTITIONS_PER_BROKER)
    throttle_mb_s = scenario.throttle_mb_s
    if source.random() < 2 / 3:
        throttle_mb_s = throttle_mb_s or round(_of_ratios(source, *THROTTLE_MB_S), 1)
    if throttle_mb_s is not None:
        throttle_mb_s = max(throttle_mb_s, round(2 * scenario.produce_mb_s, 1))
    return replace(
        scenario,
        kind=kind,
        brokers=brokers,
        wave_partitions=source.choice(WAVE_PARTITIONS),
        partitions=partitions,
        total_mb=max(min(scenario.total_mb, REBALANCE_MB), partitions * BYTES_PER_PARTITION_MIN),
        throttle_mb_s=throttle_mb_s,
    )


def _scenario(source: random.Random, number: int) -> Scenario:
    partitions = round(_of_ratios(source, *PARTITIONS))
    total_mb = max(round(_of_ratios(source, *TOTAL_MB)), partitions * BYTES_PER_PARTITION_MIN)
    is_tiered = source.random() < 2 / 3
    local_share = round(source.uniform(*LOCAL_SHARE), 2) if is_tiered and source.random() < 2 / 3 else None
    policies = source.choice(TIERED_PAIRS) if is_tiered else COPY
    is_alike = not is_tiered or (local_share is not None and policies is FROM_TIER)
    produces = source.random() < 1 / 3 and is_alike
    produce_mb_s = round(_of_ratios(source, *PRODUCE_MB_S), 1) if produces else 0.0
    throttle_mb_s = round(_of_ratios(source, *THROTTLE_MB_S), 1) if source.random() < 1 / 4 else None
    if throttle_mb_s is not None and throttle_mb_s < 2 * produce_mb_s:
        throttle_mb_s = 2 * produce_mb_s
    latency_ms = round(_of_ratios(source, *LATENCY_MS)) if is_tiered and source.random() < 1 / 2 else 0
    return Scenario(
        name=f"drawn {number + 1}",
        total_mb=total_mb,
        partitions=partitions,
        local_share=local_share,
        policies=policies,
        produce_mb_s=produce_mb_s,
        throttle_mb_s=throttle_mb_s,
        latency_ms=latency_ms,
        segment_mb=source.choice(SEGMENT_MB),
        is_tiered=is_tiered,
    )


def _of_ratios(source: random.Random, low: float, high: float) -> float:
    return float(low * (high / low) ** source.random())
