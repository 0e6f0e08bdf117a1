"""The cluster that applications test against: its faults are those of real processes, and it leaves nothing."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tierfetch.plugin_registry import REPLICA_SELECTOR
from tierfetch.testing import ClusterOptions, InProcessCluster
from tierfetch.testing.cluster.moto import moto_bucket
from tierfetch.tests.fakes.packages import install_package

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow
TIMEOUT_S: Final = 20.0


def values(cluster: InProcessCluster, topic: str) -> list[bytes | None]:
    return [record.value for record in cluster.records(topic)]


def test_a_tiered_topic_is_read_from_a_wiped_brokers_tier(tierfetch_cluster: InProcessCluster) -> None:
    cluster = tierfetch_cluster
    cluster.create_topic("t", 2, tiered=True)
    assert cluster.topics == ("t",)
    for number in (0, 1):
        cluster.produce("t", b"a%d" % number, b"b%d" % number, partition=number)
    cluster.roll_segments("t")
    cluster.wait_tiered("t")
    assert values(cluster, "t") == [b"a0", b"b0", b"a1", b"b1"]
    assert list((cluster.directory / "tier").rglob("*.log"))


@pytest.mark.tierfetch(brokers=3, tier=None)
def test_a_killed_leader_is_replaced_and_returns_at_its_address(tierfetch_cluster: InProcessCluster) -> None:
    cluster = tierfetch_cluster
    cluster.create_topic("t", configs={"min.insync.replicas": "2"})
    cluster.produce("t", b"before")
    dead = cluster.leader("t")
    cluster.kill(dead)
    assert not cluster.is_running(dead)
    assert not (cluster.log_directory(dead) / ".kafka_cleanshutdown").exists()
    host, port = cluster.address(dead).split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), 1)
    assert cluster.wait_leader("t") != dead
    cluster.produce("t", b"after")
    cluster.start(dead, wipe=True)
    cluster.wait_isr("t")
    assert values(cluster, "t") == [b"before", b"after"]


TO_A_FOLLOWER = """
from tierfetch.plugin_options import PluginConfig

class ToAFollower:
    Config = PluginConfig
    def __init__(self, config): ...
    def __call__(self, rack, leader, followers): return followers[0] if followers else leader
