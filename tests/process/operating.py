"""What an operator does to a running cluster, and what must hold of it afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import random
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping

import confluent_kafka

from tierfetch.broker.static_view import StaticClusterView
from tierfetch.cli.local_cluster import LocalCluster
from tierfetch.cli.offsets import list_offset
from tierfetch.cli.processes import poll
from tierfetch.cli.tier.report import Listing
from tierfetch.fetcher.leader_offsets import EARLIEST_LOCAL_TIMESTAMP, EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from tierfetch.log.disk_os import OsDisk
from tierfetch.protocol.errors import KafkaError
from tierfetch.tests.process.looks import leader_of, log_bytes, log_end, registration, registrations

TIMEOUT_S = 30.0


def wait_in_sync(cluster: LocalCluster, topic: str) -> None:
    for _ in poll(TIMEOUT_S, f"{topic} to have both replicas in sync"):
        if set(registration(cluster, topic).isr) == {1, 2}:
            return


def wait_all_in_sync(cluster: LocalCluster) -> None:
    """Of every topic, the one with the remote log metadata too."""
    for _ in poll(TIMEOUT_S, "all replicas to be in sync"):
        if all(set(entry.isr) == set(entry.replicas) for entry in registrations(cluster)):
            return


def wait_local_start(cluster: LocalCluster, topic: str, offset: int) -> None:
    """Until what lies below is in the tier alone."""
    for _ in poll(TIMEOUT_S, f"{topic} to begin at {offset} or later locally"):
        if list_offset(cluster.port(leader_of(cluster, topic)), topic, 0, EARLIEST_LOCAL_TIMESTAMP).offset >= offset:
            return


def check_same_logs(cluster: LocalCluster, topic: str) -> None:
    """What both replicas hold is the same, byte for byte, whatever their segment borders."""
    leader = leader_of(cluster, topic)
    wait_leads(cluster, topic, leader)
    for _ in poll(TIMEOUT_S, f"both replicas of {topic} to reach the same end, all of it committed"):
        end = list_offset(cluster.port(leader), topic, 0, LATEST_TIMESTAMP).offset  # rises as the follower catches up
        with contextlib.suppress(FileNotFoundError):  # local retention goes on
            logs = [log_bytes(cluster, broker, topic) for broker in (1, 2)]
            if [log_end(log) for log in logs] == [end, end]:
                break
    contents = [b"".join(log.values()) for log in logs]
    shorter, longer = sorted(contents, key=len)
    assert longer.endswith(shorter)


def change(cluster: LocalCluster, do: Callable[[StaticClusterView], Awaitable[None]]) -> None:
    """An operator's change of the cluster file."""

    async def run() -> None:
        disk = OsDisk()
        view = StaticClusterView(cluster.cluster_file, disk, random.Random())
        await view.start()
        try:
            await do(view)
        finally:
            await view.close()
            await disk.close()

    asyncio.run(run())


def freeze(cluster: LocalCluster, broker: int) -> None:
    """SIGSTOP, but not while it holds the lock of the cluster file, which would stop everybody."""
    process = cluster.process(broker)
    with cluster.cluster_file.with_name(cluster.cluster_file.name + ".lock").open() as lock:
        for _ in poll(TIMEOUT_S, f"broker {broker} to be caught outside the lock"):
            process.send_signal(signal.SIGSTOP)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                process.send_signal(signal.SIGCONT)
            else:
                return


def elect(cluster: LocalCluster, topic: str, leader: int) -> None:
    async def do(view: StaticClusterView) -> None:
        await view.elect_leader(view.image.topics[topic].id_partition(0), leader)

    change(cluster, do)


def fence_running(cluster: LocalCluster, broker: int) -> None:
    """Take it for dead, although its process is there."""
    change(cluster, lambda view: view.fence_broker(broker))


def run_tier(cluster: LocalCluster, command: str, topic: str, *options: str) -> subprocess.CompletedProcess[str]:
    """`tierfetch tier <command> --json` of one topic."""
    config = str(cluster.base / "broker-1.properties")
    line = [sys.executable, "-m", "tierfetch.cli.main", "tier", command, "--config", config, "--topic", topic, "--json"]
    return subprocess.run([*line, *options], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def check_tier(cluster: LocalCluster, topic: str) -> None:
    """Sound to the last byte, from offset 0 on without a gap. A segment may be there twice: the old leader of an
    epoch that has just ended may finish what the new one begins.
    """
    found = run_tier(cluster, "verify", topic, "--deep")
    assert found.returncode == 0, found.stdout + found.stderr
    (partition,) = Listing.model_validate_json(run_tier(cluster, "ls", topic).stdout).partitions
    finished = [segment for segment in partition.segments if segment.state == "COPY_SEGMENT_FINISHED"]
    assert finished
    ranges = sorted({(segment.start_offset, segment.end_offset + 1) for segment in finished})
    assert [start for start, _ in ranges] == [0, *(end for _, end in ranges[:-1])]


def alter_topic(cluster: LocalCluster, topic: str, configs: Mapping[str, str | None]) -> None:
    change(cluster, lambda view: view.alter_topic_configs(topic, configs))


def wait_leads(cluster: LocalCluster, topic: str, broker: int) -> None:
    """Until the broker itself knows, and has committed something of its epoch."""
    for _ in poll(TIMEOUT_S, f"broker {broker} to lead {topic}"):
        with contextlib.suppress(KafkaError, OSError):
            if list_offset(cluster.port(broker), topic, 0, LATEST_TIMESTAMP).offset >= 0:
                return


def wait_log_start(cluster: LocalCluster, topic: str, offset: int) -> int:
    """The log start, once it is at least `offset` and has come to rest."""
    starts = [-1]
    for _ in poll(TIMEOUT_S, f"{topic} to begin at {offset} or later", 1.5):
        starts.append(list_offset(cluster.port(leader_of(cluster, topic)), topic, 0, EARLIEST_TIMESTAMP).offset)
        if starts[-1] >= offset and starts[-1] == starts[-2]:
            break
    return starts[-1]


def wait_tier_empty(cluster: LocalCluster, topic: str) -> None:
    for _ in poll(TIMEOUT_S, f"the tier to hold nothing of {topic}"):
        if not list((cluster.base / "tier").glob(f"kafka-tiered-storage/{topic}-0-*/*")):
            return


def consumed_from(cluster: LocalCluster, topic: str, offset: int, count: int) -> list[bytes]:
    """Values of partition 0 from an offset on, by a real client."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "test",
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, offset)])
    values: list[bytes] = []
    with contextlib.closing(consumer):
        while len(values) < count:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, f"nothing for {TIMEOUT_S} s after {len(values)} of {count}"
            assert message.error() is None, message.error()
            values.append(message.value() or b"")
    return values
