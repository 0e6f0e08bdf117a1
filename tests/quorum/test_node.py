"""Whole replicas over loopback and on real files."""

from __future__ import annotations

import asyncio
import errno
import gc
from pathlib import Path

import pytest

from tierfetch.log.disk.open_file import OsFile
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.requests import BROKER_ENDPOINTS, cluster_of
from tierfetch.quorum.core.config import MetadataLogConfig
from tierfetch.quorum.core.errors import BufferFullError, NotLeaderError, QuorumFailedError, QuorumStartError
from tierfetch.quorum.core.messages import DescribeQuorumRequest, DescribeQuorumResponse, UpgradeKRaftVersionRequest
from tierfetch.quorum.core.state import LeaderAndEpoch, RaftState
from tierfetch.tests.messages import request_of
from tierfetch.tests.quorum.nodes import CLUSTER, TIMEOUT_S, Quorum, Replica, now_ms

OTHER_CLUSTER = "AAAAAAAAAAAAAAAAAAAAAQ"


async def append(replica: Replica, *records: bytes) -> int:
    return await replica.node.append_and_commit(replica.node.status.leader_and_epoch.epoch, list(records))


def fill_disk(monkeypatch: pytest.MonkeyPatch, replica: Replica) -> None:
    real = OsFile.sync

    async def sync(file: OsFile) -> None:
        if file.path.is_relative_to(replica.log_directory):
            raise OSError(errno.ENOSPC, "No space left on device", str(file.path))
        await real(file)

    monkeypatch.setattr(OsFile, "sync", sync)


async def append_somewhere(quorum: Quorum, record: bytes) -> Replica:
    """By whoever leads, also if leadership moves meanwhile; the record may be there more than once then."""
    while True:
        leader = await quorum.leader()
        try:
            await append(leader, record)
        except NotLeaderError:
            continue
        return leader


def others(quorum: Quorum, replica: Replica) -> list[Replica]:
    return [item for item in quorum.running() if item is not replica]


@pytest.mark.slow
async def test_Q6_an_append_is_committed_on_every_voter(tmp_path: Path) -> None:
    async with Quorum(tmp_path) as quorum:
        await quorum.start()
        leader = await quorum.leader()
        last = await append(leader, b"a", b"b")
        assert leader.node.status.high_watermark > last
        await quorum.until(lambda: all(item.state.records == [b"a", b"b"] for item in quorum.voters))
        logs = {(item.log_directory / f"{0:020d}.log").read_bytes() for item in quorum.voters}
        assert len(logs) == 1
        with pytest.raises(NotLeaderError):
            await others(quorum, leader)[0].node.append(leader.node.status.leader_and_epoch.epoch, [b"x"])
        with pytest.raises(NotLeaderError):
            await leader.node.append(leader.node.status.leader_and_epoch.epoch + 1, [b"x"])


async def test_Q6_batches_are_handed_over_once_in_order_with_their_offsets(tmp_path: Path) -> None:
    async with Quorum(tmp_path, 1) as quorum:
        await quorum.start()
        leader = await quorum.leader()
        epoch = leader.node.status.leader_and_epoch.epoch
        lasts = [await leader.node.append(epoch, [b"%d" % number] * 3) for number in range(5)]
        await quorum.until(lambda: leader.node.applied_offset > lasts[-1])
        batches = leader.state.batches
        assert batches[0].records == ()
        assert [batch.base_offset for batch in batches[1:]] == [batch.last_offset + 1 for batch in batches[:-1]]
        assert lasts == [3, 6, 9, 12, 15]
        assert {batch.epoch for batch in batches} == {epoch}
        assert leader.state.records == [b"%d" % number for number in range(5) for _ in range(3)]


@pytest.mark.slow
async def test_Q8_a_killed_leader_is_replaced_before_the_fetch_timeout(tmp_path: Path) -> None:
    async with Quorum(tmp_path) as quorum:
        quorum.timeouts["fetch_timeout_ms"] = 30_000
        await quorum.start()
        first = await quorum.leader()
        await append(first, b"committed")
        await first.kill()
        second = await append_somewhere(quorum, b"more")
        assert second.node.status.leader_and_epoch.epoch > 1
        assert second.state.records[:2] == [b"committed", b"more"]
        await first.start()
        await quorum.until(lambda: first.state.records == second.state.records)


