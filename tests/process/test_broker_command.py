"""`tierfetch broker` as a process: start, stop, exit codes, what it says."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil

from tierfetch.cli.local_cluster import LocalCluster
from tierfetch.tests.process.conftest import local_tier

IDLE_RSS_BYTES_MAX = 100 * 1024 * 1024


def run_broker(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tierfetch.cli.main", "broker", "--config", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, cwd=path.parent)


def test_stops_in_order_on_sigterm_and_sigint(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, (1,)) as cluster:
        for number in (signal.SIGTERM, signal.SIGINT):
            process = cluster.process(1)
            process.send_signal(number)
            assert process.wait(20) == 0, cluster.log_tail(1)
            assert (cluster.data_directory(1) / ".kafka_cleanshutdown").exists()
            cluster.stop(1)
            cluster.start(1)
            cluster.wait_serving(1)


def test_second_broker_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, (1,)) as cluster:
        copy = tmp_path / "second.properties"
        text = (tmp_path / "broker-1.properties").read_text()
        copy.write_text(text.replace(f":{cluster.port(1)}", ":0").replace("metrics.port", "# metrics.port"))
        finished = run_broker(copy)
    assert finished.returncode == 1
    assert "is in use by another process" in finished.stderr
    assert "Traceback" not in finished.stderr


def test_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, (1,)) as cluster:
        copy = tmp_path / "second.properties"
        text = (tmp_path / "broker-1.properties").read_text()
        copy.write_text(text.replace("broker-1\n", "elsewhere\n").replace("node.id=1", "node.id=2"))
        finished = run_broker(copy)
        assert finished.returncode == 1
        assert f"{cluster.port(1)}" in finished.stderr
    assert "Traceback" not in finished.stderr


def test_idle_broker_is_small(tmp_path: Path) -> None:
    """100 MiB is the limit that is promised; what it needs is about half of it."""
    with LocalCluster(tmp_path, (1,), tier=local_tier(tmp_path)) as cluster:
        process = psutil.Process(cluster.process(1).pid)
        assert process.memory_info().rss < IDLE_RSS_BYTES_MAX
