"""Two plans at once: what gives the other one away, who waits, and who may go on all the same."""

from __future__ import annotations

import pytest

from tierfetch.planning.cluster_state import ClusterState
from tierfetch.planning.execution import Finish, Wait, next_step
from tierfetch.planning.journal import ConfigValue, Key, Outcome
from tierfetch.planning.neighbours import signs_of_others
from tierfetch.tests.planning.fake_cluster import FakeCluster, Run, entry

ENTRIES = [entry(0, (1, 2), (3, 2), wave=0), entry(1, (1, 2), (1, 4), wave=1)]
OWN = {("t", 0), ("t", 1)}


def value(kind: str, name: str, key: str, text: str | None) -> ConfigValue:
    return ConfigValue.model_validate({"kind": kind, "name": name, "key": key, "value": text})


def signs(under_way: dict[Key, frozenset[int]], *configs: ConfigValue) -> list[str]:
    state = ClusterState(frozenset({1, 2, 3, 4}), {}, under_way=under_way)
    return signs_of_others(state, OWN, {1, 2, 3, 4}, configs)


def test_moves_of_others_on_the_same_brokers_are_named() -> None:
    (line,) = signs({("u", 7): frozenset({2, 9}), ("v", 0): frozenset({4, 3}), ("w", 1): frozenset({8, 9})})
    assert line.startswith("u-7, v-0: another plan moves them on brokers [2, 3, 4], which this plan uses: wait")


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        (
            [value("broker", "3", "follower.replication.throttled.rate", "77")],
            "brokers [3] have a replication throttle",
        ),
        ([value("broker", "3", "leader.replication.throttled.rate", "77")], "brokers [3] have a replication throttle"),
        ([value("topic", "t", "leader.replication.throttled.replicas", "9:1,9:2")], "t: leader.replication"),
        ([value("topic", "t", "follower.replication.throttled.replicas", "9:1")], "t: leader.replication"),
    ],
)
def test_what_another_plan_has_set_is_named(configs: list[ConfigValue], message: str) -> None:
    (line,) = signs({}, *configs)
    assert line.startswith(message)
    assert "tierfetch configs alter" in line


def test_own_moves_and_what_an_operator_has_set_for_good_are_no_signs() -> None:
    assert (
        signs({("t", 0): frozenset({1, 2, 3})}, value("topic", "t", "leader.replication.throttled.replicas", "*")) == []
    )
    assert signs({}, value("broker", "3", "follower.replication.throttled.rate", None)) == []


def test_a_long_list_is_cut() -> None:
    (line,) = signs({("u", number): frozenset({1}) for number in range(8)})
    assert line.startswith("u-0, u-1, u-2, u-3, u-4 and 3 more: ")


def test_a_wave_waits_for_moves_of_others_on_its_brokers() -> None:
    cluster = FakeCluster.of(ENTRIES)
    cluster.others = {("u", 7): frozenset({3, 9})}
    run = Run(cluster, ENTRIES)
    (waiting,) = next_step(run.journal, cluster.state(), 0)
    assert waiting == Wait("u-7, which another plan moves, to end")
    assert not any(part.is_reassigning for part in cluster.partitions.values())
    cluster.others = {("u", 7): frozenset({4, 9})}  # those of the second wave
    for _ in range(3):
        actions = next_step(run.journal, cluster.state(), 0)
        [run._do(action) for action in actions]
        cluster.advance()
    assert cluster.partitions["t", 0].replicas == (3, 2)
    assert cluster.partitions["t", 1].replicas == (1, 2)
    cluster.others = {}
    assert run.process() == Finish(Outcome.DONE)


def test_a_rollback_waits_too() -> None:
    cluster = FakeCluster.of(ENTRIES)
    run = Run(cluster, ENTRIES)
    run.process()
    run.ask("roll_back")
    cluster.others = {("u", 7): frozenset({4, 9})}
    (waiting,) = next_step(run.journal, cluster.state(), 0)
    assert isinstance(waiting, Wait)
    assert "u-7" in waiting.why


def test_who_shares_brokers_waits_for_nobody() -> None:
    cluster = FakeCluster.of(ENTRIES)
    cluster.others = {("u", 7): frozenset({1, 2, 3, 4})}
    assert Run(cluster, ENTRIES, shares_brokers=True).process() == Finish(Outcome.DONE)
