"""Replication throttles (KIP-73): the bytes, the lists, and a fetcher that is held back."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.fetcher.core.replication_quota import (
    UNLIMITED,
    ReplicationQuota,
    throttled_partitions,
)
from tierfetch.log.core import LogConfig
from tierfetch.protocol.errors import KafkaError
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.tests.fetcher.cluster import Cluster, until
from tierfetch.tests.fetcher.model_log import ModelLog


def test_nothing_is_held_back_without_a_limit() -> None:
    quota = ReplicationQuota(0.0)
    quota.record(10**12, 1.0)
    assert not quota.is_limited
    assert quota.wait_s(1.0) == 0


def test_a_debt_is_waited_for() -> None:
    quota = ReplicationQuota(0.0)
    quota.limit(1000, 0.0)
    assert quota.wait_s(0.0) == 0, "the first may take any number"
    quota.record(3000, 0.0)
    assert quota.wait_s(1.0) == pytest.approx(2.0)
    assert quota.wait_s(3.0) == 0


def test_what_is_not_used_is_kept_for_a_second() -> None:
    quota = ReplicationQuota(0.0)
    quota.limit(1000, 0.0)
    quota.record(1000, 100.0)
    assert quota.wait_s(100.0) == 0
    quota.record(500, 100.0)
    assert quota.wait_s(100.0) == pytest.approx(0.5)


def test_a_new_limit_repays_the_old_debt() -> None:
    quota = ReplicationQuota(0.0)
    quota.limit(1000, 0.0)
    quota.record(2000, 0.0)
    quota.limit(4000, 0.0)
    assert quota.wait_s(0.0) == pytest.approx(0.5)
    quota.limit(0, 0.0)
    assert quota.wait_s(0.0) == float("inf")
    quota.limit(UNLIMITED, 0.0)
    assert quota.wait_s(0.0) == 0


@given(st.lists(st.tuples(st.floats(0, 2), st.integers(0, 5000)), min_size=1))
def test_never_more_than_the_rate_a_burst_and_one_fetch(steps) -> None:
    quota = ReplicationQuota(0.0)
    quota.limit(1000, 0.0)
    now_s, moved = 0.0, 0
    for pause_s, size in steps:
        now_s += pause_s
        if quota.wait_s(now_s) == 0:
            quota.record(size, now_s)
            moved += size
    assert moved <= 1000 * (now_s + 1) + 5000 + 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", frozenset()),
        (" ", frozenset()),
        (" * ", None),
        ("*", None),
        ("0:1, 1:1,2:2", frozenset({0, 1})),
        ("0:2", frozenset()),
    ],
)
def test_which_partitions_a_list_throttles(text, expected) -> None:
    assert throttled_partitions(text, 1) == expected
    LogConfig.from_topic_configs({"follower.replication.throttled.replicas": text})


@pytest.mark.parametrize(
    "text", ["0", "0:1,x", "*:1", "0:-1", "*,0:1", "0:1,", ",", "0:\u0661", "0:1\n0:2", "0:" + "1" * 99]
)
def test_a_list_that_cannot_be_read_says_what_is_expected(text) -> None:
    with pytest.raises(ValueError, match=r"expected partition:broker"):
        throttled_partitions(text, 1)
    with pytest.raises(KafkaError, match=r"expected partition:broker"):
        LogConfig.from_topic_configs({"leader.replication.throttled.replicas": text})


class Brake:
    """Holds every replica back until it is released."""

    is_limited = True

    def __init__(self) -> None:
        self.wait = 0.0
        self.asked = 0
        self.bytes = 0

    def wait_s(self, partition: TopicIdPartition) -> float:
        self.asked += 1
        return self.wait

    def fetched(self, partition: TopicIdPartition, size_bytes: int) -> None:
        self.bytes += size_bytes


async def test_a_replica_that_is_behind_is_held_back_and_one_in_sync_is_not() -> None:
    log = ModelLog()
    log.append(0, 100)
    cluster = Cluster(log)
    brake = Brake()
    brake.wait = 0.01
    make = cluster._new_fetcher

    def new_fetcher():
        fetcher = make()
        fetcher._throttle = fetcher._wanted._throttle = brake
        return fetcher

    cluster._new_fetcher = new_fetcher
    async with cluster.running():
        await until(lambda: brake.asked > 2)
        assert cluster.follower.offsets.log_end_offset == 0
        progress = cluster.fetcher.replicas[cluster.follower.topic_id_partition].progress
        assert progress.held_back_s == 0, "it counts once it is over"
        brake.wait = 0.0
        await cluster.until_caught_up()
        assert brake.bytes > 0
        assert progress.held_back_s > 0
        held_back_s = progress.held_back_s
        await until(lambda: cluster.fetcher.replicas[cluster.follower.topic_id_partition].is_caught_up)
        brake.wait = 0.01
        log.append(0)
        await asyncio.sleep(0)
        await cluster.until_caught_up()
        assert progress.held_back_s == held_back_s, "what keeps up is never held back"
