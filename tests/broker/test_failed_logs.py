"""A log that fails while it is served: what that costs, and when its replica is counted on again."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from tierfetch.broker.cluster.view import NO_LEADER, ClusterImage, PartitionRegistration
from tierfetch.broker.replicas.failed_logs import FORGIVEN_S, NO_EPOCH, FailedLog, FailedLogs, obstacle
from tierfetch.broker.replicas.hosted_partitions import LogFailures
from tierfetch.controller.core.state import LOST_DIRECTORY
from tierfetch.log.core import AppendOrigin
from tierfetch.log.disk.open_file import OsFile
from tierfetch.log.keeper.manager import LogManager
from tierfetch.log.partition_log import LogLocation, PartitionLog
from tierfetch.protocol.errors import KafkaError
from tierfetch.protocol.topics import TopicIdPartition, TopicPartition
from tierfetch.tests.broker.hosting import batch
from tierfetch.tests.broker.nodes import Nodes
from tierfetch.tests.broker.waiting import until
from tierfetch.tests.fakes.cluster_rules import assign_directory
from tierfetch.tests.sim.planted.hardware_bugs import FAILED_LOGS, SHORTER_LOG
from tierfetch.tests.sim.planted.registry import shown_by

DIRECTORY = UUID(int=1 << 100)
SEGMENT = "00000000000000000000.log"


@pytest.fixture
async def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Nodes]:
    """The timer does not hide what has to happen at once."""
    monkeypatch.setattr("tierfetch.broker.replicas.manager.TICK_S_MAX", 3600.0)
    monkeypatch.setattr("tierfetch.broker.replicas.failed_logs.RETRY_MIN_MS", 20)
    monkeypatch.setattr("tierfetch.broker.replicas.failed_logs.RETRY_MAX_MS", 100)
    nodes = Nodes(tmp_path, {"replica.lag.time.max.ms": "60000"})
    yield nodes
    await nodes.close()


class FullLog:
    """The `.log` files below a directory take no more bytes, though everything else there can be written: EFBIG."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
        self.is_full = True
        self.refused = 0
        write_all = OsFile._write_all

        def write(file: OsFile, offset: int, data: memoryview) -> None:
            is_its = file.path.suffix == ".log" and file.path.is_relative_to(directory)
            if self.is_full and is_its and offset + data.nbytes > file.path.stat().st_size:
                self.refused += 1
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(file.path))
            write_all(file, offset, data)

        monkeypatch.setattr(OsFile, "_write_all", write)


async def produce(nodes: Nodes, leader: int, *values: bytes, topic: str = "t") -> int:
    """The end offset, not waited for."""
    partition = nodes.partition(leader, topic)
    info = None
    for value in values:
        info = await partition.append(batch(value), AppendOrigin.CLIENT, acks_all=False)
    assert info is not None
    return info.last_offset + 1


async def until_committed(nodes: Nodes, leader: int, end_offset: int, topic: str = "t") -> None:
    partition = nodes.partition(leader, topic)
    waiting = partition.committed(end_offset, partition.leader().leader_epoch)
    if waiting is not None:
        await asyncio.wait_for(waiting, 10)


async def until_in_sync(nodes: Nodes, *numbers: int, topic: str = "t") -> None:
    await until(lambda: sorted(nodes.registration(topic).isr) == sorted(numbers))
    await until(lambda: all(nodes.hosts(number, topic) for number in numbers))
    await until(lambda: len({nodes.partition(number, topic).log.state.log_end_offset for number in numbers}) == 1)
    assert len({nodes.log_bytes(number, topic) for number in numbers}) == 1


def history(nodes: Nodes, topic: str) -> list[PartitionRegistration]:
    """What the topic's registration becomes from now on, each once."""
    seen = [nodes.registration(topic)]

    def note(_: ClusterImage, image: ClusterImage) -> None:
        now = image.topics[topic].partitions[0]
        if now != seen[-1]:
            seen.append(now)

    nodes.operator.subscribe(note)
    return seen


