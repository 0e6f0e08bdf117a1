"""What a seed may choose beside faults: racks, warming, processes with both roles; each does what it is for."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from tierfetch.sim.faults.schedule import Fault, FaultKind, Schedule
from tierfetch.sim.machine.chance import derived
from tierfetch.sim.machine.world import World
from tierfetch.sim.scenarios.cluster import ClusterScenario
from tierfetch.sim.scenarios.cluster_options import BROKERS, ClusterOptions

QUIET = replace(
    ClusterOptions.drawn(partial(derived, 1)),
    partitions=1,
    replication_factor=3,
    producers=2,
    gap_ms=100,
    administrator_pace_ms=100_000,
    replica_fetch_max_bytes=4 * 1024 * 1024,
    racks=False,
    warms=False,
    combined=0,
    pipelined=False,
    retention_ms=-1,
    retention_bytes=-1,
    workers=0,
    unclean=False,
    changing_voters=False,
    spares=0,
    auto_join=False,
)
WARMS = replace(
    QUIET,
    warms=True,
    thin_warm_ms=60_000,
    segment_bytes=3_000,
    local_retention_ms=60_000,
    bootstrap_policy="tier-first",
    follows_tier=True,
)


def run(options: ClusterOptions, safety_ms: int, *faults: Fault) -> tuple[ClusterScenario, list[str]]:
    """One run without findings, and its lines."""
    lines: list[str] = []
    with World(1, sink=lines.append, records_logs=True) as world:
        scenario = ClusterScenario(world, Schedule(safety_ms, faults), options)
        scenario.run()
        assert not scenario.findings()
        assert scenario.records_checked > 0
        assert world.loop.failures == []
    return scenario, lines


def test_every_choice_is_drawn_by_some_seed() -> None:
    drawn = [ClusterOptions.drawn(partial(derived, seed)) for seed in range(60)]
    assert {options.combined for options in drawn} == {0, 1, 3}
    assert {options.warms for options in drawn} == {options.racks for options in drawn} == {False, True}
    assert {options.unclean for options in drawn} == {False, True}
    assert {options.metadata_version == 30 for options in drawn} == {False, True}
    assert {options.pipelined for options in drawn} == {False, True}
    assert {options.chunk_bytes for options in drawn} == {600, 1_500, 4 * 1024 * 1024}
    assert {options.retention_ms for options in drawn} == {-1, 3_000, 6_000}
    assert {options.retention_bytes for options in drawn} == {-1, 4_000, 12_000}
    for options in drawn:
        for name in BROKERS:
            config = (
                options.broker_config(name) if options.combined == 0 else options.combined_config("broker-1").broker
            )
            assert (config.broker_rack is not None) is options.racks
            assert config.thin_replica_warmer_enable is options.warms


@pytest.mark.simulated
def test_consumers_in_a_rack_read_from_followers() -> None:
    assert run(replace(QUIET, racks=True), 2_000)[0].clients.follower_reads > 20
    assert run(QUIET, 1_000)[0].clients.follower_reads == 0


@pytest.mark.simulated
def test_a_wiped_replica_is_warmed() -> None:
    _, lines = run(WARMS, 13_000, Fault(6_000, FaultKind.WIPE, ("broker-2",), 300))
    assert any("broker-2" in line and "has warmed" in line and "bytes from the tier" in line for line in lines)


@pytest.mark.simulated
@pytest.mark.parametrize("combined", [1, 3])
def test_processes_with_both_roles_fail_and_come_back(combined: int) -> None:
    crashes = (
        Fault(1_000, FaultKind.PROCESS_CRASH, ("broker-1",), 300),
        Fault(2_500, FaultKind.MACHINE_CRASH, ("broker-1",), 300),
        Fault(4_000, FaultKind.POWER_FAILURE, tuple(BROKERS), 300),
    )
    scenario, _ = run(replace(QUIET, combined=combined), 6_000, *crashes)
    assert scenario.injector.injected == {"process crash": 1, "machine crash": 1, "power failure": 1}


@pytest.mark.simulated
def test_workers_come_out_exactly_once_though_they_die_and_their_coordinators_move() -> None:
    faults = (Fault(3_000, FaultKind.MOVE_LEADER), Fault(5_000, FaultKind.MACHINE_CRASH, ("broker-2",), 800))
    scenario, _ = run(replace(QUIET, workers=2), 9_000, *faults)
    changed = scenario.tallies().changed
    assert changed["transactions committed"] > 3
    assert changed["workers started"] > 3
    assert changed["assignments to members"] > 3


@pytest.mark.simulated
@pytest.mark.parametrize("retention", [{"retention_ms": 3_000}, {"retention_bytes": 4_000}])
def test_the_main_topic_expires_and_producers_keep_batches_in_flight(retention: dict[str, int]) -> None:
    options = replace(QUIET, pipelined=True, segment_bytes=3_000, local_retention_ms=500, **retention)
    scenario, _ = run(options, 8_000, Fault(4_000, FaultKind.MOVE_LEADER))
    assert scenario.retention.rises > 2
    assert scenario._shared.gap_factor > 1, "or the tier never catches up under the heaviest load"
    assert scenario.world.store.put_ever - scenario.world.store.objects.keys()
