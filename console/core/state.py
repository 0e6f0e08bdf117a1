"""The cluster at one moment, as far as it answered.

None stands for what is not known: a broker did not answer, or its version does not support the request. What could not
be read at all is a `Problem`, which the page shows beside the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from ...light_dataclass import dataclass

Key = tuple[str, int]
"""Topic and partition index."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A part of the cluster that could not be read, and why."""

    what: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A registered broker; counts of its replicas. `seconds_left`: until its replicas are warm.

    `is_alive` is what the cluster says, `is_unreachable` what the console sees: a broker that has just died is both.
    `seen_at_s`: when it last responded to the console, in seconds since the epoch; None if it never did.
    """

    id: int
    address: str
    rack: str | None
    is_alive: bool
    is_unreachable: bool = False
    seen_at_s: float | None = None
    replicas: int
    leads: int
    out_of_sync: int
    failed: int | None = None
    thin: int | None = None
    local_bytes: int | None = None
    warming_bytes_left: int | None = None
    warming_seconds_left: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition by Metadata. `leader` is -1 where there is none."""

    topic: str
    index: int
    leader: int
    epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()

    @property
    def key(self) -> Key:
        return self.topic, self.index

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def is_hurt(self) -> bool:
        """Whether it has no leader, or a replica outside the ISR or offline."""
        return self.leader < 0 or len(self.isr) < len(self.replicas) or bool(self.offline)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """What the leader answers to ListOffsets -2, -4, -5, -6 and -1 (KIP-405, KIP-1005, KIP-1023)."""

    earliest: int | None = None
    local: int | None = None
    tiered: int | None = None
    pending: int | None = None
    latest: int | None = None

    @property
    def next_upload(self) -> int | None:
        """The next offset to be copied; None where the partition has nothing to do with a tier.

        Apache Kafka does not return it while nothing is pending: it is then the offset after the last tiered one.
        """
        if self.pending is not None:
            return self.pending
        return None if self.tiered is None else self.tiered + 1

    @property
    def copy_lag(self) -> int | None:
        """The number of offsets that are not in the tier yet, those of the active segment included."""
        if self.next_upload is None or self.latest is None:
            return None
        return max(0, self.latest - self.next_upload)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic in figures."""

    name: str
    partitions: int
    replicas: int
    out_of_sync: int
    leaderless: int


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group as its coordinator lists it."""

    id: str
    state: str
    protocol: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """One partition of a group; the names of clients are the clients' own."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag: int | None
    member: str | None
    client: str | None
    host: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """A group with its partitions. `total` None: nothing is known of any partition."""

    group: str
    state: str
    assignor: str
    total: int | None
    rows: tuple[Lag, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumReplica:
    """A voter or observer; `lag` in offsets behind the leader."""

    id: int
    role: str
    log_end_offset: int
    lag: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """The metadata quorum (DescribeQuorum)."""

    leader: int
    epoch: int
    high_watermark: int
    replicas: tuple[QuorumReplica, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A reassignment of one partition that is under way."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Wave:
    """One wave of a plan, counted from 0: its partitions by standing, in the words of `reassign status`."""

    number: int
    partitions: int
    done: int
    standings: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A plan of `tierfetch reassign`, by its journal and the cluster."""

    name: str
    doing: str
    waves: tuple[Wave, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What the model says of a broker that dies and comes back empty. `missing`: figures that were not given, by key;
    while there are any, there is no outcome. `assumed`: figures that were not given, for which an assumption stands.
    Durations are text; `seconds` has those until all replicas are in sync, by policy.
    """

    broker: int
    missing: Mapping[str, str] = field(default_factory=dict)
    outcomes: tuple[Mapping[str, str], ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    assumed: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """All that one look at the cluster found. `taken_at_s`: seconds since the epoch."""

    taken_at_s: float
    cluster_id: str = ""
    brokers: tuple[Broker, ...] = ()
    partitions: tuple[Partition, ...] = ()
    groups: tuple[Group, ...] | None = None
    quorum: Quorum | None = None
    moves: tuple[Move, ...] | None = None
    plans: tuple[Plan, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def alive(self) -> frozenset[int]:
        return frozenset(broker.id for broker in self.brokers if broker.is_alive)

    @property
    def unreachable(self) -> frozenset[int]:
        """The brokers that the cluster has as alive, and that the console cannot reach."""
        return frozenset(broker.id for broker in self.brokers if broker.is_alive and broker.is_unreachable)

    @property
    def adding(self) -> Mapping[Key, frozenset[int]]:
        """The brokers that get a replica, by partition."""
        return {(move.topic, move.partition): frozenset(move.adding) for move in self.moves or ()}


def topics_of(partitions: Sequence[Partition]) -> list[Topic]:
    """Return the topics of these partitions in figures, by name."""
    found: dict[str, list[Partition]] = {}
    for partition in partitions:
        found.setdefault(partition.topic, []).append(partition)
    return [
        Topic(
            name=name,
            partitions=len(parts),
            replicas=max(len(part.replicas) for part in parts),
            out_of_sync=sum(len(part.isr) < len(part.replicas) for part in parts),
            leaderless=sum(part.leader < 0 for part in parts),
        )
        for name, parts in sorted(found.items())
    ]
