"""The metadata quorum against Apache Kafka: its tools read ours, each side replicates the other's log byte for byte."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tierfetch.bench.lab.kafka import run_tool
from tierfetch.broker.environment import NodeEnvironment
from tierfetch.cli.local.processes import poll
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.records import iter_batches, iter_records
from tierfetch.quorum.core.config import MetadataLogConfig, RaftConfig, ReplicaConfig
from tierfetch.quorum.core.errors import NotLeaderError
from tierfetch.quorum.core.messages import UpgradeKRaftVersionRequest, VoterChangeResponse
from tierfetch.quorum.core.state import RaftState, ReplicaKey
from tierfetch.quorum.core.voters import VoterNode
from tierfetch.quorum.node import QuorumNode, open_replica
from tierfetch.quorum.storage.formatting import FormatOrder, format_directories
from tierfetch.quorum.storage.snapshot_file import snapshot_name
from tierfetch.tests import samples
from tierfetch.tests.interop.clients import TIMEOUT_S
from tierfetch.tests.interop.controllers import JavaController
from tierfetch.tests.interop.java import kafka_dump, our_dump
from tierfetch.tests.quorum.nodes import CLUSTER, Quorum, Recorder, Replica, now_ms

SEGMENT = f"{0:020d}.log"


def sample_records() -> list[tuple[bytes, ...]]:
    """Records of a real metadata log, batch by batch."""
    data = (samples.CONTROLLER / "__cluster_metadata-0" / SEGMENT).read_bytes()
    return [
        tuple(record.value or b"" for record in iter_records(data, position, header))
        for position, header in iter_batches(data)
        if not header.is_control
    ]


def for_snapshot(records: list[bytes]) -> list[bytes]:
    """Without what only a log may hold: the frame's second byte is the record type."""
    begin_transaction, end_transaction, no_op = 23, 24, 20
    return [record for record in records if record[1] not in {begin_transaction, end_transaction, no_op}]


