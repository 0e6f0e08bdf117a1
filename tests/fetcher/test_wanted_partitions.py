"""What a fetch asks for: a replica is looked at when something may have changed, and all of them now and then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tierfetch.fetcher.core.replication_quota import FollowerThrottle, NoThrottle
from tierfetch.fetcher.followed_replica import FollowedReplica, ReplicaProgress, ReplicaState
from tierfetch.fetcher.wanted_partitions import LOOK_AT_ALL_S, LOOK_LATE_MAX, LOOK_MAX, LOOKS_PER_S, WantedPartitions
from tierfetch.protocol.topics import TopicIdPartition

from .cluster import OTHER
from .model_follower import ModelFollower
from .model_log import ModelLog
from .model_tier import PARTITION

Replicas = dict[TopicIdPartition, FollowedReplica]


def following(key: TopicIdPartition, *, end: int = 5) -> FollowedReplica:
    """One that has all that was committed."""
    log = ModelLog()
    log.append(0, end)
    replica = FollowedReplica(ModelFollower(log=log, partition=key), 0, ReplicaProgress(0.0))
    replica.state, replica.is_caught_up = ReplicaState.FETCHING, True
    return replica


@pytest.fixture
def replicas() -> Replicas:
    return {key: following(key) for key in (PARTITION, OTHER)}


@pytest.fixture
def wanted(replicas: Replicas) -> WantedPartitions:
    wanted = WantedPartitions(replicas, NoThrottle(), 1000)
    assert set(wanted.look(0.0)) == {PARTITION, OTHER}
    return wanted


def positions(wanted: WantedPartitions) -> list[tuple[str, int]]:
    return [(key.topic, request.fetch_offset) for key, request in wanted.requests.items()]


def test_what_has_moved_is_asked_from_where_it_stands_behind_the_others(
    wanted: WantedPartitions, replicas: Replicas
) -> None:
    assert positions(wanted) == [("orders", 5), ("payments", 5)]
    assert list(wanted.look(0.1)) == []
    replicas[PARTITION].partition.log.append(0)
    assert positions(wanted) == [("orders", 5), ("payments", 5)], "nobody has said so"
    wanted.touch(PARTITION)
    wanted.touch(OTHER)
    assert list(wanted.look(0.1)) == [PARTITION, OTHER]
    assert positions(wanted) == [("payments", 5), ("orders", 6)]
    assert list(wanted.look(0.1)) == []


class Quota(NoThrottle):
    """One that may be exhausted at any time."""

    @property
    def is_limited(self) -> bool:
        return True


@pytest.mark.parametrize(("throttle", "looked_at"), [(NoThrottle(), set()), (Quota(), {PARTITION})])
def test_one_behind_is_looked_at_each_time_where_there_is_a_quota_and_one_that_bootstraps_when_that_ends(
    replicas: Replicas, throttle: FollowerThrottle, looked_at: set[TopicIdPartition]
) -> None:
    wanted = WantedPartitions(replicas, throttle, 1000)
    wanted.look(0.0)
    replicas[PARTITION].is_caught_up = False
    replicas[OTHER].state = ReplicaState.BOOTSTRAPPING
    for key in replicas:
        wanted.touch(key)
    assert set(wanted.look(0.1)) == {PARTITION, OTHER}
    for _ in range(3):
        assert (positions(wanted), wanted.is_in_motion) == ([("orders", 5)], True)
        assert set(wanted.look(0.1)) == looked_at
    replicas[PARTITION].is_caught_up, replicas[OTHER].state = True, ReplicaState.FETCHING
    for key in replicas:
        wanted.touch(key)
    assert set(wanted.look(0.1)) == {PARTITION, OTHER}
    assert (positions(wanted), wanted.is_in_motion) == ([("orders", 5), ("payments", 5)], False)
    assert list(wanted.look(0.1)) == []


def test_a_replica_is_in_motion_until_a_fetch_of_it_is_answered_and_behind_while_answers_bring_records(
    wanted: WantedPartitions, replicas: Replicas
) -> None:
    assert not wanted.is_behind
    third = replace(OTHER, partition=3)
    replicas[third] = following(third)
    replicas[third].is_caught_up = False
    wanted.touch(third)
    wanted.look(0.1)
    assert (wanted.is_in_motion, wanted.is_behind) == (True, True)
    wanted.look(0.1)
    assert wanted.is_in_motion, "the fetch failed"
    wanted.answered()
    replicas[third].partition.log.append(0)
    wanted.touch(third)
    wanted.look(0.1)
    assert (wanted.is_in_motion, wanted.is_behind) == (False, True)
    wanted.touch(third)
    wanted.answered()
    wanted.look(0.1)
    assert not wanted.is_behind, "the answer had nothing of it"
    replicas[third].partition.log.append(0)
    wanted.touch(third)
    wanted.look(0.1)
    assert (wanted.is_in_motion, wanted.is_behind) == (False, True)
    wanted.answered()
    replicas[third] = following(third, end=7)
    replicas[third].is_caught_up = False
    wanted.touch(third)
    wanted.look(0.1)
    assert wanted.is_in_motion, "another replica under the same name, which may have nothing to fetch"
    del replicas[third]
    wanted.touch(third)
    wanted.look(0.1)
    assert (wanted.is_in_motion, wanted.is_behind) == (False, False)


@pytest.mark.parametrize("state", [ReplicaState.BOOTSTRAPPING, ReplicaState.BACKOFF, ReplicaState.FAILED])
def test_a_look_does_not_cost_what_rests(wanted: WantedPartitions, replicas: Replicas, state: ReplicaState) -> None:
    """A thousand replicas that wait for a leader are looked at once, not at each fetch of the others."""
    waiting = {replace(OTHER, partition=number): following(OTHER) for number in range(1, 1_001)}
    replicas.update(waiting)
    for key, replica in waiting.items():
        replica.state, replica.is_caught_up = state, False
        wanted.touch(key)
    assert len(wanted.look(0.1)) == 1_000
    assert [len(wanted.look(0.1)) for _ in range(3)] == [0, 0, 0]


def test_the_look_at_all_goes_round_in_pieces() -> None:
    count = 2 * LOOK_MAX + 1
    replicas = {replace(PARTITION, partition=number): following(PARTITION) for number in range(count)}
    wanted = WantedPartitions(replicas, NoThrottle(), 1000)
    looks = [list(wanted.look(at_s)) for at_s in (0.0, 0.1, 0.2, 0.3, 0.4, LOOK_AT_ALL_S)]
    assert list(map(len, looks)) == [LOOK_MAX, LOOK_MAX, 1, 0, 0, LOOK_MAX]
    assert [key.partition for look in looks[:3] for key in look] == list(range(count))


def test_of_many_replicas_a_second_looks_at_so_many_and_no_more() -> None:
    """A round costs 25 us a replica: with 10,000 each half second it was half of a core."""
    replicas = {replace(PARTITION, partition=number): following(PARTITION) for number in range(3 * LOOKS_PER_S)}
    wanted = WantedPartitions(replicas, NoThrottle(), 1000)
    looked = [len(wanted.look(number / 100)) for number in range(1_200)]
    assert max(looked) == LOOK_MAX
    assert sum(looked) == 4 * len(replicas), "in twelve seconds, from the first moment on"


@pytest.mark.parametrize(("apart_s", "rounds"), [(0.01, 4), (0.1, 4), (0.5, 4), (1.0, 2)])
def test_a_second_looks_at_so_many_however_rare_the_fetches_are(apart_s: float, rounds: int) -> None:
    """Up to twice a second, as often as a leader answers that has nothing new."""
    replicas = {replace(PARTITION, partition=number): following(PARTITION) for number in range(3 * LOOKS_PER_S)}
    wanted = WantedPartitions(replicas, NoThrottle(), 1000)
    looked = [len(wanted.look(number * apart_s)) for number in range(round(12 / apart_s))]
    assert max(looked) <= LOOK_LATE_MAX
    assert sum(looked) == pytest.approx(rounds * len(replicas), rel=0.2)


@pytest.mark.parametrize("happens", ["has_failed", "leader_epoch"])
def test_what_happens_without_an_answer_is_noticed_in_time(
    wanted: WantedPartitions, replicas: Replicas, happens: str
) -> None:
    setattr(replicas[PARTITION].partition, happens, 1)
    wanted.look(LOOK_AT_ALL_S - 0.01)
    assert len(wanted.requests) == 2
    wanted.look(LOOK_AT_ALL_S)
    assert positions(wanted) == [("payments", 5)]


def test_an_answer_is_for_the_replica_that_was_fetched(wanted: WantedPartitions, replicas: Replicas) -> None:
    before = replicas[PARTITION]
    assert wanted.fetched(PARTITION) is before
    after = replicas[PARTITION] = following(PARTITION)
    assert wanted.fetched(PARTITION) is None
    wanted.touch(PARTITION)
    wanted.look(0.1)
    assert wanted.fetched(PARTITION) is after
    del replicas[PARTITION]
    wanted.touch(PARTITION)
    wanted.look(0.1)
    assert (wanted.fetched(PARTITION), positions(wanted)) == (None, [("payments", 5)])


def test_what_was_looked_at_while_nothing_was_fetched_is_told_with_the_next_fetch(
    wanted: WantedPartitions, replicas: Replicas
) -> None:
    """Or the leader would go on to be asked for a partition that was removed meanwhile."""
    del replicas[PARTITION]
    replicas[OTHER].state = ReplicaState.BACKOFF
    for key in (PARTITION, OTHER):
        wanted.touch(key)
    wanted.look(0.1)
    assert positions(wanted) == []
    replicas[OTHER].state = ReplicaState.FETCHING
    wanted.touch(OTHER)
    assert set(wanted.look(0.1)) == {PARTITION, OTHER}
    assert positions(wanted) == [("payments", 5)]
