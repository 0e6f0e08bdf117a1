"""The capture's file and command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tierfetch.cli.model import capture as module
from tierfetch.cli.model.capture import capture_command, observe, rendered
from tierfetch.cli.model.estimate import FILL_IN, capture
from tierfetch.cli.model.observe import Observer
from tierfetch.model.inventory import Inventory

from .clusters import FakeCluster, FakePartition

RATES = ("nic_in_bytes_per_s", "nic_out_bytes_per_s", "disk_read_bytes_per_s", "disk_write_bytes_per_s")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    found = FakeCluster({("t", index): FakePartition() for index in range(3)})

    def run(bootstrap: tuple[str, ...], work: Any) -> Any:
        import asyncio

        assert bootstrap == ("127.0.0.1:9092",)
        return asyncio.run(work(found))

    monkeypatch.setattr(module, "run", run)
    return found


def invoke(*arguments: str | Path) -> Any:
    return CliRunner().invoke(capture_command, [str(each) for each in arguments])


def test_file_is_read_by_the_model_once_filled_in(cluster: FakeCluster, tmp_path: Path) -> None:
    out = tmp_path / "cluster.yaml"
    known = [f"--known={key}=1 GB/s" for key in RATES]
    result = invoke("--window", "0", "--out", out, "--known", "cores=8", *known)
    assert result.exit_code == 0, result.output
    inventory = Inventory.read(out)
    assert (len(inventory.brokers), inventory.partition_count) == (2, 3)
    assert inventory.brokers[0].nic_in_bytes_per_s == 1e9
    assert "2 brokers, 1 topics, 3 partitions" in result.stderr


def test_what_is_unknown_stands_on_top_and_in_place(cluster: FakeCluster) -> None:
    result = invoke("--window", "0")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"# {FILL_IN}: broker_defaults nic_in_bytes_per_s")
    assert any(line.startswith("# note: produce_bytes_per_s are not measured") for line in lines)
    assert yaml.safe_load(result.stdout)["broker_defaults"]["cores"] == FILL_IN


def test_json_by_the_files_name(cluster: FakeCluster, tmp_path: Path) -> None:
    out = tmp_path / "cluster.json"
    assert invoke("--window", "0", "--out", out).exit_code == 0
    assert json.loads(out.read_text())["version"] == 1


def test_unknown_key_is_refused(cluster: FakeCluster) -> None:
    result = invoke("--window", "0", "--known", "core=8")
    assert result.exit_code == 2
    assert "--known core: no such key; there are nic_in_bytes_per_s" in result.stderr


def test_place_that_cannot_be_written_is_refused_before_anybody_is_asked(cluster: FakeCluster, tmp_path: Path) -> None:
    result = invoke("--out", tmp_path / "nowhere" / "cluster.yaml")
    assert result.exit_code == 2
    assert "there is no directory" in result.stderr
    assert cluster.asked == []


async def test_two_looks_with_the_window_between() -> None:
    cluster = FakeCluster({("t", 0): FakePartition()})
    now_s = 0.0

    async def wait(seconds: float) -> None:
        nonlocal now_s
        assert seconds == 10
        now_s += seconds
        cluster.partitions["t", 0].offsets[-1] += 500

    first, second = await observe(Observer(cluster, clock=lambda: now_s, pause_s=0.0), 10, wait)
    captured = capture(first, second, {}, "c")
    (partition,) = captured.document["topics"][0]["partitions"]
    assert partition["produce_bytes_per_s"] == 5_000
    assert "produce_bytes_per_s: 5000" in rendered(captured, as_json=False)
