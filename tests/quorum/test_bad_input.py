"""What goes wrong around a quorum, case by case: a clear error, as the document names it, and no committed record lost.

The wire and the files of real replicas; what the core answers in every state is in the transcripts (Q2, Q5, Q11).
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.quorum.core.config import MetadataLogConfig
from tierfetch.quorum.core.errors import QuorumStartError
from tierfetch.quorum.core.messages import FetchRequest, UpgradeKRaftVersionRequest
from tierfetch.quorum.core.state import RaftState, ReplicaKey
from tierfetch.quorum.storage.formatting import new_directory_id
from tierfetch.quorum.wire.fetch import fetch_request
from tierfetch.tests.messages import request_of
from tierfetch.tests.quorum.nodes import CLUSTER, Quorum, Replica, now_ms
from tierfetch.tests.quorum.test_node import append, append_somewhere, vote

OTHER_CLUSTER = "AAAAAAAAAAAAAAAAAAAAAQ"


async def ask(quorum: Quorum, replica: Replica, api: ApiKey, body: dict[str, Any], version: int | None = None) -> Any:
    client = quorum.client()
    try:
        return await client.send(replica.address, request_of(api, body), max_version=version)
    finally:
        await client.close()


def begin(cluster_id: str, leader_id: int, epoch: int) -> dict[str, Any]:
    partition = {
        "partition_index": 0,
        "voter_directory_id": None,
        "leader_id": leader_id,
        "leader_epoch": epoch,
    }
    topics = [{"topic_name": "__cluster_metadata", "partitions": [partition]}]
    return {"cluster_id": cluster_id, "voter_id": -1, "topics": topics, "leader_endpoints": []}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (vote(OTHER_CLUSTER, replica_id=2, replica_epoch=70), ErrorCode.inconsistent_cluster_id),
        (vote(replica_id=77, replica_epoch=70), ErrorCode.inconsistent_voter_set),
        (vote(replica_id=2, replica_epoch=59), ErrorCode.fenced_leader_epoch),
        (vote(replica_id=1, replica_epoch=70), ErrorCode.invalid_request),
        (vote(replica_id=2, replica_epoch=70, last_offset_epoch=71), ErrorCode.invalid_request),
    ],
    ids=["another cluster", "unknown voter", "from the past", "this node's own id", "a log from the future"],
)
async def test_Q2_votes_that_are_refused(tmp_path: Path, body: dict[str, Any], code: ErrorCode) -> None:
    async with Quorum(tmp_path, 2) as quorum:
        await quorum.start([1])
        voter = quorum.replicas[1]
        await ask(quorum, voter, ApiKey.VOTE, vote(replica_id=2, replica_epoch=60))
        answer = await ask(quorum, voter, ApiKey.VOTE, body)
        partitions = [item for topic in answer.topics for item in topic.partitions]
        assert code in [answer.error_code, *(item.error_code for item in partitions)]
        assert not any(item.vote_granted for item in partitions)
        assert voter.node.status.leader_and_epoch.epoch == 60
        assert not voter.node.failed.done()


@pytest.mark.parametrize(
    ("replica_id", "epoch", "offset", "cluster_id", "code"),
    [
        (9, 0, 0, CLUSTER, ErrorCode.fenced_leader_epoch),
        (9, 99, 0, CLUSTER, ErrorCode.unknown_leader_epoch),
        (9, 1, 0, OTHER_CLUSTER, ErrorCode.inconsistent_cluster_id),
        (1, 1, 0, CLUSTER, ErrorCode.invalid_request),
        (9, 1, -5, CLUSTER, ErrorCode.invalid_request),
    ],
    ids=["from the past", "from the future", "another cluster", "this node's own id", "below everything"],
)
async def test_Q5_fetches_that_are_refused(
    tmp_path: Path, replica_id: int, epoch: int, offset: int, cluster_id: str, code: ErrorCode
) -> None:
    async with Quorum(tmp_path, 1) as quorum:
        await quorum.start()
        leader = await quorum.leader()
        last = await append(leader, b"kept")
        answer = await fetch(quorum, leader, replica_id, epoch, offset, cluster_id)
        partitions = [item.error_code for topic in answer.topics for item in topic.partitions]
        assert code in [answer.error_code, *partitions]
        assert leader.node.status.high_watermark == last + 1
        assert leader.state.records == [b"kept"]


async def fetch(quorum: Quorum, leader: Replica, replica_id: int, epoch: int, offset: int, cluster_id: str) -> Any:
    request = FetchRequest(
        cluster_id=cluster_id,
        replica=ReplicaKey(replica_id, new_directory_id(quorum.rng)),
        epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=0,
    )
    client = quorum.client()
    try:
        return await client.send(leader.address, fetch_request(request), timeout_s=5)
    finally:
        await client.close()


async def test_Q5_a_fetch_beyond_the_log_is_sent_back_to_where_the_logs_agree(tmp_path: Path) -> None:
    async with Quorum(tmp_path, 1) as quorum:
        await quorum.start()
        leader = await quorum.leader()
        await append(leader, b"kept")
        answer = await fetch(quorum, leader, 9, 1, 1_000, CLUSTER)
        (partition,) = answer.topics[0].partitions
        assert partition.error_code is ErrorCode.none
        assert partition.diverging_epoch is not None or partition.snapshot_id is not None


async def test_Q11_a_leader_of_another_cluster_or_of_no_voter_is_refused(tmp_path: Path) -> None:
    async with Quorum(tmp_path, 2) as quorum:
        await quorum.start([1])
        voter = quorum.replicas[1]
        answer = await ask(quorum, voter, ApiKey.BEGIN_QUORUM_EPOCH, begin(CLUSTER, 77, 50))
        assert answer.topics[0].partitions[0].error_code is ErrorCode.inconsistent_voter_set
        answer = await ask(quorum, voter, ApiKey.BEGIN_QUORUM_EPOCH, begin(OTHER_CLUSTER, 2, 50))
        assert answer.error_code is ErrorCode.inconsistent_cluster_id
        assert not voter.node.failed.done(), "anyone can send it"
        answer = await ask(quorum, voter, ApiKey.BEGIN_QUORUM_EPOCH, begin(CLUSTER, 2, 1))
        assert answer.error_code is ErrorCode.none


async def stop_all(quorum: Quorum) -> None:
    for replica in quorum.voters:
        await replica.stop()


def swap_directories(quorum: Quorum) -> None:
    one, other = quorum.replicas[1].directory, quorum.replicas[2].directory
    aside = quorum.base / "aside"
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def copy_directory(quorum: Quorum) -> None:
    """What a careless copy of a machine makes: two nodes that are one."""
    shutil.rmtree(quorum.replicas[1].directory)
    shutil.copytree(quorum.replicas[2].directory, quorum.replicas[1].directory)


def foreign_state(quorum: Quorum) -> None:
    path = quorum.replicas[1].log_directory / "quorum-state"
    path.write_bytes(path.read_bytes().replace(b'{"voterId":2}', b'{"voterId":22}'))


def torn_state(quorum: Quorum) -> None:
    path = quorum.replicas[1].log_directory / "quorum-state"
    path.write_bytes(path.read_bytes()[:20])


def damaged_record(quorum: Quorum) -> None:
    path = quorum.replicas[1].log_directory / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (swap_directories, "log directories must not be exchanged"),
        (copy_directory, "log directories must not be exchanged"),
        (foreign_state, r"it is of a quorum of voters \[1, 3, 22\]"),
        (torn_state, "expected JSON"),
        (damaged_record, "damaged|CRC"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_replica_that_is_not_itself_does_not_start_and_the_others_lose_nothing(
    tmp_path: Path, harm: Callable[[Quorum], None], said: str
) -> None:
    async with Quorum(tmp_path) as quorum:
        await quorum.start()
        await append_somewhere(quorum, b"kept")
        await quorum.until(lambda: all(item.state.records == [b"kept"] for item in quorum.voters))
        await stop_all(quorum)
        harm(quorum)
        with pytest.raises(QuorumStartError, match=said):
            await quorum.replicas[1].start()
        await quorum.replicas[1].stop()
        if harm is swap_directories:
            return  # nor does the other one
        await quorum.start([2, 3])
        leader = await append_somewhere(quorum, b"more")
        assert leader.state.records[:2] == [b"kept", b"more"]


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda data: data[:-70], "it has no footer"),
        (lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:], "CRC"),
        (lambda data: data + data, "follows the snapshot's footer"),
        (lambda _: b"", "must begin with a snapshot header"),
    ],
    ids=["no footer", "bad CRC", "too much", "empty"],
)
async def test_Q9_a_damaged_snapshot_is_named_and_nothing_is_led_from_it(
    tmp_path: Path, harm: Callable[[bytes], bytes], said: str
) -> None:
    async with Quorum(tmp_path, 1) as quorum:
        quorum.log_config = MetadataLogConfig(retention_bytes=1)
        await quorum.start()
        leader = await quorum.leader()
        last = await append(leader, b"a")
        await leader.node.create_snapshot(last + 1, leader.node.log.last_epoch, [b"state"], now_ms())
        await leader.stop()
        (path,) = leader.log_directory.glob("*.checkpoint")
        path.chmod(0o600)
        whole = path.read_bytes()
        path.write_bytes(harm(whole))
        with pytest.raises(QuorumStartError, match=said) as caught:
            await leader.start()
        assert path.name in str(caught.value)
        await leader.stop()
        path.write_bytes(whole)
        await leader.start()
        await quorum.leader()
        assert leader.state.records == [b"state"]


@pytest.mark.slow
async def test_Q15_a_wiped_static_voter_votes_again_when_it_has_followed_a_leader(tmp_path: Path) -> None:
    async with Quorum(tmp_path) as quorum:
        await quorum.start()
        leader = await append_somewhere(quorum, b"kept")
        await quorum.until(lambda: all(item.state.records == [b"kept"] for item in quorum.voters))
        marks = [item.log_directory / "unproven-voter" for item in quorum.voters]
        await quorum.until(lambda: not any(path.exists() for path in marks), "the marks of a new cluster to go")
        wiped, third = [item for item in quorum.voters if item is not leader]
        for item in (leader, wiped, third):
            await item.stop()
        shutil.rmtree(wiped.directory)
        wiped.key = ReplicaKey(wiped.node_id, new_directory_id(quorum.rng))
        await wiped.format()
        await wiped.start()
        assert (wiped.log_directory / "unproven-voter").exists()
        answer = await ask(quorum, wiped, ApiKey.VOTE, vote(replica_id=third.node_id))
        assert not answer.topics[0].partitions[0].vote_granted
        assert wiped.node.status.state is not RaftState.LEADER
        await leader.start()
        await third.start()
        await append_somewhere(quorum, b"more")
        await quorum.until(lambda: wiped.state.records == [b"kept", b"more"])
        await quorum.until(lambda: not (wiped.log_directory / "unproven-voter").exists())


def all_but_its_id(voter: Replica) -> None:
    """As if it had been formatted again, with the same --initial-controllers."""
    bootstrap = voter.log_directory / f"{0:020d}-{0:010d}.checkpoint"
    kept = bootstrap.read_bytes()
    shutil.rmtree(voter.log_directory)
    voter.log_directory.mkdir()
    bootstrap.write_bytes(kept)


def the_whole_log(voter: Replica) -> None:
    """It does not even know that it is a voter."""
    shutil.rmtree(voter.log_directory)


def the_vote(voter: Replica) -> None:
    (voter.log_directory / "quorum-state").unlink()


@pytest.mark.slow
@pytest.mark.parametrize("lost", [all_but_its_id, the_whole_log, the_vote], ids=lambda lost: lost.__name__)
async def test_Q15_a_voter_that_lost_its_memory_but_not_its_directory_id_does_not_count(
    tmp_path: Path, lost: Callable[[Replica], None]
) -> None:
    async with Quorum(tmp_path, dynamic=True) as quorum:
        await quorum.start()
        leader = await append_somewhere(quorum, b"kept")
        await quorum.until(lambda: all(item.state.records == [b"kept"] for item in quorum.voters))
        marks = [item.log_directory / "unproven-voter" for item in quorum.voters]
        await quorum.until(lambda: not any(path.exists() for path in marks), "the marks of a new cluster to go")
        hurt, third = [item for item in quorum.voters if item is not leader]
        await stop_all(quorum)
        lost(hurt)
        await hurt.start()
        assert (hurt.log_directory / "unproven-voter").exists()
        answer = await ask(quorum, hurt, ApiKey.VOTE, vote(replica_id=third.node_id))
        assert not answer.topics[0].partitions[0].vote_granted
        await leader.start()
        await quorum.until_asked(hurt, ApiKey.VOTE)
        assert leader.node.status.state is not RaftState.LEADER, "with the vote of one that may have forgotten another"
        await third.start()
        await append_somewhere(quorum, b"more")
        await quorum.until(lambda: hurt.state.records == [b"kept", b"more"])
        await quorum.until(lambda: not (hurt.log_directory / "unproven-voter").exists())


@pytest.mark.slow
async def test_Q15_raised_to_kraft_version_1_a_wiped_voter_joins_by_itself(tmp_path: Path) -> None:
    async with Quorum(tmp_path) as quorum:
        await quorum.start()
        for _ in range(100):
            leader = await append_somewhere(quorum, b"kept")
            epoch = leader.node.status.leader_and_epoch.epoch
            answer = await leader.node.ask(UpgradeKRaftVersionRequest(epoch=epoch, level=1))
            if answer.error is ErrorCode.none:
                break
        assert {node.key for node in leader.node.status.voters.voters} == {item.key for item in quorum.voters}
        wiped = next(item for item in quorum.voters if item is not leader)
        await wiped.stop()
        shutil.rmtree(wiped.directory)
        wiped.key = ReplicaKey(wiped.node_id, new_directory_id(quorum.rng))
        await wiped.format()
        quorum.timeouts |= {"fetch_timeout_ms": 1000, "auto_join": True}
        await wiped.start()
        await quorum.until(lambda: wiped.node.status.is_voter, "the wiped voter to take its own place")
        await quorum.until(lambda: wiped.key in {node.key for node in leader.node.status.voters.voters})
        assert len(leader.node.status.voters.voters) == 3


@pytest.mark.slow
async def test_Q9_a_broker_with_the_id_of_a_static_voter_makes_no_majority(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It was given bootstrap servers, so nothing in its own configuration says that the id is a voter's."""
    async with Quorum(tmp_path, 3, observers=1) as quorum:
        quorum.timeouts["fetch_timeout_ms"] = 3000
        await quorum.start()
        leader = await append_somewhere(quorum, b"kept")
        down, other = [item for item in quorum.voters if item is not leader]
        await down.stop()
        await other.stop()
        double = quorum.replicas[4]
        shutil.rmtree(double.directory)
        double.node_id = down.node_id
        double.key = ReplicaKey(down.node_id, new_directory_id(quorum.rng))
        await double.format()
        quorum.dynamic = True  # that is, without controller.quorum.voters
        await double.start(observer=True)
        quorum.dynamic = False
        waiting = asyncio.create_task(append(leader, b"more"))
        await quorum.until(lambda: double.node.log.log_end_offset == leader.node.status.next_offset)
        await quorum.until_asked(leader, ApiKey.FETCH)
        assert not waiting.done(), "it was committed by the leader alone"
        assert double.state.records == [b"kept"]
        await down.start()
        await waiting
        await quorum.until(lambda: down.state.records == [b"kept", b"more"])
        await quorum.until(lambda: f"rejects the requests of node {down.node_id} (DUPLICATE_VOTER)" in caplog.text)


