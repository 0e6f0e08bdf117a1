"""The conformance suites of replica placement and replica selectors: ours pass, and wrong ones are caught."""

from __future__ import annotations

from itertools import count

import pytest

from tierfetch.broker.core.read_replicas import LeaderSelector, RackAwareSelector, ReadReplica, ReplicaSelector
from tierfetch.controller.core.placement import ReplicaPlacement, StripedPlacement
from tierfetch.plugin_options import PluginConfig
from tierfetch.testing import ReplicaPlacementConformance, ReplicaSelectorConformance
from tierfetch.testing.replica_placement import CLUSTERS
from tierfetch.testing.replica_selector import FOLLOWERS


class TestStriped(ReplicaPlacementConformance):
    @pytest.fixture
    def placement(self) -> ReplicaPlacement:
        return StripedPlacement()


class TestLeader(ReplicaSelectorConformance):
    @pytest.fixture
    def selector(self) -> ReplicaSelector:
        return LeaderSelector(PluginConfig())


class TestRackAware(ReplicaSelectorConformance):
    @pytest.fixture
    def selector(self) -> ReplicaSelector:
        return RackAwareSelector(PluginConfig())


class First:
    """A placement that puts all replicas on the brokers with the lowest ids, served or not."""

    def placer(self, brokers, random):
        self.brokers = brokers
        return self

    def place(self, partitions, factor):
        return [[broker.broker_id for broker in self.brokers[:factor]]] * partitions


def test_a_placement_that_leads_with_a_fenced_broker_is_caught() -> None:
    suite = ReplicaPlacementConformance()
    suite.test_keeps_the_rules(First(), CLUSTERS["no racks"])
    with pytest.raises(AssertionError, match=r"returned replicas \[0\], whose first broker is fenced"):
        suite.test_keeps_the_rules(First(), CLUSTERS["one is fenced"])


def test_a_placement_with_chance_of_its_own_is_caught() -> None:
    numbers = count()

    class Chance(First):
        def place(self, partitions, factor):
            return [[self.brokers[next(numbers) % 5].broker_id] for _ in range(partitions + 1)][1:]

    with pytest.raises(AssertionError):
        ReplicaPlacementConformance().test_is_repeatable(Chance(), CLUSTERS["no racks"])


def test_a_selector_that_invents_a_replica_is_caught() -> None:
    with pytest.raises(AssertionError):
        ReplicaSelectorConformance().test_returns_what_it_was_offered(
            lambda rack, leader, followers: ReadReplica(2, "b", 90, 50), "b", FOLLOWERS["one in another rack"]
        )


def test_a_selector_that_alternates_is_caught() -> None:
    turns = count()
    with pytest.raises(AssertionError):
        ReplicaSelectorConformance().test_is_steady(
            lambda rack, leader, followers: followers[next(turns) % 2], "b", FOLLOWERS["several"]
        )
