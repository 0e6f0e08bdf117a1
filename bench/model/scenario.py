"""What is run. Calibration scenarios give the model its constants; test scenarios judge it. None is in both.

Each is the replacement of broker 2 of two: all partitions have their leader on broker 1, broker 2 is killed, wiped and
started. Of another kind it is a failover: broker 2 leads all of them, and dies; or a rebalance of two replicas each, as
`reassign plan` plans it and `reassign execute` carries it out: the last of the brokers is empty and takes its share, or
gives away all that it has, or brokers 1 and 2 have most and give some of it to the others. What differs:

    total_mb        data of the topic, in millions of bytes
    partitions
    local_share     of the data that the leader keeps on its own disk; None: all, from offset 0
    policies        the bootstrap policy of either system
    produce_mb_s    what producers write meanwhile, in millions of bytes for each second
    throttle_mb_s   of the follower, in millions of bytes for each second; None: none
    latency_ms      of every request to the tier, on top of the directory's own
    is_tiered       whether the topic has a tier at all
    kind            replacement, failover after the death of a process or of a host, or rebalance
    brokers         of the cluster; more than two for a rebalance only
    links_mb_s      of each broker's interface, either way, in millions of bytes for each second; None: loopback
    wave_partitions that may come to a broker, and leave it, in one wave of a rebalance
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from tierfetch.model import Death, Policy, System

BOUNDED_LOCAL_BYTES: Final = 4_000_000
"""The local bytes of each partition if the policy is bounded-local."""


class Kind(StrEnum):
    """What happens to broker 2, or of a rebalance to all."""

    REPLACEMENT = "replacement"
    PROCESS = "failover by process"
    HOST = "failover by host"
    ADD = "add a broker"
    REMOVE = "remove a broker"
    EVEN = "even out"

    @property
    def death(self) -> Death | None:
        return {Kind.PROCESS: Death.PROCESS, Kind.HOST: Death.HOST}.get(self)

    @property
    def is_rebalance(self) -> bool:
        return self in (Kind.ADD, Kind.REMOVE, Kind.EVEN)


class Policies(NamedTuple):
    """What an empty follower does: ours, and Apache Kafka's."""

    ours: Policy
    kafka: Policy


