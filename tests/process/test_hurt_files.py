"""Log directories that were torn, flipped, littered or filled while a broker was down or up."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from click.testing import CliRunner

from tierfetch.cli.cluster_session import Admin
from tierfetch.cli.console.reading import ClusterReading
from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.cli.main import cli
from tierfetch.cli.offsets import list_offset
from tierfetch.cli.options import addresses
from tierfetch.console.core.verdicts import cluster_verdict
from tierfetch.fetcher.core.leader_offsets import LATEST_TIMESTAMP
from tierfetch.log.core import RECOVERY_POINT_CHECKPOINT, encode_offsets
from tierfetch.protocol.errors import KafkaError
from tierfetch.protocol.topics import TopicPartition
from tierfetch.tests.process import connecting
from tierfetch.tests.process.clients import Librdkafka, create_topic
from tierfetch.tests.process.looks import leader_of, registration
from tierfetch.tests.process.operating import check_same_logs, elect, wait_in_sync
from tierfetch.tests.process.producing import SteadyProducer

TIMEOUT_S = 60.0
VALUES = [b"%06d " % number + b"x" * 1000 for number in range(5000)]
DISK_BYTES = 48 * 1024 * 1024
FREE_BYTES = 3 * 1024 * 1024


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("hurt"), (1,)) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: LocalCluster) -> LocalCluster:
    """One broker for all, which serves whatever became of it in the test before."""
    if not running.is_running(1):
        running.start(1)
    running.wait_serving(1)
    return running


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name of the test's own."""
    return re.sub("[^a-z0-9]+", "-", request.node.name)[-100:].strip("-")


def filled(cluster: LocalCluster, *topics: str) -> None:
    """Each topic has several closed segments, then its broker is killed. The last one that was closed may have been
    flushed while it was the active one: its indexes wait for the next flush.
    """
    for topic in topics:
        create_topic(cluster.bootstrap_servers, topic, replicas=1, configs={"segment.bytes": "1048576"})
        Librdkafka().produce(cluster.bootstrap_servers, topic, VALUES, "none")
        for _ in poll(TIMEOUT_S, f"the closed segments of {topic} to be flushed"):
            older = len(segments(cluster, topic)) - 2
            if len(list((cluster.data_directory(1) / f"{topic}-0").glob("*.timeindex"))) >= older > 0:
                break
    cluster.kill(1)


def note_flushed(cluster: LocalCluster, topic: str, offset: int) -> None:
    """As if the broker had flushed everything below before it was killed: what it finds damaged there, it refuses."""
    path = cluster.data_directory(1) / RECOVERY_POINT_CHECKPOINT
    path.write_bytes(encode_offsets({TopicPartition(topic, 0): offset}))


def segments(cluster: LocalCluster, topic: str) -> list[Path]:
    return sorted((cluster.data_directory(1) / f"{topic}-0").glob("*.log"))


def restart(cluster: LocalCluster) -> str:
    """What the broker said while it started."""
    seen = len(cluster.log_file(1).read_text())
    cluster.start(1)
    cluster.wait_serving(1)
    return cluster.log_file(1).read_text()[seen:]


