"""Replicas that move between the log directories of a broker while it serves"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import cast
from uuid import UUID

import pytest

from tierfetch.broker.replicas import directory_moves
from tierfetch.broker.replicas.directory_moves import DirectoryMoves
from tierfetch.log.core import AppendOrigin
from tierfetch.log.core.file_names import ADOPTED_FILE
from tierfetch.log.keeper.future_logs import advance
from tierfetch.log.keeper.log_directory import LogDirectory
from tierfetch.log.partition_log import PartitionLog
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.cluster import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribeLogDirsRequest,
)
from tierfetch.protocol.net.client import KafkaClient
from tierfetch.protocol.topics import TopicPartition
from tierfetch.tests.broker.hosting import batch
from tierfetch.tests.broker.nodes import Nodes
from tierfetch.tests.broker.waiting import until
from tierfetch.tests.fakes.cluster_view import FakeClusterView

NAME = TopicPartition("t", 0)


class TwoDirectories(Nodes):
    """Broker 1 has two log directories; requests go over a connection."""

    client: KafkaClient

    def __init__(self, base: Path) -> None:
        super().__init__(base, {"log.segment.bytes": "1048576"})

    async def begin(self, *others: int, **configs: str) -> None:
        paths = f"{self.directory(1)},{self.base / 'second'}"
        await self.start(1, log_dirs=paths, **configs)
        await self.start(*others)
        self.client = KafkaClient(client_id="test", random=Random(1))

    async def close(self) -> None:
        await self.client.close()
        await super().close()

    async def alter(self, path: Path | str, topic: str = "t", number: int = 0) -> ErrorCode:
        topics = (AlterReplicaLogDirTopic(name=topic, partitions=(number,)),)
        request = AlterReplicaLogDirsRequest(dirs=(AlterReplicaLogDir(path=str(path), topics=topics),))
        response = await self.client.send(self[1].address, request)
        ((result,),) = [topic.partitions for topic in response.results]
        return result.error_code

    async def described(self) -> list[tuple[str, bool, int]]:
        """(directory, is it the future log?, lag) of the partition."""
        response = await self.client.send(self[1].address, DescribeLogDirsRequest(topics=None))
        return [
            (Path(result.log_dir).name, part.is_future_key, part.offset_lag)
            for result in response.results
            for topic in result.topics
            for part in topic.partitions
            if TopicPartition(topic.name, part.partition_index) == NAME
        ]

    @property
    def log(self) -> PartitionLog:
        return self.partition(1, "t").log

    @property
    def home(self) -> LogDirectory:
        (found,) = [directory for directory in self[1].logs.directories if NAME in directory.logs]
        return found

    @property
    def other(self) -> LogDirectory:
        (found,) = [directory for directory in self[1].logs.directories if NAME not in directory.logs]
        return found

    @property
    def moves(self) -> DirectoryMoves:
        return self[1].moves

    async def known_topic(self, *replicas: int) -> None:
        """A topic whose directory on broker 1 the controller knows."""
        topic = await self.topic("t", *replicas)
        self[1].view.assign_directory(topic.id_partition(0), self.home.directory_id)
        await until(lambda: self.recorded == self.home.directory_id)

    @property
    def recorded(self) -> UUID | None:
        return self.registration("t").directory_of(1)

    async def produce(self, number: int, count: int, size: int = 1000) -> None:
        partition = self.partition(number, "t")
        for _ in range(count):
            appended = await partition.append(batch(bytes(size)), AppendOrigin.CLIENT, acks_all=True)
            committed = partition.committed(appended.last_offset + 1, appended.leader_epoch)
            if committed is not None:
                async with asyncio.timeout(10):
                    await committed


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[TwoDirectories]:
    nodes = TwoDirectories(tmp_path)
    yield nodes
    await nodes.close()


@pytest.mark.parametrize("leader", [1, 2])
async def test_D4_a_replica_moves_while_its_partition_is_produced_to(nodes: TwoDirectories, leader: int) -> None:
    await nodes.begin(2)
    await nodes.known_topic(leader, 3 - leader)
    await nodes.produce(leader, 40, 100_000)
    home, other, log = nodes.home, nodes.other, nodes.log
    assert await nodes.alter(other.path) is ErrorCode.none
    while nodes.moves.count:
        await nodes.produce(leader, 5)
    assert NAME in other.logs
    assert nodes.log is log
    assert nodes.recorded == other.directory_id
    assert await nodes.described() == [(other.path.name, False, 0)]
    await nodes.produce(leader, 5)
    assert nodes.registration("t").isr == (leader, 3 - leader)
    assert not [path for path in home.path.iterdir() if path.name == "t-0"]
    await until(
        lambda: nodes.partition(1, "t").log.state.log_end_offset == nodes.partition(2, "t").log.state.log_end_offset
    )


async def test_D4_the_controller_knows_the_directory_before_the_switch_and_only_copied_records_count(
    nodes: TwoDirectories,
) -> None:
    await nodes.begin()
    await nodes.known_topic(1)
    await nodes.produce(1, 3)
    home, other, view = nodes.home, nodes.other, cast(FakeClusterView, nodes[1].view)
    view.is_reachable = False
    assert await nodes.alter(other.path) is ErrorCode.none
    await until(lambda: bool(nodes.moves.directories.promised))
    assert nodes.home is home
    assert await nodes.described() == sorted([(home.path.name, False, 0), (other.path.name, True, 0)])
    await nodes.produce(1, 3)
    assert nodes.home is home, "the controller does not know the destination yet"
    future = other.futures[NAME]
    await until(lambda: future.state.log_end_offset == 6)
    future.hold_at(2)
    assert future.state.offsets.settled_end_offset == 2
    nodes.log.hold_at(6)
    appended = await nodes.partition(1, "t").append(batch(b"held"), AppendOrigin.CLIENT, acks_all=True)
    assert nodes.log.state.high_watermark == 6, "the future log does not have it"
    future.hold_at(None)
    await until(lambda: nodes.log.state.high_watermark == appended.last_offset + 1)
    view.reach()
    await until(lambda: nodes.moves.count == 0)
    assert nodes.home is other


async def test_D4_a_mark_that_goes_while_the_controller_is_asked_goes_from_the_copy_too(nodes: TwoDirectories) -> None:
    """A replica that joins the ISR then must not count as empty if a crash makes its copy the log."""
    await nodes.begin()
    await nodes.known_topic(1)
    await nodes.produce(1, 3)
    other, view = nodes.other, cast(FakeClusterView, nodes[1].view)
    nodes.log.state.is_adopted = True
    view.is_reachable = False
    assert await nodes.alter(other.path) is ErrorCode.none
    await until(lambda: bool(nodes.moves.directories.promised))
    future = other.futures[NAME]
    assert future.state.is_adopted
    await nodes.log.confirm_adoption()
    await nodes.produce(1, 1)
    await until(lambda: not future.state.is_adopted)
    assert not (future.state.directory / ADOPTED_FILE).exists()
    view.reach()
    await until(lambda: nodes.moves.count == 0)
    assert nodes.home is other


async def test_D4_the_errors_are_kafkas(nodes: TwoDirectories) -> None:
    await nodes.begin(2)
    await nodes.topic("elsewhere", 2)
    await nodes.topic("t", 1)
    home, other = nodes.home, nodes.other
    assert await nodes.alter(nodes.base / "third") is ErrorCode.log_dir_not_found
    assert await nodes.alter(other.path, "nowhere") is ErrorCode.unknown_topic_or_partition
    assert await nodes.alter(other.path, "t", 7) is ErrorCode.unknown_topic_or_partition
    assert await nodes.alter(other.path, "elsewhere") is ErrorCode.replica_not_available
    assert await nodes.alter(other.path, "x" * 249) is ErrorCode.invalid_topic_exception
    assert await nodes.alter(home.path) is ErrorCode.none
    assert nodes.moves.count == 0
    await other.take_offline("no disk")
    assert await nodes.alter(other.path) is ErrorCode.kafka_storage_error


async def test_D4_a_replica_is_created_where_it_was_requested_before_it_was_here(nodes: TwoDirectories) -> None:
    await nodes.begin()
    first, second = nodes[1].logs.directories
    for number, directory in enumerate((second, first, second)):
        assert await nodes.alter(directory.path, f"t{number}") is ErrorCode.unknown_topic_or_partition
        await nodes.topic(f"t{number}", 1)
        assert TopicPartition(f"t{number}", 0) in directory.logs


async def test_D4_a_copy_that_fails_ends_the_move_and_nothing_else(
    nodes: TwoDirectories, caplog: pytest.LogCaptureFixture
) -> None:
    await nodes.begin(replica_alter_log_dirs_io_max_bytes_per_second="1")
    await nodes.known_topic(1)
    await nodes.produce(1, 30, 100_000)
    home, other = nodes.home, nodes.other
    assert await nodes.alter(other.path) is ErrorCode.none
    await until(lambda: NAME in other.futures)
    await other.take_offline("no disk")
    await until(lambda: nodes.moves.count == 0)
    assert nodes.moves.failed == 1
    assert nodes.home is home
    await nodes.produce(1, 5)
    assert "t-0 is not moved to" in caplog.text


async def test_D4_a_copy_that_fails_is_tried_again_and_the_log_serves_meanwhile(
    nodes: TwoDirectories, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [OSError(errno.EIO, "no block")] * 3

    async def failing(current: PartitionLog, future: PartitionLog) -> int | None:
        if failures:
            raise failures.pop()
        return await advance(current, future)

    monkeypatch.setattr(directory_moves, "RETRY_S_MIN", 0.01)
    monkeypatch.setattr(directory_moves, "advance", failing)
    await nodes.begin()
    await nodes.known_topic(1)
    await nodes.produce(1, 3)
    other = nodes.other
    assert await nodes.alter(other.path) is ErrorCode.none
    while nodes.moves.count:
        await nodes.produce(1, 1)
    assert nodes.home is other
    assert nodes.moves.failed == 3
    assert not list(other.path.glob("t-0.*-future"))
    assert caplog.text.count("stays where it is, its move to") == 1, "each reason is logged once"


async def test_D4_a_move_without_room_waits_for_it_before_anything_is_copied(
    nodes: TwoDirectories, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_moves, "RETRY_S_MIN", 0.01)
    monkeypatch.setattr(directory_moves, "RETRY_S_MAX", 0.01)
    await nodes.begin()
    await nodes.known_topic(1)
    await nodes.produce(1, 3)
    home, other = nodes.home, nodes.other
    other.free_space.min_bytes = 2**60
    assert await nodes.alter(other.path) is ErrorCode.none
    await until(lambda: nodes.moves.stalled == 1)
    assert not list(other.path.glob("t-0.*-future"))
    assert nodes.home is home
    assert caplog.text.count("bytes free and") == 1
    other.free_space.min_bytes = 0
    await until(lambda: nodes.moves.count == 0)
    assert nodes.home is other
    assert nodes.moves.failed == 0


async def test_D4_a_destination_that_fills_gets_its_room_back(
    nodes: TwoDirectories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_moves, "RETRY_S_MIN", 0.01)
    await nodes.begin(replica_alter_log_dirs_io_max_bytes_per_second="1")
    await nodes.known_topic(1)
    await nodes.produce(1, 30, 100_000)
    home, other = nodes.home, nodes.other
    assert await nodes.alter(other.path) is ErrorCode.none
    await until(lambda: NAME in other.futures)
    other.free_space.min_bytes = 2**60
    await other.measure_space()
    await until(lambda: nodes.moves.stalled == 1)
    assert not other.futures
    assert not list(other.path.glob("t-0.*-future"))
    assert nodes.home is home
    await nodes.produce(1, 1)


async def test_D4_a_move_continues_after_a_restart_and_another_destination_ends_it(nodes: TwoDirectories) -> None:
    await nodes.begin(replica_alter_log_dirs_io_max_bytes_per_second="1")
    await nodes.known_topic(1)
    await nodes.produce(1, 30, 100_000)
    home, other = nodes.home.path, nodes.other.path
    assert await nodes.alter(other) is ErrorCode.none
    await until(lambda: NAME in nodes.other.futures)
    await nodes.stop(1)
    assert len(list(other.glob("t-0.*-future"))) == 1
    paths = f"{nodes.directory(1)},{nodes.base / 'second'}"
    await nodes.start(1, log_dirs=paths, replica_alter_log_dirs_io_max_bytes_per_second="1")
    assert nodes.moves.count == 1
    assert await nodes.alter(home) is ErrorCode.none
    await until(lambda: nodes.moves.count == 0)
    assert nodes.home.path == home
    assert list(other.glob("t-0.*-future")) == []
    await nodes.alter(other)
    await until(lambda: NAME in nodes.other.futures)
    rate = {"replica.alter.log.dirs.io.max.bytes.per.second": "100000000"}
    await nodes.operator.alter_broker_configs("1", rate)
    await until(lambda: nodes.moves.count == 0)
    assert nodes.home.path == other


@pytest.mark.parametrize("step", ["advance", "switch"])
async def test_D4_another_destination_that_is_requested_in_the_middle_of_a_step_is_where_it_ends(
    nodes: TwoDirectories, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    await nodes.begin()
    await nodes.known_topic(1)
    await nodes.produce(1, 3)
    home, other, requested = nodes.home, nodes.other, list[str]()
    real = getattr(directory_moves, step)

    async def with_a_request(*arguments: object) -> object:
        done = await real(*arguments)
        if not requested and not (step == "advance" and done is not None):
            requested.append(step)
            nodes.moves.request(NAME, str(home.path))
        return done

    monkeypatch.setattr(directory_moves, step, with_a_request)
    assert await nodes.alter(other.path) is ErrorCode.none
    await until(lambda: bool(requested) and nodes.moves.count == 0)
    assert nodes.home is home
    assert nodes.recorded == home.directory_id
    assert not [*other.path.glob("t-0"), *other.path.glob("t-0.*-future")]
    await nodes.produce(1, 3)


async def test_D4_a_log_that_grows_all_the_time_is_moved(
    nodes: TwoDirectories, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is never caught up with at the end of a step that waits for the disk."""
    await nodes.begin()
    await nodes.known_topic(1)
    await nodes.produce(1, 3)
    other, real = nodes.other, PartitionLog.take_history

    async def while_it_grows(future: PartitionLog, current: PartitionLog) -> None:
        await real(future, current)
        await nodes.produce(1, 1)

    monkeypatch.setattr(PartitionLog, "take_history", while_it_grows)
    assert await nodes.alter(other.path) is ErrorCode.none
    await until(lambda: nodes.moves.count == 0)
    assert nodes.home is other