COPY: Final = Policies(Policy.LOCAL_LOG_START, Policy.KAFKA)
FROM_TIER: Final = Policies(Policy.TIER_FIRST, Policy.KAFKA_LAST_TIERED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """See the module."""

    name: str
    total_mb: int
    partitions: int = 4
    local_share: float | None = None
    policies: Policies = COPY
    produce_mb_s: float = 0.0
    throttle_mb_s: float | None = None
    latency_ms: int = 0
    segment_mb: int = 2
    is_tiered: bool = True
    kind: Kind = Kind.REPLACEMENT
    brokers: int = 2
    wave_partitions: int = 50
    links_mb_s: float | None = None

    def policy(self, system: System) -> Policy:
        return self.policies.ours if system == "tierfetch" else self.policies.kafka

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Scenario:
        """Build a scenario from its plain values."""
        policies = Policies(*(Policy(each) for each in document["policies"]))
        kind = Kind(document.get("kind", Kind.REPLACEMENT))
        return cls(**{**document, "policies": policies, "kind": kind})

    @property
    def grows(self) -> bool:
        """Whether a run does not leave things as it found them: each needs data of its own, and load only while it
        lasts. A rebalance has moved replicas, and producers have left more to copy.

        (Retention that holds the size would delete what a follower is about to fetch, and send it back to the start.)
        """
        if self.kind.is_rebalance:
            return True
        return self.kind is Kind.REPLACEMENT and self.produce_mb_s > 0 and not self.is_tiered

    @property
    def text(self) -> str:
        """The name; of a drawn one all that was drawn."""
        if not self.name.startswith("drawn "):
            return self.name
        parts = [] if self.kind is Kind.REPLACEMENT else [self.kind.value]
        parts += [f"{self.brokers} brokers, {self.wave_partitions} a wave"] if self.kind.is_rebalance else []
        parts += [f"{self.total_mb} MB in {self.partitions} of {self.segment_mb} MB segments"]
        if self.is_tiered:
            parts.append("tiered" if self.local_share is None else f"tiered, {self.local_share:.0%} local")
        parts += [f"{self.produce_mb_s:g} MB/s produced"] if self.produce_mb_s else []
        parts += [f"throttle {self.throttle_mb_s:g} MB/s"] if self.throttle_mb_s is not None else []
        parts += [f"tier {self.latency_ms} ms"] if self.latency_ms else []
        parts += [f"links {self.links_mb_s:g} MB/s"] if self.links_mb_s is not None else []
        return f"{self.name}: {', '.join(parts)}"

    @property
    def total_bytes(self) -> int:
        return self.total_mb * 1_000_000

    @property
    def broker_ids(self) -> range:
        return range(1, self.brokers + 1)

    @property
    def assignment(self) -> list[list[int]]:
        """The replicas of each partition before anything happens, the leader first."""
        match self.kind:
            case Kind.REPLACEMENT:
                return [[1, 2]] * self.partitions
            case Kind.PROCESS | Kind.HOST:
                return [[2, 1]] * self.partitions
            case Kind.ADD:
                return [_in_turn(each, self.brokers - 1) for each in range(self.partitions)]
            case Kind.REMOVE:
                return [_in_turn(each, self.brokers) for each in range(self.partitions)]
            case Kind.EVEN:
                return [_uneven(each, self.brokers) for each in range(self.partitions)]


def _in_turn(partition: int, brokers: int) -> list[int]:
    return [partition % brokers + 1, (partition + 1) % brokers + 1]


def _uneven(partition: int, brokers: int) -> list[int]:
    """Return two of three partitions on brokers 1 and 2, the others each on one of these and on one of the rest."""
    first = [1, 2] if partition % 2 else [2, 1]
    return first if partition % 3 else [3 + partition // 3 % (brokers - 2), first[0]]


CALIBRATION: Final = (
    Scenario(name="c-small", total_mb=24, is_tiered=False),
    Scenario(name="c-many", total_mb=16, is_tiered=False, partitions=48),
    Scenario(name="c-large", total_mb=300, is_tiered=False),
    Scenario(name="c-one", total_mb=160, is_tiered=False, partitions=1),
    Scenario(name="c-tier", total_mb=40, local_share=0.5, segment_mb=1, policies=FROM_TIER),
    Scenario(name="c-tier-many", total_mb=192, partitions=48, local_share=0.5, segment_mb=1, policies=FROM_TIER),
    Scenario(name="c-tier-slow", total_mb=40, local_share=0.5, segment_mb=1, latency_ms=400, policies=FROM_TIER),
    Scenario(name="c-produce", total_mb=150, is_tiered=False, produce_mb_s=15),
    Scenario(name="c-throttle", total_mb=150, is_tiered=False, throttle_mb_s=40),
    Scenario(name="c-waves", total_mb=24, is_tiered=False, partitions=24, kind=Kind.ADD, brokers=3, wave_partitions=3),
)

TESTS: Final = (
    Scenario(name="copy, 100 MB", total_mb=100, is_tiered=False),
    Scenario(
        name="copy, 400 MB",
        total_mb=400,
        is_tiered=False,
        partitions=6,
        policies=Policies(Policy.LOG_START, Policy.KAFKA),
    ),
    Scenario(name="copy, one partition", total_mb=200, is_tiered=False, partitions=1),
    Scenario(name="70 % local, from the local log start", total_mb=200, local_share=0.7),
    Scenario(name="70 % local, from the tier", total_mb=200, local_share=0.7, policies=FROM_TIER),
    Scenario(name="all local, the tier has it too", total_mb=200, partitions=6, policies=FROM_TIER),
    Scenario(
        name="10 % local, after a refusal",
        total_mb=200,
        partitions=8,
        local_share=0.1,
        policies=Policies(Policy.EARLIEST_PENDING_UPLOAD, Policy.KAFKA_LAST_TIERED),
    ),
    Scenario(name="24 partitions, from the tier", total_mb=200, partitions=24, local_share=0.4, policies=FROM_TIER),
    Scenario(
        name="some local records at least",
        total_mb=200,
        partitions=8,
        local_share=0.6,
        policies=Policies(Policy.BOUNDED_LOCAL, Policy.KAFKA),
    ),
    Scenario(name="producers, copy", total_mb=200, is_tiered=False, partitions=6, produce_mb_s=8),
    Scenario(name="producers, from the tier", total_mb=200, local_share=0.5, produce_mb_s=10, policies=FROM_TIER),
    Scenario(name="throttled to 25 MB/s", total_mb=120, is_tiered=False, throttle_mb_s=25),
    Scenario(name="slow tier", total_mb=160, partitions=8, local_share=0.5, latency_ms=150, policies=FROM_TIER),
)