@pytest.mark.slow
async def test_Q4_a_leader_that_stops_hands_over(tmp_path: Path) -> None:
    async with Quorum(tmp_path) as quorum:
        quorum.timeouts["fetch_timeout_ms"] = 30_000
        await quorum.start()
        first = await quorum.leader()
        await append(first, b"x")
        await first.stop()
        second = await append_somewhere(quorum, b"y")
        assert second is not first


async def test_Q9_an_observer_replicates_and_never_votes(tmp_path: Path) -> None:
    async with Quorum(tmp_path, 1, observers=1) as quorum:
        await quorum.start()
        leader = await quorum.leader()
        await append(leader, b"a")
        observer = quorum.replicas[2]
        quorum.timeouts["fetch_timeout_ms"] = 200
        await observer.start(observer=True)
        await quorum.until(lambda: observer.state.records == [b"a"])
        assert not observer.node.status.is_voter
        await append(leader, b"b")
        await quorum.until(lambda: observer.state.records == [b"a", b"b"])
        assert observer.node.status.leader_and_epoch == leader.node.status.leader_and_epoch
        await leader.kill()
        await leader.start()
        await append(await quorum.leader(), b"c")
        await quorum.until(lambda: observer.state.records == [b"a", b"b", b"c"])
        assert observer.node.status.state is RaftState.FOLLOWER
        assert leader.answered[ApiKey.VOTE] == 0


@pytest.mark.slow
async def test_Q10_a_controller_that_is_no_static_voter_is_listed_as_an_observer(tmp_path: Path) -> None:
    """Nothing that it knows tells it that it is none: the leader says so."""
    async with Quorum(tmp_path, 1, observers=1) as quorum:
        await quorum.start()
        leader = await quorum.leader()
        await append(leader, b"a")
        beside = quorum.replicas[2]
        quorum.dynamic = True  # that is, without controller.quorum.voters
        await beside.start()
        quorum.dynamic = False
        await quorum.until(lambda: leader.node.observers == 1, "the leader to know its observer")
        answer = await leader.node.ask(DescribeQuorumRequest())
        assert isinstance(answer, DescribeQuorumResponse)
        assert [item.key for item in answer.observers] == [beside.key]
        assert beside.state.records == [b"a"]


@pytest.mark.slow
async def test_Q9_a_replica_that_missed_everything_begins_with_the_snapshot(tmp_path: Path) -> None:
    async with Quorum(tmp_path) as quorum:
        quorum.log_config = MetadataLogConfig(retention_bytes=1)
        await quorum.start([1, 2])
        leader = await quorum.leader()
        for number in range(5):
            last = await append(leader, b"%d" % number)
        offset = last + 1
        epoch = leader.node.log.last_epoch
        await leader.node.create_snapshot(offset, epoch, [b"all"], now_ms())
        assert leader.node.log.log_start_offset == offset
        await append(leader, b"after")
        late = quorum.replicas[3]
        await late.start()
        await quorum.until(lambda: late.state.records == [b"all", b"after"])
        assert late.state.snapshots == [(offset, epoch)]
        names = [path.name for path in late.log_directory.glob("*.checkpoint")]
        assert names == [path.name for path in leader.log_directory.glob("*.checkpoint")]
        await late.stop()
        await late.start()
        await quorum.until(lambda: late.state.records == [b"all", b"after"])


async def test_Q15_voters_are_in_a_snapshot_and_survive_a_restart_from_it(tmp_path: Path) -> None:
    async with Quorum(tmp_path, 1, dynamic=True) as quorum:
        quorum.log_config = MetadataLogConfig(retention_bytes=1)
        await quorum.start()
        leader = await quorum.leader()
        last = await append(leader, b"a")
        await leader.node.create_snapshot(last + 1, leader.node.log.last_epoch, [b"s"], now_ms())
        voters = leader.node.status.voters
        assert (voters.kraft_version, [node.key for node in voters.voters]) == (1, [leader.key])
        await leader.stop()
        await leader.start()
        await quorum.leader()
        assert leader.node.status.voters.voters == voters.voters
        assert leader.state.records == [b"s"]


async def test_a_snapshot_that_is_there_already_is_not_cut_again(tmp_path: Path) -> None:
    async with Quorum(tmp_path, 1) as quorum:
        await quorum.start()
        leader = await quorum.leader()
        last = await append(leader, b"a")
        for records in ([b"first"], [b"second"]):
            await leader.node.create_snapshot(last + 1, leader.node.log.last_epoch, records, now_ms())
        parsed = await leader.node.log.snapshots.read(leader.node.log.snapshots.latest)
        assert parsed.batches == ((b"first",),)