async def test_D1_a_led_log_that_fails_moves_its_own_partition_only(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    await nodes.start(1, 2)
    for name in ("t", "u", "v"):
        await nodes.topic(name, 1, 2)
    await nodes.topic("alone", 1)
    await produce(nodes, 1, b"a")
    await until_in_sync(nodes, 1, 2)
    others = [history(nodes, name) for name in ("u", "v", "alone")]
    before = [list(seen) for seen in others]
    full = FullLog(monkeypatch, nodes.directory(1) / "t-0")
    with pytest.raises(KafkaError, match="File too large"):
        await produce(nodes, 1, b"b")
    await until(lambda: nodes.registration("t").leader == 2)
    assert (nodes.registration("t").leader_epoch, nodes.registration("t").isr) == (1, (2,))
    await until(lambda: nodes.partition(2, "t").leadership is not None)
    await produce(nodes, 2, b"b")
    await until(lambda: full.refused >= 4)
    assert nodes.registration("t").isr == (2,)
    assert not nodes.hosts(1, "t")
    full.is_full = False
    await until_in_sync(nodes, 1, 2)
    assert others == before


async def test_D1_a_failed_log_counts_as_offline_also_while_it_is_opened_again(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its recovery may take long: neither the metric nor a client may take the replica for a sound one meanwhile."""
    await nodes.start(1)
    await nodes.topic("t", 1)
    is_opening, may_open, reopened = asyncio.Event(), asyncio.Event(), LogManager.reopen

    async def reopen(logs: LogManager, name: TopicPartition) -> PartitionLog:
        is_opening.set()
        await may_open.wait()
        return await reopened(logs, name)

    monkeypatch.setattr(LogManager, "reopen", reopen)
    full = FullLog(monkeypatch, nodes.directory(1) / "t-0")
    with pytest.raises(KafkaError, match="File too large"):
        await produce(nodes, 1, b"a")
    await asyncio.wait_for(is_opening.wait(), 10)
    hosted = nodes[1].hosted
    assert hosted.out_of_service() == {TopicPartition("t", 0)}
    with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
        hosted.find("t", 0)
    full.is_full = False
    may_open.set()
    await until(lambda: nodes.hosts(1, "t") and not hosted.out_of_service())


async def test_D1_the_only_replica_that_cannot_append_waits_and_leads_again_when_it_can(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its partition alone is without a leader meanwhile, once, whatever its producers ask for."""
    await nodes.start(1)
    await nodes.topic("t", 1)
    await nodes.topic("u", 1)
    await produce(nodes, 1, b"a")
    seen, other = history(nodes, "t"), history(nodes, "u")
    full = FullLog(monkeypatch, nodes.directory(1) / "t-0")
    with pytest.raises(KafkaError, match="File too large"):
        await produce(nodes, 1, b"b")
    await until(lambda: full.refused >= 4)
    assert [(each.leader, each.leader_epoch, each.isr) for each in seen] == [(1, 0, (1,)), (NO_LEADER, 1, (1,))]
    full.is_full = False
    await until(lambda: nodes.hosts(1, "t") and nodes.partition(1, "t").leadership is not None)
    await until_committed(nodes, 1, await produce(nodes, 1, b"b"))
    assert [(each.leader, each.leader_epoch, each.isr) for each in seen][2:] == [(1, 2, (1,))]
    assert len(other) == 1


async def test_D2_a_follower_that_cannot_append_leaves_the_isr_at_once_until_it_can(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    await nodes.start(1, 2)
    await nodes.topic("t", 1, 2)
    await until_committed(nodes, 1, await produce(nodes, 1, b"a"))
    full, seen = FullLog(monkeypatch, nodes.directory(2) / "t-0"), history(nodes, "t")
    await until_committed(nodes, 1, await produce(nodes, 1, b"b"))
    assert nodes.registration("t").isr == (1,), "acks=all went on without the replica, not with it"
    await until(lambda: full.refused >= 4)
    assert {each.isr for each in seen[1:]} == {(1,)}, "to open the log is no proof that it can append"
    assert nodes.registration("t").leader_epoch == 0
    full.is_full = False
    await until_in_sync(nodes, 1, 2)
    assert nodes.partition(1, "t").leader().leader_epoch == 0


async def test_D2_a_log_that_cannot_begin_a_segment_has_failed(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written to it at all, so nothing else would be noticed."""
    await nodes.start(1, 2)
    await nodes.topic("t", 1, 2, segment_bytes="1048576")
    await until_committed(nodes, 1, await produce(nodes, 1, b"a"))
    log = nodes.partition(2, "t").log
    log.update_config(replace(log.state.config, segment_bytes=20))
    open_file = nodes[2].logs.services.disk.open

    async def refuse(path: Path, *, create: bool = False) -> object:
        if create and path.suffix == ".log":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return await open_file(path, create=create)

    with monkeypatch.context() as patch:
        patch.setattr(nodes[2].logs.services.disk, "open", refuse)
        await until_committed(nodes, 1, await produce(nodes, 1, b"b"))
        assert nodes.registration("t").isr == (1,)
    await until_in_sync(nodes, 1, 2)


async def test_C9_a_replica_is_not_served_before_the_controller_counts_it_as_lost(nodes: Nodes) -> None:
    """It would lead under its old epoch, in which its followers cannot see where it diverges."""
    await nodes.start(1, 2)
    await nodes.topic("t", 1, 2)
    await produce(nodes, 1, b"a")
    await until_in_sync(nodes, 1, 2)
    nodes[1].view.is_reachable = False
    nodes.partition(1, "t").log.state.fail(OSError(errno.ENOSPC, "No space left on device"))
    name = TopicPartition("t", 0)
    await until(lambda: "has not taken the replica out of the ISR" in nodes[1].hosted.failures.get(name, ""))
    await nodes.operator.alter_topic_configs("t", {"retention.ms": "1234"})
    assert not nodes.hosts(1, "t")
    nodes[1].view.reach()
    await until_in_sync(nodes, 1, 2)
    assert (nodes.registration("t").leader, nodes.registration("t").leader_epoch) == (2, 1)


@pytest.mark.parametrize("broken", [1, 2])
async def test_C1_replica_whose_log_cannot_be_opened_counts_as_lost_until_it_can(
    nodes: Nodes, broken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await nodes.start(1, 2)
    key = (await nodes.topic("t", 1, 2)).id_partition(0)
    (directory_id,), told = nodes[broken].logs.directory_ids, nodes[broken].view.directories
    nodes.cluster.change(lambda image: assign_directory(image, key, broken, directory_id))
    open_log, refused = PartitionLog.open, []

    async def full(location: LogLocation) -> PartitionLog:
        if location.directory.is_relative_to(nodes.directory(broken)):
            refused.append(location.directory)
            raise OSError(28, "No space left on device")
        return await open_log(location)

    with monkeypatch.context() as patch:
        patch.setattr(PartitionLog, "open", full)
        nodes.partition(broken, "t").log.state.fail(OSError(28, "No space left on device"))
        await until(lambda: len(refused) >= 3)
        assert told[key] == LOST_DIRECTORY
        assert nodes.registration("t").isr == (3 - broken,)
    await until(lambda: told[key] == directory_id)
    await until_in_sync(nodes, 1, 2)


class LostPages:
    """Of one `.log`: what is written from now on is in the page cache alone, a sync of it fails, and when the log is
    opened again the cache has let go of it.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
        durable = path.stat().st_size
        reopen = LogManager.reopen

        async def evicted(manager: LogManager, partition: TopicPartition) -> PartitionLog:
            if path.is_relative_to(manager.directories[0].path):
                with path.open("r+b") as file:
                    file.truncate(durable)
                self.heal()
            return await reopen(manager, partition)

        self._patch = pytest.MonkeyPatch()
        original = OsFile.sync

        async def sync_or_fail(file: OsFile) -> None:
            if file.path == path:
                raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
            await original(file)

        self._patch.setattr(OsFile, "sync", sync_or_fail)
        monkeypatch.setattr(LogManager, "reopen", evicted)

    def heal(self) -> None:
        self._patch.undo()


async def fail_sync(nodes: Nodes, number: int) -> None:
    with pytest.raises(KafkaError, match="Input/output error"):
        await nodes.partition(number, "t").log.flush()


async def test_D3_a_log_that_comes_back_shorter_is_not_electable(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Twenty records that both replicas have acknowledged; one loses them, and then the other one dies."""
    await nodes.start(1, 2)
    await nodes.topic("t", 1, 2, min_insync_replicas="2")
    await until_in_sync(nodes, 1, 2)
    pages = LostPages(monkeypatch, nodes.directory(2) / "t-0" / SEGMENT)
    await until_committed(nodes, 1, await produce(nodes, 1, *[b"%d" % number for number in range(20)]))
    seen = history(nodes, "t")
    fetching = nodes[2].fetchers.add
    monkeypatch.setattr(nodes[2].fetchers, "add", lambda *_: None)  # the leader dies before it can send them again
    await fail_sync(nodes, 2)
    await until(lambda: nodes.hosts(2, "t") and nodes.partition(2, "t").log.state.log_end_offset == 0)
    assert nodes.registration("t").isr == (1,)
    assert "its disk has lost 20 records (offsets 0 to 19)" in caplog.text
    await nodes.operator.fence_broker(1)
    assert [each.leader for each in seen if each.leader != 1] == []
    monkeypatch.setattr(nodes[2].fetchers, "add", fetching)
    pages.heal()


async def test_D3_a_shorter_log_that_keeps_its_place_in_the_isr_is_noticed(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(OsFile, "sync", OsFile.sync)  # so that it is as before afterwards
    with shown_by(FAILED_LOGS)[SHORTER_LOG](), pytest.raises(AssertionError):
        await test_D3_a_log_that_comes_back_shorter_is_not_electable(nodes, monkeypatch, caplog)


async def test_D3_the_last_in_sync_replica_that_comes_back_shorter_is_left_to_the_operator(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    await nodes.start(1)
    await nodes.topic("t", 1)
    LostPages(monkeypatch, nodes.directory(1) / "t-0" / SEGMENT)
    await until_committed(nodes, 1, await produce(nodes, 1, b"a", b"b"))
    await fail_sync(nodes, 1)
    name = TopicPartition("t", 0)
    await until(lambda: "lost 2 records, and no other replica leads" in nodes[1].hosted.failures.get(name, ""))
    assert (nodes.registration("t").leader, nodes.registration("t").leader_epoch) == (NO_LEADER, 1)
    await nodes.operator.elect_leader(nodes[1].view.image.topics["t"].id_partition(0), 1, unclean=True)
    await until(lambda: nodes.hosts(1, "t") and nodes.partition(1, "t").leadership is not None)
    assert nodes.partition(1, "t").log.state.log_end_offset == 0


async def test_a_log_that_refuses_appends_is_not_read_again_for_each_trial(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    await nodes.start(1)
    await nodes.topic("t", 1)
    full = FullLog(monkeypatch, nodes.directory(1) / "t-0")
    opened: list[TopicPartition] = []
    reopen = LogManager.reopen

    async def counted(manager: LogManager, partition: TopicPartition) -> PartitionLog:
        opened.append(partition)
        return await reopen(manager, partition)

    monkeypatch.setattr(LogManager, "reopen", counted)
    with pytest.raises(KafkaError, match="File too large"):
        await produce(nodes, 1, b"a")
    await until(lambda: full.refused >= 5)
    assert opened == [TopicPartition("t", 0)], "the tail is read once, and only the trial is made again"


async def test_D1_each_attempt_waits_twice_as_long_as_the_one_before_until_the_log_lasts() -> None:
    async def refuse(_: TopicPartition) -> None:
        raise OSError(errno.EIO, "Input/output error")

    key, woken = TopicIdPartition(UUID(int=5), "t", 0), list[float]()
    loop = asyncio.get_running_loop()
    logs: Any = SimpleNamespace(get=lambda _: None, reopen=refuse)
    failed = FailedLogs(logs, 1, Random(1), lambda: woken.append(loop.time()), LogFailures())
    failed.add_unopened(key)
    attempts, pauses = failed._attempts[key], list[float]()
    for _ in range(7):
        attempts.due_s = 0
        with pytest.raises(OSError, match="Input/output error"):
            await failed.retry(key, ())
        pauses.append(attempts.due_s - attempts.failed_s)
        with pytest.raises(KafkaError, match="Input/output error"):
            await failed.retry(key, ())
    for pause, expected in zip(pauses, (1, 2, 4, 8, 16, 30, 30), strict=True):
        assert 0.8 * expected <= pause <= 1.2 * expected
    failed._failed.clear()
    failed.add_unopened(key)
    assert failed._attempts[key] is attempts, "it has failed a moment ago"
    failed._failed.clear()
    attempts.failed_s -= FORGIVEN_S
    failed.add_unopened(key)
    assert failed._attempts[key].due_s <= loop.time()
    failed.close()
    assert woken == []


REGISTERED = PartitionRegistration(3, 5, 9, (1, 2, 3), (1, 3), (None, LOST_DIRECTORY, None))


@pytest.mark.parametrize(
    ("change", "lost", "is_served"),
    [
        pytest.param({}, 0, True, id="another one leads"),
        pytest.param({"directories": (None, DIRECTORY, None)}, 0, False, id="not noted as lost"),
        pytest.param({"directories": ()}, 0, False, id="directories unknown"),
        pytest.param({"isr": (1, 2, 3)}, 0, False, id="in the ISR still"),
        pytest.param({"leader": 2, "isr": (2,)}, 0, False, id="leads in the epoch in which it failed"),
        pytest.param({"leader": 2, "isr": (2,), "leader_epoch": 6}, 0, True, id="elected while lost"),
        pytest.param({"leader": 2, "isr": (2,), "leader_epoch": 6}, 4, True, id="elected, shorter"),
        pytest.param({"leader": NO_LEADER, "isr": (2,)}, 0, True, id="last member, whole"),
        pytest.param({"leader": NO_LEADER, "isr": (2,)}, 4, False, id="last member, shorter"),
        pytest.param({}, 4, True, id="shorter, another one leads"),
    ],
)
def test_D3_when_a_log_is_served_again(change: dict[str, object], lost: int, is_served: bool) -> None:
    failed = FailedLog(5, 100, 90, 0, is_proven=True, lost_records=lost)
    registration = replace(REGISTERED, **change)  # type: ignore[arg-type]
    assert (obstacle(failed, registration, 2) is None) is is_served
    assert obstacle(replace(failed, last_epoch=NO_EPOCH), registration, 2) is None
