"""`follow`: a partition of a real cluster in this process, kept in a directory; leaders that die, tiers, wrong uses."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from tierfetch.errors import OperatorError
from tierfetch.fetcher import FollowEndedError, follow
from tierfetch.fetcher.embedded import KEEP_ALL
from tierfetch.log import open_log, verify_log
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.net import BrokerUnavailableError
from tierfetch.testing import InProcessCluster

LIMIT_S = 20.0


async def values(follower, offset: int | None = None) -> list[bytes | None]:
    return [record.value async for record in follower.read(offset)]


async def delete_records(cluster: InProcessCluster, offset: int) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    await admin.start()
    await admin.delete_records({TopicPartition("orders", 0): RecordsToDelete(offset)})
    await admin.close()


async def test_what_is_committed_is_copied_byte_for_byte_and_resumed(
    tierfetch_cluster: InProcessCluster, tmp_path: Path
) -> None:
    cluster = tierfetch_cluster
    await asyncio.to_thread(cluster.create_topic, "orders")
    await asyncio.to_thread(cluster.produce, "orders", b"one", b"two")
    async with asyncio.timeout(LIMIT_S), follow(cluster.bootstrap, "orders", 0, tmp_path / "copy") as follower:
        assert await follower.wait_caught_up() == 2
        waiter = asyncio.create_task(follower.wait_newer(2))
        await asyncio.to_thread(cluster.produce, "orders", b"three")
        assert await waiter == 3
        assert await values(follower) == [b"one", b"two", b"three"]
        assert await values(follower, 2) == [b"three"]
        assert (follower.leader, follower.trouble, await follower.flush()) == (1, None, 3)
    await asyncio.to_thread(cluster.produce, "orders", b"four")
    async with asyncio.timeout(LIMIT_S), follow(cluster.bootstrap, "orders", 0, tmp_path / "copy") as follower:
        assert follower.end_offset == 3
        await follower.wait_newer(3)
        assert await values(follower, 3) == [b"four"]
    assert (await verify_log(tmp_path / "copy/orders-0")).records == 4
    leaders = cluster.log_directory(1) / "orders-0/00000000000000000000.log"
    assert (tmp_path / "copy/orders-0/00000000000000000000.log").read_bytes() == leaders.read_bytes()


@pytest.mark.tierfetch(brokers=3)
async def test_another_leader_is_followed(tierfetch_cluster: InProcessCluster, tmp_path: Path) -> None:
    cluster = tierfetch_cluster
    await asyncio.to_thread(cluster.create_topic, "orders", configs={"min.insync.replicas": "2"})
    await asyncio.to_thread(cluster.produce, "orders", b"0")
    async with asyncio.timeout(LIMIT_S), follow(cluster.bootstrap, "orders", 0, tmp_path / "copy") as follower:
        await follower.wait_caught_up()
        first, epoch = follower.leader, follower.leader_epoch
        assert first is not None
        await asyncio.to_thread(cluster.kill, first)
        await asyncio.to_thread(cluster.produce, "orders", b"1")
        assert await follower.wait_newer(1) == 2
        assert follower.leader != first
        assert follower.leader_epoch > epoch
        assert await values(follower) == [b"0", b"1"]


@pytest.mark.parametrize("deleted_to", [0, 2])
async def test_what_only_the_tier_has_is_copied_too(
    tierfetch_cluster: InProcessCluster, tmp_path: Path, deleted_to: int
) -> None:
    cluster = tierfetch_cluster
    configs = {"local.retention.bytes": "1", "segment.bytes": "1048576"}
    await asyncio.to_thread(cluster.create_topic, "orders", tiered=True, configs=configs)
    for number in range(5):
        await asyncio.to_thread(cluster.produce, "orders", b"%d" % number)
        await asyncio.to_thread(cluster.roll_segments, "orders")
    await asyncio.to_thread(cluster.wait_tiered, "orders")
    segments = cluster.log_directory(1) / "orders-0"
    async with asyncio.timeout(LIMIT_S):
        while (segments / f"{0:020d}.log").exists():  # noqa: ASYNC110 - of a broker's files
            await asyncio.sleep(0.01)
        await delete_records(cluster, deleted_to)
        async with follow(cluster.bootstrap, "orders", 0, tmp_path / "copy") as follower:
            await follower.wait_newer(4)
            assert await values(follower) == [b"0", b"1", b"2", b"3", b"4"][deleted_to:]


async def test_a_cluster_that_is_away_is_waited_for(tierfetch_cluster: InProcessCluster, tmp_path: Path) -> None:
    cluster = tierfetch_cluster
    await asyncio.to_thread(cluster.create_topic, "orders")
    async with asyncio.timeout(LIMIT_S), follow(cluster.bootstrap, "orders", 0, tmp_path / "copy") as follower:
        await follower.wait_caught_up()
        await asyncio.to_thread(cluster.stop, 1)
        while follower.trouble is None:  # noqa: ASYNC110 - it is a value to look at
            await asyncio.sleep(0.01)
        await asyncio.to_thread(cluster.start, 1)
        await asyncio.to_thread(cluster.produce, "orders", b"back")
        await follower.wait_newer(0)
        assert follower.trouble is None


async def test_a_topic_that_was_created_again_ends_the_copy(
    tierfetch_cluster: InProcessCluster, tmp_path: Path
) -> None:
    cluster = tierfetch_cluster
    await asyncio.to_thread(cluster.create_topic, "orders")
    await asyncio.to_thread(cluster.produce, "orders", b"first")
    async with asyncio.timeout(LIMIT_S), follow(cluster.bootstrap, "orders", 0, tmp_path / "copy") as follower:
        await follower.wait_newer(0)
        await asyncio.to_thread(cluster.delete_topic, "orders")
        await asyncio.to_thread(cluster.create_topic, "orders")
        with pytest.raises(FollowEndedError, match="was deleted and created again"):
            await follower.wait_newer(1)
        assert await values(follower) == [b"first"]
    with pytest.raises(OperatorError, match="it is another topic; follow it into another directory"):
        async with follow(cluster.bootstrap, "orders", 0, tmp_path / "copy"):
            pass
    assert (await verify_log(tmp_path / "copy/orders-0")).records == 1


async def test_what_cannot_be_followed_is_said_at_once(tierfetch_cluster: InProcessCluster, tmp_path: Path) -> None:
    cluster = tierfetch_cluster
    await asyncio.to_thread(cluster.create_topic, "orders")
    await asyncio.to_thread(cluster.create_topic, "other")
    with pytest.raises(KafkaError) as raised:
        async with follow(cluster.bootstrap, "nosuch", 0, tmp_path / "copy"):
            pass
    assert raised.value.code is ErrorCode.unknown_topic_or_partition
    with pytest.raises(KafkaError, match="knows no orders-7"):
        async with follow(cluster.bootstrap, "orders", 7, tmp_path / "copy"):
            pass
    with pytest.raises(OperatorError, match="bootstrap='nonsense': expected host:port"):
        async with follow("nonsense", "orders", 0, tmp_path / "copy"):
            pass
    async with open_log(tmp_path / "log"):
        pass
    with pytest.raises(OperatorError, match="follow needs a directory of its own"):
        async with follow(cluster.bootstrap, "orders", 0, tmp_path / "log"):
            pass
    async with follow(cluster.bootstrap, "orders", 0, tmp_path / "copy"):
        with pytest.raises(OperatorError, match="is in use in this process"):
            async with follow(cluster.bootstrap, "orders", 0, tmp_path / "copy"):
                pass
    with pytest.raises(OperatorError, match="has a copy of orders-0: each partition needs a directory of its own"):
        async with follow(cluster.bootstrap, "other", 0, tmp_path / "copy"):
            pass
    await asyncio.to_thread(cluster.stop, 1)
    with pytest.raises(BrokerUnavailableError):
        async with follow(cluster.bootstrap, "orders", 0, tmp_path / "copy"):
            pass


async def test_records_that_the_cluster_deletes_are_deleted_here(
    tierfetch_cluster: InProcessCluster, tmp_path: Path
) -> None:
    cluster = tierfetch_cluster
    await asyncio.to_thread(cluster.create_topic, "orders")
    for value in (b"old", b"newer", b"newest"):
        await asyncio.to_thread(cluster.produce, "orders", value)
    small, copy = replace(KEEP_ALL, segment_bytes=100), tmp_path / "copy"
    async with asyncio.timeout(LIMIT_S), follow(cluster.bootstrap, "orders", 0, copy, config=small) as follower:
        await follower.wait_newer(2)
        first = copy / "orders-0" / f"{0:020d}.log"
        assert first.exists()
        await delete_records(cluster, 2)
        while first.exists():  # noqa: ASYNC110 - nothing waits for a deletion
            await asyncio.sleep(0.01)
        assert follower.start_offset == 2
        assert await values(follower) == [b"newest"]


async def test_a_copy_that_was_away_for_longer_than_the_retention_begins_again(
    tierfetch_cluster: InProcessCluster, tmp_path: Path
) -> None:
    cluster = tierfetch_cluster
    await asyncio.to_thread(cluster.create_topic, "orders")
    await asyncio.to_thread(cluster.produce, "orders", b"0")
    async with asyncio.timeout(LIMIT_S), follow(cluster.bootstrap, "orders", 0, tmp_path / "copy") as follower:
        await follower.wait_newer(0)
    await asyncio.to_thread(cluster.produce, "orders", b"1", b"2")
    await delete_records(cluster, 2)
    async with asyncio.timeout(LIMIT_S), follow(cluster.bootstrap, "orders", 0, tmp_path / "copy") as follower:
        assert await follower.wait_newer(2) == 3
        assert follower.start_offset >= 1
        assert (await values(follower))[-1] == b"2"


async def test_a_cancelled_block_leaves_a_copy_that_resumes(
    tierfetch_cluster: InProcessCluster, tmp_path: Path
) -> None:
    cluster = tierfetch_cluster
    await asyncio.to_thread(cluster.create_topic, "orders")
    await asyncio.to_thread(cluster.produce, "orders", b"one")
    caught_up = asyncio.Event()

    async def copy() -> None:
        async with follow(cluster.bootstrap, "orders", 0, tmp_path / "copy") as follower:
            await follower.wait_newer(0)
            caught_up.set()
            await follower.wait_newer(1)

    task = asyncio.create_task(copy())
    await caught_up.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(LIMIT_S), follow(cluster.bootstrap, "orders", 0, tmp_path / "copy") as follower:
        assert await values(follower) == [b"one"]
