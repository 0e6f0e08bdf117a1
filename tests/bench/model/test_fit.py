"""Constants are read off runs that were made with known ones."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tierfetch.bench.model.fit import INTERNAL_PARTITIONS, Seen, fitted, refitted
from tierfetch.bench.model.scenario import CALIBRATION, TESTS, Scenario
from tierfetch.model.calibration import Calibration, Calibrations
from tierfetch.model.inventory_parts import Policy

TRUE = (
    Calibrations.default()
    .systems["tierfetch"]
    .model_copy(
        update={
            "start_s": 0.8,
            "setup_s": 0.064,
            "setup_parallel": 32,
            "aux_s": 0.32,
            "aux_gets": 2,
            "retry_s": 1.1,
            "fetch_bytes_per_s": 2e8,
            "fetch_s": 0.004,
            "fetch_partition_bytes": 1 << 20,
            "fetch_response_bytes": 10 << 20,
            "produce_weight": 3.0,
            "throttle_burst_bytes": 8e6,
            "isr_expansion_s": 0.07,
            "wave_s": 0.6,
            "leader_cpu_s_per_gb": 0.7,
            "follower_cpu_s_per_gb": 1.3,
        }
    )
)
ADOPTING = {Policy.TIER_FIRST, Policy.EARLIEST_PENDING_UPLOAD, Policy.BOUNDED_LOCAL}


def as_the_formula_has_it(scenario: Scenario, true: Calibration) -> Seen:
    adopts = scenario.policies.ours in ADOPTING
    bulk = 4e6 if adopts else scenario.total_bytes
    partitions = scenario.partitions + INTERNAL_PARTITIONS
    seconds = true.start_s + partitions * true.setup_s / true.setup_parallel + true.isr_expansion_s
    if adopts:
        waves = math.ceil(scenario.partitions / true.setup_parallel)
        seconds += true.retry_s + scenario.partitions * true.aux_s / true.setup_parallel
        seconds += waves * true.aux_gets * scenario.latency_ms / 1000
    if scenario.kind.is_rebalance:
        return as_the_formula_has_it_in_waves(scenario, true)
    produced = scenario.produce_mb_s * 1e6
    bulk += produced * (true.start_s + partitions * true.setup_s / true.setup_parallel) if scenario.grows else 0.0
    share = 1 - (true.produce_weight - 1) * produced / true.fetch_bytes_per_s
    copy_s = bulk / (true.pace(scenario.partitions) * share - produced)
    if scenario.throttle_mb_s is not None:
        copy_s = (bulk - true.throttle_burst_bytes) / (scenario.throttle_mb_s * 1e6) + true.throttle_lag_s
    copied = bulk + produced * copy_s
    cpu = copied / 1e9
    return Seen(scenario, seconds + copy_s, copied, true.isr_expansion_s, 0.5 + 0.7 * cpu, 0.9 + 1.3 * cpu)


MOVED, WAVES = 15, 8


def as_the_formula_has_it_in_waves(scenario: Scenario, true: Calibration) -> Seen:
    """Nearly two of three partitions of two replicas move one, to a broker that runs already."""
    copied = scenario.total_bytes * MOVED / scenario.partitions
    setup_s = MOVED * true.setup_s / true.setup_parallel
    seconds = WAVES * (true.wave_s + true.isr_expansion_s) + setup_s + copied / true.pace(scenario.wave_partitions)
    return Seen(scenario, seconds, copied, 0.0, 0.0, 0.0, MOVED, WAVES)


def found(true: Calibration = TRUE) -> dict[str, Seen]:
    return {scenario.name: as_the_formula_has_it(scenario, true) for scenario in CALIBRATION}


@pytest.mark.parametrize(
    "key",
    [
        "start_s",
        "setup_s",
        "aux_s",
        "aux_gets",
        "retry_s",
        "fetch_bytes_per_s",
        "fetch_s",
        "produce_weight",
        "throttle_burst_bytes",
        "isr_expansion_s",
        "wave_s",
        "leader_cpu_s_per_gb",
        "follower_cpu_s_per_gb",
    ],
)
def test_constants_come_back(key: str) -> None:
    configs = ("setup_parallel", "fetch_partition_bytes", "fetch_response_bytes")
    usual = (
        Calibrations.default().systems["tierfetch"].model_copy(update={each: getattr(TRUE, each) for each in configs})
    )
    assert getattr(fitted("tierfetch", found(), usual, ""), key) == pytest.approx(getattr(TRUE, key), rel=1e-6)


def test_throttle_that_holds_back_more_than_it_says() -> None:
    lagging = TRUE.model_copy(update={"throttle_burst_bytes": 0.0, "throttle_lag_s": 0.6})
    constants = fitted("tierfetch", found(lagging), lagging.model_copy(update={"throttle_lag_s": 0.0}), "")
    assert constants.throttle_lag_s == pytest.approx(0.6)
    assert constants.throttle_burst_bytes == 0


def test_scenario_that_was_not_run_is_named() -> None:
    some = found()
    del some["c-large"]
    with pytest.raises(KeyError, match="c-large"):
        fitted("tierfetch", some, TRUE, "")


def test_what_is_not_needed_may_be_missing() -> None:
    some = {name: seen for name, seen in found().items() if not name.startswith(("c-t", "c-p", "c-w"))}
    constants = fitted("tierfetch", some, TRUE, "")
    assert constants.retry_s == TRUE.retry_s
    assert constants.produce_weight == TRUE.produce_weight
    assert constants.start_s == pytest.approx(TRUE.start_s)


def test_one_constant_is_measured_again_and_the_rest_stays() -> None:
    before = TRUE.model_copy(update={"wave_s": 0.0})
    assert refitted(before, {"c-waves": found()["c-waves"]}) == before.model_copy(
        update={"wave_s": pytest.approx(TRUE.wave_s)}
    )


def test_noise_makes_no_constant_negative() -> None:
    some = found()
    for name in ("c-many", "c-one", "c-tier", "c-tier-many", "c-tier-slow", "c-produce", "c-throttle", "c-waves"):
        seen = some[name]
        some[name] = replace(seen, seconds=0.01, isr_s=0.0, leader_cpu_s=0.0, follower_cpu_s=0.0)
    constants = fitted("tierfetch", some, TRUE, "")
    assert Calibration.model_validate(constants.model_dump()) == constants


def test_calibration_and_test_scenarios_are_apart() -> None:
    def what(scenario: Scenario) -> tuple[object, ...]:
        return (
            scenario.total_mb,
            scenario.partitions,
            scenario.local_share,
            scenario.policies,
            scenario.produce_mb_s,
            scenario.throttle_mb_s,
            scenario.latency_ms,
        )

    assert not {what(each) for each in CALIBRATION} & {what(each) for each in TESTS}
    names = [each.name for each in (*CALIBRATION, *TESTS)]
    assert len(names) == len(set(names))
    assert len(TESTS) >= 12
