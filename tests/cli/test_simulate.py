"""The command around the runner; runs are faked."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tierfetch.cli import simulate as command
from tierfetch.sim.faults.schedule import Fault, FaultKind, Schedule, UnfitScheduleError
from tierfetch.sim.faults.shrink import Shrunk
from tierfetch.sim.scenarios.report import RunReport

CRASH = Fault(100, FaultKind.PROCESS_CRASH, ("broker-1",), 50)
PAUSE = Fault(200, FaultKind.PAUSE, ("broker-2",), 50)


def report(seed: int, *failures: str, schedule: Schedule | None = None) -> RunReport:
    return RunReport(
        scenario="cluster",
        seed=seed,
        failures=failures,
        schedule=schedule or Schedule(1_000, (CRASH, PAUSE)),
        options={"partitions": "2"},
        virtual_s=20.0,
        real_s=0.5,
        events=1_000,
        injected={"process crash": 1, "pause, skipped": 1},
        records_acknowledged=30,
        records_checked=29,
        records_excused=1,
        digest="d1",
    )


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Result]:
    """The command with faked runs, of which seed 3 fails; in a directory of its own."""

    def run_seed(seed, scenario=None, *, schedule=None, sink=None, records_logs=False):
        if sink is not None:
            sink(f"a line of {seed}")
        return report(seed, *(["lost write: t-0: 7 at 3"] if seed == 3 else []), schedule=schedule)

    def shrink_failure(failed, *, runs_max):
        return Shrunk(Schedule(1_000, (CRASH,)), 5)

    monkeypatch.setattr(command, "run_seed", run_seed)
    monkeypatch.setattr(command, "shrink_failure", shrink_failure)
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(command.simulate, list(arguments), catch_exceptions=False)


def test_a_page_of_many_seeds(run: Callable[..., Result], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert run("--seeds", "2", "--html", "page.html").exit_code == 0
    assert "2 seeds passed." in (tmp_path / "page.html").read_text()
    assert run("--seeds", "4", "--no-shrink", "--html", "page.html").exit_code == 1
    assert "1 of 4 seeds failed." in (tmp_path / "page.html").read_text()


def test_one_seed_line_by_line(run: Callable[..., Result], tmp_path: Path) -> None:
    shown = run("--seed", "2")
    assert shown.exit_code == 0
    assert shown.output.splitlines()[0] == "a line of 2"
    assert "seed 2 (cluster): passed; 20.0 virtual seconds" in shown.output
    assert "acknowledged 30, checked 29, excused 1; digest d1" in shown.output
    written = run("--seed", "2", "--events", str(tmp_path / "events"))
    assert "a line" not in written.output
    assert (tmp_path / "events").read_text() == "a line of 2\n"


def test_many_seeds_and_how_to_repeat_the_one_that_failed(run: Callable[..., Result], tmp_path: Path) -> None:
    ended = run("--seeds", "4", "--json", str(tmp_path / "reports.json"))
    assert ended.exit_code == 1
    assert "tierfetch simulate --scenario cluster --seed 3" in ended.output
    assert "lost write: t-0: 7 at 3" in ended.output
    assert "with 1 of its 2 faults and 0 of its 0 actions it still fails (found in 5 runs): " in ended.output
    assert "--schedule simulate-cluster-3.json" in ended.output
    assert [each["seed"] for each in json.loads((tmp_path / "reports.json").read_bytes())] == [1, 2, 3, 4]
    assert Schedule.from_json((tmp_path / "simulate-cluster-3.json").read_bytes()).faults == (CRASH,)
    rows = [line for line in ended.output.splitlines() if "faults: " in line]
    assert len(rows) == 1, rows
    assert "process crash" in rows[0]


def test_a_schedule_from_a_file(run: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(Schedule(500, (CRASH,)).to_json())
    assert run("--seed", "1", "--schedule", "s.json").exit_code == 0
    (tmp_path / "s.json").write_text("{}")
    refused = run("--seed", "1", "--schedule", "s.json")
    assert refused.exit_code == 2
    assert "s.json is no schedule" in refused.output


@pytest.mark.parametrize("seeds", [("--seed", "1"), ("--seeds", "2")])
def test_a_schedule_for_another_scenario_is_refused(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seeds: tuple[str, ...]
) -> None:
    def run_seed(*_: object, **__: object) -> None:
        raise UnfitScheduleError("the nodes are ['a']")

    (tmp_path / "s.json").write_text(Schedule(500, (CRASH,)).to_json())
    monkeypatch.setattr(command, "run_seed", run_seed)
    refused = run(*seeds, "--schedule", "s.json")
    assert refused.exit_code == 2
    assert "s.json is for another scenario, or for other options: the nodes are ['a']" in " ".join(
        refused.output.split()
    )


def test_either_one_seed_or_many(run: Callable[..., Result]) -> None:
    for arguments in ([], ["--seed", "1", "--seeds", "2"]):
        assert "give one of --seed, --seeds and --watch" in run(*arguments).output


@pytest.mark.parametrize("option", [("--events", "e"), ("--logs",)])
def test_lines_are_of_one_seed(run: Callable[..., Result], option: tuple[str, ...]) -> None:
    refused = run("--seeds", "2", *option)
    assert refused.exit_code == 2
    assert "give --seed" in refused.output


def test_a_failure_is_shown_as_it_is_also_without_git(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_git(*_: object, **__: object) -> None:
        raise FileNotFoundError("git")

    failing = report(1, "same state machine: t-0: b'[/x]'")
    monkeypatch.setattr(command, "run_seed", lambda *_, **__: failing)
    monkeypatch.setattr(command, "captured", no_git)
    ended = run("--seeds", "1", "--no-shrink")
    assert ended.exit_code == 1
    assert ended.output.count("b'[/x]'") == 2
    assert "failed at commit of version " in ended.output


def test_every_kind_of_fault_is_in_the_summary(run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    many = {f"{kind}{skipped}": number for number, kind in enumerate(FaultKind, 1) for skipped in (", skipped", "")}
    monkeypatch.setattr(command, "run_seed", lambda *_, **__: replace(report(1), injected=many))
    output = run("--seeds", "1").output
    assert not [kind for kind in FaultKind if f"faults: {kind} " not in output]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_run_without_any_seed_is_no_success(run: Callable[..., Result], tmp_path: Path, jobs: str) -> None:
    ended = run("--seeds", "4", "--time-limit", "0", "--jobs", jobs, "--json", str(tmp_path / "reports.json"))
    assert ended.exit_code == 1
    assert "no seed was run: the time limit of 0.0 s" in ended.output
    assert not (tmp_path / "reports.json").exists()


def test_the_summary_says_how_many_seeds_the_time_was_enough_for(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = iter([0.0, 1.0, 2.0, 3.0])
    monkeypatch.setattr(command.time, "monotonic", lambda: next(moments, 9.0))
    ended = run("--seeds", "4", "--start", "4", "--time-limit", "2.5")
    assert ended.exit_code == 0
    assert "2 of 4 (cluster 2)" in ended.output


def test_a_failure_that_does_not_fail_again_is_said_to_be_a_bug_of_the_simulation(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(command, "shrink_failure", lambda *_, **__: None)
    ended = run("--seed", "3")
    assert ended.exit_code == 1
    assert "did not fail again with the same faults" in ended.output
    assert not list(tmp_path.glob("simulate-*.json"))
