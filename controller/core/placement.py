"""Where new replicas go: in stripes over racks, and over the brokers of each rack, as Kafka's StripedReplicaPlacer.

* The first replica of each partition, its preferred leader, is on an unfenced broker; the others are too, as far as
  there are enough of them in their rack, and only then on fenced ones.
* Partition by partition the first rack moves on by one, and within each rack the first broker does, so that leaders
  and replicas spread evenly; the replicas of one partition take the racks in turn.
* After as many partitions as there are unfenced brokers everything is shuffled, so that the same brokers do not always
  share partitions.
* Brokers all of whose directories are cordoned, or that are stopping, get nothing.

A broker without a rack is in the rack None.
"""

from __future__ import annotations

from collections.abc import Collection, MutableSequence, Sequence
from dataclasses import field
from typing import ClassVar, Final, NamedTuple, Protocol, TypeVar

from ...light_dataclass import dataclass
from ...plugin_options import PluginConfig
from ...protocol import ErrorCode, KafkaError
from ..image.registrations import BrokerRegistration

_Item = TypeVar("_Item")


class RandomSource(Protocol):
    """What decisions need of `random.Random`."""

    def shuffle(self, x: MutableSequence[_Item], /) -> None: ...
    def randrange(self, start: int, /) -> int: ...
    def getrandbits(self, k: int, /) -> int: ...


class PlaceableBroker(NamedTuple):
    """A broker that may be given a replica. `is_fenced`: it does not serve now, and may not come first."""

    broker_id: int
    rack: str | None
    is_fenced: bool


class Placer(Protocol):
    """Where the replicas of one request go: its topics one after the other."""

    def place(self, partitions: int, replication_factor: int) -> Sequence[Sequence[int]]:
        """Return the replicas of so many new partitions, the preferred leader first. Raise KafkaError to refuse."""


class ReplicaPlacement(Protocol):
    """The port: where new replicas go. It decides on the event loop of the active controller, and must not block."""

    def placer(self, brokers: Sequence[PlaceableBroker], random: RandomSource) -> Placer:
        """Return the placer of one request. `brokers` have room and are not stopping; they come in the order of ids."""


def placer_for(placement: ReplicaPlacement, brokers: Collection[BrokerRegistration], random: RandomSource) -> Placer:
    """Return the placer of a request, over the brokers that may be given replicas now."""
    usable = [broker for broker in brokers if broker.is_placeable and not broker.in_controlled_shutdown]
    return placement.placer(
        [
            PlaceableBroker(broker.broker_id, broker.rack, broker.fenced)
            for broker in sorted(usable, key=lambda broker: broker.broker_id)
        ],
        random,
    )


def check_brokers(brokers: Collection[PlaceableBroker], replication_factor: int) -> None:
    """Raise INVALID_REPLICATION_FACTOR if there are too few brokers."""
    if not brokers:
        raise KafkaError(
            ErrorCode.invalid_replication_factor,
            "no broker can take a replica now: none is registered, or they are stopping, or all of their"
            " directories are cordoned",
        )
    if all(broker.is_fenced for broker in brokers):
        raise KafkaError(
            ErrorCode.invalid_replication_factor,
            f"no broker can take a replica now: all of the {len(brokers)} that may are fenced: they are starting,"
            " or sent no heartbeat for a session",
        )
    if replication_factor > len(brokers):
        raise KafkaError(
            ErrorCode.invalid_replication_factor,
            f"replication factor {replication_factor} needs as many brokers, but only {len(brokers)} are"
            " registered that can take replicas: add brokers or lower it",
        )


def broken_placement(
    placed: Sequence[Sequence[int]], brokers: Collection[PlaceableBroker], partitions: int, replication_factor: int
) -> str | None:
    """Return which rule of a placement is broken, None if it is right."""
    by_id = {broker.broker_id: broker for broker in brokers}
    if len(placed) != partitions:
        return f"{len(placed)} partitions in place of {partitions}"
    for replicas in placed:
        if len(replicas) != replication_factor or len(set(replicas)) != replication_factor:
            return f"replicas {list(replicas)} in place of {replication_factor} different ones"
        if not by_id.keys() >= set(replicas):
            return f"replicas {list(replicas)}, which are not all brokers that may be given one ({sorted(by_id)})"
        if by_id[replicas[0]].is_fenced:
            return f"replicas {list(replicas)}, whose first broker is fenced"
    return None


