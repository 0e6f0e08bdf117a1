"""A fixed set of seeds of each scenario; the same seed is the same run, event for event."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from multiprocessing import get_context
from multiprocessing.pool import AsyncResult

import pytest

from tierfetch.sim.faults.schedule import Fault, FaultKind, Schedule
from tierfetch.sim.scenarios.report import RunReport
from tierfetch.sim.scenarios.runner import SCENARIOS, run_seed

pytestmark = pytest.mark.simulated

SEEDS = range(1, 9)
RUN_S = 280
Runs = Mapping[tuple[str, int], "AsyncResult[RunReport]"]


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[Runs]:
    """Of all seeds that are asked for: beside each other, for each takes one core."""
    tests = [item for item in request.session.items if getattr(item, "originalname", "") == test_Q13_seed.__name__]
    wanted = [(item.callspec.params["scenario"], item.callspec.params["seed"]) for item in tests]
    with get_context("spawn").Pool(os.cpu_count()) as pool:  # its end kills a seed that does not end
        yield {(scenario, seed): pool.apply_async(run_seed, (seed, scenario)) for scenario, seed in wanted}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
@pytest.mark.parametrize("seed", SEEDS)
def test_Q13_seed(runs: Runs, scenario: str, seed: int) -> None:
    report = runs[scenario, seed].get(RUN_S)
    assert not report.has_failed, (report.failures, f"tierfetch simulate --scenario {scenario} --seed {seed}")
    assert report.records_checked > 0


@pytest.mark.slow
@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_a_seed_is_the_same_run_in_another_process_with_other_hashes(scenario: str) -> None:
    command = [
        sys.executable,
        "-c",
        f"from tierfetch.sim.scenarios.runner import run_seed; print(run_seed(2, {scenario!r}).digest)",
    ]
    processes = [
        subprocess.Popen(command, env={**os.environ, "PYTHONHASHSEED": hash_seed}, stdout=subprocess.PIPE, text=True)
        for hash_seed in ("1", "2")
    ]
    digests = [process.communicate(timeout=RUN_S)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert digests[0] == digests[1] != ""


@pytest.mark.slow
def test_a_schedule_replaces_the_seeds_own() -> None:
    schedule = Schedule(3_000, (Fault(1_000, FaultKind.MACHINE_CRASH, ("broker-1",), 500),))
    report = run_seed(5, "cluster", schedule=schedule)
    assert report.schedule == schedule
    assert report.injected == {"machine crash": 1}
    assert not report.has_failed
