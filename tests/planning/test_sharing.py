"""How much each giver gives: the cheapest of all, and as much as it has above its band."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tierfetch.planning.balancing import Band
from tierfetch.planning.disks import even_disks
from tierfetch.planning.goals import Goal
from tierfetch.planning.placement import Placement
from tierfetch.planning.sharing import Limits, share_out
from tierfetch.tests.planning.clusters import GB, cluster

EVERYBODY = np.array([True, True, False])


def placed(first: int, second: int) -> Placement:
    """So many replicas of 1 GB on two brokers, alike but that those of the first copy half of what they hold."""
    arrays = cluster([(1,)] * first + [(2,)] * second, brokers=3, sizes=[GB] * (first + second))
    return Placement(arrays, Goal.add([2]), np.array([0.5 * GB] * first + [GB] * second))


def limits(least: list[float], most: int = 20) -> Limits:
    none, many = np.zeros(3, dtype=np.int32), np.full(3, most, dtype=np.int32)
    return Limits(none, many, np.array(least) * GB, np.full(3, 100.0) * GB)


def test_the_cheapest_of_all_are_given() -> None:
    count, sizes = share_out(placed(20, 20), EVERYBODY, 6, 6 * GB, limits([0, 0, 0]))
    assert count.tolist() == [6, 0, 0]
    assert sizes.tolist() == pytest.approx([6 * GB, 0, 0])


def test_who_is_above_its_band_gives_that_much_and_the_others_less() -> None:
    count, sizes = share_out(placed(20, 20), EVERYBODY, 6, 6 * GB, limits([0, 4, 0]))
    assert count.tolist() == [2, 4, 0]
    assert sizes.tolist() == pytest.approx([2 * GB, 4 * GB, 0])


def test_who_is_above_its_band_gives_many_cheap_ones_rather_than_a_few_dear_ones() -> None:
    """Broker 1 has to give 8 GB: by eight cheap replicas, or by two of 4 GB that are dear. The other one has enough."""
    sizes = [GB] * 10 + [4 * GB] * 4 + [GB] * 20
    arrays = cluster([(1,)] * 14 + [(2,)] * 20, brokers=3, sizes=sizes)
    cost = np.array([0.5 * GB] * 10 + [4 * GB] * 4 + [0.5 * GB] * 20)
    count, given_bytes = share_out(
        Placement(arrays, Goal.add([2]), cost), EVERYBODY, 10, 10 * GB, limits([8, 0, 0], most=10)
    )
    assert count[0] >= 8
    assert given_bytes[0] >= 8 * GB
    assert count.sum() == 10


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), amount=st.integers(1, 12), part=st.floats(0.05, 0.9))
def test_the_number_is_given_whatever_the_prices_are(seed: int, amount: int, part: float) -> None:
    random = np.random.default_rng(seed)
    count = 24
    sizes = random.choice([0.0, 0.5, 1.0, 30.0], count) * GB
    arrays = cluster([(int(each) + 1,) for each in random.integers(0, 2, count)], brokers=3, sizes=sizes.tolist())
    placement = Placement(arrays, Goal.add([2]), sizes * random.choice([0.0, 0.5, 1.0], count))
    held = placement.counts.astype(np.int32)
    least = np.minimum(random.integers(0, 10, 3) * GB, placement.disk) * EVERYBODY
    within = Limits(np.zeros(3, dtype=np.int32), held, least, placement.disk)
    amount, wanted = min(amount, int(held.sum())), float(sizes.sum()) * part
    found, given_bytes = share_out(placement, EVERYBODY, amount, wanted, within)
    assert found.sum() == amount
    assert ((found >= 0) & (found <= held)).all()
    assert (given_bytes >= least * 0.999 - 1.0).all() or given_bytes.sum() <= wanted + 1.0


def test_a_disk_above_its_band_gives_a_few_cheap_replicas_rather_than_a_dear_one() -> None:
    """6 GB have to go: three replicas of 2 GB copy half of that, the one of 6 GB all of it."""
    arrays = cluster([(1,)] * 4 + [(2,)], brokers=2, sizes=[2 * GB, 2 * GB, 2 * GB, 6 * GB, GB])
    placement = Placement(arrays, Goal.rebalance(), np.array([GB, GB, GB, 6 * GB, GB]))
    disks = Band(np.array([6.0, 7.0]) * GB, np.array([5.0, 6.0]) * GB, np.array([6.0, 8.0]) * GB)
    numbers = Band(np.array([2.0, 3.0]), np.array([1.0, 1.0]), np.array([4.0, 4.0]))
    even_disks(placement, Goal.rebalance(), disks, numbers)
    assert placement.replicas.ravel().tolist() == [1, 1, 1, 0, 1]
    few = replace(numbers, lo=np.array([3.0, 1.0]))
    placement = Placement(arrays, Goal.rebalance(), np.array([GB, GB, GB, 6 * GB, GB]))
    even_disks(placement, Goal.rebalance(), disks, few)
    assert placement.replicas.ravel().tolist() == [0, 0, 0, 1, 1], "only one may leave"
