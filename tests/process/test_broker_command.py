"""`tierfetch broker` as a process: start, stop, exit codes, what it says."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest

from tierfetch.cli.local.cluster import LocalCluster, TierSettings
from tierfetch.cli.local.processes import free_ports, poll
from tierfetch.cli.local.quorum import LocalQuorum
from tierfetch.tests.process.conftest import local_tier

REGISTRATION_TIMEOUT = "initial.broker.registration.timeout.ms"
IDLE_RSS_BYTES_MAX = 100 * 1024 * 1024


def run_broker(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tierfetch.cli.main", "broker", "--config", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, cwd=path.parent)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One broker with a tier; each test leaves it running."""
    base = tmp_path_factory.mktemp("broker")
    with LocalCluster(base, (1,), tier=local_tier(base)) as cluster:
        yield cluster


def run_changed(cluster: LocalCluster, path: Path, changes: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """A second broker, with the first one's configuration but for these texts in it."""
    text = cluster.config_file(1).read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return run_broker(path)


def test_stops_in_order_on_sigterm_and_sigint(cluster: LocalCluster) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        process = cluster.process(1)
        process.send_signal(number)
        assert process.wait(20) == 0, cluster.log_tail(1)
        assert (cluster.data_directory(1) / ".kafka_cleanshutdown").exists()
        cluster.stop(1)
        cluster.start(1)
        cluster.wait_serving(1)


def test_second_broker_on_the_same_directory_is_refused(cluster: LocalCluster, tmp_path: Path) -> None:
    changes = {f":{cluster.port(1)}": ":0", "metrics.port": "# metrics.port"}
    finished = run_changed(cluster, tmp_path / "second.properties", changes)
    assert finished.returncode == 1
    assert "is in use by another process" in finished.stderr
    assert "Traceback" not in finished.stderr


def test_a_start_that_waits_for_controllers_stops_when_it_is_told_to(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    properties = tmp_path / "lonely.properties"
    properties.write_text(
        f"node.id=1\nlog.dirs={tmp_path / 'data'}\nlisteners=PLAINTEXT://127.0.0.1:0\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:{port}\n"
    )
    command = [sys.executable, "-m", "tierfetch.cli.main", "broker", "--config", str(properties)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "asking the controllers" in process.stderr.readline()
        process.terminate()
        rest = process.communicate(timeout=20)[1]
    assert process.returncode == 0, rest
    assert rest.rstrip().endswith("broker 1 stops")


def test_a_broker_without_controllers_says_who_refuses_it_and_ends(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    properties = tmp_path / "lonely.properties"
    properties.write_text(
        f"node.id=1\nlog.dirs={tmp_path / 'data'}\nlisteners=PLAINTEXT://127.0.0.1:0\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:{port}\n{REGISTRATION_TIMEOUT}=2000\n"
    )
    finished = run_broker(properties)
    assert finished.returncode == 1, finished.stderr
    _, waiting, end = finished.stderr.splitlines()
    refusal = f"127.0.0.1:{port} cannot be reached: it refuses connections"
    assert f"waiting for a controller to name the cluster: {refusal}; giving up in 1 s" in waiting
    assert f"no active controller was found within 2 s ({REGISTRATION_TIMEOUT}): {refusal}; check controller." in end


def test_what_the_last_run_knew_of_controllers_is_not_told_as_news(cluster: LocalCluster, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    assert cluster.quorum is not None
    cluster.stop(1)
    try:
        changes = {
            f"127.0.0.1:{cluster.quorum.port(100)}": f"127.0.0.1:{port}",
            "broker.heartbeat": f"{REGISTRATION_TIMEOUT}=3000\nbroker.heartbeat",
        }
        cluster.quorum.stop(100)
        finished = run_changed(cluster, tmp_path / "used.properties", changes)
    finally:
        cluster.quorum.start(100)
        cluster.quorum.wait_serving(100)
        cluster.start(1)
        cluster.wait_serving(1)
    assert finished.returncode == 1, finished.stderr
    assert "is active" not in finished.stderr
    assert "waiting for an active controller: " in finished.stderr
    assert "it refuses connections" in finished.stderr.splitlines()[-1]
    assert "Traceback" not in finished.stderr
    assert "controller 100 is active in epoch" in cluster.log_tail(1)


def test_a_controller_without_a_majority_says_whom_it_misses(tmp_path: Path) -> None:
    with LocalQuorum(tmp_path, 2) as quorum:
        quorum.stop(2)
        missing = f"127.0.0.1:{quorum.port(2)} cannot be reached: it refuses connections"
        for _ in poll(30, lambda: quorum.log_tail(1)):
            lines = quorum.log_file(1).read_text().splitlines()
            if any("waiting for a majority of the voters 1, 2" in line and missing in line for line in lines):
                return


COUNT_KEY = "rlmm.config.remote.log.metadata.topic.num.partitions"


def another_broker(cluster: LocalCluster, count: str) -> dict[str, str]:
    """What a second broker of the cluster has otherwise; `count` stands in place of the metadata topic's count."""
    return {
        f":{cluster.port(1)}": ":0",
        "metrics.port": "# metrics.port",
        "broker-1\n": "another\n",
        "node.id=1": "node.id=7",
        f"{COUNT_KEY}=5": count,
    }


@pytest.mark.plaintext
def test_a_broker_that_contradicts_the_metadata_topic_does_not_start(cluster: LocalCluster, tmp_path: Path) -> None:
    finished = run_changed(cluster, tmp_path / "other.properties", another_broker(cluster, f"{COUNT_KEY}=6"))
    assert finished.returncode == 1, finished.stderr
    last = finished.stderr.splitlines()[-1]
    assert "broker 7 cannot start: " in last
    assert f"__remote_log_metadata has 5 partitions, and {COUNT_KEY} says 6" in last
    assert "Traceback" not in finished.stderr


@pytest.mark.plaintext
def test_a_broker_that_says_nothing_of_the_metadata_topic_takes_it_as_it_is(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    path, log = tmp_path / "own.properties", tmp_path / "own.log"
    text = cluster.config_file(1).read_text()
    for old, new in another_broker(cluster, "").items():
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    command = [sys.executable, "-m", "tierfetch.cli.main", "broker", "--config", str(path)]
    with log.open("w") as output, subprocess.Popen(command, stderr=output) as process:
        for _ in poll(60, log.read_text):
            if "broker 7 is ready" in log.read_text():
                break
            assert process.poll() is None, log.read_text()
        process.terminate()
        assert process.wait(30) == 0, log.read_text()


def test_a_broker_whose_tier_refuses_it_serves_and_says_so_loudly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    tier = TierSettings("s3", {"bucket": "nosuch", "endpoint.url": "http://127.0.0.1:1", "region": "us-east-1"})
    with LocalCluster(tmp_path, (1,), tier=tier) as cluster:
        wanted = "ERROR tierfetch.cli.running: the tier refuses this broker, and nothing is copied to it until"
        for _ in poll(30, lambda: cluster.log_tail(1)):
            if wanted in cluster.log_file(1).read_text():
                break
        assert cluster.process(1).poll() is None


def test_port_that_is_taken_is_said(cluster: LocalCluster, tmp_path: Path) -> None:
    changes = {"broker-1\n": "elsewhere\n", "node.id=1": "node.id=2"}
    finished = run_changed(cluster, tmp_path / "second.properties", changes)
    assert finished.returncode == 1
    assert f"{cluster.port(1)}" in finished.stderr
    assert "Traceback" not in finished.stderr


def test_idle_broker_is_small(cluster: LocalCluster) -> None:
    """100 MiB is the limit that is promised; what it needs is about half of it."""
    process = psutil.Process(cluster.process(1).pid)
    assert process.memory_info().rss < IDLE_RSS_BYTES_MAX
