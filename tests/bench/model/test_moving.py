"""Rebalances: what is planned, what a look finds, and what is predicted of it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tierfetch.bench.model.draw import drawn
from tierfetch.bench.model.forecast import known, rebalance_forecast
from tierfetch.bench.model.moving import NothingMovesError, Watch, for_topics, planned
from tierfetch.bench.model.scenario import CALIBRATION, Kind, Scenario
from tierfetch.model import Calibrations, Inventory
from tierfetch.planning import PlanFile
from tierfetch.protocol import TopicPartition

from .test_fit import MOVED, TRUE, WAVES, as_the_formula_has_it_in_waves
from .test_forecast import MACHINE

CALIBRATIONS = Calibrations(machine=MACHINE, systems={"tierfetch": TRUE})
(IN_WAVES,) = (each for each in CALIBRATION if each.kind.is_rebalance)


def inventory(scenario: Scenario) -> Inventory:
    size = scenario.total_bytes / scenario.partitions

    def partition(index: int, replicas: list[int]) -> dict[str, Any]:
        rate = scenario.produce_mb_s * 1e6 / scenario.partitions
        return {"index": index, "replicas": replicas, "size_bytes": size, "produce_bytes_per_s": rate}

    rates = {key: value for key, value in known(scenario, MACHINE).items() if not key.startswith("tier.")}
    ours = [
        {"name": name, "segment_bytes": 1e6, "partitions": [partition(*each) for each in enumerate(layout)]}
        for name, layout in scenario.by_topic("t").items()
    ]
    return Inventory.from_document(
        {
            "version": 1,
            "broker_defaults": {**rates, "disk_bytes": 1e15},
            "brokers": [{"id": each, "rack": scenario.rack_of.get(each, "")} for each in scenario.broker_ids],
            "bootstrap_policy": scenario.policies.ours.value,
            "topics": [*ours, {"name": "__remote_log_metadata", "partitions": [partition(0, [1, 2])]}],
        }
    )


def moves_of(scenario: Scenario, file: PlanFile) -> list[tuple[set[int], set[int]]]:
    """What goes and what comes, by partition."""
    layout = scenario.layout("t")
    pairs = [(set(layout[TopicPartition(*each.key)]), set(each.replicas)) for each in file.partitions]
    return [(before - after, after - before) for before, after in pairs if before != after]


@pytest.mark.parametrize(
    ("kind", "goes", "comes"),
    [(Kind.ADD, {1, 2, 3}, {4}), (Kind.REMOVE, {4}, {1, 2, 3}), (Kind.EVEN, {1, 2}, {3, 4})],
)
def test_each_kind_moves_what_it_says_and_nothing_of_other_topics(kind: Kind, goes: set[int], comes: set[int]) -> None:
    scenario = Scenario(name="x", total_mb=24, is_tiered=False, partitions=24, kind=kind, brokers=4)
    found = planned(inventory(scenario), scenario, "t")
    moves = moves_of(scenario, found.file)
    assert set().union(*(each for each, _ in moves)) == goes
    assert set().union(*(each for _, each in moves)) == comes
    assert {each.topic for each in found.file.partitions} == {"t"}
    assert found.arrays.throttle_bytes_per_s == found.plan.throttle_bytes_per_s


def test_throttle_and_waves_of_the_scenario_are_the_plans() -> None:
    scenario = Scenario(
        name="x", total_mb=480, is_tiered=False, partitions=24, kind=Kind.ADD, brokers=3, wave_partitions=2,
        throttle_mb_s=20,
    )  # fmt: skip
    found = planned(inventory(scenario), scenario, "t")
    assert found.file.details.throttle_bytes_per_s == 20_000_000
    assert max(map(len, found.file.waves)) == 2
    throttled = rebalance_forecast(found, CALIBRATIONS)
    assert throttled.whole_seconds["throttle"] > 0


def test_what_has_nothing_to_move_is_said() -> None:
    scenario = Scenario(name="x", total_mb=24, is_tiered=False, partitions=3, kind=Kind.REMOVE, brokers=3)
    idle = Scenario(name="idle", total_mb=24, is_tiered=False, partitions=3, kind=Kind.EVEN, brokers=3)
    with pytest.raises(NothingMovesError, match="idle"):
        planned(inventory(scenario), idle, "t")


def test_waves_are_predicted_as_the_formula_has_them() -> None:
    found = planned(inventory(IN_WAVES), IN_WAVES, "t")
    assert (len(found.plan.moves), found.plan.wave_count) == (MOVED, WAVES)
    predicted = rebalance_forecast(found, CALIBRATIONS)
    wanted = as_the_formula_has_it_in_waves(IN_WAVES, TRUE)
    assert predicted.start_to_isr_s == pytest.approx(wanted.seconds, rel=0.05)
    assert predicted.copied_bytes == pytest.approx(wanted.copied_bytes)
    assert predicted.whole_seconds["beginning a wave"] == pytest.approx(WAVES * TRUE.wave_s)
    assert predicted.seconds["waiting for a slot"] > predicted.start_to_isr_s / 2
    assert sum(predicted.whole_seconds.values()) == pytest.approx(predicted.start_to_isr_s)


def test_a_plan_is_carried_over_to_a_topic_laid_out_alike() -> None:
    file = planned(inventory(IN_WAVES), IN_WAVES, "t").file
    other = for_topics(file, "scenario2")
    assert {each.topic for each in (*other.partitions, *other.details.leaders)} == {"scenario2"}
    assert for_topics(other, "t") == file
    assert PlanFile.parse(other.to_text(), "x").waves == file.waves


def sets(**by_number: set[int]) -> dict[TopicPartition, frozenset[int]]:
    return {TopicPartition("t", int(number[1:])): frozenset(brokers) for number, brokers in by_number.items()}


@pytest.mark.parametrize("number", range(40))
def test_every_rebalance_that_is_drawn_moves_something_and_keeps_replicas_in_two_racks(number: int) -> None:
    rebalances = (each for each in drawn(5, 400) if each.kind.is_rebalance)
    scenario = next(itertools.islice(rebalances, number, None))
    found = planned(inventory(scenario), scenario, "t")
    assert {each.topic for each in found.file.partitions} <= set(scenario.topic_names("t"))
    racks = scenario.rack_of
    for each in found.file.partitions if racks else ():
        assert len({racks[broker] for broker in each.replicas}) == 2, each


def test_a_plan_of_several_topics_is_carried_over_to_each() -> None:
    scenario = Scenario(
        name="x", total_mb=24, is_tiered=False, partitions=24, topics=3, kind=Kind.REMOVE, brokers=3, racks=3
    )
    file = planned(inventory(scenario), scenario, "t").file
    assert {each.topic for each in file.partitions} == {"t", "t-b", "t-c"}
    other = for_topics(file, "scenario2")
    assert {each.topic for each in other.partitions} == {"scenario2", "scenario2-b", "scenario2-c"}
    assert {each.topic for each in other.details.leaders} <= {"scenario2", "scenario2-b", "scenario2-c"}
    watch = Watch.of(scenario.layout("scenario2"), other)
    assert {each.topic for each in watch.after} == {each.topic for each in other.partitions}


def test_a_move_is_timed_from_its_order_to_its_end_and_a_new_order_alone_is_none() -> None:
    file = PlanFile.model_validate(
        {
            "partitions": [
                {"topic": "t", "partition": 0, "replicas": [3, 2]},
                {"topic": "t", "partition": 1, "replicas": [1, 2]},
                {"topic": "t", "partition": 2, "replicas": [1, 3]},
            ]
        }
    )
    watch = Watch.of(
        {TopicPartition("t", 0): [1, 2], TopicPartition("t", 1): [2, 1], TopicPartition("t", 2): [1, 2]}, file
    )
    assert not watch.look(sets(p0={1, 2}, p1={1, 2}, p2={1, 2}), sets(p0={1, 2}, p1={1, 2}, p2={1, 2}), 1.0)
    assert not watch.look(sets(p0={1, 2, 3}, p1={1, 2}, p2={1, 2}), sets(p0={1, 2}, p1={1, 2}, p2={1, 2}), 2.0)
    assert not watch.look(sets(p0={3, 2}, p1={1, 2}, p2={1, 2}), sets(p0={2}, p1={1, 2}, p2={1, 2}), 3.0), "not in sync"
    assert not watch.look(sets(p0={3, 2}, p1={1, 2}, p2={1, 2, 3}), sets(p0={2, 3}, p1={1, 2}, p2={1, 2}), 4.0)
    assert watch.look(sets(p0={3, 2}, p1={1, 2}, p2={1, 3}), sets(p0={2, 3}, p1={1, 2}, p2={1, 3}), 6.0)
    assert watch.course.seconds == 4.0
    first, last = TopicPartition("t", 0), TopicPartition("t", 2)
    assert (watch.ordered_s, watch.ended_s) == ({first: 2.0, last: 4.0}, {first: 4.0, last: 6.0})
