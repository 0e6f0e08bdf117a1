"""Two plans at once: what gives the other one away, who waits, and who may go on all the same."""

from __future__ import annotations

import pytest

from tierfetch.planning.cluster_state import ClusterState
from tierfetch.planning.execution import Finish, Wait, next_step
from tierfetch.planning.journal import ConfigValue, Entry, Key, Outcome
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


def plan(topic: str, brokers: tuple[int, int, int]) -> list[Entry]:
    """Two waves, from the first broker to the third."""
    first, stays, comes = brokers
    return [entry(each, (first, stays), (comes, stays), wave=each, topic=topic) for each in (0, 1)]


def running_now(cluster: FakeCluster) -> list[ConfigValue]:
    return [value(kind, name, key, text) for (kind, name, key), text in cluster.configs.items()]


def test_two_plans_on_brokers_of_their_own_run_at_once_and_both_end() -> None:
    plans = [plan("t", (1, 2, 3)), plan("u", (4, 5, 6))]
    cluster = FakeCluster.of([each for entries in plans for each in entries])
    first, second = (Run(cluster, entries) for entries in plans)
    assert first.step() is None
    own, brokers = {each.key for each in second.entries}, {4, 5, 6}
    assert cluster.configs, "the first one's throttle is there when the second one begins"
    mine = [each for each in running_now(cluster) if each.name in {"u", "4", "5", "6"}]
    assert signs_of_others(cluster.state(), own, brokers, mine) == []
    ended: dict[int, Finish] = {}
    for _ in range(20):
        for number, run in enumerate((first, second)):
            if number not in ended and (last := run.step()) is not None:
                ended[number] = last
    assert ended == {0: Finish(Outcome.DONE), 1: Finish(Outcome.DONE)}
    assert cluster.configs == {}
    assert {key: part.replicas for key, part in cluster.partitions.items()} == {
        each.key: each.final for entries in plans for each in entries
    }
    assert not any("another plan" in why for run in (first, second) for why in run.waits)


def test_a_second_plan_on_the_same_topic_does_not_begin_though_its_brokers_are_its_own() -> None:
    """The list of throttled replicas is the topic's: the one that ends first would take the other's away."""
    mine, others = entry(0, (4, 5), (6, 5)), entry(1, (1, 2), (3, 2))
    cluster = FakeCluster.of([mine, others])
    Run(cluster, [others]).step()
    (line,) = signs_of_others(
        cluster.state(), {mine.key}, {4, 5, 6}, [each for each in running_now(cluster) if each.name == "t"]
    )
    assert line.startswith("t: leader.replication.throttled.replicas")
