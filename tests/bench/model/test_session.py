"""What a session makes of its runs, and that it can be stopped before any of them: on clusters that take no time."""

from __future__ import annotations

import io
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from tierfetch.bench.model import command
from tierfetch.bench.model.budget import expected_s
from tierfetch.bench.model.command import main
from tierfetch.bench.model.draw import drawn
from tierfetch.bench.model.forecast import Forecast
from tierfetch.bench.model.progress import about, left, time_rows
from tierfetch.bench.model.record import Record
from tierfetch.bench.model.scenario import CALIBRATION, TESTS, Kind, Scenario
from tierfetch.bench.model.session import Session
from tierfetch.bench.model.timing import Timing
from tierfetch.model import System, calibration
from tierfetch.model.calibration import Calibrations
from tierfetch.tests.bench.model.fake_labs import MACHINE, FakeLabs, timing

WAVES, MOVES = 6, 16
RUNS = 3
Invoke = Callable[..., Result]
CALIBRATIONS = Path(calibration.__file__).with_name("calibration.json")
SCENARIOS = (
    Scenario(name="replaced", total_mb=1, produce_mb_s=1.0, local_share=0.5),
    Scenario(name="moved", total_mb=1, partitions=6, kind=Kind.ADD, brokers=3),
    Scenario(name="grows", total_mb=1, produce_mb_s=1.0, is_tiered=False),
    Scenario(name="dies", total_mb=1, kind=Kind.HOST, is_tiered=False),
)


def after(tmp_path: Path, name: str) -> tuple[Record, str]:
    """Return the record of a session that has run one scenario alone, of Apache Kafka, and what it said."""
    record, said = Record(tmp_path / "model.json", "x"), io.StringIO()
    (scenario,) = (each for each in CALIBRATION if each.name == name)
    entry = record.entry(scenario, "kafka", is_test=False)
    timing = Timing(
        start_to_isr_s=6.0,
        first_data_s=0.0,
        all_data_s=0.0,
        fenced_s=0.0,
        copied_bytes=16_000_000,
        leader_cpu_s=0.0,
        follower_cpu_s=0.0,
        moves=MOVES,
        waves=WAVES,
    )
    record.measure(entry, timing)
    Session("kafka", record, MACHINE, Console(file=said), FakeLabs()).fit()
    return record, said.getvalue()


def test_a_scenario_alone_changes_its_constant_and_says_so(tmp_path: Path) -> None:
    record, _ = after(tmp_path, "c-waves")
    assert record.calibrations is not None
    before, found = Calibrations.default().systems["kafka"], record.calibrations.systems["kafka"]
    copied_s = 16_000_000 / before.pace(3)
    wave_s = (6.0 - MOVES * before.setup_s - copied_s) / WAVES - before.isr_expansion_s
    assert found == before.model_copy(update={"wave_s": pytest.approx(wave_s), "origin": found.origin})
    assert found.origin.startswith(f"{before.origin}; c-waves: python -m bench model")


def test_some_of_the_first_four_are_not_enough(tmp_path: Path) -> None:
    record, said = after(tmp_path, "c-large")
    assert record.calibrations is None
    assert "c-small, c-many, c-one was not run" in said


def test_what_failed_alone_is_named(tmp_path: Path) -> None:
    record, said = Record(tmp_path / "model.json", "x"), io.StringIO()
    (waves,) = (each for each in CALIBRATION if each.name == "c-waves")
    record.entry(waves, "kafka", is_test=False).failure = "TimeoutError: in vain"
    Session("kafka", record, MACHINE, Console(file=said), FakeLabs()).fit()
    assert record.calibrations is None
    assert "kafka: c-waves was not run" in said.getvalue()


def test_to_measure_constants_and_to_judge_the_model_are_two_things() -> None:
    done = CliRunner().invoke(main, ["--calibrate", "c-waves", "--random", "7"])
    assert done.exit_code == 2
    assert "leave out --scenarios and --random" in done.output


def run_all(record: Record, labs: FakeLabs) -> None:
    Session("tierfetch", record, MACHINE, Console(file=io.StringIO()), labs).test(SCENARIOS, RUNS)


def stopping_at(number: int) -> FakeLabs:
    def before(step: int) -> None:
        if step == number:
            raise KeyboardInterrupt

    return FakeLabs(before)


