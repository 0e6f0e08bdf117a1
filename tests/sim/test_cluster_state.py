"""What deleted topics, expired segments and copies that were given up leave behind."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from tierfetch.broker.cluster.view import ClusterImage, PartitionRegistration, TopicImage
from tierfetch.log.core import EpochEntry, LeaderEpochCache, LogConfig
from tierfetch.plugins.layout import partition_directory, segment_key
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.remote.core import (
    RemoteLogLedger,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from tierfetch.sim.judges.core.judge import Judges
from tierfetch.sim.judges.core.truth import ClusterTruth
from tierfetch.sim.machine.clock import EPOCH_MS
from tierfetch.sim.machine.world import World
from tierfetch.sim.scenarios.cluster_state import _of_deleted_topics, _of_leftovers, _of_tier, lags, thin

GONE = TopicIdPartition(UUID(int=1), "side-1", 0)
KEY = f"{partition_directory(GONE)}/{0:020}-AAAAAAAAAAAAAAAAAAAAAA.log"


def test_every_object_of_a_deleted_topic_is_a_leak_but_what_nobody_can_know_of() -> None:
    truth = ClusterTruth("c", "PLAINTEXT", Judges())
    truth.topics[GONE.topic_id] = GONE.topic
    with World(1) as world:
        assert not list(_of_deleted_topics(truth, {}, world.store))
        world.store.put(KEY, b"records")
        ((where, why),) = _of_deleted_topics(truth, {}, world.store)
        assert (where, why) == ("side-1-0", f"was deleted, and 1 objects are left, as {KEY}")
        world.store.remove(KEY)
        world.store.put(KEY, b"records")
        assert not list(_of_deleted_topics(truth, {}, world.store))


STARTED, FINISHED, DELETING = list(RemoteLogSegmentState)[:3]
NAME = TopicIdPartition(UUID(int=2), "t", 0)
SEGMENT = RemoteLogSegmentMetadata(
    segment_id=RemoteLogSegmentId(NAME, UUID(int=3)),
    start_offset=0,
    end_offset=9,
    max_timestamp_ms=0,
    broker_id=2,
    event_timestamp_ms=EPOCH_MS,
    segment_size_in_bytes=0,
    segment_leader_epochs=(EpochEntry(0, 0),),
)


def leftovers(
    *states: RemoteLogSegmentState,
    leader: int = 1,
    log_start: int = 0,
    at_s: float = 0.0,
    other: RemoteLogSegmentMetadata | None = None,
) -> list[str]:
    """Of one segment that came to the last of these, by broker 2; a copy may take a second. `other` is copied, too."""
    ledger = RemoteLogLedger(NAME)
    if other is not None:
        ledger.apply(other)
        ledger.apply(RemoteLogSegmentMetadataUpdate(other.segment_id, FINISHED, EPOCH_MS, 1))
    ledger.apply(SEGMENT)
    for state in states[1:]:
        ledger.apply(RemoteLogSegmentMetadataUpdate(SEGMENT.segment_id, state, EPOCH_MS, 2))
    with World(1) as world:
        world.loop.now_s = at_s
        return [reason for _, reason in _of_leftovers(*led(ledger, leader, log_start), world.store)]


def led(ledger: RemoteLogLedger, leader: int = 1, log_start: int = 0) -> tuple[Any, Any]:
    """A cluster, and its brokers, of which that one leads."""
    registration = PartitionRegistration(leader, 0, 0, (1, 2), (1, 2))
    image = ClusterImage("c", {}, {"t": TopicImage("t", NAME.topic_id, {}, {0: registration})}, {})
    epochs = LeaderEpochCache([EpochEntry(0, 0)])
    state = SimpleNamespace(log_start_offset=log_start, log_end_offset=100, epochs=epochs)
    hosted = SimpleNamespace(log=SimpleNamespace(state=state))
    broker = SimpleNamespace(
        config=SimpleNamespace(node_id=leader),
        tier=SimpleNamespace(manager=SimpleNamespace(ledger=lambda _: ledger)),
        hosted=SimpleNamespace(partitions={NAME.topic_partition: hosted}),
    )
    return SimpleNamespace(image=image), {leader: broker}


@pytest.fixture(autouse=True)
def a_second_for_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    deadline = SimpleNamespace(of_size_ms=lambda _: 1_000)
    config = SimpleNamespace(copy_deadline=deadline)
    monkeypatch.setattr("tierfetch.sim.scenarios.cluster_state.manager_config", lambda _: config)


def test_a_copy_is_given_up_once_nobody_can_be_at_it() -> None:
    copy = replace(SEGMENT, segment_id=RemoteLogSegmentId(NAME, UUID(int=4)))
    assert leftovers(STARTED, at_s=1.0, other=copy) == []
    (reason,) = leftovers(STARTED, at_s=1.5, other=copy)
    assert reason.endswith("was begun 1500 ms ago by 2")
    assert leftovers(STARTED, at_s=1.5, other=replace(copy, end_offset=8)) == [], "offset 9 is in no other copy"
    assert len(leftovers(STARTED, leader=2)) == 1, "its own it can give up at once"


def test_what_has_expired_is_deleted_to_the_end() -> None:
    assert leftovers(STARTED, FINISHED, log_start=9) == []
    assert len(leftovers(STARTED, FINISHED, log_start=10)) == 1
    assert len(leftovers(STARTED, FINISHED, DELETING)) == 1


def test_an_object_has_a_name_in_the_ledger() -> None:
    ledger = RemoteLogLedger(NAME)
    ledger.apply(SEGMENT)
    truth, brokers = led(ledger)
    with World(1) as world:
        world.store.put(segment_key(SEGMENT, None), b"records")
        assert not list(_of_leftovers(truth, brokers, world.store))
        foreign = f"{partition_directory(NAME)}/{20:020}-AAAAAAAAAAAAAAAAAAAAAA.log"
        world.store.put(foreign, b"records")
        ((_, why),) = _of_leftovers(truth, brokers, world.store)
        assert why == f"1 objects that no remote log metadata names are left, as {foreign}"
        world.store.remove(foreign)
        world.store.put(foreign, b"records")
        assert not list(_of_leftovers(truth, brokers, world.store))


class Segments(list[Any]):
    @property
    def active(self) -> Any:
        return self[-1]


def lagging(
    *states: RemoteLogSegmentState, stable: int = 30, leader: int = 1, failure: str | None = None, copies: bool = True
) -> list[tuple[int, int]]:
    """The end of the tier, and of what should be in it, of a log whose segments begin at 0, 10, 20 and 30."""
    truth, brokers = tiered(*states, stable=stable, leader=leader, failure=failure, copies=copies)
    return [(lag.tiered_end, lag.closed_end) for lag in lags(truth, lambda: brokers)]


def tiered(
    *states: RemoteLogSegmentState, stable: int = 30, leader: int = 1, failure: str | None = None, copies: bool = True
) -> tuple[Any, Any]:
    ledger = RemoteLogLedger(NAME)
    for segment in [SEGMENT] if states else []:
        ledger.apply(segment)
        for state in states[1:]:
            ledger.apply(RemoteLogSegmentMetadataUpdate(segment.segment_id, state, EPOCH_MS, 2))
    truth, brokers = led(ledger, leader)
    state = brokers[leader].hosted.partitions[NAME.topic_partition].log.state
    state.segments = Segments(SimpleNamespace(base_offset=offset) for offset in (0, 10, 20, 30))
    state.offsets, state.failure = SimpleNamespace(last_stable_offset=stable), failure
    state.config = LogConfig(remote_storage_enable=True, remote_log_copy_disable=not copies)
    return truth, brokers


def test_a_tier_lags_where_whole_segments_are_closed_and_stable() -> None:
    assert lagging() == [(0, 30)]
    assert lagging(STARTED, FINISHED) == [(10, 30)]
    assert lagging(STARTED, FINISHED, stable=29) == [(10, 20)], "a transaction is open in the last one"
    assert lagging(STARTED, FINISHED, stable=19) == []


def test_a_tier_does_not_lag_where_nothing_may_be_copied() -> None:
    assert lagging(stable=9) == [], "no whole segment is below the last stable offset"
    assert lagging(copies=False) == []
    assert lagging(failure="a write failed") == []


def test_a_tier_lags_also_where_a_deposed_leader_has_begun_a_copy() -> None:
    assert lagging(STARTED, leader=1) == lagging(STARTED, leader=2) == [(0, 30)]


def test_at_the_end_all_is_in_the_tier_whoever_has_begun_a_copy() -> None:
    def reasons(*states: RemoteLogSegmentState, leader: int = 1) -> list[str]:
        return [reason for _, reason in _of_tier(*tiered(*states, leader=leader))]

    assert reasons(STARTED, FINISHED) == ["is tiered up to 10, closed segments end at 30"]
    assert reasons(STARTED) == reasons(STARTED, leader=2) == ["is tiered up to 0, closed segments end at 30"]


def test_thin_replicas_are_those_that_brokers_wait_for() -> None:
    broker = SimpleNamespace(thin=SimpleNamespace(warm_in_ms=lambda: {NAME.topic_partition: 700}))
    full = SimpleNamespace(thin=SimpleNamespace(warm_in_ms=dict))
    brokers: Any = {1: broker, 2: full, 3: None}
    assert thin(brokers) == [(str(NAME.topic_partition), "is thin on broker 1, for 700 ms at most")]