async def test_D4_a_copy_that_fails_as_the_current_directory_is_requested_ends_the_move(
    nodes: TwoDirectories, monkeypatch: pytest.MonkeyPatch
) -> None:
    await nodes.begin()
    await nodes.known_topic(1)
    await nodes.produce(1, 3)
    home, other = nodes.home, nodes.other

    async def failing(*_: object) -> int:
        nodes.moves.request(NAME, str(home.path))
        raise OSError(5, "the disk fails")

    monkeypatch.setattr(directory_moves, "advance", failing)
    assert await nodes.alter(other.path) is ErrorCode.none
    await until(lambda: nodes.moves.count == 0)
    assert nodes.home is home
    assert NAME not in other.futures
    await nodes.produce(1, 3)


async def test_D4_a_topic_that_is_deleted_while_it_moves(nodes: TwoDirectories) -> None:
    await nodes.begin(replica_alter_log_dirs_io_max_bytes_per_second="1")
    await nodes.known_topic(1)
    await nodes.produce(1, 30, 100_000)
    other = nodes.other
    assert await nodes.alter(other.path) is ErrorCode.none
    await until(lambda: NAME in other.futures)
    await nodes.operator.delete_topic("t")
    await until(lambda: NAME not in nodes[1].hosted.partitions and not list(other.path.glob("t-0.*-future")))
    assert nodes.moves.count == 0