def test_each_scenario_has_a_cluster_of_its_own_and_is_predicted_before_its_first_run(tmp_path: Path) -> None:
    labs, record = FakeLabs(), Record(tmp_path / "model.json", "x")
    run_all(record, labs)
    assert [what for what, name in labs.steps if name == "replaced"] == [
        "start",
        "data",
        "foresee",
        "first run",
        *["run"] * RUNS,
    ]
    assert [what for what, name in labs.steps if name == "moved"] == [
        "start",
        "data",
        "foresee",
        "first run",
        *["data", "run"] * RUNS,
    ]
    assert [len(each.runs) for each in record.tests] == [RUNS] * len(SCENARIOS)
    assert {step for each in record.tests for step in each.spent_s} == {
        "start",
        "data",
        "prediction",
        "first run",
        "runs",
        "end",
    }


@settings(max_examples=40, deadline=None)
@given(stops=st.lists(st.integers(0, 30), max_size=12))
def test_a_session_that_is_stopped_anywhere_continues_with_the_next_run(
    tmp_path_factory: pytest.TempPathFactory, stops: list[int]
) -> None:
    """However often, and at whatever step: nothing that was measured is measured again, or predicted again."""
    path = tmp_path_factory.mktemp("session") / "model.json"
    record = Record(path, "x")
    kept: dict[str, tuple[Forecast | None, Mapping[str, Any] | None, list[Timing | None]]] = {}
    for number in [*stops, 10**6]:
        labs = stopping_at(number)
        before_it = sum(map(len, (runs for *_, runs in kept.values())))
        try:
            run_all(record, labs)
        except KeyboardInterrupt:
            record.write()
        assert not labs.open_clusters
        measured = [what for what, _ in labs.steps].count("run")
        record = Record.read(path)
        now = {each.scenario.name: (each.forecast, each.plan, [*each.runs]) for each in record.tests}
        for name, (forecast, plan, runs) in kept.items():
            assert now[name][2][: len(runs)] == runs
            assert not runs or now[name][:2] == (forecast, plan)
        assert sum(map(len, (runs for *_, runs in now.values()))) == before_it + measured
        kept = now
    assert {name: len(runs) for name, (_, _, runs) in kept.items()} == {each.name: RUNS for each in SCENARIOS}
    assert not left(record.tests, "tierfetch", dict.fromkeys(SCENARIOS, RUNS)).runs


def test_what_never_ends_is_a_run_too(tmp_path: Path) -> None:
    record = Record(tmp_path / "model.json", "x")
    run_all(record, FakeLabs(hopeless=frozenset({"moved"})))
    (moved,) = (each for each in record.tests if each.scenario.name == "moved")
    assert moved.runs == [None] * RUNS


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (OSError("no port is left"), "OSError: no port is left"),
        (
            subprocess.TimeoutExpired("reassign execute", 300),
            "TimeoutExpired: Command 'reassign execute' timed out after 300 seconds",
        ),
    ],
)
def test_what_failed_is_tried_again_by_the_next_process(tmp_path: Path, error: Exception, failure: str) -> None:
    def before(step: int) -> None:
        if step == 5:
            raise error

    record = Record(tmp_path / "model.json", "x")
    run_all(record, FakeLabs(before))
    first, *_ = record.tests
    assert (first.failure, len(first.runs)) == (failure, 1)
    record = Record.read(record.path)
    run_all(record, FakeLabs())
    assert [(each.failure, len(each.runs)) for each in record.tests] == [("", RUNS)] * len(SCENARIOS)


def test_what_is_left_and_where_the_time_went(tmp_path: Path) -> None:
    record = Record(tmp_path / "model.json", "x")
    wanted = dict.fromkeys(SCENARIOS, 5)
    nothing = left(record.tests, "kafka", wanted)
    usual_s = sum(expected_s(each, "kafka", 5) for each in SCENARIOS)
    assert sum(nothing.seconds.values()) == pytest.approx(usual_s), "nothing was run yet: as on any machine"
    assert nothing.text == f"kafka: 4 scenarios with 20 runs, {about(usual_s)}"
    for scenario, runs in zip(SCENARIOS, (5, 1), strict=False):
        entry = record.entry(scenario, "kafka", is_test=True)
        entry.spent_s = {"start": 60.0, "runs": 120.0 * runs}
        entry.runs = [timing(6.0)] * runs
    slower = (60 + 600 + 60 + 120) / (expected_s(SCENARIOS[0], "kafka", 5) + expected_s(SCENARIOS[1], "kafka", 1))
    found = left(record.tests, "kafka", wanted)
    assert found.text.startswith("kafka: 3 scenarios with 14 runs, about ")
    assert found.seconds == {
        SCENARIOS[1]: pytest.approx(slower * expected_s(SCENARIOS[1], "kafka", 4, is_predicted=True)),
        SCENARIOS[2]: pytest.approx(slower * expected_s(SCENARIOS[2], "kafka", 5)),
        SCENARIOS[3]: pytest.approx(slower * expected_s(SCENARIOS[3], "kafka", 5)),
    }
    headings, row = time_rows(record.tests)
    assert dict(zip(headings, row, strict=True)) == {
        "system": "kafka",
        "start": "2.0 min",
        "data": "0.0 min",
        "prediction": "0.0 min",
        "first run": "0.0 min",
        "runs": "12.0 min",
        "end": "0.0 min",
        "together": "14.0 min",
        "of that measured": "0.6 min",
    }