_NO_OPTIONS: Final = PluginConfig()


@dataclass(slots=True)
class _Stripe:
    """Brokers of a rack, all fenced or all not, given out in turn; each at most once within an epoch."""

    brokers: list[int]
    offset: int = 0
    taken: int = 0
    epoch: int = -1

    def next(self, epoch: int) -> int | None:
        if epoch != self.epoch:
            self.epoch, self.taken = epoch, 0
            self.offset += 1
        if self.taken >= len(self.brokers):
            return None
        self.taken += 1
        return self.brokers[(self.offset + self.taken - 1) % len(self.brokers)]


@dataclass(slots=True)
class _Rack:
    unfenced: _Stripe = field(default_factory=lambda: _Stripe([]))
    fenced: _Stripe = field(default_factory=lambda: _Stripe([]))

    def next(self, epoch: int) -> int | None:
        broker_id = self.unfenced.next(epoch)
        return self.fenced.next(epoch) if broker_id is None else broker_id


class ReplicaPlacer:
    """Places partition after partition on the same set of brokers."""

    def __init__(self, brokers: Sequence[PlaceableBroker], random: RandomSource) -> None:
        self._random = random
        racks: dict[str | None, _Rack] = {}
        for broker in brokers:
            rack = racks.setdefault(broker.rack, _Rack())
            (rack.fenced if broker.is_fenced else rack.unfenced).brokers.append(broker.broker_id)
        self._racks = [racks[name] for name in sorted(racks, key=lambda name: (name is not None, name or ""))]
        self._brokers = brokers
        self._unfenced = sum(not broker.is_fenced for broker in brokers)
        self._epoch = 0
        self._first_rack = 0
        self._shuffle()

    def place(self, partitions: int, replication_factor: int) -> list[tuple[int, ...]]:
        """Replicas of so many new partitions. INVALID_REPLICATION_FACTOR if there are too few brokers."""
        check_brokers(self._brokers, replication_factor)
        return [self._place_one(replication_factor) for _ in range(partitions)]

    def _place_one(self, replication_factor: int) -> tuple[int, ...]:
        if self._epoch == self._unfenced:
            self._shuffle()
        start = self._first_rack % len(self._racks)
        leader_rack = start
        leader = self._racks[leader_rack].unfenced.next(self._epoch)
        while leader is None:
            leader_rack = (leader_rack + 1) % len(self._racks)
            assert leader_rack != start, (self._epoch, self._unfenced)
            leader = self._racks[leader_rack].unfenced.next(self._epoch)
        replicas = [leader]
        rack = (leader_rack + 1) % len(self._racks)
        while len(replicas) < replication_factor:
            broker_id = self._racks[rack].next(self._epoch)
            rack = (rack + 1) % len(self._racks)
            if broker_id is not None:
                replicas.append(broker_id)
        self._epoch += 1
        self._first_rack += 1
        return tuple(replicas)

    def _shuffle(self) -> None:
        """A new round: another order of racks and brokers. The epoch of every stripe ends."""
        self._random.shuffle(self._racks)
        for rack in self._racks:
            for stripe in (rack.unfenced, rack.fenced):
                self._random.shuffle(stripe.brokers)
                stripe.offset, stripe.epoch = 0, -1
        self._epoch = 0


@dataclass(frozen=True, slots=True)
class StripedPlacement:
    """Replicas go in stripes over racks and brokers, as Kafka's StripedReplicaPlacer places them."""

    Config: ClassVar = PluginConfig
    config: PluginConfig = _NO_OPTIONS

    def placer(self, brokers: Sequence[PlaceableBroker], random: RandomSource) -> Placer:
        return ReplicaPlacer(brokers, random)
