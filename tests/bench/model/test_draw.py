"""Scenarios that are drawn, how far apart their runs are, and the verdict on them."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.bench.model.draw import (
    BROKERS,
    CARRIED_S,
    FAILOVER_MB,
    NETWORK_BROKERS,
    PARTITIONS,
    REBALANCE_BROKERS_MIN,
    REBALANCE_MB,
    TIERED_PAIRS,
    TOTAL_MB,
    WAVE_PARTITIONS,
    drawn,
)
from tierfetch.bench.model.forecast import failover_forecast
from tierfetch.bench.model.judge import Aim, Sureness, Verdict, drawn_aim, judged, summary, sureness
from tierfetch.bench.model.lab import HEARTBEAT_S, SESSION_S, internal_replicas
from tierfetch.bench.model.report import drawn_sentence
from tierfetch.bench.model.scenario import COPY, FROM_TIER, Kind, Scenario
from tierfetch.bench.model.spread import Series, spread_of
from tierfetch.bench.model.topics import topic_configs, without
from tierfetch.model import Calibrations, Spread, System
from tierfetch.protocol import TopicPartition


@given(seed=st.integers(0, 2**32), count=st.integers(1, 20), more=st.integers(0, 20))
def test_a_seed_always_draws_the_same_and_a_longer_series_begins_alike(seed: int, count: int, more: int) -> None:
    assert drawn(seed, count + more)[:count] == drawn(seed, count)


def assert_laid_out(scenario: Scenario) -> None:
    """Each partition is there once, on as many brokers as it has replicas, and on loopback in two racks."""
    layout = scenario.layout("t")
    assert len(layout) == scenario.partitions
    assert {place.topic for place in layout} == set(scenario.topic_names("t"))
    for replicas in layout.values():
        assert set(replicas) <= set(scenario.broker_ids)
        assert len(set(replicas)) == len(replicas) == (3 if scenario.behind_mb else 2)
        leader, follower, *_ = replicas
        if scenario.racks > 1 and scenario.links_mb_s is None:
            assert scenario.rack_of[leader] != scenario.rack_of[follower]
    assert sum(len(each) for each in scenario.by_topic("t").values()) == scenario.partitions


@given(seed=st.integers(0, 2**32))
def test_what_is_drawn_can_be_run(seed: int) -> None:
    for each in drawn(seed, 5):
        assert PARTITIONS[0] <= each.partitions <= PARTITIONS[1]
        assert BROKERS[0] <= each.brokers <= BROKERS[1]
        assert each.produce_mb_s or not each.consumes
        assert len(each.assignment) == each.partitions
        assert_laid_out(each)
        assert each.partitions <= each.total_mb <= TOTAL_MB[1]
        assert each.local_share is None or each.is_tiered
        assert each.latency_ms == 0 or each.is_tiered
        assert each.policies is COPY or each.is_tiered
        assert each.throttle_mb_s is None or each.throttle_mb_s >= 2 * each.produce_mb_s
        assert 1 <= each.racks <= min(3, each.brokers)
        assert each.tier_mb_s is None or (each.is_tiered and each.tier_mb_s >= 2 * each.produce_mb_s - 0.1)
        assert not each.untiered_topics or (each.is_tiered and each.topics > 1)
        if each.behind_mb:
            assert (each.kind, each.laggard) == (Kind.REPLACEMENT, each.brokers)
            assert each.brokers > 2
            assert each.local_share is None, "else its leader sends it to the tier"
            assert each.grows, "it is behind once"
        if each.produce_mb_s and each.is_tiered:
            assert each.local_share is not None
            assert each.grows == (each.kind.is_rebalance or each.untiered_topics > 0)
            assert each.policies is FROM_TIER


@given(seed=st.integers(0, 2**32))
def test_what_is_drawn_for_a_network_can_be_run(seed: int) -> None:
    assert drawn(seed, 5, networks=True)[:2] == drawn(seed, 2, networks=True)
    for each, plain in zip(drawn(seed, 5, networks=True), drawn(seed, 5), strict=True):
        assert each.kind is plain.kind
        assert each.topology is not None
        assert set(each.topology.uplinks) == set("abc"[: min(each.racks, each.brokers)])
        assert_laid_out(each)
        assert each.uplink_mb_s is not None
        assert each.total_mb <= max(each.uplink_mb_s * CARRIED_S + 1, each.partitions)
        assert each.produce_mb_s <= each.uplink_mb_s / 10 + 0.05
        assert each.store_mb_s is None or each.is_tiered
        if each.kind.death is None:
            assert NETWORK_BROKERS[0] <= each.brokers <= NETWORK_BROKERS[1]
        else:
            assert (each.brokers, each.delay_ms) == (plain.brokers, 0.0)


def test_every_kind_is_drawn() -> None:
    found = drawn(1, 200)
    assert {each.policies for each in found} == set(TIERED_PAIRS)
    for share in (
        sum(each.is_tiered for each in found),
        sum(each.local_share is not None for each in found),
        sum(each.produce_mb_s > 0 for each in found),
        sum(each.throttle_mb_s is not None for each in found),
        sum(each.latency_ms > 0 for each in found),
        sum(each.partitions > 8 for each in found),
        sum(each.consumes for each in found),
        sum(each.topics > 1 for each in found),
        sum(each.untiered_topics > 0 for each in found),
        sum(each.tier_mb_s is not None for each in found),
        sum(each.racks > 1 for each in found),
        sum(each.behind_mb > 0 for each in found),
    ):
        assert 15 < share < 185
    for kinds in ({Kind.REPLACEMENT}, {Kind.PROCESS, Kind.HOST}):
        assert {each.brokers for each in found if each.kind in kinds} == {2, 3, 4, 5, 6}


def test_a_drawn_scenario_says_what_it_is() -> None:
    found = Scenario(name="drawn 3", total_mb=90, partitions=7, local_share=0.25, throttle_mb_s=20, latency_ms=40)
    assert found.text == "drawn 3: 90 MB in 7 of 2 MB segments, tiered, 25% local, throttle 20 MB/s, tier 40 ms"
    assert Scenario(name="slow tier", total_mb=1).text == "slow tier"


def test_a_drawn_scenario_says_its_topics_racks_tier_and_who_is_behind() -> None:
    found = Scenario(
        name="drawn 4",
        total_mb=90,
        partitions=7,
        topics=3,
        untiered_topics=1,
        tier_mb_s=8.5,
        brokers=3,
        racks=2,
        behind_mb=12,
    )
    assert found.text == (
        "drawn 4: 3 brokers, 90 MB in 7 of 2 MB segments, 3 topics, tiered but for one topic, tier 8.5 MB/s,"
        " broker 3 lags by 12 MB, 2 racks"
    )


def test_partitions_are_spread_over_topics_of_which_the_last_may_have_no_tier() -> None:
    found = Scenario(name="x", total_mb=9, partitions=5, topics=2, untiered_topics=1)
    expected = [("s", 0), ("s", 1), ("s", 2), ("s-b", 0), ("s-b", 1)]
    assert list(found.layout("s")) == [TopicPartition(*each) for each in expected]
    assert {name: len(each) for name, each in found.by_topic("s").items()} == {"s": 3, "s-b": 2}
    assert [found.has_tier(name) for name in found.topic_names("s")] == [True, False]
    assert "remote.storage.enable" in topic_configs(found, "s")
    assert "remote.storage.enable" not in topic_configs(replace(found, local_share=0.5), "s-b")
    assert "local.retention.bytes" not in topic_configs(replace(found, local_share=0.5), "s-b"), "it would delete data"


def test_who_is_behind_follows_everything_and_leads_nothing() -> None:
    found = Scenario(name="x", total_mb=9, partitions=3, is_tiered=False, brokers=5, racks=2, behind_mb=4)
    assert found.assignment == [[1, 2, 5], [3, 2, 5], [1, 2, 5]], "broker 4 is in the rack of broker 2"
    assert without(found.layout("t"), 2, 5)[TopicPartition("t", 1)] == {3}
    assert internal_replicas(found) == 3, "one of three is neither wiped nor frozen"
    assert internal_replicas(replace(found, behind_mb=0)) == 2


def test_coverage_is_the_share_of_runs_and_each_scenario_counts_the_same() -> None:
    found = sureness([(1.0, 2.0), (1.0, 3.0)], [[1.5] * 4 + [2.5], [0.5]])
    assert found == Sureness(pytest.approx(0.4), pytest.approx(2.5))
    assert sureness([(0.0, math.inf)], [[1.0]]) is None


GOOD_ONE = judged(1.04, [1.0] * 5)
WRONG_ONE = judged(1.5, [1.0] * 5)
NOISE = judged(1.0, [0.5, 1.0, 1.0, 1.0, 1.5])
SURE = Sureness(0.8, 1.4)


@pytest.mark.parametrize(
    ("judgements", "sure", "aim"),
    [
        ([GOOD_ONE] * 10, SURE, Aim.HOLDS),
        ([GOOD_ONE] * 9 + [WRONG_ONE], SURE, Aim.HOLDS),
        ([GOOD_ONE] * 8 + [WRONG_ONE] * 2, SURE, Aim.DOES_NOT_HOLD),
        ([GOOD_ONE] * 9 + [NOISE], SURE, Aim.HOLDS),
        ([GOOD_ONE] * 8 + [NOISE] * 2, SURE, Aim.NOT_SHOWN),
        ([WRONG_ONE] * 8 + [NOISE] * 2, SURE, Aim.NOT_SHOWN),
        ([GOOD_ONE] * 8 + [WRONG_ONE, NOISE], SURE, Aim.DOES_NOT_HOLD),
        ([GOOD_ONE] * 10, Sureness(0.7, 1.1), Aim.DOES_NOT_HOLD),
        ([GOOD_ONE] * 10, Sureness(0.95, 9.0), Aim.DOES_NOT_HOLD),
        ([GOOD_ONE] * 10, None, Aim.NOT_SHOWN),
        ([], None, Aim.NOT_SHOWN),
    ],
)
def test_the_verdict_on_drawn_scenarios(judgements, sure, aim) -> None:
    assert drawn_aim(judgements, 0, sure) is aim


def test_what_failed_counts_as_not_judged() -> None:
    assert drawn_aim([GOOD_ONE] * 9, 1, SURE) is Aim.HOLDS
    assert drawn_aim([GOOD_ONE] * 8, 2, SURE) is Aim.NOT_SHOWN


def test_the_sentence_names_the_seed_and_why_nothing_is_shown() -> None:
    judgements = [GOOD_ONE] * 8 + [NOISE] * 2
    found = drawn_sentence("tierfetch", 7, judgements, summary(judgements), SURE)
    assert found == (
        "tierfetch: 10 scenarios drawn from seed 7: median error 4% (aim 10%), 80% within 25% (aim 90%), 80% of the"
        " runs in their 80 % interval, whose upper end is 1.40 times its lower (aim 75% to 90%), 20% not judged (aim at"
        " most 10%: 2 not measurable); the aim is not shown (more than 10% cannot be judged)"
    )
    assert NOISE.verdict is Verdict.NOT_MEASURABLE


# --- how far apart runs are -------------------------------------------------------------------------------------------


def test_runs_that_are_alike_have_no_spread() -> None:
    found = spread_of([Series((1.0, 1.0, 1.0)), Series((5.0, 5.0))], Spread(model=1.3), 2, "here")
    assert (found.runs, found.model, found.origin) == (1.0, 1.3, "here")


def test_the_spread_of_runs_is_pooled_over_scenarios_whatever_their_length() -> None:
    runs = [spread_of([Series((each, each * 1.1, each / 1.1))], Spread(), 2, "") for each in (1.0, 100.0)]
    assert runs[0].runs == pytest.approx(runs[1].runs)
    assert 1.1 < runs[0].runs < 1.2


def test_first_runs_are_measured_beside_the_others() -> None:
    found = spread_of([Series((1.0, 1.0), first_s=1.4), Series((2.0, 2.0), first_s=2.4)], Spread(), 2, "")
    assert 1.2 < found.first <= 1.4
    assert spread_of([Series((1.0, 1.0), first_s=1.4)], Spread(first=1.1), 2, "").first == 1.1, "one says little"


def test_load_counts_where_it_differed() -> None:
    busy = Series((1.0, 1.5), loads=(0.0, 2.0))
    assert spread_of([busy], Spread(), 2, "").load == pytest.approx(1.5)
    assert spread_of([Series((1.0, 1.5), loads=(1.0, 1.2))], Spread(load=1.2), 2, "").load == 1.2


def test_what_a_session_cannot_say_stays_as_it_was() -> None:
    usual = Spread(runs=1.2, origin="before")
    assert spread_of([], usual, 2, "now") == usual
    assert spread_of([Series((1.0,)), Series((1.0, math.inf))], usual, 2, "now") == usual


def test_failovers_are_drawn_beside_replacements() -> None:
    found = drawn(1, 200)
    kinds = [each.kind for each in found]
    for kind in (Kind.PROCESS, Kind.HOST):
        assert 10 <= kinds.count(kind) <= 40
    for each in found:
        if each.kind.death is not None:
            assert not each.is_tiered
            assert not each.grows, "a failover copies nothing: its producers may go on from run to run"
            assert (each.throttle_mb_s, each.latency_ms, each.local_share) == (None, 0, None)
            assert each.total_mb <= max(FAILOVER_MB, each.partitions)
            assert each.kind.value in each.text


@pytest.mark.parametrize(("system", "seconds"), [("tierfetch", SESSION_S + 0.05), ("kafka", SESSION_S + 0.5)])
def test_a_process_that_dies_is_predicted_for_the_labs_session(system: System, seconds: float) -> None:
    """One of two brokers is half of them: no refusal counts as a death there."""
    scenario = Scenario(name="x", total_mb=20, is_tiered=False, kind=Kind.PROCESS)
    found = failover_forecast(scenario, system, Calibrations.default())
    assert found.start_to_isr_s == pytest.approx(seconds, abs=0.05)
    of_three = failover_forecast(replace(scenario, brokers=3), system, Calibrations.default())
    assert (of_three.start_to_isr_s < 0.2) == (system == "tierfetch"), "two of three live on: the refusal counts"
    host = failover_forecast(replace(scenario, kind=Kind.HOST), system, Calibrations.default())
    assert host.start_to_isr_s >= SESSION_S
    assert host.low_s >= host.start_to_isr_s - HEARTBEAT_S - 0.5
    assert found.low_s <= found.start_to_isr_s <= found.high_s


def test_a_kind_is_read_back_from_a_sessions_file_and_an_older_one_has_replacements_alone() -> None:
    scenario = next(each for each in drawn(20, 100) if each.kind is Kind.PROCESS)
    document = json.loads(json.dumps(asdict(scenario)))
    assert Scenario.of(document) == scenario
    for key in ("kind", "brokers", "wave_partitions", "topics", "untiered_topics", "tier_mb_s", "behind_mb"):
        del document[key]
    assert Scenario.of(document).kind is Kind.REPLACEMENT


def test_rebalances_are_drawn_beside_replacements() -> None:
    found = [each for each in drawn(1, 300) if each.kind.is_rebalance]
    kinds = [each.kind for each in found]
    for kind in (Kind.ADD, Kind.REMOVE, Kind.EVEN):
        assert 15 <= kinds.count(kind) <= 60
    for each in found:
        assert REBALANCE_BROKERS_MIN <= each.brokers <= BROKERS[1]
        assert each.partitions >= 2 * each.brokers, "else there may be nothing to move"
        assert not each.behind_mb
        assert each.total_mb <= max(REBALANCE_MB, each.partitions)
        assert each.grows, "a run leaves replicas elsewhere: each needs a topic of its own"
        assert each.throttle_mb_s is None or each.throttle_mb_s >= 2 * each.produce_mb_s
        assert f"{each.brokers} brokers" in each.text
    assert {each.wave_partitions for each in found} == set(WAVE_PARTITIONS)
    throttled = [each for each in found if each.throttle_mb_s is not None]
    assert len(throttled) > len(found) / 2


def test_what_is_uneven_is_mostly_on_two_brokers() -> None:
    scenario = Scenario(name="x", total_mb=24, partitions=24, kind=Kind.EVEN, brokers=4)
    held = [broker for replicas in scenario.assignment for broker in replicas]
    assert [held.count(broker) for broker in scenario.broker_ids] == [20, 20, 4, 4]
    assert {replicas[0] for replicas in scenario.assignment} == {1, 2, 3, 4}
