"""What a session makes of its calibration runs, without running any."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from tierfetch.bench.model.command import main
from tierfetch.bench.model.record import Record
from tierfetch.bench.model.scenario import CALIBRATION
from tierfetch.bench.model.session import Session
from tierfetch.bench.model.timing import Timing
from tierfetch.model.calibration import Calibrations, MachineRates

MACHINE = MachineRates(
    cores=2,
    loopback_bytes_per_s=1e9,
    disk_read_bytes_per_s=1e9,
    disk_write_bytes_per_s=1e9,
    fsync_s=0.001,
    crc_bytes_per_s=1e9,
)
WAVES, MOVES = 6, 16


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
    Session("kafka", record, MACHINE, Console(file=said)).fit()
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


def test_to_measure_constants_and_to_judge_the_model_are_two_things() -> None:
    done = CliRunner().invoke(main, ["--calibrate", "c-waves", "--random", "7"])
    assert done.exit_code == 2
    assert "leave out --scenarios and --random" in done.output
