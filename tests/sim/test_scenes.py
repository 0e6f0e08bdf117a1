"""Scenes: a share of the seeds, all of them, within the safety phase."""

from __future__ import annotations

from functools import partial

import pytest

from tierfetch.sim.faults.log_scenes import LOG_SCENES, log_scene
from tierfetch.sim.faults.quorum_scenes import LONGEST_MS as QUORUM_LONGEST_MS
from tierfetch.sim.faults.quorum_scenes import QUORUM_SCENES, quorum_scene
from tierfetch.sim.faults.scenes import SCENES, Stage, scenes
from tierfetch.sim.faults.schedule import SCENE_KINDS, FaultKind
from tierfetch.sim.machine.chance import derived
from tierfetch.sim.scenarios.cluster_options import BROKERS, ClusterOptions

LATER_KINDS = {FaultKind.LATE_VOTES, FaultKind.RELIEVE_LEADERS, FaultKind.DEPOSE_LEADERS}
STAGE = Stage(
    brokers=tuple(BROKERS),
    controllers=("c-1", "c-2", "c-3"),
    wiped=("broker-1",),
    session_timeout_ms=1_500,
    safety_ms=15_000,
)


@pytest.mark.parametrize("scene", [*SCENES, *LOG_SCENES])
def test_a_scene_is_over_in_time(scene: object) -> None:
    faults = scene(STAGE, derived(1, "scenes"), 5_000)  # type: ignore[operator]
    assert faults
    assert all(5_000 <= fault.at_ms <= fault.end_ms <= 5_000 + 7_000 for fault in faults)


def test_a_share_of_the_seeds_has_scenes_and_every_kind_of_them() -> None:
    found = [scenes(derived(seed, "scenes"), STAGE) for seed in range(100)]
    assert 40 < sum(map(bool, found)) < 80
    assert {fault.kind for faults in found for fault in faults} >= SCENE_KINDS - LATER_KINDS


@pytest.mark.parametrize("scene", QUORUM_SCENES)
def test_a_scene_of_the_quorum_is_over_in_time(scene: object) -> None:
    faults = scene(["c-1", "c-2", "c-3"], derived(1, "scenes"), 5_000)  # type: ignore[operator]
    assert faults
    assert all(5_000 <= fault.at_ms <= fault.end_ms <= 5_000 + QUORUM_LONGEST_MS for fault in faults)


def test_a_share_of_the_seeds_has_a_scene_about_its_logs_and_of_the_quorum() -> None:
    of_logs = [log_scene(derived(seed, "log scenes"), STAGE) for seed in range(100)]
    of_quorum = [quorum_scene(derived(seed, "scenes"), ["c-1", "c-2"], 20_000) for seed in range(100)]
    assert 30 < sum(map(bool, of_logs)) < 70
    assert 40 < sum(map(bool, of_quorum)) < 80
    assert {fault.kind for faults in (*of_logs, *of_quorum) for fault in faults} >= LATER_KINDS


def test_a_disk_with_votes_is_never_lost() -> None:
    for seed in range(60):
        chance = partial(derived, seed)
        options = ClusterOptions.drawn(chance)
        schedule = options.schedule(chance)
        assert len(options.controllers) == 3 + options.spares
        assert len(set(options.controllers) & set(BROKERS)) == options.combined
        for fault in schedule.faults:
            assert fault.kind is not FaultKind.WIPE or fault.targets[0] not in options.controllers