def test_a_flipped_bit_in_what_was_flushed_is_named_and_the_others_serve(cluster: LocalCluster) -> None:
    filled(cluster, "flipped", "whole")
    hurt = segments(cluster, "flipped")[1]
    content = bytearray(hurt.read_bytes())
    content[len(content) // 2] ^= 4
    hurt.write_bytes(content)
    note_flushed(cluster, "flipped", int(hurt.stem) + 1)
    said = restart(cluster)
    assert str(hurt) in said
    assert "byte" in said
    with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
        list_offset(cluster.port(1), "flipped", 0, LATEST_TIMESTAMP)
    assert Librdkafka().consume(cluster.bootstrap_servers, "whole", len(VALUES)) == VALUES
    assert hurt.read_bytes() == content
    content[len(content) // 2] ^= 4
    hurt.write_bytes(content)
    cluster.kill(1)
    restart(cluster)
    assert Librdkafka().consume(cluster.bootstrap_servers, "flipped", len(VALUES)) == VALUES


def test_a_torn_tail_is_cut_and_what_was_whole_is_served(cluster: LocalCluster) -> None:
    filled(cluster, "torn")
    last = segments(cluster, "torn")[-1]
    with last.open("ab") as file:
        file.write(last.read_bytes()[:150])
    restart(cluster)
    assert Librdkafka().consume(cluster.bootstrap_servers, "torn", len(VALUES)) == VALUES
    Librdkafka().produce(cluster.bootstrap_servers, "torn", VALUES, "none")
    assert Librdkafka().consume(cluster.bootstrap_servers, "torn", 2 * len(VALUES)) == VALUES * 2


def test_foreign_files_and_directories_are_left_alone(cluster: LocalCluster, topic: str) -> None:
    filled(cluster, topic)
    directory = segments(cluster, topic)[0].parent
    foreign = [directory / "notes.txt", directory / "x.log", cluster.data_directory(1) / "lost+found" / "y"]
    for path in foreign:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"not ours")
    restart(cluster)
    assert Librdkafka().consume(cluster.bootstrap_servers, topic, len(VALUES)) == VALUES
    assert [path.read_bytes() for path in foreign] == [b"not ours"] * 3


def test_what_can_be_rebuilt_is_rebuilt(cluster: LocalCluster) -> None:
    patterns = {"offsets": "*.index", "times": "*.timeindex", "producers": "*.snapshot"}
    filled(cluster, *patterns)
    for topic, pattern in patterns.items():
        hurt = list(segments(cluster, topic)[0].parent.glob(pattern))
        assert hurt
        for path in hurt:
            path.write_bytes(b"\xff" * 37)
    restart(cluster)
    for topic in patterns:
        assert Librdkafka().consume(cluster.bootstrap_servers, topic, len(VALUES)) == VALUES


def check_rubbish_is_named(cluster: LocalCluster, topic: str, name: str) -> None:
    filled(cluster, topic)
    directory = segments(cluster, topic)[0].parent
    path = (directory / name).resolve()
    path.write_bytes(b"\x00rubbish\n")
    cluster.start(1)
    for _ in poll(TIMEOUT_S, f"broker 1 to say what is wrong with {name}, or to serve"):
        said = cluster.log_file(1).read_text()
        if str(path) in said:
            break
    assert str(path) in said
    assert "Traceback" not in said


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "partition.metadata"])
def test_rubbish_in_place_of_a_file_of_ours_is_named(cluster: LocalCluster, topic: str, name: str) -> None:
    """Never served as if nothing were wrong, never a trace of the interpreter."""
    check_rubbish_is_named(cluster, topic, name)


def test_rubbish_that_keeps_the_broker_from_starting_is_named(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, (1,)) as cluster:
        check_rubbish_is_named(cluster, "t", "../meta.properties")


def test_a_damaged_offset_checkpoint_is_said_and_costs_no_record(cluster: LocalCluster) -> None:
    """Each by itself."""
    filled(cluster, "checkpoints")
    for name in ("recovery-point", "replication", "log-start"):
        path = cluster.data_directory(1) / f"{name}-offset-checkpoint"
        path.write_bytes(b"\x00rubbish\n")
        said = restart(cluster)
        assert Librdkafka().consume(cluster.bootstrap_servers, "checkpoints", len(VALUES)) == VALUES
        assert str(path) in said
        assert "Traceback" not in said
        cluster.kill(1)