def log_bytes(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


async def until(holds: Callable[[], bool], what: str) -> None:
    for _ in poll(TIMEOUT_S, what, interval_s=0):
        if holds():
            return
        await asyncio.sleep(0.05)


@pytest.fixture
async def quorum(tmp_path: Path) -> AsyncIterator[Quorum]:
    """Three voters of ours with dynamic membership, and some real metadata in their log."""
    async with Quorum(tmp_path / "ours", dynamic=True) as running:
        await start_with_metadata(running)
        yield running


async def start_with_metadata(quorum: Quorum) -> None:
    await quorum.start()
    for records in sample_records()[:40]:
        last = await append(quorum, records)
    await quorum.until(lambda: all(item.node.applied_offset > last for item in quorum.voters))


async def append(quorum: Quorum, records: tuple[bytes, ...]) -> int:
    """By whoever leads; on a loaded machine leadership may move meanwhile."""
    while True:
        leader = await quorum.leader()
        try:
            return await leader.node.append_and_commit(leader.node.status.leader_and_epoch.epoch, records)
        except NotLeaderError:
            continue


async def tool(main_class: str, *arguments: str) -> str:
    return await asyncio.to_thread(run_tool, main_class, *arguments)


async def describe(quorum: Quorum, what: str) -> str:
    servers = ",".join(f"{item.host}:{item.port}" for item in quorum.endpoints)
    command = "org.apache.kafka.tools.MetadataQuorumCommand"
    return await tool(command, "--bootstrap-controller", servers, "describe", what)


async def test_Q10_kafka_metadata_quorum_prints_our_status(quorum: Quorum) -> None:
    leader = await quorum.leader()
    printed = await describe(quorum, "--status")
    said = dict(line.split(":", 1) for line in printed.splitlines() if ":" in line)
    assert said["ClusterId"].strip() == CLUSTER
    assert int(said["LeaderId"]) == leader.node_id
    assert int(said["LeaderEpoch"]) == leader.node.status.leader_and_epoch.epoch
    assert int(said["HighWatermark"]) == leader.node.status.high_watermark
    assert int(said["MaxFollowerLag"]) == 0
    for voter in quorum.voters:
        assert f'"id": {voter.node_id}' in said["CurrentVoters"]
        assert f"CONTROLLER://127.0.0.1:{voter.endpoint.port}" in said["CurrentVoters"]


async def test_Q10_kafka_metadata_quorum_prints_our_replication(quorum: Quorum) -> None:
    leader = await quorum.leader()
    rows = [line.split() for line in (await describe(quorum, "--replication")).splitlines()[1:] if line.strip()]
    assert {(int(row[0]), int(row[2]), row[-1]) for row in rows} == {
        (item.node_id, leader.node.log.log_end_offset, "Leader" if item is leader else "Follower")
        for item in quorum.voters
    }


async def test_Q6_kafka_dump_log_reads_our_metadata_log_and_snapshot(quorum: Quorum) -> None:
    leader = await quorum.leader()
    offset, epoch = leader.node.applied_offset, leader.node.log.last_epoch
    await leader.node.create_snapshot(offset, epoch, for_snapshot(leader.state.records), now_ms())
    dump = "org.apache.kafka.tools.DumpLogSegments"
    log = leader.log_directory / SEGMENT
    printed = await tool(dump, "--cluster-metadata-decoder", "--files", str(log))
    assert "LeaderChange" in printed
    assert "KRaftVoters" in printed or "VotersRecord" in printed
    assert '"type":"FEATURE_LEVEL_RECORD"' in printed
    assert "isvalid: false" not in printed
    assert printed.count("payload:") == len(leader.state.records)
    snapshot = leader.log_directory / snapshot_name(leader.node.log.snapshots.latest)
    printed = await tool(dump, "--cluster-metadata-decoder", "--files", str(snapshot))
    assert "SnapshotHeader" in printed
    assert "SnapshotFooter" in printed
    assert printed.count("payload:") == len(for_snapshot(leader.state.records))


async def test_Q6_dump_log_says_of_our_metadata_log_what_kafka_says(quorum: Quorum, tmp_path: Path) -> None:
    leader = await quorum.leader()
    offset, epoch = leader.node.applied_offset, leader.node.log.last_epoch
    await leader.node.create_snapshot(offset, epoch, for_snapshot(leader.state.records), now_ms())
    copy = Path(shutil.copytree(leader.log_directory, tmp_path / "copy"))
    files = [copy / SEGMENT, *sorted(copy.glob("*.checkpoint"))]
    theirs = await asyncio.to_thread(kafka_dump, files, "--deep-iteration")
    ours = our_dump(files, with_records=True)
    assert {path: [line.split(" payload: ")[0] for line in lines] for path, lines in ours.items()} == theirs
    assert "LeaderChange: " in "".join(theirs[copy / SEGMENT])


async def test_Q9_a_java_controller_observes_our_quorum(quorum: Quorum, tmp_path: Path) -> None:
    leader = await quorum.leader()
    servers = [f"{item.host}:{item.port}" for item in quorum.endpoints]
    async with JavaController(tmp_path, 9, CLUSTER, servers) as java:
        ours = log_bytes(leader.log_directory)
        await until(lambda: len(log_bytes(java.metadata_directory)) >= len(ours), "the observer to catch up")
        await append(quorum, sample_records()[41])
        ours = log_bytes(leader.log_directory)
        await until(lambda: len(log_bytes(java.metadata_directory)) >= len(ours), "the observer to go on")
        assert log_bytes(java.metadata_directory) == log_bytes(leader.log_directory)
        status = await describe(quorum, "--status")
        assert '"id": 9' in status.split("CurrentObservers:")[1]


async def test_Q9_a_java_controller_begins_with_our_snapshot(tmp_path: Path) -> None:
    async with Quorum(tmp_path / "ours", dynamic=True) as quorum:
        quorum.log_config = MetadataLogConfig(retention_bytes=1)
        await start_with_metadata(quorum)
        leader = await quorum.leader()
        offset, epoch = leader.node.applied_offset, leader.node.log.last_epoch
        await leader.node.create_snapshot(offset, epoch, for_snapshot(leader.state.records), now_ms())
        assert leader.node.log.log_start_offset == offset
        name = snapshot_name(leader.node.log.snapshots.latest)
        servers = [f"{item.host}:{item.port}" for item in quorum.endpoints]
        async with JavaController(tmp_path, 9, CLUSTER, servers) as java:
            await until(lambda: (java.metadata_directory / name).exists(), "the snapshot")
            assert (java.metadata_directory / name).read_bytes() == (leader.log_directory / name).read_bytes()


@asynccontextmanager
async def observer_of(java: JavaController, base: Path, quorum: Quorum) -> AsyncIterator[QuorumNode]:
    """A replica of ours that follows a Java controller once it is started."""
    directory = base / "observer"
    order = FormatOrder(java.cluster_id, ReplicaKey(50), [directory])
    await format_directories(quorum.disk, order, ignore_formatted=False, rng=quorum.rng, now_ms=now_ms)
    config = RaftConfig(key=ReplicaKey(50), cluster_id=java.cluster_id, bootstrap_servers=(java.endpoint,))
    machine = NodeEnvironment(disk=quorum.disk, rng=random.Random(1), now_ms=now_ms)
    async with open_replica(ReplicaConfig(raft=config, directory=directory), machine) as node:
        yield node


async def test_Q9_we_observe_a_java_quorum(tmp_path: Path) -> None:
    java = JavaController(tmp_path, 1, CLUSTER)
    async with Quorum(tmp_path / "ours", 1) as machine, java:
        state = Recorder()
        async with observer_of(java, tmp_path, machine) as node:
            node.start([state])
            await until(lambda: len(state.records) > 12, "the metadata log")
            assert node.status.leader_and_epoch.leader_id == 1
            assert [voter.key for voter in node.status.voters.voters] == [java.key]
            await asyncio.to_thread(java.stop)
            ours = log_bytes(tmp_path / "observer" / "__cluster_metadata-0")
        theirs = log_bytes(java.metadata_directory)
    assert ours
    assert theirs[: len(ours)] == ours


async def test_Q9_we_begin_with_a_java_snapshot(tmp_path: Path) -> None:
    java = JavaController(tmp_path, 1, CLUSTER)
    java.configs["metadata.log.max.record.bytes.between.snapshots"] = "1"
    async with Quorum(tmp_path / "ours", 1) as machine, java:
        await until(lambda: len(list(java.metadata_directory.glob("*.checkpoint"))) > 1, "a snapshot of theirs")
        state = Recorder()
        async with observer_of(java, tmp_path, machine) as node:
            node.start([state])
            await until(lambda: bool(state.snapshots), "the snapshot")
            latest = node.log.snapshots.latest
            ours = (tmp_path / "observer" / "__cluster_metadata-0" / snapshot_name(latest)).read_bytes()
    assert ours == (java.metadata_directory / snapshot_name(latest)).read_bytes()


async def test_Q15_a_java_controller_becomes_a_voter_of_our_quorum(quorum: Quorum, tmp_path: Path) -> None:
    leader = await quorum.leader()
    servers = [f"{item.host}:{item.port}" for item in quorum.endpoints]
    async with JavaController(tmp_path, 9, CLUSTER, servers) as java:
        await until(lambda: log_bytes(java.metadata_directory) == log_bytes(leader.log_directory), "the observer")
        command = "org.apache.kafka.tools.MetadataQuorumCommand"
        options = ["--bootstrap-controller", ",".join(servers), "--command-config", str(java.config_file)]
        await tool(command, *options, "add-controller")
        assert java.key in [voter.key for voter in leader.node.status.voters.voters]
        await append(quorum, sample_records()[42])
        assert '"id": 9' in (await describe(quorum, "--status")).split("CurrentVoters:")[1].splitlines()[0]


async def test_Q15_a_java_controller_joins_our_quorum_by_itself(quorum: Quorum, tmp_path: Path) -> None:
    leader = await quorum.leader()
    java = JavaController(tmp_path, 9, CLUSTER, [f"{item.host}:{item.port}" for item in quorum.endpoints])
    java.configs["controller.quorum.auto.join.enable"] = "true"
    async with java:
        await until(lambda: java.key in [voter.key for voter in leader.node.status.voters.voters], "the new voter")
        last = await append(quorum, sample_records()[42])
        await until(lambda: leader.node.status.high_watermark > last, "four voters to commit")


async def test_Q15_we_join_a_java_quorum_by_ourselves(tmp_path: Path) -> None:
    java = JavaController(tmp_path, 50, CLUSTER)
    async with Quorum(tmp_path / "ours", 1, dynamic=True) as machine, java:
        ours = machine.replicas[1]
        shutil.rmtree(ours.directory)
        await ours.format()
        machine.timeouts |= {"auto_join": True, "bootstrap_servers": (java.endpoint,)}
        await ours.start()
        await until(lambda: ours.node.status.is_voter, "Java's leader to take us")
        assert {voter.key for voter in ours.node.status.voters.voters} == {java.key, ours.key}


async def test_Q15_static_voters_of_both_kinds_go_into_the_log(tmp_path: Path) -> None:
    java = JavaController(tmp_path, 9, CLUSTER)
    async with Quorum(tmp_path / "ours", 2) as quorum:
        quorum.static_others = (VoterNode(ReplicaKey(9), (java.endpoint,)),)
        named = {item.node_id: item.address for item in quorum.voters} | {9: java.address}
        java.static_voters = ",".join(f"{node_id}@{address}" for node_id, address in named.items())
        await quorum.start()
        await until(lambda: any(leads(item) for item in quorum.voters), "one of ours to lead")
        async with java:
            for _ in poll(TIMEOUT_S, "one of ours to lead and to know what the Java voter is", interval_s=0):
                answers = [await raise_kraft_version(item) for item in quorum.voters]
                if ErrorCode.none in answers:
                    break
                await asyncio.sleep(0.2)
            await until(
                lambda: all(item.node.status.voters.kraft_version == 1 for item in quorum.voters), "the new level"
            )
            keys = {voter.key for voter in quorum.replicas[1].node.status.voters.voters}
            assert keys == {java.key, *(item.key for item in quorum.voters)}
            ours = quorum.replicas[1].log_directory
            await until(lambda: log_bytes(java.metadata_directory)[:200] == log_bytes(ours)[:200], "the Java voter")


def leads(replica: Replica) -> bool:
    return replica.node.status.state is RaftState.LEADER


async def raise_kraft_version(replica: Replica) -> ErrorCode:
    epoch = replica.node.status.leader_and_epoch.epoch
    answer = await replica.node.ask(UpgradeKRaftVersionRequest(epoch=epoch, level=1))
    assert isinstance(answer, VoterChangeResponse), answer
    return answer.error
