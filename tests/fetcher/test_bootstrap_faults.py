"""A bootstrap whose n-th call of any kind fails, for every n: the old replica or the new one, at last the new."""

from __future__ import annotations

from itertools import count

import pytest

from tierfetch.log.core import EpochEntry
from tierfetch.tests.fakes.faults import FailNth
from tierfetch.tests.fetcher.cluster import Cluster, until
from tierfetch.tests.fetcher.model_log import model_log

CALLS_MAX = 100


def cluster_with_tier() -> Cluster:
    log = model_log((0, 0), (1, 3), (2, 5), (3, 7), end=8)
    log.local_log_start_offset = 3
    cluster = Cluster(log)
    cluster.tier.upload(log, 0, 2)
    cluster.tier.upload(log, 3, 5)
    return cluster


def check_replica(cluster: Cluster) -> None:
    """Nothing of the bootstrap, or all of it."""
    log = cluster.follower.log
    if log.log_end_offset == 0:
        assert log.epochs.entries == ()
        assert cluster.follower.producer_snapshot is None
        return
    assert log.log_end_offset >= 6
    assert log.epochs.entries[:3] == (EpochEntry(0, 0), EpochEntry(1, 3), EpochEntry(2, 5))
    assert cluster.follower.producer_snapshot is not None
    assert log.high_watermark >= 6


class Fault:
    """The n-th call of one kind raises once; `strikes` tells whether the run got that far."""

    def __init__(self, n: int, error: Exception, cluster: Cluster) -> None:
        self.n = n
        self.error = error
        self.cluster = cluster
        self.calls = 0

    def __call__(self, call: str) -> None:
        check_replica(self.cluster)
        if not self.struck:
            self.calls += 1
            if self.struck:
                raise self.error

    @property
    def struck(self) -> bool:
        return self.calls >= self.n


async def test_every_call_to_the_leader_may_fail() -> None:
    for n in count(1):
        assert n < CALLS_MAX
        cluster = cluster_with_tier()
        fault = Fault(n, ConnectionResetError(f"call {n}"), cluster)
        cluster.leader.before_call = fault
        async with cluster.running():
            await cluster.until_caught_up()
        assert cluster.follower.log.records == cluster.log.records
        if not fault.struck:
            return


async def test_every_remote_call_may_fail() -> None:
    for n in count(1):
        assert n < CALLS_MAX
        cluster = cluster_with_tier()
        cluster.tier.storage.faults = FailNth(n)
        async with cluster.running():
            await cluster.until_caught_up()
        check_replica(cluster)
        assert cluster.follower.log.records == cluster.log.records
        if not cluster.tier.storage.faults.fired:
            assert n == 4, "epoch index, snapshot, size"
            return


async def test_every_local_effect_may_fail() -> None:
    for n in count(1):
        assert n < CALLS_MAX
        cluster = cluster_with_tier()
        fault = Fault(n, OSError(5, f"effect {n}"), cluster)
        cluster.follower.before_effect = fault
        async with cluster.running():
            await cluster.until_caught_up()
        assert cluster.follower.log.records == cluster.log.records
        if not fault.struck:
            assert n == 3, "adopt, append"
            return


@pytest.mark.parametrize("operation", ["fetch_index", "log_segment_size"])
async def test_a_tier_that_hangs_is_given_up_and_asked_again(operation: str) -> None:
    cluster = cluster_with_tier()
    cluster.tier.storage.hang_on.add(operation)
    async with cluster.running():
        await until(lambda: any(call.startswith(operation) for call, _ in cluster.tier.storage.calls))
        cluster.tier.storage.hang_on.clear()
        await cluster.until_caught_up()
    check_replica(cluster)
