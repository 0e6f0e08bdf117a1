"""What a leader does for those whose fetches wait, however many they are."""

from __future__ import annotations

import pytest

from tierfetch.quorum.core import leader_fetch
from tierfetch.quorum.core.effects import Effect, Reply, SetTimer
from tierfetch.quorum.core.events import RequestReceived, TimerFired
from tierfetch.quorum.core.messages import FetchRequest
from tierfetch.quorum.core.replica import Replica
from tierfetch.quorum.core.roles import ParkedFetch, ParkedFetches
from tierfetch.quorum.core.state import ReplicaKey

from .cluster import Cluster, Node, key_of
from .test_core_membership import ready

OBSERVERS = range(100, 150)


def fetch(leader: Node, observer: int, now_ms: int) -> list[Effect]:
    """Of one that has everything, and waits for more."""
    core = leader.core
    request = FetchRequest(
        cluster_id=None,
        replica=key_of(observer),
        epoch=core.epoch,
        fetch_offset=core.log_end_offset,
        last_fetched_epoch=core.epoch,
        max_wait_ms=500,
        high_watermark=core.status.high_watermark,
    )
    return core.step(RequestReceived(observer, request), now_ms)


def test_Q5_who_comes_is_looked_at_and_not_all_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([1])
    ready(cluster)
    leader = cluster.nodes[1]
    looks: list[ReplicaKey] = []
    look_at = leader_fetch._look_at

    def count(replica: Replica, parked: ParkedFetches, fetch: ParkedFetch) -> None:
        looks.append(fetch.request.replica)
        look_at(replica, parked, fetch)

    monkeypatch.setattr(leader_fetch, "_look_at", count)
    for observer in OBSERVERS:
        assert not any(isinstance(effect, Reply) for effect in fetch(leader, observer, cluster.now_ms))
    assert looks == [key_of(observer) for observer in OBSERVERS]
    looks.clear()
    cluster.append(leader, b"x")
    cluster.run_until(lambda: leader.core.status.high_watermark == leader.core.log_end_offset)
    assert set(cluster.answers) == set(OBSERVERS)
    assert len(looks) == len(OBSERVERS)


def test_Q5_waits_that_end_nearly_together_end_in_one_step() -> None:
    cluster = Cluster([1])
    ready(cluster)
    leader, now_ms = cluster.nodes[1], cluster.now_ms
    for observer, later_ms in ((100, 0), (101, 7), (102, 8)):
        assert not any(isinstance(effect, Reply) for effect in fetch(leader, observer, now_ms + later_ms))
    assert not any(isinstance(effect, Reply) for effect in leader.core.step(TimerFired(), now_ms + 499))
    effects = leader.core.step(TimerFired(), now_ms + 500)
    assert [effect.token for effect in effects if isinstance(effect, Reply)] == [100, 101]
    assert SetTimer(now_ms + 508) in effects
