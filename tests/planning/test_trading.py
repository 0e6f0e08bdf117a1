"""A dear move is traded for a light one and heavier, cheap ones of other givers; numbers and bands are kept."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tierfetch.planning.goals import Goal
from tierfetch.planning.placement import Indexes, Placement
from tierfetch.planning.refining.trading import Trades
from tierfetch.tests.planning.clusters import GB, cluster


@dataclass
class FakeBands:
    """Disks between `disk_lo` and `disk_hi`; every replica that has moved did so for balance."""

    placement: Placement
    disk_lo: np.ndarray
    disk_hi: np.ndarray

    def below(self, broker: int) -> float:
        return float(self.placement.disk[broker] - self.disk_lo[broker])

    def above(self, broker: int) -> float:
        return float(min(self.disk_hi[broker] - self.placement.disk[broker], self.placement.room(broker)[1]))

    def made(self) -> tuple[Indexes, Indexes]:
        return np.nonzero(self.placement.is_moved)


@dataclass
class FakePools:
    placement: Placement

    def few_of(self, broker: int) -> tuple[Indexes, Indexes]:
        rests = ~self.placement.is_moved.any(axis=1)
        return np.nonzero((self.placement.replicas == broker) & rests[:, None])


def two_givers(cost_of_heavy: float) -> tuple[Placement, FakeBands]:
    """Broker 0 gives 10 GB that are dear, and has 1 GB; broker 1 gives 1 GB, and has 10 GB. Broker 2 needs 11 GB."""
    arrays = cluster([(1,), (1,), (2,), (2,)], brokers=3, sizes=[10 * GB, GB, GB, 10 * GB])
    placement = Placement(arrays, Goal.add([2]), np.array([10 * GB, 0.5 * GB, 0.5 * GB, cost_of_heavy]))
    placement.move(np.array([0, 2]), np.array([0, 0]), 2)
    return placement, FakeBands(placement, np.array([0, 0, 11 * GB]), np.array([20 * GB, 20 * GB, 11 * GB]))


def test_another_giver_brings_what_the_taker_would_lack() -> None:
    placement, bands = two_givers(5 * GB)
    assert Trades(placement, bands, FakePools(placement)).run()
    assert placement.replicas.ravel().tolist() == [0, 2, 1, 2]
    assert placement.counts.tolist() == [1, 1, 2]


@pytest.mark.parametrize("reason", ["cost", "giver's band", "taker's band", "disk of the dear one's giver"])
def test_a_trade_that_saves_nothing_or_leaves_a_band_is_taken_back(reason: str) -> None:
    placement, bands = two_givers(10.5 * GB if reason == "cost" else 5 * GB)
    if reason == "giver's band":
        bands.disk_lo[1] = 2 * GB
    elif reason == "taker's band":
        bands.disk_lo[2] = 12 * GB
    elif reason == "disk of the dear one's giver":
        placement.arrays = replace(placement.arrays, disk_bytes=np.array([9.0, 20.0, 20.0]) * GB)
    before = placement.replicas.copy(), placement.disk.copy(), placement.counts.copy(), placement.is_moved.copy()
    assert not Trades(placement, bands, FakePools(placement)).run()
    after = placement.replicas, placement.disk, placement.counts, placement.is_moved
    assert all((one == other).all() for one, other in zip(before, after, strict=True))


def test_no_trade_brings_two_replicas_of_a_partition_into_one_rack() -> None:
    """The heavy one has its other replica in the rack of the taker."""
    arrays = cluster([(1,), (1,), (2,), (2, 4)], brokers=4, sizes=[10 * GB, GB, GB, 10 * GB])
    arrays = replace(arrays, racks=np.array([0, 1, 2, 2], dtype=np.int32), rack_names=("r0", "r1", "r2"))
    placement = Placement(arrays, Goal.add([2]), np.array([10 * GB, 0.5 * GB, 0.5 * GB, 5 * GB]))
    placement.move(np.array([0, 2]), np.array([0, 0]), 2)
    bands = FakeBands(placement, np.array([0, 0, 11 * GB, 0]), np.full(4, 20 * GB))
    assert not Trades(placement, bands, FakePools(placement)).run()
    assert placement.replicas[:, 0].tolist() == [2, 0, 2, 1]


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32), brokers=st.integers(3, 6), count=st.integers(6, 40))
def test_trades_cost_less_and_keep_numbers_and_bands(seed: int, brokers: int, count: int) -> None:
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 40, count) * GB
    holders = random.integers(1, brokers, count)
    arrays = cluster([(int(each),) for each in holders], brokers=brokers, sizes=sizes.tolist())
    placement = Placement(arrays, Goal.add([brokers - 1]), sizes * random.choice([0.1, 0.5, 1.0], count))
    for partition in np.flatnonzero(random.random(count) < 0.4).tolist():
        placement.put(partition, 0, brokers - 1)
    slack = random.integers(0, 60, (2, brokers)) * GB
    bands = FakeBands(placement, placement.disk - slack[0], placement.disk + slack[1])
    bands.disk_lo[-1] = placement.disk[-1]
    counts, cost = placement.counts.copy(), placement.cost[placement.is_moved[:, 0]].sum()
    gained = Trades(placement, bands, FakePools(placement)).run()
    after = placement.cost[placement.is_moved[:, 0]].sum()
    assert after < cost if gained else after == cost
    assert (placement.counts == counts).all()
    assert (placement.disk >= bands.disk_lo - 1).all()
    assert (placement.disk <= bands.disk_hi + 1).all()
