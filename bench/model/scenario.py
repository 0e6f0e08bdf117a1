"""What is run. Calibration scenarios give the model its constants; test scenarios judge it. None is in both.

Each is the replacement of broker 2: all partitions have their leader on another broker, broker 2 is killed, wiped and
started. Of another kind it is a failover: broker 2 leads all of them, and dies; or a rebalance of two replicas each, as
`reassign plan` plans it and `reassign execute` carries it out: the last of the brokers is empty and takes its share, or
gives away all that it has, or brokers 1 and 2 have most and give some of it to the others. What differs:

    total_mb        data of all topics, in millions of bytes
    partitions      of all topics
    topics          that these are in, as evenly as can be, one topic after the other
    untiered_topics how many of them, the last ones, have no tier though the others do
    local_share     of the data that the leader keeps on its own disk; None: all, from offset 0
    policies        the bootstrap policy of either system
    produce_mb_s    what producers write meanwhile, in millions of bytes for each second
    consumes        whether consumers read all of that as it comes
    throttle_mb_s   of the follower, in millions of bytes for each second; None: none
    latency_ms      of every request to the tier, on top of the directory's own
    tier_mb_s       that all brokers together get through to the tier and from it, in millions of bytes for each second;
                    None: what a directory gives
    is_tiered       whether there is a tier at all
    kind            replacement, failover after the death of a process or of a host, or rebalance
    brokers         of the cluster; of a replacement with more than two, the others lead in turn; of a failover, those
                    beside 1 and 2 hold nothing, and make it most that live on
    behind_mb       that the last broker, which follows everything, has not copied yet when broker 2 starts; it is out
                    of sync, and copies them meanwhile. Of a replacement with three brokers or more
    links_mb_s      of each broker's interface, either way, in millions of bytes for each second; None: loopback
    racks           that brokers are in, in turn; on loopback a partition has its replicas in two of them, apart from
                    the one that lags
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
from tierfetch.protocol import TopicPartition

from ..lab.topology import Topology

REPLACED: Final = 2
CONTROLLER: Final = 100
CLIENTS: Final = 200
STORE: Final = 201
"""Nodes of a network that are no brokers."""
RACK_NAMES: Final = "abcdef"
TOPIC_ENDINGS: Final = ("", "-b", "-c", "-d")
"""What the names of a scenario's topics have after what they begin with, which has no dash."""
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


