"""A cluster of which the model and the simulation are asked the same: how long until every replica is in sync? Pure.

What a simulated machine does takes no time: links, disks and the order of requests are all that there is. So the
model's constants are those of such machines (`witness.calibrated`), and its CPUs are free. Interfaces differ from
broker to broker by `NIC_SHARES`, drawn from the case's name, so that the share of one connection depends on the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from random import Random
from typing import Final

from tierfetch.model import Calibration, ClusterArrays, Inventory, Moves, Policy, Prediction, predict, replacement_moves
from tierfetch.planning import Goal, PlanFile, PlanOptions, plan_file_of, plan_replicas

TOPIC: Final = "witness"
NIC_SHARES: Final = (1.0, 0.5, 0.25)
PLENTY: Final = 1e15
NO_THROTTLE: Final = 1e12
POLICY: Final = Policy.LOCAL_LOG_START


class Kind(StrEnum):
    """What happens to the cluster."""

    REPLACE = "replace"
    ADD = "add"


@dataclass(frozen=True)
class Case:
    """`changed` brokers, the last ones, lose their disks, or come to the others as empty ones, replicas being moved to
    them `wave_partitions` at a time. Rates in 10^6 bytes for each second; `disk_mb_s` None: no limit.
    """

    kind: Kind
    brokers: int
    partitions: int
    partition_kb: int
    nic_mb_s: float
    disk_mb_s: float | None = None
    changed: int = 1
    wave_partitions: int = 50
    replication: int = 3

    @property
    def name(self) -> str:
        disk = "" if self.disk_mb_s is None else f", disks {self.disk_mb_s:g} MB/s"
        what = f"{self.kind} {self.changed} of {self.brokers}"
        waves = f", {self.wave_partitions} a wave" if self.kind is Kind.ADD else ""
        size = f"{self.partitions:,} partitions of {self.partition_kb} kB"
        return f"{what}, {size}{waves}, links {self.nic_mb_s:g} MB/s{disk}"

    @property
    def broker_ids(self) -> range:
        return range(1, self.brokers + 1)

    @property
    def changed_ids(self) -> range:
        return self.broker_ids[-self.changed :]

    @property
    def partition_bytes(self) -> int:
        return self.partition_kb * 1_000

    @cached_property
    def assignment(self) -> list[list[int]]:
        """The replicas of each partition, the leader first: in turn, at distances that change from round to round. Of
        each there is one on a broker that does not change.
        """
        ids = self.broker_ids if self.kind is Kind.REPLACE else self.broker_ids[: -self.changed]
        count = len(ids)
        assert count >= self.replication, "a replica needs a broker of its own"
        found = []
        for partition in range(self.partitions):
            step = 1 + partition // count % (count - 1)
            places = [partition % count]
            while len(places) < self.replication:
                place = (places[-1] + step) % count
                while place in places:
                    place = (place + 1) % count
                places.append(place)
            replicas = [ids[place] for place in places]
            if set(replicas) <= set(self.changed_ids):
                replicas[-1] = ids[0]
            found.append(replicas)
        return found

    @cached_property
    def nic_bytes_per_s(self) -> dict[int, float]:
        """The rate of each broker, either direction. Brokers that change have all of it."""
        rng = Random(self.name)
        shares = {broker: rng.choice(NIC_SHARES) for broker in self.broker_ids}
        return {
            broker: self.nic_mb_s * 1e6 * (1.0 if broker in self.changed_ids else share)
            for broker, share in shares.items()
        }

    def inventory(self, partition_bytes: float) -> Inventory:
        """The cluster as the model gets it; `partition_bytes` are what a partition has on disk."""
        disk = PLENTY if self.disk_mb_s is None else self.disk_mb_s * 1e6
        rates = self.nic_bytes_per_s
        return Inventory.from_document(
            {
                "version": 1,
                "name": self.name,
                "broker_defaults": {
                    "disk_read_bytes_per_s": PLENTY,
                    "disk_write_bytes_per_s": disk,
                    "cores": 10_000,
                    "disk_bytes": PLENTY,
                },
                "brokers": [
                    {"id": each, "nic_in_bytes_per_s": rates[each], "nic_out_bytes_per_s": rates[each]}
                    for each in self.broker_ids
                ],
                "bootstrap_policy": POLICY.value,
                "topics": [
                    {
                        "name": TOPIC,
                        "partitions": [
                            {"index": number, "replicas": replicas, "size_bytes": partition_bytes}
                            for number, replicas in enumerate(self.assignment)
                        ],
                    }
                ],
            }
        )


@dataclass(frozen=True, slots=True)
class Asked:
    """What moves, and what the model says of it. `plan` None: brokers are replaced."""

    moves: Moves
    plan: PlanFile | None
    prediction: Prediction


def ask(case: Case, partition_bytes: float, calibration: Calibration) -> Asked:
    """Ask the model, before anything is simulated."""
    arrays = ClusterArrays.from_inventory(case.inventory(partition_bytes))
    changed = [arrays.broker_index(each) for each in case.changed_ids]
    if case.kind is Kind.REPLACE:
        moves = replacement_moves(arrays, *changed)
        return Asked(moves, None, predict(arrays, moves, POLICY, calibration))
    options = PlanOptions(policy=POLICY, throttle_bytes_per_s=NO_THROTTLE, partitions_per_broker=case.wave_partitions)
    plan = plan_replicas(arrays, Goal.add(changed), options)
    return Asked(plan.moves, plan_file_of(arrays, plan), predict(arrays, plan.moves, POLICY, calibration))


SMALL: Final = (
    Case(Kind.REPLACE, brokers=6, partitions=120, partition_kb=200, nic_mb_s=1),
    Case(Kind.REPLACE, brokers=6, partitions=120, partition_kb=200, nic_mb_s=4, disk_mb_s=0.5),
    Case(Kind.ADD, brokers=6, partitions=120, partition_kb=200, nic_mb_s=1, wave_partitions=10),
    Case(Kind.REPLACE, brokers=12, partitions=300, partition_kb=100, nic_mb_s=1),
    Case(Kind.REPLACE, brokers=12, partitions=300, partition_kb=100, nic_mb_s=1, changed=3),
    Case(Kind.ADD, brokers=12, partitions=300, partition_kb=100, nic_mb_s=1, changed=2, wave_partitions=10),
)
LARGE: Final = (
    Case(Kind.REPLACE, brokers=50, partitions=1_000, partition_kb=50, nic_mb_s=1),
    Case(Kind.REPLACE, brokers=50, partitions=3_000, partition_kb=20, nic_mb_s=1, changed=5),
    Case(Kind.ADD, brokers=50, partitions=1_000, partition_kb=50, nic_mb_s=1, changed=5, wave_partitions=10),
)
LARGEST: Final = (
    Case(Kind.REPLACE, brokers=200, partitions=4_000, partition_kb=50, nic_mb_s=1, changed=5),
    Case(Kind.ADD, brokers=200, partitions=4_000, partition_kb=50, nic_mb_s=1, changed=5, wave_partitions=20),
)
"""Where no test machine reaches."""
