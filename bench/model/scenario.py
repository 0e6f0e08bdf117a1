"""What is run. Calibration scenarios give the model its constants; test scenarios judge it. None is in both.

Each is the replacement of broker 2: all partitions have their leader on another broker, broker 2 is killed, wiped and
started. Of another kind it is a failover: broker 2 leads all of them, and dies; or a rebalance of two replicas each, as
`reassign plan` plans it and `reassign execute` carries it out: the last of the brokers is empty and takes its share, or
gives away all that it has, or brokers 1 and 2 have most and give some of it to the others. What differs:

    total_mb        data of the topic, in millions of bytes
    partitions
    local_share     of the data that the leader keeps on its own disk; None: all, from offset 0
    policies        the bootstrap policy of either system
    produce_mb_s    what producers write meanwhile, in millions of bytes for each second
    consumes        whether consumers read all of that as it comes
    throttle_mb_s   of the follower, in millions of bytes for each second; None: none
    latency_ms      of every request to the tier, on top of the directory's own
    is_tiered       whether the topic has a tier at all
    kind            replacement, failover after the death of a process or of a host, or rebalance
    brokers         of the cluster; of a replacement with more than two, the others lead in turn; of a failover, those
                    beside 1 and 2 hold nothing, and make it most that live on
    links_mb_s      of each broker's interface, either way, in millions of bytes for each second; None: loopback
    racks           that brokers are in, in turn; with links only
    uplink_mb_s     that all brokers of a rack share, either way; None: no limit
    delay_ms        one way, between brokers of two racks
    store_mb_s      of the link of the tier, which is then an S3 server (tierfetch's; Apache Kafka brings no plugin for
                    one, and keeps the directory); None: a directory that all brokers see
    wave_partitions that may come to a broker, and leave it, in one wave of a rebalance
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from tierfetch.model import Death, Policy, System

from ..lab.topology import Topology

REPLACED: Final = 2
CONTROLLER: Final = 100
CLIENTS: Final = 200
STORE: Final = 201
"""Nodes of a network that are no brokers."""
RACK_NAMES: Final = "abcdef"
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
    consumes: bool = False
    throttle_mb_s: float | None = None
    latency_ms: int = 0
    segment_mb: int = 2
    is_tiered: bool = True
    kind: Kind = Kind.REPLACEMENT
    brokers: int = 2
    wave_partitions: int = 50
    links_mb_s: float | None = None
    racks: int = 1
    uplink_mb_s: float | None = None
    delay_ms: float = 0.0
    store_mb_s: float | None = None

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
        waves = f", {self.wave_partitions} a wave" if self.kind.is_rebalance else ""
        parts += [f"{self.brokers} brokers{waves}"] if self.brokers > len((1, REPLACED)) else []
        parts += [f"{self.total_mb} MB in {self.partitions} of {self.segment_mb} MB segments"]
        if self.is_tiered:
            parts.append("tiered" if self.local_share is None else f"tiered, {self.local_share:.0%} local")
        read = " and consumed" if self.consumes else ""
        parts += [f"{self.produce_mb_s:g} MB/s produced{read}"] if self.produce_mb_s else []
        parts += [f"throttle {self.throttle_mb_s:g} MB/s"] if self.throttle_mb_s is not None else []
        parts += [f"tier {self.latency_ms} ms"] if self.latency_ms else []
        return f"{self.name}: {', '.join([*parts, *self._network_parts()])}"

    def _network_parts(self) -> Iterator[str]:
        if self.links_mb_s is not None:
            yield f"links {self.links_mb_s:g} MB/s"
        if self.racks > 1:
            yield f"{self.racks} racks"
        if self.uplink_mb_s is not None:
            yield f"uplinks {self.uplink_mb_s:g} MB/s"
        if self.delay_ms:
            yield f"{self.delay_ms:g} ms between racks"
        if self.store_mb_s is not None:
            yield f"store {self.store_mb_s:g} MB/s"

    @property
    def topology(self) -> Topology | None:
        """The network that it runs in; None: loopback. Controllers, clients and the store have places of their own."""
        if self.links_mb_s is None:
            return None
        racks = {each: RACK_NAMES[(each - 1) % self.racks] for each in self.broker_ids} if self.racks > 1 else {}
        uplink = _bytes_per_s(self.uplink_mb_s)
        others = {CONTROLLER: None, CLIENTS: None, STORE: _bytes_per_s(self.store_mb_s)}
        return Topology(
            links={**dict.fromkeys(self.broker_ids, _bytes_per_s(self.links_mb_s)), **others},
            racks=racks,
            uplinks=dict.fromkeys(racks.values(), uplink),
            delay_s=self.delay_ms / 1000,
        )

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
                others = [each for each in self.broker_ids if each != REPLACED]
                return [[others[each % len(others)], REPLACED] for each in range(self.partitions)]
            case Kind.PROCESS | Kind.HOST:
                return [[2, 1]] * self.partitions
            case Kind.ADD:
                return [_in_turn(each, self.brokers - 1) for each in range(self.partitions)]
            case Kind.REMOVE:
                return [_in_turn(each, self.brokers) for each in range(self.partitions)]
            case Kind.EVEN:
                return [_uneven(each, self.brokers) for each in range(self.partitions)]


def _bytes_per_s(mb_s: float | None) -> float | None:
    return None if mb_s is None else mb_s * 1e6


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

NETWORKS: Final = (
    Scenario(
        name="6 brokers in 2 racks, copy",
        total_mb=60,
        partitions=15,
        is_tiered=False,
        brokers=6,
        links_mb_s=8,
        racks=2,
        uplink_mb_s=4,
    ),
    Scenario(
        name="6 brokers in 3 racks, 5 ms apart, copy",
        total_mb=60,
        partitions=15,
        is_tiered=False,
        brokers=6,
        links_mb_s=8,
        racks=3,
        uplink_mb_s=4,
        delay_ms=5,
    ),
    Scenario(
        name="12 brokers in 3 racks, producers, copy",
        total_mb=88,
        partitions=22,
        is_tiered=False,
        produce_mb_s=1,
        brokers=12,
        links_mb_s=6,
        racks=3,
        uplink_mb_s=4,
    ),
    Scenario(
        name="6 brokers in 2 racks, the store at its own link",
        total_mb=60,
        partitions=10,
        local_share=0.5,
        segment_mb=1,
        brokers=6,
        links_mb_s=8,
        racks=2,
        uplink_mb_s=4,
        store_mb_s=4,
    ),
)
"""Where links limit: as much slower than those of machines as two cores are slower than all of theirs."""

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