def ending_of(topic: str) -> str:
    """Return what a topic's name has after what all topics of its scenario begin with."""
    return "".join(topic.partition("-")[1:])


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
    topics: int = 1
    untiered_topics: int = 0
    local_share: float | None = None
    policies: Policies = COPY
    produce_mb_s: float = 0.0
    consumes: bool = False
    throttle_mb_s: float | None = None
    latency_ms: int = 0
    tier_mb_s: float | None = None
    segment_mb: int = 2
    is_tiered: bool = True
    kind: Kind = Kind.REPLACEMENT
    brokers: int = 2
    wave_partitions: int = 50
    behind_mb: int = 0
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
        lasts. A rebalance has moved replicas, producers have left more to copy, and who lagged no longer does.

        (Retention that holds the size would delete what a follower is about to fetch, and send it back to the start.)
        """
        if self.kind.is_rebalance:
            return True
        is_more = self.produce_mb_s > 0 and (not self.is_tiered or self.untiered_topics > 0)
        return self.kind is Kind.REPLACEMENT and (is_more or self.behind_mb > 0)

    @property
    def text(self) -> str:
        """The name; of a drawn one all that was drawn."""
        if not self.name.startswith("drawn "):
            return self.name
        parts = [] if self.kind is Kind.REPLACEMENT else [self.kind.value]
        waves = f", {self.wave_partitions} a wave" if self.kind.is_rebalance else ""
        parts += [f"{self.brokers} brokers{waves}"] if self.brokers > len((1, REPLACED)) else []
        parts += [f"{self.total_mb} MB in {self.partitions} of {self.segment_mb} MB segments"]
        parts += [f"{self.topics} topics"] if self.topics > 1 else []
        if self.is_tiered:
            but = " but for one topic" if self.untiered_topics else ""
            parts.append(f"tiered{but}" if self.local_share is None else f"tiered{but}, {self.local_share:.0%} local")
        read = " and consumed" if self.consumes else ""
        parts += [f"{self.produce_mb_s:g} MB/s produced{read}"] if self.produce_mb_s else []
        parts += [f"throttle {self.throttle_mb_s:g} MB/s"] if self.throttle_mb_s is not None else []
        parts += [f"tier {self.latency_ms} ms"] if self.latency_ms else []
        parts += [f"tier {self.tier_mb_s:g} MB/s"] if self.tier_mb_s is not None else []
        parts += [f"broker {self.brokers} lags by {self.behind_mb} MB"] if self.behind_mb else []
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
        racks = self.rack_of
        uplink = _bytes_per_s(self.uplink_mb_s)
        others = {CONTROLLER: None, CLIENTS: None, STORE: _bytes_per_s(self.store_mb_s)}
        return Topology(
            links={**dict.fromkeys(self.broker_ids, _bytes_per_s(self.links_mb_s)), **others},
            racks=racks,
            uplinks=dict.fromkeys(racks.values(), uplink),
            delay_s=self.delay_ms / 1000,
        )

    @property
    def rack_of(self) -> dict[int, str]:
        """The rack of each broker; empty where there is only one."""
        return {each: RACK_NAMES[(each - 1) % self.racks] for each in self.broker_ids} if self.racks > 1 else {}

    @property
    def total_bytes(self) -> int:
        return self.total_mb * 1_000_000

    @property
    def broker_ids(self) -> range:
        return range(1, self.brokers + 1)

    @property
    def laggard(self) -> int | None:
        """The broker that lags."""
        assert not self.behind_mb or (self.kind is Kind.REPLACEMENT and self.brokers > REPLACED), self.name
        return self.brokers if self.behind_mb else None

    # --- where things are -------------------------------------------------------------------------------------------

    def topic_names(self, prefix: str) -> list[str]:
        """Return the names of its topics."""
        assert self.partitions >= self.topics > self.untiered_topics, self.name
        return [f"{prefix}{ending}" for ending in TOPIC_ENDINGS[: self.topics]]

    def has_tier(self, topic: str) -> bool:
        """Return whether the topic of this name is tiered."""
        return self.is_tiered and TOPIC_ENDINGS.index(ending_of(topic)) < self.topics - self.untiered_topics

    def layout(self, prefix: str) -> dict[TopicPartition, list[int]]:
        """Return the replicas of each partition before anything happens, the leader first."""
        names = self.topic_names(prefix)
        found: dict[TopicPartition, list[int]] = {}
        for number, replicas in enumerate(self.assignment):
            topic = number * self.topics // self.partitions
            first = -(-topic * self.partitions // self.topics)
            found[TopicPartition(names[topic], number - first)] = replicas
        return found

    def by_topic(self, prefix: str) -> dict[str, list[list[int]]]:
        """Return the same for each topic, in the order of its partitions."""
        found: dict[str, list[list[int]]] = {}
        for place, replicas in self.layout(prefix).items():
            found.setdefault(place.topic, []).append(replicas)
        return found

    @property
    def assignment(self) -> list[list[int]]:
        """The replicas of each partition before anything happens, over all topics."""
        match self.kind:
            case Kind.REPLACEMENT:
                leaders, behind = self._leaders, [] if self.laggard is None else [self.laggard]
                return [[leaders[each % len(leaders)], REPLACED, *behind] for each in range(self.partitions)]
            case Kind.PROCESS | Kind.HOST:
                return [[2, 1]] * self.partitions
            case Kind.ADD:
                return [self._in_turn(each, self.brokers - 1) for each in range(self.partitions)]
            case Kind.REMOVE:
                return [self._in_turn(each, self.brokers) for each in range(self.partitions)]
            case Kind.EVEN:
                return [self._uneven(each) for each in range(self.partitions)]

    @property
    def _leaders(self) -> list[int]:
        """The brokers that lead what broker 2 follows."""
        others = [each for each in self.broker_ids if each not in (REPLACED, self.laggard)]
        return [each for each in others if self._are_apart(each, REPLACED)]

    def _are_apart(self, one: int, other: int) -> bool:
        """Return whether these brokers may hold one partition. Where links limit, flows within racks are wanted too."""
        return self.links_mb_s is not None or not self.rack_of or self.rack_of[one] != self.rack_of[other]

    def _in_turn(self, partition: int, brokers: int) -> list[int]:
        first = partition % brokers + 1
        following = ((partition + step) % brokers + 1 for step in range(1, brokers))
        return [first, next(each for each in following if self._are_apart(first, each))]

    def _uneven(self, partition: int) -> list[int]:
        """Return two of three partitions on brokers 1 and 2, the others each on one of these and on one of the rest."""
        first = [1, 2] if partition % 2 else [2, 1]
        if partition % 3:
            return first
        other = 3 + partition // 3 % (self.brokers - 2)
        return [other, next(each for each in first if self._are_apart(other, each))]


def _bytes_per_s(mb_s: float | None) -> float | None:
    return None if mb_s is None else mb_s * 1e6


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