@pytest.fixture
def signals() -> Iterator[None]:
    """What the command does on a signal, for the test alone."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(each) for each in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    def called(labs: FakeLabs, *options: str, seed: int = 7) -> Result:
        arguments = ["--random", str(seed), "--count", "3", "--runs", "2", "--against", "nothing"]
        arguments += ["--calibration", str(CALIBRATIONS), "--json", str(tmp_path / "model.json")]
        monkeypatch.setattr(command, "command_line", lambda: " ".join(["bench model", *arguments, *options]))
        return CliRunner().invoke(main, [*arguments, *options], obj=labs)

    return called


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_command_and_the_same_command_continues(
    invoke: Invoke, tmp_path: Path, number: signal.Signals
) -> None:
    def before(step: int) -> None:
        if step == 5:
            os.kill(os.getpid(), number)

    stopped = invoke(FakeLabs(before))
    assert stopped.exit_code == (1 if number is signal.SIGINT else 128 + number)
    assert "Stopped; the same command continues. Left:" in stopped.output
    assert "tierfetch: 3 scenarios with 5 runs" in stopped.output
    with_other_options = invoke(FakeLabs(), seed=8)
    assert with_other_options.exit_code == 2
    assert "--again to begin again" in with_other_options.output
    labs = FakeLabs()
    whole = invoke(labs)
    assert whole.exit_code == 0, whole.output
    assert labs.machines == 0, "the machine was measured when the session began"
    assert sum(what == "run" for what, _ in labs.steps) == 5
    record = Record.read(tmp_path / "model.json")
    assert [(each.scenario, len(each.runs)) for each in record.tests] == [(each, 2) for each in drawn(7, 3)]
    assert record.is_finished
    anew = FakeLabs()
    assert invoke(anew).exit_code == 0
    assert anew.runs == 3 * 3, "a session that has ended is begun again"


@pytest.mark.usefixtures("signals")
def test_one_command_says_how_long_it_takes_runs_all_and_writes_the_document(invoke: Invoke, tmp_path: Path) -> None:
    document = tmp_path / "proof.md"
    labs = FakeLabs()
    done = invoke(labs, "--then-docs", str(document))
    assert done.exit_code == 0, done.output
    budget, _, rest = done.output.partition("tierfetch, drawn 1")
    assert "how long it will take" in budget
    assert "about" in budget
    assert "drawn 3" in budget
    assert "the aims, and what was reached" in rest
    text = document.read_text()
    assert "| scenarios drawn from seed 7 |  | 3 |" in text
    stopped = document.with_name("stopped.md")
    assert invoke(stopping_at(8), "--then-docs", str(stopped), "--again").exit_code == 1
    assert not stopped.exists(), "a session that was stopped is no proof"


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize("option", ["--then-docs", "--keep-calibration"])
def test_a_file_that_cannot_be_written_at_the_end_is_refused_at_the_beginning(
    invoke: Invoke, tmp_path: Path, option: str
) -> None:
    labs = FakeLabs()
    refused = invoke(labs, option, str(tmp_path / "nowhere" / "file"))
    assert refused.exit_code == 2
    assert "there is no folder" in refused.output
    assert not labs.steps


@pytest.mark.usefixtures("signals")
def test_a_stopped_session_can_be_begun_again(invoke: Invoke) -> None:
    assert "Left:" in invoke(stopping_at(8)).output
    labs = FakeLabs()
    assert invoke(labs, "--again").exit_code == 0
    assert labs.runs == 3 * 3


def test_the_help_says_how_long_it_takes_as_the_budget_does() -> None:
    """Of both systems, with the constants; within a quarter, for people plan by it."""

    def minutes(scenarios: Sequence[Scenario]) -> float:
        systems: tuple[System, ...] = ("tierfetch", "kafka")
        seconds = [expected_s(each, system, 5) for system in systems for each in scenarios]
        seconds += [expected_s(each, system, command.CALIBRATION_RUNS) for system in systems for each in CALIBRATION]
        return sum(seconds) / 60

    text = " ".join(CliRunner().invoke(main, ["--help"]).output.split())
    assert "python -m bench model everything, about an hour" in text
    assert minutes(TESTS) == pytest.approx(60, rel=0.25)
    assert "the proof: 30 scenarios drawn, not chosen, two hours" in text
    assert minutes(drawn(7, 30)) == pytest.approx(120, rel=0.25)
