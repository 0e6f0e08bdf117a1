"""Which replicas a broker holds back, by the cluster's configs; and a leader that does it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tierfetch.broker.cluster.topic_config import TopicConfigs
from tierfetch.broker.config.broker_config import parse_broker_config
from tierfetch.broker.handlers.fetch import FetchHandler
from tierfetch.broker.replicas.replication_throttles import LEADER_KEY, ReplicationThrottles
from tierfetch.log.core import LogConfig
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.tests.broker.hosting import Host, append, batch
from tierfetch.tests.broker.test_fetch import fetched, from_follower, sessions
from tierfetch.tests.broker.waiting import until


@pytest.mark.parametrize("key", ["leader.replication.throttled.replicas", "follower.replication.throttled.replicas"])
def test_a_topics_list_is_checked(key: str) -> None:
    for text in ("", "*", "0:1", "0:1,1:2"):
        LogConfig.from_topic_configs({key: text})
    with pytest.raises(KafkaError, match=r"partition:broker pairs") as refusal:
        LogConfig.from_topic_configs({key: "0-1"})
    assert refusal.value.code is ErrorCode.invalid_config


RATE_KEYS = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
CONFIG, _ = parse_broker_config(
    {"node.id": "1", "log.dirs": "data", "controller.quorum.bootstrap.servers": "127.0.0.1:1"}, "test"
)


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


async def throttles(host: Host, clock: Clock, **topic_configs: str) -> ReplicationThrottles:
    """1,000 bytes a second both ways."""
    throttles = ReplicationThrottles(host.view, TopicConfigs(host.view, CONFIG), 1, clock)
    await host.view.alter_broker_configs("default", dict.fromkeys(RATE_KEYS, "1000"))
    await host.view.alter_topic_configs(
        "t", {f"{key}.replication.throttled.replicas": text for key, text in topic_configs.items()}
    )
    return throttles


async def test_lists_and_rates_are_obeyed_as_the_cluster_has_them_now(host: Host) -> None:
    partition = (await host.topic("t", 1, 2)).partition
    clock = Clock()
    found = await throttles(host, clock, leader="0:1", follower="0:2")
    assert found.leader.applies_to("t", 0)
    assert not found.leader.applies_to("t", 1)
    assert not found.follower.applies_to("t", 0), "another broker's"
    found.leader.fetched(partition, 3000)
    assert found.leader.wait_s(partition) == pytest.approx(3.0)
    clock.now_s = 1.0
    assert found.leader.wait_s(partition) == pytest.approx(2.0)
    await host.view.alter_topic_configs("t", {LEADER_KEY: None})
    assert found.leader.wait_s(partition) == 0
    await host.view.alter_topic_configs("t", {LEADER_KEY: "*"})
    await host.view.alter_broker_configs("default", dict.fromkeys(RATE_KEYS))
    assert found.leader.wait_s(partition) == 0


async def test_a_leader_holds_back_who_is_not_in_sync(host: Host) -> None:
    partition = await host.topic("t", 1, 2, 3)
    clock = Clock()
    found = await throttles(host, clock, leader="*")
    handler = FetchHandler(host.hosted, sessions(), None, max_bytes=1 << 20, throttle=found.leader)
    for _ in range(3):
        await append(partition, batch(b"x" * 500))
    await until(lambda: partition.leadership is not None)
    partition.leadership.replicas.commit_isr((1, 2), partition.leadership.replicas.partition_epoch + 1)
    _, offsets = await fetched(handler, from_follower(0, replica=3))
    assert offsets == [0, 1, 2], "the first may take any number"
    _, offsets = await fetched(handler, from_follower(0, replica=3))
    assert offsets == []
    _, offsets = await fetched(handler, from_follower(0, replica=2))
    assert offsets == [0, 1, 2], "in sync"
    clock.now_s = 10.0
    _, offsets = await fetched(handler, from_follower(0, replica=3))
    assert offsets == [0, 1, 2]


async def test_who_is_held_back_is_answered_as_soon_as_the_quota_allows(host: Host) -> None:
    partition = await host.topic("t", 1, 2, 3)
    clock = Clock()
    found = await throttles(host, clock, leader="*")
    handler = FetchHandler(host.hosted, sessions(), None, max_bytes=1 << 20, throttle=found.leader)
    await append(partition, batch(b"x" * 100))
    partition.leadership.replicas.commit_isr((1, 2), partition.leadership.replicas.partition_epoch + 1)
    found.leader.fetched(partition.partition, 50)
    held_back = asyncio.create_task(fetched(handler, replace(from_follower(0, replica=3), max_wait_ms=3_600_000)))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not held_back.done(), "the quota's clock stands still"
    clock.now_s = 0.05
    _, offsets = await held_back
    assert offsets == [0]


async def test_who_is_held_back_below_the_high_watermark_waits_all_the_same(host: Host) -> None:
    partition = await host.topic("t", 1, 2, 3)
    found = await throttles(host, asyncio.get_running_loop().time, leader="*")
    handler = FetchHandler(host.hosted, sessions(), None, max_bytes=1 << 20, throttle=found.leader)
    await append(partition, batch(b"x" * 100))
    partition.leadership.replicas.commit_isr((1, 2), partition.leadership.replicas.partition_epoch + 1)
    partition.log.update_high_watermark(1)
    found.leader.fetched(partition.partition, 1 << 40)
    began_s = asyncio.get_running_loop().time()
    _, offsets = await fetched(handler, replace(from_follower(0, replica=3, high_watermark=0), max_wait_ms=50))
    assert offsets == []
    assert asyncio.get_running_loop().time() - began_s > 0.04, "it cannot raise its high watermark above its log's end"


async def test_a_list_that_somebody_wrote_by_hand_is_reported_and_throttles_nothing(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    partition = (await host.topic("t", 1, 2)).partition
    found = await throttles(host, Clock(), leader="every one")
    assert found.leader.wait_s(partition) == 0
    assert "throttles nothing" in caplog.text