UNTIL_FULL = {"log.dir.free.bytes.min": "0"}
"""Produce is taken until the disk refuses it."""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Broker 1 has its logs on a file system of its own; returns a file that takes most of it."""
    directory = tmp_path / "broker-1"
    directory.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(directory)], capture_output=True, text=True
    )
    if mount.returncode != 0:
        pytest.skip(f"needs the right to mount a small file system: {mount.stderr.strip()}")
    try:
        ballast = directory / "ballast"
        ballast.write_bytes(bytes(DISK_BYTES - FREE_BYTES))
        yield ballast
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def test_a_full_disk_of_the_leader_is_an_error_that_heals_with_space(tmp_path: Path, small_disk: Path) -> None:
    with LocalCluster(tmp_path, (1,), configs=UNTIL_FULL) as cluster:
        create_topic(cluster.bootstrap_servers, "t", replicas=1)
        with SteadyProducer(cluster.bootstrap_servers, "t") as producer:
            for _ in poll(TIMEOUT_S, "the disk to be full"):
                if "No space left" in cluster.log_file(1).read_text():
                    break
            assert cluster.process(1).poll() is None
            small_disk.unlink()
            producer.wait_acknowledged(200)
        producer.check_consumed()
        cluster.kill(1)
        assert "Traceback" not in cluster.log_file(1).read_text()
        restart(cluster)
        producer.check_consumed()


def test_a_full_disk_of_a_follower_stops_no_producer_and_heals(tmp_path: Path, small_disk: Path) -> None:
    with LocalCluster(tmp_path, (1, 2), configs={"replica.lag.time.max.ms": "1000", **UNTIL_FULL}) as cluster:
        create_topic(cluster.bootstrap_servers, "t")
        if leader_of(cluster, "t") == 1:
            elect(cluster, "t", 2)
        with SteadyProducer(cluster.bootstrap_servers, "t") as producer:
            for _ in poll(TIMEOUT_S, "the follower to leave the ISR"):
                if registration(cluster, "t").isr == (2,):
                    break
            producer.wait_acknowledged(500)
            small_disk.unlink()
            wait_in_sync(cluster, "t")
        check_same_logs(cluster, "t")
        producer.check_consumed()


def test_C9_a_full_disk_is_shown_and_a_stop_on_it_ends_with_one_line_for_each_failure(
    tmp_path: Path, small_disk: Path
) -> None:
    with LocalCluster(tmp_path, (1,), configs=UNTIL_FULL) as cluster:
        create_topic(cluster.bootstrap_servers, "t", replicas=1)
        producer = confluent_kafka.Producer({**connecting.librdkafka(cluster.bootstrap_servers), "log_level": 0})
        for value in VALUES * 2:
            producer.produce("t", value)
        for _ in poll(TIMEOUT_S, "`brokers list` to show the replica that cannot serve"):
            said = CliRunner().invoke(cli, ["brokers", "list", "--json", "--bootstrap", cluster.bootstrap_servers])
            if said.exit_code == 0 and json.loads(said.stdout)[0]["out_of_service"]:
                break
        producer.purge()
        small_disk.unlink()
        for _ in poll(TIMEOUT_S, "the disk to take no new file"):
            space = os.statvfs(small_disk.parent)  # refused if a file has come since
            limit = f"remount,nr_inodes={space.f_files - space.f_ffree}"
            if subprocess.run(["mount", "-o", limit, str(small_disk.parent)], check=False).returncode == 0:
                break
        process = cluster.process(1)
        process.terminate()
        assert process.wait(TIMEOUT_S) == 1
        log = cluster.log_file(1).read_text()
        assert "Traceback" not in log, log[-5000:]
        assert "broker 1 could not stop in order" in log.splitlines()[-1]


MARK = {"log.dir.free.bytes.min": str(4 * 1024 * 1024)}
"""More than the ballast leaves, and less than twice that: produce is refused, all else goes on."""


def shown(cluster: LocalCluster) -> tuple[bool, bool, str]:
    """What `brokers list`, the metrics and the console show of broker 1's disk: full, full, how bad it is."""

    async def verdict() -> str:
        async with Admin(addresses([cluster.bootstrap_servers]), timeout_s=TIMEOUT_S) as admin:
            look = await ClusterReading(admin).look()
            return cluster_verdict(look.overview, look.overview.partitions, look.disks).tone

    listed = CliRunner().invoke(cli, ["brokers", "list", "--json", "--bootstrap", cluster.bootstrap_servers])
    assert listed.exit_code == 0, listed.output
    with urllib.request.urlopen(cluster.metrics_url(1), timeout=TIMEOUT_S) as answer:
        full = re.search(rb"^tierfetch_log_dir_full\{.*\} ([\d.]+)$", answer.read(), re.MULTILINE)
    assert full is not None
    return bool(json.loads(listed.stdout)[0]["out_of_service"]), float(full[1]) == 1.0, asyncio.run(verdict())


def test_C9_what_a_full_disk_shows_is_over_once_there_is_space_again(tmp_path: Path, small_disk: Path) -> None:
    with LocalCluster(tmp_path, (1,), configs=MARK) as cluster:
        create_topic(cluster.bootstrap_servers, "t", replicas=1)

        def produced(text: str) -> int:
            words = ["produce", "t", "--timeout", "1", "--bootstrap", cluster.bootstrap_servers]
            return CliRunner().invoke(cli, words, input=text).exit_code

        for _ in poll(TIMEOUT_S, lambda: f"the full disk to be shown: {shown(cluster)}"):
            if shown(cluster) == (True, True, "bad"):
                break
        assert produced("refused\n") == 1
        small_disk.unlink()
        for _ in poll(TIMEOUT_S, lambda: f"the space to be shown: {shown(cluster)}"):
            if shown(cluster) == (False, False, "good"):
                break
        assert produced("taken\n") == 0
        assert Librdkafka().consume(cluster.bootstrap_servers, "t", 1) == [b"taken"]
        process = cluster.process(1)
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0
        log = cluster.log_file(1).read_text()
        assert "produce is accepted again" in log
        assert "Traceback" not in log