"""


def test_records_are_read_where_the_leader_sends_consumers(
    tierfetch_cluster_factory: Callable[..., InProcessCluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = {(REPLICA_SELECTOR, "to-a-follower"): "to_a_follower:ToAFollower"}
    install_package(tmp_path, "somebodys", plugin, to_a_follower=TO_A_FOLLOWER)
    monkeypatch.syspath_prepend(tmp_path)
    cluster = tierfetch_cluster_factory(brokers=2, tier=None, configs={"replica.selector.class": "to-a-follower"})
    cluster.create_topic("t")
    cluster.produce("t", b"one", b"two")
    assert values(cluster, "t") == [b"one", b"two"]


@pytest.mark.parametrize("style", ["keywords", "dictionary"])
def test_a_transaction_with_offsets_of_a_group(tierfetch_cluster: InProcessCluster, style: str) -> None:
    cluster = tierfetch_cluster
    cluster.create_topic("in")
    cluster.create_topic("out")
    cluster.produce("in", b"one", b"two")
    clients, dictionary = cluster.client("confluent"), {"group.id": "g", "enable.auto.commit": False}
    if style == "keywords":
        consumer = clients.consumer("in", group_id="g", enable_auto_commit=False)
        producer = clients.producer(transactional_id="x")
    else:
        consumer = clients.consumer("in", configs=dictionary)
        producer = clients.producer({"transactional.id": "x"})
    producer.init_transactions(TIMEOUT_S)
    for is_kept in (False, True):
        producer.begin_transaction()
        producer.produce("out", str(is_kept))
        if is_kept:
            message = consumer.poll(TIMEOUT_S)
            assert message.value() == b"one"
            positions = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), TIMEOUT_S)
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.abort_transaction(TIMEOUT_S)
    assert values(cluster, "out") == [b"True"]
    assert [each.offset for each in consumer.committed(consumer.assignment(), TIMEOUT_S)] == [1]
    consumer.close()


@pytest.mark.tierfetch(brokers=2, tier=None)
def test_a_broker_stopped_in_order_says_so_on_disk(tierfetch_cluster: InProcessCluster) -> None:
    cluster = tierfetch_cluster
    cluster.create_topic("t")
    cluster.stop(2)
    assert (cluster.log_directory(2) / ".kafka_cleanshutdown").exists()
    cluster.start(2)
    cluster.wait_isr("t")


@pytest.mark.parametrize("fault", ["stall", "refuse", "pause"])
@pytest.mark.tierfetch(brokers=2, tier=None)
def test_a_broker_out_of_reach_loses_its_leadership_and_comes_back(
    tierfetch_cluster: InProcessCluster, fault: str
) -> None:
    cluster = tierfetch_cluster
    cluster.create_topic("t")
    cluster.produce("t", b"before")
    away = cluster.leader("t")
    if fault == "pause":
        cluster.pause(away)
    else:
        cluster.partition(away, refuse=fault == "refuse")
    cluster.wait_until(lambda: cluster.leader("t") not in (away, -1), "another leader")
    assert cluster.is_running(away)
    cluster.produce("t", b"meanwhile")
    if fault == "pause":
        cluster.resume(away)
    else:
        cluster.heal(away)
    cluster.wait_isr("t")
    assert values(cluster, "t") == [b"before", b"meanwhile"]


@pytest.mark.tierfetch(brokers=2, tier=None, log_dirs=2)
def test_a_failed_disk_stops_the_broker(tierfetch_cluster: InProcessCluster) -> None:
    cluster = tierfetch_cluster
    cluster.create_topic("t", 4)
    cluster.fail_disk(1)
    cluster.wait_until(lambda: not cluster.is_running(1), "broker 1 to stop")
    cluster.start(1)
    cluster.wait_isr("t")


def test_a_tier_that_is_away_is_tried_again(tierfetch_cluster: InProcessCluster) -> None:
    cluster = tierfetch_cluster
    cluster.create_topic("t", tiered=True)
    cluster.fail_tier()
    cluster.produce("t", b"a")
    cluster.roll_segments("t")
    with pytest.raises(TimeoutError, match="the closed segments of t-0 to be in the tier"):
        cluster.wait_tiered("t", timeout_s=0.3)
    cluster.heal_tier()
    cluster.wait_tiered("t")


@pytest.mark.tierfetch(tier=None)
def test_a_tiered_topic_needs_a_tier(tierfetch_cluster: InProcessCluster) -> None:
    with pytest.raises(ValueError, match="start it with tier='local'"):
        tierfetch_cluster.create_topic("t", tiered=True)


def test_nothing_is_left_of_stopped_killed_paused_and_cut_off_nodes() -> None:
    def descriptors() -> list[str]:
        gc.collect()  # what earlier tests left to it
        links = (Path("/proc/self/fd", name) for name in os.listdir("/proc/self/fd"))
        return sorted(os.readlink(link) for link in links if link.is_symlink())

    with InProcessCluster():  # what the first one imports and opens for good
        pass
    threads, before = threading.active_count(), descriptors()
    with InProcessCluster(ClusterOptions(brokers=4)) as cluster:
        cluster.create_topic("t", 3, tiered=True)
        cluster.produce("t", b"a")
        cluster.kill(1)
        cluster.pause(2)
        cluster.partition(3)
    cluster.wait_until(lambda: threading.active_count() == threads, "the threads of the tier's plugins, which are idle")
    assert descriptors() == before
    assert not cluster.directory.exists()


def test_a_cluster_is_ready_within_four_tenths_of_a_second() -> None:
    """CPU time, which the load of the machine changes little; `python -m bench.startup` has the clock's."""
    spent_s = []
    for _ in range(5):  # the first one imports
        began_s = time.process_time()
        with InProcessCluster():
            spent_s.append(time.process_time() - began_s)
    assert min(spent_s) <= 0.4


def test_a_node_in_plaintext_imports_no_parser_of_certificates_and_no_client_library() -> None:
    """Imports are most of a node's start."""
    unused = {"aiokafka", "boto3", "confluent_kafka", "cryptography", "hypothesis", "jwt", "kafka", "moto", "scramp"}
    start = "import sys; from tierfetch.testing import InProcessCluster\nwith InProcessCluster():"
    code = f"{start} print({unused} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "set()"


def test_a_run_that_uses_no_cluster_imports_none() -> None:
    loaded = "sorted(name for name in sys.modules if name.startswith(('tierfetch.', 'pydantic', 'kio', 'asyncio')))"
    code = f"import sys, tierfetch.testing.pytest_plugin; print({loaded})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    light = ["doors", "testing", "testing.pytest_plugin", "testing.simulation", "testing.simulation.seeds"]
    assert done.stdout.strip() == str([f"tierfetch.{name}" for name in light])


def test_a_moto_bucket_ends_with_its_block() -> None:
    before = threading.active_count()
    with moto_bucket() as options:  # its first use imports much
        assert options["bucket"].startswith("tier-")
    assert threading.active_count() == before


def test_the_page_is_executable_and_failures_show_the_nodes_log(tmp_path: Path) -> None:
    """The examples of docs/testing.md, as a user runs them; after them a test that fails."""
    page = (ROOT / "docs/testing.md").read_text()
    (block,) = [part.partition("```")[0] for part in page.split("```python\n")[1:]]
    failing = "\n\ndef test_fails(tierfetch_cluster):\n    assert False\n"
    (tmp_path / "test_page.py").write_text(block + failing)
    command = ["-m", "pytest", "-p", "tierfetch.testing.pytest_plugin", "-q", "--asyncio-mode=auto", str(tmp_path)]
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=tmp_path, timeout=110, env=ours
    )
    assert "1 failed, 4 passed" in done.stdout, done.stdout + done.stderr
    assert "broker 1 serves" in done.stdout
