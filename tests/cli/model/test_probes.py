"""The probes move real bytes; their figures are not judged, only that they are there and nothing stays behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from click.testing import CliRunner

from tierfetch.cli.model import calibrate, probes
from tierfetch.cli.model.calibrate import calibrate_command
from tierfetch.cli.model.pace import LeaderPace, largest_led
from tierfetch.cli.model.snapshot import PartitionState, Snapshot
from tierfetch.model.calibration import Calibrations
from tierfetch.tests.fakes.remote_storage import MemoryRemoteStorage

SIZE = 1 << 20


def test_machine_probes_leave_nothing_behind(tmp_path: Path) -> None:
    machine = calibrate.measured_machine(tmp_path, SIZE)
    assert machine.cores >= 1
    assert min(machine.loopback_bytes_per_s, machine.disk_write_bytes_per_s, machine.crc_bytes_per_s) > 0
    assert list(tmp_path.iterdir()) == []


async def test_tier_probe_deletes_what_it_put() -> None:
    storage = MemoryRemoteStorage()
    figures = await probes.tier(storage, SIZE)
    assert min(figures.put_bytes_per_s, figures.get_bytes_per_s) > 0
    assert not storage.objects


def invoke(*arguments: str | Path) -> Any:
    return CliRunner().invoke(calibrate_command, [str(each) for each in arguments])


def test_calibration_keeps_the_fixed_seconds_of_its_base(tmp_path: Path) -> None:
    out = tmp_path / "calibration.json"
    options = (f"--option=dir={tmp_path / 'tier'}", "--tier", "local")
    result = invoke("--out", out, "--dir", tmp_path, "--size-mb", "1", *options)
    assert result.exit_code == 0, result.output
    found = Calibrations.read(out)
    assert found.systems == Calibrations.default().systems
    assert found.machine is not None
    assert found.machine.tier_request_s is not None
    assert "loopback" in result.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["calibration.json", "tier"]


def test_wrong_tier_is_said_in_a_line(tmp_path: Path) -> None:
    result = invoke("--out", tmp_path / "c.json", "--dir", tmp_path, "--size-mb", "1", "--tier", "nowhere")
    assert result.exit_code == 1
    assert "no plugin 'nowhere'" in result.stderr


def test_slowest_leader_limits_the_copy() -> None:
    usual = Calibrations.default()
    leaders = {1: LeaderPace(0.001, 5e7), 2: LeaderPace(0.001, 9e7), 3: LeaderPace(0.001, None)}
    limited = calibrate.limited_by(usual, "kafka", leaders)
    assert limited.systems["kafka"].fetch_bytes_per_s == 5e7
    assert limited.systems["tierfetch"] == usual.systems["tierfetch"]
    assert calibrate.limited_by(usual, "kafka", {1: LeaderPace(0.001, None)}) == usual


def test_leaders_are_read_where_they_hold_most() -> None:
    states = {
        ("t", index): PartitionState(topic="t", index=index, leader=1 + index % 2, replicas=(1, 2), isr=(1, 2))
        for index in range(12)
    }
    sizes = {(1, "t", index): 1000 * index for index in range(12)}
    snapshot = Snapshot(brokers={}, topic_configs={}, partitions=states, local_bytes=sizes)
    assert [state.index for state in largest_led(snapshot, 1)] == [10, 8, 6, 4]
