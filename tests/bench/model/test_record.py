"""The session's file, and what is made of it."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path

import pytest
from rich.console import Console

from tierfetch.bench.model.forecast import Forecast
from tierfetch.bench.model.record import Record
from tierfetch.bench.model.report import aim_rows, markdown, print_tables
from tierfetch.bench.model.scenario import CALIBRATION, TESTS
from tierfetch.bench.model.timing import Timing
from tierfetch.model.calibration import Calibrations


def timing(seconds: float) -> Timing:
    return Timing(
        start_to_isr_s=seconds,
        first_data_s=0.5,
        all_data_s=seconds,
        fenced_s=0.2,
        copied_bytes=50_000_000,
        leader_cpu_s=0.1,
        follower_cpu_s=0.2,
    )


@pytest.fixture
def record(tmp_path: Path) -> Record:
    found = Record(tmp_path / "model.json", "python -m bench model")
    found.calibrations = Calibrations.default()
    found.measure(found.entry(CALIBRATION[0], "tierfetch", is_test=False), timing(0.9))
    entry = found.entry(TESTS[0], "tierfetch", is_test=True)
    found.predict(entry, Forecast(1.0, 49e6))
    for seconds in (1.0, 1.0, 1.05, 1.1, 1.1):
        found.measure(entry, timing(seconds))
    lost = found.entry(TESTS[1], "kafka", is_test=True)
    found.predict(lost, Forecast(math.inf, 0.0, "nothing is pending"))
    found.measure(lost, None)
    return found


def test_prediction_is_in_the_file_before_anything_is_measured(tmp_path: Path) -> None:
    found = Record(tmp_path / "model.json", "x")
    found.predict(found.entry(TESTS[0], "tierfetch", is_test=True), Forecast(1.0, 49e6))
    (entry,) = json.loads(found.path.read_text())["tests"]
    assert entry["forecast"]["start_to_isr_s"] == 1.0
    assert entry["runs"] == []
    assert entry["predicted_at"] > 0


def test_file_is_read_back_as_it_was(record: Record) -> None:
    again = Record.read(record.path)
    assert again.tests == record.tests
    assert again.calibration_runs == record.calibration_runs
    assert again.calibrations == record.calibrations


def test_session_goes_on_with_what_is_not_complete(record: Record) -> None:
    again = Record.read(record.path)
    assert again.completed(5) == {(TESTS[0].name, "tierfetch")}
    begun = again.entry(CALIBRATION[0], "tierfetch", is_test=False)
    assert (len(begun.runs), len(again.calibration_runs)) == (1, 1), "what it has stays"
    assert again.entry(CALIBRATION[0], "kafka", is_test=False).runs == []


def test_the_code_of_all_processes_is_in_the_file(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    first = record.commit
    record.continued()
    assert record.commit == first
    monkeypatch.setattr("tierfetch.bench.model.record.commit", lambda: "other")
    record.continued()
    record.continued()
    assert record.commit == f"{first}, then other"


def test_drawn_scenarios_are_told_beside_the_aims_for_each_system(tmp_path: Path) -> None:
    found = Record(tmp_path / "model.json", "python -m bench model --random 7")
    found.seed = 7
    for system, seconds in (("tierfetch", 1.05), ("kafka", 1.5)):
        for scenario in TESTS[:10]:
            entry = found.entry(scenario, system, is_test=True)
            found.predict(entry, Forecast(1.0, 49e6, low_s=0.9, high_s=1.2))
            for each in (0.99, 1.0, 1.0, 1.0, 1.2):
                found.measure(entry, timing(seconds * each))
    found.entry(TESTS[10], "kafka", is_test=True).failure = "TimeoutError: in vain"
    rows = {row[0]: row[1:] for row in aim_rows(found)}
    assert rows == {
        "": ("aim", "tierfetch", "Apache Kafka 4.3.0"),
        "scenarios drawn from seed 7": ("", "10", "11"),
        "error of the medians, median": ("at most 10%", "5%", "33%"),
        "scenarios within 25%": ("at least 90%", "100%", "0%"),
        "runs in their 80 % interval": ("75% to 90%", "80%", "0%"),
        "upper end of the interval / lower, median": ("", "1.33", "1.33"),
        "scenarios not judged": ("at most 10%", "0%", "9%: 1 failed"),
        "the aim": ("", "holds", "does not hold"),
    }
    text = markdown(found)
    assert "| runs in their 80 % interval | 75% to 90% | 80% | 0% |" in text
    found.seed = None
    assert not list(aim_rows(found)), "chosen scenarios have another aim"


def test_tables_and_document_say_it_all(record: Record) -> None:
    output = io.StringIO()
    print_tables(record, Console(file=output, width=200), 5)
    text = markdown(record)
    for part in (output.getvalue(), text):
        assert TESTS[0].name in part
        assert "-5%" in part
        assert "never" in part
        assert "median error 5%" in part
    assert "| `start_s` |" in text
    assert "49.0 / 50.0 MB" in text