@pytest.mark.slow
async def test_Q7_a_full_disk_in_an_fsync_stops_the_replica_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Quorum(tmp_path) as quorum:
        await quorum.start()
        leader = await quorum.leader()
        await append(leader, b"safe")
        fill_disk(monkeypatch, leader)
        node = leader.node
        with pytest.raises((QuorumFailedError, NotLeaderError)):
            await append(leader, b"unsafe")
        assert "No space left on device" in await node.failed
        with pytest.raises(QuorumFailedError, match="does not run"):
            await append(leader, b"late")
        await leader.stop()
        second = await append_somewhere(quorum, b"more")
        assert [record for record in second.state.records if record != b"unsafe"][:2] == [b"safe", b"more"]
        monkeypatch.undo()
        await leader.start()
        await quorum.until(lambda: leader.state.records == second.state.records)


@pytest.mark.slow
async def test_Q7_a_full_disk_in_a_followers_fsync_stops_it_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Quorum(tmp_path) as quorum:
        await quorum.start()
        leader = await quorum.leader()
        await append(leader, b"safe")
        follower = others(quorum, leader)[0]
        await quorum.until(lambda: follower.state.records == [b"safe"])
        real = OsFile.sync

        async def sync(file: OsFile) -> None:
            if file.path.is_relative_to(follower.log_directory):
                raise OSError(errno.ENOSPC, "No space left on device", str(file.path))
            await real(file)

        monkeypatch.setattr(OsFile, "sync", sync)
        node = follower.node
        await append(leader, b"more")
        async with asyncio.timeout(TIMEOUT_S):
            assert "No space left on device" in await node.failed
        await follower.stop()
        await append(leader, b"yet more")
        monkeypatch.undo()
        await follower.start()
        await quorum.until(lambda: follower.state.records == [b"safe", b"more", b"yet more"])


async def test_Q11_a_leader_of_another_cluster_is_fatal(tmp_path: Path) -> None:
    async with Quorum(tmp_path, 1, observers=1) as quorum:
        await quorum.start()
        leader = await quorum.leader()
        await append(leader, b"a")
        stranger = quorum.replicas[2]
        path = stranger.directory / "meta.properties"
        path.write_bytes(path.read_bytes().replace(stranger.cluster_id.encode(), OTHER_CLUSTER.encode()))
        stranger.cluster_id = OTHER_CLUSTER
        node = await stranger.start(observer=True)
        async with asyncio.timeout(TIMEOUT_S):
            assert "belongs to another cluster" in await node.failed
        assert stranger.state.records == []
        assert not leader.node.failed.done()


async def test_Q9_a_damaged_snapshot_is_fetched_in_vain_until_it_is_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Quorum(tmp_path, 1, observers=1) as quorum:
        quorum.log_config = MetadataLogConfig(retention_bytes=1)
        await quorum.start()
        leader = await quorum.leader()
        last = await append(leader, b"a")
        await leader.node.create_snapshot(last + 1, leader.node.log.last_epoch, [b"state"], now_ms())
        (path,) = leader.log_directory.glob("*.checkpoint")
        whole = path.read_bytes()
        path.chmod(0o600)
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        observer = quorum.replicas[2]
        await observer.start(observer=True)
        await quorum.until(lambda: "the snapshot fetched from the leader is rejected" in caplog.text)
        assert observer.state.records == []
        assert observer.node.log.snapshots.ids == ()
        path.write_bytes(whole)
        await quorum.until(lambda: observer.state.records == [b"state"])


async def test_Q10_describe_cluster_v0_has_no_endpoint_type_and_gets_the_controllers(tmp_path: Path) -> None:
    async with Quorum(tmp_path, 1) as quorum:
        await quorum.start()
        client = quorum.client()
        found = {
            version: await client.send(quorum.replicas[1].address, cluster_of(BROKER_ENDPOINTS), max_version=version)
            for version in (0, 1)
        }
        assert [node.broker_id for node in found[0].brokers] == [1]
        assert (found[1].error_code, found[1].brokers) == (ErrorCode.mismatched_endpoint_type, ())
        await client.close()


async def test_Q2_a_voter_that_nobody_knows_gets_no_vote(tmp_path: Path) -> None:
    async with Quorum(tmp_path, 2) as quorum:
        await quorum.start([1])
        voter = quorum.replicas[1]
        client = quorum.client()
        answer = await client.send(voter.address, request_of(ApiKey.VOTE, vote(replica_id=77, replica_epoch=50)))
        (partition,) = answer.topics[0].partitions
        assert not partition.vote_granted
        assert partition.error_code is not ErrorCode.none
        assert voter.node.status.voted_id != 77
        await client.close()


