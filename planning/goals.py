"""What a plan is for. Brokers are indexes of `ClusterArrays`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Self

from ..light_dataclass import dataclass
from ..model import Policy
from ..protocol import OperatorError


class PlanError(OperatorError, ValueError):
    """No plan can be made; the message names the broker or partition, and what would help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """`leaving` brokers hold nothing afterwards; `successors[b]` takes over what `b` has, wherever racks allow it.
    `joining` brokers alone receive what is moved for balance; empty with `balances`: any broker may. `closed` ones
    (dead, say) keep what they have, and take nothing.
    """

    leaving: frozenset[int] = frozenset()
    successors: Mapping[int, int] = field(default_factory=dict)
    joining: frozenset[int] = frozenset()
    balances: bool = False
    closed: frozenset[int] = frozenset()

    @classmethod
    def replace(cls, successors: Mapping[int, int]) -> Self:
        """Each key's replicas go to its value; nothing else moves."""
        return cls(leaving=frozenset(successors), successors=dict(successors))

    @classmethod
    def remove(cls, brokers: Iterable[int]) -> Self:
        """These give away everything, to the others evenly; nothing else moves."""
        return cls(leaving=frozenset(brokers))

    @classmethod
    def add(cls, brokers: Iterable[int]) -> Self:
        """These take their share; nothing moves between the others."""
        return cls(joining=frozenset(brokers), balances=True)

    @classmethod
    def rebalance(cls) -> Self:
        """From brokers above the tolerance to brokers below."""
        return cls(balances=True)

    def check(self, broker_count: int) -> None:
        """PlanError for what cannot be."""
        named = {*self.leaving, *self.successors.values(), *self.joining}
        assert all(0 <= broker < broker_count for broker in named), (named, broker_count)
        if set(self.successors.values()) & self.leaving:
            raise PlanError("a broker that leaves cannot replace another one")
        if self.joining & self.leaving:
            raise PlanError("a broker cannot be added and removed at once")
        if named_closed := self.closed & {*self.successors.values(), *self.joining}:
            raise PlanError(f"{len(named_closed)} of the brokers that should get replicas are not alive")
        if len(self.leaving | self.closed) == broker_count:
            raise PlanError("all brokers would leave: no broker would hold a replica")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """Tolerances are shares of the mean: with 0.1 a broker between 90 % and 110 % of its share is left alone.

    `policy` says what a new replica copies, None: the cluster's. `throttle_bytes_per_s` None: what is left when
    producers and consumers have grown by the share `headroom`. `wave_s` is how long a wave may take a broker;
    `partitions_per_broker` and `partitions_per_wave` may be under way. `tier_first`: leaders roll and tier before
    (tier_first.py), segments then being `roll_s` old at most.
    """

    policy: Policy | None = None
    replica_tolerance: float = 0.1
    disk_tolerance: float = 0.1
    leader_tolerance: float = 0.1
    balances_leaders: bool = True
    repairs_racks: bool = False
    throttle_bytes_per_s: float | None = None
    headroom: float = 0.25
    wave_s: float = 600.0
    partitions_per_broker: int = 50
    partitions_per_wave: int = 2000
    tier_first: bool = False
    roll_s: float = 60.0
