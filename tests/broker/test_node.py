"""Whole brokers in one event loop: replication, roles that move, topics that go, starts that fail."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tierfetch.broker.cluster.view import NO_LEADER, ClusterImage, NewTopic, PartitionRegistration
from tierfetch.broker.config import BrokerConfig
from tierfetch.broker.environment import NodeEnvironment
from tierfetch.broker.node import StartError, open_broker
from tierfetch.broker.peers import bootstrap_settings, bootstrap_text
from tierfetch.broker.replicas.manager import ReplicaManager
from tierfetch.fetcher.policy_registry import ConfiguredPolicies
from tierfetch.log.core import LEADER_EPOCH_CHECKPOINT, AppendOrigin
from tierfetch.log.disk import Buffer, OsDisk
from tierfetch.log.keeper.log_directory import HeldLock
from tierfetch.log.partition_log import LogLocation, PartitionLog
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.tests.broker.hosting import batch
from tierfetch.tests.broker.images import CLUSTER_ID
from tierfetch.tests.broker.nodes import Nodes
from tierfetch.tests.broker.waiting import until

POLICIES = ConfiguredPolicies()


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[Nodes]:
    nodes = Nodes(tmp_path)
    yield nodes
    await nodes.close()


async def produce(nodes: Nodes, number: int, topic: str, *values: bytes) -> None:
    """Each in a batch of its own, committed."""
    partition = nodes.partition(number, topic)
    for value in values:
        appended = await partition.append(batch(value), AppendOrigin.CLIENT, acks_all=True)
        committed = partition.committed(appended.last_offset + 1, appended.leader_epoch)
        if committed is not None:
            async with asyncio.timeout(10):
                await committed


async def same_logs(nodes: Nodes, topic: str, *numbers: int) -> None:
    first, *others = numbers
    end = nodes.partition(first, topic).log.state.log_end_offset
    for number in others:
        await until(lambda number=number: nodes.partition(number, topic).log.state.log_end_offset == end)  # type: ignore[misc]
        assert nodes.log_bytes(number, topic) == nodes.log_bytes(first, topic)


async def test_followers_hold_the_leaders_bytes(nodes: Nodes) -> None:
    await nodes.start(1, 2, 3)
    await nodes.topic("t", 2, 1, 3)
    await produce(nodes, 2, "t", b"a", b"b", b"c")
    await same_logs(nodes, "t", 2, 1, 3)
    await until(lambda: nodes.partition(1, "t").log.state.high_watermark == 3)
    assert nodes.partition(1, "t").log.state.epochs.entries == nodes.partition(2, "t").log.state.epochs.entries


async def test_C4_leadership_moves_and_the_old_leader_follows(nodes: Nodes) -> None:
    await nodes.start(1, 2)
    topic = await nodes.topic("t", 1, 2)
    await produce(nodes, 1, "t", b"a")
    await nodes.operator.elect_leader(topic.id_partition(0), 2)
    await until(lambda: nodes.partition(2, "t").leadership is not None)
    assert list(nodes[2].fetchers.replicas()) == [], "a replica that leads is fetched"
    await produce(nodes, 2, "t", b"b")
    await same_logs(nodes, "t", 2, 1)
    with pytest.raises(KafkaError) as caught:
        nodes.partition(1, "t").leader()
    assert caught.value.code is ErrorCode.not_leader_or_follower
    assert [(entry.epoch, entry.start_offset) for entry in nodes.partition(1, "t").log.state.epochs.entries] == [
        (0, 0),
        (1, 1),
    ]


async def test_C4_partitions_that_are_not_assigned_any_more_are_deleted(nodes: Nodes) -> None:
    await nodes.start(1, 2)
    for name in ("t", "u"):
        await nodes.topic(name, 1, 2)
    await nodes.stop(2)
    await nodes.operator.delete_topic("t")
    await until(lambda: not (nodes.directory(1) / "t-0").exists())
    assert not nodes.hosts(1, "t")
    await nodes.start(2)
    assert not (nodes.directory(2) / "t-0").exists()
    assert nodes.hosts(2, "u")


async def test_topic_made_anew_under_its_name_begins_empty(nodes: Nodes) -> None:
    await nodes.start(1)
    await nodes.topic("t", 1)
    await produce(nodes, 1, "t", b"a")
    await nodes.operator.delete_topic("t")
    await until(lambda: not nodes.hosts(1, "t"))
    await nodes.topic("t", 1)
    assert nodes.partition(1, "t").log.state.log_end_offset == 0


async def test_restarted_leader_leads_under_a_new_epoch_and_keeps_its_data(nodes: Nodes) -> None:
    await nodes.start(1, 2)
    await nodes.topic("t", 1, 2)
    await produce(nodes, 1, "t", b"a", b"b")
    await nodes.stop(1)
    await nodes.start(1)
    assert nodes.registration("t").leader_epoch == 1
    log = nodes.partition(1, "t").log
    assert (log.state.log_end_offset, log.state.epochs.latest_epoch) == (2, 1)
    await produce(nodes, 1, "t", b"c")
    await same_logs(nodes, "t", 1, 2)


@pytest.mark.slow
async def test_follower_that_stops_leaves_the_isr_and_joins_again(nodes: Nodes) -> None:
    await nodes.start(1, 2)
    await nodes.topic("t", 1, 2)
    await nodes.stop(2)
    await produce(nodes, 1, "t", b"a")
    assert nodes.registration("t").isr == (1,)
    await nodes.start(2)
    await until(lambda: nodes.registration("t").isr == (1, 2))
    await same_logs(nodes, "t", 1, 2)


async def test_a_leaving_broker_copies_only_what_it_is_in_the_isr_of(nodes: Nodes) -> None:
    await nodes.start(1, 2)
    topics = {name: await nodes.topic(name, 1, 2) for name in ("in", "out")}
    isr_of = {"in": (1, 2), "out": (2,)}

    def left(image: ClusterImage) -> ClusterImage:
        given = {
            name: replace(
                topic,
                partitions={
                    0: replace(topic.partitions[0], leader=2, leader_epoch=9, partition_epoch=9, isr=isr_of[name])
                },
            )
            for name, topic in image.topics.items()
        }
        return replace(image, topics=given, brokers={**image.brokers, 1: replace(image.brokers[1], is_leaving=True)})

    nodes.cluster.change(left)
    for name in topics:
        await until(lambda name=name: nodes.partition(2, name).leadership is not None)  # type: ignore[misc]
        await produce(nodes, 2, name, b"a")
    await same_logs(nodes, "in", 1, 2)
    assert [key.topic for key, _ in nodes[1].fetchers.replicas()] == ["in"]
    assert nodes.partition(1, "out").leadership is None
    assert nodes.partition(1, "out").log.state.log_end_offset == 0


async def test_C1_broker_that_lost_its_only_log_does_not_lead_it(nodes: Nodes) -> None:
    await nodes.start(1)
    await nodes.topic("t", 1)
    await produce(nodes, 1, "t", b"a")
    await nodes.stop(1)
    nodes.directory(1).rename(nodes.base / "lost")
    await nodes.start(1)
    assert nodes.registration("t").leader == NO_LEADER
    with pytest.raises(KafkaError) as caught:
        nodes.partition(1, "t").leader()
    assert caught.value.code is ErrorCode.not_leader_or_follower


async def test_configs_take_effect_without_a_restart(nodes: Nodes) -> None:
    await nodes.start(1)
    await nodes.topic("t", 1, retention_ms="5000")
    view, log = nodes.operator, nodes.partition(1, "t").log
    assert log.state.config.retention_ms == 5000
    await view.alter_topic_configs("t", {"retention.ms": "7000", "min.insync.replicas": "2"})
    await until(lambda: log.state.config.retention_ms == 7000)
    assert nodes.partition(1, "t").leader().replicas.min_insync_replicas == 2
    await view.alter_broker_configs("default", {"log.segment.bytes": "2000000"})
    await until(lambda: log.state.config.segment_bytes == 2000000)


async def test_F1_option_takes_effect_without_a_restart(nodes: Nodes) -> None:
    await nodes.start(1)
    option = "follower.fetch.last.tiered.offset.enable"
    assert bootstrap_settings(nodes[1].configs, nodes[1].view.image, POLICIES).is_option_enabled is False
    await nodes.operator.alter_broker_configs("default", {option: "true"})
    assert bootstrap_settings(nodes[1].configs, nodes[1].view.image, POLICIES).is_option_enabled is True
    assert bootstrap_settings(nodes[1].configs, nodes[1].view.image, POLICIES).policy.name == "tier-first"
    await nodes.operator.alter_broker_configs("1", {option: "false"})
    assert bootstrap_settings(nodes[1].configs, nodes[1].view.image, POLICIES).is_option_enabled is False


async def test_the_log_names_the_bootstrap_policy_at_the_start(nodes: Nodes, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await nodes.start(1)
    assert (
        "bootstrap policy of empty replicas: local-log-start: remote.log.storage.system.enable is false" in caplog.text
    )


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({}, "local-log-start: remote.log.storage.system.enable is false"),
        (
            {"remote_log_storage_system_enable": True},
            "local-log-start: follower.fetch.last.tiered.offset.enable is false, and bootstrap.policy=bounded-local"
            " does not act until then",
        ),
        ({"remote_log_storage_system_enable": True, "follower_fetch_last_tiered_offset_enable": True}, "bounded-local"),
    ],
)
def test_what_the_log_says_of_the_bootstrap_policy(keys: dict[str, bool], text: str) -> None:
    config = BrokerConfig.model_construct(bootstrap_policy="bounded-local", **keys)
    assert bootstrap_text(config) == text


async def test_log_that_a_full_disk_kept_closed_is_opened_when_there_is_room(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tierfetch.broker.replicas.manager.TICK_S_MAX", 0.02)
    await nodes.start(1, 2)
    await nodes.topic("t", 1, 2)
    await nodes.stop(2)

    async def full(location: LogLocation) -> PartitionLog:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(PartitionLog, "open", full)
        await nodes.start(2)
        assert not nodes.hosts(2, "t")
    await until(lambda: nodes.hosts(2, "t"))
    await produce(nodes, 1, "t", b"a")
    await same_logs(nodes, "t", 1, 2)


@pytest.mark.parametrize("when", ["while it runs", "before it starts"])
async def test_C3_log_of_a_deleted_topic_goes_also_if_it_cannot_be_opened(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    monkeypatch.setattr("tierfetch.broker.replicas.manager.TICK_S_MAX", 0.02)
    await nodes.start(1, 2)
    await nodes.topic("t", 1, 2)
    await nodes.topic("u", 1, 2)
    await nodes.stop(2)

    async def failing(location: LogLocation) -> PartitionLog:
        raise OSError(5, "Input/output error")

    directory = nodes.directory(2) / "t-0"
    with monkeypatch.context() as patch:
        patch.setattr(PartitionLog, "open", failing)
        if when == "before it starts":
            await nodes.operator.delete_topic("t")
        await nodes.start(2)
        if when == "while it runs":
            assert directory.exists()
            await nodes.operator.delete_topic("t")
        await until(lambda: not directory.exists())
    await until(lambda: nodes.hosts(2, "u"))
    assert not nodes[2].logs.failures


async def test_start_that_fails_says_why(nodes: Nodes) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listener = f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(StartError, match=r"broker 1 cannot start: .*address already in use"):
            await nodes.make(1, listeners=listener).__aenter__()
    with pytest.raises(StartError, match="no plugin 'floppy' is installed"):
        await nodes.make(
            2, remote_log_storage_system_enable="true", remote_log_storage_manager_plugin="floppy"
        ).__aenter__()


class HeldDirectories:
    """Stands for the locks of log directories."""

    def __init__(self) -> None:
        self.held: list[Path] = []
        self.were_held: list[Path] = []

    def lock(self, directory: Path) -> HeldLock:
        self.held.append(directory)
        self.were_held.append(directory)
        return SimpleNamespace(release=lambda: self.held.remove(directory))


async def test_a_start_that_fails_stops_what_it_started(nodes: Nodes) -> None:
    directories = HeldDirectories()
    environment = NodeEnvironment(cluster_view=nodes.cluster.view(), lock_directory=directories.lock)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        config = nodes.config(1, listeners=f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(StartError, match="address already in use"):
            await open_broker(config, environment).__aenter__()
    assert directories.were_held == [nodes.directory(1)]
    assert directories.held == []


async def test_directory_of_another_cluster_is_refused(nodes: Nodes) -> None:
    await nodes.start(1)
    await nodes.stop(1)
    nodes.cluster.image = replace(nodes.cluster.image, cluster_id=CLUSTER_ID)
    with pytest.raises(StartError, match=CLUSTER_ID):
        await nodes.make(1).__aenter__()


async def test_a_broker_can_be_started_again_after_a_failed_start(nodes: Nodes) -> None:
    nodes.base.joinpath("data-1").write_text("no directory")
    with pytest.raises(StartError):
        await nodes.make(1).__aenter__()
    nodes.base.joinpath("data-1").unlink()
    await nodes.start(1)


async def test_C4_an_image_makes_a_broker_look_at_what_it_changes_alone(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    await nodes.start(1, 2)
    for name in ("t", "u", "v"):
        await nodes.topic(name, 1, 2)
    await until(lambda: all(nodes.registration(name).isr == (1, 2) for name in ("t", "u", "v")))
    looked_at: list[str] = []
    set_up = ReplicaManager._set_up

    async def noted(manager: ReplicaManager, key: TopicIdPartition, registration: PartitionRegistration) -> None:
        looked_at.append(key.topic)
        await set_up(manager, key, registration)

    monkeypatch.setattr(ReplicaManager, "_set_up", noted)
    await nodes.operator.alter_topic_configs("t", {"retention.ms": "7000"})
    await until(lambda: looked_at == ["t", "t"])
    await nodes.operator.elect_leader(nodes.partition(1, "u").partition, 2)
    await until(lambda: looked_at[2:] == ["u", "u"] and nodes.partition(2, "u").leadership is not None)
    await nodes.operator.delete_topic("v")
    await until(lambda: not nodes.hosts(1, "v") and not nodes.hosts(2, "v"))
    assert looked_at[4:] == []


LEADERSHIPS = 32


async def test_leaderships_that_move_wait_for_no_disk(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of the epochs is ever written: a leader that waited for one would never lead."""
    await nodes.start(1, 2)
    await nodes.operator.create_topic(NewTopic("many", -1, -1, ((1, 2),) * LEADERSHIPS))
    partitions = nodes[2].hosted.partitions
    await until(lambda: len(partitions) == LEADERSHIPS)
    await until(lambda: all(each.is_in_isr for each in partitions.values()))
    write_file, released = OsDisk.write_file, asyncio.Event()

    async def stuck(disk: OsDisk, path: Path, data: Buffer, *, sync: bool = True) -> None:
        if path.name == LEADER_EPOCH_CHECKPOINT and path.is_relative_to(nodes.directory(2)):
            await released.wait()
        await write_file(disk, path, data, sync=sync)

    monkeypatch.setattr(OsDisk, "write_file", stuck)
    for each in list(partitions.values()):
        await nodes.operator.elect_leader(each.partition, 2)
    try:
        await until(lambda: all(each.leadership is not None for each in partitions.values()))
    finally:
        released.set()
