"""The shared cluster file as brokers use it: changes under the lock, seen by the others, wrong files survived."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest

from tierfetch.broker import static_view
from tierfetch.broker.cluster_view import NO_LEADER, BrokerRegistration, ClusterImage, NewTopic
from tierfetch.broker.static_file import ClusterFileError
from tierfetch.broker.static_view import StaticClusterView
from tierfetch.log.disk_os import OsDisk
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.tests.broker.waiting import POLL_S, until


@pytest.fixture
async def disk() -> AsyncIterator[OsDisk]:
    disk = OsDisk(threads=2)
    yield disk
    await disk.close()


@pytest.fixture
async def views(tmp_path: Path, disk: OsDisk) -> AsyncIterator[list[StaticClusterView]]:
    """Two brokers' views of one file."""
    made = [StaticClusterView(tmp_path / "c.yaml", disk, random.Random(n), poll_interval_s=POLL_S) for n in (1, 2)]
    for view in made:
        await view.start()
    yield made
    for view in made:
        await view.close()


def broker(number: int, directory: int = 0) -> BrokerRegistration:
    return BrokerRegistration(number, "127.0.0.1", 9000 + number, None, (UUID(int=directory or number),))


async def test_absent_file_is_made_once(views: list[StaticClusterView]) -> None:
    assert views[0].image.cluster_id == views[1].image.cluster_id


async def test_a_change_is_published_before_it_returns_and_seen_by_the_others(views: list[StaticClusterView]) -> None:
    one, two = views
    seen: list[tuple[ClusterImage, ClusterImage]] = []
    one.subscribe(lambda old, new: seen.append((old, new)))
    await one.register(broker(1), found=[])
    await one.register(broker(2), found=[])
    created = await one.create_topic(NewTopic("t", 2, 2))
    assert [sorted(new.topics) for _, new in seen] == [[], [], ["t"]]
    await until(lambda: two.image == one.image)
    await two.alter_partition(created.id_partition(0), leader_epoch=0, partition_epoch=0, isr=[1])
    await until(lambda: one.image.topics["t"].partitions[0].isr == (1,))
    await two.elect_leader(created.id_partition(1), 1)
    await two.alter_topic_configs("t", {"retention.ms": "5"})
    await two.alter_broker_configs("default", {"log.retention.ms": "7"})
    await until(lambda: one.image == two.image)
    await one.delete_topic("t")
    assert one.image.topics == {}


async def test_two_brokers_change_the_file_at_once_and_nothing_is_lost(views: list[StaticClusterView]) -> None:
    await views[0].register(broker(1), found=[])
    await asyncio.gather(
        *(view.create_topic(NewTopic(f"t{n}-{i}", 1, 1)) for i, view in enumerate(views) for n in range(5))
    )
    await until(lambda: len(views[0].image.topics) == len(views[1].image.topics) == 10)


async def test_producer_ids_are_given_once(views: list[StaticClusterView]) -> None:
    blocks = await asyncio.gather(*(view.allocate_producer_ids() for view in (*views, *views)))
    assert sorted(block.first for block in blocks) == [0, 1000, 2000, 3000]


async def test_refused_change_writes_nothing(views: list[StaticClusterView], tmp_path: Path) -> None:
    before = (tmp_path / "c.yaml").read_bytes()
    with pytest.raises(KafkaError) as caught:
        await views[0].create_topic(NewTopic("t", 1, 1))
    assert caught.value.code is ErrorCode.invalid_replication_factor
    assert (tmp_path / "c.yaml").read_bytes() == before


async def test_wrong_edit_keeps_the_last_good_image(
    views: list[StaticClusterView], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "c.yaml"
    await views[0].register(broker(1), found=[])
    await views[0].create_topic(NewTopic("t", 1, 1))
    await until(lambda: "t" in views[1].image.topics)
    good = path.read_bytes()
    with caplog.at_level(logging.ERROR):
        path.write_bytes(good.replace(b"leader_epoch: 0", b"leader_epoch: -1"))
        await until(lambda: "leader_epoch: expected greater than or equal to 0" in caplog.text)
    assert "c.yaml: topics[0].partitions[0]" in caplog.text
    assert "t" in views[1].image.topics
    path.write_bytes(good.replace(b"next_producer_id: 0", b"next_producer_id: 5"))
    assert (await views[1].allocate_producer_ids()).first == 5


async def test_edit_that_makes_two_leaders_of_an_epoch_is_refused(
    views: list[StaticClusterView], tmp_path: Path
) -> None:
    path = tmp_path / "c.yaml"
    for number in (1, 2):
        await views[0].register(broker(number), found=[])
    await views[0].create_topic(NewTopic("t", 1, 2))
    path.write_bytes(path.read_bytes().replace(b"leader: 1\n", b"leader: 2\n"))
    with pytest.raises(ClusterFileError, match="t-0: leader changed from 1 to 2 within leader_epoch 0"):
        await views[0].delete_topic("t")


async def test_C1_broker_with_a_new_directory_is_told_what_happens(
    views: list[StaticClusterView], caplog: pytest.LogCaptureFixture
) -> None:
    view = views[0]
    for number in (1, 2):
        await view.register(broker(number), found=[])
    for name, replicas in (("led", (1, 2)), ("alone", (1,)), ("followed", (2, 1))):
        await view.create_topic(NewTopic(name, -1, -1, (replicas,)))
    await view.register(broker(1, directory=99), found=[])
    leaders = {name: (entry.partitions[0].leader, entry.partitions[0].isr) for name, entry in view.image.topics.items()}
    assert leaders == {"led": (2, (2,)), "alone": (NO_LEADER, ()), "followed": (2, (2,))}
    assert "log of led-0 that broker 1 had in a registered log directory is gone: it refuses to lead" in caplog.text
    assert "broker 2 of the ISR [1, 2] leads from now on" in caplog.text
    assert "alone-0 has no leader now. Put the directory back" in caplog.text
    assert "write in " in caplog.text
    assert "leader: 1, isr: [1], leader_epoch and partition_epoch raised by 1" in caplog.text
    assert "left the ISR [2, 1] and will replicate anew from leader 2" in caplog.text


async def test_lock_held_by_another_process_has_a_deadline(
    views: list[StaticClusterView], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(static_view, "LOCK_TIMEOUT_S", 0.02)
    async with views[0]._locked():
        with pytest.raises(OSError, match="locked by another process"):
            await views[1].allocate_producer_ids()


async def test_unusable_file_at_start_is_named(tmp_path: Path, disk: OsDisk) -> None:
    (tmp_path / "c.yaml").write_text("topics: 3")
    with pytest.raises(ClusterFileError, match=r"c\.yaml: cluster_id: Field required"):
        await StaticClusterView(tmp_path / "c.yaml", disk, random.Random(0)).start()