def vote(cluster_id: str = CLUSTER, **fields: object) -> dict[str, object]:
    partition = {
        "partition_index": 0,
        "replica_epoch": 50,
        "replica_id": 1,
        "replica_directory_id": None,
        "voter_directory_id": None,
        "last_offset_epoch": 40,
        "last_offset": 1000,
        "pre_vote": False,
        **fields,
    }
    topics = [{"topic_name": "__cluster_metadata", "partitions": [partition]}]
    return {"cluster_id": cluster_id, "voter_id": -1, "topics": topics}


async def test_Q11_requests_of_another_cluster_are_refused(tmp_path: Path) -> None:
    async with Quorum(tmp_path, 1) as quorum:
        await quorum.start()
        leader = await quorum.leader()
        client = quorum.client()
        answer = await client.send(leader.address, request_of(ApiKey.VOTE, vote(OTHER_CLUSTER)))
        assert answer.error_code is ErrorCode.inconsistent_cluster_id
        assert not leader.node.failed.done()
        assert leader.node.status.leader_and_epoch.epoch == 1
        await client.close()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("__cluster_metadata-0/quorum-state", b"{}", "data_version must be 0 or 1"),
        ("meta.properties", b"version=1\ncluster.id=asNLmUt5R6KXNd2eIjy-lA\nnode.id=2\n", "must not be exchanged"),
        ("meta.properties", b"version=0\n", "expected version=1, found '0'"),
        ("__cluster_metadata-0/partition.metadata", b"nonsense", "partition.metadata"),
        ("__cluster_metadata-0/00000000000000000005-0000000001.checkpoint", b"nonsense", "5-0000000001.checkpoint"),
    ],
)
async def test_Q11_what_a_replica_does_not_start_with(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    async with Quorum(tmp_path, 1) as quorum:
        replica = quorum.replicas[1]
        path = replica.directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        with pytest.raises(QuorumStartError, match=said):
            await replica.start()
        path.unlink()
        await replica.stop()


async def test_two_processes_never_share_a_directory(tmp_path: Path) -> None:
    async with Quorum(tmp_path, 1) as quorum:
        await quorum.start()
        replica = quorum.replicas[1]
        assert (replica.directory / ".lock").exists()


async def test_appends_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    async with Quorum(tmp_path, 1) as quorum:
        quorum.timeouts["append_pending_bytes_max"] = 100
        await quorum.start()
        leader = await quorum.leader()
        epoch = leader.node.status.leader_and_epoch.epoch
        taken = [asyncio.create_task(leader.node.append_and_commit(epoch, [b"x" * 60])) for _ in range(5)]
        results = await asyncio.gather(*taken, return_exceptions=True)
        assert any(isinstance(result, BufferFullError) for result in results)
        assert any(isinstance(result, int) for result in results)


@pytest.mark.slow
async def test_Q8_a_leader_that_resigns_tells_its_state_machine(tmp_path: Path) -> None:
    async with Quorum(tmp_path) as quorum:
        await quorum.start()
        first = await quorum.leader()
        epoch = first.node.status.leader_and_epoch.epoch
        first.node.resign(epoch, "asked by the test")
        await quorum.until(lambda: first.state.leaders[-1].epoch > epoch)
        leader = await quorum.leader()
        assert leader.node.status.leader_and_epoch.epoch > epoch
        assert [item.epoch for item in first.state.leaders] == sorted(item.epoch for item in first.state.leaders)
        assert LeaderAndEpoch(None, epoch) in first.state.leaders, "before anybody else leads"


async def test_stopping_twice_does_no_harm(tmp_path: Path) -> None:
    async with Quorum(tmp_path, 1) as quorum:
        await quorum.start()
        node = quorum.replicas[1].node
        await node.stop()
        await node.stop()
        with pytest.raises(QuorumFailedError):
            await node.append(1, [b"x"])


async def test_who_waits_for_a_replica_that_fails_is_told_and_not_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Quorum(tmp_path, 1) as quorum:
        await quorum.start()
        leader = await quorum.leader()
        await append(leader, b"a leader that has committed nothing changes no voters")
        fill_disk(monkeypatch, leader)
        upgrade = UpgradeKRaftVersionRequest(epoch=leader.node.status.leader_and_epoch.epoch, level=1)
        with pytest.raises(QuorumFailedError, match="No space left on device"):
            await leader.node.ask(upgrade)


@pytest.mark.parametrize("is_append", [False, True], ids=["a request", "an append"])
async def test_who_breaks_the_replica_is_told_once(
    is_append: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Quorum(tmp_path, 1) as quorum:
        await quorum.start()
        node = (await quorum.leader()).node
        unheard = list[object]()
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context["message"]))

        def broken(_: object) -> None:
            raise RuntimeError("planted")

        monkeypatch.setattr(node, "_perform_all", broken)
        with pytest.raises(RuntimeError, match="planted"):
            await (node.append(1, [b"x"]) if is_append else node.ask(DescribeQuorumRequest()))
        gc.collect()
        assert not unheard