@pytest.mark.slow
async def test_Q11_a_second_node_with_a_static_voters_configuration_stands_for_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It has proven itself by then: all others have answered it, and it has all that the leader has."""
    async with Quorum(tmp_path, 3, observers=1) as quorum:
        quorum.timeouts["fetch_timeout_ms"] = 1000
        await quorum.start()
        leader = await append_somewhere(quorum, b"kept")
        voter = next(item for item in quorum.voters if item is not leader)
        double = Replica(quorum, voter.node_id, quorum.replicas[4].endpoint.port)
        double.directory = tmp_path / "double"
        await double.format()
        node = await double.start()
        await quorum.until(lambda: f"rejects the requests of node {voter.node_id} (DUPLICATE_VOTER)" in caplog.text)
        await leader.kill()
        await append_somewhere(quorum, b"more")
        await quorum.until(lambda: voter.state.records == [b"kept", b"more"])
        assert node.metrics.elections == 0, "it stood for election in the voter's name"
        await double.stop()


async def test_Q15_the_mark_holds_also_when_the_voters_have_come_into_the_log(tmp_path: Path) -> None:
    """The configuration does not name them any more, and what the voter has forgotten is forgotten still."""
    async with Quorum(tmp_path, dynamic=True) as quorum:
        mark = quorum.replicas[1].log_directory / "unproven-voter"
        mark.touch()
        await quorum.start()
        await quorum.until(lambda: not mark.exists(), "the proof, which the mark has made it look for")
