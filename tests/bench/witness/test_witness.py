"""The model beside the simulated cluster: what is simulated, what is asked, and that both agree on a small one."""

from __future__ import annotations

import pytest

from tierfetch.bench.witness.case import LARGE, LARGEST, NIC_SHARES, SMALL, TOPIC, Case, Kind, ask
from tierfetch.bench.witness.cluster import BATCH, partition_bytes, simulate_case
from tierfetch.bench.witness.witness import Compared, sentence
from tierfetch.model import Calibrations

FREE = (
    Calibrations.default()
    .systems["tierfetch"]
    .model_copy(update={"start_s": 0.0, "setup_s": 0.0, "wave_s": 0.0, "fetch_s": 0.0, "fetch_bytes_per_s": 1e12})
)
TINY = Case(Kind.REPLACE, brokers=4, partitions=12, partition_kb=200, nic_mb_s=0.25)
FETCH_WAIT_S = 0.5
"""The brokers' `replica.fetch.wait.max.ms`."""
TINY_ADD = Case(Kind.ADD, brokers=5, partitions=20, partition_kb=200, nic_mb_s=0.5, wave_partitions=3)


@pytest.mark.parametrize("case", [*SMALL, *LARGE, *LARGEST], ids=lambda each: each.name)
def test_replicas_are_on_brokers_of_their_own_and_none_on_those_that_come(case: Case) -> None:
    assert len(case.assignment) == case.partitions
    assert all(len(set(replicas)) == case.replication for replicas in case.assignment)
    held = {broker for replicas in case.assignment for broker in replicas}
    left_out = set(case.changed_ids) if case.kind is Kind.ADD else set()
    assert held == set(case.broker_ids) - left_out
    leads = [replicas[0] for replicas in case.assignment]
    counts = [leads.count(broker) for broker in held]
    assert max(counts) - min(counts) <= 1
    assert not any(set(replicas) <= set(case.changed_ids) for replicas in case.assignment), "no broker would lead it"
    assert 1 not in case.changed_ids, "broker 1 is looked at"


def test_interfaces_differ_and_brokers_that_change_have_all_of_theirs() -> None:
    (case, *_) = LARGE
    rates = {rate / (case.nic_mb_s * 1e6) for rate in case.nic_bytes_per_s.values()}
    assert rates == set(NIC_SHARES)
    assert all(case.nic_bytes_per_s[broker] == case.nic_mb_s * 1e6 for broker in case.changed_ids)


def test_the_model_is_asked_for_what_is_simulated() -> None:
    asked = ask(TINY, partition_bytes(TINY), FREE)
    held = [number for number, replicas in enumerate(TINY.assignment) if 4 in replicas]
    assert sorted(asked.moves.partition.tolist()) == held
    assert asked.plan is None
    assert partition_bytes(TINY) == 4 * len(BATCH)
    added = ask(TINY_ADD, partition_bytes(TINY_ADD), FREE)
    assert added.plan is not None
    assert {each.topic for each in added.plan.partitions} == {TOPIC}
    assert max(map(len, added.plan.waves)) == 3
    assert sum(5 in each.replicas for each in added.plan.partitions) == len(added.moves) > 6


@pytest.mark.slow
def test_links_decide_in_the_simulation_as_the_model_says() -> None:
    """Little else takes time there: the start and round trips, which the model leaves out here."""
    asked = ask(TINY, partition_bytes(TINY), FREE)
    found = simulate_case(TINY, None)
    assert len(found.joined_s) == len(asked.moves)
    assert found.seconds == pytest.approx(asked.prediction.result.duration_s, rel=0.3)
    assert simulate_case(TINY, None).joined_s == found.joined_s, "the same seed always gives the same"


@pytest.mark.slow
def test_a_plan_is_carried_out_wave_by_wave() -> None:
    asked = ask(TINY_ADD, partition_bytes(TINY_ADD), FREE)
    assert asked.plan is not None
    found = simulate_case(TINY_ADD, asked.plan)
    assert len(found.joined_s) == len(asked.moves)
    waves = len(asked.plan.waves)
    at_least_s = asked.prediction.result.duration_s
    assert at_least_s < found.seconds < at_least_s + waves * FETCH_WAIT_S, "a small replica is seen at its next fetch"
    sizes = [len(wave) for wave in asked.plan.waves]
    first, second = found.joined_s[: sizes[0]], found.joined_s[sizes[0] : sum(sizes[:2])]
    assert max(first) < min(second)


def test_errors_are_found_in_one_line() -> None:
    one = Compared(
        case=TINY,
        replicas=9,
        predicted_s=11.0,
        simulated_s=10.0,
        median_predicted_s=4.0,
        median_simulated_s=5.0,
        virtual_s=20.0,
        events=5,
        cpu_s=1.0,
    )
    assert [one.error, one.median_error] == pytest.approx([0.1, -0.2])
    assert sentence([one, one]) == "2 cases: median error 10%, worst 10%"
