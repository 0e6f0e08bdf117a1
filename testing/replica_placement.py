"""What every `ReplicaPlacement` must do (`controller/core/placement.py`). Ships with the wheel.

from tierfetch.testing import ReplicaPlacementConformance

class TestMyPlacement(ReplicaPlacementConformance):
    @pytest.fixture
    def placement(self):
        return MyPlacement(MyPlacement.Config(...))
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

import pytest

from tierfetch.controller import PlaceableBroker, ReplicaPlacement, broken_placement

PARTITIONS: Final = 40
CLUSTERS: Final = {
    "one broker": [PlaceableBroker(1, None, False)],
    "no racks": [PlaceableBroker(number, None, False) for number in range(5)],
    "three racks": [PlaceableBroker(number, "abc"[number % 3], False) for number in range(9)],
    "one large rack": [PlaceableBroker(number, "a" if number else "b", False) for number in range(6)],
    "one is fenced": [PlaceableBroker(number, None, number == 0) for number in range(3)],
    "one serves": [PlaceableBroker(number, "ab"[number % 2], number != 2) for number in range(4)],
}


@pytest.mark.parametrize("brokers", CLUSTERS.values(), ids=CLUSTERS)
class ReplicaPlacementConformance:
    """Give it a `placement` fixture."""

    @pytest.fixture
    def placement(self) -> ReplicaPlacement:
        """Return the placement to check."""
        raise NotImplementedError("give the suite a fixture `placement`")

    def test_keeps_the_rules(self, placement: ReplicaPlacement, brokers: Sequence[PlaceableBroker]) -> None:
        """Replicas are different brokers that were offered, and the first serves; for every replication factor."""
        for factor in range(1, len(brokers) + 1):
            placed = placement.placer(brokers, Random(1)).place(PARTITIONS, factor)
            broken = broken_placement(placed, brokers, PARTITIONS, factor)
            assert broken is None, f"returned {broken}"

    def test_places_topic_after_topic(self, placement: ReplicaPlacement, brokers: Sequence[PlaceableBroker]) -> None:
        """One request may create several topics, with one placer."""
        placer = placement.placer(brokers, Random(1))
        for count in (1, 3, 7):
            assert broken_placement(placer.place(count, 1), brokers, count, 1) is None

    def test_is_repeatable(self, placement: ReplicaPlacement, brokers: Sequence[PlaceableBroker]) -> None:
        """All chance comes from the `random` that it is given, so that a simulation can repeat it."""
        first, second = (placement.placer(brokers, Random(7)).place(PARTITIONS, 1) for _ in range(2))
        assert list(map(tuple, first)) == list(map(tuple, second))