async def test_Q12_the_documents_metrics_by_name(tmp_path: Path) -> None:
    async with Quorum(tmp_path, 1) as quorum:
        await quorum.start()
        leader = await quorum.leader()
        await append(leader, b"a", b"b")
        node = leader.node
        samples = {
            (sample.name, *sample.labels.values()): sample.value
            for family in node.metrics.families(node)
            for sample in family.samples
        }
        prefix = "tierfetch_raft_"
        assert samples[f"{prefix}current_leader",] == 1
        assert samples[f"{prefix}current_epoch",] == 1
        assert samples[f"{prefix}current_vote",] == 1
        assert samples[f"{prefix}current_state", "leader"] == 1
        assert samples[f"{prefix}current_state", "follower"] == 0
        assert samples[f"{prefix}high_watermark",] == samples[f"{prefix}log_end_offset",] == 3
        assert samples[f"{prefix}log_end_epoch",] == 1
        assert samples[f"{prefix}append_records_total",] == 3
        assert samples[f"{prefix}elections_total",] == 1
        assert samples[f"{prefix}commit_latency_seconds_count",] == 1
        assert samples[f"{prefix}election_latency_seconds_count",] == 1
        assert samples[f"{prefix}fsync_latency_seconds_count",] >= 2
        assert samples[f"{prefix}apply_latency_seconds_count",] == 2
        assert samples[f"{prefix}number_unknown_voter_connections",] == 0
        assert samples[f"{prefix}number_of_voters",] == 1
        assert samples[f"{prefix}number_of_observers",] == 0
        assert samples[f"{prefix}uncommitted_voter_change",] == 0
        assert samples[f"{prefix}ignored_static_voters",] == 0
        assert 0 <= samples[f"{prefix}poll_idle_ratio",] <= 1


@pytest.mark.slow
@pytest.mark.parametrize("who", ["leader", "follower"])
async def test_Q8_a_stalled_fsync_causes_no_election(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: str) -> None:
    """As long as the fetch timeout: the stalled one is late, and everybody stays with the leader."""
    async with Quorum(tmp_path) as quorum:
        quorum.timeouts["fetch_timeout_ms"] = 1000
        await quorum.start()
        leader = await quorum.leader()
        await append(leader, b"before")
        epoch = leader.node.status.leader_and_epoch.epoch
        stalled = leader if who == "leader" else others(quorum, leader)[0]
        real, stalls = OsFile.sync, [1.0]

        async def sync(file: OsFile) -> None:
            if stalls and file.path.is_relative_to(stalled.log_directory):
                await asyncio.sleep(stalls.pop())
            await real(file)

        monkeypatch.setattr(OsFile, "sync", sync)
        last = await append(leader, b"during")
        await quorum.until(lambda: all(item.node.applied_offset > last for item in quorum.voters))
        assert not stalls
        assert {item.node.status.leader_and_epoch.epoch for item in quorum.voters} == {epoch}
        assert leader.node.status.state is RaftState.LEADER


async def test_Q11_a_second_node_of_the_same_id_is_named_and_disturbs_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Quorum(tmp_path, 1, observers=1, dynamic=True) as quorum:
        await quorum.start()
        leader = await quorum.leader()
        await append(leader, b"a")
        double = Replica(quorum, 1, quorum.replicas[2].endpoint.port)
        double.directory = tmp_path / "double"
        await double.format()
        await double.start()
        try:
            await quorum.until(lambda: "two nodes must not have the same node.id" in caplog.text)
            await append(leader, b"b")
            assert leader.node.status.leader_and_epoch == LeaderAndEpoch(1, 1)
            assert double.state.records == []
        finally:
            await double.stop()
