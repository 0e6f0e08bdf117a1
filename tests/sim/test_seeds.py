"""A fixed set of seeds of each scenario; the same seed is the same run, event for event."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tierfetch.sim.runner import SCENARIOS, run_seed
from tierfetch.sim.schedule import Fault, FaultKind, Schedule

SEEDS = range(1, 9)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
@pytest.mark.parametrize("seed", SEEDS)
def test_Q13_seed(scenario: str, seed: int) -> None:
    report = run_seed(seed, scenario)
    assert not report.has_failed, (report.failures, f"tierfetch simulate --scenario {scenario} --seed {seed}")
    assert report.records_checked > 0


@pytest.mark.slow
@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_a_seed_is_the_same_run_in_another_process_with_other_hashes(scenario: str) -> None:
    code = f"from tierfetch.sim.runner import run_seed; print(run_seed(2, {scenario!r}).digest)"
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(digests) == 1


@pytest.mark.slow
def test_a_schedule_replaces_the_seeds_own() -> None:
    schedule = Schedule(3_000, (Fault(1_000, FaultKind.MACHINE_CRASH, ("broker-1",), 500),))
    report = run_seed(5, "governed", schedule=schedule)
    assert report.schedule == schedule
    assert report.injected == {"machine crash": 1}
    assert not report.has_failed
